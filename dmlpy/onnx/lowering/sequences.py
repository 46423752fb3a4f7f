"""Sequences and optionals whose contents are known before the model runs: lists of values, which cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed
from dmlpy.onnx.loading.values import Value
from dmlpy.onnx.lowering.inserted_nodes import insert_concat, insert_split, insert_squeeze, insert_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.onnx.lowering.scopes import GraphLowering, Values
    from dmlpy.onnx.nodes.node import Node

MAX_PARTS = 4096
"""The most tensors that one is split into before the model runs."""
_FOR_EACH = 8
"""The bytes that a list takes for each of its tensors."""


def lower_sequence(lowering: GraphLowering, node: Node) -> Values | None:
    """The outputs of a node that creates or reads sequences or optionals; None for every other node.

    Raises:
        NotLowered: the sequence's contents, or a position in it, are computed while the model runs.
    """
    function = _RULES.get(node.op_type) if node.domain == "" else None
    return function(lowering, node) if function else None


def _check_room(lowering: GraphLowering, node: Node, count: int) -> None:
    """Rejects a sequence of this many tensors if the model already has too many: each node that changes one has a separate list."""
    if not lowering.budget.reserve_bytes(_FOR_EACH * count):
        found = f"a sequence of {count} tensors"
        why = (f"{lowering.budget.bytes} bytes are the limit 'bytes' of dmlpy.onnx.Limits",)
        raise node.refusal("onnx.limit", "", found, "fewer in all sequences that are known ahead", *why)


def _sequence(node: Node, items: tuple[Value, ...], element: int | None = None) -> Values:
    of_items = element if element is not None else items[0].element if items else None
    return [Value(node.proto.output[0], of_items, None, kind="sequence", items=items)]


def _items(node: Node, index: int = 0) -> tuple[Value, ...]:
    value = node.value(index)
    if value.items is None:
        found = f"{value.name!r}, {'an input' if value.stage is None else 'which is computed while the model runs'}"
        raise node.refusal("onnx.sequence", node.input_label(index), found, "a sequence that is made of tensors one by one")
    return value.items


def _integer(node: Node, index: int) -> int:
    """The only element of a known input: a position or a length."""
    array = node.array(index)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise node.refusal("onnx.invalid", node.input_label(index), node.value(index).summary(), "one integer")
    return int(array.item())


def _place(node: Node, index: int, count: int, last: int) -> int:
    """A position counted from the front; the last one if none is given."""
    given = _integer(node, index) if node.has(index) else last
    if not -count <= given <= last:
        raise node.refusal("onnx.attribute", node.input_label(index), str(given), f"{-count} to {last}")
    return given + count if given < 0 else given


def _construct(_: GraphLowering, node: Node) -> Values:
    return _sequence(node, tuple(node.value(index) for index in range(len(node.inputs))))


def _empty(_: GraphLowering, node: Node) -> Values:
    return _sequence(node, (), int(node.attribute("dtype", TensorProto.FLOAT)))


def _insert(lowering: GraphLowering, node: Node) -> Values:
    _check_room(lowering, node, len(_items(node)) + 1)
    items = list(_items(node))
    items.insert(_place(node, 2, len(items), len(items)), node.value(1))
    return _sequence(node, tuple(items), node.value(0).element)


def _erase(lowering: GraphLowering, node: Node) -> Values:
    _check_room(lowering, node, len(_items(node)))
    items = list(_items(node))
    del items[_place(node, 1, len(items), len(items) - 1)]
    return _sequence(node, tuple(items), node.value(0).element)


def _at(_: GraphLowering, node: Node) -> Values:
    items = _items(node)
    return [items[_place(node, 1, len(items), len(items) - 1)]]


def _length(_: GraphLowering, node: Node) -> Values:
    return [Value.known(node.proto.output[0], np.asarray(len(_items(node)), np.int64))]


def _concat(lowering: GraphLowering, node: Node) -> Values:
    items, axis = _items(node), int(node.attribute("axis"))
    make = insert_stack if node.attribute("new_axis", 0) else insert_concat
    return [make(lowering, items, axis, f"{node.name}/")]


def _split(lowering: GraphLowering, node: Node) -> Values:
    if not node.value(0).is_static:
        raise node.refusal("onnx.dynamic", node.input_label(0), node.value(0).summary(), "sizes that are known before the model runs")
    axis, prefix = node.axis(int(node.attribute("axis", 0)), node.rank(0)), f"{node.name}/"
    items = insert_split(lowering, node.value(0), axis, _lengths(node, node.sizes(0)[axis]), prefix)
    if not node.has(1) and not node.attribute("keepdims", 1):
        items = [insert_squeeze(lowering, item, axis, prefix) for item in items]
    return _sequence(node, tuple(items))


def _lengths(node: Node, size: int) -> list[int]:
    """The lengths of the parts of SplitToSequence.

    Raises:
        NotLowered: they are not known, not those of the input's size, or too many.
    """
    lengths: Sequence[int]
    if not node.has(1) or not node.array(1).ndim:
        whole = _integer(node, 1) if node.has(1) else 1
        if whole < 1:
            raise node.refusal("onnx.invalid", node.input_label(1), str(whole), "a length of 1 or more")
        lengths = range(0, size, whole)
        _check_parts(node, len(lengths))
        return [min(whole, size - start) for start in lengths]
    given = node.array(1)
    if given.ndim != 1 or given.dtype.kind not in "iu" or (given < 0).any() or sum(lengths := given.tolist()) != size:
        found = listed(given.ravel().tolist()) if given.ndim == 1 else node.value(1).summary()
        raise node.refusal("onnx.invalid", node.input_label(1), found, f"one dimension, lengths of 0 or more that make {size}")
    _check_parts(node, len(lengths))
    return [*lengths]


def _check_parts(node: Node, count: int) -> None:
    if count > MAX_PARTS:
        raise node.refusal("onnx.unroll", "", f"{count} parts", f"at most {MAX_PARTS}: each becomes a tensor of its own")


def _identity(_: GraphLowering, node: Node) -> Values | None:
    value = node.inputs[0]
    return None if value is None or value.items is None else [value]


def _optional(_: GraphLowering, node: Node) -> Values:
    if node.has(0):
        return [node.value(0)]
    described = node.outputs[0].described if node.outputs[0] else None
    return [Value(node.proto.output[0], None, None, kind="optional", items=(), described=described)]


def _has_element(_: GraphLowering, node: Node) -> Values:
    value = node.inputs[0] if node.inputs else None
    if value is not None and value.kind == "optional" and value.items is None:
        raise node.refusal("onnx.sequence", node.input_label(0), f"{value.name!r}, an input", "an optional that is known")
    present = value is not None and not (value.kind == "optional" and value.items == ())
    return [Value.known(node.proto.output[0], np.asarray(present))]


def _element(_: GraphLowering, node: Node) -> Values:
    value = node.value(0)
    if value.kind == "optional":
        found = f"{value.name!r}, an input" if value.items is None else "an optional that holds nothing"
        raise node.refusal("onnx.sequence", node.input_label(0), found, "an optional that is known and holds something")
    return [value]


_RULES: dict[str, Callable[[GraphLowering, Node], Values | None]] = {
    "ConcatFromSequence": _concat,
    "Identity": _identity,
    "Optional": _optional,
    "OptionalGetElement": _element,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
