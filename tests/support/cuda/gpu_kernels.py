"""The kernels that the tests marked `gpu` name: a plugin of pytest that notes them, over the stand-in that computes nothing.

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

from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary
from tests.support.cuda import stand_in
from tests.support.folders import ROOT

RESULT = "DMLPY_TEST_GPU_KERNELS"
"""Names the file that gets them."""

NAMED: dict[Kernel, None] = {}


def pytest_configure() -> None:
    """What only compares is passed over, so that a test comes to its next kernels."""
    functions = KernelLibrary.functions

    def noted(self: KernelLibrary, kernels: Iterable[Kernel]) -> list[Any]:
        wanted = list(kernels)
        NAMED.update(dict.fromkeys(wanted))
        return functions(self, wanted)

    KernelLibrary.functions = noted  # type: ignore[method-assign]
    for name in ("assert_allclose", "assert_array_equal", "assert_equal"):
        setattr(np.testing, name, lambda *_, **__: None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    Path(os.environ[RESULT]).write_bytes(pickle.dumps((session.testscollected, list(NAMED))))


def kernels_of_gpu_tests(result: Path, *tests: str) -> tuple[int, list[Kernel]]:
    """How many tests there are, all that are marked or those that are named, and what they name."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", __name__, "-p", "no:cacheprovider", "--tb=no", *tests]
    environment = os.environ | {RESULT: str(result), stand_in.VARIABLE: "null", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: without comparisons a test may come to what it cannot do with wrong results
        raise RuntimeError(done.stdout[-5000:] + done.stderr[-5000:])
    count, kernels = pickle.loads(result.read_bytes())
    return count, kernels
