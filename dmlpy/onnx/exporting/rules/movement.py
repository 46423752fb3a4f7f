"""Operators that move elements: casts, joins, slices, padding, blocks of an image."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.enums import DepthSpaceOrder, PaddingMode
from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.rules.elementwise import stored
from dmlpy.onnx.loading.elements import element_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


@exports("CAST")
def cast(node: Node) -> Value:
    """Cast; floats are first clamped to an integer's range, since ONNX leaves other results undefined."""
    data_type = node.tensor("output_tensor").data_type
    x = node.x("input_tensor")
    if x.element == element_of(data_type):
        return x.apply("Identity")
    return stored(x.wide(), data_type)


@exports("JOIN")
def join(node: Node) -> Value:
    """Concat."""
    return node.add("Concat", *(node.x(slot.place) for slot in node.desc.input_slots()), axis=node.desc.axis)


@exports("SPLIT")
def split(node: Node) -> dict[str, Value]:
    """Split."""
    axis, places = node.desc.axis, [slot.place for slot in node.desc.output_slots()]
    sizes = node.writer.integers([node.sizes(place)[axis] for place in places])
    parts = node.writer.several("Split", node.x("input_tensor"), sizes, count=len(places), axis=axis)
    return dict(zip(places, parts, strict=True))


@exports("TILE")
def tile(node: Node) -> Value:
    """Tile."""
    return node.x("input_tensor").apply("Tile", node.writer.integers(node.desc.repeats))


# slices


@exports("SLICE")
def slice_(node: Node) -> Value:
    """Slice; a stride of 0 repeats one element."""
    desc, sizes = node.desc, node.sizes("input_tensor")
    counts = [1 if stride == 0 else count for count, stride in zip(desc.slice_sizes, desc.strides, strict=True)]
    part = _part(node.x("input_tensor"), sizes, desc.offsets, counts, [stride or 1 for stride in desc.strides])
    return part if tuple(counts) == tuple(desc.slice_sizes) else part.expand(desc.slice_sizes)


@exports("SLICE1")
def slice1(node: Node) -> Value:
    """Slice, backwards where the stride is negative."""
    counts = node.sizes("output_tensor")
    return _part(node.x("input_tensor"), node.sizes("input_tensor"), _starts(node), counts, node.desc.input_window_strides)


def _starts(node: Node) -> list[int]:
    """The first element of a window in each dimension."""
    desc = node.desc
    rows = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
    return [offset if stride > 0 else offset + size - 1 for offset, size, stride in rows]


def _part(x: Value, sizes: Sequence[int], starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> Value:
    axes = [axis for axis, (size, count, step) in enumerate(zip(sizes, counts, steps, strict=True)) if size != count or step < 0]
    if not axes:
        return x.apply("Identity")
    ends = [start + step * (count - 1) + (1 if step > 0 else -1) for start, count, step in zip(starts, counts, steps, strict=True)]
    # To include element 0, the end must be below minus the dimension's size.
    ends = [end if end >= 0 else -size - 1 for end, size in zip(ends, sizes, strict=True)]
    return x.part([starts[axis] for axis in axes], [ends[axis] for axis in axes], axes, [steps[axis] for axis in axes])


@exports("SLICE_GRAD")
def slice_gradient(node: Node) -> Value:
    """Gather along each axis from the gradient with a zero appended."""
    gradient, counts = node.x("input_gradient_tensor"), node.sizes("input_gradient_tensor")
    starts, sizes = _starts(node), node.sizes("output_gradient_tensor")
    for axis, (start, step, count, size) in enumerate(zip(starts, node.desc.input_window_strides, counts, sizes, strict=True)):
        places = np.full(size, count, np.int64)
        places[start + step * np.arange(count)] = np.arange(count)
        if not np.array_equal(places, np.arange(count)):
            behind = [int(at == axis) for at in range(len(counts))]
            gradient = gradient.pad([0] * len(counts), behind).take(places, axis)
    return gradient


# padding

_MODES = {PaddingMode.EDGE: "edge", PaddingMode.REFLECTION: "reflect", PaddingMode.WRAP: "wrap"}


@exports("PADDING", "PADDING1")
def padding(node: Node) -> Value:
    """Pad; SYMMETRIC, and padding larger than what it repeats, as a Gather at constant positions."""
    desc, x, sizes = node.desc, node.x("input_tensor"), node.sizes("input_tensor")
    mode, start, end = desc.padding_mode, desc.start_padding, desc.end_padding
    if mode is PaddingMode.CONSTANT:
        return x.pad(start, end, desc.padding_value)
    least = int(mode is PaddingMode.REFLECTION)
    fits = all(max(before, behind) <= size - least for size, before, behind in zip(sizes, start, end, strict=True))
    if mode in _MODES and fits:
        return x.pad(start, end, mode=_MODES[mode])
    for axis, (size, before, behind) in enumerate(zip(sizes, start, end, strict=True)):
        if before or behind:
            x = x.take(_places(mode, np.arange(-before, size + behind), size), axis)
    return x


def _places(mode: PaddingMode, at: np.ndarray[tuple[int], np.dtype[np.int64]], size: int) -> object:
    """The elements of a dimension at positions, some of which lie outside."""
    if mode is PaddingMode.EDGE:
        return np.clip(at, 0, size - 1)
    if mode is PaddingMode.WRAP:
        return at % size
    symmetric = mode is PaddingMode.SYMMETRIC
    period = 2 * size if symmetric else max(2 * size - 2, 1)
    position = at % period
    return np.minimum(position, period - int(symmetric) - position)


# depth, space and windows


@exports("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1")
def depth_to_space(node: Node) -> Value:
    """DepthToSpace."""
    mode = "DCR" if _column_first(node) else "CRD"
    return node.x("input_tensor").apply("DepthToSpace", blocksize=node.desc.block_size, mode=mode)


@exports("SPACE_TO_DEPTH", "SPACE_TO_DEPTH1")
def space_to_depth(node: Node) -> Value:
    """SpaceToDepth; Reshape and Transpose for the other order."""
    x, block = node.x("input_tensor"), node.desc.block_size
    if _column_first(node):
        return x.apply("SpaceToDepth", blocksize=block)
    batch, channels, height, width = node.sizes("input_tensor")
    blocks = x.reshape([batch, channels, height // block, block, width // block, block])
    return blocks.transpose([0, 1, 3, 5, 2, 4]).reshape(node.sizes("output_tensor"))


def _column_first(node: Node) -> bool:
    return getattr(node.desc, "order", DepthSpaceOrder.DEPTH_COLUMN_ROW) is DepthSpaceOrder.DEPTH_COLUMN_ROW


@exports("FOLD")
def fold(node: Node) -> Value:
    """Col2Im."""
    desc, sizes = node.desc, node.sizes("output_tensor")
    shapes = [node.writer.integers(sizes[2:]), node.writer.integers(desc.window_sizes)]
    pads = [*desc.start_padding, *desc.end_padding]
    return node.x("input_tensor").apply("Col2Im", *shapes, dilations=list(desc.dilations), strides=list(desc.strides), pads=pads)


@exports("UNFOLD")
def unfold(node: Node) -> Value:
    """Gather of each window's elements from the padded image."""
    desc, sizes = node.desc, node.sizes("input_tensor")
    padded = [before + size + behind for before, size, behind in zip(desc.start_padding, sizes[2:], desc.end_padding, strict=True)]
    x = node.x("input_tensor").pad([0, 0, *desc.start_padding], [0, 0, *desc.end_padding])
    # [*window, *positions], flat numbers of the padded image
    rank, numbers = len(padded), np.zeros((1,) * (2 * len(padded)), np.int64)
    for axis, size in enumerate(padded):
        reach = (desc.window_sizes[axis] - 1) * desc.dilations[axis] + 1
        positions = (size - reach) // desc.strides[axis] + 1
        at = np.arange(desc.window_sizes[axis])[:, None] * desc.dilations[axis] + np.arange(positions) * desc.strides[axis]
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = at.shape
        numbers = numbers + at.reshape(shape) * prod(padded[axis + 1 :])
    return x.reshape([*sizes[:2], prod(padded)]).take(numbers.reshape(-1), 2).reshape(node.sizes("output_tensor"))
