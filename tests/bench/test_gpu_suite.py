"""`dmlpy bench --device cuda`: operators at sizes that fill a GPU, rehearsed on an emulated GPU and a fake PyTorch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import typer.testing

import dmlpy as dml
from dmlpy.bench import command, launches, machine, priorities
from dmlpy.bench.libraries import GPU_PEERS, OPERATORS_OWN, UnsupportedError
from dmlpy.bench.measure import Benchmark, Options
from dmlpy.bench.operators import large, suite
from dmlpy.bench.operators.large import Sample, Tensor
from dmlpy.bench.operators.libraries import DmlpyOperators
from dmlpy.bench.operators.shape import LargeShape, OperatorShape, large_shape, select
from dmlpy.bench.records import Record
from dmlpy.bench.shapes import SHAPES
from dmlpy.bench.work import TOLERANCES, LargeWork, relative_error
from dmlpy.cli.main import app
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import H100
from dmlpy.devices.device import DEVICE_KINDS
from tests.conftest import cuda_on_cpu
from tests.support.bench import gpu_suite
from tests.support.bench.gpu_suite import case_of, cases
from tests.support.cuda import emulated_gpu
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.cuda.fakes.runtime_over_fake_cupy import runtime_over
from tests.support.folders import ROOT
from tests.support.tables import table
from tests.support.tools import require

PAIRS = [(name, dtype) for name in suite.CASES for dtype in large_shape(name).dtypes]
"""Rows and types: 34, and 8 with TF32."""
HALVES_OR_ALL = pytest.mark.parametrize(
    ("name", "dtype"), [pytest.param(*pair, marks=() if pair[1] == "FLOAT16" else pytest.mark.slow) for pair in PAIRS]
)


@pytest.fixture
def small() -> Iterator[None]:
    """Rows at sizes that a processor can take."""
    with gpu_suite.shrunken():
        yield


@pytest.fixture
def null(small: None, monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    """A GPU that computes nothing, here and in the libraries' processes."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(emulated_gpu.VARIABLE, "null")
    return CudaDevice(DryRunRuntime(H100))


def work_of(name: str, dtype: Any) -> LargeWork:
    work = case_of(name, dtype).work()
    assert isinstance(work, LargeWork)
    return work


# rows


def test_the_suite_has_its_rows() -> None:
    assert sum(not suite.CASES[name].half_precision for name, _ in PAIRS) == 34
    again = {name.removesuffix("-TF32") for name, row in suite.CASES.items() if row.half_precision}
    assert again == {name for name, row in suite.CASES.items() if large_shape(name).flops("forward") and not row.half_precision}


@table(("name", "dtype"), PAIRS)
def test_a_row_fills_a_gpu_and_is_planned(name: str, dtype: Any) -> None:
    row = suite.CASES[name]
    desc = row.desc(dtype)
    assert dml.check(desc) == dml.check(row.sampled_desc(dtype)) == []
    given = sum(tensor.extent_in_bytes for tensor in (tensor.desc(dtype) for tensor in row.inputs.values()))
    assert row.sets(dtype) * given >= large.CYCLED_BYTES
    assert (row.sets(dtype) - 1) * given < large.CYCLED_BYTES
    flags = "ALLOW_HALF_PRECISION_COMPUTATION" if row.half_precision else ()
    report = dml.compile(desc, CudaDevice(DryRunRuntime(H100)), flags=flags).explain_plan()
    assert report.floor_us is not None
    assert report.floor_us > 9, "it takes longer than its launch"


def error_of(library: DmlpyOperators, work: LargeWork) -> float:
    """How far off dmlpy's sampled results are, after another set of inputs was run."""
    runner = library.build(work, "graph")
    for number in (work.sets - 1, 0):
        runner.run(number)
    return relative_error(work.select(runner.results()), work.compared("dmlpy", work.reference()))[0]


@HALVES_OR_ALL
def test_dmlpy_computes_a_row(name: str, dtype: Any, small: None) -> None:
    device = cuda_on_cpu()
    library, work = DmlpyOperators(device, 1), work_of(name, dtype)
    assert library.modes(work) == ("graph",)
    assert 0 <= error_of(library, work) < TOLERANCES[dtype]


@pytest.mark.slow  # PyTorch's half of a benchmark that only runs on a GPU
@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_pytorch_computes_a_row(name: str, dtype: Any, small: None) -> None:
    require("torch")
    from tests.support.bench.fake_torch_cuda import TorchOverFake

    library, work = TorchOverFake("cuda:0", 1), work_of(name, dtype)
    backends = ["flash", "cudnn", "efficient", "math"] if name.startswith("MULTIHEAD") and dtype == "FLOAT16" else []
    modes = library.modes(work)
    assert modes == ("graph", *(f"graph {backend}" for backend in backends))
    for mode in modes:
        if mode in ("graph cudnn", "graph efficient"):
            with pytest.raises(UnsupportedError, match=f"PyTorch has no {mode.partition(' ')[2]} kernel"):
                library.build(work, mode)
            continue
        runner = library.build(work, mode)
        captured: list[Any] = runner._graphs  # type: ignore[attr-defined]
        assert all(result.isnan().any() for _, results in captured for result in results.values()), "a capture computes nothing"
        for number in (work.sets - 1, 0):
            runner.run(number)
        error, _ = relative_error(work.select(runner.results()), work.compared("torch", work.reference()))
        assert error < TOLERANCES[dtype]
        assert library.torch.backends.cuda.matmul.allow_tf32 == library.torch.backends.cudnn.allow_tf32 == suite.CASES[name].half_precision


@pytest.mark.slow  # as above; to ask for a backend imports PyTorch's compiler
def test_the_modes_of_a_row_share_their_inputs(small: None) -> None:
    require("torch")
    from tests.support.bench.fake_torch_cuda import TorchOverFake

    library, work = TorchOverFake("cuda:0", 1), work_of("MULTIHEAD_ATTENTION:D64", "FLOAT16")
    given = {id(library.build(work, mode)._given) for mode in ("graph", "graph math")}  # type: ignore[attr-defined]
    assert len(given) == 1
    library.release()
    assert library._placed is None


def test_an_output_that_no_kernel_writes_is_wrong(null: CudaDevice) -> None:
    work = work_of("ELEMENT_WISE_ADD:LARGE", "FLOAT32")
    assert error_of(DmlpyOperators(null, 1), work) == np.inf


def test_each_set_has_memory_of_its_own(small: None) -> None:
    runtime: Any = DryRunRuntime(H100)
    runner = DmlpyOperators(CudaDevice(runtime), 1).build(work_of("ELEMENT_WISE_ADD:LARGE", "FLOAT16"), "graph")
    memory: dict[str, Any] = runner._memory  # type: ignore[attr-defined]
    assert runner.sets == 2
    assert set(memory) == {f"{field}{number}" for field in ("a_tensor", "b_tensor", "output_tensor") for number in range(2)}
    assert len({own.pointer for own in memory.values()}) == 6


# tensors and samples


@pytest.mark.parametrize(
    ("tensor", "strides"),
    [
        (Tensor((2, 3, 4, 5)), None),
        (Tensor((2, 3, 4, 5), suite.NHWC), (60, 1, 15, 3)),
        (Tensor((1, 1, 4, 5), (0, 1, 3, 2)), (20, 20, 1, 4)),
        (Tensor((1, 1, 4, 5), repeated=(0, 1, 2)), (0, 0, 0, 1)),
    ],
)
def test_tensors_lie_as_they_are_described(tensor: Tensor, strides: Any) -> None:
    desc = tensor.desc("FLOAT32")
    assert desc.strides == strides
    array = tensor.array(np.random.default_rng(0), "FLOAT32")
    assert array.shape == tensor.sizes
    memory = tensor.in_memory(array)
    assert memory.nbytes == desc.extent_in_bytes
    assert memory.flags.writeable
    assert (tensor.from_memory(memory) == array).all()
    place = tuple(size - 1 for size in tensor.sizes)
    offset = sum(stride * index for stride, index in zip(desc.element_strides, place, strict=True))
    assert memory.ravel()[offset] == array[place]


def test_blocks_are_repeated_but_rows_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "BLOCK", 11)
    array = Tensor((4, 10)).array(np.random.default_rng(0), "FLOAT16")
    assert array.dtype == np.float16
    assert (array.ravel()[:11] == array.ravel()[11:22]).all()
    assert len({row.tobytes() for row in array}) == 4


def test_samples_have_both_ends() -> None:
    assert Sample({}, 1).chosen(8) == [7]
    assert Sample({}, 4).chosen(4096) == [0, 1365, 2730, 4095]
    assert Sample({}, 64).chosen(5) == [0, 1, 2, 3, 4]
    rows = Sample({}, 64).chosen(4096)
    assert len({row % 64 for row in rows}) == 64, "in tiles of 64 rows each place is met"
    assert suite.CASES["CONVOLUTION:NHWC"].sampled_text() == "2 of 32 in axis 0, 32 of 256 in axis 1"


# measuring


@pytest.mark.slow
def test_rows_run_to_the_end(null: CudaDevice, tmp_path: Path) -> None:
    """On a GPU that computes nothing, every result is wrong and reported; PyTorch's are right."""
    require("torch")
    lines: list[str] = []
    options = Options(own=gpu_suite.own(), peers=[gpu_suite.TORCH], rounds=1, threads=1)
    every = priorities.order_by_priority(case_of(*pair) for pair in PAIRS)
    record = Benchmark(null, options, lines.append).run(every, tmp_path / "record.json")
    assert Record.load(tmp_path / "record.json") == record
    assert record.left_out == []
    own = [run for run in record.runs if run.subject == "dmlpy"]
    assert [(run.shape, run.dtype) for run in own] == [(case.shape.key, case.dtype) for case in every]
    assert {(run.status, run.mode) for run in own} == {("wrong", "graph")}
    assert all("is off by inf of its norm" in str(run.reason) and run.plan and run.bytes and run.tensor for run in own)
    theirs = [run for run in record.runs if run.subject == "torch"]
    assert {run.status for run in theirs if run.mode in ("graph", "graph flash", "graph math")} == {"ok"}
    assert {run.status for run in theirs if run.mode in ("graph cudnn", "graph efficient")} == {"absent"}
    assert all(run.median_us and run.sets == suite.CASES[run.shape].sets(run.dtype) for run in theirs if run.status == "ok")
    (add,) = (run for run in theirs if run.shape == "ELEMENT_WISE_ADD:LARGE" and run.dtype == "FLOAT16")
    assert add.reference == "float64, computed here: 37 of 37 in axis 2"
    assert not psutil.Process().children()


def test_the_conditions_come_first(null: CudaDevice, tmp_path: Path) -> None:
    file, lines = tmp_path / "record.json", list[str]()

    def inform(line: str) -> None:
        lines.append(line)
        if line.startswith("ELEMENT_WISE_ADD"):
            before.append(Record.load(file))

    before: list[Record] = []
    options = Options(own=gpu_suite.own(), peers=(), rounds=1, threads=1)
    Benchmark(null, options, inform).run(cases("ELEMENT_WISE_ADD:LARGE"), file)
    (record,) = before
    assert record.runs == []
    assert record.left_out == ["ELEMENT_WISE_ADD:LARGE FLOAT16 forward"]
    assert record.device["name"] == "H100 on the CPU"
    assert {"dmlpy", "numpy", "compiler"} <= record.versions.keys()
    assert record.machine.copy_gb_s is not None
    assert list(record.machine.gemm_gflops) == ["64x64x64 FLOAT16"]
    assert set(record.machine.launch_us) == set(launches.NAMES)
    assert all(us > 0 for us in record.machine.launch_us.values())
    assert lines[0].startswith("H100 on the CPU, driver 13000")
    assert lines[1].startswith("a copy of 1 GiB: ")
    assert lines[2].startswith("a launch after another: ")


def test_launches_are_counted_by_what_they_start(monkeypatch: pytest.MonkeyPatch) -> None:
    device: Any = cuda_on_cpu()
    monkeypatch.setattr(dml, "device", lambda name: device)
    monkeypatch.setattr(launches, "LAUNCHES", 3)
    before = device.runtime.counts.copy()
    found = launches.launches("cuda:0")
    counts = device.runtime.counts - before
    assert list(found) == list(launches.NAMES)
    assert counts["capture"] == 2
    assert counts["launch_graph"] == launches.ROUNDS * (1 + 3)
    assert counts["elapsed_ms"] == 3 * launches.ROUNDS


@pytest.mark.parametrize(("name", "dtype"), [("GEMM:BIAS-RELU", "FLOAT16"), ("CONVOLUTION:NCHW", "FLOAT32"), ("TOP_K:ROWS", "FLOAT16")])
def test_what_is_measured_obeys_cuda_s_rules(name: str, dtype: Any, small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through CuPy's functions: nothing is allocated in a capture, all sets are launched, and the pool gives its memory back."""
    gpu = FakeGpus()
    device = CudaDevice(runtime_over(gpu, monkeypatch, tmp_path))
    monkeypatch.setattr(dml, "device", lambda name: device)
    assert set(launches.launches("cuda:0")) == set(launches.NAMES)
    rates = machine.rates("cuda:0", [(8, 4, 2, "FLOAT16")], [1 << 12])
    assert rates["copies"][1 << 12] > 0
    assert rates["products"]["8x4x2 FLOAT16"] > 0
    library, work = DmlpyOperators(device, 1), work_of(name, dtype)
    runner = library.build(work, "graph")
    assert gpu.launches
    captured = len(gpu.launches)
    for number in range(work.sets):
        runner.run(number)
        assert len(gpu.launches) > captured
        captured = len(gpu.launches)
    assert work.select(runner.results()).keys() == work.operator_case.outputs.keys()
    assert library.microseconds(lambda: runner.run(0), 3) == 500, "of the 1.5 ms between two events of the fake"
    assert len(gpu.launches) >= captured + 3
    freed: list[bool] = []
    pool = type("Pool", (), {"free_all_blocks": lambda self: freed.append(True)})
    monkeypatch.setattr(sys.modules["cupy"], "get_default_memory_pool", pool)
    library.release()
    assert freed == [True]


def test_a_wrong_row_is_reported(monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    """One row of 37 is off."""
    require("g++")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(emulated_gpu.VARIABLE, "cpu")
    options = Options(own=gpu_suite.own(gpu_suite.Wrong), peers=(), rounds=1, threads=1)
    names = ("ELEMENT_WISE_ADD:LARGE", "ELEMENT_WISE_IDENTITY:TRANSPOSE")
    wrong, right = Benchmark(cuda_on_cpu(), options).run(cases(*names)).runs
    assert (wrong.status, wrong.median_us) == ("wrong", None)
    assert str(wrong.reason).startswith("output_tensor is off by 0.")
    assert (right.status, right.relative_error) == ("ok", 0.0)
    assert right.floor_us
    assert right.median_us


@pytest.mark.slow
def test_a_row_that_fails_is_reported_and_the_next_one_runs(null: CudaDevice) -> None:
    options = Options(own=gpu_suite.own(gpu_suite.Failing), peers=(), rounds=1, threads=1)
    names = ("ACTIVATION_GELU:LARGE", "ACTIVATION_SOFTMAX1:ROWS", "ELEMENT_WISE_ADD:LARGE")
    runs = Benchmark(null, options).run(cases(*names)).runs
    assert [(run.status, run.reason) for run in runs[:2]] == [
        ("failed", "DeviceError: no kernel"),
        ("failed", "its process ended with status 5"),
    ]
    assert runs[2].status == "wrong", "it was computed, by nothing"


@pytest.mark.slow
def test_what_is_left_out_is_named(null: CudaDevice, tmp_path: Path) -> None:
    names = [*suite.CASES][:12]
    options = Options(own=gpu_suite.own(gpu_suite.Slow), peers=(), rounds=1, threads=1, seconds=4)
    lines: list[str] = []
    began = time.monotonic()
    record = Benchmark(null, options, lines.append).run(cases(*names, dtype="FLOAT32"), tmp_path / "record.json")
    assert time.monotonic() - began < 20
    told = [f"{run.shape} {run.dtype} {run.pass_}" for run in record.runs]
    assert [*told, *record.left_out] == [f"{name} FLOAT32 forward" for name in names]
    assert record.left_out
    assert Record.load(tmp_path / "record.json") == record
    assert lines[-1] == f"4 s are over; not measured: {', '.join(record.left_out)}"


KILLED = """
import sys
from pathlib import Path
from dmlpy.bench.measure import Benchmark, Options
from dmlpy.cli.main import app
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.device import DEVICE_KINDS
from tests.support.bench import gpu_suite
from tests.support.cuda.dry_run import DryRunRuntime

gpu_suite.shrink()
options = Options(own=gpu_suite.own(gpu_suite.Slow), peers=(), rounds=1, threads=1)
Benchmark(CudaDevice(DryRunRuntime()), options).run(gpu_suite.cases(*sys.argv[2:]), Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_after_a_kill_the_record_is_valid(tmp_path: Path) -> None:
    names = [*suite.CASES][:13]
    file = tmp_path / "record.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), emulated_gpu.VARIABLE: "null"}
    with subprocess.Popen([sys.executable, "-c", KILLED, str(file), *names], env=environment, cwd=tmp_path) as started:
        until = time.monotonic() + 120
        while (not file.exists() or len(Record.load(file).runs) < 2) and started.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        children = psutil.Process(started.pid).children() if started.poll() is None else []
        started.send_signal(signal.SIGKILL)
    record = Record.load(file)
    assert len(record.runs) >= 2
    assert [*(run.shape for run in record.runs), *(name.split()[0] for name in record.left_out)] == names
    assert record.left_out
    assert record.machine.launch_us
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive, "the library's process ends with the one that started it"


# order and choice


def test_the_most_informative_rows_come_first() -> None:
    found = priorities.order_by_priority(command.cases(command.CommandOptions(), command.Place("cuda", "cuda:0")))
    names = [case.name for case in found]
    assert len(names) == len(set(names))
    assert [case.name for case in found[:6]] == list(priorities.FIRST_LAYERS[:6])
    operators = [case for case in found if isinstance(case.shape, LargeShape)]
    assert len(operators) == 42
    assert found[6 : 6 + 17] == operators[:17]
    assert {case.dtype for case in operators[:17]} == {"FLOAT16"}
    assert names.index(priorities.FIRST_LAYERS[-1]) < names.index(operators[17].name)
    assert set(priorities.FIRST_LAYERS) < set(names)
    assert any(case.shape.suite == "batch_norm_gpu" for case in found)


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ({}, {"Recurrent", "BatchNorm", "LargeShape"}),
        ({"operators": ()}, {"LargeShape"}),
        ({"shapes": ["lstm-*"]}, {"Recurrent"}),
        ({"passes": ["forward"]}, {"Recurrent", "BatchNorm"}),
        ({"slope": True}, {"Recurrent", "BatchNorm"}),
        ({"operators": ["abs"]}, {"OperatorShape"}),
    ],
)
def test_a_gpu_measures_layers_and_operators(asked: dict[str, Any], kinds: set[str]) -> None:
    found = command.cases(command.CommandOptions(**asked), command.Place("cuda", "cuda:0"))
    assert {type(case.shape).__name__ for case in found} == kinds


def test_names_mean_the_large_rows_on_a_gpu() -> None:
    gemm = select(["gemm"], [], "cuda")
    assert [shape.key for shape in gemm] == [name for name in suite.CASES if name.startswith("GEMM:")]
    assert [shape.key for shape in select(["convolution:nhwc"], [], "cuda")] == ["CONVOLUTION:NHWC"]
    assert [type(shape) for shape in select(["sigmoid", "add"], [], "cuda")] == [OperatorShape, LargeShape]
    assert {shape.dtypes for shape in select(["add"], ["FLOAT16"], "cuda")} == {("FLOAT16",)}
    assert [type(shape) for shape in select(["gemm"], [])] == [OperatorShape]
    with pytest.raises(ValueError, match=r"'GEMM:SQARE' is not an operator of DirectML's; did you mean 'GEMM:SQUARE'\?"):
        select(["GEMM:SQARE"], [], "cuda")


def test_no_case_has_another_s_name() -> None:
    names = [case.name for case in priorities.every_case()]
    assert len(names) == len(set(names))
    assert priorities.case_of("GEMM:SQUARE FLOAT16 forward") == case_of("GEMM:SQUARE", "FLOAT16")


def test_peers_serve_what_they_can() -> None:
    place = command.Place("cuda", "cuda:0")
    beside = [peer for peer in (OPERATORS_OWN, *GPU_PEERS) if peer.stands_beside(place)]
    applies: dict[str, set[str]] = {}
    for case in command.cases(command.CommandOptions(), place):
        applies.setdefault(type(case.shape).__name__, set()).update(peer.name for peer in beside if peer.applies(case))
    assert applies == {
        "Recurrent": {"dmlpy", "torch", "onnxruntime", "cupy"},
        "BatchNorm": {"dmlpy", "torch", "torch-native"},
        "LargeShape": {"dmlpy", "torch"},
    }


def bench(*arguments: Any) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the command."""
    result = typer.testing.CliRunner().invoke(app, ["bench", *map(str, arguments)], env={"COLUMNS": "250", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("arguments", "shown", "hidden"),
    [
        (("--device", "cuda"), {"lstm-768-b16-t1024", "GEMM:SQUARE", "CuPy", "torch-native"}, {"lstm-64-b1-t100"}),
        (("--device", "cuda:1", "--operators"), {"MULTIHEAD_ATTENTION:D128", "GEMM:SQUARE-TF32"}, {"lstm", "DEPTHWISE"}),
        (("--device", "CUDA", "--operators", "sigmoid"), {"ACTIVATION_SIGMOID"}, {"GEMM"}),
        (("--device", "cuda", "--shape", "rnn-1760*"), {"rnn-1760-b16-t50"}, {"GEMM"}),
    ],
)
def test_what_a_gpu_would_measure_is_listed_without_one(
    arguments: tuple[str, ...], shown: set[str], hidden: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: "no GPU answers")
    status, out, err = bench("--list", *arguments)
    assert status == 0, err
    assert all(text in out for text in shown)
    assert not any(text in out for text in hidden)


@pytest.mark.parametrize("name", ["cuda:x", "cuda:12345", "gpu"])
def test_what_is_no_device_is_not_listed(name: str) -> None:
    status, _, err = bench("--list", "--device", name)
    assert status == 2
    assert f"device is {name!r}, expected" in err


def test_without_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: "no GPU answers")
    status, _, err = bench("--device", "cuda")
    assert status == 1
    assert "device 'cuda' does not exist on this machine: no GPU answers" in err


def test_the_page_s_command_measures_layers_and_operators(null: CudaDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Over a GPU that computes nothing, and fewer cases."""
    file = tmp_path / "my-gpu.json"
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: null)
    monkeypatch.setattr(command, "OPERATORS_OWN", gpu_suite.own())
    monkeypatch.setattr(command, "GPU_PEERS", ())
    monkeypatch.setattr(command, "select", lambda patterns, kind: [SHAPES["lstm-128-b1-t1"]])
    monkeypatch.setattr(command, "select_operators", lambda names, dtypes, kind, scales: [large_shape("GEMM:SQUARE")])
    status, out, err = bench("--device", "cuda", "--seconds", 300, "--save", file, "--rounds", 1)
    record = Record.load(file)
    assert status == 1, "nothing is right there"
    assert record.left_out == []
    layer, operator = "lstm-128-b1-t1", "GEMM:SQUARE"
    assert [(run.shape, run.dtype, run.mode, run.status) for run in record.runs] == [
        (operator, "FLOAT16", "graph", "wrong"),
        (operator, "FLOAT32", "graph", "wrong"),
        (layer, "FLOAT32", "eager", "wrong"),
        (layer, "FLOAT32", "graph", "wrong"),
    ]
    assert "3 cases on 'H100 on the CPU', 1 rounds" in err
    assert all(name in out for name in (layer, operator))
