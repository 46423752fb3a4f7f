"""The kernels that the tests marked `gpu` name: a plugin of pytest that notes them, on the emulated GPU that computes nothing.

`kernels_of_gpu_tests` runs those tests under it in a process of their own.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary
from tests.support.cuda import emulated_gpu
from tests.support.folders import ROOT

RESULT = "DMLPY_TEST_GPU_KERNELS"
"""Names the file that gets them."""

Named = tuple[Kernel, bool]
"""A kernel, and whether its source is another than the file's, as in the soak, where blocks come late."""
NAMED: dict[Named, None] = {}
_READ = sources.read


def pytest_configure() -> None:
    """What only compares is passed over, so that a test comes to its next kernels."""
    functions = KernelLibrary.functions

    def noted(self: KernelLibrary, kernels: Iterable[Kernel]) -> list[Any]:
        wanted = list(kernels)
        NAMED.update(dict.fromkeys((kernel, sources.read is not _READ) for kernel in wanted))
        return functions(self, wanted)

    KernelLibrary.functions = noted  # type: ignore[method-assign]
    for name in ("assert_allclose", "assert_array_equal", "assert_equal"):
        setattr(np.testing, name, lambda *_, **__: None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    Path(os.environ[RESULT]).write_bytes(pickle.dumps((session.testscollected, list(NAMED))))


def kernels_of_gpu_tests(result: Path, *tests: str, marks: str = "gpu", gpu: str = "") -> tuple[int, list[Named]]:
    """How many tests there are, of those that are named or of all, with these marks, and what they name for a GPU of `ahead.GPUS`."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", marks, "-p", __name__, "-p", "no:cacheprovider", "--tb=no", *tests]
    environment = os.environ | {RESULT: str(result), emulated_gpu.VARIABLE: f"null {gpu}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: without comparisons a test may come to what it cannot do with wrong results
        raise RuntimeError(done.stdout[-5000:] + done.stderr[-5000:])
    count, kernels = pickle.loads(result.read_bytes())
    return count, kernels
