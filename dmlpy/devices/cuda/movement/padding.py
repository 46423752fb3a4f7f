"""PADDING and PADDING1 on CUDA: one launch, by raw_kernels/movement/padding.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.enums import PaddingMode
from dmlpy.devices.axes import Axis
from dmlpy.devices.cuda.common.axes import MOST_AXES, VECTOR_BYTES, axes_type, axes_value
from dmlpy.devices.cuda.common.vectorized_copy import CopyAxes, VectorizedCopyPlan
from dmlpy.devices.cuda.kernels import struct
from dmlpy.operators.movement.slicing import AnyPaddingDesc, Padding1Desc, PaddingDesc
from dmlpy.reference.conversion import of_float, of_scalar

if TYPE_CHECKING:
    from dmlpy.devices.cuda.kernels import KernelLibrary, Struct
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.devices.plan import Pointers

_VALUE, _NEAREST, _REPEATS = range(3)
"""The kernel's modes: `margin_value` and so on."""


@dataclass(frozen=True)
class Margin:
    """An axis of the output.

    Attributes:
        axis: with the strides of the output, of the input, and 1 if there is a margin, else 0, which prevents merging and wide words.
        start: entries before the input's first.
        size: of the input.
    """

    axis: Axis
    start: int
    size: int

    @property
    def is_empty(self) -> bool:
        """Whether output and input have the same entries."""
        return self.axis.size == self.size


def margins(desc: AnyPaddingDesc) -> list[Margin]:
    """The axes of the output, in the order of its memory, without those of size 1. Adjacent axes without margins are merged."""
    x, y = desc.input_tensor, desc.output_tensor
    assert y is not None
    result: list[Margin] = []
    rows = zip(y.sizes, y.element_strides, x.element_strides, desc.start_padding, x.sizes, strict=True)
    for size, to, source, start, input_size in sorted(rows, key=lambda row: row[1], reverse=True):
        margin = Margin(Axis(size, (to, source, int(size != input_size))), start, input_size)
        outer = result[-1] if result else None
        through = tuple(size * stride for stride in margin.axis.strides)
        if size == 1:
            continue
        if outer is not None and outer.is_empty and margin.is_empty and outer.axis.strides == through:
            result[-1] = Margin(Axis(outer.size * size, margin.axis.strides), 0, outer.size * size)
        else:
            result.append(margin)
    return result


class PaddingPlan(VectorizedCopyPlan):
    """One launch over the output."""

    file, name = "movement/padding.cu", "padding"
    parameters = struct(
        ("input", np.uint64),
        ("output", np.uint64),
        ("value", np.uint32, (4,)),
        ("axes", axes_type(2)),
        ("starts", np.int64, (MOST_AXES,)),
        ("sizes", np.int64, (MOST_AXES,)),
        ("periods", np.int64, (MOST_AXES,)),
        ("mirrors", np.int64, (MOST_AXES,)),
        ("mode", np.int32),
        ("count", np.uint32),
    )

    def __init__(self, desc: PaddingDesc | Padding1Desc, library: KernelLibrary) -> None:
        data_type = desc.input_tensor.data_type
        if isinstance(desc, Padding1Desc):
            value = of_scalar(desc.padding_value, desc.padding_value_data_type)
        else:
            value = of_float(desc.padding_value, data_type)
        self._value = np.frombuffer(value.tobytes() * (VECTOR_BYTES // value.itemsize), np.uint32)
        self._mode, self._margins = desc.padding_mode, margins(desc)
        super().__init__(desc, library, CopyAxes(tuple(margin.axis for margin in self._margins), 2, data_type.numpy.itemsize))

    def argument(self, copy: CopyAxes, tensors: Pointers) -> Struct:
        argument = np.zeros(1, self.parameters)
        argument["input"], argument["output"], argument["value"] = tensors["input_tensor"], tensors["output_tensor"], self._value
        argument["axes"] = axes_value([Axis(axis.size, axis.strides[:2]) for axis in copy.axes], 2)
        for at, (axis, margin) in enumerate(zip(copy.axes, self._margins, strict=False)):  # the last may be within a word
            size = axis.size if margin.is_empty else margin.size
            argument["starts"][0, at], argument["sizes"][0, at] = margin.start, size
            argument["periods"][0, at], argument["mirrors"][0, at] = _repetition(self._mode, size)
        argument["mode"] = {PaddingMode.CONSTANT: _VALUE, PaddingMode.EDGE: _NEAREST}.get(self._mode, _REPEATS)
        argument["count"] = copy.count
        return argument


def _repetition(mode: PaddingMode, size: int) -> tuple[int, int]:
    """The period of an input's entries, and the sum of an entry and its mirror image: beyond all entries if there is none."""
    if mode is PaddingMode.REFLECTION:
        period = max(2 * size - 2, 1)
        return period, period
    return (2 * size, 2 * size - 1) if mode is PaddingMode.SYMMETRIC else (size, 2 * size)


def padding_plan(desc: PaddingDesc | Padding1Desc, target: Target) -> PaddingPlan:
    return PaddingPlan(desc, target.library)
