"""Graph dumps of ONNX Runtime: read as they were written, and refused where they are damaged."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.graphs import ConstantNode, Graph, GraphBuilder, OperatorNode, load_serialized
from dmlpy.graphs.flatbuffer import Buffer
from tests.support.descs import facts_reader, relation_descs
from tests.support.graphs import flatbuffer_writer as writer
from tests.support.graphs.cases import random_network
from tests.support.graphs.flatbuffer_writer import Attribute, Constant, Dump, Operator
from tests.support.graphs.serialized import DAMAGED, NESTED, TENSOR, WRONG, elu, find_union, of, relu


def read(dump: Dump) -> Graph:
    return load_serialized(writer.write(dump)).graph


def stored(value: Any) -> Any:
    """JSON data of a desc as a dump stores it: floats of 32 bits, and every tensor's size."""
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


def test_every_operator_is_read_as_it_was_written() -> None:
    """All of DirectML's operators: every kind of attribute, absent ones, and arrays of tensors."""
    wrong: list[str] = []
    kinds: set[str] = set()
    absent: set[str] = set()
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
    assert graph == load_serialized(path).graph
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


def test_scalars_are_read_by_the_type_next_to_them() -> None:
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


@pytest.mark.parametrize("about", WRONG)
def test_what_breaks_the_format_s_rules_is_reported(about: str) -> None:
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


def test_problems_of_all_nodes_are_reported_at_once_and_name_the_node() -> None:
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


@pytest.mark.parametrize("about", DAMAGED)
def test_damage_is_reported_with_the_byte_where_it_lies(about: str) -> None:
    change, code, text = DAMAGED[about]
    damaged = change(bytes_of_relu())
    assert damaged != bytes_of_relu()
    with pytest.raises(dml.DescError) as caught:
        load_serialized(damaged)
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
            assert load_serialized(bytes(data)).graph.check() == []
            continue
        with pytest.raises(dml.DescError) as caught:
            load_serialized(bytes(data))
        assert caught.value.problems[0].path.startswith("nodes[0].desc"), kind


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
        load_serialized(head + struct.pack("<I", count) + offsets + shared)


def test_a_buffer_that_is_too_large_is_refused() -> None:
    class Large(bytes):
        def __len__(self) -> int:
            return 2**40

    with pytest.raises(dml.DescError, match="at most"):
        Buffer(Large())


def folder_of(tmp_path: Path, name: str) -> tuple[bytes, Path]:
    """A dump whose constant lies in a file of this name, and a folder with two files next to it."""
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
    assert load_serialized(data).graph.input_count == 1
    with pytest.raises(dml.DescError) as caught:
        load_serialized(data, folder)
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
    (folder / "inside.bin").symlink_to("/dev/zero")
    with pytest.raises(dml.DescError, match="a device, not a regular file"):
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
            load_serialized(path)
    (tmp_path / "whole").write_bytes(bytes_of_relu())
    assert load_serialized(str(tmp_path / "whole")).graph.check() == []
