"""Output types of nodes with subgraphs, from the subgraphs' declarations; their nodes are checked when they are lowered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.onnx.loading.values import Value, value_from_proto

if TYPE_CHECKING:
    from onnx import GraphProto

    from dmlpy.onnx.loading.values import Sizes
    from dmlpy.onnx.nodes.node import Node


def infer_from_subgraphs(node: Node) -> list[Value | None]:
    """The outputs of a node, as far as they are declared; None for others, and for all other operators."""
    function = {"If": _infer_if, "Loop": _infer_loop, "Scan": _infer_scan, "SequenceMap": _infer_sequence_map}.get(node.op_type)
    given = function(node) if function else []
    return [*given, *[None] * (len(node.proto.output) - len(given))]


def _declared_outputs(body: GraphProto) -> list[Value]:
    return [value_from_proto(item.name, item.type) for item in body.output]


def _infer_if(node: Node) -> list[Value | None]:
    """The types on which both branches agree."""
    branches = [_declared_outputs(node.attribute(name)) for name in ("then_branch", "else_branch")]
    return [_merge_types(name, *pair) for name, *pair in zip(node.proto.output, *branches, strict=False)]


def _merge_types(name: str, one: Value, other: Value) -> Value | None:
    if one.kind != other.kind:
        return None
    if one.kind != "tensor":
        return Value(name, None, None, kind=one.kind, described=one.described)
    sizes: Sizes | None = None
    if one.sizes is not None and other.sizes is not None and len(one.sizes) == len(other.sizes):
        sizes = tuple(size if size == theirs else None for size, theirs in zip(one.sizes, other.sizes, strict=True))
    return Value(name, one.element if one.element == other.element else one.element or other.element, sizes)


def _infer_loop(node: Node) -> list[Value | None]:
    """The states, whose sizes may change, and rows, of which there may be any number."""
    body: GraphProto = node.attribute("body")
    states = list(node.inputs[2:])
    rows = _declared_outputs(body)[1 + len(states) :]
    types: list[Value | None] = [_forget_sizes(value) for value in states]
    return [
        _rename_type(name, value)
        for name, value in zip(node.proto.output, [*types, *(_stack_type(row, 0, None) for row in rows)], strict=False)
    ]


def _infer_scan(node: Node) -> list[Value | None]:
    """The states, whose sizes stay, and rows."""
    if node.problems or node.opset < 9:
        return []
    body: GraphProto = node.attribute("body")
    count = int(node.attribute("num_scan_inputs"))
    states, scanned = node.inputs[: len(node.inputs) - count], node.inputs[len(node.inputs) - count :]
    rows = _declared_outputs(body)[len(states) :]
    axes = node.attribute("scan_output_axes") or [0] * len(rows)
    steps = _scan_length(scanned[0], (node.attribute("scan_input_axes") or [0])[0])
    types = [*states, *(_stack_type(row, axis, steps) for row, axis in zip(rows, axes, strict=True))]
    return [_rename_type(name, value) for name, value in zip(node.proto.output, types, strict=False)]


def _scan_length(scanned: Value | None, axis: int) -> int | str | None:
    known = scanned is not None and scanned.sizes is not None and -len(scanned.sizes) <= axis < len(scanned.sizes)
    return scanned.sizes[axis] if known and scanned is not None and scanned.sizes is not None else None


def _infer_sequence_map(node: Node) -> list[Value | None]:
    rows = _declared_outputs(node.attribute("body"))
    return [Value(name, row.element, None, kind="sequence") for name, row in zip(node.proto.output, rows, strict=False)]


def _forget_sizes(value: Value | None) -> Value | None:
    return value if value is None or value.kind != "tensor" else Value(value.name, value.element, None)


def _stack_type(row: Value, axis: int, count: int | str | None) -> Value | None:
    """Rows of what one iteration gives."""
    if row.kind != "tensor":
        return None
    sizes = None if row.sizes is None else list(row.sizes)
    if sizes is not None:
        sizes.insert(axis if axis >= 0 else axis + len(sizes) + 1, count)
    return Value(row.name, row.element, None if sizes is None else tuple(sizes))


def _rename_type(name: str, value: Value | None) -> Value | None:
    """A value of the same type, of which nothing else is known."""
    return None if value is None else Value(name, value.element, value.sizes, kind=value.kind, described=value.described)
