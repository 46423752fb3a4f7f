"""Parts of values and values made of parts, by nodes that the model does not have: for unrolled loops and for sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from dmlpy.onnx.loading.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.lowering.scopes import Scope, Walk

_OPSETS = {"": 13}
"""Of the nodes made here."""


def piece(walk: Walk, value: Value, axis: int, index: int, prefix: str) -> Value:
    """The elements at one index of a dimension, without that dimension."""
    if value.array is not None:
        place: tuple[Any, ...] = (slice(None),) * axis + (index, ...)  # gives a view, also of a vector and of texts
        return Value.known(walk.unique(f"{prefix}{value.name}[{index}]"), value.array[place])
    bounds = [_integers(walk, prefix, number) for number in (index, index + 1, axis)]
    (part,) = made(walk, "Slice", [value, *bounds], prefix)
    (found,) = made(walk, "Squeeze", [part, bounds[2]], prefix)
    return found


def parts(walk: Walk, value: Value, axis: int, lengths: Sequence[int], prefix: str) -> list[Value]:
    """The value, split along a dimension."""
    return made(walk, "Split", [value, _integers(walk, prefix, *lengths)], prefix, outputs=len(lengths), axis=axis)


def without(walk: Walk, value: Value, axis: int, prefix: str) -> Value:
    """The value without a dimension of one element."""
    return made(walk, "Squeeze", [value, _integers(walk, prefix, axis)], prefix)[0]


def stacked(walk: Walk, values: Sequence[Value], axis: int, prefix: str) -> Value:
    """The values side by side along a dimension of their own."""
    where = _integers(walk, prefix, axis)
    rows = [made(walk, "Unsqueeze", [value, where], prefix)[0] for value in values]
    return joined(walk, rows, axis, prefix)


def joined(walk: Walk, values: Sequence[Value], axis: int, prefix: str) -> Value:
    """The values one behind the other along a dimension."""
    return values[0] if len(values) == 1 else made(walk, "Concat", values, prefix, axis=axis)[0]


def made(walk: Walk, op_type: str, inputs: Sequence[Value], prefix: str, outputs: int = 1, **attributes: Any) -> list[Value]:
    """The outputs of a node that the model does not have."""
    scope: Scope = {f"input_{index}": value for index, value in enumerate(inputs)}
    names = [f"{op_type}_{index}_output" for index in range(outputs)]
    walk.take([helper.make_node(op_type, [*scope], names, name=op_type, **attributes)], scope, prefix, _OPSETS)
    return [scope[name] for name in names]


def _integers(walk: Walk, prefix: str, *numbers: int) -> Value:
    return Value.known(walk.unique(f"{prefix}{_label(numbers)}"), np.asarray(numbers, np.int64))


def _label(numbers: Sequence[int]) -> str:
    """A name for known integers."""
    return ",".join(map(str, numbers[:4]))
