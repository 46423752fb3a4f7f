"""A rehearsal of `.github/workflows/directml.yml`: its steps, with the mock in the place of DirectML."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from dmlpy.cli.main import app
from dmlpy.conformance import command, libraries
from dmlpy.inspection import directml_records
from tests.support.directml.in_process import InProcess
from tests.support.folders import ROOT
from tests.support.tools import require

WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/directml.yml").read_text("utf-8"))
JOB = WORKFLOW["jobs"]["conformance"]
ROWS = JOB["strategy"]["matrix"]["include"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def filled(text: str, row: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda match: row[match[1]], text)


def rehearse(row: dict[str, str], more: list[str]) -> list[str]:
    """Executes the steps that run commands, in the current folder, and returns what was installed."""
    installed: list[str] = []
    for step in JOB["steps"]:
        if "run" not in step:
            continue
        program, *arguments = shlex.split(filled(step["run"], row))
        if program == "pip":
            assert arguments[:3] == ["install", "-e", "."]
            installed += arguments[3:]
            continue
        assert program == "dmlpy"
        named = [] if "--check" in arguments else more
        done = CliRunner().invoke(app, [arguments[0], *named, *arguments[1:]])
        assert done.exit_code == 0, done.output
    return installed


def test_it_runs_on_windows_each_week_and_by_hand() -> None:
    assert JOB["runs-on"] == "windows-latest"
    triggers = WORKFLOW[True]  # YAML 1.1 reads the key `on` as a truth value
    assert set(triggers) == {"schedule", "workflow_dispatch"}
    (schedule,) = triggers["schedule"]
    assert re.fullmatch(r"\d+ \d+ \* \* \d", schedule["cron"])
    minutes = next(int(found[1]) for step in JOB["steps"] if (found := re.search(r"--seconds (\d+)", step.get("run", "")))) / 60
    assert minutes + 20 <= JOB["timeout-minutes"]
    python = next(step["with"]["python-version"] for step in JOB["steps"] if "setup-python" in step.get("uses", ""))
    assert f"Programming Language :: Python :: {python}" in PYPROJECT["project"]["classifiers"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["directml"])
def test_the_steps_make_the_record_that_is_kept(row: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("g++")
    monkeypatch.setenv(libraries.TEST_LIBRARIES, "tests.support.directml.mock:libraries")
    monkeypatch.setattr(command, "Worker", InProcess)
    monkeypatch.chdir(tmp_path)
    installed = rehearse(row, ["FILL_VALUE_CONSTANT"])
    assert installed == (["onnxruntime-directml"] if row["directml"] == "onnxruntime" else [])
    upload = next(step for step in JOB["steps"] if "upload-artifact" in step.get("uses", ""))
    assert upload["if"] == "always()"
    assert os.listdir(tmp_path) == [filled(upload["with"]["path"], row)]
    record = directml_records.read(tmp_path / filled(upload["with"]["path"], row))
    assert record.operators["FILL_VALUE_CONSTANT"].checked > 50
