"""The definitions of the reductions, on whole arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import AxisDirection, ReduceFunction
from dmlpy.operators.reduction import (
    ArgmaxDesc,
    ArgminDesc,
    CumulativeDesc,
    CumulativeProductDesc,
    CumulativeSummationDesc,
    IndexReductionDesc,
    ReduceDesc,
    ReductionDesc,
    TopK1Desc,
    TopKDesc,
)
from dmlpy.reference.norms import lp_norm
from dmlpy.reference.registry import Array, Inputs, Results, defines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Axes = tuple[int, ...]


def _sum(x: Array, axis: Axes) -> Array:
    return np.sum(x, axis=axis, keepdims=True, dtype=x.dtype)


def _type_of_products(x: Array) -> np.dtype[Any]:
    """Float64 for floating point: each factor adds a rounding of the product's full size, and parts of it may leave float32's range."""
    return np.dtype(np.float64) if x.dtype.kind == "f" else x.dtype


def _log_sum_exp(x: Array, axis: Axes) -> Array:
    largest = np.max(x, axis=axis, keepdims=True)
    # An infinity is not taken off: its difference to itself is NaN.
    largest = np.where(np.isinf(largest), np.zeros_like(largest), largest)
    result: Array = largest + np.log(_sum(np.exp(x - largest), axis))
    return result


_REDUCTIONS: Mapping[ReduceFunction, Callable[[Array, Axes], Array]] = {
    ReduceFunction.SUM: _sum,
    ReduceFunction.AVERAGE: lambda x, axis: np.mean(x, axis=axis, keepdims=True),
    ReduceFunction.MULTIPLY: lambda x, axis: np.prod(x, axis=axis, keepdims=True, dtype=_type_of_products(x)),
    ReduceFunction.MIN: lambda x, axis: np.min(x, axis=axis, keepdims=True),
    ReduceFunction.MAX: lambda x, axis: np.max(x, axis=axis, keepdims=True),
    ReduceFunction.L1: lambda x, axis: _sum(np.abs(x), axis),
    ReduceFunction.L2: lambda x, axis: lp_norm(x, 2, axis),
    ReduceFunction.SUM_SQUARE: lambda x, axis: _sum(x * x, axis),
    ReduceFunction.LOG_SUM: lambda x, axis: np.log(_sum(x, axis)),
    ReduceFunction.LOG_SUM_EXP: _log_sum_exp,
}


@defines(ReduceDesc)
def _reduce(desc: ReduceDesc, inputs: Inputs) -> Array:
    x = inputs["input_tensor"]
    if desc.function is ReduceFunction.ARGMIN:
        return _first_index(desc, x, np.argmin)
    if desc.function is ReduceFunction.ARGMAX:
        return _first_index(desc, x, np.argmax)
    return _REDUCTIONS[desc.function](x, _axes(desc))


def _axes(desc: ReductionDesc) -> Axes:
    """The reduced axes in ascending order, without repetitions."""
    return tuple(sorted(set(desc.axes)))


def _groups(desc: ReductionDesc, x: Array) -> Array:
    """The groups in rows: an axis for each kept dimension, and one for the entries in index order."""
    axes = _axes(desc)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return x.transpose(*kept, *axes).reshape(*(x.shape[axis] for axis in kept), prod(x.shape[axis] for axis in axes))


def _first_index(desc: ReductionDesc, x: Array, find: Callable[..., Array]) -> Array:
    if desc.axes == (x.ndim - 1,):
        return _first_number(x, find)[..., np.newaxis]
    return np.expand_dims(_first_number(_groups(desc, x), find), _axes(desc))


def _last_index(desc: ReductionDesc, x: Array, find: Callable[..., Array]) -> Array:
    rows = _groups(desc, x)
    return np.expand_dims(rows.shape[-1] - 1 - _first_number(np.flip(rows, -1), find), _axes(desc))


def _first_number(rows: Array, find: Callable[..., Array]) -> Array:
    """The index in each row that `find`, argmin or argmax, gives for its numbers; 0 where there are none."""
    index = find(rows, axis=-1)
    if rows.dtype.kind != "f" or not np.isnan(rows.max()):
        return index
    is_nan = np.isnan(rows)
    # Where all numbers are the infinity that stands for NaN here, the first of them is wanted.
    worst = np.inf if find is np.argmin else -np.inf
    index = find(np.where(is_nan, worst, rows), axis=-1)
    at_nan = np.take_along_axis(is_nan, index[..., None], -1)[..., 0]
    return np.where(at_nan, np.argmin(is_nan, axis=-1), index)


def _index(desc: IndexReductionDesc, x: Array, find: Callable[..., Array]) -> Array:
    return (_first_index if desc.axis_direction is AxisDirection.INCREASING else _last_index)(desc, x, find)


@defines(ArgminDesc)
def _argmin(desc: IndexReductionDesc, inputs: Inputs) -> Array:
    return _index(desc, inputs["input_tensor"], np.argmin)


@defines(ArgmaxDesc)
def _argmax(desc: IndexReductionDesc, inputs: Inputs) -> Array:
    return _index(desc, inputs["input_tensor"], np.argmax)


def _running(desc: CumulativeDesc, x: Array, function: np.ufunc, exclusive: bool, start: int) -> Array:
    """A running result along the axis; if `exclusive`, it begins with `start` and leaves out the last element."""
    lines = np.moveaxis(x, desc.axis, 0)
    if desc.axis_direction is AxisDirection.DECREASING:
        lines = np.flip(lines, 0)
    if exclusive:
        lines = np.concatenate([np.full_like(lines[:1], start), lines[:-1]])
    lines = function.accumulate(lines, axis=0, dtype=_type_of_products(x) if function is np.multiply else x.dtype)
    if desc.axis_direction is AxisDirection.DECREASING:
        lines = np.flip(lines, 0)
    return np.moveaxis(lines, 0, desc.axis)


@defines(CumulativeSummationDesc)
def _cumulative_summation(desc: CumulativeSummationDesc, inputs: Inputs) -> Array:
    return _running(desc, inputs["input_tensor"], np.add, desc.has_exclusive_sum, 0)


@defines(CumulativeProductDesc)
def _cumulative_product(desc: CumulativeProductDesc, inputs: Inputs) -> Array:
    return _running(desc, inputs["input_tensor"], np.multiply, desc.has_exclusive_product, 1)


@defines(TopKDesc, TopK1Desc)
def _top_k(desc: TopKDesc, inputs: Inputs) -> Results:
    x = np.moveaxis(inputs["input_tensor"], desc.axis, -1)
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    increasing = isinstance(desc, TopK1Desc) and desc.axis_direction is AxisDirection.INCREASING
    candidates = _top_candidates(rows, desc.k, increasing)
    if candidates is None:
        index = _sorted(rows, increasing)[:, : desc.k]
    else:
        index = np.take_along_axis(candidates[1], _sorted(candidates[0], increasing)[:, : desc.k], 1)
    results = (np.take_along_axis(rows, index, 1), index)
    values, index = (np.moveaxis(result.reshape(*x.shape[:-1], desc.k), -1, desc.axis) for result in results)
    return {"output_value_tensor": values, "output_index_tensor": index}


def _sorted(rows: Array, increasing: bool) -> Array:
    """Indices that sort each row; equal elements keep the order of their indices, and NaN is the largest."""
    if increasing:
        return np.argsort(rows, axis=1, stable=True)
    # Sorted backwards and read backwards, equal elements keep the order of their indices.
    backwards: Array = rows.shape[1] - 1 - np.flip(np.argsort(np.flip(rows, 1), axis=1, stable=True), 1)
    return backwards


_MOST_GROUPED = 32
"""Elements of a group of which `_top_candidates` looks at the best one alone."""


def _top_candidates(rows: Array, k: int, increasing: bool) -> tuple[Array, Array] | None:
    """Elements among which the first k of each sorted row are, and their indices, ascending; None where there are hardly fewer than in all.

    Rows with fewer candidates than others end with elements that none comes after.
    """
    count, size = rows.shape
    if size < 4 * k:
        return None
    # The k-th best of the best elements of groups is no better than the k-th best of all.
    grouped = max(1, min(_MOST_GROUPED, size // (4 * k)))
    groups = rows[:, : size // grouped * grouped].reshape(count, grouped, -1)
    best = np.fmin.reduce(groups, axis=1) if increasing else np.maximum.reduce(groups, axis=1)
    place = k - 1 if increasing else best.shape[1] - k
    bound = np.partition(best, place, axis=1)[:, place, None]
    if rows.dtype.kind == "f" and np.isnan(bound).any():
        return None
    is_candidate = rows <= bound if increasing else ~(rows < bound)  # NaN is the largest
    numbers = np.count_nonzero(is_candidate, axis=1)
    most = int(numbers.max())
    if most > size // 2:
        return None
    row = np.repeat(np.arange(count), numbers)
    slot = np.arange(row.size) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    index = np.zeros((count, most), np.intp)
    index[row, slot] = np.flatnonzero(is_candidate) - row * size
    values = np.full((count, most), _last(rows.dtype, increasing))
    values[row, slot] = rows[row, index[row, slot]]
    return values, index


def _last(dtype: np.dtype[Any], increasing: bool) -> Array:
    """The element of a type that sorts last."""
    if dtype.kind == "f":
        return np.asarray(np.nan if increasing else -np.inf, dtype)
    limits = np.iinfo(dtype)
    return np.asarray(limits.max if increasing else limits.min, dtype)
