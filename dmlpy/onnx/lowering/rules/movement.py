"""Parts and margins of tensors, their order and their repetition, and tensors of one value."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import numpy_helper

from dmlpy import x
from dmlpy.graphs.views import broadcast_sizes
from dmlpy.messages.naming import listed
from dmlpy.onnx.loading.elements import FLOATS
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import in_four
from dmlpy.onnx.nodes.windows import sliced_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


@lowers("Concat")
def concat(node: Node) -> Expression:
    """JOIN of the tensors that have elements; of one the tensor itself."""
    axis, first = node.axis(node.attribute("axis", 1), node.rank(0)), node.sizes(0)
    for index in range(1, len(node.inputs)):
        sizes = node.sizes(index)
        if len(sizes) != len(first) or any(a != b for place, (a, b) in enumerate(zip(first, sizes, strict=True)) if place != axis):
            expected = f"the sizes of input 0, {listed(first)}, along all axes but {axis}"
            raise node.refusal("onnx.invalid", node.input_label(index), listed(sizes), expected)
    given = in_four(*(node.x(index) for index in range(len(node.inputs)) if 0 not in node.sizes(index)))
    if len(given) == 1:
        return given[0]
    return x.join(given, axis=axis + len(given[0].sizes) - len(first))


@lowers("Split")
def split(node: Node) -> tuple[Expression | None, ...]:
    """SPLIT into the parts that have elements; into one part the tensor itself."""
    axis = node.axis(node.attribute("axis", 0), node.rank(0))
    count, size = len(node.proto.output), node.sizes(0)[axis]
    lengths = node.integers(1, "split")
    if lengths is None:
        part = -(-size // count)
        lengths = tuple(min(part, size - index * part) for index in range(count))
    (data,) = in_four(node.x(0))
    present = [length for length in lengths if length]
    place = axis + len(data.sizes) - node.rank(0)
    parts = iter([data] if len(present) == 1 else x.split(data, axis=place, output_axis_sizes=present))
    return tuple(next(parts) if length else None for length in lengths)


@lowers("Slice")
def lower_slice(node: Node) -> Expression:
    """SLICE1; a view where the window begins at the first element."""
    starts, ends = node.integers(1, "starts", ()) or (), node.integers(2, "ends", ()) or ()
    axes = node.integers(3, "axes") or tuple(range(len(starts)))
    steps = (node.integers(4) if node.has(4) else None) or (1,) * len(starts)
    (data,) = in_four(node.x(0))
    windows = [slice(None)] * len(data.sizes)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = node.axis(axis, node.rank(0)) + len(data.sizes) - node.rank(0)
        windows[place] = sliced_window(start, end, step, data.sizes[place])
    return data[tuple(windows)]


@lowers("Pad")
def lower_pad(node: Node) -> Expression:
    """PADDING, or PADDING1 for integers with a value; negative pads are sliced off first.

    ELEMENT_WISE_IF inserts a computed value.
    """
    modes = {"constant": "CONSTANT", "edge": "EDGE", "reflect": "REFLECTION", "wrap": "WRAP"}
    mode = node.attribute("mode", "constant")
    if mode not in modes:
        raise node.invalid("mode", *modes)
    rank = node.rank(0)
    pads = node.integers(1, "pads", ()) or ()
    axes = [node.axis(axis, rank) for axis in node.integers(3) or ()] if node.has(3) else [*range(rank)]
    (data,) = in_four(node.x(0))
    added = len(data.sizes) - rank
    start, end = [0] * len(data.sizes), [0] * len(data.sizes)
    for place, axis in enumerate(axes):
        start[axis + added], end[axis + added] = pads[place], pads[place + len(axes)]
    left = [size + min(first, 0) + min(last, 0) for first, last, size in zip(start, end, data.sizes, strict=True)]
    if mode == "constant" and min(left) < 1:
        return _padding_alone(node, data, start, end)
    cut = [slice(max(0, -first), size - max(0, -last)) for first, last, size in zip(start, end, data.sizes, strict=True)]
    data = data[tuple(cut)] if min(*start, *end) < 0 else data
    margins: dict[str, Any] = {"start_padding": [max(0, margin) for margin in start], "end_padding": [max(0, margin) for margin in end]}
    if node.has(2) and node.value(2).array is None and mode == "constant":
        ones = x.fill_value_constant(value_data_type="UINT8", value=1, output_sizes=[1] * len(data.sizes)).broadcast(*data.sizes)
        inside, margin = x.padding(ones, **margins), node.x(2).reshape(*[1] * len(data.sizes))
        return x.if_(inside, x.padding(data, **margins), margin)
    value = node.attribute("value", 0.0) if not node.has(2) else np.ravel(node.array(2))[0]
    if data.data_type in FLOATS or not value or mode != "constant":
        return x.padding(data, padding_mode=modes[mode], padding_value=float(value), **margins)
    number = int(value) if value.dtype.kind == "b" else value.item()
    return x.padding1(data, padding_mode=modes[mode], padding_value_data_type=data.data_type, padding_value=number, **margins)


def _padding_alone(node: Node, data: Expression, start: Sequence[int], end: Sequence[int]) -> Expression:
    """The padding of a tensor of which negative pads leave nothing."""
    sizes = [first + size + last for first, last, size in zip(start, end, data.sizes, strict=True)]
    if node.has(2):
        return node.x(2).reshape(*[1] * len(sizes)).broadcast(*sizes)
    return x.fill_value_constant(value_data_type=data.data_type, value=node.attribute("value", 0.0), output_sizes=sizes)


@lowers("Tile")
def tile(node: Node) -> Expression:
    """TILE."""
    (data,) = in_four(node.x(0))
    repeats = node.integers(1) or ()
    return x.tile(data, repeats=[*[1] * (len(data.sizes) - len(repeats)), *repeats])


@lowers("Expand")
def expand(node: Node) -> Expression:
    """A view that strides of 0 repeat."""
    wanted = broadcast_sizes(node.sizes(0), node.integers(1) or ())
    return node.x(0).broadcast(*(wanted or (1,)))


@lowers("ConstantOfShape")
def constant_of_shape(node: Node) -> Expression:
    """FILL_VALUE_CONSTANT."""
    sizes = [*(node.integers(0) or ())]
    given = node.attribute("value")
    value = 0 if given is None else np.ravel(numpy_helper.to_array(given))[0].item()
    return x.fill_value_constant(value_data_type=node.output_type(0), value=value, output_sizes=sizes or [1])


@lowers("DepthToSpace")
def depth_to_space(node: Node) -> Expression:
    """DEPTH_TO_SPACE; of mode `CRD` DEPTH_TO_SPACE1."""
    size = node.attribute("blocksize")
    if node.attribute("mode", "DCR") == "DCR":
        return x.depth_to_space(node.x(0), block_size=size)
    return x.depth_to_space1(node.x(0), block_size=size, order="COLUMN_ROW_DEPTH")


@lowers("SpaceToDepth")
def space_to_depth(node: Node) -> Expression:
    """SPACE_TO_DEPTH; of mode `CRD` SPACE_TO_DEPTH1."""
    size = node.attribute("blocksize")
    if node.attribute("mode", "DCR") == "DCR":
        return x.space_to_depth(node.x(0), block_size=size)
    return x.space_to_depth1(node.x(0), block_size=size, order="COLUMN_ROW_DEPTH")


@lowers("Col2Im")
def fold(node: Node) -> Expression:
    """FOLD."""
    image, block = node.integers(1) or (), node.integers(2) or ()
    rank = len(image)
    pads = node.attribute("pads") or [0] * (2 * rank)
    sizes = node.sizes(0)
    channels = sizes[1] // int(np.prod(block))
    return x.fold(
        node.x(0),
        window_sizes=block,
        strides=node.attribute("strides") or [1] * rank,
        dilations=node.attribute("dilations") or [1] * rank,
        start_padding=pads[:rank],
        end_padding=pads[rank:],
        output_sizes=[sizes[0], channels, *image],
    )


@lowers("Range")
def lower_range(node: Node) -> Expression:
    """FILL_VALUE_SEQUENCE of numbers that are known."""
    start, limit, delta = (np.ravel(node.array(index))[0].item() for index in range(3))
    count = max(0, ceil((limit - start) / delta))
    if not count:
        raise node.refusal("onnx.empty", "output 0", "no number", "at least one: no tensor is empty")
    return x.fill_value_sequence(value_data_type=node.data_type(0), value_start=start, value_delta=delta, output_sizes=[count])
