"""What is known of a model before it runs: nodes whose inputs are known, and shapes of values whose sizes are."""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import helper

from dmlpy.onnx import host
from dmlpy.onnx.elements import dtype_of, sizes_problem
from dmlpy.validation.problems import DmlError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.onnx.nodes import Node
    from dmlpy.onnx.values import Array, Value

MAX_BYTES = 1 << 28
"""The most bytes that a folded result has: a node that makes more of small inputs runs with the model."""
MAX_HELD = 1 << 30
"""The most bytes of folded results that a model holds."""
_GROWS = frozenset({"ConstantOfShape", "Expand", "Tile", "Range", "OneHot", "EyeLike", "Pad", "Resize", "Upsample", "MaxUnpool"})
_NEVER = frozenset({"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"})
_ENDLESS = frozenset({"RegexFullMatch"})
"""Operators that may take any time for a few known elements: Python's `re` tries all ways in which a pattern may fit."""


def without_elements(value: Value) -> Value:
    """The value; where some size is 0 its elements are known, as there are none."""
    is_typed = value.kind == "tensor" and value.element is not None
    if value.array is not None or not is_typed or not value.is_static or 0 not in value.static_sizes:
        return value
    if sizes_problem("", value.static_sizes, value.element or 0) is not None:
        return value  # a rule of its own refuses the node that gives it
    return replace(value, array=np.empty(value.static_sizes, dtype_of(value.element or 0)))


def empty(node: Node) -> dict[str, Array] | None:
    """The outputs of a node by name where none of them has any elements, else None."""
    wanted = [value for value in node.outputs if value is not None]
    if not wanted or any(value.array is None for value in wanted):
        return None
    return {value.name: value.array for value in wanted if value.array is not None}


def folded(
    node: Node, opsets: Mapping[str, int], computed: Callable[[Node, Mapping[str, int]], dict[str, Array] | None]
) -> dict[str, Array] | None:
    """The outputs of a node by name where they are known before the model runs, else None.

    Args:
        node: the node.
        opsets: the versions of the domains.
        computed: computes a node whose inputs are known by DirectML's operators, as they would when the model runs; None where there are
            none for it.
    """
    if node.domain == "" and node.op_type in ("Shape", "Size") and node.inputs[0] is not None and node.inputs[0].is_static:
        return {node.proto.output[0]: _of_shape(node)}
    given = [value for value in node.inputs if value is not None]
    proto = node.proto
    if node.domain == "" and node.op_type == "CastLike" and node.outputs[0] is not None and node.outputs[0].element:
        cast = helper.make_node("Cast", proto.input[:1], proto.output, to=node.outputs[0].element)
        cast.attribute.extend(proto.attribute)
        proto, given = cast, given[:1]
    if any(value.array is None for value in given) or not _is_folded(node):
        return None
    try:
        if not host.is_quick(node.op_type, node.opset) and (found := computed(node, opsets)) is not None:
            return found
        if not host.runs(node.op_type, node.opset, node.domain):
            return None
        found = host.evaluate(proto, opsets, {value.name: value.array for value in given if value.array is not None})
    except (DmlError, MemoryError):
        return None
    return found if all(isinstance(array, np.ndarray) for array in found.values()) else None


def _is_folded(node: Node) -> bool:
    if node.domain != "" or node.op_type in _NEVER | _ENDLESS:
        return False
    if any(item.HasField("g") or item.graphs for item in node.proto.attribute):
        return False
    sizes = [_bytes(value) for value in node.outputs if value is not None]
    return all(size <= MAX_BYTES or (size == inf and node.op_type not in _GROWS) for size in sizes)


def _bytes(value: Value) -> float:
    if value.element is None or not value.is_static:
        return inf
    return prod(value.tensor_sizes) * dtype_of(value.element).itemsize


def _of_shape(node: Node) -> Array:
    sizes = node.sizes(0)
    if node.op_type == "Size":
        return np.asarray(prod(sizes), np.int64)
    start, end = node.attribute("start", 0), node.attribute("end")
    return np.asarray(sizes[slice(start, end)], np.int64)
