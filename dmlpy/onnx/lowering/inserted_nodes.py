"""Inserts nodes that split and join values, for unrolled loops and for sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from dmlpy.onnx.loading.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.lowering.scopes import GraphLowering, Scope

_OPSETS = {"": 13}
"""The opset of inserted nodes."""


def insert_slice(lowering: GraphLowering, value: Value, axis: int, index: int, prefix: str) -> Value:
    """The elements at one index of a dimension, without that dimension."""
    if value.array is not None:
        place: tuple[Any, ...] = (slice(None),) * axis + (index, ...)  # yields a view, also of a vector and of texts
        return Value.known(lowering.unique_name(f"{prefix}{value.name}[{index}]"), value.array[place])
    bounds = [_integers(lowering, prefix, number) for number in (index, index + 1, axis)]
    (part,) = insert_node(lowering, "Slice", [value, *bounds], prefix)
    (squeezed,) = insert_node(lowering, "Squeeze", [part, bounds[2]], prefix)
    return squeezed


def insert_split(lowering: GraphLowering, value: Value, axis: int, lengths: Sequence[int], prefix: str) -> list[Value]:
    """The value, split along a dimension."""
    return insert_node(lowering, "Split", [value, _integers(lowering, prefix, *lengths)], prefix, outputs=len(lengths), axis=axis)


def insert_squeeze(lowering: GraphLowering, value: Value, axis: int, prefix: str) -> Value:
    """The value without a dimension of one element."""
    return insert_node(lowering, "Squeeze", [value, _integers(lowering, prefix, axis)], prefix)[0]


def insert_stack(lowering: GraphLowering, values: Sequence[Value], axis: int, prefix: str) -> Value:
    """The values stacked along a new dimension."""
    where = _integers(lowering, prefix, axis)
    rows = [insert_node(lowering, "Unsqueeze", [value, where], prefix)[0] for value in values]
    return insert_concat(lowering, rows, axis, prefix)


def insert_concat(lowering: GraphLowering, values: Sequence[Value], axis: int, prefix: str) -> Value:
    """The values concatenated along a dimension."""
    return values[0] if len(values) == 1 else insert_node(lowering, "Concat", values, prefix, axis=axis)[0]


def insert_node(
    lowering: GraphLowering, op_type: str, inputs: Sequence[Value], prefix: str, outputs: int = 1, **attributes: Any
) -> list[Value]:
    """Inserts a node and returns its outputs."""
    scope: Scope = {f"input_{index}": value for index, value in enumerate(inputs)}
    names = [f"{op_type}_{index}_output" for index in range(outputs)]
    lowering.lower_nodes([helper.make_node(op_type, [*scope], names, name=op_type, **attributes)], scope, prefix, _OPSETS)
    return [scope[name] for name in names]


def _integers(lowering: GraphLowering, prefix: str, *numbers: int) -> Value:
    return Value.known(lowering.unique_name(f"{prefix}{_label(numbers)}"), np.asarray(numbers, np.int64))


def _label(numbers: Sequence[int]) -> str:
    """A name for known integers."""
    return ",".join(map(str, numbers[:4]))
