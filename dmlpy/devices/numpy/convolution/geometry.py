"""`Geometry`: a convolution's sizes in three spatial dimensions, and its tensors as arrays of them."""

from __future__ import annotations

from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dmlpy.description.arrays import array_at
from dmlpy.description.enums import ConvolutionMode
from dmlpy.devices.numpy.plans import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.operators.convolution import ConvolutionDesc

Array = np.ndarray[Any, np.dtype[Any]]
Sizes = tuple[int, int, int]
Box = tuple[slice, slice, slice]
Index = tuple[Any, ...]
"""An index of an array, or a part of one."""

DIMENSIONS = 3
"""The spatial dimensions that plans have: those that a desc lacks come first, of size 1."""


class Geometry(NamedTuple):
    """The sizes of a convolution.

    Attributes:
        batch: images.
        groups: groups of channels.
        channels: input channels of a group.
        filters: output channels of a group.
        spatial: sizes of the input.
        out: sizes of the output.
        taps: sizes of the window.
        strides: steps from one position of the window to the next.
        dilations: steps from one tap to the next.
        starts: padding before the first element.
        flipped: whether the filter is flipped in each spatial dimension.
        backward: whether the convolution is transposed: its window slides over the output then, and its positions are the input's.
    """

    batch: int
    groups: int
    channels: int
    filters: int
    spatial: Sizes
    out: Sizes
    taps: Sizes
    strides: Sizes
    dilations: Sizes
    starts: Sizes
    flipped: bool
    backward: bool

    @classmethod
    def of(cls, desc: ConvolutionDesc) -> Geometry:
        """The sizes of a checked desc."""
        assert desc.output_tensor is not None  # guaranteed by the check
        (batch, channels, *spatial), (_, filters, *out) = desc.input_tensor.sizes, desc.output_tensor.sizes
        taps = desc.filter_tensor.sizes[2:]
        count = len(spatial)
        positions = spatial if desc.backward else out
        return cls(
            batch=batch,
            groups=desc.group_count,
            channels=channels // desc.group_count,
            filters=filters // desc.group_count,
            spatial=_widened(spatial, 1),
            out=_widened(out, 1),
            taps=_widened(taps, 1),
            strides=_widened(steps_between(desc.strides[-count:], positions), 1),
            dilations=_widened(steps_between(desc.dilations[-count:], taps), 1),
            starts=_widened(desc.start_padding[-count:], 0),
            flipped=desc.mode is ConvolutionMode.CONVOLUTION and prod(taps) > 1,
            backward=desc.backward,
        )

    @property
    def spans(self) -> Sizes:
        """The elements from a window's first tap to its last, inclusive."""
        first, second, third = (1 + (taps - 1) * dilation for taps, dilation in zip(self.taps, self.dilations, strict=True))
        return first, second, third

    @property
    def multiplications(self) -> int:
        positions = self.spatial if self.backward else self.out
        return self.batch * self.groups * self.filters * self.channels * prod(self.taps) * prod(positions)


def steps_between(steps: Sequence[int], counts: Sequence[int]) -> list[int]:
    """The strides between positions, or the dilations between taps: 1 where there is one alone.

    The largest number that a desc can hold is valid there, and means nothing; as a step, it would size tiles and count phases.
    """
    return [step if count > 1 else 1 for step, count in zip(steps, counts, strict=True)]


def _widened(values: Sequence[int], missing: int) -> Sizes:
    first, second, third = [missing] * (DIMENSIONS - len(values)) + [*values]
    return first, second, third


def tensor_array(tensor: TensorDesc, pointer: int, groups: int) -> Array:
    """A tensor's memory as an array [batch, group, channel, *three spatial dimensions]."""
    (batch, channels, *spatial), (outer, inner, *steps) = tensor.sizes, tensor.element_strides
    per_group, missing = channels // groups, DIMENSIONS - len(spatial)
    strides = (outer, per_group * inner, inner, *[0] * missing, *steps)
    return array_at(pointer, (batch, groups, per_group, *[1] * missing, *spatial), tensor.data_type.numpy, strides)


def filter_array(tensor: TensorDesc, pointer: int, groups: int) -> Array:
    """A filter's memory as an array [group, first channel of the group, second channel, *three dimensions of the window]."""
    (channels, second, *window), (outer, inner, *steps) = tensor.sizes, tensor.element_strides
    per_group, missing = channels // groups, DIMENSIONS - len(window)
    strides = (per_group * outer, outer, inner, *[0] * missing, *steps)
    return array_at(pointer, (groups, per_group, second, *[1] * missing, *window), tensor.data_type.numpy, strides)


def extents(sizes: Sequence[int], most: int) -> Sizes:
    """Sizes of equal boxes that hold at most this many elements, or one: whole innermost dimensions, and a part of the next."""
    result, room = list(sizes), max(1, most)
    for axis in reversed(range(len(result))):
        parts = ceil(result[axis] / max(1, room))
        result[axis] = ceil(result[axis] / parts)
        room //= result[axis]
    first, second, third = result
    return first, second, third


def boxes(sizes: Sequence[int], extent: Sequence[int]) -> Iterator[Box]:
    """Divides three dimensions into boxes of an extent; those at the end are smaller."""
    along = ([slice(at, min(at + step, size)) for at in range(0, size, step)] for size, step in zip(sizes, extent, strict=True))
    yield from product(*along)


def merged_step(array: Array, first: int) -> int | None:
    """The bytes from one element to the next along the dimensions from `first` on, as if they were one; None if they are not."""
    step: int | None = None
    reach = 0
    for size, stride in zip(reversed(array.shape[first:]), reversed(array.strides[first:]), strict=True):
        if size == 1:
            continue
        if step is None:
            step, reach = stride, stride * size
        elif stride != reach:
            return None
        else:
            reach *= size
    return array.itemsize if step is None else step


def as_matrix(array: Array, panel: Array) -> Array:
    """[channels, *three dimensions] as a matrix of float32, [channels, elements], that BLAS reads: in place, or copied to a panel."""
    matrix = matrix_in_place(array)
    if matrix is not None:
        return matrix
    matrix = panel[: array.size].reshape(array.shape)
    np.copyto(matrix, array)
    return matrix.reshape(array.shape[0], -1)


def matrix_in_place(array: Array) -> Array | None:
    """[channels, *three dimensions] as a matrix [channels, elements], if BLAS can read it in place."""
    step, apart, item = merged_step(array, 1), array.strides[0], array.itemsize
    channels, count = array.shape[0], array.size // array.shape[0]
    if step is None or array.dtype != COMPUTE:
        return None
    rows = step == item and (channels == 1 or (apart >= count * item and apart % item == 0))
    columns = apart == item and step >= channels * item and step % item == 0
    return as_strided(array, (channels, count), (apart, step)) if rows or columns else None
