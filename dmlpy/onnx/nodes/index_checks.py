"""ONNX's rules for indices: of elements along an axis, of places by several numbers, and of positions, as far as they are known."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy.description.sized_arrays import SizedArray, are_indices
from dmlpy.description.symbolic_sizes import example_size
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import Problem
from dmlpy.onnx.nodes.operands import nothing_to_index
from dmlpy.onnx.nodes.ranks import are_known, other_size_problems
from dmlpy.onnx.nodes.windows import unpooled_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node


def element_problems(node: Node) -> Iterator[Problem]:
    """Indices along an axis beyond its elements; of a scatter, other sizes of updates, and more places than the data has."""
    if not are_known(node, 0) or not node.rank(0):
        return
    axis = node.axis(node.attribute("axis", 0), node.rank(0))
    size = node.sizes(0)[axis]
    indices = node.known_indices(1, size)
    if indices is not None and not are_indices(indices, _compared_size(node, size)):
        yield _beyond(node, indices, axis)
    if node.op_type.startswith("Scatter") and are_known(node, 1):
        yield from other_size_problems(node, 2, node.sizes(1), "an update for each index")
    if "Elements" in node.op_type or node.op_type == "Scatter":
        yield from _place_problems(node, axis)


def _beyond(node: Node, indices: Array, axis: int) -> Problem:
    """The problem of known indices some of which are beyond the elements along an axis."""
    size = node.sizes(0)[axis]
    if not size:
        return nothing_to_index(node)
    wrong = int(indices.min() if indices.min() < -size else indices.max())
    return Problem("onnx.invalid", node.input_label(1), str(wrong), f"{-size} to {size - 1}: axis {axis} of {listed(node.sizes(0))}")


def _compared_size(node: Node, size: int) -> int:
    """The size of an axis with which known indices are compared: those that follow from symbolic sizes are limited for others, too."""
    return example_size(size) if isinstance(node.value(1).array, SizedArray) else size


def _place_problems(node: Node, axis: int) -> Iterator[Problem]:
    """Indices for no more places than the data has along the other axes."""
    if not are_known(node, 1) or node.rank(1) != node.rank(0):
        return
    pairs = enumerate(zip(node.sizes(1), node.sizes(0), strict=True))
    if 0 not in node.sizes(1) and any(length > size and place != axis for place, (length, size) in pairs):
        expected = f"sizes of at most those of the data, {listed(node.sizes(0))}, along all axes but {axis}"
        yield Problem("onnx.invalid", node.input_label(1), listed(node.sizes(1)), expected)


def unpooling_problems(node: Node) -> Iterator[Problem]:
    """Sizes for each dimension, an index for each element, and indices of the elements that the sizes have."""
    if are_known(node, 0):
        yield from other_size_problems(node, 1, node.sizes(0), "an index for each element")
    if not are_known(node, 0) or node.rank(0) < 3 or (node.has(2) and node.value(2).array is None):
        return
    sizes = unpooled_sizes(node)
    if len(sizes) != node.rank(0) or any(size < min(pooled, 1) for size, pooled in zip(sizes, node.sizes(0), strict=True)):
        expected = f"{node.rank(0)} sizes of 1 or more, as {listed(node.sizes(0))} has"
        yield Problem("onnx.invalid", "output_shape", listed(sizes), expected)
        return
    most, indices = prod(sizes) - 1, node.value(1).array
    if indices is not None and indices.size and not 0 <= indices.min() <= indices.max() <= most:
        wrong = int(indices.min() if indices.min() < 0 else indices.max())
        yield Problem("onnx.invalid", node.input_label(1), str(wrong), f"0 to {most}: {listed(sizes)}")


def tuple_problems(node: Node) -> Iterator[Problem]:
    """Indices of more dimensions than the data has, or beyond its elements, and updates of other sizes."""
    if not are_known(node, 0, 1) or not node.rank(1):
        return
    batch = node.attribute("batch_dims", 0)
    if node.sizes(1)[:batch] != node.sizes(0)[:batch]:
        expected = f"{listed(node.sizes(0)[:batch])} as first sizes: batch_dims is {batch}, and the data {listed(node.sizes(0))}"
        yield Problem("onnx.invalid", node.input_label(1), listed(node.sizes(1)), expected)
        return
    if (last := node.sizes(1)[-1]) + batch > node.rank(0):
        expected = f"at most {node.rank(0) - batch} as last size, the dimensions of {listed(node.sizes(0))}"
        yield Problem("onnx.invalid", node.input_label(1), listed(node.sizes(1)), expected)
        return
    if node.op_type == "ScatterND":
        wanted = (*node.sizes(1)[:-1], *node.sizes(0)[last:])
        yield from other_size_problems(node, 2, wanted, f"updates for {node.input_label(1)}, {listed(node.sizes(1))}")
    for at, size in enumerate(node.sizes(0)[batch : batch + node.sizes(1)[-1]]):
        indices = node.known_indices(1, size, at)
        if indices is not None and not are_indices(indices, _compared_size(node, size)):
            yield _beyond(node, indices, batch + at)


def _angle_problems(node: Node) -> Iterator[Problem]:
    """Caches of other than an angle for each pair of the elements that are rotated."""
    if not are_known(node, 0, 1) or node.rank(0) not in (3, 4) or not node.rank(1):
        return
    heads = int(node.attribute("num_heads", 0)) or 1
    size = node.sizes(0)[3] if node.rank(0) == 4 else node.sizes(0)[2] // heads
    rotated = int(node.attribute("rotary_embedding_dim", 0)) or size
    if rotated % 2:
        yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), f"an even number of elements to rotate, not {rotated}")
    elif node.sizes(1)[-1] != rotated // 2:
        expected = f"{rotated // 2} as last size, an angle for each pair of {rotated} elements"
        yield Problem("onnx.invalid", node.input_label(1), listed(node.sizes(1)), expected)


def rotation_problems(node: Node) -> Iterator[Problem]:
    """Caches of cosines and sines of other sizes than each other, and positions beyond them or for other tokens."""
    if are_known(node, 1):
        yield from other_size_problems(node, 2, node.sizes(1), "a sine for each cosine")
    yield from _angle_problems(node)
    if not node.has(3) or not are_known(node, 0, 1):
        return
    sizes, rows = node.sizes(0), node.sizes(1)[0]
    if len(sizes) in (3, 4):
        yield from other_size_problems(node, 3, (sizes[0], sizes[-2]), f"a position for each token of {listed(sizes)}")
    positions = node.value(3).array
    if positions is not None and positions.size and not 0 <= positions.min() <= positions.max() < rows:
        wrong = int(positions.min() if positions.min() < 0 else positions.max())
        yield Problem("onnx.invalid", node.input_label(3), str(wrong), f"0 to {rows - 1}: the rows of {listed(node.sizes(1))}")
