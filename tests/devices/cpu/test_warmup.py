"""`dmlpy warmup`: what it compiles, what it finds, and its message where there is nothing to compile."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.testing

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

import dmlpy as dml
from dmlpy import compiler, x
from dmlpy.cli.main import app
from dmlpy.cli.warmup import place, warm_up
from dmlpy.cli.warmup_work import WORK
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import ExecutionFlags
from dmlpy.description.stored_floats import stored
from dmlpy.devices.cpu import jit, plans
from dmlpy.devices.cpu.device import CpuDevice
from dmlpy.devices.persistence.image_store import ImageStore
from dmlpy.devices.plan import Plan
from dmlpy.graphs import OperatorNode


@pytest.fixture
def new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes this process forget what it has compiled, over an empty folder."""
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "kernels"))

    def forget() -> None:
        monkeypatch.setattr(jit, "_functions", {})
        for cached in (compiler._compile, compiler._compile_operator):
            cached.cache_clear()

    forget()
    return forget


def warmup(*arguments: str) -> tuple[int, str]:
    result = typer.testing.CliRunner().invoke(app, ["warmup", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    return result.exit_code, result.output


def test_the_cache_is_shown_and_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kernels"
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(folder))
    store = ImageStore.open()
    assert store is not None
    for number in range(3):
        store.write(f"{number:064x}", bytes(1000), "symbol")
    (folder / "notes.txt").write_text("not a kernel")

    def cache(*arguments: str) -> str:
        result = typer.testing.CliRunner().invoke(app, ["cache", *arguments])
        assert result.exit_code == 0
        return result.output

    assert cache() == f"3 compiled kernels, 3.1 kB, stored in {folder}\n"
    assert cache("--clear") == f"3 compiled kernels, 3.1 kB, removed from {folder}\n"
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    assert cache().startswith("0 compiled kernels, 0 bytes, ")


def test_what_is_compiled_is_found_later(new_process: Any, tmp_path: Path) -> None:
    status, out = warmup("Pooling")
    assert status == 0
    assert out.endswith(f"\nstored in {tmp_path / 'kernels'}\n")
    assert [line.split("compiled")[0].split("  ")[0].strip() for line in out.splitlines() if "compiled 1" in line] == [
        "MAX_POOLING",
        "AVERAGE_POOLING",
        "MAX_POOLING, whole images",
        "AVERAGE_POOLING, whole images",
    ]
    count = len(list((tmp_path / "kernels").iterdir()))
    new_process()
    status, out = warmup("pooling")
    assert (status, out.count("found 1 on disk"), out.count("compiled 1")) == (0, 4, 0)
    status, out = warmup("pooling")
    assert "nothing more to compile" in out
    assert len(list((tmp_path / "kernels").iterdir())) == count


def test_a_model_of_other_sizes_needs_no_more(new_process: Any) -> None:
    list(warm_up(["gemm", "normalization", "reduction"]))
    before = len(jit.loaded_functions)
    rows, matrix = x.input("rows", [1, 2, 33, 80]), x.input("matrix", [1, 2, 80, 48])
    scale = x.input("scale", [1, 2, 33, 80])
    normal = x.mean_variance_normalization1(rows, scale, scale, axes=[3], normalize_variance=True, epsilon=1e-3)
    product = x.activation_softmax1(x.gemm(normal, matrix), axes=[3])
    for node in x.graph([product, x.reduce(rows, function="AVERAGE", axes=[3])]).nodes:
        assert isinstance(node, OperatorNode)
        assert dml.compile(node.operator, "cpu").plan.startswith("strategy: compiled\n")
    assert len(jit.loaded_functions) == before


def test_networks_need_no_more(new_process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What graphs fuse, how they join launches, and what lies between layers. Nothing is compiled here: it would take half a minute."""
    monkeypatch.setattr(jit.Kernel, "_make", lambda kernel, choices, form: jit._functions.setdefault(form, SimpleNamespace(address=0)))
    list(warm_up())
    warmed = set(jit._functions)
    sides: dict[str, Any] = {"start_padding": (1, 1), "end_padding": (1, 1)}
    dense, window = x.input("dense", [48, 48, 3, 3]), x.input("window", [48, 1, 3, 3])
    number, found = x.input("number", [1, 1, 1, 3], "INT64"), list[x.Expression]()
    for size in (8, 40):
        last = image = x.input(f"image {size}", [1, 48, size, size])
        last = x.activation_relu(x.convolution(last, dense, **sides) + image)
        last = x.convolution(last, dense, **sides) + image
        last = x.activation_hard_swish(x.convolution(last, dense, **sides))
        last = x.activation_hard_swish(x.convolution(last, window, group_count=48, **sides))
        last = x.average_pooling(last, window_size=(size, size), include_padding=False)
        found.append(x.gather(last, number + number, axis=1, index_dimensions=1))
    plan, loaded = dml.compile(x.graph(found), "cpu").plan, set(jit._functions)
    new_process()  # what has these functions shall not stay
    assert plan.count("epilogue in float32") == 2 * 4
    assert "strategy: numpy" not in plan
    assert loaded <= warmed
    assert {"build_batched_launch", "build_relocation", "build_loop"} <= {str(target).rpartition(":")[2] for target, *_ in warmed}


@pytest.mark.parametrize("dtype", ["UINT8", "INT8"])
def test_networks_of_bytes_need_no_more(new_process: Any, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Also what graphs fuse between bytes: tables and chains."""
    monkeypatch.setattr(jit.Kernel, "_make", lambda kernel, choices, form: jit._functions.setdefault(form, SimpleNamespace(address=0)))
    list(warm_up(["quantized", "elements"]))
    warmed, one = set(jit._functions), [1, 1, 1, 1]
    scale, zero, found = x.input("scale", one), x.input("zero", one, dtype), list[x.Expression]()
    members: dict[str, Any] = {"input_scale": scale, "input_zero_point": zero, "output_scale": scale, "output_zero_point": zero}
    sides: dict[str, Any] = {"filter_scale": scale, "group_count": 24}
    for at, (size, window, stride) in enumerate(((30, 3, 2), (28, 5, 1), (112, 5, 2))):
        last = x.input(f"image {at}", [1, 24, size, size], dtype)
        pads: dict[str, Any] = {"start_padding": (window // 2,) * 2, "end_padding": (window // 2,) * 2}
        filters = x.input(f"filter {at}", [24, 1, window, window], "INT8")
        last = x.quantized_linear_convolution(last, filter=filters, strides=(stride, stride), **members, **sides, **pads)
        number = x.cast(last, output_data_type="FLOAT32")
        table = x.cast(x.activation_sigmoid(number * 0.02) * 200.0, output_data_type=dtype)
        factor = x.cast(x.input(f"factor {at}", [1, 24, 1, 1], dtype), output_data_type="FLOAT32")
        found.append(x.cast(x.cast(table, output_data_type="FLOAT32") * factor, output_data_type=dtype))
        last = x.max_pooling(table, window_size=(2, 2))
        other = x.input(f"other {at}", last.sizes, dtype)
        number = x.cast(last, output_data_type="FLOAT32") * x.cast(other, output_data_type="FLOAT32")
        last = x.cast(number * 0.01, output_data_type=dtype)
        numbers = [x.dequantize_linear(each, scale=scale, zero_point=zero) for each in (last, other)]
        last = x.quantize_linear(numbers[0] * numbers[1], scale=scale, zero_point=zero)
        found.append(x.quantized_linear_average_pooling(last, window_size=last.sizes[2:], include_padding=False, **members))
    plan, loaded = dml.compile(x.graph(found), "cpu").plan, set(jit._functions)
    new_process()  # what has these functions shall not stay
    assert "strategy: numpy" not in plan
    assert ("table" in plan, "a table for each of" in plan, "instructions on" in plan) == (True, True, True)
    assert loaded <= warmed


def test_what_graphs_fuse_is_planned_once(new_process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the device does not run it, its nodes are other work."""
    planned: list[OperatorDesc] = []

    def counted(device: CpuDevice, desc: OperatorDesc, flags: ExecutionFlags = ExecutionFlags.NONE) -> Plan | None:
        planned.append(desc)
        return plan(device, desc, flags)

    plan = CpuDevice.plan
    monkeypatch.setattr(CpuDevice, "plan", counted)
    monkeypatch.setattr(jit.Kernel, "_make", lambda kernel, choices, form: jit._functions.setdefault(form, SimpleNamespace(address=0)))
    warmed = [item.work for item in warm_up(["convolution"])]
    new_process()  # what has these functions shall not stay
    fused = [(work, stored(desc)) for work, desc in WORK["convolution"]("FLOAT32", False) if desc.is_extension]
    assert Counter(desc for desc in planned if desc.is_extension) == Counter({desc for _, desc in fused})
    left_out = "CONVOLUTION, then a product with its SIGMOID"
    assert {work for work, _ in fused}.difference(warmed) == {left_out}


def test_layers_of_sequences_of_any_lengths_are_compiled(new_process: Any) -> None:
    descs = [desc for _, desc in WORK["rnn"]("FLOAT32", False)]
    list(warm_up(["rnn"]))
    before = len(jit.loaded_functions)
    for desc in descs:
        assert desc.tensors().keys() >= {"sequence_lengths_tensor"}
        for each in (desc, desc.replace(sequence_lengths_tensor=None)):
            assert dml.compile(each, "cpu").plan.startswith("strategy: compiled")
    assert len(jit.loaded_functions) == before


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("dtype", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", list(WORK))
def test_all_work_is_described_rightly(name: str, dtype: str, training: bool) -> None:
    descs = [desc for _, desc in WORK[name](dtype, training)]
    assert descs
    assert [problem for desc in descs for problem in dml.check(desc)] == []


def test_without_llvmlite_nothing_is_compiled(new_process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "llvmlite_is_installed", lambda: False)
    found = list(warm_up(["gru", "convolution"]))
    new_process()  # what was planned without llvmlite shall not stay
    assert len(found) == 8
    assert {item.outcome for item in found} == {"strategy: numpy (llvmlite is not installed: pip install 'dmlpy[cpu]')"}


def test_without_a_folder_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "file"))
    assert place() == f"not stored: DMLPY_CACHE_DIR is {str(tmp_path / 'file')!r}, which is not a folder that only the user can write to"
    monkeypatch.delenv("DMLPY_CACHE_DIR")
    monkeypatch.setattr(ImageStore, "open", lambda: None)
    assert place() == "not stored: there is no folder that only the user can write to"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["lstn"], "'lstn' is none of rnn, lstm, gru, convolution, pooling"), (["--dtype", "int8"], "'int8' is none of float32, float16")],
)
def test_what_is_unknown_is_reported(arguments: list[str], message: str) -> None:
    status, out = warmup(*arguments)
    assert status == 2
    assert message in " ".join(out.replace("│", " ").split())
