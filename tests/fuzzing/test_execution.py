"""The fuzzers of execution keep going without a broken promise, and would notice one."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from dmlpy.devices.numpy.array_functions import WholePlan
from tests.fuzzing import execution
from tests.support.folders import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages, signals and forks as Linux has them")


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)


def run_fuzzer(name: str, tries: int, seed: int) -> None:
    done = program("-m", "tests.fuzzing.execution", name, "--tries", str(tries), "--seed", str(seed))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{name}: "), "it has tried something"


FEW = {"forks": 1, "pages": 10, "threads": 1, "interrupts": 8}
"""Tries of each fuzzer. Forks come first, from a process whose threads have not been fuzzed."""


def test_a_few_tries() -> None:
    """In one process: several of them run the same kernels, whose compilation takes longer than the fuzzers."""
    runs = [[name, "--tries", str(tries), "--seed", "1"] for name, tries in FEW.items()]
    done = program("-c", f"from tests.fuzzing.execution import main; raise SystemExit(sum(main(run) for run in {runs}))")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == list(FEW), "each has tried something"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tries"), [("pages", 3000), ("threads", 50), ("interrupts", 500), ("forks", 50)])
def test_many_tries(name: str, tries: int) -> None:
    run_fuzzer(name, tries, seed=10_000)


TOUCHES = """\
import ctypes, sys
from tests.fuzzing.pages import Guarded
block = Guarded(40, 8, at_end=sys.argv[1] != "first", fill=0)
ctypes.memset(block.pointer, 1, 40)
if sys.argv[1] == "read-only":
    block.write_protect(True)
if sys.argv[1] == "freed":
    block.free()
ctypes.memset(block.pointer + {"first": -1, "last": 40, "read-only": 3, "freed": 3, "own": 39}[sys.argv[1]], 1, 1)
"""


@pytest.mark.parametrize("where", ["first", "last", "read-only", "freed", "own"])
def test_pages_kill_who_touches_them(where: str) -> None:
    assert program("-c", TOUCHES, where).returncode == (0 if where == "own" else -signal.SIGSEGV)


def test_a_result_that_depends_on_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an operator leaves of its outputs as it was."""
    monkeypatch.setattr(WholePlan, "bind_arrays", lambda self, arrays: lambda stream: None)

    def tries() -> None:
        for seed in range(200):
            execution.fuzz_pages(np.random.default_rng(seed), Counter())

    with pytest.raises(execution.BrokenPromiseError, match="depends on what was in memory"):
        tries()
