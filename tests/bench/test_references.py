"""Float64 results that are made before a benchmark: what a file holds, when it is refused, and that nobody computes them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing

import dmlpy as dml
from dmlpy.bench import priorities, references, work
from dmlpy.bench.measure import Benchmark, Options
from dmlpy.bench.records import Record
from dmlpy.bench.references import References, checksum, write
from dmlpy.bench.shapes import BatchNorm, LayerShape, Pass, Recurrent
from dmlpy.bench.work import Case, RecurrentWork, relative_error
from dmlpy.cli.main import app
from dmlpy.messages.problems import DmlError
from tests.support.bench import peers as bench_peers
from tests.support.bench.peers import peer
from tests.support.folders import ROOT

LSTM = Recurrent(title="test", suite="cpu", layers=(LayerShape("LSTM", 4, 6), LayerShape("LSTM", 6, 5)), batch=4, steps=5)
NORM = BatchNorm(title="test", suite="batch_norm", sizes=(3, 5, 4, 6), layout="NHWC")
PASSES: tuple[Pass, ...] = ("training", "forward")
CASES = [Case(shape, "FLOAT32", which) for shape in (LSTM, NORM) for which in PASSES]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the references of all cases."""
    path = tmp_path_factory.mktemp("references") / "folder" / "made"
    write(path, CASES)
    return path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_holds_what_would_be_computed(file: Path, case: Case) -> None:
    found = References.load(file)
    found.check(CASES)
    results, expected = found.of(case), case.work().reference()
    assert results is not None
    assert sorted(results) == sorted(expected)
    assert 0 < relative_error(results, expected)[0] < 1e-7, "rounded once, to FLOAT32"
    assert {array.dtype.name for array in results.values()} == {"float32"}
    assert [path.name for path in file.parent.iterdir()] == [file.name], "no unfinished file is left"


def test_a_case_that_a_file_lacks_has_no_results(file: Path) -> None:
    other = Case(LSTM, "FLOAT16", "training")
    found = References.load(file)
    assert found.of(other) is None
    found.check([other])


def change_the_seed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(work, "_SEED", 9)


def change_the_samples(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(work, "CHECKED", 2)


def change_numpy(patch: pytest.MonkeyPatch) -> None:
    other = np.random.default_rng
    patch.setattr(np.random, "default_rng", lambda seed: other([7, seed]))


def change_a_definition(patch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes
    references._definition.cache_clear()
    patch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" if path.name == "layer.py" else read(path))


def change_the_desc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BatchNorm, "descs", lambda self, which, dtype: [])
    patch.setattr(Recurrent, "descs", lambda self, which, dtype: [])


@pytest.mark.parametrize("change", [change_the_seed, change_the_samples, change_numpy, change_a_definition, change_the_desc])
def test_a_stale_file_is_refused(file: Path, change: Any) -> None:
    found, before = References.load(file), [checksum(case) for case in CASES]
    assert len(set(before)) == len(CASES)
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        with pytest.raises(DmlError, match=r"made was made by another dmlpy: .*-b4-t5 FLOAT32 training") as told:
            found.check(CASES)
        with pytest.raises(DmlError, match="made was made by another dmlpy"):
            found.of(CASES[0])
    references._definition.cache_clear()
    assert "make it anew: python -m dmlpy.bench.references made" in str(told.value)
    assert [checksum(case) for case in CASES] == before


def line(**members: Any) -> bytes:
    """A file's first line, with other members."""
    return json.dumps({"format": 1, "dmlpy": "0", "cases": {}} | members).encode() + b"\n"


def told_of(sizes: list[Any], data: bytes = b"") -> bytes:
    return line(cases={"a": {"checksum": "b", "results": {"y": sizes}}}) + data


BROKEN = {
    "empty": (b"", "its first line: Invalid JSON"),
    "an archive": (b"PK\x03\x04", "its first line: Invalid JSON"),
    "no object": (b"3\n", "its first line: Input should be an object"),
    "no cases": (b"{}\n", "its first line: Field required"),
    "another format": (line(format=2), "its first line: Input should be 1"),
    "more members": (line(more=1), "its first line: Extra inputs are not permitted"),
    "cases of another kind": (line(cases={"a": 3}), "its first line: Input should be an object"),
    "too deep": (b"[" * 100_000 + b"\n", "its first line: Invalid JSON"),
    "a negative size": (told_of([-1]), "its first line: Input should be greater"),
    "too large a size": (told_of([1 << 50]), "its first line: Input should be less"),
    "too many sizes": (told_of([1] * 9), "its first line: List should have at most 8 items"),
    "no data": (told_of([1 << 39, 1 << 39]), "0 bytes follow its first line, which tells of 1208925819614629174706176"),
    "less data": (told_of([2, 3], b"1234" * 5), "20 bytes follow its first line, which tells of 24"),
    "more data": (told_of([2, 3], b"1234" * 7), "28 bytes follow its first line, which tells of 24"),
}


@pytest.mark.parametrize(("data", "why"), BROKEN.values(), ids=list(BROKEN))
def test_what_is_no_such_file_is_reported(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "broken"
    path.write_bytes(data)
    with pytest.raises(DmlError) as told:
        References.load(path)
    assert f"broken is not a file of `python -m dmlpy.bench.references`: {why}" in str(told.value)


def test_a_file_that_is_cut_short_is_reported(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DmlError, match=r"short is not .*: \d+ bytes follow its first line, which tells of \d+"):
        References.load(path)


def test_a_benchmark_computes_no_more_than_a_file_lacks(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found, reference = References.load(file), RecurrentWork.reference
    computed: list[str] = []

    def counted(self: RecurrentWork) -> Any:
        computed.append(self.dtype.name)
        return reference(self)

    monkeypatch.setattr(RecurrentWork, "reference", counted)
    options = Options(own=peer(bench_peers.Reusable), peers=[peer(bench_peers.Wrong)], rounds=1, threads=1, references=found)
    runs = Benchmark(dml.device("numpy"), options).run([Case(LSTM, dtype, "forward") for dtype in ("FLOAT32", "FLOAT16")]).runs
    assert computed == ["float16"]
    of_file, here = "float64, from made: 3 of 4", "float64, computed here: 3 of 4"
    of_floats = [(run.status, run.reference) for run in runs if run.dtype == "FLOAT32"]
    assert of_floats == [("ok", of_file), ("wrong", of_file)]
    of_halves = [(run.status, run.reference) for run in runs if run.dtype == "FLOAT16"]
    assert of_halves == [("ok", here), ("ok", here)], "fewer digits are asked for"


def test_a_stale_file_is_reported_before_anything_is_measured(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = Options(own=peer(bench_peers.Exact), peers=(), rounds=1, threads=1, references=References.load(file))
    monkeypatch.setattr(work, "_SEED", 9)
    with pytest.raises(DmlError, match="another dmlpy"):
        Benchmark(dml.device("numpy"), options).run(CASES, tmp_path / "record.json")
    assert not (tmp_path / "record.json").exists()


def run(*arguments: Any) -> tuple[int, str]:
    result = typer.testing.CliRunner().invoke(app, ["bench", *map(str, arguments)], env={"COLUMNS": "250", "TERM": "dumb"})
    return result.exit_code, result.stderr


def test_the_commands_make_and_take_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, record = tmp_path / "made", tmp_path / "record.json"
    name = "lstm-128-b1-t1 FLOAT32 forward"
    assert references.main([str(path), name]) == 0
    assert capsys.readouterr().out == f"{name}: 384 numbers\n"
    asked = ("--device", "numpy", "--shape", "lstm-128-b1-t1", "--no-peers", "--rounds", 1, "--save", record, "--references", path)
    assert run(*asked)[0] == 0
    assert {run.reference for run in Record.load(record).runs} == {"float64, from made: 1 of 1"}
    status, told = run(*asked[:-1], tmp_path / "missing")
    assert status == 1
    assert "missing is not a file of" in told


def test_the_command_reports_unknown_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert references.main([str(tmp_path / "made"), "lstm-128-b1-t513 FLOAT32 forward"]) == 1
    told = capsys.readouterr().err
    assert "'lstm-128-b1-t513 FLOAT32 forward' is not a case" in told
    assert "did you mean 'lstm-128-b1-t512 FLOAT32 forward'?" in told
    assert not (tmp_path / "made").exists()


def test_the_first_layers_are_there_and_their_file_is_small() -> None:
    """4 bytes for each number of y, the last states and all gradients of 3 samples."""
    total = 0
    for name in priorities.FIRST_LAYERS:
        case = priorities.case_of(name)
        if isinstance(case.shape, BatchNorm):
            images, _, height, width = case.shape.sizes
            total += 2 * 3 * images * height * width
            continue
        assert isinstance(case.shape, Recurrent)
        samples = min(3, case.shape.batch)
        total += samples * case.shape.steps * (case.shape.layers[-1].output_size + case.trains * case.shape.layers[0].input_size)
        total += sum(layer.parameters for layer in case.shape.layers) * case.trains
    assert 4 * total < 18e6
