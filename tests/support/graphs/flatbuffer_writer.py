"""Writes graphs as ONNX Runtime's DirectML provider dumps them.

How an operator's members are stored follows the facts, not dmlpy's classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np

import dmlpy as dml
from dmlpy.graphs import ConstantNode, Graph
from tests.support.descs import facts_reader

VARIANTS = ["Activation", "ActivationArray", "UInt32", "UInt64", "Int32", "Float32", "UIntArray", "IntArray", "FloatArray"]
VARIANTS += ["ScaleBias", "Size2D", "ScalarUnionData", "Bool"]
TYPES = {
    "OPERATOR_DESC": "Activation",
    "OPERATOR_DESC_ARRAY": "ActivationArray",
    "UINT": "UInt32",
    "UINT64": "UInt64",
    "INT": "Int32",
    "FLOAT": "Float32",
    "UINT_ARRAY": "UIntArray",
    "INT_ARRAY": "IntArray",
    "FLOAT_ARRAY": "FloatArray",
    "SCALE_BIAS": "ScaleBias",
    "SIZE_2D": "Size2D",
    "SCALAR_UNION": "ScalarUnionData",
    "BOOL": "Bool",
}
COMPANIONS = {"Min": "MinMaxDataType", "Max": "MinMaxDataType", "PaddingValue": "PaddingValueDataType"}


@dataclass
class Attribute:
    """An AttributeDesc: a type of the union, and its value; None is an entry without value."""

    name: str
    variant: str
    value: Any


@dataclass
class Operator:
    """An operator's node. An empty name stands for an absent tensor."""

    name: str
    type: str
    inputs: Sequence[dml.TensorDesc]
    outputs: Sequence[dml.TensorDesc]
    attributes: Sequence[Attribute]
    input_names: Sequence[str]
    output_names: Sequence[str]


@dataclass
class Constant:
    """A constant's node: the name of a file, or the bytes themselves."""

    name: str
    output: str
    file: str | None = None
    data: bytes = b""


@dataclass
class Dump:
    """What a file holds."""

    nodes: list[Operator | Constant] = field(default_factory=list)
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()


def operator(name: str, desc: dml.OperatorDesc, input_names: Sequence[str], output_names: Sequence[str]) -> Operator:
    """The node of a desc."""
    inputs, outputs = ([slot.tensor for slot in slots if slot.tensor is not None] for slots in (desc.input_slots(), desc.output_slots()))
    return Operator(name, desc.type_name, inputs, outputs, attributes(desc), input_names, output_names)


def attributes(desc: dml.OperatorDesc) -> list[Attribute]:
    """The members that are not tensors, as the operator's facts list them."""
    found = []
    for fact in facts_reader.operators()[desc.type_name]["fields"]:
        if fact["kind"] != "attribute":
            continue
        counted = fact.get("count_of")
        if counted:
            first = counted if isinstance(counted, str) else counted[0]
            value: Any = len(_member(desc, first) or ())
        else:
            value = _member(desc, fact["name"])
        if fact["type"] == "SCALAR_UNION":
            value = scalar(value, _member(desc, COMPANIONS.get(fact["name"], "ValueDataType")))
        found.append(Attribute(fact["name"], TYPES[fact["type"]], value))
    return found


def _member(desc: dml.OperatorDesc, c_name: str) -> Any:
    name = desc.member_named(c_name)
    assert name is not None, f"{desc.type_name}.{c_name}"
    return getattr(desc, name)


def scalar(value: float, data_type: dml.DataType) -> bytes:
    """The 8 bytes of a DML_SCALAR_UNION."""
    if data_type.bits == 4:
        return bytes([int(value) & 15]) + bytes(7)
    return np.array(value, data_type.numpy).tobytes().ljust(8, b"\0")


def dump_of(graph: Graph) -> Dump:
    """The dump of a graph whose nodes are in the order of their edges. Owned inputs become constants in files of their names."""
    sources: dict[tuple[int, int], str] = {}
    owned: dict[str, None] = {}
    for edge in graph.input_edges:
        tensor = graph.nodes[edge.to_node_index].input_slots()[edge.to_node_input_index].tensor
        name = graph.input_names[edge.graph_input_index]
        is_owned = tensor is not None and tensor.flags is dml.TensorFlags.OWNED_BY_DML
        if is_owned:
            owned[name] = None
        sources[edge.to_node_index, edge.to_node_input_index] = f"{name}-out" if is_owned else name
    outputs = {
        (edge.from_node_index, edge.from_node_output_index): graph.output_names[edge.graph_output_index] for edge in graph.output_edges
    }
    for link in graph.intermediate_edges:
        end = link.from_node_index, link.from_node_output_index
        sources[link.to_node_index, link.to_node_input_index] = outputs.setdefault(end, f"value {end[0]}.{end[1]}")
    nodes: list[Operator | Constant] = [Constant(name, f"{name}-out", name) for name in owned]
    for index, node in enumerate(graph.nodes):
        if isinstance(node, ConstantNode):
            nodes.append(Constant(node.name or "", outputs[index, 0], data=node.data))
            continue
        fed = [sources.get((index, slot), "") for slot in range(len(node.input_slots()))]
        read = [
            outputs.get((index, place), f"unread {index}.{place}") if slot.tensor is not None else ""
            for place, slot in enumerate(node.output_slots())
        ]
        nodes.append(operator(node.name or "", node.operator, fed, read))
    return Dump(nodes, [name for name in graph.input_names if name not in owned], graph.output_names)


def write(dump: Dump) -> bytes:
    """The FlatBuffer."""
    return _Writer().write(dump)


class _Writer:
    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)

    def write(self, dump: Dump) -> bytes:
        nodes = self.offsets([self.node(node) for node in dump.nodes])
        root = self.table({0: nodes, 1: self.strings(dump.inputs), 2: self.strings(dump.outputs)})
        self.builder.Finish(root)
        return bytes(self.builder.Output())

    def table(self, offsets: Mapping[int, int], numbers: Mapping[int, tuple[str, int]] | None = None) -> int:
        """A table of offsets and numbers by field; an offset of 0 is an absent field."""
        numbers = numbers or {}
        self.builder.StartObject(max([*offsets, *numbers], default=0) + 1)
        for slot, (kind, value) in numbers.items():
            getattr(self.builder, f"Prepend{kind}Slot")(slot, value, 0)
        for slot, offset in offsets.items():
            self.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        return int(self.builder.EndObject())

    def offsets(self, offsets: Sequence[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def strings(self, texts: Sequence[str]) -> int:
        return self.offsets([self.builder.CreateString(text) for text in texts])

    def numbers(self, values: Sequence[Any], dtype: str) -> int:
        array = np.array(values, dtype)
        self.builder.StartVector(array.itemsize, len(array), array.itemsize)
        for value in reversed(array.tolist()):
            {"<u4": self.builder.PrependUint32, "<i4": self.builder.PrependInt32, "<f4": self.builder.PrependFloat32}[dtype](value)
        return int(self.builder.EndVector())

    def struct(self, kind: str, values: Sequence[Any], width: int) -> int:
        self.builder.Prep(width, width * len(values))
        for value in reversed(values):
            getattr(self.builder, f"Prepend{kind}")(value)
        return int(self.builder.Offset())

    def node(self, node: Operator | Constant) -> int:
        if isinstance(node, Operator):
            kind, desc = 1, self.operator(node)
            inputs, outputs = self.strings(node.input_names), self.strings(node.output_names)
        else:
            kind, desc = 2, self.constant(node)
            inputs, outputs = 0, self.strings([node.output])
        return self.table({1: desc, 2: self.builder.CreateString(node.name), 3: inputs, 4: outputs}, {0: ("Uint8", kind)})

    def operator(self, node: Operator) -> int:
        stored = self.offsets([self.attribute(attribute) for attribute in node.attributes])
        inputs, outputs = (self.offsets([self.tensor(tensor) for tensor in tensors]) for tensors in (node.inputs, node.outputs))
        return self.table({0: self.builder.CreateString(node.type), 1: inputs, 2: outputs, 3: stored})

    def constant(self, node: Constant) -> int:
        if node.file is not None:
            held = self.table({0: self.builder.CreateString(node.file)})
        else:
            held = self.table({0: self.builder.CreateByteVector(node.data)})
        return self.table({1: held}, {0: ("Uint8", 1 if node.file is not None else 2)})

    def tensor(self, tensor: dml.TensorDesc) -> int:
        data_type = self.builder.CreateString(tensor.data_type.c_name)
        strides = 0 if tensor.strides is None else self.numbers(tensor.strides, "<u4")
        sizes = self.numbers(tensor.sizes, "<u4")
        return self.table({0: data_type, 1: sizes, 2: strides}, {3: ("Uint64", tensor.size_in_bytes)})

    def attribute(self, attribute: Attribute) -> int:
        kind = VARIANTS.index(attribute.variant) + 1
        value = 0 if attribute.value is None else self.values[attribute.variant](self, attribute.value)
        return self.table({0: self.builder.CreateString(attribute.name), 2: value}, {1: ("Uint8", kind)})

    def activation(self, desc: dml.OperatorDesc | tuple[str, Sequence[Attribute]]) -> int:
        """Of a desc; or of a type and attributes that no desc can have."""
        type_name, members = desc if isinstance(desc, tuple) else (desc.type_name, attributes(desc))
        stored = self.offsets([self.attribute(attribute) for attribute in members])
        return self.table({0: self.builder.CreateString(type_name), 1: stored})

    def activations(self, descs: Sequence[dml.OperatorDesc]) -> int:
        return self.table({0: self.offsets([self.activation(desc) for desc in descs])})

    def array(self, values: Sequence[Any], dtype: str) -> int:
        return self.table({0: self.numbers(values, dtype)})

    def scalar(self, data: bytes) -> int:
        held = self.struct("Uint8", list(data), 1)
        return self.table({1: held}, {0: ("Uint8", 1)})

    values: Mapping[str, Callable[[_Writer, Any], int]] = {
        "Activation": activation,
        "ActivationArray": activations,
        "UInt32": lambda self, value: self.struct("Uint32", [int(value)], 4),
        "UInt64": lambda self, value: self.struct("Uint64", [int(value)], 8),
        "Int32": lambda self, value: self.struct("Int32", [int(value)], 4),
        "Float32": lambda self, value: self.struct("Float32", [value], 4),
        "UIntArray": lambda self, value: self.array(value, "<u4"),
        "IntArray": lambda self, value: self.array(value, "<i4"),
        "FloatArray": lambda self, value: self.array(value, "<f4"),
        "ScaleBias": lambda self, value: self.struct("Float32", [value.scale, value.bias], 4),
        "Size2D": lambda self, value: self.struct("Uint32", [value.width, value.height], 4),
        "ScalarUnionData": scalar,
        "Bool": lambda self, value: self.struct("Uint8", [int(value)], 1),
    }
