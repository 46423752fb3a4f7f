"""The files of dmlpy that an RNN passes through: those that the README lists, and few. One process answers for all devices."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys

from tests.support.folders import ROOT
from tests.support.structure.entered_files import STEPS
from tests.support.tools import missing

LISTED = ("numpy", "cpu", "cuda")
"""The devices whose way through the files is a table of the README."""

MOST_COMPILING = 32
"""Files that make an RNN's plan on NumPy, at most: not those of training forms, gradients and networks, as a family's `plans` module
imports a plan's module when one is made.
"""

MOST_ENTERED = 55
"""Files that a reader of an RNN's way from its desc to its result on the CPU device may meet, at most."""


def listed_files(device: str) -> list[tuple[str, str]]:
    """Steps and files in the table of an RNN's way on a device."""
    text = (ROOT / "dmlpy/README.md").read_text("utf-8")
    (table,) = re.findall(rf"^<!-- path: {device} -->\n(.*?)^<!-- end -->$", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| (\w+) \| `([^`]+)` \|", table, re.MULTILINE)


def test_an_rnn_passes_through_few_files_which_the_readme_lists() -> None:
    """In the order of the steps; on CUDA with the emulated device that executes kernels on the CPU."""
    names = ["numpy"]
    if importlib.util.find_spec("llvmlite"):
        names += ["cpu", "cpu"]  # the first one may compile
    if missing("g++") is None:
        names.append("cuda")
    command = [sys.executable, "-m", "tests.support.structure.entered_files", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    entered = dict(zip(names, json.loads(done.stdout), strict=True))
    for name in LISTED:
        listed = listed_files(name)
        assert [STEPS.index(step) for step, _ in listed] == sorted(STEPS.index(step) for step, _ in listed)
        assert len(listed) >= 10
        if name in entered:
            assert [(step, file) for step, file in listed if file not in entered[name][step]] == [], name
    compiling = entered["numpy"]["compile"]
    assert "dmlpy/devices/numpy/recurrent/layer.py" in compiling
    assert len(compiling) <= MOST_COMPILING, compiling
    on_cpu = {file for files in entered.get("cpu", {}).values() for file in files}
    assert len(on_cpu) <= MOST_ENTERED, sorted(on_cpu)
