"""REVERSE_SUBSEQUENCES on CUDA: one launch, by raw_kernels/movement/reverse.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.indices import INDICES, indices_value
from dmlpy.devices.cuda.common.vectorized_copy import CopyAxes, VectorizedCopyPlan
from dmlpy.devices.cuda.kernels import struct

if TYPE_CHECKING:
    from dmlpy.devices.cuda.kernels import KernelLibrary, Struct
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.devices.plan import Pointers
    from dmlpy.operators.movement.copy import ReverseSubsequencesDesc


class ReversePlan(VectorizedCopyPlan):
    """One launch over the output."""

    file, name = "movement/reverse.cu", "reverse"
    parameters = struct(
        ("input", np.uint64),
        ("output", np.uint64),
        ("axes", axes_type(4)),
        ("lengths", INDICES),
        ("stride", np.int64),
        ("count", np.uint32),
    )

    def __init__(self, desc: ReverseSubsequencesDesc, library: KernelLibrary) -> None:
        assert desc.output_tensor is not None
        x, lengths, y = desc.input_tensor, desc.sequence_lengths_tensor, desc.output_tensor
        self._lengths, self._size = lengths, x.sizes[desc.axis]
        along = [int(at == desc.axis) for at in range(x.dimension_count)]
        of_input, of_lengths = (
            [0 if is_axis else stride for is_axis, stride in zip(along, tensor.element_strides, strict=True)] for tensor in (x, lengths)
        )
        moved, others = (y.element_strides, of_input), (of_lengths, along)
        super().__init__(desc, library, CopyAxes.of(y.sizes, moved, others, x.data_type.numpy, [x.element_strides[desc.axis]]))

    def argument(self, copy: CopyAxes, tensors: Pointers) -> Struct:
        argument = np.zeros(1, self.parameters)
        argument["input"], argument["output"] = tensors["input_tensor"], tensors["output_tensor"]
        argument["axes"], argument["count"] = axes_value(copy.axes, 4), copy.count
        argument["lengths"] = indices_value(self._lengths, tensors["sequence_lengths_tensor"], (self._size,))
        [argument["stride"]] = copy.steps
        return argument


def reverse_plan(desc: ReverseSubsequencesDesc, target: Target) -> ReversePlan:
    return ReversePlan(desc, target.library)
