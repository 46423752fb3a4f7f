"""Damaged ONNX models: bytes changed at random, and parts of the protobuf changed to what no exporter writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx.helper import make_node, make_tensor_value_info

from tests.support.onnx.models import model

Change = Callable[[ModelProto, Random], None]
_NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 2**31 - 1, 2**32, 2**40, 2**63 - 1)
_OPERATORS = (
    *("Add", "Cast", "Concat", "Constant", "ConstantOfShape", "Conv", "Expand", "Flatten", "Gather", "Gemm", "If", "LSTM", "Loop"),
    *("MatMul", "MaxPool", "Pad", "Range", "ReduceSum", "Reshape", "Resize", "Scan", "Slice", "Softmax", "Split", "Squeeze", "Tile"),
    *("TopK", "Transpose"),
)


@cache
def bases() -> tuple[bytes, ...]:
    """Small valid models."""
    random = np.random.default_rng(0)

    def numbers(*sizes: int) -> np.ndarray[Any, Any]:
        return random.standard_normal(sizes).astype(np.float32)

    branches = {name: model([make_node("Relu", ["x"], ["z"])], {}, ["z"]).graph for name in ("then_branch", "else_branch")}
    body = GraphProto(name="body")
    body.input.extend([make_tensor_value_info("i", TensorProto.INT64, []), make_tensor_value_info("c", TensorProto.BOOL, [])])
    body.input.append(make_tensor_value_info("s", TensorProto.FLOAT, [2, 3]))
    body.output.extend([make_tensor_value_info("c2", TensorProto.BOOL, []), make_tensor_value_info("t", TensorProto.FLOAT, [2, 3])])
    body.node.extend([make_node("Identity", ["c"], ["c2"]), make_node("Add", ["s", "s"], ["t"])])
    made = [
        model(
            [
                make_node("Conv", ["x", "w", "b"], ["a"], name="conv", pads=[1, 1, 1, 1], strides=[1, 1], group=1),
                make_node("Relu", ["a"], ["r"]),
                make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]),
                make_node("Flatten", ["p"], ["f"]),
                make_node("Gemm", ["f", "k"], ["g"], transB=1),
                make_node("Softmax", ["g"], ["y"]),
            ],
            {"x": [1, 2, 4, 4]},
            ["y"],
            constants={"w": numbers(3, 2, 3, 3), "b": numbers(3), "k": numbers(5, 27)},
        ),
        model(
            [
                make_node("Shape", ["x"], ["s"]),
                make_node("Gather", ["s", "zero"], ["n"]),
                make_node("Concat", ["n", "rest"], ["t"], axis=0),
                make_node("Reshape", ["x", "t"], ["v"]),
                make_node("Slice", ["v", "starts", "ends"], ["c"]),
                make_node("Transpose", ["c"], ["d"], perm=[1, 0]),
                make_node("ConstantOfShape", ["t"], ["o"]),
                make_node("Add", ["v", "o"], ["y"]),
            ],
            {"x": ["n", 3, 4]},
            ["y", "d"],
            constants={"zero": np.array([0]), "rest": np.array([12]), "starts": np.array([0]), "ends": np.array([1])},
        ),
        model(
            [make_node("LSTM", ["x", "w", "r"], ["", "h", "c"], hidden_size=2, direction="forward")],
            {"x": [3, 1, 2]},
            ["h"],
            constants={"w": numbers(1, 8, 2), "r": numbers(1, 8, 2)},
        ),
        model(
            [
                make_node("If", ["q"], ["a"], **branches),
                make_node("Loop", ["three", "yes", "a"], ["b"], body=body),
                make_node("HardSwish", ["b"], ["e"]),
                make_node("ReduceMean", ["e", "axes"], ["m"], keepdims=1),
                make_node("Expand", ["m", "sizes"], ["y"]),
            ],
            {"x": [2, 3]},
            ["y"],
            constants={"q": np.array(True), "three": np.array(3), "yes": np.array(True), "axes": np.array([1]), "sizes": np.array([2, 3])},
        ),
    ]
    return tuple(built.SerializeToString() for built in made)


def mutant(random: Random) -> bytes:
    """A model with a few changes."""
    data = random.choice(bases())
    if random.random() < 0.35:
        return _bytes_changed(data, random)
    proto = ModelProto()
    proto.ParseFromString(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(_CHANGES)(proto, random)
    return proto.SerializeToString()


def _bytes_changed(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(changed))
        kind = random.randrange(4)
        if kind == 0:
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            changed[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del changed[at : at + random.randrange(1, 9)]
        else:
            changed = changed[: at + 1]
        if not changed:
            break
    return bytes(changed)


def _graphs(proto: ModelProto) -> list[GraphProto]:
    found = [proto.graph]
    for graph in found:
        found += [item.g for node in graph.node for item in node.attribute if item.HasField("g")]
    return found


def _node(proto: ModelProto, random: Random) -> NodeProto:
    nodes = [node for graph in _graphs(proto) for node in graph.node]
    return random.choice(nodes) if nodes else proto.graph.node.add()


def _names(proto: ModelProto) -> Sequence[str]:
    found = {name for graph in _graphs(proto) for node in graph.node for name in (*node.input, *node.output)}
    return [*sorted(found), "", "nowhere", "x"]


def _operator(proto: ModelProto, random: Random) -> None:
    _node(proto, random).op_type = random.choice(_OPERATORS)


def _input(proto: ModelProto, random: Random) -> None:
    node = _node(proto, random)
    if node.input and random.random() < 0.7:
        node.input[random.randrange(len(node.input))] = random.choice(_names(proto))
    else:
        node.input.append(random.choice(_names(proto)))


def _output(proto: ModelProto, random: Random) -> None:
    node = _node(proto, random)
    if node.output and random.random() < 0.5:
        node.output[random.randrange(len(node.output))] = random.choice(_names(proto))
    elif node.output:
        del node.output[random.randrange(len(node.output))]
    else:
        node.output.append("more")


def _attribute(proto: ModelProto, random: Random) -> None:
    node = _node(proto, random)
    if not node.attribute or random.random() < 0.2:
        item = node.attribute.add(name=random.choice(("axis", "pads", "perm", "to", "mode", "kernel_shape")))
    else:
        item = random.choice(list(node.attribute))
    kind = random.randrange(5)
    if kind == 0:
        item.type = random.choice(AttributeProto.AttributeType.values())
    elif kind == 1:
        item.i, item.type = random.choice(_NUMBERS), AttributeProto.INT
    elif kind == 2:
        item.ints[:] = [random.choice(_NUMBERS) for _ in range(random.randrange(5))]
        item.type = AttributeProto.INTS
    elif kind == 3:
        item.s, item.type = random.choice((b"", b"\xff", b"SAME_UPPER", b"reverse")), AttributeProto.STRING
    else:
        node.attribute.remove(item)


def _initializer(proto: ModelProto, random: Random) -> None:
    tensors = [tensor for graph in _graphs(proto) for tensor in graph.initializer]
    if not tensors:
        return
    tensor = random.choice(tensors)
    kind = random.randrange(5)
    if kind == 0:
        tensor.data_type = random.choice([*TensorProto.DataType.values(), 99])
    elif kind == 1:
        tensor.dims[:] = [random.choice(_NUMBERS) for _ in range(random.randrange(4))]
    elif kind == 2:
        tensor.raw_data = tensor.raw_data[: random.randrange(len(tensor.raw_data) + 1)]
    elif kind == 3:
        tensor.raw_data = random.randbytes(len(tensor.raw_data))
    else:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=random.choice(("/etc/passwd", "../x", "x\0y", "", ".")))


def _type(proto: ModelProto, random: Random) -> None:
    values = [*proto.graph.input, *proto.graph.output]
    if not values:
        return
    value = random.choice(values)
    if random.random() < 0.3:
        value.type.tensor_type.elem_type = random.choice([*TensorProto.DataType.values(), 77])
    elif value.type.tensor_type.shape.dim:
        random.choice(list(value.type.tensor_type.shape.dim)).dim_value = random.choice(_NUMBERS)
    else:
        value.type.sequence_type.elem_type.tensor_type.elem_type = 1


def _order(proto: ModelProto, random: Random) -> None:
    graph = random.choice(_graphs(proto))
    nodes = list(graph.node)
    random.shuffle(nodes)
    del graph.node[:]
    graph.node.extend(nodes[: random.randrange(len(nodes) + 1)] if random.random() < 0.3 else nodes)


def _opset(proto: ModelProto, random: Random) -> None:
    if proto.opset_import and random.random() < 0.9:
        proto.opset_import[0].version = random.choice((*_NUMBERS, 7, 9, 11, 13, 18))
    else:
        proto.opset_import.add(domain=random.choice(("", "com.microsoft")), version=1)


_CHANGES: tuple[Change, ...] = (_operator, _input, _output, _attribute, _attribute, _initializer, _initializer, _type, _order, _opset)
