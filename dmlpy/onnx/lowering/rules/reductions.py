"""Reductions along axes, positions of extremes, running sums and products, the largest elements."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.description.enums import AxisDirection, DataType
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import in_four, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_FUNCTIONS = {
    "ReduceL1": "L1",
    "ReduceL2": "L2",
    "ReduceLogSum": "LOG_SUM",
    "ReduceLogSumExp": "LOG_SUM_EXP",
    "ReduceMax": "MAX",
    "ReduceMean": "AVERAGE",
    "ReduceMin": "MIN",
    "ReduceProd": "MULTIPLY",
    "ReduceSum": "SUM",
    "ReduceSumSquare": "SUM_SQUARE",
}


_WIDER = {
    DataType.INT32: DataType.INT64,
    DataType.INT64: DataType.INT64,
    DataType.UINT32: DataType.UINT64,
    DataType.UINT64: DataType.UINT64,
}
"""The types of integers that have means, and of their sums."""


@lowers(*_FUNCTIONS)
def lower_reduction(node: Node) -> Expression:
    """REDUCE. With `noop_with_empty_axes` and no axes, each element is a group of its own. Means of integers are sums, divided."""
    function, rank = _FUNCTIONS[node.op_type], node.rank(0)
    axes = node.integers(1, "axes", ())
    if not axes and node.attribute("noop_with_empty_axes", 0):
        return x.reduce(node.x(0).reshape(1, 1, -1, 1), function=function, axes=[3])
    (data,) = in_four(node.x(0))
    added = len(data.sizes) - rank
    places = sorted({node.axis(axis, rank) + added for axis in axes or ()}) or range(added, len(data.sizes))
    places = [*places] or [len(data.sizes) - 1]
    if function == "AVERAGE" and data.data_type in _WIDER:
        return _integer_mean(data, places)
    return x.reduce(data, function=function, axes=places)


def _integer_mean(data: Expression, axes: Sequence[int]) -> Expression:
    """The mean without its fraction, as in ONNX Runtime; the sum of 32 bits has 64."""
    wide = _WIDER[data.data_type]
    total = x.reduce(data if data.data_type is wide else x.cast(data, output_data_type=wide), function="SUM", axes=axes)
    count = prod(data.sizes[axis] for axis in axes)
    mean = x.divide(total, number(data, count, wide))
    return mean if data.data_type is wide else x.cast(mean, output_data_type=data.data_type)


@lowers("ArgMax", "ArgMin")
def extreme(node: Node) -> Expression:
    """ARGMAX or ARGMIN; `select_last_index` is its axis direction."""
    function = x.argmax if node.op_type == "ArgMax" else x.argmin
    direction = AxisDirection.DECREASING if node.attribute("select_last_index", 0) else AxisDirection.INCREASING
    (data,) = in_four(node.x(0))
    axis = node.axis(node.attribute("axis", 0), node.rank(0)) + len(data.sizes) - node.rank(0)
    return function(data, axes=[axis], axis_direction=direction, output_data_type="INT64")


@lowers("CumSum", "CumProd")
def running(node: Node) -> Expression:
    """CUMULATIVE_SUMMATION or CUMULATIVE_PRODUCT."""
    (data,) = in_four(node.x(0))
    given = int(np.ravel(node.array(1))[0])
    axis = node.axis(given, node.rank(0)) + len(data.sizes) - node.rank(0)
    direction = AxisDirection.DECREASING if node.attribute("reverse", 0) else AxisDirection.INCREASING
    exclusive = bool(node.attribute("exclusive", 0))
    if node.op_type == "CumSum":
        return x.cumulative_summation(data, axis=axis, axis_direction=direction, has_exclusive_sum=exclusive)
    return x.cumulative_product(data, axis=axis, axis_direction=direction, has_exclusive_product=exclusive)


@lowers("TopK")
def largest(node: Node) -> tuple[Expression, ...]:
    """TOP_K1; the elements are sorted, also where ONNX does not ask for it."""
    (data,) = in_four(node.x(0))
    axis = node.axis(node.attribute("axis", -1), node.rank(0)) + len(data.sizes) - node.rank(0)
    given = node.integers(1, "k")
    if given is None:
        raise node.refusal("onnx.missing", "k", "left out", "how many elements are wanted")
    direction = AxisDirection.DECREASING if node.attribute("largest", 1) else AxisDirection.INCREASING
    top = x.top_k1(data, axis=axis, k=given[0], axis_direction=direction, output_index_data_type="UINT32")
    return top.value, top.index
