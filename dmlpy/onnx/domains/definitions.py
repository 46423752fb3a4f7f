"""Operators of com.microsoft that ONNX nodes can express. These nodes replace the operator, as the body of a function does."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from dmlpy.onnx.nodes.error_policy import ErrorPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.onnx.nodes.node import Node

    Definition: TypeAlias = "Callable[[Node], tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]]"
    """Formal inputs, formal outputs and the nodes between them."""

_OPSET = 22
"""The version of ONNX that the definitions are written in."""
_DEFINITIONS: dict[str, Definition] = {}


def find_definition(node: Node) -> FunctionProto | None:
    """The nodes that replace an operator of com.microsoft; None if it has no definition.

    Raises:
        NotLowered: attributes or inputs that the operator does not have.
    """
    made = _DEFINITIONS.get(node.op_type)
    if made is None:
        return None
    try:
        inputs, outputs, nodes = made(node)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # models come from anywhere
        if ErrorPolicy.propagate_unexpected:
            raise
        found = f"attributes or inputs that {node.op_type} does not allow"
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise node.refusal("onnx.unforeseen", "", found, f"what ONNX Runtime says of {node.op_type}", reason) from error
    imports = [helper.make_opsetid("", _OPSET), helper.make_opsetid(node.domain, node.opset)]
    return helper.make_function(node.domain, node.op_type, list(inputs), list(outputs), list(nodes), imports)


def _defines(*op_types: str) -> Callable[[Definition], Definition]:
    def register(function: Definition) -> Definition:
        for op_type in op_types:
            _DEFINITIONS[op_type] = function
        return function

    return register


def _integers(name: str, *numbers: int) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(numbers, np.int64)))


def _scalar(node: Node, index: int, given: str) -> tuple[str, list[NodeProto]]:
    """The name of an input of one element as a scalar, and the nodes that reshape it."""
    if not node.has(index):
        return "", []
    if node.value(index).sizes == ():
        return given, []
    return f"{given} alone", [_integers(f"{given} sizes"), helper.make_node("Reshape", [given, f"{given} sizes"], [f"{given} alone"])]


_SAME = {"Trilu": ("x", "k"), "GridSample": ("x", "grid"), "GatherND": ("data", "indices"), "Pad": ("data", "pads", "value")}
"""Operators that ONNX has by the same name, with the same attributes."""


@_defines(*_SAME)
def _same(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    inputs = _SAME[node.op_type][: len(node.inputs)]
    nodes: list[NodeProto] = []
    given = list(inputs)
    if node.op_type == "GatherND":  # com.microsoft takes INT32 indices, too
        nodes.append(helper.make_node("Cast", ["indices"], ["places"], to=TensorProto.INT64))
        given[1] = "places"
    if node.op_type == "Pad" and node.has(2):
        given[2], nodes = _scalar(node, 2, "value")
    own = helper.make_node(node.op_type, given, ["y"])
    renamed = {"bilinear": "linear", "bicubic": "cubic"} if node.op_type == "GridSample" else {}
    attributes = {"mode": "bilinear", **node.attributes} if renamed else node.attributes
    own.attribute.extend(helper.make_attribute(name, renamed.get(str(value), value)) for name, value in attributes.items())
    return inputs, ("y",), [*nodes, own]


@_defines("Range")
def _range(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """ONNX's Range; com.microsoft also accepts vectors of one number, and the step is optional."""
    names = ("start", "limit", "delta")
    scalars = [_scalar(node, index, name) for index, name in enumerate(names)]
    nodes = [part for _, parts in scalars for part in parts]
    read = [name for name, _ in scalars]
    if not node.has(2):
        one = helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(np.asarray(1, np.int64)))
        nodes += [one, helper.make_node("CastLike", ["one", "start"], ["step"])]
        read[2:] = ["step"]
    return names, ("y",), [*nodes, helper.make_node("Range", read, ["y"])]


@_defines("Unique")
def _unique(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """The unique values of a vector in order of first occurrence; com.microsoft has no output for the positions."""
    return ("x",), ("y", "idx", "counts"), [helper.make_node("Unique", ["x"], ["y", "", "idx", "counts"], sorted=0)]


@_defines("ExpandDims")
def _expand_dims(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    nodes = [
        _integers("vector", 1),
        helper.make_node("Cast", ["axis"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["wide", "vector"], ["axes"]),
        helper.make_node("Unsqueeze", ["x", "axes"], ["y"]),
    ]
    return ("x", "axis"), ("y",), nodes


@_defines("CDist")
def _distances(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """The distances of all rows of one matrix to all rows of the other, computed from the differences, to avoid cancellation."""
    metric = node.attribute("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise node.unsupported("metric", "euclidean", "sqeuclidean")
    reduce = "ReduceL2" if metric == "euclidean" else "ReduceSumSquare"
    nodes = [
        _integers("first", 1),
        _integers("second", 0),
        helper.make_node("Unsqueeze", ["a", "first"], ["rows"]),
        helper.make_node("Unsqueeze", ["b", "second"], ["columns"]),
        helper.make_node("Sub", ["rows", "columns"], ["differences"]),
        _integers("features", 2),
        helper.make_node(reduce, ["differences", "features"], ["c"], keepdims=0),
    ]
    return ("a", "b"), ("c",), nodes


@_defines("NhwcMaxPool")
def _pool(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """MaxPool with the channels last."""
    pool = helper.make_node("MaxPool", ["planes"], ["maxima"])
    pool.attribute.extend(node.proto.attribute)
    return ("x",), ("y",), [*_transpose(node, 0, "x", "planes"), pool, *_transpose(node, 0, "maxima", "y", back=True)]


@_defines("QLinearConv")
def _convolution(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """ONNX's QLinearConv, with the channels of the data last if the node says so."""
    inputs = ("x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b")[: len(node.inputs)]
    last = bool(node.attribute("channels_last", 0))
    inner = helper.make_node("QLinearConv", ["planes" if last else "x", *inputs[1:]], ["found" if last else "y"])
    inner.attribute.extend(item for item in node.proto.attribute if item.name != "channels_last")
    if not last:
        return inputs, ("y",), [inner]
    return inputs, ("y",), [*_transpose(node, 0, "x", "planes"), inner, *_transpose(node, 0, "found", "y", back=True)]


def _transpose(node: Node, index: int, given: str, name: str, *, back: bool = False) -> list[NodeProto]:
    """The channels moved from the last dimension to the second, or back."""
    rank = len(node.value(index).sizes or ()) or 4
    order = [0, *range(2, rank), 1] if back else [0, rank - 1, *range(1, rank - 1)]
    return [helper.make_node("Transpose", [given], [name], perm=order)]


@_defines("QEmbedLayerNormalization")
def _embedding(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """DequantizeLinear of each table, and EmbedLayerNormalization."""
    tables = ("word", "position", "segment", "gamma", "beta")
    inputs = ("ids", "segments", *tables, "mask", *(f"{name} scale" for name in tables), *(f"{name} zero" for name in tables))
    nodes, given = [], []
    for place, name in enumerate(tables):
        given.append(f"{name} numbers" if node.has(2 + place) else "")
        if node.has(2 + place):
            scale, zero = (_scalar(node, index + place, f"{name} {kind}") for index, kind in ((8, "scale"), (13, "zero")))
            nodes += [*scale[1], *zero[1], helper.make_node("DequantizeLinear", [name, scale[0], zero[0]], [given[-1]])]
    read = ["ids", "segments" if node.has(1) else "", *given, *(["mask"] if node.has(7) else [])]
    inner = helper.make_node("EmbedLayerNormalization", read, ["y", "counts"], domain=node.domain)
    inner.attribute.extend(node.proto.attribute)
    return inputs, ("y", "counts"), [*nodes, inner]
