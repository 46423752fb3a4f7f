"""The program `dmlpy` itself: help, unknown commands, and output that cannot be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

import dmlpy as dml
from dmlpy.cli.main import OTHER_COMMANDS, UNWRITTEN, app
from dmlpy.inspection.explain import find
from tests.support.commands import dmlpy
from tests.support.dxdispatch.models import rnn_model, write


def test_help_and_version() -> None:
    status, out, _ = dmlpy("--help")
    assert status == 0
    assert all(command in out for command in ("run", "check", "explain", "ops", "levels", "info", "schemas"))
    assert dmlpy("--version") == (0, f"dmlpy {dml.__version__}\n", "")
    assert dmlpy("check")[0] == 2


@pytest.mark.parametrize("name", ["rnn.json", "RNN.JSON", "folder/dump.bin", "net.onnx", "absent.json"])
def test_a_file_in_the_place_of_a_command(name: str) -> None:
    status, out, err = dmlpy(name)
    assert (status, out) == (2, "")
    command = "onnx run" if name.endswith(".onnx") else "run"
    assert f"did you mean dmlpy {command} {name}?" in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("name", ["devices", "validate", "version"])
def test_commands_by_the_names_of_other_programs(name: str) -> None:
    status, _, err = dmlpy(name)
    assert status == 2
    assert f"did you mean dmlpy {OTHER_COMMANDS[name]}?" in " ".join(err.replace("│", " ").split())


def test_the_commands_that_are_meant_exist() -> None:
    program: Any = typer.main.get_command(app)
    for name, meant in OTHER_COMMANDS.items():
        assert name not in program.commands
        first, *rest = meant.split()
        assert first.startswith("--") or (set(rest) <= program.commands[first].commands.keys() if rest else first in program.commands)


def test_a_file_without_a_known_ending_and_an_unknown_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, rnn_model()).rename(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    assert "dmlpy run model" in dmlpy("model")[2]
    status, _, err = dmlpy("models")
    assert status == 2
    assert "dmlpy run" not in err


def test_the_program_and_the_package_run_and_load_little_for_help(tmp_path: Path) -> None:
    program = [
        sys.executable,
        "-c",
        "import sys; from dmlpy.cli.main import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)",
    ]
    shown = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown.stdout == f"dmlpy {dml.__version__}\n"
    loaded = set(shown.stderr.split())
    assert not {"cupy", "PIL", "psutil", "flatbuffers", "dmlpy.dxdispatch", "dmlpy.inspection.catalog", "dmlpy.inspection.schemas"} & loaded
    checked = subprocess.run([*program, "check", "absent.json"], capture_output=True, text=True, check=False, cwd=tmp_path)
    loaded = set(checked.stderr.split())
    assert "dmlpy.dxdispatch.checker" in loaded
    assert not {"dmlpy.dxdispatch.runner", "dmlpy.devices.graphs", "statistics"} & loaded, "nothing runs"
    as_package = [sys.executable, "-m", "dmlpy"]
    failed = subprocess.run([*as_package, "run", "absent.json"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("absent.json: 1 problem\n 1. file is missing, expected a file  [file.unreadable]\n")


def test_one_operator_is_explained_without_the_others() -> None:
    program = """
import sys
from contextlib import suppress
from dmlpy.cli.main import main
from dmlpy.inspection.explain import find, is_code
for name in ("GATHER", "gather", "DML_OPERATOR_GATHER", "dml_gather_operator_desc", "GatherDesc"):
    assert not is_code(name)
    assert find(name).c_name == "DML_GATHER_OPERATOR_DESC"
with suppress(SystemExit):
    main()
print(*sorted(name for name in sys.modules if name.startswith(("dmlpy.operators.", "dmlpy.devices.cuda."))), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program, "explain", "GATHER"], capture_output=True, text=True, check=True)
    assert "DML_GATHER_OPERATOR_DESC" in done.stdout
    assert done.stderr.split() == ["dmlpy.operators.along_axis", "dmlpy.operators.indexing"]
    with pytest.raises(dml.DescError, match="did you mean GATHER_ND"):
        find("GATHERND")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "command",
    [
        *("--help", "check absent.json --json"),
        *(pytest.param(command, marks=pytest.mark.slow) for command in ("explain GEMM", "ops --family attention", "onnx --help")),
    ],
)
def test_output_that_cannot_be_written_is_reported_on_one_line(command: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        program = [sys.executable, "-m", "dmlpy", *command.split()]
        failed = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert (failed.returncode, failed.stderr) == (UNWRITTEN, "the output cannot be written: No space left on device\n")
