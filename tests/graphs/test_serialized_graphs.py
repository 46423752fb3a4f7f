"""Graph dumps of ONNX Runtime: read as they were written, and refused where they are damaged."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.graphs import ConstantNode, Graph, GraphBuilder, OperatorNode, load_serialized, read_serialized
from dmlpy.graphs.flatbuffer import Buffer
from tests.support import facts_reader, relation_descs
from tests.support import flatbuffer_writer as writer
from tests.support.flatbuffer_writer import Attribute, Constant, Dump, Operator
from tests.support.graph_cases import random_network

TENSOR = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3], total_tensor_size_in_bytes=24)


def read(dump: Dump) -> Graph:
    return read_serialized(writer.write(dump))


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


def stored(value: Any) -> Any:
    """JSON data of a desc as a dump keeps it: floats of 32 bits, and every tensor's size."""
    if isinstance(value, dict):
        members = {name: stored(item) for name, item in value.items() if name != "GuaranteedBaseOffsetAlignment"}
        if "Sizes" in members and "DataType" in members:
            tensor = dml.TensorDesc.from_dict(members)
            members |= {"TotalTensorSizeInBytes": tensor.size_in_bytes}
            members.pop("Flags", None)
        return members
    if isinstance(value, list):
        return [stored(item) for item in value]
    return float(np.float32(value)) if isinstance(value, float) else value


def relu(number: int = 0, source: str = "x", target: str = "y") -> Operator:
    return writer.operator(f"relu{number}", dml.ActivationReluDesc(input_tensor=TENSOR, output_tensor=TENSOR), [source], [target])


def test_every_operator_is_read_as_it_was_written() -> None:
    """All of DirectML's operators: every kind of attribute, absent ones, and arrays of tensors."""
    wrong, kinds, absent = [], set(), set()
    for operator in facts_reader.operators():
        valid = relation_descs.valid_descs(operator)
        descs = [dml.OperatorDesc.from_dict(relation_descs.data(operator, item.members)) for item in valid]
        for item, desc, node in zip(valid, descs, read(of(*descs)).nodes, strict=True):
            assert isinstance(node, OperatorNode)
            if stored(node.operator.to_dict()) != stored(desc.to_dict()):
                wrong.append(f"{operator}, {item.about}: {node.operator.to_dict()}")
            for attribute in writer.attributes(desc):
                (absent if attribute.value is None else kinds).add(attribute.variant)
    assert wrong == []
    # No operator has a 64-bit attribute.
    assert kinds == set(writer.VARIANTS) - {"UInt64"}
    assert absent == {"Activation", "ScaleBias"}


def test_random_graphs_are_read_as_they_were_written() -> None:
    for seed in range(150):
        graph = random_network(seed)
        assert graph.check(lenient=True) == []
        assert read(writer.dump_of(graph)) == graph, seed


def test_the_sample_of_the_format_s_description(tmp_path: Path) -> None:
    """model_output = model_input * matmul_b_tensor + add_b_tensor, with both constants in files."""
    row, matrix = (dml.TensorDesc(data_type="FLOAT32", sizes=sizes) for sizes in ([1, 1, 1, 5], [1, 1, 5, 5]))
    matmul_b, add_b = "matmul_b_tensor-nodeIdx:0-outputIdx:0", "add_b_tensor-nodeIdx:1-outputIdx:0"
    attributes = [Attribute("TransA", "UInt32", 0), Attribute("TransB", "UInt32", 0), Attribute("Alpha", "Float32", 1.0)]
    attributes += [Attribute("Beta", "Float32", 1.0), Attribute("", "Activation", None)]
    names = ["model_input", matmul_b, add_b]
    gemm = Operator("model_output_dmlEp_0", "DML_OPERATOR_GEMM", [row, matrix, row], [row], attributes, names, ["model_output"])
    constants = [Constant("matmul_b_tensor", matmul_b, "matmul_b_tensor"), Constant("add_b_tensor", add_b, "add_b_tensor")]
    path = tmp_path / "Partition_0.bin"
    path.write_bytes(writer.write(Dump([*constants, gemm], ["model_input"], ["model_output"])))
    (tmp_path / "matmul_b_tensor.bin").write_bytes(np.full(25, 1.5, np.float32).tobytes())
    (tmp_path / "add_b_tensor.bin").write_bytes(np.ones(5, np.float32).tobytes())

    dump = load_serialized(path, tmp_path)
    graph = dump.graph
    assert graph == read_serialized(path)
    assert graph.check() == []
    assert (graph.input_names, graph.output_names) == (("model_input", "matmul_b_tensor", "add_b_tensor"), ("model_output",))
    (node,) = graph.nodes
    assert isinstance(node, OperatorNode)
    desc = node.operator
    assert (node.name, desc.type_name) == ("model_output_dmlEp_0", "DML_OPERATOR_GEMM")
    assert [slot.tensor and (slot.tensor.size_in_bytes, str(slot.tensor.flags)) for slot in desc.input_slots()] == [
        (20, "NONE"),
        (100, "OWNED_BY_DML"),
        (20, "OWNED_BY_DML"),
    ]
    members = desc.to_dict()["Desc"]
    assert [members[name] for name in ("TransA", "TransB", "Alpha", "Beta")] == [*["DML_MATRIX_TRANSFORM_NONE"] * 2, 1, 1]
    assert "FusedActivation" not in members
    assert {name: constant.input_index for name, constant in dump.constants.items()} == {"matmul_b_tensor": 1, "add_b_tensor": 2}
    assert dump.read_constant("matmul_b_tensor") == np.full(25, 1.5, np.float32).tobytes()


def test_a_constant_is_a_graph_input_once_and_by_its_node_s_name() -> None:
    constant = Constant("weights", "weights-out", "file_of_weights")
    nodes = [constant, Constant("unused", "unused-out", "unused"), relu(0, "weights-out", "y"), relu(1, "weights-out", "z")]
    dump = load_serialized(writer.write(Dump(nodes, ["x", "never read"], ["y", "z"])))
    assert dump.graph.input_names == ("x", "never read", "weights")
    assert [edge.graph_input_index for edge in dump.graph.input_edges] == [2, 2]
    assert {name: (constant.name, constant.path) for name, constant in dump.constants.items()} == {"weights": ("file_of_weights", None)}
    assert [problem.code for problem in dump.graph.check()] == ["graph.unused_input"] * 2
    with pytest.raises(dml.DescError, match="not looked for"):
        dump.read_constant("weights")
    with pytest.raises(dml.DescError, match="no constant"):
        dump.read_constant("x")


def test_raw_data_are_a_constant_node() -> None:
    graph = read(Dump([Constant("c", "c-out", data=bytes(range(24))), relu(0, "c-out")], [], ["y"]))
    assert graph.nodes[0] == ConstantNode(data=bytes(range(24)), name="c")
    assert graph.check("6_2") == []
    assert [problem.code for problem in graph.check("6_1")] == ["level.constant"]


def test_raw_data_may_be_an_output_of_the_graph() -> None:
    graph = read(Dump([Constant("c", "y", data=bytes(24))], [], ["y"]))
    assert graph.check() == []
    assert [edge.graph_output_index for edge in graph.output_edges] == [0]


def test_outputs_of_the_graph_may_be_read_by_nodes_too() -> None:
    graph = read(Dump([relu(0, "x", "y"), relu(1, "y", "z")], ["x"], ["z", "y"]))
    assert graph.check() == []
    assert [edge.graph_output_index for edge in graph.output_edges] == [1, 0]
    assert len(graph.intermediate_edges) == 1


def test_scalars_are_read_by_the_type_beside_them() -> None:
    values = {"FLOAT32": -1.5, "FLOAT16": 0.5, "UINT32": 2**32 - 1, "UINT16": 65535, "UINT8": 255, "INT32": -(2**31), "INT16": -2}
    values |= {"INT8": -128, "FLOAT64": 1e300, "UINT64": 2**64 - 1, "INT64": -(2**63)}
    for data_type, value in values.items():
        members = {"OutputTensor": {"DataType": data_type, "Sizes": [2]}, "ValueDataType": data_type, "Value": value}
        desc = dml.OperatorDesc.from_dict({"Type": "FILL_VALUE_CONSTANT", "Desc": members})
        (node,) = read(of(desc)).nodes
        assert isinstance(node, OperatorNode)
        assert node.operator.to_dict()["Desc"]["Value"] == value


def test_floats_that_are_no_numbers() -> None:
    for alpha in (math.inf, -math.inf, math.nan):
        desc = dml.ActivationEluDesc(input_tensor=TENSOR, output_tensor=TENSOR, alpha=alpha)
        assert read(of(desc)).nodes[0] == OperatorNode(operator=desc, name="node")


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


@pytest.mark.parametrize("about", WRONG)
def test_what_breaks_the_format_s_rules_is_told(about: str) -> None:
    dump, code, path, text = WRONG[about]
    with pytest.raises(dml.DescError) as caught:
        read(dump)
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [(code, path)]
    assert text in str(caught.value)


def test_arrays_of_tensors_have_no_absent_entries() -> None:
    part, whole = TENSOR, TENSOR.replace(sizes=[2, 6], total_tensor_size_in_bytes=48)
    attributes = [Attribute("InputCount", "UInt32", 2), Attribute("Axis", "UInt32", 1)]
    join = Operator("join", "DML_OPERATOR_JOIN", [part, part], [whole], attributes, ["a", "b"], ["y"])
    assert read(Dump([join], ["a", "b"], ["y"])).check() == []
    join.input_names = ["a", "", "b"]
    with pytest.raises(dml.DescError, match=r"nodes\[0\].inputNames\[1\] is empty, expected a name: InputTensors has no absent entries"):
        read(Dump([join], ["a", "b"], ["y"]))
    join.input_names = ["a", "b"]
    attributes[0].value = 3
    with pytest.raises(dml.DescError, match="InputCount is 3, expected 2"):
        read(Dump([join], ["a", "b"], ["y"]))


def test_activations_do_not_nest_without_end() -> None:
    plain = [
        Attribute("TransA", "UInt32", 0),
        Attribute("TransB", "UInt32", 0),
        Attribute("Alpha", "Float32", 1),
        Attribute("Beta", "Float32", 1),
    ]
    value: Any = NESTED
    for _ in range(100):
        value = ("DML_OPERATOR_GEMM", [*plain, Attribute("FusedActivation", "Activation", value)])
    gemm = Operator("gemm", "DML_OPERATOR_GEMM", [TENSOR, TENSOR], [TENSOR], value[1], ["a", "b", ""], ["y"])
    with pytest.raises(dml.DescError, match="an activation 4 activations deep"):
        read(Dump([gemm], ["a", "b"], ["y"]))


def test_problems_of_all_nodes_are_told_at_once_and_name_the_node() -> None:
    dump = Dump([relu(0, "a"), relu(1, "b", "z")], ["x"], ["y"])
    with pytest.raises(dml.DescError) as caught:
        read(dump)
    assert [problem.why[0].partition(" at byte")[0] for problem in caught.value.problems] == ["node 'relu0'", "node 'relu1'"]
    many = Dump([relu(number, "nobody", f"y{number}") for number in range(500)], ["x"], [])
    with pytest.raises(dml.DescError) as caught:
        read(many)
    assert len(caught.value.problems) == 100


def bytes_of_relu() -> bytes:
    return writer.write(Dump([relu()], ["x"], ["y"]))


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


@pytest.mark.parametrize("about", DAMAGED)
def test_damage_is_told_with_the_byte_where_it_lies(about: str) -> None:
    change, code, text = DAMAGED[about]
    damaged = change(bytes_of_relu())
    assert damaged != bytes_of_relu()
    with pytest.raises(dml.DescError) as caught:
        read_serialized(damaged)
    assert [problem.code for problem in caught.value.problems if not problem.code.startswith(code)] == []
    assert text in str(caught.value)
    assert " at byte " in str(caught.value)


def test_values_of_unknown_types_are_refused() -> None:
    whole = writer.write(elu(Attribute("Alpha", "Float32", 1.0)))
    for kind in range(256):
        data = bytearray(whole)
        position = find_union(whole)
        data[position] = kind
        if kind == 6:
            assert read_serialized(bytes(data)).check() == []
            continue
        with pytest.raises(dml.DescError) as caught:
            read_serialized(bytes(data))
        assert caught.value.problems[0].path.startswith("nodes[0].desc"), kind


def find_union(data: bytes) -> int:
    """The byte that tells the type of the only attribute's value."""
    candidates = [at for at in range(len(data)) if data[at] == 6]
    for at in candidates:
        try:
            read_serialized(data[:at] + b"\xff" + data[at + 1 :])
        except dml.DescError as error:
            if "a value of type 255" in str(error):
                return at
    raise AssertionError("no attribute")


def test_parts_that_are_read_over_and_over_are_refused() -> None:
    """Offsets to one place cost a few bytes each; what lies there may be large."""
    shared = b"\0\0\0\0" + struct.pack("<I", 60_000) + b"x" * 60_000 + b"\0" * 4
    count = 1000
    # A root table with the field graphInputNames alone; its strings are all the same one.
    head = struct.pack("<IHHHHxxxx", 16, 8, 8, 0, 4) + struct.pack("<iI", 12, 4)
    assert len(head) == 24
    start = len(head) + 4
    target = start + 4 * count + 4
    offsets = b"".join(struct.pack("<I", target - (start + 4 * index)) for index in range(count))
    with pytest.raises(dml.DescError, match="read more than 2 times over"):
        read_serialized(head + struct.pack("<I", count) + offsets + shared)


def test_a_buffer_that_is_too_large_is_refused() -> None:
    class Large(bytes):
        def __len__(self) -> int:
            return 2**40

    with pytest.raises(dml.DescError, match="at most"):
        Buffer(Large())


def folder_of(tmp_path: Path, name: str) -> tuple[bytes, Path]:
    """A dump whose constant lies in a file of this name, and a folder with two files beside it."""
    folder = tmp_path / "constants"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    (folder / "inside.bin").write_bytes(bytes(24))
    return writer.write(Dump([Constant("c", "c-out", name), relu(0, "c-out")], [], ["y"])), folder


NAMES = [
    "../secret",
    "..",
    ".",
    "/etc/passwd",
    "sub/inside",
    "sub\\inside",
    "C:secret",
    "a\0b",
    "missing",
    "x" * 5000,
    "link",
    "loop",
    "folder",
]


@pytest.mark.parametrize("name", NAMES)
def test_constants_lead_nowhere_but_into_their_folder(tmp_path: Path, name: str) -> None:
    data, folder = folder_of(tmp_path, name)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "loop.bin").symlink_to(folder / "loop.bin")
    (folder / "folder.bin").mkdir()
    assert read_serialized(data).input_count == 1
    with pytest.raises(dml.DescError) as caught:
        read_serialized(data, folder)
    assert [problem.code.split(".")[0] for problem in caught.value.problems] == ["file"]


def test_constants_have_the_sizes_of_their_tensors(tmp_path: Path) -> None:
    data, folder = folder_of(tmp_path, "inside")
    dump = load_serialized(data, folder)
    assert dump.constants["c"].path == (folder / "inside.bin").resolve()
    assert dump.read_constant("c") == bytes(24)
    for size in (0, 23, 25):
        (folder / "inside.bin").write_bytes(bytes(size))
        with pytest.raises(dml.DescError, match=f"inside.bin of {size} bytes, expected 24 bytes"):
            load_serialized(data, folder)
    (folder / "inside.bin").unlink()
    with pytest.raises(dml.DescError, match="No such file"):
        dump.read_constant("c")


def test_a_constant_is_filled_up_to_a_multiple_of_four(tmp_path: Path) -> None:
    g = GraphBuilder()
    half = dml.TensorDesc(data_type="FLOAT16", sizes=[3])
    g.output("y", g.add(dml.ActivationReluDesc, "relu", input_tensor=g.input("c", half.replace(flags="OWNED_BY_DML"))))
    (tmp_path / "c.bin").write_bytes(b"123456")
    dump = load_serialized(writer.write(writer.dump_of(g.build())), tmp_path)
    assert dump.read_constant("c") == b"123456\0\0"


def test_files_that_are_none(tmp_path: Path) -> None:
    for path, text in ((tmp_path, "a directory"), (tmp_path / "missing", "missing"), ("a\0b", "missing")):
        with pytest.raises(dml.DescError, match=text):
            read_serialized(path)
    (tmp_path / "whole").write_bytes(bytes_of_relu())
    assert read_serialized(str(tmp_path / "whole")).check() == []
