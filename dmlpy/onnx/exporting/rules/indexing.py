"""Elements by indices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.onnx.exporting.rules import exports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


def _actual(node: Node, place: str, count: int) -> tuple[Value, list[int]]:
    """A tensor without its padding dimensions, and its sizes."""
    sizes = list(node.sizes(place))
    kept = sizes[len(sizes) - count :]
    return (node.x(place) if kept == sizes else node.x(place).reshape(kept)), kept


def _to_read(node: Node, indices: Value, sizes: Sequence[int]) -> Value:
    """Indices in INT64, clamped to the range, since ONNX leaves others undefined.

    Args:
        node: the node.
        indices: indices; tuples lie along the last dimension.
        sizes: the sizes of the dimensions that they count.
    """
    constant = node.constant("indices_tensor")
    wide = indices.cast(TensorProto.INT64)
    if constant is not None and len(sizes) == 1 and -sizes[0] <= constant.min(initial=0) and constant.max(initial=0) < sizes[0]:
        return wide
    most = np.asarray(sizes if len(sizes) > 1 else sizes[0], np.int64)
    if indices.element == TensorProto.UINT64:
        indices = indices.at_most(int(max(sizes)))
        wide = indices.cast(TensorProto.INT64)
    return wide.at_most(node.writer.constant(most - 1)).at_least(node.writer.constant(-most))


def _to_write(indices: Value, size: int) -> Value:
    """Indices in INT64, counted from the start; those out of range point one past the last element."""
    if indices.element == TensorProto.UINT64:
        indices = indices.at_most(size)
    wide = indices.cast(TensorProto.INT64)
    counted = (wide < 0).where(wide + size, wide)
    return ((counted < 0) | (counted >= size)).where(counted.like(size), counted)


@exports("GATHER")
def gather(node: Node) -> Value:
    """Gather."""
    axis = node.desc.axis
    indices, _ = _actual(node, "indices_tensor", node.desc.index_dimensions)
    picked = node.x("input_tensor").apply("Gather", _to_read(node, indices, [node.sizes("input_tensor")[axis]]), axis=axis)
    return picked.reshape(node.sizes("output_tensor"))


@exports("GATHER_ELEMENTS")
def gather_elements(node: Node) -> Value:
    """GatherElements."""
    axis = node.desc.axis
    indices = _to_read(node, node.x("indices_tensor"), [node.sizes("input_tensor")[axis]])
    return node.x("input_tensor").apply("GatherElements", indices, axis=axis)


@exports("GATHER_ND", "GATHER_ND1")
def gather_nd(node: Node) -> Value:
    """GatherND."""
    desc = node.desc
    x, sizes = _actual(node, "input_tensor", desc.input_dimension_count)
    indices, counts = _actual(node, "indices_tensor", desc.indices_dimension_count)
    batch = desc.batch_dimensions
    places = _to_read(node, indices, sizes[batch : batch + counts[-1]])
    return x.apply("GatherND", places, batch_dims=batch).reshape(node.sizes("output_tensor"))


@exports("SCATTER")
def scatter(node: Node) -> Value:
    """ScatterElements; updates with an index out of range go to an extra element that is then sliced off."""
    axis, sizes = node.desc.axis, node.sizes("input_tensor")
    x, size = node.x("input_tensor"), sizes[axis]
    room = x.pad([0] * len(sizes), [int(at == axis) for at in range(len(sizes))])
    places = _to_write(node.x("indices_tensor"), size)
    return room.apply("ScatterElements", places, node.x("updates_tensor"), axis=axis).part([0], [size], [axis])


@exports("SCATTER_ND")
def scatter_nd(node: Node) -> Value:
    """ScatterND by block number; updates with an index out of range go to an extra block that is then sliced off."""
    desc = node.desc
    x, sizes = _actual(node, "input_tensor", desc.input_dimension_count)
    indices, counts = _actual(node, "indices_tensor", desc.indices_dimension_count)
    indexed = sizes[: counts[-1]]
    blocks, length, updates = prod(indexed), prod(sizes[counts[-1] :]), prod(counts[:-1])
    tuples = indices.reshape([updates, counts[-1]])
    numbers: Value | None = None
    outside: Value | None = None
    for axis, size in enumerate(indexed):
        column = _to_write(tuples.part([axis], [axis + 1], [1]), size)
        wrong = column.equals(size)
        numbers = column if numbers is None else numbers * size + column
        outside = wrong if outside is None else outside | wrong
    assert numbers is not None
    assert outside is not None
    places = outside.where(numbers.like(blocks), numbers)
    room = x.reshape([blocks, length]).pad([0, 0], [1, 0])
    scattered = room.apply("ScatterND", places, node.x("updates_tensor").reshape([updates, length]))
    return scattered.part([0], [blocks], [0]).reshape(node.sizes("output_tensor"))


@exports("ONE_HOT")
def one_hot(node: Node) -> Value:
    """OneHot."""
    axis, sizes = node.desc.axis, list(node.sizes("output_tensor"))
    indices = node.x("indices_tensor").reshape([size for at, size in enumerate(sizes) if at != axis])
    if indices.element == TensorProto.UINT64:
        indices = indices.at_most(sizes[axis])
    values = node.vector("values_tensor").part([0], [2], [0])
    depth = node.writer.constant(np.asarray(sizes[axis], np.int64))
    return indices.cast(TensorProto.INT64).apply("OneHot", depth, values, axis=axis)


@exports("NONZERO_COORDINATES")
def nonzero(node: Node) -> dict[str, Value]:
    """NonZero, padded with zeros to the described size."""
    sizes = node.sizes("input_tensor")
    coordinates = node.x("input_tensor").apply("NonZero").transpose([1, 0])
    count = coordinates.apply("Shape", start=0, end=1)
    results = {"output_count_tensor": count.reshape(node.sizes("output_count_tensor"))}
    if node.has("output_coordinates_tensor"):
        *_, rows, length = node.sizes("output_coordinates_tensor")
        missing = node.add("Concat", node.writer.integers([0, 0]), node.writer.integers([rows]) - count, node.writer.integers([0]), axis=0)
        padded = coordinates.apply("Pad", missing, coordinates.like(0), mode="constant")
        kept = padded.part([len(sizes) - length], [len(sizes)], [1])
        results["output_coordinates_tensor"] = kept.reshape(node.sizes("output_coordinates_tensor"))
    return results


@exports("REVERSE_SUBSEQUENCES")
def reverse_subsequences(node: Node) -> Value:
    """ReverseSequence of the lines along the axis."""
    axis, sizes = node.desc.axis, node.sizes("input_tensor")
    order = [*(at for at in range(len(sizes)) if at != axis), axis]
    lines = prod(sizes) // sizes[axis]
    lengths = node.vector("sequence_lengths_tensor").at_most(sizes[axis]).cast(TensorProto.INT64)
    turned = node.x("input_tensor").transpose(order)
    reversed_lines = turned.reshape([lines, sizes[axis]]).apply("ReverseSequence", lengths, batch_axis=0, time_axis=1)
    return reversed_lines.reshape([sizes[at] for at in order]).transpose(np.argsort(order).tolist())
