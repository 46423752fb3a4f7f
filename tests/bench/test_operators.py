"""`dmlpy bench --operators`: the rows of all operators, their equivalents in other libraries, and what is made of a record."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing

import dmlpy as dml
from dmlpy.bench import command, machine, readme, tables
from dmlpy.bench.libraries import OPERATORS_OWN, OPERATORS_PEERS, UnsupportedError
from dmlpy.bench.measure import Benchmark, Options
from dmlpy.bench.operators import report
from dmlpy.bench.operators.libraries import DmlpyOperators, OnnxRuntimeOperators, TorchOperators
from dmlpy.bench.operators.shape import OperatorShape, select, tensor_text
from dmlpy.bench.records import Host, Machine, Measurement, Record
from dmlpy.bench.work import TOLERANCES, Case, OperatorWork, relative_error
from dmlpy.cli.main import app
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.host.processors import processors
from dmlpy.inspection.operator_records import CASES, RECORDS
from dmlpy.operators.elementwise.arithmetic import ElementWiseAddDesc
from tests.conftest import cuda_on_cpu
from tests.support.bench import peers as bench_peers
from tests.support.bench.peers import peer
from tests.support.folders import ROOT
from tests.support.tables import table
from tests.support.tools import require

SUBJECTS: dict[str, Any] = {"dmlpy": DmlpyOperators, "onnxruntime": OnnxRuntimeOperators, "torch": TorchOperators}
CHOSEN = (
    *("CAST", "ELEMENT_WISE_LOGICAL_NOT", "FILL_VALUE_CONSTANT", "JOIN", "MAX_POOLING1", "MEAN_VARIANCE_NORMALIZATION1"),
    *("NONZERO_COORDINATES", "QUANTIZE", "RNN", "SPLIT"),
)
"""A row of each kind: types, constants, several tensors, missing outputs, repeated inputs, fewer rows than described."""


def shape_of(operator: str) -> OperatorShape:
    (shape,) = select([operator], [])[:1]
    assert isinstance(shape, OperatorShape)
    return shape


def work_of(operator: str) -> OperatorWork:
    work = Case(shape_of(operator), "FLOAT32", "forward").work()
    assert isinstance(work, OperatorWork)
    return work


def error_of(library: str, operator: str) -> float:
    """How far off a library's results are, once it has run."""
    work = work_of(operator)
    runner = SUBJECTS[library]("numpy", 1).build(work, "eager")
    runner.run(0)
    return relative_error(runner.results(), work.compared(library, work.reference()))[0]


# rows


def test_every_operator_of_directml_has_a_row() -> None:
    assert [*RECORDS] == sorted(kind.short_name() for kind in OPERATORS.values() if not kind.is_extension)
    assert all(name.partition(":")[0] == row.operator for name, row in CASES.items())


@table("operator", CASES)
def test_a_row_is_a_valid_desc_of_a_representative_size(operator: str) -> None:
    desc = work_of(operator).desc
    assert dml.check(desc) == []
    largest = max(tensor.element_count for tensor in desc.tensors().values())
    assert 1e5 <= largest <= 1.5e6


def test_rows_of_products_have_flops() -> None:
    found = {name: flops for name in CASES if (flops := shape_of(name).flops("forward"))}
    quantized = {"CONVOLUTION_INTEGER", "QUANTIZED_LINEAR_CONVOLUTION", "QUANTIZED_LINEAR_MATRIX_MULTIPLY"}
    quantized |= {"MATRIX_MULTIPLY_INTEGER", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT"}
    forms = {f"CONVOLUTION{form}" for form in ("", ":DEPTHWISE", ":POINTWISE")}
    assert found.keys() == quantized | forms | {"GEMM", "RNN", "GRU", "LSTM", "MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"}
    assert found["GEMM"] == 2 * 512**3
    assert found["LSTM"] == 2 * 50 * 16 * 4 * 128 * (128 + 128)


def test_descs_name_their_largest_input() -> None:
    assert tensor_text(work_of("GATHER").desc) == "FLOAT32 4096×128"
    assert tensor_text(work_of("FILL_VALUE_CONSTANT").desc) == "FLOAT32 8×32×32×32"


def test_float16_is_the_type_of_the_float32_tensors() -> None:
    (shape,) = select(["add"], ["FLOAT16"])
    assert isinstance(shape, OperatorShape)
    desc = shape.desc("FLOAT16")
    assert isinstance(desc, ElementWiseAddDesc)
    assert {tensor.data_type for tensor in desc.tensors().values()} == {dml.DataType.FLOAT16}
    assert shape.bytes("forward", "FLOAT16") == 3 * 2 * 262_144
    wide = _strided("FLOAT16")
    assert wide.shape == (256, 1024)
    assert wide.strides == (0, 2)


def test_rows_of_another_type_are_of_the_operators_that_take_it() -> None:
    """INT8 rows have 8-bit tensors; operators that have them anyway, such as quantized ones, stay as they are."""
    of_both, of_halves = {"JOIN", "PADDING1", "DIAGONAL_MATRIX1", "QUANTIZE"}, {"GEMM", "ELEMENT_WISE_EXP"}
    of_bytes, of_neither = {"DYNAMIC_QUANTIZE_LINEAR", "QUANTIZED_LINEAR_CONVOLUTION"}, {"ELEMENT_WISE_BIT_AND"}
    names = sorted(of_both | of_halves | of_bytes | of_neither)
    found: dict[Any, dict[str, Any]] = {}
    for dtype in ("FLOAT16", "INT8"):
        found[dtype] = {shape.key: shape for shape in select(names, [dtype]) if shape.key in names}
    assert found["FLOAT16"].keys() == of_both | of_halves
    assert found["INT8"].keys() == of_both | of_bytes
    for dtype, shapes in found.items():
        for shape in shapes.values():
            assert shape.dtypes == (dtype,)
            desc = shape.desc(dtype)
            assert dml.check(desc) == []
            assert any(tensor.data_type.name == dtype or tensor.data_type.bits == 8 for tensor in desc.tensors().values())
    quantized = found["INT8"]["QUANTIZED_LINEAR_CONVOLUTION"]
    assert quantized.desc("INT8") == quantized.desc("FLOAT32")


@pytest.mark.parametrize("dtype", ["FLOAT16", "INT8"])
@pytest.mark.parametrize("operator", ["JOIN", "PADDING1", "ELEMENT_WISE_MAX"])
def test_rows_of_another_type_are_computed(operator: str, dtype: Any) -> None:
    work = Case(select([operator], [dtype])[0], dtype, "forward").work()
    runner = DmlpyOperators("numpy", 1).build(work, "eager")
    runner.run(0)
    results = runner.results()
    assert {array.dtype.name.upper() for array in results.values()} == {dtype}
    assert relative_error(results, work.reference())[0] < TOLERANCES[dtype]


def _strided(dtype: Any) -> Any:
    return shape_of("MEAN_VARIANCE_NORMALIZATION1").arrays(dtype)["scale_tensor"]


def test_operators_are_selected_by_names_in_any_case() -> None:
    assert [shape.key for shape in select(["gemm", "add", "DML_OPERATOR_ACTIVATION_RELU", "Sigmoid", "ADD"], [])] == [
        *("GEMM", "ELEMENT_WISE_ADD", "ACTIVATION_RELU", "ACTIVATION_SIGMOID")
    ]
    forms = [shape.key for shape in select(["convolution"], [])]
    assert forms == ["CONVOLUTION", "CONVOLUTION:DEPTHWISE", "CONVOLUTION:POINTWISE"]
    assert [shape.key for shape in select(["Convolution:Depthwise"], [])] == forms[1:2]
    assert len(select([], [])) == len(CASES)
    with pytest.raises(ValueError, match=r"'GEM' is not an operator of DirectML's; did you mean 'GEMM'\?"):
        select(["GEM"], [])


# libraries


@pytest.mark.parametrize("library", SUBJECTS)
@pytest.mark.parametrize("operator", [pytest.param(name, marks=() if name in CHOSEN else pytest.mark.slow) for name in CASES])
def test_every_library_computes_the_reference(operator: str, library: str) -> None:
    if library != "dmlpy":
        require(library)
    row = CASES[operator]
    if (library == "onnxruntime" and not row.onnx) or (library == "torch" and row.torch is None):
        with pytest.raises(UnsupportedError, match="no equivalent"):
            error_of(library, operator)
    else:
        assert error_of(library, operator) < TOLERANCES["FLOAT32"]


def test_an_equivalent_is_compared_in_all_but_what_it_lacks() -> None:
    work = work_of("MAX_POOLING1")
    results = {"output_tensor": np.zeros(1), "output_indices_tensor": np.ones(1)}
    assert set(work.compared("torch", results)) == {"output_tensor"}
    assert set(work.compared("onnxruntime", results)) == set(results)


def test_cuda_runs_an_operator_with_its_model() -> None:
    device = cuda_on_cpu()
    work = work_of("ADD")
    runner = DmlpyOperators(device, 1).build(work, "eager")
    runner.run(2)
    assert relative_error(runner.results(), work.reference())[0] < 1e-6
    assert runner.floor_us == dml.compile(work.desc, device).explain_plan().floor_us


# measuring


def test_a_benchmark_reports_equivalents_and_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    peers = [peer(bench_peers.WrongProducts, works=("OperatorShape",))]
    options = Options(own=OPERATORS_OWN, peers=peers, rounds=2, threads=1)
    lines: list[str] = []
    cases = [Case(shape_of(name), "FLOAT32", "forward") for name in ("GEMM", "ELEMENT_WISE_FLOOR")]
    runs = Benchmark(dml.device("numpy"), options, lines.append).run(cases).runs
    found = {(run.shape, run.subject): run for run in runs}
    gemm, floor = found["GEMM", "dmlpy"], found["ELEMENT_WISE_FLOOR", "dmlpy"]
    assert (gemm.flops, gemm.bytes, gemm.tensor) == (2 * 512**3, 3 * 4 * 512**2, "FLOAT32 1×1×512×512")
    assert (floor.flops, floor.bytes, floor.tensor) == (None, 2 * 4 * 262_144, "FLOAT32 8×32×32×32")
    assert all(run.status == "ok" and run.least_us and run.floor_us for run in (gemm, floor))
    wrong, none = found["GEMM", "wrongproducts"], found["ELEMENT_WISE_FLOOR", "wrongproducts"]
    assert (wrong.status, wrong.median_us, wrong.tensor) == ("wrong", None, gemm.tensor)
    assert str(wrong.reason).startswith("output_tensor is off by")
    assert (none.status, none.reason, none.tensor) == ("absent", "no equivalent", floor.tensor)


def test_the_floor_of_products_is_theirs() -> None:
    rates = Machine(copy_gb_s=1.0, gemm_gflops={machine.product_key(machine.OPERATORS_PRODUCT): 2.0})
    gemm, add = (Case(shape_of(name), "FLOAT32", "forward") for name in ("GEMM", "ADD"))
    assert machine.products_of(gemm) == [machine.OPERATORS_PRODUCT]
    assert machine.products_of(add) == []
    assert machine.floor_us(gemm, rates) == pytest.approx(2 * 512**3 / 2e3)
    assert machine.floor_us(add, rates) == pytest.approx(3 * 4 * 262_144 / 1e3)


def bench(*arguments: Any) -> tuple[int, str, str]:
    result = typer.testing.CliRunner().invoke(app, ["bench", *map(str, arguments)], env={"COLUMNS": "250", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_command_measures_named_operators_on_one_thread(tmp_path: Path) -> None:
    file = tmp_path / "operators.json"
    sizes = "--scale", 1, "--scale", 0.25
    status, out, err = bench("--operators", "abs", *sizes, "--device", "numpy", "--no-peers", "--rounds", 2, "--save", file)
    assert status == 0, err
    assert "2 cases on" in err
    found = json.loads(file.read_text())
    assert [run["shape"] for run in found["runs"]] == ["ELEMENT_WISE_ABS", "ELEMENT_WISE_ABS@0.25"]
    assert found["host"]["threads"] == 1
    assert all(run["relative_error"] == 0 and run["rounds"] == 2 for run in found["runs"])
    assert "tensor" in out
    assert "FLOAT32 8×32×32×32" in out
    assert "FLOAT32 2×32×32×32" in out


def test_the_command_lists_operators_with_their_equivalents() -> None:
    status, out, _ = bench("--operators", "difference_square", "gemm", "--list", "--device", "numpy")
    assert status == 0
    assert "Sub, Mul" in out
    assert "0.268" in out  # GFLOP
    assert [line.split()[0] for line in out.splitlines() if line.split()[:1] in (["onnxruntime"], ["torch"])] == ["onnxruntime", "torch"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["ADD"], 2, "'ADD' is an operator: add --operators"),
        (["--operators", "ADDD"], 2, "'ADDD' is not an operator of DirectML's"),
        (["--operators", "--shape", "lstm*"], 2, "leave these out"),
        (["--operators", "--pass", "training"], 2, "leave these out"),
        (["--operators", "--peer", "cupy"], 2, "'cupy' is none of onnxruntime, torch, openvino, jax"),
        (["--scale", "4"], 2, "add --operators"),
    ],
)
def test_what_cannot_be_measured_is_reported(arguments: list[str], status: int, message: str) -> None:
    found, _, err = bench("--device", "numpy", *arguments)
    assert found == status
    assert message in " ".join(err.replace("│", " ").split())


def test_one_thread_is_the_default() -> None:
    options = command.CommandOptions(operators=())
    assert command.threads_of(options) == 1
    assert command.threads_of(command.CommandOptions()) == processors()
    assert command.threads_of(command.CommandOptions(threads=3, operators=())) == 3
    assert command.threads_of(command.CommandOptions(threads=0, operators=())) == processors()


def test_the_peers_are_those_of_shapes_without_their_limits() -> None:
    assert [own.name for own in OPERATORS_PEERS] == ["onnxruntime", "torch", "openvino", "jax"]
    assert not any("forward only" in own.help for own in OPERATORS_PEERS)


# reports


def run_of(operator: str, subject: str, least: float | None, reason: str | None = None, **more: Any) -> Measurement:
    """A run with this least time, of which the median is twice as long."""
    status: Any = more.pop("status", "ok" if least is not None else "absent")
    figures = {"median_us": 2 * least, "least_us": least, "rounds": 9} if least is not None else {}
    place: dict[str, Any] = {
        "shape": operator,
        "dtype": "FLOAT32",
        "pass_": "forward",
        "subject": subject,
        "mode": more.pop("mode", "eager"),
    }
    return Measurement(**place, status=status, reason=reason, tensor="FLOAT32 8", **figures, **more)


@pytest.fixture
def record() -> Record:
    """Times written by hand."""
    runs = [
        run_of("ELEMENT_WISE_ADD", "dmlpy", 60.0, floor_us=40.0),
        run_of("ELEMENT_WISE_ADD", "onnxruntime", 40.0),
        run_of("ELEMENT_WISE_ADD", "torch", 120.0),
        run_of("GEMM", "dmlpy", 900.0),
        run_of("GEMM", "onnxruntime", 100.0),
        run_of("GEMM", "torch", None, "no equivalent"),
        run_of("FOLD", "dmlpy", None, "y is off", status="wrong"),
        run_of("FOLD", "onnxruntime", None, "no equivalent"),
        run_of("FOLD", "torch", None, "no kernel", status="failed"),
    ]
    host = Host(processor="CPU", system="S", cores=2, threads=1, load_before=[1.0, 0.5, 0.25], load_after=[2.0, 1.0, 0.5])
    versions = {"dmlpy": "1", "numpy": "2", "onnxruntime": "3"}
    return Record(date="2026-11-23T07:00", device={"kind": "cpu", "name": "NumPy"}, host=host, versions=versions, runs=runs)


@pytest.mark.parametrize(("least", "shown"), [(2.0, "0.05×"), (0.09, "0.002×"), (3.9, "0.1×"), (397.0, "9.9×"), (399.0, "10×")])
def test_no_ratio_is_shown_as_nothing(least: float, shown: str, record: Record) -> None:
    record.runs[0].least_us = least
    assert report.markdown(record).splitlines()[2].split(" | ")[5] == shown


def test_the_table_has_least_times_and_ratios(record: Record) -> None:
    assert report.markdown(record).splitlines() == [
        "| operator | tensor | dmlpy 1 | ONNX Runtime 3 | PyTorch | dmlpy / ONNX Runtime | dmlpy / PyTorch |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| ELEMENT_WISE_ADD | FLOAT32 8 | 60.0 µs | 40.0 µs | 120 µs | 1.5× | 0.5× |",
        "| GEMM | FLOAT32 8 | 900 µs | 100 µs | – | 9.0× |  |",
        "| FOLD | FLOAT32 8 | wrong [1] | – | failed [2] |  |  |",
        "",
        "- [1] dmlpy: y is off",
        "- [2] PyTorch: no kernel",
    ]
    table, notes = report.format_table(record)
    assert table.marked == {2}
    assert notes[-1] == report.goal_text(record)
    assert command.format_tables(record) == [(table, notes)]


def test_modes_have_columns_of_their_own(record: Record) -> None:
    both = [own.model_copy(update={"mode": mode}) for own in record.runs[:2] for mode in ("eager", "graph")]
    head, _, first = report.markdown(record.model_copy(update={"runs": both})).splitlines()
    assert "dmlpy 1, graph | ONNX Runtime 3, eager" in head
    assert "dmlpy / ONNX Runtime, graph" in head
    assert first.count("1.5×") == 2


def test_a_gpu_s_times_are_shown_with_its_model_s_floor(record: Record) -> None:
    record.runs[0].bytes, record.runs[3].flops = 90_000_000, 180_000_000_000
    head, _, first, second, *_ = report.markdown(record.model_copy(update={"device": {"kind": "cuda", "name": "H100"}})).splitlines()
    assert head.endswith("| dmlpy / floor | dmlpy's rate |")
    assert first.endswith("| 1.5× | 0.5× | 1.5× | 1.50 TB/s |")
    assert second.endswith("| 9.0× |  |  | 200 TFLOP/s |")


def test_the_goal_is_relative_to_the_fastest_other_library(record: Record, tmp_path: Path) -> None:
    text = report.goal_text(record)
    goal = "operators that another library has take at most 1.5 times the fastest one's time"
    assert text == f"1 of the 2 {goal}; more take GEMM (9.0×)."
    record.runs[3] = run_of("GEMM", "dmlpy", 150.0)
    assert report.goal_text(record) == f"2 of the 2 {goal}."
    assert report.goal_text(record.model_copy(update={"runs": record.runs[:1]})) == ""
    record.save(tmp_path / "operators-int8.json")
    assert readme.goals("operators-int8", tmp_path).endswith(f"0.5. 2 of the 2 {goal}.\n")


def test_a_page_shows_the_record_of_operators(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "operators.json")
    block = readme.block("operators", tmp_path)
    assert block.startswith(
        "CPU, 1 thread, 2026-11-23, dmlpy with NumPy 2. Least processor times of 9 rounds. Load averages of 1, 5 and 15 minutes "
        f"before: 1.0 0.5 0.2, after: 2.0 1.0 0.5. {readme.QUOTIENTS}\n\n1 of the 2 operators"
    )
    assert report.markdown(record) in block


def test_a_page_shows_a_gpu_s_layers_and_operators(record: Record, tmp_path: Path) -> None:
    assert readme.block("cuda", tmp_path) == (
        "No speed has been recorded on a GPU yet; `dmlpy bench --device cuda --save dmlpy/bench/records/cuda.json` makes the record.\n"
    )
    layer = run_of("lstm-128-b1-t512", "dmlpy", 50.0, floor_us=10.0, per_step_us=2.0)
    device = {"kind": "cuda", "name": "H100", "driver_version": "580.65", "clocks.sm": "1755 MHz", "clocks.max.sm": "1980 MHz"}
    rates = Machine(copy_gb_s=3000, gemm_gflops={"8192x8192x8192 FLOAT16": 700e3}, launch_us={"launch": 2.5, "empty graph": 3.25})
    made = record.model_copy(
        update={"device": device, "machine": rates, "runs": [layer, *record.runs], "left_out": ["FOLD FLOAT16 forward"]}
    )
    made.save(tmp_path / "cuda.json")
    block = readme.block("cuda", tmp_path)
    assert block.startswith(
        "- H100, driver 580.65, 1755 MHz at work, 1980 MHz at most\n"
        "- a copy of 1 GiB: 3.00 TB/s read and written; a product of 8192x8192x8192 FLOAT16: 700 TFLOP/s\n"
        "- a launch after another: 2.50 µs; an empty graph: 3.25 µs\n\n"
        "H100, 2026-11-23, dmlpy with NumPy 2. dmlpy's median time"
    )
    layers, operators = (made.model_copy(update={"runs": runs}) for runs in ([layer], record.runs))
    assert tables.markdown(layers) in block
    assert report.markdown(operators) in block
    assert block.endswith("\n\nLeft out: FOLD FLOAT16 forward.\n")
    assert [table for table, _ in command.format_tables(made)] == [tables.table(layers), report.format_table(operators)[0]]


def test_the_mode_that_a_library_uses_is_compared_with_the_same_mode(record: Record) -> None:
    runs = [
        run_of("MULTIHEAD_ATTENTION:D64", "dmlpy", 60.0, mode="graph"),
        run_of("MULTIHEAD_ATTENTION:D64", "dmlpy", 90.0, mode="eager"),
        run_of("MULTIHEAD_ATTENTION:D64", "torch", 40.0, mode="graph flash"),
    ]
    head, _, first = report.markdown(record.model_copy(update={"runs": runs})).splitlines()
    assert "PyTorch, graph flash" in head
    assert first.endswith("| 40.0 µs | 1.5× |")


def test_a_single_thread_is_timed_by_the_processor_s_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "process_time", lambda: 5.0)
    monkeypatch.setattr(time, "perf_counter", lambda: 7.0)
    assert [DmlpyOperators("numpy", threads).clock() for threads in (1, 2)] == [5.0, 7.0]


def test_rows_are_read_without_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measuring process imports neither PyTorch nor ONNX."""
    for name in ("torch", "onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    assert report.listing([shape_of("LSTM")]).rows[0][-2:] == ("LSTM", "–")
