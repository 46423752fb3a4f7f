"""Kernels that only move elements and compute each by itself keep up with memory: a table of what a thread executes for an element.

A copy of an H200 moves `GpuModel.memory` bytes a second. A multiprocessor issues four instructions of 32 threads a cycle. Both together
say how many instructions a byte may take. The way through a loop on which most is executed counts, without calls, which are for rare
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.activation.groups import groups_kernel
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.offline_device import GPUS
from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.plans import Target, plan_of
from dmlpy.devices.cuda.pooling.planes import Reduction, planes_kernel
from tests.support.cuda.binaries.kernel_loops import AXES, GROUPS, POSITIONS, ROUNDS, VECTORS
from tests.support.cuda.binaries.machine_code import code
from tests.support.cuda.binaries.sass import Loop
from tests.support.cuda.binaries.sass_paths import UsualWays
from tests.support.cuda.binaries.statements import Statement
from tests.support.cuda.plan_kernels import H100, RecordingLibrary
from tests.support.tools import require

require("nvrtc")
require("nvdisasm")

LEAST = 0.9
"""Of the copy rate."""

ISSUED = 4 * 32
"""Instructions of threads that a multiprocessor issues in a cycle."""


@dataclass(frozen=True)
class Row:
    """A loop of a kernel.

    Attributes:
        name: of the row.
        kernel: makes the kernel.
        loop: of which a turn is counted.
        moved: bytes that a thread reads and writes in a turn.
        times: how often the loops within are executed.
    """

    name: str
    kernel: Callable[[], Kernel]
    loop: Statement
    moved: int
    times: Mapping[Statement, int] = field(default_factory=dict)

    def executed(self) -> int:
        """Instructions of a turn."""
        of_kernel = code(self.kernel())
        (loop,) = self.loop.loops(of_kernel)

        def times(inner: Loop) -> int | None:
            return next((number for statement, number in self.times.items() if statement.is_loop(of_kernel, inner)), None)

        return UsualWays(of_kernel, times).once(loop).total


def elements(kind: type[Any], inputs: int = 1, data_type: Literal["FLOAT16", "FLOAT32"] = "FLOAT16", **attributes: Any) -> Row:
    """An operator on packed tensors."""
    tensor = dml.TensorDesc(data_type=data_type, sizes=[4096])
    names = [each.name for each in kind.inputs()][:inputs]

    def kernel() -> Kernel:
        library = RecordingLibrary(H100)
        plan = plan_of(kind(**dict.fromkeys((*names, "output_tensor"), tensor), **attributes), Target(library))
        assert plan is not None
        plan.load()
        (found,) = library.kernels
        return found

    return Row(f"{kind.short_name()}, {data_type.lower()}", kernel, VECTORS, 16 * (inputs + 1), {AXES: 0})


def groups(function: str, width: int) -> Row:
    """Groups of 4,096 entries, which 128 threads keep."""
    data_type: np.dtype[Any] = np.dtype(np.float16 if width == 8 else np.float32)
    kernel = groups_kernel(data_type, function, width, across=False, once=True)
    return Row(f"{function}, {data_type}", lambda: kernel, GROUPS, 2 * 4 * 16, {AXES: 0, ROUNDS: 7 if width == 8 else 8})


def pooling(reduction: Reduction) -> Row:
    """Windows of 3 by 3, two elements apart, of which a thread has two: each reads four elements that no other has read, and writes one."""
    kernel = planes_kernel(np.dtype(np.float16), reduction, 3, adjacent=True)
    return Row(f"{reduction}, float16", lambda: kernel, POSITIONS, 2 * (4 + 1) * 2)


ROWS = [
    elements(dml.ActivationGeluDesc),
    elements(dml.ActivationGeluDesc, data_type="FLOAT32"),
    elements(dml.ActivationSoftplusDesc, steepness=2.0),
    elements(dml.ActivationParametricSoftplusDesc, alpha=2.0, beta=1.0),
    elements(dml.ActivationCeluDesc, alpha=0.5),
    elements(dml.ActivationEluDesc, alpha=0.5),
    elements(dml.ActivationScaledEluDesc),
    elements(dml.ElementWiseConstantPowDesc, exponent=3.0),
    elements(dml.ElementWisePowDesc, 2),
    elements(dml.ActivationSwishDesc, sigmoid_input_scale=1.0),
    elements(dml.ActivationTanhDesc),
    groups("Softmax", 8),
    groups("LogSoftmax", 8),
    groups("Softmax", 4),
    pooling("MaximumOf"),
]
USUAL = ("ACTIVATION_GELU, float16", "ACTIVATION_GELU, float32", "Softmax, float16", "MaximumOf, float16")
"""The rows that are not slow."""


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name, marks=[pytest.mark.slow] * (row.name not in USUAL)) for row in ROWS])
def test_instructions_leave_nine_tenths_of_the_copy_rate(row: Row) -> None:
    gpu, executed = GpuModel.of(GPUS["H200"]), row.executed()
    issued = gpu.multiprocessors * ISSUED * gpu.clock_hz / executed * row.moved
    share = issued / gpu.memory
    assert share >= LEAST, f"{row.name}: {executed} instructions for {row.moved} bytes: {share:.0%} of the copy rate"
