"""The definitions of the movement operators, on whole arrays."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dmlpy.description.enums import DepthSpaceOrder, PaddingMode
from dmlpy.operators.movement.blocks import DepthToSpace1Desc, DepthToSpaceDesc, FoldDesc, SpaceToDepth1Desc, SpaceToDepthDesc, UnfoldDesc
from dmlpy.operators.movement.copy import CastDesc, JoinDesc, ReverseSubsequencesDesc, SplitDesc, TileDesc
from dmlpy.operators.movement.slicing import (
    Padding1Desc,
    PaddingDesc,
    Slice1Desc,
    SliceDesc,
    SliceGradDesc,
    slice_index,
    window_index,
)
from dmlpy.reference.conversion import converted, of_float, of_scalar
from dmlpy.reference.registry import Array, Inputs, defines


@defines(CastDesc)
def cast(desc: CastDesc, inputs: Inputs) -> Array:
    values: Array = inputs["input_tensor"]
    data_type = desc.output_tensor.data_type
    # Floating point is rounded where the output is stored.
    return values if data_type.numpy.kind == "f" else converted(values, data_type)


@defines(JoinDesc)
def join(desc: JoinDesc, inputs: Inputs) -> Array:
    return np.concatenate(inputs["input_tensors"], desc.axis)


@defines(SplitDesc)
def split(desc: SplitDesc, inputs: Inputs) -> dict[str, tuple[Array, ...]]:
    ends = np.cumsum([tensor.sizes[desc.axis] for tensor in desc.output_tensors])
    return {"output_tensors": tuple(np.split(inputs["input_tensor"], ends[:-1], desc.axis))}


@defines(TileDesc)
def tile(desc: TileDesc, inputs: Inputs) -> Array:
    return np.tile(inputs["input_tensor"], desc.repeats)


_LEAST_BLOCK = 256
"""Elements of a block for each length above which a slice for each length is faster than an index for each element."""


@defines(ReverseSubsequencesDesc)
def reverse_subsequences(desc: ReverseSubsequencesDesc, inputs: Inputs) -> Array:
    values: Array = inputs["input_tensor"]
    size = values.shape[desc.axis]
    lengths = np.minimum(inputs["sequence_lengths_tensor"], size).astype(np.int64)
    # Dimensions along which all lengths are equal are reversed as blocks.
    for axis in range(values.ndim):
        first = lengths.take([0], axis)
        lengths = first if (lengths == first).all() else lengths
    if lengths.size * _LEAST_BLOCK <= values.size:
        result: Array = values.copy()
        length_axes = [axis for axis, count in enumerate(lengths.shape) if count > 1]
        order = [*length_axes, desc.axis, *(axis for axis in range(values.ndim) if axis not in (*length_axes, desc.axis))]
        source, target = values.transpose(order), result.transpose(order)
        for place, length in zip(np.ndindex(*source.shape[: len(length_axes)]), lengths.reshape(-1).tolist(), strict=True):
            if length > 1:
                target[place][:length] = source[place][length - 1 :: -1]
        return result
    places = np.arange(size).reshape([-1 if axis == desc.axis else 1 for axis in range(values.ndim)])
    sources = np.where(places < lengths, lengths - 1 - places, places)
    firsts = np.arange(values.size).reshape(values.shape).take([0], desc.axis)
    reversed_ones: Array = values.reshape(-1).take(firsts + sources * math.prod(values.shape[desc.axis + 1 :]))
    return reversed_ones


@defines(PaddingDesc)
def padding(desc: PaddingDesc, inputs: Inputs) -> Array:
    return _padded(desc, inputs, of_float(desc.padding_value, desc.input_tensor.data_type))


@defines(Padding1Desc)
def padding1(desc: Padding1Desc, inputs: Inputs) -> Array:
    return _padded(desc, inputs, of_scalar(desc.padding_value, desc.padding_value_data_type))


def _padded(desc: PaddingDesc | Padding1Desc, inputs: Inputs, value: Array) -> Array:
    values: Array = inputs["input_tensor"]
    rows = list(zip(values.shape, desc.start_padding, desc.end_padding, strict=True))
    shape = [start + size + end for size, start, end in rows]
    inside = [slice(start, start + size) for size, start, _ in rows]
    if desc.padding_mode is PaddingMode.CONSTANT:
        result = np.full(shape, value, values.dtype)
        result[tuple(inside)] = values
        return result
    result = np.empty(shape, values.dtype)
    result[tuple(inside)] = values
    filled = inside.copy()
    # Dimension by dimension, the margins are copied from what is filled so far.
    for axis, (size, start, end) in reversed(list(enumerate(rows))):
        for first, count in ((0, start), (start + size, end)):
            if count:
                source = start + padding_source(desc.padding_mode, np.arange(first, first + count) - start, size)
                outer, inner = filled[:axis], filled[axis + 1 :]
                result[(*outer, slice(first, first + count), *inner)] = result[(*outer, source, *inner)]
        filled[axis] = slice(None)
    return result


def padding_source(mode: PaddingMode, places: Array, size: int) -> Array:
    """The elements of a dimension at some places, of which those below 0 and from `size` on are padding."""
    if mode is PaddingMode.EDGE:
        return np.clip(places, 0, size - 1)
    period = {PaddingMode.WRAP: size, PaddingMode.SYMMETRIC: 2 * size, PaddingMode.REFLECTION: max(2 * size - 2, 1)}[mode]
    phase = np.mod(places, period)
    if mode is PaddingMode.WRAP:
        return phase
    mirrored = (period - 1 if mode is PaddingMode.SYMMETRIC else period) - phase
    folded: Array = np.minimum(phase, mirrored)
    return folded


@defines(SliceDesc)
def slice_(desc: SliceDesc, inputs: Inputs) -> Array:
    return np.broadcast_to(inputs["input_tensor"][slice_index(desc)], desc.slice_sizes)


@defines(Slice1Desc)
def slice1(desc: Slice1Desc, inputs: Inputs) -> Array:
    values: Array = inputs["input_tensor"]
    assert desc.output_tensor is not None
    return values[window_index(desc, desc.output_tensor.sizes)]


@defines(SliceGradDesc)
def slice_grad(desc: SliceGradDesc, inputs: Inputs) -> Array:
    gradient: Array = inputs["input_gradient_tensor"]
    result = np.zeros(desc.output_gradient_tensor.sizes, gradient.dtype)
    result[window_index(desc, gradient.shape)] = gradient
    return result


@defines(DepthToSpaceDesc)
def depth_to_space(desc: DepthToSpaceDesc, inputs: Inputs) -> Array:
    return _depth_to_space(inputs["input_tensor"], desc.block_size, DepthSpaceOrder.DEPTH_COLUMN_ROW)


@defines(DepthToSpace1Desc)
def depth_to_space1(desc: DepthToSpace1Desc, inputs: Inputs) -> Array:
    return _depth_to_space(inputs["input_tensor"], desc.block_size, desc.order)


def _depth_to_space(values: Array, block: int, order: DepthSpaceOrder) -> Array:
    batch, channels, height, width = values.shape
    rest = channels // block**2
    if order is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        blocks = values.reshape(batch, block, block, rest, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = values.reshape(batch, rest, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(batch, rest, height * block, width * block)


@defines(SpaceToDepthDesc)
def space_to_depth(desc: SpaceToDepthDesc, inputs: Inputs) -> Array:
    return _space_to_depth(inputs["input_tensor"], desc.block_size, DepthSpaceOrder.DEPTH_COLUMN_ROW)


@defines(SpaceToDepth1Desc)
def space_to_depth1(desc: SpaceToDepth1Desc, inputs: Inputs) -> Array:
    return _space_to_depth(inputs["input_tensor"], desc.block_size, desc.order)


def _space_to_depth(values: Array, block: int, order: DepthSpaceOrder) -> Array:
    batch, channels, height, width = values.shape
    blocks = values.reshape(batch, channels, height // block, block, width // block, block)
    axes = (0, 3, 5, 1, 2, 4) if order is DepthSpaceOrder.DEPTH_COLUMN_ROW else (0, 1, 3, 5, 2, 4)
    return blocks.transpose(axes).reshape(batch, channels * block**2, height // block, width // block)


@defines(UnfoldDesc)
def unfold(desc: UnfoldDesc, inputs: Inputs) -> Array:
    image: Array = inputs["input_tensor"]
    margins = list(zip(desc.start_padding, desc.end_padding, strict=True))
    padded = np.pad(image, [(0, 0), (0, 0), *margins])
    count = len(margins)
    spatial = range(2, 2 + count)
    windows = sliding_window_view(padded, _window_extents(desc), axis=tuple(spatial))
    taken = windows[:, :, *(slice(None, None, step) for step in (*desc.strides, *desc.dilations))]
    columns = taken.transpose(0, 1, *range(2 + count, 2 + 2 * count), *spatial)
    assert desc.output_tensor is not None
    return columns.reshape(desc.output_tensor.sizes)


@defines(FoldDesc)
def fold(desc: FoldDesc, inputs: Inputs) -> Array:
    batch, channels, *spatial = desc.output_tensor.sizes
    padded = [start + size + end for start, size, end in zip(desc.start_padding, spatial, desc.end_padding, strict=True)]
    positions = [(size - extent) // stride + 1 for size, extent, stride in zip(padded, _window_extents(desc), desc.strides, strict=True)]
    columns: Array = inputs["input_tensor"].reshape(batch, channels, *desc.window_sizes, *positions)
    image = np.zeros((batch, channels, *padded), columns.dtype)
    for place in np.ndindex(*desc.window_sizes):
        starts = [tap * dilation for tap, dilation in zip(place, desc.dilations, strict=True)]
        steps = zip(starts, positions, desc.strides, strict=True)
        image[:, :, *(slice(start, start + (count - 1) * stride + 1, stride) for start, count, stride in steps)] += columns[:, :, *place]
    return image[:, :, *(slice(start, start + size) for start, size in zip(desc.start_padding, spatial, strict=True))]


def _window_extents(desc: FoldDesc | UnfoldDesc) -> tuple[int, ...]:
    """The elements from a block's first to its last, inclusive."""
    return tuple((size - 1) * dilation + 1 for size, dilation in zip(desc.window_sizes, desc.dilations, strict=True))
