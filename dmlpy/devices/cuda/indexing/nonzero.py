"""NONZERO_COORDINATES on CUDA: two launches of the same grid, by raw_kernels/indexing/nonzero.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.axes import Axis
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.element_types import WORD_TYPES
from dmlpy.devices.cuda.common.vectorized_copy import movement_cost
from dmlpy.devices.cuda.kernels import ALIGNMENT, ELEMENT_THREADS, Kernel, struct
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from dmlpy.devices.cost import Cost
    from dmlpy.devices.cuda.kernels import KernelLibrary
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.indexing import NonzeroCoordinatesDesc

NONZERO = struct(
    ("input", np.uint64),
    ("counts", np.uint64),
    ("output_count", np.uint64),
    ("coordinates", np.uint64),
    ("axes", axes_type(1)),
    ("coordinate_strides", np.int64, (2,)),
    ("magnitude", np.uint32),
    ("count", np.uint32),
    ("part", np.uint32),
)
KERNELS = ("count_nonzero", "write_coordinates")
_ROUNDS = 4
"""The fewest elements of each thread before another block is added."""
_BLOCKS = 8
"""The most blocks of a multiprocessor."""


def nonzero_kernel(name: str, word_bytes: int) -> Kernel:
    """One of `KERNELS` for elements of this many bytes, at most 4."""
    word = WORD_TYPES[word_bytes]
    return Kernel("indexing/nonzero.cu", f"{name}<{word}>", NONZERO, f"NonzeroParameters<{word}>")


class NonzeroPlan(PlanWithoutConstants):
    """How the elements are divided among blocks.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: a kernel cannot be compiled.
    """

    def __init__(self, desc: NonzeroCoordinatesDesc, library: KernelLibrary) -> None:
        assert desc.output_coordinates_tensor is not None
        x, self._coordinates = desc.input_tensor, desc.output_coordinates_tensor
        self._desc, self._library, self._type = desc, library, x.data_type.numpy
        # Leading dimensions of size 1 may have no coordinate.
        first = x.dimension_count - self._coordinates.sizes[-1]
        self._axes = [Axis(size, (stride,)) for size, stride in zip(x.sizes[first:], x.element_strides[first:], strict=True)]
        self._count = x.element_count
        wanted = min(-(-self._count // (_ROUNDS * ELEMENT_THREADS)), _BLOCKS * library.limits.multiprocessors)
        self._part = -(-self._count // (wanted * ELEMENT_THREADS)) * ELEMENT_THREADS
        self._blocks = -(-self._count // self._part)
        self._scratch = Layout([("counts", (self._blocks,), np.dtype(np.uint32))], ALIGNMENT)
        self.temporary_size = self._scratch.size
        library.functions(self._kernels())

    def _kernels(self) -> list[Kernel]:
        return [nonzero_kernel(name, self._type.itemsize) for name in KERNELS]

    def describe(self) -> str:
        entries = ", ".join(kernel.entry for kernel in self._kernels())
        return f"{entries}: {self._count} elements in {self._blocks} blocks of {self._part}"

    def cost(self) -> Cost:
        return movement_cost(self._desc, self._library, 2, again=self._count * self._type.itemsize, what="input again")

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        argument = np.zeros(1, NONZERO)
        argument["input"], argument["counts"] = tensors["input_tensor"], self._scratch.pointers(temporary)["counts"]
        argument["output_count"], argument["coordinates"] = tensors["output_count_tensor"], tensors["output_coordinates_tensor"]
        argument["axes"] = axes_value(self._axes, 1)
        argument["coordinate_strides"] = self._coordinates.element_strides[-2:]
        bits = 8 * self._type.itemsize
        argument["magnitude"] = (1 << bits - (self._type.kind == "f")) - 1
        argument["count"], argument["part"] = self._count, self._part
        return in_order([self._library.launch(kernel, (self._blocks,), ELEMENT_THREADS, argument) for kernel in self._kernels()])


def nonzero_plan(desc: NonzeroCoordinatesDesc, target: Target) -> NonzeroPlan:
    return NonzeroPlan(desc, target.library)
