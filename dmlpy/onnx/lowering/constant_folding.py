"""Constant folding: nodes whose inputs are known, and shapes of values whose sizes are known."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import helper

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.sized_arrays import SizedArray
from dmlpy.messages.problems import DmlError
from dmlpy.onnx.loading import tensors
from dmlpy.onnx.loading.elements import dtype_of, sizes_problem
from dmlpy.onnx.loading.stored_weights import pinned_elements
from dmlpy.onnx.lowering import host_evaluation
from dmlpy.onnx.nodes.costs import cost_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.onnx.loading.limits import Budget
    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.nodes.node import Node

_LOOPS = 200
"""The cost factor of an element where the reference implementation may loop over elements."""
NEVER_FOLDED = frozenset(
    {
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"),
        *("ImageDecoder", "RegexFullMatch", "StringNormalizer"),
    }
)
"""Operators of random numbers, and those of unpredictable cost: an image of any size in few bytes, expressions, texts."""


_OF_NOTHING = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"), "zero"),
    **dict.fromkeys(("ReduceMax", "ReduceLogSum", "ReduceLogSumExp"), "least"),
    "ReduceMin": "greatest",
    "ReduceProd": "one",
}
"""The results of reductions of no elements in ONNX Runtime 1.32.0, in every version and type."""


_CHECKED_BY_ELEMENTS = frozenset({"Expand", "Tile", "TopK"})
"""Operators whose second input is compared with the sizes of the first, and is needed to compile them."""


def fold_empty_value(value: Value) -> Value:
    """The value; if a size is 0, as a known value without elements."""
    is_typed = value.kind == "tensor" and value.element is not None
    if value.array is not None or not is_typed or not value.is_static or 0 not in value.static_sizes:
        return value
    if sizes_problem("", value.static_sizes, value.element or 0) is not None:
        return value  # a separate rule rejects the node that outputs it
    return replace(value, array=np.empty(value.static_sizes, dtype_of(value.element or 0)))


def fold_empty_outputs(node: Node) -> dict[str, Array] | None:
    """The outputs of a node by name if none of them has elements, else None; also for a node with subgraphs, which may be invalid.

    The sizes of all its tensors are known then: its other operands were compared with them.
    """
    wanted = [value for value in node.outputs if value is not None]
    if not wanted or any(value.array is None for value in wanted) or _has_subgraphs(node):
        return None
    # Elements and sizes that only a run has may contradict ONNX.
    if node.domain == "" and node.op_type in _CHECKED_BY_ELEMENTS and node.has(1) and node.value(1).array is None:
        return None
    if any(value is not None and value.kind == "tensor" and not value.is_static for value in node.inputs):
        return None
    return {value.name: value.array for value in wanted if value.array is not None}


def fold_of_nothing(node: Node) -> dict[str, Array] | None:
    """The outputs by name of a node that makes elements of none: a reduction, or DynamicQuantizeLinear; None for others."""
    return _fold_empty_reduction(node) or _fold_empty_quantization(node)


def _fold_empty_reduction(node: Node) -> dict[str, Array] | None:
    """The output of a reduction of no elements by name, else None. No operator of DirectML takes a tensor without elements."""
    data, result = (node.inputs[0] if node.inputs else None), (node.outputs[0] if node.outputs else None)
    kind = _OF_NOTHING.get(node.op_type) if node.domain == "" else None
    if kind is None or data is None or result is None or not data.is_empty or not result.is_static or not result.element:
        return None
    dtype = dtype_of(result.element)
    if dtype.kind not in "iu" and not is_float(dtype):
        return None
    limits = (-np.inf, np.inf) if is_float(dtype) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    number = {"zero": 0, "one": 1, "least": limits[0], "greatest": limits[1]}[kind]
    return {node.proto.output[0]: np.full(result.static_sizes, number, dtype)}


def _fold_empty_quantization(node: Node) -> dict[str, Array] | None:
    """The outputs of a DynamicQuantizeLinear of no elements by name, else None: the scale is 1, the zero point 0."""
    data = node.inputs[0] if node.op_type == "DynamicQuantizeLinear" and not node.domain else None
    if data is None or not data.is_static or not data.is_empty:
        return None
    outputs: tuple[Array, ...] = (np.empty(node.sizes(0), np.uint8), np.asarray(1, np.float32), np.asarray(0, np.uint8))
    return {name: array for name, array in zip(node.proto.output, outputs, strict=False) if name}


def fold_node(
    node: Node, opsets: Mapping[str, int], budget: Budget, computed: Callable[[Node, Mapping[str, int]], dict[str, Array] | None]
) -> dict[str, Array] | None:
    """The outputs of a node by name if they are known before the model runs, else None.

    Args:
        node: the node.
        opsets: the versions of the domains.
        budget: what may be computed and stored ahead of time.
        computed: computes a node whose inputs are known with DirectML's operators, as when the model runs; returns None if it has none.
    """
    if node.domain == "" and node.op_type in ("Shape", "Size") and node.inputs[0] is not None and node.inputs[0].is_static:
        return {node.proto.output[0]: _fold_shape(node)}
    if node.domain == "" and node.op_type == "Constant" and (stored := _constant_elements(node)) is not None:
        return {node.proto.output[0]: stored}
    given = [value for value in node.inputs if value is not None]
    proto = node.proto
    if node.domain == "" and node.op_type == "CastLike" and node.outputs[0] is not None and node.outputs[0].element:
        cast = helper.make_node("Cast", proto.input[:1], proto.output, to=node.outputs[0].element)
        cast.attribute.extend(proto.attribute)
        proto, given = cast, given[:1]
    if any(value.array is None for value in given) or not _may_fold(node):
        return None
    elements, result_bytes = cost_of(node)
    if not budget.reserve(elements, result_bytes):
        return None
    is_quick = host_evaluation.is_quick(node.op_type, node.opset)
    try:
        if not is_quick and (results := computed(node, opsets)) is not None:
            return results
        if not host_evaluation.is_supported(node.op_type, node.opset, node.domain) or not (
            is_quick or budget.reserve(_LOOPS * elements, 0)
        ):
            return None
        arrays = {value.name: pinned_elements(value.array) for value in given if value.array is not None}
        results = host_evaluation.evaluate_node(proto, opsets, arrays)
    except (DmlError, MemoryError):
        return None
    return results if all(isinstance(array, np.ndarray) for array in results.values()) else None


def _may_fold(node: Node) -> bool:
    if node.domain != "" or node.op_type in NEVER_FOLDED:
        return False
    return not _has_subgraphs(node)


def _has_subgraphs(node: Node) -> bool:
    return any(item.HasField("g") or item.graphs for item in node.proto.attribute)


def _constant_elements(node: Node) -> Array | None:
    """The elements of a Constant that is a tensor or texts. A sparse one is made dense, as ONNX Runtime does: all operators read it."""
    for item in node.proto.attribute:
        if item.name == "value" and item.HasField("t"):
            return tensors.array_of(item.t, None)
        if item.name == "sparse_value" and item.HasField("sparse_tensor"):
            return tensors.dense(item.sparse_tensor, None)
        if item.name == "value_strings" and all(map(tensors.is_text, item.strings)):
            return tensors.texts_of(item.strings)
    return None


def _fold_shape(node: Node) -> Array:
    sizes = node.sizes(0)
    kept = sizes[slice(node.attribute("start", 0), node.attribute("end"))]
    array: Array = SizedArray.of([prod(sizes)], ()) if node.op_type == "Size" else SizedArray.of(kept, (len(kept),))
    return array
