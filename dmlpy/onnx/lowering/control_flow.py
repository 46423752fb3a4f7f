"""If, Loop and Scan, where it is known before the model runs what they do: branches are chosen and iterations are unrolled."""

from __future__ import annotations

from collections import ChainMap
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.onnx.loading.stated import nodes_in
from dmlpy.onnx.loading.values import Value, of_proto
from dmlpy.onnx.lowering.nodes import NotLowered
from dmlpy.onnx.runtime.pieces import piece, stacked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx import GraphProto, ValueInfoProto

    from dmlpy.onnx.lowering.nodes import Node
    from dmlpy.onnx.lowering.scopes import Scope, Values, Walk
_NAMES = 3
"""The names that a node and its values have, each of which begins with that of the loop."""
_SHORT = 4096
"""The bytes of a node of which copies do not matter."""


CONTROL_FLOW = ("If", "Loop", "Scan")
"""The operators with bodies that run once, never or many times."""


def is_control_flow(node: Node) -> bool:
    """Whether a node has bodies that run once, never or many times."""
    return node.domain == "" and node.op_type in CONTROL_FLOW


def unrolled(walk: Walk, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
    """The outputs of a node of control flow, whose bodies take its place.

    Raises:
        NotLowered: what it does is not known before the model runs, or it is too long.
    """
    if node.op_type == "If":
        return _chosen(walk, node, scope, opsets)
    with walk.budget.unrolling():
        if node.op_type == "Loop":
            return _looped(walk, node, scope, opsets)
        if node.opset >= 9:
            return _scanned(walk, node, node.inputs, scope, opsets, f"{node.name}/")
        return _scanned_batch(walk, node, scope, opsets)


def _chosen(walk: Walk, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
    body: GraphProto = node.attribute("then_branch" if bool(_scalar(node, 0)) else "else_branch")
    inner: Scope = ChainMap({}, scope)
    walk.walk(body, inner, f"{node.name}/", opsets)
    return [inner[item.name] if name else None for item, name in zip(body.output, node.proto.output, strict=False)]


def _looped(walk: Walk, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
    body: GraphProto = node.attribute("body")
    if unknown := [node.unknown(index) for index in (0, 1) if node.has(index) and node.value(index).array is None]:
        raise NotLowered(unknown)
    count = int(_scalar(node, 0)) if node.has(0) else None
    goes_on = bool(_scalar(node, 1)) if node.has(1) else True
    states = list(node.inputs[2:])
    rows: list[list[Value]] = [[] for _ in body.output[1 + len(states) :]]
    _check_room(walk, node, (inf if count is None else count) if _goes_on(body) else 1)
    around = _constants(walk, node, body, scope, opsets)
    step = 0
    while goes_on and (count is None or step < count):
        _check_room(walk, node, 1)
        prefix = f"{node.name}/{step}/"
        known = [np.asarray(step, np.int64), np.asarray(True)]
        given = [Value.known(walk.unique(prefix + item.name), array) for item, array in zip(body.input, known, strict=False)]
        results = _iteration(walk, body, [*given, *states], around, opsets, prefix)
        if results[0].array is None:
            found = f"{body.output[0].name!r}, which is computed while the model runs"
            raise node.refusal("onnx.constant_input", "the body's condition", found, "a condition that follows from initializers and sizes")
        if results[0].array.size != 1:
            raise node.refusal("onnx.invalid", "the body's condition", f"{results[0].array.size} elements", "one element")
        goes_on = bool(results[0].array.item())
        states = list(results[1 : 1 + len(states)])
        for row, value in zip(rows, results[1 + len(states) :], strict=True):
            row.append(value)
        step += 1
    scanned = [_rows(walk, node, row, item, 0) for row, item in zip(rows, body.output[1 + len(states) :], strict=True)]
    return _asked_for(node, [*states, *scanned])


def _scanned(
    walk: Walk, node: Node, inputs: Sequence[Value | None], scope: Scope, opsets: Mapping[str, int], prefix: str, axis_of: int = 0
) -> Values:
    """The outputs of a Scan over inputs without a batch.

    Args:
        walk: the walk.
        node: the node.
        inputs: the states, then what is scanned.
        scope: the values around the node.
        opsets: the versions of the domains.
        prefix: goes before the names of what it computes.
        axis_of: the dimension that is scanned where the node names none.
    """
    body: GraphProto = node.attribute("body")
    count = int(node.attribute("num_scan_inputs"))
    states, scanned = list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    outputs = len(body.output) - len(states)
    backwards = node.attribute("scan_input_directions" if node.opset >= 9 else "directions") or [0] * count
    turned = node.attribute("scan_output_directions") or [0] * outputs
    stacks = node.attribute("scan_output_axes") or [axis_of] * outputs
    axes = node.attribute("scan_input_axes") or [axis_of] * count
    first = len(inputs) - count
    values = [_sized(node, value, first + index) for index, value in enumerate(scanned)]
    axes = [node.axis(axis, len(value.static_sizes)) for axis, value in zip(axes, values, strict=True)]
    length = values[0].static_sizes[axes[0]]
    rows: list[list[Value]] = [[] for _ in range(outputs)]
    _check_room(walk, node, length)
    around = _constants(walk, node, body, scope, opsets)
    for step in range(length):
        _check_room(walk, node, 1)
        own = f"{prefix}{step}/"
        parts = [
            piece(walk, value, axis, length - 1 - step if back else step, own)
            for value, axis, back in zip(values, axes, backwards, strict=True)
        ]
        results = _iteration(walk, body, [*states, *parts], around, opsets, own)
        states = list(results[: len(states)])
        for row, value in zip(rows, results[len(states) :], strict=True):
            row.append(value)
    stacked_rows = [
        _rows(walk, node, row[::-1] if turn else row, item, axis)
        for row, item, axis, turn in zip(rows, body.output[len(states) :], stacks, turned, strict=True)
    ]
    return _asked_for(node, [*states, *stacked_rows])


def _scanned_batch(walk: Walk, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
    """The outputs of opset 8's Scan, all of whose inputs and outputs have a batch in front."""
    if node.has(0):
        node.array(0)
        raise node.refusal("onnx.input", node.input_label(0), "given", "left out: all sequences have the same length")
    values = [_sized(node, value, index) for index, value in enumerate(node.inputs) if index]
    batches: list[Values] = []
    _check_room(walk, node, values[0].static_sizes[0])
    for entry in range(values[0].static_sizes[0]):
        prefix = f"{node.name}/{entry}/"
        own = [piece(walk, value, 0, entry, prefix) for value in values]
        batches.append(_scanned(walk, node, own, scope, opsets, prefix))
    return [
        stacked(walk, [value for value in results if value is not None], 0, f"{node.name}/") if results[0] is not None else None
        for results in zip(*batches, strict=True)
    ]


def _iteration(
    walk: Walk, body: GraphProto, given: Sequence[Value | None], around: Scope, opsets: Mapping[str, int], prefix: str
) -> list[Value]:
    """What the body gives for one iteration."""
    inner: Scope = ChainMap({}, around)
    inner.update({item.name: value for item, value in zip(body.input, given, strict=False) if value is not None})
    walk.take([proto for proto in body.node if not _is_constant(proto.op_type, proto.input)], inner, prefix, opsets)
    return [inner[item.name] for item in body.output]


def _constants(walk: Walk, node: Node, body: GraphProto, scope: Scope, opsets: Mapping[str, int]) -> Scope:
    """The scope in which each iteration runs: with the constants of the body, which all of them share."""
    around: Scope = ChainMap({}, scope)
    walk.hold(body, around, f"{node.name}/")
    walk.take([proto for proto in body.node if _is_constant(proto.op_type, proto.input)], around, f"{node.name}/", opsets)
    return around


def _is_constant(op_type: str, inputs: Sequence[str]) -> bool:
    return op_type == "Constant" and not inputs


def _scalar(node: Node, index: int) -> Any:
    """The only element of an input that is known: a condition or a number of iterations."""
    array = node.array(index)
    if array.size != 1 or array.dtype.kind not in "biu":
        raise node.refusal("onnx.invalid", node.input_label(index), node.value(index).summary(), "one element, an integer or a truth value")
    return array.item()


def _check_room(walk: Walk, node: Node, iterations: float) -> None:
    """Refuses iterations for which the budget of all loops has no room: they run when the model runs."""
    body: GraphProto = node.attribute("body")
    nodes = max(_unrolled_nodes(body), 1)
    for each, left, what in (
        (nodes, walk.budget.unrolled_left, "nodes"),
        (nodes * _NAMES * len(node.name), walk.budget.characters_left, "characters of names"),
        (_unrolled_bytes(body), walk.budget.bytes, "bytes of attributes"),
    ):
        if iterations * each > left:
            found = f"{iterations} iterations of {each} {what} each"
            why = (f"{walk.budget.unrolled} nodes are the limit 'unrolled' of dmlpy.onnx.Limits, for all loops of the model",)
            raise node.refusal("onnx.unroll", "", found, f"at most {left} {what}: each iteration becomes nodes of its own", *why)


def _unrolled_nodes(body: GraphProto) -> int:
    """The nodes that one iteration becomes, at least."""
    rows = max(len(body.output) - len(body.input), 0)  # each is put in its place by a node
    return nodes_in(proto for proto in body.node if not _is_constant(proto.op_type, proto.input)) + rows


def _unrolled_bytes(body: GraphProto) -> int:
    """The bytes of the nodes of one iteration that are more than a few."""
    sizes = (proto.ByteSize() for proto in body.node if not _is_constant(proto.op_type, proto.input))
    return sum(size for size in sizes if size > _SHORT)


def _goes_on(body: GraphProto) -> bool:
    """Whether the condition of a Loop is what it was, or a constant: then the number of iterations is known from the start."""
    makers = {name: proto for proto in body.node for name in proto.output}
    name = body.output[0].name
    while name in makers and makers[name].op_type == "Identity" and makers[name].input:
        name = makers[name].input[0]
    return name not in makers or makers[name].op_type == "Constant"


def _sized(node: Node, value: Value | None, index: int) -> Value:
    if value is None or not value.is_static:
        found = "left out" if value is None else value.summary()
        raise node.refusal("onnx.dynamic", node.input_label(index), found, "sizes that are known before the model runs")
    return value


def _rows(walk: Walk, node: Node, rows: Sequence[Value], item: ValueInfoProto, axis: int) -> Value:
    """What the iterations gave for an output of the body, stacked; a tensor without elements if there was none."""
    if rows:
        return stacked(walk, rows, axis, f"{node.name}/")
    declared = of_proto(item.name, item.type)
    if declared.element is None or not declared.is_static:
        path = f"the body's output {item.name!r}"
        raise node.refusal("onnx.dynamic", path, declared.summary(), "a type and sizes: no iteration gives them")
    return Value.empty(walk.unique(f"{node.name}/{item.name}"), declared, axis)


def _asked_for(node: Node, values: Sequence[Value | None]) -> Values:
    return [value if name else None for name, value in zip(node.proto.output, values, strict=False)]
