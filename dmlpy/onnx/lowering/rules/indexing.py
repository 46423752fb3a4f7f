"""Elements by index: gather, scatter, one-hot, triangles, reversed sequences."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import in_four, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_FAR = (1 << 31) - 1
"""Beyond any diagonal."""


@lowers("Gather")
def gather(node: Node) -> Expression:
    """GATHER, or a slice where one index is known; a negative index counts from the end."""
    rank, places = node.rank(0), node.rank(1)
    axis = node.axis(node.attribute("axis", 0), rank)
    size = node.sizes(0)[axis]
    if prod(node.sizes(1)) == 1 and node.value(1).array is not None:
        (index,) = node.integers(1) or ()
        if -size <= index < size:
            return _one_of(node, axis, index + size if index < 0 else index)
    data, indices = node.x(0), node.x(1)
    count = max(4, len(data.sizes), len(indices.sizes), rank - 1 + places)
    aligned = [tensor.with_leading_ones(count) for tensor in (data, indices)]
    return x.gather(*aligned, axis=axis + count - rank, index_dimensions=places)


def _one_of(node: Node, axis: int, index: int) -> Expression:
    """The elements at an index along an axis, without a tensor of indices: the data may have any strides."""
    (data,) = in_four(node.x(0))
    windows = [slice(None)] * len(data.sizes)
    windows[axis + len(data.sizes) - node.rank(0)] = slice(index, index + 1)
    sizes = node.sizes(0)
    return data[tuple(windows)].reshape(*sizes[:axis], *[1] * node.rank(1), *sizes[axis + 1 :])


@lowers("GatherElements")
def gather_elements(node: Node) -> Expression:
    """GATHER_ELEMENTS; the data is cropped to the sizes of the indices."""
    axis = node.axis(node.attribute("axis", 0), node.rank(0))
    data, indices = in_four(_is_covered(node.x(0), node.sizes(1), axis), node.x(1))
    return x.gather_elements(data, indices, axis=axis + len(data.sizes) - node.rank(0))


@lowers("GatherND")
def gather_nd(node: Node) -> Expression:
    """GATHER_ND, with batch dimensions GATHER_ND1. Indices of no numbers select all of the data."""
    data, batch = node.x(0), node.attribute("batch_dims", 0)
    rank, places = node.rank(0), node.rank(1)
    ahead, width = node.sizes(1)[:-1], node.sizes(1)[-1]
    if not width and node.value(1).is_empty and 0 not in ahead:
        around, rest = node.sizes(0)[:batch], node.sizes(0)[batch:]
        return data.reshape(*around, *[1] * (len(ahead) - batch), *rest).broadcast(*ahead, *rest)
    indices = node.x(1)
    count = max(4, rank, places, places - 1 + rank - node.sizes(1)[-1] - batch)
    counts: dict[str, Any] = {"input_dimension_count": rank, "indices_dimension_count": places}
    aligned = [tensor.with_leading_ones(count) for tensor in (data, indices)]
    return x.gather_nd1(*aligned, **counts, batch_dimension_count=batch) if batch else x.gather_nd(*aligned, **counts)


@lowers("Compress")
def compress(node: Node) -> Expression:
    """GATHER of the elements that a known condition selects; its entries beyond the data are ignored, as in ONNX Runtime."""
    axis = node.attribute("axis")
    data = node.x(0).reshape(-1) if axis is None else node.x(0)
    size = prod(node.sizes(0)) if axis is None else node.sizes(0)[node.axis(axis, node.rank(0))]
    kept = np.flatnonzero(node.array(1)[:size])
    if not kept.size:
        raise node.refusal("onnx.empty", node.input_label(1), "a condition that keeps nothing", "at least one element: no tensor is empty")
    place = 0 if axis is None else node.axis(axis, node.rank(0))
    (data,) = in_four(data)
    indices = node.constant("kept", kept.astype(np.uint32)).with_leading_ones(len(data.sizes))
    rank = 1 if axis is None else node.rank(0)
    compressed = x.gather(data, indices, axis=place + len(data.sizes) - rank, index_dimensions=1)
    return compressed.reshape(*compressed.sizes[len(compressed.sizes) - rank :])


@lowers("NonZero")
def nonzero(node: Node) -> Expression:
    """Never lowered: the sizes of the result depend on the values."""
    raise node.refusal(
        "onnx.dynamic", "output 0", "one column for each element that is not zero", "sizes that are known before the model runs"
    )


@lowers("OneHot")
def one_hot(node: Node) -> Expression:
    """ONE_HOT; indices of floats become integers."""
    indices, values = node.x(0), node.x(2)
    if indices.data_type not in (DataType.INT64, DataType.INT32):
        indices = x.cast(indices, output_data_type="INT64")
    rank = node.rank(0) + 1
    axis = node.axis(node.attribute("axis", -1), rank)
    sizes = node.sizes(0)
    count = max(4, rank)
    placed = indices.reshape(*[1] * (count - rank), *sizes[:axis], 1, *sizes[axis:])
    length = int(np.ravel(node.array(1))[0])
    return x.one_hot(placed, values.with_leading_ones(count), axis=axis + count - rank, output_length=length)


@lowers("Trilu")
def triangle(node: Node) -> Expression:
    """DIAGONAL_MATRIX1 with zeros on the other side of the diagonal."""
    sizes = node.sizes(0)
    offset = int(np.ravel(node.array(1))[0]) if node.has(1) else 0
    upper = node.attribute("upper", 1)
    data = node.x(0).reshape(prod(sizes[:-2]), *sizes[-2:]).with_leading_ones(4)
    offset = max(-_FAR + 1, min(offset, _FAR - 1))
    begin, end = (-_FAR, offset) if upper else (offset + 1, _FAR)
    return x.diagonal_matrix1(data, value_data_type=data.data_type, value=0, diagonal_fill_begin=begin, diagonal_fill_end=end)


@lowers("EyeLike")
def identity_matrix(node: Node) -> Expression:
    """DIAGONAL_MATRIX."""
    sizes = [1, 1, *node.sizes(0)]
    return x.diagonal_matrix(value=1.0, offset=node.attribute("k", 0), output_sizes=sizes, output_data_type=node.output_type(0))


@lowers("ReverseSequence")
def reverse(node: Node) -> Expression:
    """REVERSE_SUBSEQUENCES."""
    time, batch = node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    (data,) = in_four(node.x(0))
    added = len(data.sizes) - node.rank(0)
    along_batch = [size if axis == batch + added else 1 for axis, size in enumerate(data.sizes)]
    wanted = [1 if axis == time + added else size for axis, size in enumerate(data.sizes)]
    lengths = x.cast(node.x(1), output_data_type="UINT32").reshape(*along_batch).broadcast(*wanted)
    return x.reverse_subsequences(data, lengths, axis=time + added)


@lowers("Scatter", "ScatterElements")
def scatter_elements(node: Node) -> Expression:
    """SCATTER. If indices do not cover the data, its covered part is scattered and put back by PADDING and ELEMENT_WISE_IF.

    Reductions compare each index with each position along the axis and REDUCE the matching updates.
    """
    reduction = node.attribute("reduction", "none")
    axis = node.axis(node.attribute("axis", 0), node.rank(0))
    if 0 in node.sizes(1):
        return node.x(0)
    data, covered = node.x(0), _is_covered(node.x(0), node.sizes(1), axis)
    indices, updates = node.x(1), node.x(2)
    if reduction == "none":
        parts = in_four(covered, indices, updates)
        result = x.scatter(*parts, axis=axis + len(parts[0].sizes) - node.rank(0))
    else:
        order = [*(place for place in range(node.rank(0)) if place != axis), axis]
        back = [order.index(place) for place in range(node.rank(0))]
        moved = [tensor.transpose(*order) for tensor in (covered, indices, updates)]
        rows, length, count = prod(moved[0].sizes[:-1]), covered.sizes[axis], indices.sizes[axis]
        sums = _combine(
            node,
            reduction,
            moved[0].reshape(rows, length, 1),
            moved[1].reshape(rows, 1, 1, count),
            moved[2].reshape(rows, 1, 1, count),
        )
        result = sums.reshape(*moved[0].sizes).transpose(*back)
    if covered.sizes == data.sizes:
        return result
    margin = [whole - part for whole, part in zip(data.sizes, covered.sizes, strict=True)]
    sides: dict[str, Any] = {"start_padding": [0] * (max(4, len(margin))), "end_padding": [*[0] * (4 - len(margin)), *margin]}
    ones = x.fill_value_constant(value_data_type="UINT8", value=1, output_sizes=[1]).broadcast(*covered.sizes)
    inside, put = (x.padding(*in_four(tensor), **sides) for tensor in (ones, result.reshape(*covered.sizes)))
    return x.if_(inside, put, *in_four(data))


@lowers("ScatterND")
def scatter_nd(node: Node) -> Expression:
    """SCATTER_ND. Reductions compare each tuple's position with all possible ones, and REDUCE the matching updates."""
    data, indices, updates = node.x(0), node.x(1), node.x(2)
    rank, places, sizes = node.rank(0), node.rank(1), node.sizes(0)
    reduction = node.attribute("reduction", "none")
    if reduction == "none":
        count = max(4, rank, places, node.rank(2))
        aligned = [tensor.with_leading_ones(count) for tensor in (data, indices, updates)]
        return x.scatter_nd(*aligned, input_dimension_count=rank, indices_dimension_count=places)
    indexed = node.sizes(1)[-1]
    tuples, block = prod(node.sizes(1)[:-1]), prod(sizes[indexed:])
    linear: Expression | None = None
    for axis in range(indexed):
        coordinate = _from_front(indices.reshape(tuples, indexed)[:, axis], sizes[axis])
        step = number(coordinate, prod(sizes[axis + 1 : indexed]))
        linear = x.multiply(coordinate, step) if linear is None else x.add(linear, x.multiply(coordinate, step))
    assert linear is not None
    return _combine(
        node,
        reduction,
        data.reshape(1, prod(sizes[:indexed]), block),
        linear.reshape(1, 1, 1, tuples),
        updates.reshape(1, 1, tuples, block).transpose(0, 1, 3, 2),
    )


_MOST = 1 << 26
"""The most comparisons of positions with indices: beyond, a reduction's table is too large."""
_COMBINED: dict[str, tuple[str, Callable[[Expression, Expression], Expression]]] = {
    "add": ("SUM", x.add),
    "mul": ("MULTIPLY", x.multiply),
    "max": ("MAX", x.max),
    "min": ("MIN", x.min),
}


def _combine(node: Node, reduction: str, data: Expression, indices: Expression, updates: Expression) -> Expression:
    """Combines data [rows, length, block] with updates [rows, 1, block or 1, count] at indices [rows, 1, 1, count] along the length."""
    if reduction not in _COMBINED:
        raise node.unsupported("reduction", "none", *_COMBINED)
    function, combine = _COMBINED[reduction]
    (rows, length, block), count = data.sizes, indices.sizes[-1]
    if rows * length * block * count > _MOST:
        found = f"{count} indices of {length} places, {rows} x {block} times"
        raise node.refusal(
            "onnx.attribute", "reduction", f"{reduction!r} of {found}", f"at most {_MOST} choices: no operator adds while it scatters"
        )
    from_front = _from_front(indices, length)
    places = x.fill_value_sequence(value_data_type=from_front.data_type, value_start=0, value_delta=1, output_sizes=[1, length, 1, 1])
    chosen = x.logical_equals(from_front, places, output_data_type="UINT8")
    table = (rows, length, block, count)
    neutral = data.reshape(rows, length, block, 1) if reduction in ("max", "min") else number(updates, 0 if reduction == "add" else 1)
    picked = x.if_(chosen.broadcast(*table), updates.broadcast(*table), neutral.broadcast(*table))
    return combine(data.reshape(rows, length, block, 1), x.reduce(picked, function=function, axes=[3]))


def _from_front(indices: Expression, size: int) -> Expression:
    """Indices counted from the front, where negative ones counted from the end."""
    negative = x.logical_less_than(indices, number(indices, 0), output_data_type="UINT8")
    return x.if_(negative, x.add(indices, number(indices, size)), indices)


def _is_covered(data: Expression, sizes: tuple[int, ...], axis: int) -> Expression:
    """The part of the data that indices of these sizes cover in all dimensions except the axis."""
    wanted = [length if place == axis else min(length, size) for place, (length, size) in enumerate(zip(data.sizes, sizes, strict=True))]
    return data.slice([0] * len(wanted), wanted) if tuple(wanted) != data.sizes else data


@lowers("TensorScatter")
def tensor_scatter(node: Node) -> Expression:
    """SCATTER along the axis, from the start position of each batch entry."""
    data, updates = in_four(node.x(0), node.x(1))
    rank = node.rank(0)
    axis = node.axis(node.attribute("axis", -2), rank) + len(data.sizes) - rank
    along = [-1 if place == axis else 1 for place in range(len(data.sizes))]
    count = updates.sizes[axis]
    places = x.fill_value_sequence(value_data_type="INT64", value_start=0, value_delta=1, output_sizes=[count]).reshape(*along)
    if node.has(2):
        first = node.x(2).reshape(*[-1 if place == len(data.sizes) - rank else 1 for place in range(len(data.sizes))])
        places = x.add(first, places)
    if node.attribute("mode", "linear") == "circular":
        places = x.modulus_floor(places, number(places, data.sizes[axis]))
    return x.scatter(data, places.broadcast(*updates.sizes), updates, axis=axis)
