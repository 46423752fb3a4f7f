"""`dmlpy bench --max-isa`: which libraries are limited to an instruction set, and that records and pages say so."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import typer.testing

from dmlpy.bench import command, readme
from dmlpy.bench.instruction_sets import LIMITS, is_limited
from dmlpy.bench.libraries import PEERS
from dmlpy.bench.operators import report
from dmlpy.bench.records import Host, Measurement, Record
from dmlpy.bench.tables import NAMES, goals_text, headings, isa_text
from dmlpy.cli.main import app
from dmlpy.devices.cpu import isa
from dmlpy.messages.problems import DmlError
from tests.support.bench.shapes import SMALLEST

HAS_AVX2 = platform.machine().lower() in isa.X86_64 and isa.host_processor().features.get("avx2", False)


def bench(*arguments: str) -> tuple[int, str]:
    """Exit status, and all that the command writes."""
    result = typer.testing.CliRunner().invoke(app, ["bench", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


@pytest.mark.skipif(not HAS_AVX2, reason="it is limited to AVX2")
def test_dmlpy_runs_the_kernels_of_the_set_and_the_record_says_so(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    arguments = (
        "--device",
        "cpu",
        "--operators",
        "ELEMENT_WISE_ABS",
        "--scale",
        "0.25",
        "--rounds",
        "1",
        "--no-peers",
        "--save",
        str(file),
    )
    status, shown = bench(*arguments, "--max-isa", "avx2")
    assert status == 0, shown
    assert "Limited to AVX2: dmlpy (which reports AVX2)." in shown
    record = Record.load(file)
    assert (record.host.max_isa, record.instruction_sets) == ("AVX2", {"dmlpy": "AVX2"})
    assert (record.device["vector registers"], record.device["largest instruction set"]) == ("16 of 8 floats", "AVX2")
    status, shown = bench(*arguments, "--add")
    assert status == 1
    assert "the existing record was made with --max-isa AVX2, this one would be with --max-isa none" in shown


@pytest.mark.skipif(not HAS_AVX2, reason="the sets are those of x86-64")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "cpu", "--max-isa", "AVX"], "'AVX' is none of AVX2"),
        (["--device", "cuda", "--max-isa", "AVX2"], "--max-isa limits libraries to instructions of x86-64: 'cuda' has none of them"),
    ],
)
def test_a_set_that_nothing_can_be_limited_to_is_refused(arguments: list[str], message: str) -> None:
    status, shown = bench(*arguments)
    assert status == 2
    assert message in shown


def test_other_processors_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(DmlError, match="'cpu' has none of them"):
        command.check(command.CommandOptions(device="cpu", max_isa="AVX2"))
    assert isa.instruction_set() is None


@pytest.mark.skipif(not HAS_AVX2, reason="the sets are those of x86-64")
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"operators": ()}, ["torch"]),
        ({"operators": (), "peers": ("onnxruntime", "torch")}, ["onnxruntime", "torch"]),
        ({}, ["dmlpy-numpy", "torch"]),
    ],
)
def test_peers_that_cannot_be_held_are_those_that_are_named(options: dict[str, tuple[str, ...]], names: list[str]) -> None:
    *_, peers = command.list_cases(command.CommandOptions(device="cpu", max_isa="AVX2", **options))
    assert [name for name, _ in peers.rows] == names


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ({"avx512bf16", "avx512vnni", "avx512bw", "avxvnni", "avx2", "avx", "sse4.1"}, "AVX512_CORE_BF16"),
        ({"avx512vnni", "avx512bw", "avx2", "avx", "sse4.1"}, "AVX512_CORE_VNNI"),
        ({"avx512bw", "avx2", "avx"}, "AVX512_CORE"),
        ({"avxvnni", "avx2", "avx"}, "AVX2_VNNI"),
        ({"avx2", "avx"}, "AVX2"),
        ({"avx", "sse41"}, "AVX"),
        ({"sse4.1"}, "SSE41"),
        ({"sse2"}, None),
    ],
)
def test_the_largest_set_is_named(features: set[str], name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    monkeypatch.setattr(isa, "host_processor", lambda: isa.Processor({**dict.fromkeys(features, True), "avx10.1": False}, ()))
    assert isa.instruction_set() == name


def test_those_that_are_held_are_libraries_of_the_benchmark() -> None:
    assert all(set(own) <= {"dmlpy", *(peer.name for peer in PEERS)} <= set(NAMES) for own in LIMITS.values())
    assert is_limited("onnxruntime", None)
    assert not is_limited("onnxruntime", "AVX2")


def test_libraries_that_were_not_held_are_marked_and_no_goal() -> None:
    least = {"dmlpy": 30.0, "torch": 20.0, "onnxruntime": 1.0}
    runs = [
        Measurement(shape=shape, dtype="FLOAT32", pass_="forward", subject=subject, mode="eager", status="ok", median_us=us, least_us=us)
        for shape in ("GEMM", SMALLEST)
        for subject, us in least.items()
    ]
    host = Host(processor="CPU", system="S", cores=2, threads=1, max_isa="AVX2")
    said = {"dmlpy": "AVX2", "torch": "AVX2"}
    record = Record(date="2026-11-29T10:00", device={"kind": "cpu", "name": "CPU"}, host=host, instruction_sets=said, runs=runs)
    operators, layers = report.parts(record)
    assert headings(record) == ["dmlpy", "PyTorch", "ONNX Runtime (not limited to AVX2)"]
    text = "Limited to AVX2: dmlpy (which reports AVX2), PyTorch (which reports AVX2); not limited, for lack of a setting: ONNX Runtime."
    assert isa_text(record) == text
    assert text in readme._where(record)
    assert report.goal_text(operators).startswith("1 of the 1 operators that another library has take at most 1.5 times")
    assert goals_text(layers).endswith(f"it takes more in {SMALLEST} forward FLOAT32 (1.50× that of PyTorch).")
    record.host.max_isa = None
    assert headings(record) == ["dmlpy", "PyTorch", "ONNX Runtime"]
    assert isa_text(record) == ""
    assert "GEMM (30×)" in report.goal_text(report.parts(record)[0])
