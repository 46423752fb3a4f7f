"""What the reductions compute, on whole arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

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


def _log_sum_exp(x: Array, axis: Axes) -> Array:
    largest = np.max(x, axis=axis, keepdims=True)
    # An infinity is not taken off: its difference to itself is NaN.
    largest = np.where(np.isinf(largest), np.zeros_like(largest), largest)
    result: Array = largest + np.log(_sum(np.exp(x - largest), axis))
    return result


_REDUCTIONS: Mapping[ReduceFunction, Callable[[Array, Axes], Array]] = {
    ReduceFunction.SUM: _sum,
    ReduceFunction.AVERAGE: lambda x, axis: np.mean(x, axis=axis, keepdims=True),
    ReduceFunction.MULTIPLY: lambda x, axis: np.prod(x, axis=axis, keepdims=True, dtype=x.dtype),
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
    """The reduced axes in ascending order, each once."""
    return tuple(sorted(set(desc.axes)))


def _groups(desc: ReductionDesc, x: Array) -> Array:
    """The groups in rows: an axis for each dimension that tells them apart, and one for the entries in the order of their indices."""
    axes = _axes(desc)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return x.transpose(*kept, *axes).reshape(*(x.shape[axis] for axis in kept), prod(x.shape[axis] for axis in axes))


def _first_index(desc: ReductionDesc, x: Array, find: Callable[..., Array]) -> Array:
    return np.expand_dims(find(_groups(desc, x), axis=-1), _axes(desc))


def _last_index(desc: ReductionDesc, x: Array, find: Callable[..., Array]) -> Array:
    rows = _groups(desc, x)
    return np.expand_dims(rows.shape[-1] - 1 - find(np.flip(rows, -1), axis=-1), _axes(desc))


def _index(desc: IndexReductionDesc, x: Array, find: Callable[..., Array]) -> Array:
    return (_first_index if desc.axis_direction is AxisDirection.INCREASING else _last_index)(desc, x, find)


@defines(ArgminDesc)
def _argmin(desc: IndexReductionDesc, inputs: Inputs) -> Array:
    return _index(desc, inputs["input_tensor"], np.argmin)


@defines(ArgmaxDesc)
def _argmax(desc: IndexReductionDesc, inputs: Inputs) -> Array:
    return _index(desc, inputs["input_tensor"], np.argmax)


def _running(desc: CumulativeDesc, x: Array, function: np.ufunc, exclusive: bool, start: int) -> Array:
    """The running result of a function along the axis; with `exclusive` it is `start` first, and the last element has no part."""
    lines = np.moveaxis(x, desc.axis, 0)
    if desc.axis_direction is AxisDirection.DECREASING:
        lines = np.flip(lines, 0)
    if exclusive:
        lines = np.concatenate([np.full_like(lines[:1], start), lines[:-1]])
    lines = function.accumulate(lines, axis=0, dtype=x.dtype)
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
    x = inputs["input_tensor"]
    if isinstance(desc, TopK1Desc) and desc.axis_direction is AxisDirection.INCREASING:
        order = np.argsort(x, axis=desc.axis, stable=True)
    else:
        # Sorted backwards and read backwards, equal elements keep the order of their indices.
        backwards = np.argsort(np.flip(x, desc.axis), axis=desc.axis, stable=True)
        order = x.shape[desc.axis] - 1 - np.flip(backwards, desc.axis)
    index = np.take(order, range(desc.k), axis=desc.axis)
    return {"output_value_tensor": np.take_along_axis(x, index, axis=desc.axis), "output_index_tensor": index}
