"""Tests that go wrong in each way that a run on a GPU has to survive. pytest finds this file only where it is named: `test_emulated_gpu`
and `test_gpu_check` run its tests on an emulated GPU, by name.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from dmlpy.messages.problems import DeviceError

pytestmark = pytest.mark.gpu
BEGUN = "DMLPY_TEST_HANGS"
FILE = "tests/support/cuda/gpu_faults.py"


def computed() -> Any:
    """relu of -1 and 1, by the GPU."""
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=(2,))
    op = dml.compile(dml.ActivationReluDesc(input_tensor=tensor).with_outputs(), "cuda")
    return op.device.to_host(op(input_tensor=op.device.from_host(np.array([-1, 1], np.float32))).output_tensor)


def test_computes() -> None:
    np.testing.assert_array_equal(computed(), [0, 1])


def test_is_wrong() -> None:
    np.testing.assert_array_equal(computed(), [2, 3])


def test_raises() -> None:
    raise ValueError("no result is needed to see this")


def test_kills_the_context() -> None:
    """As after a trap: the launch that follows fails, and so does every call."""

    def answer(*arguments: Any, **named: Any) -> NoReturn:
        raise DeviceError("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure")

    runtime = dml.device("cuda").runtime  # type: ignore[attr-defined]
    for name in vars(CudaRuntime):
        if not name.startswith("_") and callable(getattr(runtime, name, None)):
            setattr(runtime, name, answer)
    computed()


def test_computes_after_it() -> None:
    test_computes()


def test_is_right_and_leaves_a_dead_context() -> None:
    test_computes()
    with pytest.raises(DeviceError, match="LAUNCH_FAILED"):
        test_kills_the_context()


def test_computes_at_the_end() -> None:
    test_computes()


def test_dies() -> None:
    ctypes.string_at(0)


def test_takes_too_long() -> None:
    time.sleep(3600)


def test_hangs() -> None:
    """Records that it has begun in the file that `BEGUN` names."""
    if begun := os.environ.get(BEGUN):
        Path(begun).touch()
    time.sleep(3600)
