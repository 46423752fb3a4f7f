"""Short runs of the fuzzer of files, and what it promises: that it sees a broken promise."""

from __future__ import annotations

import contextlib
import json
import random
import re
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("limits of a process are set as Linux does", allow_module_level=True)

from dmlpy.description.registry import OPERATORS
from tests.fuzzing import files, generated_json, generated_models, large, limited, mutants
from tests.support.folders import ROOT

for needed in ("onnx", "PIL", "safetensors", "flatbuffers"):
    pytest.importorskip(needed)


def test_mutants_and_generated_files_break_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """Of all kinds in one run, whose processes take longer to start than these tries."""
    assert files.main(["--tries", "25"]) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert f"{25 * len(files.TRIES)} tries, 0 broken promises" in told
    accepted = {kind: int(count) for count, kind in re.findall(r"(\d+) (generated.*?) accepted", told)}
    assert [kind for kind in files.GENERATED if accepted.get(kind, 0) <= 6] == [], "the others get behind the first checks"


def test_models_are_made_of_every_operator() -> None:
    schemas = generated_models.schemas()
    assert len({schema.name for schema in schemas}) > 200
    made = generated_models.with_each(random.Random(1))
    assert [{node.op_type for node in one.graph.node} for one in made] == [{schema.name} for schema in schemas]


def test_json_is_made_of_every_operator_and_mostly_read() -> None:
    chance, names, read = random.Random(2), set(OPERATORS), 0
    texts = [generated_json.generated(chance) for _ in range(300)]
    for text in texts:
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(text)
            read += 1
        names -= set(re.findall(r'"(DML[A-Z_0-9]+)"', text.decode("latin-1")))
    assert len(names) < len(OPERATORS) / 3
    assert 180 < read < 290


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_many_mutants_break_no_promise(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.main(["--seconds", "120", "--seed", str(seed)]) == 0, capsys.readouterr().out


@pytest.mark.slow
def test_large_files_break_no_promise(tmp_path: Path) -> None:
    """Files of 100 kB, with limits on time to match: what grows with the square of a file's size is far above them."""
    fuzz = files.FuzzRun(tmp_path, None, 2.0)
    try:
        for name, (kind, make) in large.FILES.items():
            if "picture" not in name:  # whose size is another one
                fuzz.take(kind, name, make(100_000))
    finally:
        fuzz.child.end()
    assert fuzz.finds == []
    assert fuzz.tries > 60


@pytest.mark.slow
def test_files_of_10_megabytes_break_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert files.main(["--tries", "0", "--megabytes", "10"]) == 0, capsys.readouterr().out


def test_mutants_follow_from_the_seed() -> None:
    for kind in files.TRIES:
        first, second = ([next(mutants.of(kind, random.Random(seed))) for _ in range(3)] for seed in (5, 5))
        assert first == second


PROGRAM = """
import os, sys, time
from tests.fuzzing import limited

def leaks(path): raise KeyError("leak")
def refuses(path): raise ValueError("told")
def crashes(path): os.abort()
def hangs(path): time.sleep(1000)
def computes(path):
    end = time.process_time() + 0.4
    while time.process_time() < end: pass
    return "accepted"
def fills(path): return str(len(b"x" * 90_000_000))
def overflows(path): return str(len(bytearray(2**40)))

limited.serve({name: value for name, value in globals().items() if callable(value)}, ValueError, float(sys.argv[2]))
"""


def test_the_fuzzer_sees_what_breaks_a_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fuzzed.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    child = limited.Child("fuzzed", seconds=0.2, megabytes=50)
    try:
        told = {kind: child.answer(kind, tmp_path) for kind in ("refuses", "leaks", "crashes", "computes", "fills", "overflows")}
        monkeypatch.setattr(limited, "WAITS", (1.0, 1.0))
        told["hangs"] = child.answer("hangs", tmp_path)
    finally:
        child.end()
    assert {kind: outcome.broken for kind, outcome in told.items()} == {kind: kind != "refuses" for kind in told}
    wanted = {"leaks": "KeyError", "crashes": "ended with -6", "computes": "after 0.", "fills": "MB"}
    wanted |= {"overflows": "MemoryError", "hangs": "no answer"}
    assert {kind: text in told[kind].told for kind, text in wanted.items()} == dict.fromkeys(wanted, True), told
