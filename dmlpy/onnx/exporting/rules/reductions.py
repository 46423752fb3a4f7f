"""Reductions, running sums and products, top k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.enums import AxisDirection, ReduceFunction
from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.rules.activations import in_rows
from dmlpy.onnx.loading.elements import dtype_of

if TYPE_CHECKING:
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value

_REDUCTIONS = {
    ReduceFunction.AVERAGE: "ReduceMean",
    ReduceFunction.L1: "ReduceL1",
    ReduceFunction.L2: "ReduceL2",
    ReduceFunction.LOG_SUM: "ReduceLogSum",
    ReduceFunction.LOG_SUM_EXP: "ReduceLogSumExp",
    ReduceFunction.MAX: "ReduceMax",
    ReduceFunction.MIN: "ReduceMin",
    ReduceFunction.MULTIPLY: "ReduceProd",
    ReduceFunction.SUM: "ReduceSum",
    ReduceFunction.SUM_SQUARE: "ReduceSumSquare",
}
_INDICES = {ReduceFunction.ARGMAX: "ArgMax", ReduceFunction.ARGMIN: "ArgMin"}


@exports("REDUCE")
def reduction(node: Node) -> Value:
    """ONNX's reduction of the same name; for indices the first one."""
    if node.desc.function in _INDICES:
        return _index(node, _INDICES[node.desc.function], last=False)
    return node.x("input_tensor").reduce(_REDUCTIONS[node.desc.function], node.desc.axes)


@exports("ARGMAX", "ARGMIN")
def index(node: Node) -> Value:
    """ArgMax or ArgMin: the first or the last index, counted over all axes."""
    last = node.desc.axis_direction is AxisDirection.DECREASING
    return _index(node, {"ARGMAX": "ArgMax", "ARGMIN": "ArgMin"}[node.name], last=last)


def _index(node: Node, op_type: str, *, last: bool) -> Value:
    sizes, axes = node.sizes("input_tensor"), sorted(set(node.desc.axes))
    rows, _ = in_rows(node.x("input_tensor"), sizes, axes)
    index = rows.apply(op_type, axis=len(sizes) - len(axes), keepdims=1, select_last_index=int(last))
    return index.reshape(node.sizes("output_tensor"))


@exports("CUMULATIVE_SUMMATION")
def running_sum(node: Node) -> Value:
    """CumSum."""
    axis = node.writer.constant(np.asarray(node.desc.axis, np.int64))
    backwards = int(node.desc.axis_direction is AxisDirection.DECREASING)
    return node.x("input_tensor").apply("CumSum", axis, exclusive=int(node.desc.has_exclusive_sum), reverse=backwards)


@exports("CUMULATIVE_PRODUCT", wide=True)
def running_product(node: Node) -> Value:
    """Products with the elements 1, 2, 4, ... positions before: opset 21 has no cumulative product."""
    x, axis, sizes = node.x("input_tensor"), node.desc.axis, list(node.sizes("input_tensor"))
    backwards = node.desc.axis_direction is AxisDirection.DECREASING

    def behind(value: Value, distance: int) -> Value:
        """The values this many elements before each; 1 where there is none."""
        ones = node.writer.constant(np.ones([*sizes[:axis], distance, *sizes[axis + 1 :]], dtype_of(value.element)))
        kept = value.part([distance], [sizes[axis]], [axis]) if backwards else value.part([0], [sizes[axis] - distance], [axis])
        if distance == sizes[axis]:
            return ones
        return node.add("Concat", *((kept, ones) if backwards else (ones, kept)), axis=axis)

    product = behind(x, 1) if node.desc.has_exclusive_product else x
    distance = 1
    while distance < sizes[axis]:
        product, distance = product * behind(product, distance), 2 * distance
    return product


@exports("TOP_K", "TOP_K1")
def top_k(node: Node) -> dict[str, Value]:
    """TopK, sorted."""
    smallest = node.name == "TOP_K1" and node.desc.axis_direction is AxisDirection.INCREASING
    count = node.writer.integers([node.desc.k])
    results = node.writer.several("TopK", node.x("input_tensor"), count, count=2, axis=node.desc.axis, largest=int(not smallest))
    return {"output_value_tensor": results[0], "output_index_tensor": results[1]}
