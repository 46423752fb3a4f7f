"""RANDOM_GENERATOR on CUDA: one launch, by raw_kernels/generation/random.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.axes import Axis, merged, numbers_in_group
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES, axes_type, axes_value
from dmlpy.devices.cuda.common.vectorized_copy import movement_cost
from dmlpy.devices.cuda.kernels import Kernel, struct
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from dmlpy.devices.cost import Cost
    from dmlpy.devices.cuda.kernels import KernelLibrary
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.generation import RandomGeneratorDesc

RANDOM = struct(
    ("state", np.uint64),
    ("output", np.uint64),
    ("output_state", np.uint64),
    ("state_stride", np.int64),
    ("output_state_stride", np.int64),
    ("axes", axes_type(1)),
    ("count", np.uint32),
)
_COUNTER_WORDS = 4
"""Words that a counter generates."""


def random_kernel(width: int) -> Kernel:
    """The instance that writes this many words at once: 4 or 1."""
    return Kernel("generation/random.cu", f"generate<{width}>", RANDOM, "RandomParameters")


class RandomPlan(PlanWithoutConstants):
    """One launch; each thread writes the words of counters.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: the kernel cannot be compiled.
    """

    temporary_size = 0

    def __init__(self, desc: RandomGeneratorDesc, library: KernelLibrary) -> None:
        self._library, self._desc = library, desc
        y = desc.output_tensor
        numbers = numbers_in_group(y.sizes, range(y.dimension_count))
        self._axes = [Axis(axis.size, axis.strides[1:]) for axis in merged(y.sizes, (numbers, y.element_strides))]
        self._count = y.element_count
        is_packed = len(self._axes) == 1 and self._axes[0].strides == (1,)
        self._width = _COUNTER_WORDS if is_packed else 1
        library.function(random_kernel(self._width))

    def describe(self) -> str:
        return f"{random_kernel(self._width).entry}: {self._count} words of {-(-self._count // _COUNTER_WORDS)} counters"

    def cost(self) -> Cost:
        return movement_cost(self._desc, self._library, 1)

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        argument = np.zeros(1, RANDOM)
        argument["state"], argument["state_stride"] = tensors["input_state_tensor"], self._desc.input_state_tensor.element_strides[-1]
        argument["output"], argument["axes"], argument["count"] = tensors["output_tensor"], axes_value(self._axes, 1), self._count
        if self._desc.output_state_tensor is not None:
            argument["output_state"] = tensors["output_state_tensor"]
            argument["output_state_stride"] = self._desc.output_state_tensor.element_strides[-1]
        width = self._width if tensors["output_tensor"] % VECTOR_BYTES == 0 else 1
        return self._library.launch_elements(random_kernel(width), -(-self._count // _COUNTER_WORDS), argument)


def random_plan(desc: RandomGeneratorDesc, target: Target) -> RandomPlan:
    return RandomPlan(desc, target.library)
