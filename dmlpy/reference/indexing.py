"""The definitions of the indexing operators, on whole arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.operators.indexing import (
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
    NonzeroCoordinatesDesc,
    OneHotDesc,
    ScatterDesc,
    ScatterNDDesc,
)
from dmlpy.reference.registry import Array, Inputs, defines

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST = np.iinfo(np.int64).max
_FEW = 16
"""Up to this many indices, a list is faster than functions of arrays."""


def _from_start(indices: Array, size: int) -> Array:
    """Converts indices into a dimension to int64, with negative ones counted from its end. Those out of range stay so."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, _LARGEST)
    wide = indices.astype(np.int64)
    return np.where(wide < 0, wide + size, wide)


def _are_inside(indices: Array, size: int) -> bool:
    """Whether all indices count from the start and are in range."""
    if indices.size <= _FEW:
        return all(0 <= index < size for index in indices.ravel().tolist()) and indices.size > 0
    return bool(indices.min() >= 0) and bool(indices.max() < size)


def _to_read(indices: Array, size: int) -> Array:
    """Converts as `_from_start` does, with indices out of range moved to the nearest element."""
    if _are_inside(indices, size):
        return indices.astype(np.int64, copy=False)
    return np.clip(_from_start(indices, size), 0, size - 1)


def _to_write(indices: Array, size: int) -> Array:
    """Converts as `_from_start` does, with indices out of range moved to one place behind the last element."""
    if _are_inside(indices, size):
        return indices.astype(np.int64, copy=False)
    places = _from_start(indices, size)
    return np.where((places >= 0) & (places < size), places, size)


def _actual(values: Array, dimension_count: int) -> Array:
    """A tensor without its padding dimensions."""
    return values.reshape(values.shape[values.ndim - dimension_count :])


@defines(GatherDesc)
def gather(desc: GatherDesc, inputs: Inputs) -> Array:
    values: Array = inputs["input_tensor"]
    indices = _actual(inputs["indices_tensor"], desc.index_dimensions)
    picked = values.take(_to_read(indices, values.shape[desc.axis]), desc.axis)
    assert desc.output_tensor is not None
    return picked.reshape(desc.output_tensor.sizes)


@defines(GatherElementsDesc)
def gather_elements(desc: GatherElementsDesc, inputs: Inputs) -> Array:
    values: Array = inputs["input_tensor"]
    indices: Array = inputs["indices_tensor"]
    # The row-major number of each element: one index instead of one for each dimension.
    numbers = _to_read(indices, values.shape[desc.axis]) * math.prod(values.shape[desc.axis + 1 :])
    for axis, size in enumerate(indices.shape):
        if axis != desc.axis and size > 1:
            offsets: Array = np.arange(size) * math.prod(values.shape[axis + 1 :])
            numbers += offsets.reshape([-1 if other == axis else 1 for other in range(indices.ndim)])
    gathered: Array = values.reshape(-1).take(numbers)
    return gathered


@defines(ScatterDesc)
def scatter(desc: ScatterDesc, inputs: Inputs) -> Array:
    values: Array = inputs["input_tensor"]
    size = values.shape[desc.axis]
    # Elements with an index out of range are written behind the last element, and cut off.
    result = np.concatenate([values, np.take(values, [0], desc.axis)], desc.axis)
    np.put_along_axis(result, _to_write(inputs["indices_tensor"], size), inputs["updates_tensor"], desc.axis)
    return np.moveaxis(np.moveaxis(result, desc.axis, 0)[:size], 0, desc.axis)


def _row_major(tuples: Array, sizes: Sequence[int]) -> tuple[Array, Array]:
    """The row-major indices of elements by coordinates, clipped to the range, and whether the coordinates were in range."""
    numbers, inside = np.zeros(tuples.shape[:-1], np.int64), np.ones(tuples.shape[:-1], np.bool_)
    for axis, size in enumerate(sizes):
        coordinates = _from_start(tuples[..., axis], size)
        inside &= (coordinates >= 0) & (coordinates < size)
        numbers = numbers * size + np.clip(coordinates, 0, size - 1)
    return numbers, inside


@defines(GatherNDDesc, GatherND1Desc)
def gather_nd(desc: GatherNDDesc | GatherND1Desc, inputs: Inputs) -> Array:
    values = _actual(inputs["input_tensor"], desc.input_dimension_count)
    tuples = _actual(inputs["indices_tensor"], desc.indices_dimension_count)
    batch = desc.batch_dimensions
    count, indexed = math.prod(values.shape[:batch]), values.shape[batch : batch + tuples.shape[-1]]
    blocks = values.reshape(count, math.prod(indexed), -1)
    numbers, _ = _row_major(tuples.reshape(count, -1, tuples.shape[-1]), indexed)
    assert desc.output_tensor is not None
    return blocks[np.arange(count)[:, None], numbers].reshape(desc.output_tensor.sizes)


@defines(ScatterNDDesc)
def scatter_nd(desc: ScatterNDDesc, inputs: Inputs) -> Array:
    values = _actual(inputs["input_tensor"], desc.input_dimension_count)
    tuples = _actual(inputs["indices_tensor"], desc.indices_dimension_count)
    indexed = values.shape[: tuples.shape[-1]]
    blocks = values.reshape(math.prod(indexed), -1)
    numbers, inside = _row_major(tuples.reshape(-1, tuples.shape[-1]), indexed)
    result: Array = np.concatenate([blocks, blocks[:1]])  # as in `scatter`
    result[np.where(inside, numbers, len(blocks))] = inputs["updates_tensor"].reshape(len(numbers), -1)
    replaced: Array = result[:-1].reshape(desc.input_tensor.sizes)
    return replaced


@defines(OneHotDesc)
def one_hot(desc: OneHotDesc, inputs: Inputs) -> Array:
    values: Array = inputs["values_tensor"]
    off, on = values.reshape(-1)[:2]
    sizes = desc.output_tensor.sizes
    places: Array = np.arange(sizes[desc.axis]).reshape([-1 if axis == desc.axis else 1 for axis in range(len(sizes))])
    result: Array = np.where(places == _from_start(inputs["indices_tensor"], sizes[desc.axis]), on, off)
    return result


@defines(NonzeroCoordinatesDesc)
def nonzero_coordinates(desc: NonzeroCoordinatesDesc, inputs: Inputs) -> dict[str, Array]:
    assert desc.output_coordinates_tensor is not None
    *_, rows, coordinate_size = desc.output_coordinates_tensor.sizes
    nonzero = np.argwhere(inputs["input_tensor"])
    coordinates = np.zeros((rows, coordinate_size), nonzero.dtype)
    coordinates[: len(nonzero)] = nonzero[:, nonzero.shape[1] - coordinate_size :]
    return {"output_count_tensor": np.asarray(len(nonzero)), "output_coordinates_tensor": coordinates}
