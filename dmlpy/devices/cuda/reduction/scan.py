"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT over raw_kernels/reduction/scan.cu: one launch, or two if lines are few and long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.enums import AxisDirection
from dmlpy.devices.axes import Axis, element_count, merged, vector_width
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES, axes_type, axes_value
from dmlpy.devices.cuda.common.division import FEW_THREADS, LANES, NUMBERS, TEAM_SIZE, power_of_two
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, Struct, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.cuda.reduction.functions import Reduction
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order
from dmlpy.messages.problems import DeviceError
from dmlpy.operators.reduction import CumulativeSummationDesc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.reduction import CumulativeProductDesc

ITEMS = 8
"""Entries of a thread in a tile: `items` of the kernel."""

LEAST_TILES = 4
"""Tiles of a split, at least: with fewer, the second launch costs more than splits gain."""

THREADS = 1024
"""Blocks for each multiprocessor that keep the device busy."""

PARAMETERS = struct(
    ("x", np.uint64),
    ("y", np.uint64),
    ("lines", axes_type(2)),
    ("strides", np.int64, (2,)),
    ("line_count", np.uint32),
    ("length", np.uint32),
    ("split_length", np.uint32),
    ("size", TEAM_SIZE),
    ("totals", np.uint64),
    ("exclusive", np.int32),
    ("backwards", np.int32),
)


def scan_kernel(name: str, reduction: Reduction, width: int) -> Kernel:
    """An instance of `scan` or `total`; `width` entries to an access."""
    types = f"{reduction.scalar}, {reduction.function}<{reduction.scalar}>"
    return Kernel("reduction/scan.cu", f"{name}<{types}, {width}>", PARAMETERS, f"ScanParameters<{types}>", dynamic_shared=True)


class ScanPlan(PlanWithoutConstants):
    """The input is read once, or twice if lines are split.

    Vectors need addresses at multiples of their size: other addresses use single entries.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: there are more lines, or entries of a line, than kernels can index, or a kernel cannot be compiled.
    """

    def __init__(self, desc: CumulativeSummationDesc | CumulativeProductDesc, library: KernelLibrary) -> None:
        x, y = desc.tensors()["input_tensor"], desc.tensors()["output_tensor"]
        is_sum = isinstance(desc, CumulativeSummationDesc)
        self._library, self._reduction = library, Reduction("Sum" if is_sum else "Multiply", x.data_type.numpy)
        self._exclusive = desc.has_exclusive_sum if isinstance(desc, CumulativeSummationDesc) else desc.has_exclusive_product
        self._backwards = desc.axis_direction is AxisDirection.DECREASING
        self._length = x.sizes[desc.axis]
        self._strides = tuple(tensor.element_strides[desc.axis] for tensor in (x, y))
        sizes = [1 if axis == desc.axis else size for axis, size in enumerate(x.sizes)]
        self._lines = merged(sizes, [x.element_strides, y.element_strides])
        self._line_count = element_count(self._lines)
        for count, what in ((self._length, "entries of a line"), (self._line_count, "lines")):
            if count >= NUMBERS:
                raise DeviceError(f"{count} {what}: at most {NUMBERS - 1}")
        self._item_size = x.data_type.numpy.itemsize
        self._width = vector_width([*self._lines, Axis(self._length, self._strides)], min(ITEMS, VECTOR_BYTES // self._item_size))
        if self._strides[1] != 1:
            self._width = 1  # the output of a line of one entry may have any stride
        self._divide()
        self.temporary_size = self._splits * self._line_count * self._reduction.part_bytes if self._splits > 1 else 0
        library.functions(self._kernels(self._width))

    def _divide(self) -> None:
        """Lanes and slots of a thread group, threads of a block, and splits."""
        multiprocessors = self._library.limits.multiprocessors
        parts = power_of_two(-(-self._length // ITEMS))
        side_by_side = self._lines and self._lines[-1].strides[1] < self._strides[1]
        self._lanes = min(LANES, power_of_two(self._lines[-1].size)) if side_by_side else 1
        # neighbouring threads of a line read contiguous memory; adjacent lines need slots only if lines are few
        busy = power_of_two(-(-multiprocessors * THREADS // self._line_count)) if self._lanes > 1 else FEW_THREADS
        self._slots = min(parts, busy, FEW_THREADS // self._lanes)
        thread_groups = -(-self._line_count // self._lanes)
        block_thread_groups = max(1, min(FEW_THREADS // (self._lanes * self._slots), power_of_two(thread_groups)))
        self._threads = self._lanes * self._slots * block_thread_groups
        self._blocks = -(-thread_groups // block_thread_groups)
        tiles = -(-self._length // (ITEMS * self._slots))
        wanted = max(1, min(multiprocessors * THREADS // (self._threads * self._blocks), tiles // LEAST_TILES))
        self._split_length = -(-tiles // wanted) * ITEMS * self._slots
        self._splits = -(-self._length // self._split_length)

    def _kernels(self, width: int) -> list[Kernel]:
        """The kernels of a launch, in order."""
        return [scan_kernel(name, self._reduction, width) for name in (("total", "scan") if self._splits > 1 else ("scan",))]

    def describe(self) -> str:
        arithmetic = "float32 arithmetic" if is_float(self._reduction.data_type) else "exact arithmetic"
        splits = f"each line in {self._splits} splits" if self._splits > 1 else "no line is split"
        return (
            f"CUDA, {self._library.limits.name}, {self._reduction.data_type} data, {arithmetic}\n"
            f"{self._line_count} lines of {self._length} entries; vectors of {self._width}; "
            f"thread groups of {self._lanes} x {self._slots} threads; {splits}\n"
            f"kernels: {', '.join(kernel.entry for kernel in self._kernels(self._width))}"
        )

    def cost(self) -> Cost:
        gpu, size = GpuModel.of(self._library.limits), self._line_count * self._length * self._item_size
        again = size if self._splits > 1 else 0
        return Cost(
            traffic={"second reading": again} if again else {},
            floor_us=gpu.memory_us(2 * size),
            estimate_us=gpu.memory_us(2 * size + again) + CAPTURED_LAUNCH_US * len(self._kernels(self._width)),
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        pointers = [tensors["input_tensor"], tensors["output_tensor"]]
        size = self._width * self._item_size
        aligned = all(stride == 0 or pointer % size == 0 for pointer, stride in zip(pointers, self._strides, strict=True))
        argument: Struct = np.zeros(1, PARAMETERS)
        strides = self._strides
        if self._backwards:
            pointers = [pointer + (self._length - 1) * stride * self._item_size for pointer, stride in zip(pointers, strides, strict=True)]
            strides = tuple(-stride for stride in strides)
        argument["x"], argument["y"] = pointers
        argument["lines"], argument["strides"] = axes_value(self._lines, 2), strides
        argument["line_count"], argument["length"], argument["split_length"] = self._line_count, self._length, self._split_length
        argument["size"] = (self._lanes.bit_length() - 1, self._slots.bit_length() - 1)
        argument["totals"] = temporary if self._splits > 1 else 0
        argument["exclusive"], argument["backwards"] = self._exclusive, self._backwards
        shared_bytes = 3 * self._threads * self._reduction.part_bytes
        return in_order(
            [
                self._library.launch(kernel, (self._blocks, self._splits), self._threads, argument, shared_bytes)
                for kernel in self._kernels(self._width if aligned else 1)
            ]
        )


def scan_plan(desc: CumulativeSummationDesc | CumulativeProductDesc, target: Target) -> ScanPlan:
    return ScanPlan(desc, target.library)
