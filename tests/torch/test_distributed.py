"""dmlpy.torch's modules on two processes: data parallel, sharded, stored."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.folders import ROOT
from tests.support.tools import require

require("torch")

import torch

from tests.support.torch.ranks import RANKS, WORLD


@cache
def failures() -> dict[str, str]:
    """What went wrong on any rank, by what was tried; the checks after one that fails do not run."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.support.torch.ranks"]
        ranks = [subprocess.Popen([*command, str(rank), folder], cwd=ROOT, stderr=subprocess.PIPE, text=True) for rank in range(WORLD)]
        try:
            for rank in ranks:
                _, told = rank.communicate(timeout=120)
                assert rank.returncode == 0, told
        finally:
            for rank in ranks:
                rank.kill()
        found: dict[str, str] = {}
        for number in range(WORLD):
            for name, told in json.loads((Path(folder) / f"{number}.json").read_text(encoding="utf-8")).items():
                found[name] = f"{found.get(name, '')}rank {number}:\n{told}"
        return found


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")
def test_two_processes() -> None:
    """All of them in one pair of processes, since these take seconds to start."""
    found = failures()
    assert not found, "\n".join(f"{name}: {told}" for name, told in found.items())
    assert len(RANKS) == 9
