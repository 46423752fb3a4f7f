"""The plans that families attach to descs: what is imported to find one."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.folders import ROOT


def test_an_rnn_is_compiled_by_few_files() -> None:
    """Not by those of training forms, gradients and networks: a family's `plans` module imports a plan's module when one is made."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.entered_files", "numpy"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    entered = json.loads(done.stdout)["compile"]
    assert "dmlpy/devices/numpy/recurrent/layer.py" in entered
    assert len(entered) <= 30, entered
