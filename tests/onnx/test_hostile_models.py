"""Models come from anywhere: what is wrong with them is refused by name, and nothing but dmlpy's errors is raised."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, TensorProto, numpy_helper
from onnx.helper import (
    make_attribute,
    make_function,
    make_graph,
    make_map_type_proto,
    make_node,
    make_opsetid,
    make_sparse_tensor,
    make_tensor,
    make_tensor_type_proto,
    make_tensor_value_info,
)

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.models import model
from tests.support.onnx.mutants import mutant
from tests.support.tolerance import assert_close


def small() -> ModelProto:
    """A product and an activation."""
    nodes = [make_node("MatMul", ["x", "w"], ["a"], name="product"), make_node("Softmax", ["a"], ["y"], name="act", axis=-1)]
    return model(nodes, {"x": [2, 3]}, ["y"], constants={"w": np.ones((3, 4), np.float32)})


def changed(change: Callable[[ModelProto], object]) -> ModelProto:
    built = small()
    change(built)
    return built


def _deep(built: ModelProto) -> None:
    inner = GraphProto(name="inner")
    inner.output.add(name="x")
    for _ in range(20):
        outer = GraphProto(name="outer")
        outer.node.append(make_node("If", ["x"], ["z"], then_branch=inner, else_branch=GraphProto(name="e")))
        outer.output.add(name="z")
        inner = outer
    built.graph.node.append(make_node("If", ["x"], ["z"], then_branch=inner, else_branch=GraphProto(name="e")))


def _external(location: str, **entries: str) -> Callable[[ModelProto], None]:
    def change(built: ModelProto) -> None:
        tensor = built.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            tensor.external_data.add(key=key, value=value)

    return change


def _functions(*calls: tuple[str, str]) -> Callable[[ModelProto], None]:
    def change(built: ModelProto) -> None:
        for name, called in calls:
            body = [make_node(called, [f"v{step}"], [f"v{step + 1}"], domain="own") for step in range(4)]
            built.functions.append(make_function("own", name, ["v0"], ["v4"], body, [make_opsetid("own", 1), make_opsetid("", 21)]))
        built.opset_import.append(make_opsetid("own", 1))
        built.graph.node.append(make_node(calls[0][0], ["x"], ["f"], domain="own"))

    return change


REFUSED: list[tuple[str, Callable[[ModelProto], object], str, str]] = [
    ("a circle", lambda built: built.graph.node[0].input.__setitem__(0, "y"), "onnx.name", "these form a circle"),
    ("a circle of one", lambda built: built.graph.node[0].input.__setitem__(0, "a"), "onnx.name", "these form a circle"),
    ("a name of nothing", lambda built: built.graph.node[0].input.__setitem__(0, "z"), "onnx.name", "'z', expected an input"),
    ("a name twice", lambda built: built.graph.node[1].output.__setitem__(0, "a"), "onnx.name", "'a', expected a name that nothing else"),
    ("an output of nothing", lambda built: built.graph.output.add(name="q"), "onnx.name", "'q', expected a value that the graph makes"),
    ("an input twice", lambda built: built.graph.input.add(name="x"), "onnx.name", "expected a name that no other one has"),
    (
        "an operator of a later opset",
        lambda built: setattr(built.graph.node[0], "op_type", "RMSNormalization"),
        "onnx.operator",
        "from opset 23 on",
    ),
    ("an unknown operator", lambda built: setattr(built.graph.node[0], "op_type", "MatMull"), "onnx.operator", "MatMull"),
    (
        "an operator of dmlpy's own domain",
        lambda built: built.graph.node.append(make_node("QLinearAdd", ["x"] * 8, ["q"], domain="dmlpy")),
        "onnx.operator",
        "'dmlpy.QLinearAdd', expected an operator of another domain",
    ),
    ("an input too few", lambda built: built.graph.node[0].input.pop(), "onnx.count", "product.inputs is 1, expected 2"),
    (
        "an attribute of another type",
        lambda built: built.graph.node[1].attribute[0].__setattr__("type", AttributeProto.FLOAT),
        "onnx.attribute",
        "act.axis",
    ),
    ("an unknown attribute", lambda built: built.graph.node[1].attribute[0].__setattr__("name", "axes"), "onnx.attribute", "act.axes"),
    (
        "a reference",
        lambda built: built.graph.node[1].attribute[0].__setattr__("ref_attr_name", "k"),
        "onnx.attribute",
        "the node is in no function",
    ),
    ("bytes too few", lambda built: setattr(built.graph.initializer[0], "raw_data", b"1234"), "onnx.tensor", "4 bytes, expected 48 bytes"),
    ("a negative size", lambda built: built.graph.initializer[0].dims.__setitem__(0, -3), "onnx.tensor", "each 0 or more"),
    ("a giant", lambda built: built.graph.initializer[0].dims.__setitem__(0, 2**62), "onnx.tensor", "w.raw_data is 48 bytes, expected"),
    ("an unknown type", lambda built: setattr(built.graph.initializer[0], "data_type", 99), "onnx.type", "w.data_type is 99"),
    (
        "a map of unknown keys",
        lambda built: setattr(built.graph.input.add(name="m").type.map_type, "key_type", 999),
        "onnx.type",
        "m.type is a map with keys of type 999",
    ),
    (
        "a map of unknown values",
        lambda built: built.graph.input.add(name="m", type=make_map_type_proto(7, make_tensor_type_proto(999, None))),
        "onnx.type",
        "m.type is 999",
    ),
    (
        "two fields of data",
        lambda built: built.graph.initializer[0].float_data.append(1) or built.graph.initializer[0].ClearField("raw_data"),
        "onnx.tensor",
        "1 entries, expected 12",
    ),
    ("no opset", lambda built: built.ClearField("opset_import"), "onnx.opset", "opset_import is empty"),
    ("two versions of a domain", lambda built: built.opset_import.append(make_opsetid("", 9)), "onnx.opset", "each domain in one version"),
    ("an opset of the future", lambda built: setattr(built.opset_import[0], "version", 999), "onnx.opset", "install a newer version"),
    ("no graph", lambda built: built.ClearField("graph"), "onnx.protobuf", "a model's graph"),
    ("bodies in bodies", _deep, "onnx.size", "bodies within each other"),
    ("a function that calls itself", _functions(("f", "g"), ("g", "f")), "onnx.function", "recursive"),
    ("functions that grow", _functions(*((f"f{n}", f"f{n + 1}") for n in range(12))), "onnx.limit", "nodes, including those of functions"),
    (
        "a call of too many inputs",
        lambda built: _functions(("f", "Relu"))(built) or built.graph.node[-1].input.append("x"),
        "onnx.count",
        "f_2.inputs is 2, expected at most 1, as the function has",
    ),
    (
        "an empty tensor of huge sizes",
        lambda built: built.graph.initializer.add(name="e", data_type=1, dims=[0, 2**62, 2**62]),
        "onnx.size",
        "e.dims is [0, 4611686018427387904, 4611686018427387904], expected sizes whose product",
    ),
    (
        "an empty input of huge sizes",
        lambda built: [built.graph.input[0].type.tensor_type.shape.dim.add(dim_value=size) for size in (2**39, 2**39)],
        "onnx.size",
        "expected sizes whose product",
    ),
    (
        "an empty sparse tensor of huge sizes",
        lambda built: built.graph.sparse_initializer.append(
            make_sparse_tensor(make_tensor("s", 1, [0], []), make_tensor("i", 7, [0], []), [0, 2**62, 2**62])
        ),
        "onnx.size",
        "expected sizes whose product",
    ),
    (
        "a sparse tensor of many zeros",
        lambda built: built.graph.sparse_initializer.append(
            make_sparse_tensor(make_tensor("s", 1, [1], [1.0]), make_tensor("i", 7, [1], [0]), [2**20, 2**20])
        ),
        "onnx.tensor",
        "sizes of at most",
    ),
    (
        "an index beyond",
        lambda built: built.graph.sparse_initializer.append(
            make_sparse_tensor(make_tensor("s", 1, [1], [1.0]), make_tensor("i", 7, [1], [9]), [2])
        ),
        "onnx.tensor",
        "indices below [2]",
    ),
]


@pytest.mark.parametrize(("change", "code", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_wrong_is_reported(change: Callable[[ModelProto], object], code: str, text: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        onnx.load(changed(change))
    assert code in {problem.code for problem in caught.value.problems}
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("location", "entries", "text"),
    [
        ("weights.bin", {}, None),
        ("below/weights.bin", {"offset": "16", "length": "48"}, None),
        ("/etc/passwd", {}, "a relative path below"),
        ("../weights.bin", {}, "a relative path below"),
        ("below/../../weights.bin", {}, "a relative path below"),
        ("C:\\weights.bin", {}, "a relative path below"),
        ("link.bin", {}, "not a link out of it"),
        ("below", {}, "a file below"),
        ("missing.bin", {}, "a file that can be read"),
        ("pointer.bin", {}, "a pointer of Git LFS, expected the file itself"),
        ("weights.bin", {"offset": "4"}, "44 bytes, expected 48 bytes"),
        ("weights.bin", {"offset": "4", "length": "48"}, "at least 52 bytes"),
        ("weights.bin", {"offset": "-4"}, "a number of bytes"),
        ("", {}, "a relative path below"),
    ],
)
def test_external_data_lies_below_the_folder(tmp_path: Path, location: str, entries: dict[str, str], text: str | None) -> None:
    folder = tmp_path / "model"
    (folder / "below").mkdir(parents=True)
    data = np.arange(12, dtype=np.float32).tobytes()
    (folder / "weights.bin").write_bytes(data)
    (folder / "below" / "weights.bin").write_bytes(bytes(16) + data)
    (tmp_path / "weights.bin").write_bytes(data)
    (folder / "pointer.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 48\n")
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    path = folder / "model.onnx"
    path.write_bytes(changed(_external(location, **entries)).SerializeToString())
    if text is None:
        loaded = onnx.load(path).loaded
        np.testing.assert_array_equal(loaded.array(loaded.proto.graph.initializer[0]).ravel(), np.arange(12))
        return
    with pytest.raises(dml.DescError, match=r"onnx\.(external|tensor)") as caught:
        onnx.load(path)
    assert text in str(caught.value)


def test_bytes_have_no_folder() -> None:
    with pytest.raises(dml.DescError, match="load the model from its file"):
        onnx.load(changed(_external("weights.bin")).SerializeToString())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "empty, expected"),
        (b"\xff\xff", "not an ONNX model"),
        (small().SerializeToString()[:-40], "not an ONNX model"),
        (b"{}", "format='json'"),
        (b"\n ir_version: 9\n", "format='textproto'"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (b"\n<!DOCTYPE html>\n<html>", "a page of HTML"),
        (b"<?xml version='1.0'?>", "OpenVINO"),
        (b"PK\x03\x04\x14\x00", "a ZIP archive"),
        (b"PK\x03\x04" + bytes(22) + b"\x0a\x00\x00\x00m/data.pkl", "torch.onnx.export"),
        (b"PK\x03\x04" + bytes(22) + b"\x0d\x00\x00\x00metadata.json", "a model of Keras"),
        (b"PK\x03\x04" + bytes(22) + b"\x05\x00\x00\x00a.npy", "arrays of NumPy"),
        (b'\x40\x00\x00\x00\x00\x00\x00\x00{"__metadata__":{"dmlpy.keras":"{}"}}', "load_model(path).to_graph()"),
        (b"\x80\x02\x8a\nl\xfc", "a pickle"),
        (b"\x1f\x8b\x08\x00", "gzip.decompress"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x20\x00\x00\x00ORTM", "ONNX Runtime's own format"),
        (b"\x1c\x00\x00\x00TFL3", "TensorFlow Lite"),
        (b"GGUF\x03\x00\x00\x00", "a model of llama.cpp"),
        (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'", "an array of NumPy"),
        (b'\x12\x00\x00\x00\x00\x00\x00\x00{"__metadata__":{}}', "arrays in a safetensors file"),
    ],
)
def test_other_files_are_told_apart(data: bytes, text: str) -> None:
    with pytest.raises(dml.DescError, match=re.escape(text)):
        onnx.load(data)


def _reversed_nodes(graph: GraphProto) -> None:
    nodes = list(graph.node)[::-1]
    del graph.node[:]
    graph.node.extend(nodes)


@pytest.mark.parametrize("place", ["graph", "body", "file"])
def test_nodes_out_of_order_are_sorted(place: str, tmp_path: Path) -> None:
    """As ONNX Runtime takes them, whose converter to FLOAT16 makes such models; the caller's model stays as it is."""
    nodes = [make_node("Neg", ["x"], ["a"]), make_node("Relu", ["a"], ["b"]), make_node("Mul", ["b", "a"], ["c"])]
    x, weights = np.float32([[-2, 3, -4]]), np.ones((300, 300) if place == "file" else (1, 1), np.float32)
    last = make_node("Add", ["c", "w"], ["y"])
    given = model([*nodes, last], {"x": [1, 3]}, ["y"], constants={"w": weights[:1, :1]})
    if place == "body":
        body = make_graph([*nodes, last], "body", [], [make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])])
        _reversed_nodes(body)
        outer = [make_node("If", ["t"], ["z"], then_branch=body, else_branch=body), make_node("Greater", ["s", "zero"], ["t"])]
        outer += [make_node("Abs", ["z"], ["a"])]  # the bodies have another value of this name
        given = model(outer, {"x": [1, 3], "s": []}, ["z"], constants={"w": weights, "zero": np.float32(0)})
    else:
        _reversed_nodes(given.graph)
    before = given.SerializeToString()
    source: Any = given
    if place == "file":
        given.graph.initializer.append(numpy_helper.from_array(np.ones((600, 600), np.float32), "large"))
        given.graph.node.insert(0, make_node("ReduceMax", ["large"], ["unread"]))
        source, before = tmp_path / "model.onnx", given.SerializeToString()
        source.write_bytes(before)
    feeds = {"x": x, **({"s": np.float32(1)} if place == "body" else {})}
    (found,) = onnx.load(source).compile("numpy")(feeds).values()
    np.testing.assert_array_equal(found, np.maximum(-x, 0) * -x + 1)
    assert given.SerializeToString() == before


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(dml.DescError, match="a file that can be read"):
        onnx.load(tmp_path / "missing.onnx")


def test_giants_are_not_folded() -> None:
    sizes = np.array([2**15, 2**15])
    nodes = [
        make_node("ConstantOfShape", ["s"], ["a"], name="zeros"),
        make_node("Expand", ["one", "s"], ["b"], name="spread"),
        make_node("Add", ["row", "column"], ["c"], name="sum"),
        make_node("Relu", ["x"], ["y"]),
    ]
    constants = {
        "s": sizes,
        "one": np.ones(1, np.float32),
        "row": np.ones((1, 2**15), np.float32),
        "column": np.ones((2**15, 1), np.float32),
    }
    records = onnx.load(model(nodes, {"x": [2]}, ["y"], constants=constants)).interpretation().records
    assert all(record.where != "folded" for record in records)


def test_what_is_held_is_bounded() -> None:
    nodes = [make_node("Neg", ["w"], ["a"]), make_node("Neg", ["a"], ["b"]), make_node("Neg", ["b"], ["y"])]
    built = model(nodes, {}, ["y"], constants={"w": np.ones(20, np.float32)})
    records = onnx.load(built, limits=onnx.Limits(bytes=200)).interpretation().records
    assert [record.where for record in records] == ["folded", "folded", "directml"]


def test_a_sparse_initializer_is_a_constant_with_zeros() -> None:
    built = model([make_node("Mul", ["x", "s"], ["y"])], {"x": [2, 3]}, ["y"])
    built.graph.sparse_initializer.append(
        make_sparse_tensor(make_tensor("s", 1, [2], [5.0, 7.0]), make_tensor("i", 7, [2], [1, 5]), [2, 3])
    )
    result = onnx.load(built).compile("numpy")({"x": np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(result["y"], [[0, 5, 0], [0, 0, 7]])


def test_functions_of_the_model_are_inlined() -> None:
    built = model([make_node("Twice", ["x"], ["y"], domain="own")], {"x": [3]}, ["y"], domains={"own": 1})
    body = [make_node("Add", ["a", "a"], ["b"])]
    built.functions.append(make_function("own", "Twice", ["a"], ["b"], body, [make_opsetid("", 21)]))
    assert isinstance(built.functions[0], FunctionProto)
    result = onnx.load(built).compile("numpy")({"x": np.arange(3, dtype=np.float32)})
    np.testing.assert_array_equal(result["y"], [0, 2, 4])


@pytest.mark.parametrize(
    ("opset", "body", "refusal"),
    [
        (20, [make_node("Shape", ["a"], ["s"]), make_node("Reshape", ["a", "s"], ["b"])], None),  # 21 has more types
        (10, [make_node("Relu", ["a"], ["r"]), make_node("Cast", ["r"], ["b"], to=1)], None),  # 19 has saturate, for FLOAT8
        (11, [make_node("Softmax", ["a"], ["b"], axis=0)], "functions['Own'] is Softmax of opset 11, expected the operator of opset 21"),
        (12, [make_node("ReduceSum", ["a"], ["b"], axes=[0])], "functions['Own'] is ReduceSum of opset 12"),
        (17, [make_node("Gelu", ["a"], ["b"])], "functions['Own'] is Gelu of opset 17"),
        (999, [make_node("Relu", ["a"], ["b"])], "functions['Own'].opset_import is 999, expected 1 to "),
    ],
)
def test_a_function_may_import_another_version_of_the_same_operators(opset: int, body: list[Any], refusal: str | None) -> None:
    """As ONNX's checker has it; ONNX Runtime 1.32.0 takes the model's version also where it is another operator."""
    call = make_node("Own", ["x"], ["y"], domain="own")
    built = model([call], {"x": [3]}, ["y"], domains={"own": 1})
    built.functions.append(make_function("own", "Own", ["a"], ["b"], body, [make_opsetid("", opset)]))
    if refusal is not None:
        with pytest.raises(dml.DescError, match=re.escape(refusal)):
            onnx.load(built)
        return
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(onnx.load(built).compile("numpy")({"x": x})["y"], x)


def test_functions_of_one_name_are_told_apart_by_their_overload() -> None:
    calls = [make_node("Own", ["x"], ["m"], domain="own", overload="a"), make_node("Own", ["m"], ["y"], domain="own", overload="b")]
    built = model(calls, {"x": [3]}, ["y"], domains={"own": 1})
    for overload, operator in (("a", "Neg"), ("b", "Exp")):
        own = make_function("own", "Own", ["a"], ["b"], [make_node(operator, ["a"], ["b"])], [make_opsetid("", 21)], overload=overload)
        built.functions.append(own)
    x = np.arange(3, dtype=np.float32)
    assert_close(onnx.load(built).compile("numpy")({"x": x})["y"], np.exp(-x), np.float32)


def test_a_call_without_an_attribute_has_the_function_s_default() -> None:
    """Which onnx 1.23.2's inliner drops; also in a branch, in another function, and where that hands on an attribute that it lacks."""
    inner = make_node("LeakyRelu", ["a"], ["b"])
    inner.attribute.add(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    call = make_node("Own", ["x"], ["taken"], domain="own")
    branch = make_graph([call], "branch", [], [make_tensor_value_info("taken", TensorProto.FLOAT, [2])])
    nodes = [
        make_node("If", ["flag"], ["m"], then_branch=branch, else_branch=branch),
        make_node("Own", ["m"], ["n"], domain="own", slope=0.5),
        make_node("Twice", ["n"], ["o"], domain="own"),
        make_node("Handing", ["o"], ["p"], domain="own"),
        make_node("Handing", ["p"], ["y"], domain="own", bend=0.125),
    ]
    handing = make_node("Own", ["a"], ["b"], domain="own")
    handing.attribute.add(name="slope", ref_attr_name="bend", type=AttributeProto.FLOAT)
    built = model(nodes, {"x": [2], "flag": []}, ["y"], types={"flag": TensorProto.BOOL}, domains={"own": 1})
    imports = [make_opsetid("", 21), make_opsetid("own", 1)]
    built.functions.append(make_function("own", "Own", ["a"], ["b"], [inner], imports, attribute_protos=[make_attribute("slope", 0.25)]))
    built.functions.append(make_function("own", "Twice", ["a"], ["b"], [make_node("Own", ["a"], ["b"], domain="own")], imports))
    built.functions.append(make_function("own", "Handing", ["a"], ["b"], [handing], imports, attributes=["bend"]))
    for flag in (True, False):
        result = onnx.load(built).compile("numpy")({"x": np.array([-64, 3], np.float32), "flag": np.array(flag)})
        np.testing.assert_array_equal(result["y"], [-64 * 0.25 * 0.5 * 0.25 * 0.25 * 0.125, 3])


def test_each_callee_of_an_attribute_that_is_left_out_has_its_own_default() -> None:
    """Two functions' and an operator's, also where a function between hands it on; ONNX Runtime gives the same."""

    def handing(operator: str, result: str, name: str, outer: str, domain: str = "") -> Any:
        node = make_node(operator, ["a"], [result], domain=domain)
        node.attribute.add(name=name, ref_attr_name=outer, type=AttributeProto.FLOAT)
        return node

    calls = [
        handing("Steep", "p", "slope", "bend", "own"),
        handing("Flat", "q", "slope", "bend", "own"),
        handing("LeakyRelu", "r", "alpha", "bend"),
    ]
    imports = [make_opsetid("", 21), make_opsetid("own", 1)]
    nodes = [make_node("Over", ["x"], ["m"], domain="own"), make_node("All", ["m"], ["n"], domain="own", bend=0.25)]
    built = model([*nodes, make_node("All", ["n"], ["y"], domain="own")], {"x": [2]}, ["y"], domains={"own": 1})
    for name, slope in (("Steep", 0.5), ("Flat", 0.125)):
        own = [make_attribute("slope", slope)]
        built.functions.append(
            make_function("own", name, ["a"], ["b"], [handing("LeakyRelu", "b", "alpha", "slope")], imports, attribute_protos=own)
        )
    summed = [*calls, make_node("Sum", ["p", "q", "r"], ["b"])]
    built.functions.append(make_function("own", "All", ["a"], ["b"], summed, imports, attributes=["bend"]))
    built.functions.append(
        make_function("own", "Over", ["a"], ["b"], [handing("All", "b", "bend", "bow", "own")], imports, attributes=["bow"])
    )
    defaults = 0.5 + 0.125 + 0.01
    result = onnx.load(built).compile("numpy")({"x": np.array([-64, 1], np.float32)})["y"]
    assert_close(result, np.array([-64 * defaults * 0.75 * defaults, 27], np.float32), np.float32)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_function_gives_way_to_the_operator_of_its_name(domain: str) -> None:
    """ONNX leaves it to runtimes which of both a node is; ONNX Runtime takes the operator, too."""
    built = model([make_node("Relu", ["x"], ["m"]), make_node("Own", ["m"], ["y"])], {"x": [2]}, ["y"])
    for name, operator in (("Relu", "Neg"), ("Own", "Neg")):
        own = make_function(domain, name, ["a"], ["b"], [make_node(operator, ["a"], ["b"])], [make_opsetid("", 21)])
        built.functions.append(own)
    result = onnx.load(built).compile("numpy")({"x": np.array([-2, 3], np.float32)})["y"]
    np.testing.assert_array_equal(result, [0, -3])


def test_a_function_whose_output_is_its_input_is_refused() -> None:
    built = model([make_node("Own", ["x"], ["y"], domain="own")], {"x": [3]}, ["y"], domains={"own": 1})
    built.functions.append(make_function("own", "Own", ["a"], ["a"], [make_node("Neg", ["a"], ["b"])], [make_opsetid("", 21)]))
    with pytest.raises(
        dml.DescError, match=re.escape("functions['Own'] is 'a', an input and an output, expected outputs that its nodes make")
    ):
        onnx.load(built)


@pytest.mark.parametrize("places", [[1, 4], [[0, 1], [1, 1]]], ids=["by number", "by place"])
def test_a_sparse_constant_is_made_dense(places: list[Any]) -> None:
    sparse = make_sparse_tensor(numpy_helper.from_array(np.array([5, 7], np.float32)), numpy_helper.from_array(np.array(places)), [2, 3])
    nodes = [make_node("Constant", [], ["k"], sparse_value=sparse), make_node("Add", ["x", "k"], ["y"])]
    result = onnx.load(model(nodes, {"x": [2, 3]}, ["y"])).compile("numpy")({"x": np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(result["y"], [[1, 6, 1], [1, 8, 1]])


def test_a_function_may_import_a_domain_that_the_model_does_not() -> None:
    built = model([make_node("Own", ["x"], ["y"], domain="own")], {"x": [3]}, ["y"], domains={"own": 1})
    body = [make_node("QuickGelu", ["a"], ["b"], domain="com.microsoft", alpha=1.0)]
    built.functions.append(make_function("own", "Own", ["a"], ["b"], body, [make_opsetid("com.microsoft", 1)]))
    x = np.arange(3, dtype=np.float32)
    assert_close(onnx.load(built).compile("numpy")({"x": x})["y"], x / (1 + np.exp(-x)), np.float32)


def _survives(seed: int) -> str | None:
    """What a damaged model raises other than dmlpy's errors."""
    try:
        loaded = onnx.load(mutant(Random(seed)))
        loaded.report()
        loaded.report(like="onnxruntime")
        if not any(record.where == "nowhere" for record in loaded.interpretation().records):
            loaded.compile("numpy")
    except dml.DmlError:
        return None
    except Exception as error:
        return f"{seed}: {type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(250, 20_250, 250))])
def test_damaged_models_raise_nothing_else(first: int, untrusted_models: None) -> None:
    assert [text for seed in range(first, first + 250) if (text := _survives(seed))] == []
