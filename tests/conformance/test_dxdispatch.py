"""Operators run by DxDispatch: `dmlpy run`, which has its options and reads its models, takes the place of the program."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dmlpy as dml
from dmlpy.cli.main import app
from dmlpy.conformance import command, libraries
from dmlpy.conformance.cases import operator_classes, runs
from dmlpy.conformance.dxdispatch import SOFTWARE_ADAPTER, DxDispatch
from dmlpy.conformance.findings import differing_outputs
from dmlpy.conformance.values import random_inputs, to_bytes
from tests.support.directml.in_process import InProcess
from tests.support.tools import require

KINDS = {kind.short_name(): kind for kind in operator_classes()}
PROGRAM = Path("dxdispatch.exe")


def replace_program(monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any]) -> None:
    """Replaces `subprocess.run` in the module under test only: devices start programs, too."""
    seen = SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr("dmlpy.conformance.dxdispatch.subprocess", seen)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines of DxDispatch, which `dmlpy run` executes without the adapter's name."""
    found: list[list[str]] = []

    def run(arguments: list[str], *, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
        found.append(arguments)
        kept = arguments[1:]
        if "--adapter" in kept:
            at = kept.index("--adapter")
            assert kept[at + 1] == SOFTWARE_ADAPTER
            kept = kept[:at] + kept[at + 2 :]
        with monkeypatch.context() as place:
            place.chdir(cwd)
            done = CliRunner().invoke(app, ["run", *kept, "--device", "numpy"])
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    replace_program(monkeypatch, run)
    return found


@pytest.mark.parametrize("name", ["GRU", "SPLIT", "FILL_VALUE_CONSTANT", "JOIN"])
def test_results_arrive_as_computed(calls: list[list[str]], name: str) -> None:
    program = DxDispatch(PROGRAM, dml.FeatureLevel.FL_6_4, hardware=False, limit_s=9)
    desc = runs(KINDS[name], dml.FeatureLevel.FL_6_4)[0]
    inputs = random_inputs(np.random.default_rng(3), desc)
    given = [None if slot.tensor is None else to_bytes(slot.tensor, inputs[slot.place]) for slot in desc.input_slots()]
    results = program.run(desc, given)
    assert differing_outputs(desc, inputs, results) == []
    assert len(results) == len(desc.output_slots())
    assert calls == [["dxdispatch.exe", "--dml_feature_level", "6_4", "--adapter", SOFTWARE_ADAPTER, "--model", "model.json"]]


def test_the_record_says_who_ran_the_operators(calls: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require("g++")
    program = tmp_path / PROGRAM
    with pytest.raises(dml.DmlError, match=r"there is no .*dxdispatch\.exe"):
        command.run(command.ConformanceOptions(dxdispatch=program), lambda found: None, lambda text: None)
    program.touch()
    monkeypatch.setenv(libraries.TEST_LIBRARIES, "tests.support.directml.mock:libraries")
    monkeypatch.setattr(command, "Worker", InProcess)
    options = command.ConformanceOptions(["FILL_VALUE_CONSTANT"], dxdispatch=program, hardware=True)
    record = command.run(options, lambda found: None, lambda text: None)
    found = record.operators["FILL_VALUE_CONSTANT"]
    assert record.results_by == "DxDispatch"
    assert len(calls) == found.runs == found.runs_agree > 0
    assert all("--adapter" not in arguments for arguments in calls)


def fails(arguments: list[str], **options: Any) -> Any:
    raise OSError(2, "No such file or directory")


def hangs(arguments: list[str], *, timeout: float, **options: Any) -> Any:
    raise subprocess.TimeoutExpired(arguments, timeout)


def refuses(arguments: list[str], *, cwd: Path, **options: Any) -> Any:
    return subprocess.CompletedProcess(arguments, 1, "", f"first line\n{cwd}/model.json: the parameter is incorrect\n")


def forgets(arguments: list[str], **options: Any) -> Any:
    return subprocess.CompletedProcess(arguments, 0, "", "")


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (fails, "DxDispatch cannot be started: No such file or directory"),
        (hangs, "DxDispatch did not end within 9 s"),
        (refuses, "DxDispatch ended with status 1: FOLDER/model.json: the parameter is incorrect"),
        (forgets, "DxDispatch wrote no output: No such file or directory"),
    ],
)
def test_failures_have_one_line(monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any], expected: str) -> None:
    replace_program(monkeypatch, run)
    desc = runs(KINDS["FILL_VALUE_CONSTANT"], dml.FeatureLevel.FL_6_4)[0]
    with pytest.raises(dml.DmlError) as caught:
        DxDispatch(PROGRAM, dml.FeatureLevel.FL_6_4, hardware=False, limit_s=9).run(desc, [])
    assert str(caught.value) == expected
