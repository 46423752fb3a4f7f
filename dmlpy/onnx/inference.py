"""Types and sizes of a node's outputs, by ONNX's own inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, helper, numpy_helper, shape_inference

from dmlpy.onnx.nodes import schema_of
from dmlpy.onnx.values import Value, of_proto

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST = 1024
"""The most elements of a known input that inference looks at: shapes, axes and the like are short."""


def inferred(
    node: NodeProto,
    domain: str,
    opsets: Mapping[str, int],
    inputs: Sequence[Value | None],
    types: Mapping[str, TypeProto],
    labels: Sequence[str],
) -> tuple[Value | None, ...]:
    """The outputs of a node; None for those that are left out.

    Args:
        node: the node.
        domain: its operator's domain.
        opsets: the versions of the domains.
        inputs: its inputs.
        types: types that the model's file states or that follow from it as a whole, for operators that ONNX does not know.
        labels: the outputs' names there.
    """
    schema = schema_of(node.op_type, opsets.get(domain, 1), domain)
    found: Mapping[str, TypeProto] = {}
    if schema is not None:
        given = {value.name: value for value in inputs if value is not None}
        known = {name: _tensor(value) for name, value in given.items() if value.array is not None and value.array.size <= _MOST}
        imports = [helper.make_opsetid(name, version) for name, version in opsets.items()]
        try:
            found = shape_inference.infer_node_outputs(
                schema, _stated(node), {name: value.proto for name, value in given.items()}, known, opset_imports=imports
            )
        except Exception:  # ONNX raises of many classes for models that are not valid; what it does not know, the lowering asks for
            found = {}
    values: list[Value | None] = []
    for name, label in zip(node.output, labels, strict=True):
        proto = found.get(name, types.get(label))
        values.append(None if not name else Value(name, None, None) if proto is None else of_proto(name, proto))
    return tuple(values)


def _stated(node: NodeProto) -> NodeProto:
    """The node with the default of an attribute that ONNX's inference takes to be another."""
    if node.op_type != "STFT" or any(item.name == "onesided" for item in node.attribute):
        return node
    own = NodeProto()
    own.CopyFrom(node)
    own.attribute.append(helper.make_attribute("onesided", 1))
    return own


def _tensor(value: Value) -> TensorProto:
    assert value.array is not None
    return numpy_helper.from_array(np.ascontiguousarray(value.array).reshape(value.array.shape), value.name)
