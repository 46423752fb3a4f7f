"""Ctrl+C ends the `dmlpy` command with one line and status 130, wherever it arrives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dmlpy
from dmlpy.cli.interrupts import reported
from dmlpy.system import interrupts

LINE = "dmlpy: interrupted\n"

# Sends the process SIGINT when it imports a module, or when it ends. Python runs this file before anything else.
SITE = """
import atexit, os, sys
sys.modules.pop("signal", None)

def watch(event, arguments):
    if event == "import" and arguments[0] == os.environ["MOMENT"]:
        os.kill(os.getpid(), 2)

sys.addaudithook(watch)
if os.environ["MOMENT"] == "end":
    atexit.register(os.kill, os.getpid(), 2)
"""

SCRIPT = "import sys\nfrom dmlpy.cli.main import main\nsys.exit(main())\n"
"""What pip writes as the program `dmlpy`."""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a single process")
@pytest.mark.parametrize("program", ["module", pytest.param("script", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "moment", ["signal", "numpy", "dmlpy.inspection.catalog", *(pytest.param(late, marks=pytest.mark.slow) for late in ("typer", "end"))]
)
def test_an_interrupt_at_any_time_is_one_line(moment: str, program: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    (tmp_path / "dmlpy").write_text(SCRIPT)
    path = os.pathsep.join((str(tmp_path), str(Path(dmlpy.__file__).parents[1])))
    ran = subprocess.run(
        [sys.executable, *(("-m", "dmlpy") if program == "module" else (str(tmp_path / "dmlpy"),)), *("ops", "--family", "attention")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "MOMENT": moment},
        # A shell lets programs in its background ignore SIGINT; Python then raises no KeyboardInterrupt.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (ran.returncode, ran.stderr) == (interrupts.STATUS, LINE)
    assert ("MULTIHEAD_ATTENTION" in ran.stdout) == (moment == "end")


@pytest.fixture
def found() -> Iterator[None]:
    """Python's handler of SIGINT, which a process in a shell's background does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(then: BaseException | None) -> None:
    """A command that receives SIGINT, where something makes another exception of it, or none."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        if then is not None:
            raise then from None
        raise


@pytest.mark.parametrize(
    ("then", "status"),
    [(None, 130), (ImportError("half of it"), 130), (SystemExit(1), 130), (SystemExit(130), 130), (SystemExit(0), 0)],
    ids=["nothing", "ImportError", "failure", "what typer makes of it", "success"],
)
def test_what_others_make_of_an_interrupt_is_the_same(
    then: BaseException | None, status: int, found: None, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, reported():
        interrupted(then)
    assert (ended.value.code, capfd.readouterr().err) == (status, LINE if status else "")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_errors_stay_what_they_are(found: None, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ImportError, match="no such module"), reported():
        raise ImportError("no such module")
    assert capfd.readouterr().err == ""


def test_a_command_that_ignores_interrupts_goes_on(found: None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with reported():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize(
    ("given", "whole", "is_command"),
    [
        (["/home/me/.venv/bin/dmlpy", "ops"], None, True),
        ([r"dmlpy.exe"], None, True),
        (["-m", "ops", "-s"], ["python3", "-I", "-m", "dmlpy", "ops", "-s"], True),
        (["-m"], ["python3", "-mdmlpy"], True),
        (["-m", "dmlpy"], ["python3", "-m", "pytest", "dmlpy"], False),
        (["-m", "a.py"], ["python3", "-m", "dmlpy.pydirectml", "a.py"], False),
        (["train.py", "dmlpy"], None, False),
        (["-c"], None, False),
        ([], None, False),
    ],
)
def test_the_command_is_told_from_programs_that_import_dmlpy(
    given: list[str], whole: Any, is_command: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", given)
    monkeypatch.setattr(sys, "orig_argv", whole or ["python3", *given])
    assert interrupts.is_command() == is_command
