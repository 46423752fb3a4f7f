"""REDUCE, ARGMIN and ARGMAX over raw_kernels/reduction/reduce.cu: one launch, or two if groups are few and large."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.devices.axes import Axis, merged, numbers_in_group, repeated, vector_width
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES, axes_type
from dmlpy.devices.cuda.common.division import SPLITS, Division, of_tensors, thread_groups_type
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, Struct, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.cuda.reduction.functions import SETTINGS, Reduction
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.reduction import ReductionDesc

TENSORS = 2
"""Of the thread groups: the input, and the number of each entry in its group."""

MOST_WIDTH = 8
"""The most bytes of a vector: wider accesses leave a thread too few registers."""

PARAMETERS = struct(
    ("x", np.uint64),
    ("y", np.uint64),
    ("thread_groups", thread_groups_type(TENSORS)),
    ("outer", axes_type(1)),
    ("stride", np.int64),
    ("splits", SPLITS),
    ("side_by_side", np.uint32),
    ("settings", SETTINGS),
)


def reduce_kernel(name: str, reduction: Reduction, width: int = 1, across: bool = False) -> Kernel:
    """An instance of `reduce`, `gather` or `combine`; of `combine` only the reduction counts."""
    types = f"{reduction.scalar}, {reduction.function}<{reduction.scalar}>"
    vectors = "" if name == "combine" else f", {width}, {str(across).lower()}"
    return Kernel("reduction/reduce.cu", f"{name}<{types}{vectors}>", PARAMETERS, f"ReduceParameters<{types}>", dynamic_shared=True)


class ReducePlan(PlanWithoutConstants):
    """The input is read once. Vectors need an address at a multiple of their size: other addresses use single entries.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: there are more groups, or entries of a group, than kernels can index, or a kernel cannot be compiled.
    """

    def __init__(self, desc: ReductionDesc, library: KernelLibrary) -> None:
        tensors = desc.tensors()
        x, y = tensors["input_tensor"], tensors["output_tensor"]
        self._library, self._reduction = library, Reduction.of(desc)
        self._bytes = x.data_type.numpy.itemsize, y.data_type.numpy.itemsize
        numbers = numbers_in_group(x.sizes, desc.axes if self._reduction.gives_numbers else ())
        strides = (x.element_strides, numbers, repeated(y.sizes, y.element_strides))
        self._axes = merged(x.sizes, strides, desc.axes) or (Axis(1, (0, 0, 0), reduced=True),)
        width = vector_width(of_tensors(self._axes, slice(0, 1)), min(VECTOR_BYTES // self._bytes[0], MOST_WIDTH))
        self._by_vectors, self._by_entries = (
            Division(self._axes, TENSORS, entries, self._bytes[0], library.limits, True, self._reduction.part_bytes)
            for entries in (width, 1)
        )
        divisions = self._by_vectors, self._by_entries
        self.temporary_size = max((division.partial_bytes for division in divisions if division.splits > 1), default=0)
        library.functions(self._kernels(self._by_vectors))

    def _kernels(self, division: Division) -> list[Kernel]:
        """The kernels of a launch, in order."""
        names = ("reduce",) if division.splits == 1 else ("gather", "combine")
        return [reduce_kernel(name, self._reduction, division.width, division.across) for name in names]

    def describe(self) -> str:
        division, other = self._by_vectors, self._by_entries
        arithmetic = "float32 arithmetic" if is_float(self._reduction.data_type) else "exact arithmetic"
        lines = [
            f"CUDA, {self._library.limits.name}, {self._reduction.data_type} data, {arithmetic}",
            division.describe(),
            f"kernels: {', '.join(kernel.entry for kernel in self._kernels(division))}",
        ]
        if division.width > 1:
            lines.append(f"unless the input is at a multiple of {division.width * self._bytes[0]} bytes: {other.describe()}")
        return "\n".join(lines)

    def cost(self) -> Cost:
        division, gpu = self._by_vectors, GpuModel.of(self._library.limits)
        partials = 2 * division.partial_bytes if division.splits > 1 else 0
        floor = gpu.memory_us(division.groups * (division.entries * self._bytes[0] + self._bytes[1]))
        return Cost(
            traffic={"partial results": partials} if partials else {},
            floor_us=floor,
            estimate_us=floor + gpu.memory_us(partials) + CAPTURED_LAUNCH_US * len(self._kernels(division)),
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        x, y = tensors["input_tensor"], tensors["output_tensor"]
        repeats = self._axes[-1].strides[0] == 0
        aligned = repeats or x % (self._by_vectors.width * self._bytes[0]) == 0
        division = self._by_vectors if aligned else self._by_entries
        argument: Struct = np.zeros(1, PARAMETERS)
        argument["x"], argument["y"], argument["thread_groups"] = x, y, division.thread_groups()
        outer, (stride,) = division.statistics()
        argument["outer"], argument["stride"] = outer, stride
        argument["splits"] = division.merging().splits(division, temporary)
        argument["side_by_side"] = division.side_by_side
        argument["settings"] = self._reduction.settings(division.entries, self._axes[-1].strides[1], self._bytes[1])
        return in_order([self._launch(kernel, division, argument) for kernel in self._kernels(division)])

    def _launch(self, kernel: Kernel, division: Division, argument: Struct) -> Launch:
        if kernel.entry.startswith("combine"):
            merging = division.merging()
            return self._library.launch(kernel, (merging.blocks,), merging.threads, argument, merging.shared_bytes)
        return self._library.launch(kernel, division.grid, division.threads, argument, division.shared_bytes)


def reduce_plan(desc: ReductionDesc, target: Target) -> ReducePlan:
    return ReducePlan(desc, target.library)
