"""Serialized graphs: right, damaged and wrong ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import dmlpy as dml
from dmlpy.graphs import load_serialized
from tests.support.graphs import flatbuffer_writer as writer
from tests.support.graphs.flatbuffer_writer import Attribute, Constant, Dump, Operator

TENSOR = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3], total_tensor_size_in_bytes=24)


def of(*descs: dml.OperatorDesc) -> Dump:
    """The dump of operators that have nothing to do with each other: a graph input or output for each tensor."""
    dump = Dump([], [], [])
    for number, desc in enumerate(descs):
        inputs = [f"{number} {slot.place}" if slot.tensor else "" for slot in desc.input_slots()]
        outputs = [f"{number} {slot.place}" if slot.tensor else "" for slot in desc.output_slots()]
        dump.nodes.append(writer.operator("node", desc, inputs, outputs))
        dump.inputs = [*dump.inputs, *filter(None, inputs)]
        dump.outputs = [*dump.outputs, *filter(None, outputs)]
    return dump


def relu(number: int = 0, source: str = "x", target: str = "y") -> Operator:
    return writer.operator(f"relu{number}", dml.ActivationReluDesc(input_tensor=TENSOR, output_tensor=TENSOR), [source], [target])


def changed(**members: Any) -> Dump:
    """A dump of one node with other members."""
    node = relu()
    for name, value in members.items():
        setattr(node, name, value)
    return Dump([node], ["x"], ["y"])


def elu(*attributes: Attribute) -> Dump:
    node = Operator("elu", "DML_OPERATOR_ACTIVATION_ELU", [TENSOR], [TENSOR], attributes, ["x"], ["y"])
    return Dump([node], ["x"], ["y"])


NESTED = dml.ActivationReluDesc()


WRONG: dict[str, tuple[Dump, str, str, str]] = {
    "an input that nobody gives": (
        changed(input_names=["z"]),
        "serialized.edge",
        "nodes[0].inputNames[0]",
        "'z', expected the name of",
    ),
    "an input that a later node gives": (
        Dump([relu(0, "z", "y"), relu(1, "x", "z")], ["x"], ["y"]),
        "serialized.edge",
        "nodes[0].inputNames[0]",
        "nodes are stored in the order of their edges",
    ),
    "an output of two nodes": (
        Dump([relu(0), relu(1)], ["x"], ["y"]),
        "serialized.name",
        "nodes[1].outputNames",
        "an earlier node's output",
    ),
    "one graph input twice": (Dump([relu()], ["x", "x"], ["y"]), "serialized.name", "graphInputNames[1]", "'x', as another one is"),
    "an empty graph output": (Dump([relu()], ["x"], ["y", ""]), "serialized.name", "graphOutputNames[1]", "'', empty"),
    "a node without a name": (changed(name=""), "flatbuffer.missing", "nodes[0].name", "without name at byte"),
    "an unknown operator": (
        changed(type="DML_OPERATOR_ACTIVATION_RELUU"),
        "operator.unknown",
        "nodes[0].desc.type",
        "did you mean DML_OPERATOR_ACTIVATION_RELU?",
    ),
    "too few names": (
        changed(input_names=[], inputs=[]),
        "serialized.slots",
        "nodes[0].inputNames",
        "0 names, expected 1: InputTensor",
    ),
    "too many names": (
        changed(output_names=["y", ""]),
        "serialized.slots",
        "nodes[0].outputNames",
        "2 names, expected 1: OutputTensor",
    ),
    "too few tensors": (changed(inputs=[]), "serialized.slots", "nodes[0].desc.inputs", "expected 1, one for each name"),
    "too many tensors": (changed(inputs=[TENSOR, TENSOR]), "serialized.slots", "nodes[0].desc.inputs", "2 tensors at byte"),
    "an attribute too many": (
        changed(attributes=[Attribute("Alpha", "Float32", 1.0)]),
        "serialized.attributes",
        "nodes[0].desc.attributes",
        "expected 0",
    ),
    "an attribute too few": (elu(), "serialized.attributes", "nodes[0].desc.attributes", "0 attributes at byte"),
    "an integer for a float": (
        elu(Attribute("Alpha", "UInt32", 1)),
        "serialized.attributes",
        "nodes[0].desc.attributes[0]",
        "the type of Alpha",
    ),
    "an activation for a float": (
        elu(Attribute("Alpha", "Activation", NESTED)),
        "serialized.attributes",
        "nodes[0].desc.attributes[0]",
        "of Alpha",
    ),
    "a scalar for a float": (
        elu(Attribute("Alpha", "ScalarUnionData", bytes(8))),
        "serialized.attributes",
        "nodes[0].desc.attributes[0]",
        "of Alpha",
    ),
    "a required attribute that is absent": (
        elu(Attribute("Alpha", "Float32", None)),
        "field.form",
        "nodes[0].desc.alpha",
        "None, expected a number",
    ),
    "a constant without a file's name": (
        Dump([Constant("c", "c-out", ""), relu(0, "c-out")], [], ["y"]),
        "flatbuffer.missing",
        "nodes[0].desc.data.name",
        "without name",
    ),
    "a constant named as an input": (
        Dump([Constant("x", "x-out", "x"), relu(0, "x-out")], ["x"], ["y"]),
        "serialized.name",
        "nodes",
        "'x', as a graph",
    ),
    "two constants of one name": (
        Dump([Constant("c", "a", "a"), Constant("c", "b", "b"), relu(0, "a", "y"), relu(1, "b", "z")], [], ["y", "z"]),
        "serialized.name",
        "nodes",
        "'c', as another constant",
    ),
}


def u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def with_u32(at: int, value: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + struct.pack("<I", value) + data[at + 4 :]


def at_root(change: Callable[[bytes, int], bytes]) -> Callable[[bytes], bytes]:
    """A change of the root table, whose place it is given."""
    return lambda data: change(data, u32(data, 0))


def vtable(data: bytes, table: int) -> int:
    return table - int(struct.unpack_from("<i", data, table)[0])


def vtable_entry(slot: int, value: int) -> Callable[[bytes], bytes]:
    def change(data: bytes, root: int) -> bytes:
        at = vtable(data, root) + slot
        return data[:at] + struct.pack("<H", value) + data[at + 2 :]

    return at_root(change)


def field_of_root(slot: int, value: int) -> Callable[[bytes], bytes]:
    """Another offset in a field of the root table."""

    def change(data: bytes, root: int) -> bytes:
        at = root + int(struct.unpack_from("<H", data, vtable(data, root) + slot)[0])
        return with_u32(at, value)(data)

    return at_root(change)


def length_of_nodes(value: int) -> Callable[[bytes], bytes]:
    def change(data: bytes, root: int) -> bytes:
        at = root + int(struct.unpack_from("<H", data, vtable(data, root) + 4)[0])
        return with_u32(at + u32(data, at), value)(data)

    return at_root(change)


# The change of a valid file, the code, and a text of the problem.
DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str, str]] = {
    "nothing": (lambda data: b"", "flatbuffer.bounds", "a file of 0 bytes at byte 0"),
    "seven bytes": (lambda data: data[:7], "flatbuffer.bounds", "a file of 7 bytes"),
    "a root that lies beyond the end": (with_u32(0, 10**6), "flatbuffer.bounds", "an offset of 1000000 at byte 0"),
    "a root that is itself": (with_u32(0, 0), "flatbuffer.bounds", "an offset of 0 at byte 0"),
    "a root between two words": (lambda data: with_u32(0, u32(data, 0) + 1)(data), "flatbuffer.alignment", "a multiple of 4"),
    "a vtable before the file": (
        at_root(lambda data, root: with_u32(root, root + 4)(data)),
        "flatbuffer.bounds",
        "a vtable of 4 bytes at byte -4",
    ),
    "a vtable beyond the file": (at_root(lambda data, root: with_u32(root, 2**31)(data)), "flatbuffer.bounds", "a vtable"),
    "an odd vtable": (vtable_entry(0, 5), "flatbuffer.vtable", "a vtable of 5 bytes"),
    "an empty vtable": (vtable_entry(0, 0), "flatbuffer.vtable", "a vtable of 0 bytes"),
    "a vtable that is too long": (vtable_entry(0, 65534), "flatbuffer.bounds", "a vtable of 65534 bytes"),
    "a table that is too short": (vtable_entry(2, 2), "flatbuffer.vtable", "a table of 2 bytes"),
    "a table that is too long": (vtable_entry(2, 65532), "flatbuffer.bounds", "a table of 65532 bytes"),
    "a field beyond its table": (vtable_entry(4, 64), "flatbuffer.vtable", "field nodes at offset 64"),
    "a field in its table's head": (vtable_entry(4, 2), "flatbuffer.vtable", "field nodes at offset 2"),
    "a field between two words": (vtable_entry(4, 6), "flatbuffer.alignment", "field nodes at byte"),
    "a vector beyond the end": (field_of_root(4, 2**31), "flatbuffer.bounds", "an offset of 2147483648"),
    "a vector of billions": (length_of_nodes(2**32 - 1), "flatbuffer.bounds", "a vector of 4294967295 items of 4 bytes"),
    "more nodes than there are": (length_of_nodes(2), "flatbuffer", "expected"),
    "text that is no UTF-8": (lambda data: data.replace(b"relu0\0", b"rel\xff0\0"), "flatbuffer.text", "no UTF-8 at byte"),
    "text that does not end": (lambda data: data.replace(b"relu0\0", b"relu00"), "flatbuffer.text", "no zero at byte"),
    "half a file": (lambda data: data[: len(data) // 2], "flatbuffer", "expected"),
    "a file that is text": (lambda data: b'{"resources": {}, "dispatchables": {}}', "flatbuffer", "expected"),
}


def find_union(data: bytes) -> int:
    """The byte with the type of the only attribute's value."""
    candidates = [at for at in range(len(data)) if data[at] == 6]
    for at in candidates:
        try:
            load_serialized(data[:at] + b"\xff" + data[at + 1 :])
        except dml.DescError as error:
            if "a value of type 255" in str(error):
                return at
    raise AssertionError("no attribute")
