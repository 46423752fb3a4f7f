"""SCATTER and SCATTER_ND on CUDA: finds the last tuple of indices for each element, then writes the output, by scatter.cu.

The scratch has 4 bytes for each place that tuples may point to: an element of the output, or a block of SCATTER_ND.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import Axis, element_count, merged, numbers_in_group
from dmlpy.devices.cuda.common.axes import MOST_AXES, axes_type, axes_value
from dmlpy.devices.cuda.common.indices import INDICES, indices_value
from dmlpy.devices.cuda.common.vectorized_copy import CopyAxes, movement_cost, word_kernel
from dmlpy.devices.cuda.indexing.gather_indices import blocks, elements
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, struct
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, in_order
from dmlpy.operators.indexing import ScatterDesc, ScatterNDDesc

if TYPE_CHECKING:
    from dmlpy.devices.cost import Cost
    from dmlpy.devices.cuda.kernels import KernelLibrary
    from dmlpy.devices.cuda.plans import Target

FILE = "indexing/scatter.cu"
FIND = struct(
    ("indices", INDICES),
    ("winners", np.uint64),
    ("axes", axes_type(3)),
    ("strides", np.int64, (MOST_AXES,)),
    ("count", np.uint32),
)
REPLACE = struct(
    ("input", np.uint64),
    ("updates", np.uint64),
    ("output", np.uint64),
    ("winners", np.uint64),
    ("axes", axes_type(4)),
    ("tuples", axes_type(1)),
    ("count", np.uint32),
)
FIND_KERNEL = Kernel(FILE, "find<unsigned>", FIND, "FindParameters<unsigned>")
_MOVED = ("output_tensor", "input_tensor", "updates_tensor")


def replace_kernel(word_bytes: int) -> Kernel:
    """The instance for words of this many bytes."""
    return word_kernel(FILE, "replace", REPLACE, word_bytes)


class ScatterPlan(PlanWithoutConstants):
    """Clears the winners, then two launches.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: a kernel cannot be compiled.
    """

    def __init__(self, desc: ScatterDesc | ScatterNDDesc, library: KernelLibrary) -> None:
        assert desc.output_tensor is not None
        x, updates, y = desc.input_tensor, desc.updates_tensor, desc.output_tensor
        if isinstance(desc, ScatterNDDesc):
            count, indexed, tuple_dimensions = desc.input_dimension_count, desc.indices_tensor.sizes[-1], desc.indices_dimension_count - 1
        else:
            count = indexed = tuple_dimensions = y.dimension_count
        sizes = y.sizes[-count:]
        of_places = (*packed_strides(sizes[:indexed]), *(0,) * (count - indexed))
        gather = blocks(desc, of_places) if isinstance(desc, ScatterNDDesc) else elements(desc, of_places)
        tuples = gather.dimensions[:tuple_dimensions]
        of_updates = updates.element_strides[updates.dimension_count - tuple_dimensions - (count - indexed) :]
        of_tuples, of_blocks = of_updates[:tuple_dimensions], of_updates[tuple_dimensions:]

        self._desc, self._library, self._indices, self._gather = desc, library, desc.indices_tensor, gather
        self._tuple_sizes = [dimension.size for dimension in tuples]
        self._numbers = numbers_in_group(self._tuple_sizes, range(tuple_dimensions))
        of_indices, winners = [dimension.of_indices for dimension in tuples], [dimension.of_input for dimension in tuples]
        self._tuples = merged(self._tuple_sizes, (of_indices, winners, self._numbers))
        moved = (y.element_strides[-count:], x.element_strides[-count:], (*(0,) * indexed, *of_blocks))
        self._elements = CopyAxes.of(sizes, moved, (of_places,), y.data_type.numpy, of_tuples)
        self._words = self._elements.widened()
        self._scratch = Layout([("winners", (prod(sizes[:indexed]),), np.dtype(np.uint32))], ALIGNMENT)
        self.temporary_size = self._scratch.size
        library.functions([FIND_KERNEL, replace_kernel(self._words.word_bytes)])

    def describe(self) -> str:
        words, [(_, [places], _)] = self._words, self._scratch.arrays.values()
        return (
            f"{FIND_KERNEL.entry}: the last of {element_count(self._tuples)} tuples of indices for each of {places} places\n"
            f"{replace_kernel(words.word_bytes).entry}: {words.count} words of {words.word_bytes} bytes along {len(words.axes)} axes"
        )

    def cost(self) -> Cost:
        # The winners are cleared, written for each tuple, and read for each element.
        again = 2 * self._scratch.size + 4 * element_count(self._tuples)
        return movement_cost(self._desc, self._library, 3, again=again, what="winners")

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        winners = self._scratch.pointers(temporary)["winners"]
        find = np.zeros(1, FIND)
        find["indices"] = indices_value(self._indices, tensors["indices_tensor"], self._gather.sizes, self._gather.step)
        find["winners"] = winners
        find["axes"], find["count"] = axes_value(self._tuples, 3), element_count(self._tuples)
        find["strides"][0, : len(self._gather.strides)] = self._gather.strides

        copy = self._elements.widened(tensors[name] for name in _MOVED)
        # A tuple's number counts in row-major order, so its axes have that order.
        tuples = merged(self._tuple_sizes, (self._numbers, copy.steps))
        replace = np.zeros(1, REPLACE)
        replace["output"], replace["input"], replace["updates"] = (tensors[name] for name in _MOVED)
        replace["winners"] = winners
        replace["axes"], replace["count"] = axes_value(copy.axes, 4), copy.count
        replace["tuples"] = axes_value([Axis(axis.size, axis.strides[1:]) for axis in tuples], 1)
        clear = partial(self._library.runtime.memset, winners, 0, self._scratch.size)
        return in_order(
            [
                clear,
                self._library.launch_elements(FIND_KERNEL, element_count(self._tuples), find),
                self._library.launch_elements(replace_kernel(copy.word_bytes), copy.count, replace),
            ]
        )


def scatter_plan(desc: ScatterDesc | ScatterNDDesc, target: Target) -> ScatterPlan:
    return ScatterPlan(desc, target.library)
