"""Operators of com.microsoft, and a removed one, that ONNX nodes can express.

These nodes replace the operator, as the body of a function does.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from dmlpy.messages.naming import listed
from dmlpy.onnx.nodes.error_policy import ErrorPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.onnx.nodes.node import Node

    Definition: TypeAlias = "Callable[[Node], tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]]"
    """Formal inputs, formal outputs and the nodes between them."""

_OPSET = 22
"""The version of ONNX that the definitions are written in."""
_DEFINITIONS: dict[str, Definition] = {}
REMOVED = frozenset({"DynamicSlice"})
"""Operators that ONNX's own domain had before its first release."""


def find_definition(node: Node) -> FunctionProto | None:
    """The nodes that replace an operator of com.microsoft, or a removed one of ONNX; None if it has no definition.

    Raises:
        NotLowered: attributes or inputs that the operator does not have.
    """
    define = _DEFINITIONS.get(node.op_type)
    if define is None or (node.op_type in REMOVED and node.domain):
        return None
    try:
        inputs, outputs, nodes = define(node)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # models come from anywhere
        if ErrorPolicy.propagate_unexpected:
            raise
        found = f"attributes or inputs that {node.op_type} does not allow"
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise node.refusal("onnx.unforeseen", "", found, f"what ONNX Runtime says of {node.op_type}", reason) from error
    imports = [helper.make_opsetid(node.domain, node.opset), helper.make_opsetid("", _OPSET)]  # the last of a domain counts
    return helper.make_function(node.domain, node.op_type, list(inputs), list(outputs), list(nodes), imports)


def _defines(*op_types: str) -> Callable[[Definition], Definition]:
    def register(function: Definition) -> Definition:
        for op_type in op_types:
            _DEFINITIONS[op_type] = function
        return function

    return register


def _are_static(node: Node, *indices: int) -> bool:
    """Whether inputs are given, with sizes that are known."""
    return all(node.has(index) and node.value(index).is_static for index in indices)


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
    renamed_node = helper.make_node(node.op_type, given, ["y"])
    renamed = {"bilinear": "linear", "bicubic": "cubic"} if node.op_type == "GridSample" else {}
    attributes = {"mode": "bilinear", **node.attributes} if renamed else node.attributes
    renamed_node.attribute.extend(helper.make_attribute(name, renamed.get(str(value), value)) for name, value in attributes.items())
    return inputs, ("y",), [*nodes, renamed_node]


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


def _constant(name: str, number: float) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(number, np.float32)))


@_defines("ScaledSiLU")
def _scaled_silu(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """Z * Sigmoid(Z) of Z = scale * X; each step is rounded to the type of X."""
    if _are_static(node, 1) and prod(node.sizes(1)) != 1:
        raise node.refusal("onnx.sizes", node.input_label(1), listed(node.sizes(1)), "one element")
    scale = [helper.make_node("Cast", ["scale"], ["factor"], to=TensorProto.FLOAT)]
    nodes = [
        *(scale if node.has(1) else [_constant("factor", float(node.attribute("alpha", 1.0)))]),
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["wide", "factor"], ["scaled"]),
        helper.make_node("CastLike", ["scaled", "x"], ["z"]),
        helper.make_node("Sigmoid", ["z"], ["gate"]),
        helper.make_node("Mul", ["z", "gate"], ["y"]),
    ]
    return ("x", "scale"), ("y",), nodes


@_defines("GatedAdd")
def _gated_add(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """X + Y * gate. Gates that are projected first are CUDA's alone in ONNX Runtime."""
    if node.has(3):
        raise node.refusal("onnx.input", node.input_label(3), "given", "a gate for each row")
    if _are_static(node, 0, 2) and node.sizes(2) != (*node.sizes(0)[:-1], 1):
        raise node.refusal(
            "onnx.sizes", node.input_label(2), listed(node.sizes(2)), f"{listed((*node.sizes(0)[:-1], 1))}: a gate for each row"
        )
    return ("x", "y", "gate"), ("z",), [helper.make_node("Mul", ["y", "gate"], ["gated"]), helper.make_node("Add", ["x", "gated"], ["z"])]


def _root_mean_squares(data: str, epsilon: float, normalized: str) -> list[NodeProto]:
    """The data divided by the root mean square of its last axis."""
    return [
        _integers(f"{normalized} axis", -1),
        _constant(f"{normalized} least", epsilon),
        helper.make_node("Mul", [data, data], [f"{normalized} squares"]),
        helper.make_node("ReduceMean", [f"{normalized} squares", f"{normalized} axis"], [f"{normalized} means"]),
        helper.make_node("Add", [f"{normalized} means", f"{normalized} least"], [f"{normalized} above 0"]),
        helper.make_node("Sqrt", [f"{normalized} above 0"], [f"{normalized} roots"]),
        helper.make_node("Div", [data, f"{normalized} roots"], [normalized]),
    ]


def _check_parts(node: Node, path: str, count: int) -> None:
    """Refuses a number of equal parts that the last axis does not have."""
    last = node.sizes(0)[-1:] or (1,)
    if count < 1 or last[0] % count:
        raise node.refusal("onnx.sizes", path, str(count), f"a divisor of the last size of {node.input_label(0)}, {last[0]}")


@_defines("GatedRMSNorm")
def _gated_norm(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """The norm of groups as long as the scale, times the scale and a function of the gate, in FLOAT32."""
    activation = node.attribute("activation", "silu")
    if activation not in ("silu", "swish", "sigmoid"):
        raise node.invalid("activation", "silu", "swish", "sigmoid")
    if len(sizes := node.value(1).sizes or [1]) != 1:
        raise node.refusal("onnx.invalid", node.input_label(1), listed(sizes), "a vector, as long as a group")
    if _are_static(node, 0, 2) and node.sizes(2) != node.sizes(0):
        raise node.refusal(
            "onnx.sizes", node.input_label(2), listed(node.sizes(2)), f"{listed(node.sizes(0))}, as {node.input_label(0)} has"
        )
    if _are_static(node, 0, 1):
        _check_parts(node, node.input_label(1), prod(node.sizes(1)))
    nodes = [
        _integers("every", -1),
        helper.make_node("Shape", ["scale"], ["width"]),
        helper.make_node("Concat", ["every", "width"], ["groups"], axis=0),
        helper.make_node("Shape", ["x"], ["sizes"]),
    ]
    for name in ("x", "gate", "scale"):
        nodes.append(helper.make_node("Cast", [name], [f"{name} wide"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Reshape", [f"{name} wide", "groups"], [f"{name} rows"]))
    nodes += [
        *_root_mean_squares("x rows", float(node.attribute("epsilon", 1e-5)), "norm"),
        helper.make_node("Mul", ["norm", "scale rows"], ["scaled"]),
        helper.make_node("Sigmoid", ["gate rows"], ["open"]),
        helper.make_node("Mul", ["gate rows", "open"], ["silu"]),
        helper.make_node("Mul", ["scaled", "open" if activation == "sigmoid" else "silu"], ["gated"]),
        helper.make_node("Reshape", ["gated", "sizes"], ["result"]),
        helper.make_node("CastLike", ["result", "x"], ["y"]),
    ]
    return ("x", "scale", "gate"), ("y",), nodes


@_defines("BranchwiseRMSNorm")
def _branch_norm(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """The norm of each branch, which has a dimension of its own or a part of the last one, in FLOAT32."""
    branches = int(node.attribute("num_branches", 0))
    if branches and _are_static(node, 0):
        _check_parts(node, "num_branches", branches)
    nodes = [
        _integers("every", -1),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Shape", ["x"], ["last"], start=-1),
    ]
    if branches:
        nodes += [_integers("branches", branches), helper.make_node("Div", ["last", "branches"], ["width"])]
    else:
        nodes += [helper.make_node("Shape", ["x"], ["branches"], start=-2, end=-1), helper.make_node("Identity", ["last"], ["width"])]
    nodes += [
        helper.make_node("Concat", ["every", "branches", "width"], ["groups"], axis=0),
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["wide", "groups"], ["rows"]),
        *_root_mean_squares("rows", float(node.attribute("epsilon", 1e-5)), "norm"),
    ]
    if node.has(1):
        nodes += [
            helper.make_node("Cast", ["scale"], ["wide scale"], to=TensorProto.FLOAT),
            helper.make_node("Concat", ["every", "width"], ["scales"], axis=0),
            helper.make_node("Reshape", ["wide scale", "scales"], ["by branch"]),
            helper.make_node("Mul", ["norm", "by branch"], ["scaled"]),
        ]
    nodes += [
        helper.make_node("Reshape", ["scaled" if node.has(1) else "norm", "sizes"], ["result"]),
        helper.make_node("CastLike", ["result", "x"], ["y"]),
    ]
    return ("x", "scale"), ("y",), nodes


@_defines("LinearAttentionGate")
def _attention_gate(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """decay_scale * Softplus(a + dt_bias) in FLOAT32, and Sigmoid(b)."""
    for index in (1, 2):
        if _are_static(node, 0, index) and node.sizes(index) != node.sizes(0)[-1:]:
            expected = f"{listed(node.sizes(0)[-1:])}, the last size of {node.input_label(0)}"
            raise node.refusal("onnx.sizes", node.input_label(index), listed(node.sizes(index)), expected)
    nodes = [
        helper.make_node("Cast", ["a"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["wide", "bias"], ["moved"]),
        helper.make_node("Softplus", ["moved"], ["positive"]),
        helper.make_node("Mul", ["positive", "scale"], ["scaled"]),
        helper.make_node("CastLike", ["scaled", "a"], ["decay"]),
    ]
    if node.has(3):
        nodes.append(helper.make_node("Sigmoid", ["b"], ["beta"]))
    return ("a", "bias", "scale", "b"), ("decay", "beta") if node.has(3) else ("decay",), nodes


@_defines("UnfoldTensor")
def _unfold(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """Gather of all slices along an axis; the elements of a slice become the last dimension."""
    rank = len(node.value(0).sizes or node.sizes(0))
    axis, size, step = node.axis(int(node.attribute("dim", -1)), rank), node.count("size"), node.count("step", 1)
    if _are_static(node, 0) and size > node.sizes(0)[axis]:
        raise node.refusal("onnx.sizes", "size", str(size), f"at most {node.sizes(0)[axis]}, the size of dimension {axis}")
    node.reserve_elements(size)
    nodes = [
        *(_integers(name, number) for name, number in (("zero", 0), ("one", 1), ("step", step), ("reach", size - 1))),
        *(helper.make_node("Squeeze", [name], [f"{name} alone"]) for name in ("zero", "step")),
        helper.make_node("Shape", ["x"], ["length"], start=axis, end=axis + 1),
        helper.make_node("Sub", ["length", "reach"], ["end"]),
        helper.make_node("Squeeze", ["end"], ["end alone"]),
        helper.make_node("Range", ["zero alone", "end alone", "step alone"], ["starts"]),
        helper.make_node("Unsqueeze", ["starts", "one"], ["column"]),
        _integers("places", *range(size)),
        helper.make_node("Add", ["column", "places"], ["indices"]),
        helper.make_node("Gather", ["x", "indices"], ["slices"], axis=axis),
        helper.make_node("Transpose", ["slices"], ["y"], perm=[*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]),
    ]
    return ("x",), ("y",), nodes


_PLAIN_STATES = {
    **{"ndim": 1, "channels_last": 0, "state_window": 0, "state_update_capacity": 0, "state_channels_last": -1, "state_length": 0},
    **{"input_channel_offset": 0, "input_channels": 0},
}
"""The attributes of CausalConvWithState that change its tensors, with the only value that is supported. Most are CUDA's alone."""


@_defines("CausalConvWithState")
def _causal_convolution(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """Conv of each channel behind the steps of the state, which is what the next call needs."""
    for name, expected in _PLAIN_STATES.items():
        if int(node.attribute(name, expected)) != expected:
            raise node.unsupported(name, expected)
    activation = node.attribute("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise node.invalid("activation", "none", "silu", "swish")
    (channels, _, length), dilation = node.sizes(1), node.count("dilation", 1)
    kept_steps = (length - 1) * dilation
    if node.has(3) and _are_static(node, 0, 3) and node.sizes(3) != (wanted := (node.sizes(0)[0], channels, kept_steps)):
        raise node.refusal("onnx.sizes", node.input_label(3), listed(node.sizes(3)), listed(wanted))
    joined = helper.make_node("Concat", ["past", "x"], ["steps"], axis=2)
    padded = [_integers("pads", 0, 0, kept_steps, 0, 0, 0), helper.make_node("Pad", ["x", "pads"], ["steps"])]
    result = "y" if activation == "none" else "sums"
    nodes = [
        *([joined] if node.has(3) else padded),
        helper.make_node("Conv", ["steps", "w", "b"] if node.has(2) else ["steps", "w"], [result], group=channels, dilations=[dilation]),
        helper.make_node("Shape", ["steps"], ["end"], start=2),
        _integers("held", kept_steps),
        _integers("axis", 2),
        helper.make_node("Sub", ["end", "held"], ["start"]),
        helper.make_node("Slice", ["steps", "start", "end", "axis"], ["present"]),
    ]
    if activation != "none":
        nodes += [helper.make_node("Sigmoid", ["sums"], ["open"]), helper.make_node("Mul", ["sums", "open"], ["y"])]
    return ("x", "w", "b", "past"), ("y", "present"), nodes


@_defines("DynamicSlice")
def _dynamic_slice(node: Node) -> tuple[Sequence[str], Sequence[str], Sequence[NodeProto]]:
    """A Slice whose bounds are inputs, which Slice itself has from opset 10 on."""
    given = ["data", "starts", "ends", "axes"][: len(node.inputs)]
    return given, ("output",), [helper.make_node("Slice", given, ["output"])]
