"""The types that a file declares inside the bodies of control-flow nodes, against those that the node gives and its nodes make.

They are compared once, when the model is lowered, whether a body is unrolled, compiled for itself or waits for its inputs. ONNX Runtime
refuses other types, too.
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx import NodeProto, TensorProto

from dmlpy.onnx.loading.schemas import domain_of
from dmlpy.onnx.loading.values import Value, value_from_proto
from dmlpy.onnx.lowering.declared_values import type_problem, type_text
from dmlpy.onnx.lowering.shape_inference import infer_outputs
from dmlpy.onnx.nodes import checks
from dmlpy.onnx.nodes.node import Node, NotLowered
from dmlpy.onnx.nodes.readings import as_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import GraphProto

    from dmlpy.messages.problems import Problem
    from dmlpy.onnx.lowering.scopes import Scope

_ITERATION = Value("iteration_num", TensorProto.INT64, None)
_CONDITION = Value("cond", TensorProto.BOOL, None)
_UNBATCHED = 9
"""The opset from which on Scan has no batch, and no lengths of sequences as its first input."""


def body_type_problems(node: Node, around: Scope, opsets: Mapping[str, int]) -> list[Problem]:
    """Values of a node's bodies, and of the bodies in these, whose types are not those that the file declares.

    Args:
        node: the node.
        around: the values that its bodies may read.
        opsets: the versions of the domains.
    """
    bodies = [(item.name, item.g) for item in node.proto.attribute if item.HasField("g")]
    given = _given_types(node)
    problems = [problem for name, body in bodies for problem in _body_problems(node, name, body, given, around, opsets)]
    return problems or [*_branch_problems(node)]


def _given_types(node: Node) -> Sequence[Value | None]:
    """What a node gives its body, in the order of the body's inputs."""
    if node.domain or node.op_type not in ("Loop", "Scan"):
        return ()
    if node.op_type == "Loop":
        return [_ITERATION, _CONDITION, *node.inputs[2:]]
    return node.inputs if node.opset >= _UNBATCHED else node.inputs[1:]


def _kept_types(node: Node, given: Sequence[Value | None]) -> Sequence[Value | None]:
    """The types that the first outputs of a body have: those of the condition and of the states, which the next iteration reads."""
    if node.op_type == "Loop":
        return given[1:]
    return given[: len(given) - int(node.attribute("num_scan_inputs"))] if given else ()


def _body_problems(
    node: Node, place: str, body: GraphProto, given: Sequence[Value | None], around: Scope, opsets: Mapping[str, int]
) -> Iterator[Problem]:
    declared = {item.name: value_from_proto(item.name, item.type) for item in (*body.input, *body.value_info, *body.output)}
    scope: Scope = ChainMap({}, around)
    scope.update({item.name: declared[item.name] for item in body.input})
    scope.update({tensor.name: Value(tensor.name, tensor.data_type, None) for tensor in body.initializer})
    scope.update({sparse.values.name: Value(sparse.values.name, sparse.values.data_type, None) for sparse in body.sparse_initializer})
    found: list[Problem | None] = []
    for item, value in zip(body.input, given, strict=False):
        if value is not None and type_text(value) is not None:
            found.append(type_problem(item.name, scope[item.name], value, f"{node.op_type} gives"))
            scope[item.name] = value
    for proto in body.node:
        inner = _typed_node(node, proto, scope, opsets)
        inner_problems = (*inner.problems, *([] if inner.problems else body_type_problems(inner, scope, opsets)))
        found += [problem.under(proto.name or proto.op_type) for problem in inner_problems]
        for label, value in zip(proto.output, inner.outputs, strict=True):
            stated = declared.get(label, Value(label, None, None))
            known = value is not None and type_text(value) is not None and not (proto.op_type == "Loop" and _fills(stated, value))
            inferred = value if value is not None and known else stated
            found.append(type_problem(label, stated, inferred, "the nodes make"))
            scope[label] = inferred
    if not any(found):
        for item, value in zip(body.output, _kept_types(node, given), strict=False):
            if value is not None and item.name in scope and not _fills(scope[item.name], value):
                found.append(type_problem(item.name, scope[item.name], value, f"{node.op_type} gives the next iteration"))
    yield from (replace(problem, path=f"{place}: {problem.path}") for problem in found if problem is not None)


def _fills(value: Value, state: Value) -> bool:
    """Whether a value is the content of a state that is optional: the next iteration reads it as such, and the last one gives it."""
    made, kept = type_text(value), type_text(state)
    return made is not None and kept == f"optional of {made}"


def _typed_node(around: Node, proto: NodeProto, scope: Mapping[str, Value], opsets: Mapping[str, int]) -> Node:
    """A node of a body with what follows from the types of its inputs, whose sizes are not known."""
    domain = domain_of(proto.domain)
    inputs = tuple(_type_of(name, scope) if name else None for name in proto.input)
    proto, inputs = as_read(proto, domain, inputs)
    node = Node(proto.name, proto, domain, opsets.get(domain, 1), inputs, (), around.level, around.read, around.budget)
    try:
        problems = tuple(checks.problems_of(node))
    except NotLowered as reason:
        problems = tuple(reason.problems)
    node = node.changed(problems=problems) if problems else node
    return node.changed(outputs=infer_outputs(node, opsets, {}, proto.output))


def _type_of(name: str, scope: Mapping[str, Value]) -> Value:
    """The type of a value under the name that a body has for it."""
    value = scope.get(name)
    return Value(name, None, None) if value is None else Value(name, value.element, None, kind=value.kind, described=value.described)


def _branch_problems(node: Node) -> Iterator[Problem]:
    """Outputs of an If whose branches make different types."""
    if node.op_type != "If" or node.domain:
        return
    branches = [[value_from_proto(item.name, item.type) for item in node.attribute(name).output] for name in ("then_branch", "else_branch")]
    for one, other in zip(*branches, strict=False):
        problem = type_problem(other.name, other, one, f"output {one.name!r} of then_branch has")
        if problem is not None:
            yield replace(problem, path=f"else_branch: {problem.path}")
