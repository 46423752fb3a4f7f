"""Operators that are defined in terms of others: the body of the definition replaces the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import AttributeProto, FunctionProto, NodeProto

from dmlpy.onnx.loading.schemas import domain_of
from dmlpy.onnx.lowering.subgraphs import subgraphs_of
from dmlpy.onnx.nodes import inference_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from dmlpy.onnx.lowering.scopes import GraphLowering, Scope, Values
    from dmlpy.onnx.nodes.node import Node


def expand_function(
    lowering: GraphLowering, node: Node, opsets: Mapping[str, int], definition: Callable[[Node], FunctionProto | None] | None = None
) -> Values | None:
    """Lowers the nodes of an operator's definition and returns the node's outputs; None if the operator has no definition.

    Args:
        lowering: lowers the nodes.
        node: the node.
        opsets: the versions of the domains.
        definition: finds the definition of an operator that is not ONNX's.
    """
    function = definition(node) if definition is not None else _find_definition(node)
    if function is None:
        return None
    given = {item.name: item for item in node.proto.attribute}
    given |= {item.name: item for item in _default_attributes(function, node) if item.name not in given}
    inner: Scope = {formal: value for formal, value in zip(function.input, node.inputs, strict=False) if value is not None}
    absent = {formal for formal in function.input if formal not in inner}
    nodes = [_resolve_attributes(proto, given, absent) for proto in function.node]
    imported = {domain_of(item.domain): item.version for item in function.opset_import}
    lowering.lower_nodes(nodes, inner, f"{node.name}/", {**opsets, **imported})
    return [inner.get(formal) if name else None for formal, name in zip(function.output, node.proto.output, strict=False)]


def _find_definition(node: Node) -> FunctionProto | None:
    schema: Any = node.schema  # onnx's stubs lack the functions for definitions
    if schema is None:
        return None
    if schema.has_function:
        body = FunctionProto()
        body.ParseFromString(schema.get_function_with_opset_version(node.opset) or b"")
        return body if body.node else schema.function_body
    if schema.has_context_dependent_function and not node.problems and inference_guard.allows_definition(node):
        types = [value.proto.SerializeToString() if value else b"" for value in node.inputs]
        versions = [version for version in schema.context_dependent_function_opset_versions if version <= node.opset]
        if not versions:
            return None
        try:
            text = schema.get_context_dependent_function_with_opset_version(max(versions), node.proto.SerializeToString(), types)
        except Exception:  # raised by ONNX's C++ code for nodes whose definition it cannot write
            return None
        body = FunctionProto()
        body.ParseFromString(text)
        return body if body.node else None
    return None


def _default_attributes(function: FunctionProto, node: Node) -> Iterator[AttributeProto]:
    """The schema's defaults of attributes that a definition reads and the node omits."""
    yield from function.attribute_proto
    for name, attribute in node.schema.attributes.items() if node.schema is not None else ():
        if attribute.default_value.type:
            copy = AttributeProto()
            copy.CopyFrom(attribute.default_value)
            copy.name = name
            yield copy


def _resolve_attributes(proto: NodeProto, given: Mapping[str, AttributeProto], absent: Collection[str]) -> NodeProto:
    """A node of a definition with the attributes of the node that it replaces, without omitted optional inputs."""
    resolved = NodeProto()
    resolved.CopyFrom(proto)
    resolved.input[:] = ["" if name in absent else name for name in proto.input]
    del resolved.attribute[:]
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            resolved.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            resolved.attribute.append(given[attribute.ref_attr_name])
            resolved.attribute[-1].name = attribute.name
    for body in subgraphs_of(resolved):
        inner = [_resolve_attributes(item, given, absent) for item in body.node]
        del body.node[:]
        body.node.extend(inner)
    return resolved
