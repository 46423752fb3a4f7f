"""Models and descs that were changed at random: every one runs or raises an error of dmlpy's own."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

import dmlpy as dml
from dmlpy.dxdispatch import Folders, ModelError, RunError, RunOptions, load, run
from dmlpy.dxdispatch.checker import Report, check_file
from tests.support.dxdispatch.fuzzed_models import at, bases, descs_and_graphs, places
from tests.support.dxdispatch.models import put, rnn_model, write
from tests.support.graphs import cases as graph_cases
from tests.support.graphs import flatbuffer_writer
from tests.support.pairwise import first_few

MEMORY = 64 * 2**20
"""Bytes that the models' resources may take."""

NUMBERS = [0, 1, -1, 2, 4, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, 10**18, 10**30, -(2**31), -(2**63)]
NUMBERS += [-0.0, 0.5, 1e-320, 1e38, 1e308, float("nan"), float("inf"), -float("inf")]
WORDS = [
    "",
    "nan",
    "inf",
    "x",
    "é\0\ud800",
    "\x1b[31m",
    "FLOAT32",
    "FLOAT16",
    "FLOAT64",
    "UINT32",
    "INT4",
    "UNKNOWN",
    "deferred",
    "OWNED_BY_DML",
]
WORDS += [
    "RNN",
    "LSTM",
    "GRU",
    "GEMM",
    "ACTIVATION_SOFTMAX1",
    "ACTIVATION_TANH",
    "FORWARD",
    "BIDIRECTIONAL",
    "a.npy",
    "../a.npy",
    "a" * 5000,
]
PARTS: list[Any] = [None, True, False, [], {}, [[]], [None], [1], [1, 1, 1, 1], [0, 0, 0, 0], [2**31] * 4, [2**32 - 1] * 8, [1] * 40]
PARTS += [{"valueCount": 10**18, "value": 0}, {"valueCount": 2**31, "valueStart": 0, "valueDelta": 1}, {"sourcePath": "a.npy"}]
PARTS += [{"Type": "BUFFER", "Desc": {}}, {"name": "x", "elementOffset": 2**60}]
PARTS += [{"DataType": "FLOAT32", "Sizes": [1, 1, 1, 1], "Strides": [0, 0, 0, 0]}]
VALUES = [*NUMBERS, *WORDS, *PARTS]
MEMBERS = [
    "Strides",
    "Flags",
    "TotalTensorSizeInBytes",
    "GuaranteedBaseOffsetAlignment",
    "BiasTensor",
    "SequenceLengthsTensor",
    "Type",
    "desc",
]
MEMBERS += ["sizeInBytes", "initialValuesOffsetInBytes", "elementOffset", "executionFlags", "bindings", "verbose", "resampleSize"]
MEMBERS += ["DimensionCount", "ActivationDescCount", "name"]


def change(data: dict[str, Any], chance: random.Random) -> None:
    """One value becomes another, one elsewhere, a different number, goes, is doubled, or gets another name or a new neighbour."""
    found = list(places(data))
    if not found:
        return
    path = chance.choice(found)
    parent, key = at(data, path[:-1]), path[-1]
    kind = chance.choices(["value", "elsewhere", "number", "gone", "twice", "name", "neighbour"], [9, 3, 2, 3, 2, 2, 2])[0]
    value = parent[key]
    if kind == "value":
        parent[key] = copy.deepcopy(chance.choice(VALUES))
    elif kind == "elsewhere":
        parent[key] = copy.deepcopy(at(data, chance.choice(found)))
    elif kind == "number" and type(value) in (int, float):
        parent[key] = chance.choice([value + 1, value * 2, -value, value * 0.5 if abs(value) < 1e300 else 0, str(value)])
    elif kind == "gone":
        del parent[key]
    elif kind == "twice" and isinstance(parent, list):
        parent[key:key] = [copy.deepcopy(value)] * chance.choice([1, 30])
    elif kind == "name" and isinstance(parent, dict):
        del parent[key]
        parent[chance.choice([key + "x", key.lower(), key.upper(), key[:-1]])] = value
    elif kind == "neighbour" and isinstance(parent, dict):
        parent[chance.choice(MEMBERS)] = copy.deepcopy(chance.choice(VALUES))


def damage(content: str, chance: random.Random) -> str:
    start = chance.randrange(len(content))
    return content[:start] + chance.choice(["", '"', "}", ",", " // c\n", "/*", "\\", "\0"]) + content[start + chance.randrange(3) :]


def is_told(path: Path) -> Report:
    """A check that must end with a report whose every part can be shown, with problems at places of the text."""
    report = check_file(path)
    told = json.loads(json.dumps(report.to_dict()))["problems"]
    assert len([item for item in told if item["severity"] == "error"]) == report.problem_count
    assert (report.problem_count == 0) == (not report.findings)
    assert report.text().replace("\n", "").isprintable()
    for finding in report.findings:
        assert finding.problems
        if finding.table is not None:
            assert finding.table.title in finding.table.to_text()
            assert finding.table.to_html().startswith("<table>")
    if report.kind not in (None, "serialized graph"):
        lines = path.read_bytes().decode("utf-8-sig", errors="surrogatepass").split("\n")
        for item in told:
            assert 1 <= item["line"] <= len(lines), item
            assert 1 <= item["column"] <= len(lines[item["line"] - 1]) + 1, item
    return report


def is_told_or_runs(path: Path) -> None:
    report = is_told(path)
    failed = error_of_run(path)
    if failed is None or (isinstance(failed, dml.DeviceError) and failed.hresult.name == "E_OUTOFMEMORY"):
        assert not report.findings
    elif isinstance(failed, dml.CompileError):
        assert {problem.code for problem in failed.problems} == {"operator.not_built"}
        assert not report.findings
    elif isinstance(failed, RunError):
        assert "value.range" in str(failed)  # sequence lengths, known when they are bound
        assert not report.findings
    else:
        assert isinstance(failed, ModelError)
        assert failed.problems


def error_of_run(path: Path) -> dml.DmlError | None:
    try:
        model = load(path, Folders((path.parent,), path.parent / "output"))
        run(model, dml.device("numpy"), RunOptions(debug=True), inform=str, warn=str)
    except dml.DmlError as error:
        return error
    return None


@pytest.mark.parametrize("seed", first_few(range(12), 4))
def test_changed_files_get_an_error_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=MEMORY))
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32))
    (tmp_path / "a.dat").write_bytes(b"12345678")
    chance = random.Random(seed)
    valid = bases()
    for number in range(60):
        data = copy.deepcopy(chance.choice(valid))
        for _ in range(chance.choice([1, 1, 1, 2, 3, 8])):
            change(data, chance)
        content = json.dumps(data)
        if number % 20 == 0:
            content = damage(content, chance)
        try:
            is_told_or_runs(write(tmp_path, content))
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} of {content}") from error


def test_changed_descs_and_graphs_get_an_error(tmp_path: Path) -> None:
    valid, chance = descs_and_graphs(), random.Random(7)
    assert len(valid) > 300
    broken = 0
    for number in range(300):
        data = copy.deepcopy(chance.choice(valid))
        for _ in range(chance.choice([0, 1, 1, 1, 2, 5])):
            change(data, chance)
        content = json.dumps(data, indent=chance.choice([None, 1]))
        if number % 20 == 0:
            content = damage(content, chance)
        try:
            broken += bool(is_told(write(tmp_path, content)).findings)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} of {content}") from error
    assert 100 < broken < 300


def test_changed_serialized_graphs_get_an_error(tmp_path: Path) -> None:
    chance = random.Random(8)
    valid = [flatbuffer_writer.write(flatbuffer_writer.dump_of(graph_cases.random_network(seed))) for seed in range(10)]
    path = tmp_path / "graph.bin"
    for _ in range(300):
        data = bytearray(chance.choice(valid))
        for _ in range(chance.choice([1, 1, 4, 40])):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 2, 4, 127, 128, 255, chance.randrange(256)])
        path.write_bytes(data[: chance.choice([len(data), chance.randrange(len(data))])])
        try:
            is_told(path)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} of {path.read_bytes().hex()}") from error


def test_the_bases_are_valid(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32))
    (tmp_path / "a.dat").write_bytes(b"12345678")
    assert [check_file(write(tmp_path, data)).findings for data in bases()] == [()] * len(bases())


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process are set as Linux does")
@pytest.mark.parametrize(("command", "status"), [("check", 0), ("run", 1)])
def test_memory_that_is_not_to_be_had_fails_the_run_and_no_check(tmp_path: Path, command: str, status: int) -> None:
    path = write(
        tmp_path, put(rnn_model(), "resources/z", {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 2**31, "value": 1}})
    )
    program = f"""
import resource, sys, psutil
from types import SimpleNamespace
import dmlpy.dxdispatch.checker, dmlpy.dxdispatch.runner, dmlpy.cli.main
psutil.virtual_memory = lambda: SimpleNamespace(available=2**40)
used = psutil.Process().memory_info().vms
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, used + 2**29))
sys.argv = ["dmlpy", "{command}", {str(path)!r}]
dmlpy.cli.main.main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == status, ended.stderr
    assert ("the host has no memory left for resource 'z'" in ended.stderr) == (command == "run")
    assert "Traceback" not in ended.stderr
