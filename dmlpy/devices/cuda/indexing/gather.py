"""GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1 and ONE_HOT on CUDA: one launch each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.cuda.common.axes import MOST_AXES, axes_type, axes_value
from dmlpy.devices.cuda.common.indices import INDICES, indices_value
from dmlpy.devices.cuda.common.vectorized_copy import CopyAxes, VectorizedCopyPlan
from dmlpy.devices.cuda.indexing.gather_indices import GatherIndices, blocks, elements, slices
from dmlpy.devices.cuda.kernels import struct
from dmlpy.operators.indexing import GatherDesc, GatherElementsDesc, GatherND1Desc, GatherNDDesc, OneHotDesc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.kernels import KernelLibrary, Struct
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.devices.plan import Pointers

AnyGatherDesc = GatherDesc | GatherElementsDesc | GatherNDDesc | GatherND1Desc


class GatherPlan(VectorizedCopyPlan):
    """The gather of a `GatherIndices`, by raw_kernels/indexing/gather.cu."""

    file, name = "indexing/gather.cu", "gather"
    parameters = struct(
        ("input", np.uint64),
        ("output", np.uint64),
        ("axes", axes_type(3)),
        ("indices", INDICES),
        ("strides", np.int64, (MOST_AXES,)),
        ("count", np.uint32),
    )

    def __init__(self, desc: AnyGatherDesc, gather: GatherIndices, library: KernelLibrary) -> None:
        assert desc.output_tensor is not None
        y = desc.output_tensor
        self._indices, self._gather = desc.indices_tensor, gather
        dimensions = gather.fitted(y.dimension_count)
        of_input, of_indices = [dimension.of_input for dimension in dimensions], [dimension.of_indices for dimension in dimensions]
        copy = CopyAxes.of(y.sizes, (y.element_strides, of_input), (of_indices,), y.data_type.numpy, gather.strides)
        super().__init__(desc, library, copy)

    def argument(self, copy: CopyAxes, tensors: Pointers) -> Struct:
        argument = np.zeros(1, self.parameters)
        argument["input"], argument["output"] = tensors["input_tensor"], tensors["output_tensor"]
        argument["axes"], argument["count"] = axes_value(copy.axes, 3), copy.count
        argument["indices"] = indices_value(self._indices, tensors["indices_tensor"], self._gather.sizes, self._gather.step)
        argument["strides"][0, : len(copy.steps)] = copy.steps
        return argument


class OneHotPlan(VectorizedCopyPlan):
    """ONE_HOT, by raw_kernels/indexing/one_hot.cu."""

    file, name = "indexing/one_hot.cu", "one_hot"
    parameters = struct(
        ("off", np.uint64),
        ("on", np.uint64),
        ("output", np.uint64),
        ("axes", axes_type(3)),
        ("indices", INDICES),
        ("count", np.uint32),
    )
    widens = False

    def __init__(self, desc: OneHotDesc, library: KernelLibrary) -> None:
        y, values = desc.output_tensor, desc.values_tensor
        self._indices, self._size = desc.indices_tensor, y.sizes[desc.axis]
        self._on = _second_offset(values.sizes, values.element_strides) * values.data_type.numpy.itemsize
        along = [at == desc.axis for at in range(y.dimension_count)]
        of_indices = [0 if is_class else stride for is_class, stride in zip(along, desc.indices_tensor.element_strides, strict=True)]
        super().__init__(
            desc,
            library,
            CopyAxes.of(y.sizes, (y.element_strides,), (of_indices, [int(is_class) for is_class in along]), y.data_type.numpy),
        )

    def argument(self, copy: CopyAxes, tensors: Pointers) -> Struct:
        argument = np.zeros(1, self.parameters)
        argument["off"], argument["on"] = tensors["values_tensor"], tensors["values_tensor"] + self._on
        argument["output"] = tensors["output_tensor"]
        argument["axes"], argument["count"] = axes_value(copy.axes, 3), copy.count
        argument["indices"] = indices_value(self._indices, tensors["indices_tensor"], (self._size,))
        return argument


def _second_offset(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The offset of the second element in row-major order."""
    return next(stride for size, stride in zip(reversed(sizes), reversed(strides), strict=True) if size > 1)


def gather_plan(desc: GatherDesc, target: Target) -> GatherPlan:
    return GatherPlan(desc, slices(desc), target.library)


def gather_elements_plan(desc: GatherElementsDesc, target: Target) -> GatherPlan:
    return GatherPlan(desc, elements(desc, desc.input_tensor.element_strides), target.library)


def gather_nd_plan(desc: GatherNDDesc | GatherND1Desc, target: Target) -> GatherPlan:
    return GatherPlan(desc, blocks(desc, desc.input_tensor.element_strides), target.library)


def one_hot_plan(desc: OneHotDesc, target: Target) -> OneHotPlan:
    return OneHotPlan(desc, target.library)
