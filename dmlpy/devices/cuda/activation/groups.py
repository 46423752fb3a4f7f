"""SOFTMAX, LOG_SOFTMAX and HARDMAX on CUDA: one launch of the kernel of raw_kernels/activation/groups.cu.

Threads read and write 16 bytes at a time where layouts and addresses allow it, else element by element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.axes import Axis, element_count, merged, numbers_in_group, vector_width
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES, axes_type, axes_value
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, Struct, scalar_type, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, L2_SHARE, GpuModel
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.operators.activation import AxesActivationDesc, RowActivationDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.plans import Target

GroupsDesc = RowActivationDesc | AxesActivationDesc

TENSORS = 3
"""The tensors whose strides the axes hold: the input, the output, and the numbers of entries in their group."""

PARAMETERS = struct(
    ("input", np.uint64),
    ("output", np.uint64),
    ("groups", axes_type(TENSORS)),
    ("entries", axes_type(TENSORS)),
    ("group_count", np.uint32),
    ("entry_count", np.uint32),
    ("number_step", np.uint32),
    ("thread_group_size", np.int32),
)

FUNCTIONS = ("Softmax", "LogSoftmax", "Hardmax")

_USUAL_THREADS, _MOST_THREADS = 256, 512
"""Threads of a block; the second if there are few groups, or threads could not keep their entries otherwise."""
_BATCH = 4
"""Vectors that a thread loads at a time: a thread group is large enough when its threads have fewer."""
_LINE_BYTES = 128
"""Bytes that neighbouring threads read together."""
_RESIDENT_THREADS = 2048
"""Threads resident on a multiprocessor."""


def groups_kernel(data_type: np.dtype[np.generic], function: str, width: int, across: bool, once: bool) -> Kernel:
    """The kernel for tensors of an element type.

    Args:
        data_type: of the elements.
        function: one of `FUNCTIONS`.
        width: elements of an access.
        across: an access has elements of as many groups, not of one.
        once: a thread has no more entries of a group than it loads at a time, and keeps them.
    """
    scalar = scalar_type(data_type)
    entry = f"groups<{scalar}, {function}, {width}, {str(across).lower()}, {str(once).lower()}>"
    return Kernel("activation/groups.cu", entry, PARAMETERS, f"GroupsParameters<{scalar}>")


class GroupsLaunch:
    """The launch of the kernel with accesses of one width.

    Attributes:
        kernel: the instance.
        threads: the threads of a block.
        thread_group_size: threads that share a group, or as many groups as an access is wide.
        once: whether threads keep their entries, and read them once.
        blocks: the blocks of the grid.

    Args:
        axes: the result of `merged` for the input, the output and the numbers.
        width: elements of an access, contiguous along the innermost axis.
    """

    def __init__(self, axes: Sequence[Axis], data_type: np.dtype[np.generic], function: str, width: int, multiprocessors: int) -> None:
        across = bool(axes) and not axes[-1].reduced
        number_step = axes[-1].strides[2] if axes else 0
        if width > 1:
            inner = axes[-1]
            packs = replace(inner, size=inner.size // width, strides=tuple(width * stride for stride in inner.strides))
            axes = [*axes[:-1], packs]
        groups, entries = ([axis for axis in axes if axis.reduced == reduced] for reduced in (False, True))
        group_count, entry_count = element_count(groups), element_count(entries)

        many_entries = entry_count > _BATCH * _USUAL_THREADS
        few = many_entries and (group_count < 8 * multiprocessors or entry_count <= _BATCH * _MOST_THREADS)
        self.threads = most = _MOST_THREADS if few else _USUAL_THREADS
        if across:
            # neighbouring thread groups share cache lines; if there are enough of them to fill the device, each is one thread
            neighbours = min(_power_of_two(group_count), _LINE_BYTES // (width * data_type.itemsize))
            most = min(most // neighbours, _power_of_two(-(-multiprocessors * _RESIDENT_THREADS // group_count)))
        self.thread_group_size = min(most, _power_of_two(-(-entry_count // _BATCH)))
        most_blocks = 16 * multiprocessors * _USUAL_THREADS // self.threads
        self.blocks = min(-(-group_count * self.thread_group_size // self.threads), most_blocks)

        self.once = entry_count <= _BATCH * self.thread_group_size
        self.kernel = groups_kernel(data_type, function, width, across, self.once)
        self._argument: Struct = np.zeros(1, PARAMETERS)
        self._argument["groups"], self._argument["entries"] = axes_value(groups, TENSORS), axes_value(entries, TENSORS)
        self._argument["group_count"], self._argument["entry_count"] = group_count, entry_count
        self._argument["number_step"], self._argument["thread_group_size"] = number_step, self.thread_group_size

    def launch(self, library: KernelLibrary, x: int, y: int) -> Launch:
        """A launch over tensors at these addresses."""
        argument = self._argument.copy()
        argument["input"], argument["output"] = x, y
        return library.launch(self.kernel, (self.blocks,), self.threads, argument)


class GroupsPlan(PlanWithoutConstants):
    """A softmax, log-softmax or hardmax: one launch.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: the kernel cannot be compiled.
    """

    temporary_size = 0

    def __init__(self, desc: GroupsDesc, library: KernelLibrary) -> None:
        tensors = desc.tensors()
        x, y = tensors["input_tensor"], tensors["output_tensor"]
        function = type(desc).__name__.removeprefix("Activation").removesuffix("Desc").removesuffix("1")
        reduced = set(desc.axes) if isinstance(desc, AxesActivationDesc) else {x.dimension_count - 1}
        numbers = numbers_in_group(x.sizes, reduced if function == "Hardmax" else ())
        axes = merged(x.sizes, (x.element_strides, y.element_strides, numbers), reduced)
        of_memory = [Axis(axis.size, axis.strides[:2], axis.reduced) for axis in axes]

        self._library, self._type = library, x.data_type.numpy
        self._groups = element_count(axis for axis in axes if not axis.reduced)
        self._entries = element_count(axis for axis in axes if axis.reduced)
        side_by_side = bool(axes) and of_memory[-1].strides == (1, 1)
        self._width = vector_width(of_memory, VECTOR_BYTES // self._type.itemsize) if side_by_side else 1
        self._launches = {
            width: GroupsLaunch(axes, self._type, function, width, library.limits.multiprocessors) for width in {self._width, 1}
        }
        library.function(self._launch.kernel)

    @property
    def _launch(self) -> GroupsLaunch:
        """The launch for tensors whose addresses are multiples of the access size."""
        return self._launches[self._width]

    def kernels(self) -> list[Kernel]:
        """All kernels that a launch of this plan may use, for aligned and for unaligned addresses."""
        return [self._launches[width].kernel for width in sorted(self._launches, reverse=True)]

    def describe(self) -> str:
        launch = self._launch
        return (
            f"CUDA, {self._library.limits.name}, {self._type} storage, float32 arithmetic\n"
            f"{self._groups} groups of {self._entries} entries, accesses of {self._width * self._type.itemsize} bytes; "
            f"{launch.blocks} blocks of {launch.threads} threads, {launch.thread_group_size} to a thread group\n"
            f"kernels: {launch.kernel.entry}"
        )

    def cost(self) -> Cost:
        """If threads cannot keep their entries, each is read twice, the second time for the result, unless the cache still holds it."""
        gpu, size = GpuModel.of(self._library.limits), self._groups * self._entries * self._type.itemsize
        again = 0 if self._launch.once else size
        missed = max(0.0, again - L2_SHARE * gpu.l2_bytes)
        return Cost(
            traffic={"second pass": again} if again else {},
            floor_us=gpu.memory_us(2 * size),
            estimate_us=gpu.memory_us(2 * size + missed) + CAPTURED_LAUNCH_US,
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        x, y = tensors["input_tensor"], tensors["output_tensor"]
        aligned = (x | y) % (self._width * self._type.itemsize) == 0
        return self._launches[self._width if aligned else 1].launch(self._library, x, y)


def _power_of_two(count: int) -> int:
    """The smallest power of two that is not below the number."""
    return 1 << (count - 1).bit_length()


def groups_plan(desc: GroupsDesc, target: Target) -> GroupsPlan:
    return GroupsPlan(desc, target.library)
