"""If, Loop and Scan whose control flow is known before the model runs: branches are chosen and iterations are unrolled."""

from __future__ import annotations

from collections import ChainMap
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.messages.naming import plural
from dmlpy.onnx.loading.model_size import count_nodes
from dmlpy.onnx.loading.values import Value, value_from_proto
from dmlpy.onnx.lowering.inserted_nodes import insert_slice, insert_stack
from dmlpy.onnx.nodes.node import NotLowered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx import GraphProto, ValueInfoProto

    from dmlpy.onnx.lowering.scopes import GraphLowering, Scope, Values
    from dmlpy.onnx.nodes.node import Node
_NAMES = 3
"""The number of names of a node and its values, each prefixed with the loop's."""
_SHORT = 4096
"""The bytes of a node up to which copies are not counted."""
_MOST_OUTSIDE = 64
"""The most nodes outside of graphs that a loop is unrolled to: a body that is compiled once runs them as fast, and compiles faster."""


CONTROL_FLOW = ("If", "Loop", "Scan")
"""The operators with subgraphs that run once, never or many times."""


def is_control_flow(node: Node) -> bool:
    """Whether a node has subgraphs that run once, never or many times."""
    return node.domain == "" and node.op_type in CONTROL_FLOW


def unroll(lowering: GraphLowering, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
    """Replaces a control-flow node by its subgraphs and returns its outputs.

    Raises:
        NotLowered: its control flow is not known before the model runs, or it is too long.
    """
    if node.op_type == "If":
        return _unroll_if(lowering, node, scope, opsets)
    with lowering.budget.unrolling():
        if node.op_type == "Loop":
            return _unroll_loop(lowering, node, scope, opsets)
        if node.opset >= 9:
            return _unroll_scan(lowering, node, node.inputs, scope, opsets, f"{node.name}/")
        return _unroll_batched_scan(lowering, node, scope, opsets)


def _unroll_if(lowering: GraphLowering, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
    body: GraphProto = node.attribute("then_branch" if bool(_scalar(node, 0)) else "else_branch")
    inner: Scope = ChainMap({}, scope)
    lowering.lower_graph(body, inner, f"{node.name}/", opsets)
    return [inner[item.name] if name else None for item, name in zip(body.output, node.proto.output, strict=False)]


def _unroll_loop(lowering: GraphLowering, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
    body: GraphProto = node.attribute("body")
    if unknown := [node.unknown_problem(index) for index in (0, 1) if node.has(index) and node.value(index).array is None]:
        raise NotLowered(unknown)
    count = int(_scalar(node, 0)) if node.has(0) else None
    goes_on = bool(_scalar(node, 1)) if node.has(1) else True
    states = list(node.inputs[2:])
    rows: list[list[Value]] = [[] for _ in body.output[1 + len(states) :]]
    length = (inf if count is None else count) if _keeps_condition(body) else 1
    _check_room(lowering, node, length)
    around = _lower_constants(lowering, node, body, scope, opsets)
    step = outside = 0
    while goes_on and (count is None or step < count):
        _check_room(lowering, node, 1)
        prefix = f"{node.name}/{step}/"
        first = len(lowering.records)
        known = [np.asarray(step, np.int64), np.asarray(True)]
        given = [Value.known(lowering.unique_name(prefix + item.name), array) for item, array in zip(body.input, known, strict=False)]
        results = _lower_iteration(lowering, body, [*given, *states], around, opsets, prefix)
        if results[0].array is None:
            found = f"{body.output[0].name!r}, which is computed while the model runs"
            raise node.refusal("onnx.constant_input", "the body's condition", found, "a condition that follows from initializers and sizes")
        if results[0].array.size != 1:
            raise node.refusal("onnx.invalid", "the body's condition", plural(results[0].array.size, "element"), "one element")
        goes_on = bool(results[0].array.item())
        states = list(results[1 : 1 + len(states)])
        for row, value in zip(rows, results[1 + len(states) :], strict=True):
            row.append(value)
        step += 1
        outside += _count_outside(lowering, first)
        _check_outside(node, outside, step, length)
    scanned = [_stack_rows(lowering, node, row, item, 0) for row, item in zip(rows, body.output[1 + len(states) :], strict=True)]
    return _used_outputs(node, [*states, *scanned])


def _unroll_scan(
    lowering: GraphLowering,
    node: Node,
    inputs: Sequence[Value | None],
    scope: Scope,
    opsets: Mapping[str, int],
    prefix: str,
    axis_of: int = 0,
) -> Values:
    """The outputs of a Scan over inputs without a batch.

    Args:
        lowering: the lowering of the model.
        node: the node.
        inputs: the states, then the scanned inputs.
        scope: the values in the node's scope.
        opsets: the versions of the domains.
        prefix: the prefix of the names of computed values.
        axis_of: the scanned dimension if the node names none.
    """
    body: GraphProto = node.attribute("body")
    count = int(node.attribute("num_scan_inputs"))
    states, scanned = list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    outputs = len(body.output) - len(states)
    backwards = node.attribute("scan_input_directions" if node.opset >= 9 else "directions") or [0] * count
    turned = node.attribute("scan_output_directions") or [0] * outputs
    stacks = node.attribute("scan_output_axes") or [axis_of] * outputs
    axes = node.attribute("scan_input_axes") or [axis_of] * count
    values = [_require_sizes(node, value, len(states) + index) for index, value in enumerate(scanned)]
    axes = [node.axis(axis, len(value.static_sizes)) for axis, value in zip(axes, values, strict=True)]
    length = values[0].static_sizes[axes[0]]
    rows: list[list[Value]] = [[] for _ in range(outputs)]
    _check_room(lowering, node, length)
    around = _lower_constants(lowering, node, body, scope, opsets)
    outside = 0
    for step in range(length):
        _check_room(lowering, node, 1)
        first = len(lowering.records)
        step_prefix = f"{prefix}{step}/"
        parts = [
            insert_slice(lowering, value, axis, length - 1 - step if back else step, step_prefix)
            for value, axis, back in zip(values, axes, backwards, strict=True)
        ]
        results = _lower_iteration(lowering, body, [*states, *parts], around, opsets, step_prefix)
        states = list(results[: len(states)])
        for row, value in zip(rows, results[len(states) :], strict=True):
            row.append(value)
        outside += _count_outside(lowering, first)
        _check_outside(node, outside, step + 1, length)
    stacked_rows = [
        _stack_rows(lowering, node, row[::-1] if turn else row, item, axis)
        for row, item, axis, turn in zip(rows, body.output[len(states) :], stacks, turned, strict=True)
    ]
    return _used_outputs(node, [*states, *stacked_rows])


def _unroll_batched_scan(lowering: GraphLowering, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
    """The outputs of opset 8's Scan, whose inputs and outputs all have a batch as first dimension."""
    if node.has(0):
        node.array(0)
        raise node.refusal("onnx.input", node.input_label(0), "given", "left out: all sequences have the same length")
    values = [_require_sizes(node, value, index) for index, value in enumerate(node.inputs) if index]
    batches: list[Values] = []
    batch, first = values[0].static_sizes[0], len(lowering.records)
    _check_room(lowering, node, batch)
    for entry in range(batch):
        prefix = f"{node.name}/{entry}/"
        of_entry = [insert_slice(lowering, value, 0, entry, prefix) for value in values]
        batches.append(_unroll_scan(lowering, node, of_entry, scope, opsets, prefix))
        if not entry:
            _check_outside(node, _count_outside(lowering, first), 1, batch)
    return [
        insert_stack(lowering, [value for value in results if value is not None], 0, f"{node.name}/") if results[0] is not None else None
        for results in zip(*batches, strict=True)
    ]


def _lower_iteration(
    lowering: GraphLowering, body: GraphProto, given: Sequence[Value | None], around: Scope, opsets: Mapping[str, int], prefix: str
) -> list[Value]:
    """The outputs of the body for one iteration."""
    inner: Scope = ChainMap({}, around)
    inner.update({item.name: value for item, value in zip(body.input, given, strict=False) if value is not None})
    lowering.lower_nodes([proto for proto in body.node if not _is_constant(proto.op_type, proto.input)], inner, prefix, opsets)
    return [inner[item.name] for item in body.output]


def _lower_constants(lowering: GraphLowering, node: Node, body: GraphProto, scope: Scope, opsets: Mapping[str, int]) -> Scope:
    """The scope of the iterations, with the body's constants, which all of them share."""
    around: Scope = ChainMap({}, scope)
    lowering.load_initializers(body, around, f"{node.name}/")
    lowering.lower_nodes([proto for proto in body.node if _is_constant(proto.op_type, proto.input)], around, f"{node.name}/", opsets)
    return around


def _is_constant(op_type: str, inputs: Sequence[str]) -> bool:
    return op_type == "Constant" and not inputs


def _scalar(node: Node, index: int) -> Any:
    """The only element of a known input: a condition or a number of iterations."""
    array = node.array(index)
    if array.size != 1 or array.dtype.kind not in "biu":
        raise node.refusal("onnx.invalid", node.input_label(index), node.value(index).summary(), "one element, an integer or a truth value")
    return array.item()


def _check_room(lowering: GraphLowering, node: Node, iterations: float) -> None:
    """Rejects iterations that exceed the budget of all loops: they run when the model runs."""
    body: GraphProto = node.attribute("body")
    nodes = max(_nodes_per_iteration(body), 1)
    for each, left, what in (
        (nodes, lowering.budget.unrolled_left, "nodes"),
        (nodes * _NAMES * len(node.name), lowering.budget.characters_left, "characters of names"),
        (_bytes_per_iteration(body), lowering.budget.bytes, "bytes of attributes"),
    ):
        if iterations * each > left:
            found = f"{iterations} iterations of {each} {what} each"
            why = (f"{lowering.budget.unrolled} nodes are the limit 'unrolled' of dmlpy.onnx.Limits, for all loops of the model",)
            raise node.refusal("onnx.unroll", "", found, f"at most {left} {what}: each iteration becomes nodes of its own", *why)


def _count_outside(lowering: GraphLowering, first: int) -> int:
    """The number of nodes outside of graphs since a number of records."""
    return sum(record.where not in ("directml", "folded") for record in lowering.records[first:])


def _check_outside(node: Node, outside: int, iterations: int, length: float) -> None:
    """Rejects iterations that become many nodes outside of graphs: they run one by one, so unrolling saves nothing.

    Args:
        node: the node.
        outside: the number of such nodes so far.
        iterations: the number of iterations so far.
        length: the number of iterations if it is known, or less.
    """
    expected = outside * max(length, iterations) / iterations
    if expected > _MOST_OUTSIDE:
        found = f"{expected:.0f} nodes outside of graphs"
        why = ("they run on the host, or wait for sizes or elements",)
        raise node.refusal("onnx.unroll", "", found, f"at most {_MOST_OUTSIDE} such nodes: the body is compiled once instead", *why)


def _nodes_per_iteration(body: GraphProto) -> int:
    """The least number of nodes of one iteration."""
    rows = max(len(body.output) - len(body.input), 0)  # a node stores each row
    return count_nodes(proto for proto in body.node if not _is_constant(proto.op_type, proto.input)) + rows


def _bytes_per_iteration(body: GraphProto) -> int:
    """The bytes of one iteration's large nodes."""
    sizes = (proto.ByteSize() for proto in body.node if not _is_constant(proto.op_type, proto.input))
    return sum(size for size in sizes if size > _SHORT)


def _keeps_condition(body: GraphProto) -> bool:
    """Whether the condition of a Loop is unchanged or a constant: then the number of iterations is known from the start."""
    makers = {name: proto for proto in body.node for name in proto.output}
    name = body.output[0].name
    while name in makers and makers[name].op_type == "Identity" and makers[name].input:
        name = makers[name].input[0]
    return name not in makers or makers[name].op_type == "Constant"


def _require_sizes(node: Node, value: Value | None, index: int) -> Value:
    if value is None or not value.is_static:
        found = "left out" if value is None else value.summary()
        raise node.refusal("onnx.dynamic", node.input_label(index), found, "sizes that are known before the model runs")
    return value


def _stack_rows(lowering: GraphLowering, node: Node, rows: Sequence[Value], item: ValueInfoProto, axis: int) -> Value:
    """Stacks the iterations' values of a body's output; a tensor without elements if there was no iteration."""
    if rows:
        return insert_stack(lowering, rows, axis, f"{node.name}/")
    declared = value_from_proto(item.name, item.type)
    if declared.element is None or not declared.is_static:
        path = f"the body's output {item.name!r}"
        raise node.refusal("onnx.dynamic", path, declared.summary(), "a type and sizes: no iteration gives them")
    return Value.empty(lowering.unique_name(f"{node.name}/{item.name}"), declared, axis)


def _used_outputs(node: Node, values: Sequence[Value | None]) -> Values:
    return [value if name else None for name, value in zip(node.proto.output, values, strict=False)]
