"""Models as a whole: what becomes of nodes, partitions, sizes that are open, and runs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.models import model

WEIGHTS = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)


def mixed_model() -> onnx.Model:
    """A product, a shape that is folded, a node that only the host runs, and nodes behind it."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["a"], name="product"),
        make_node("Relu", ["a"], ["b"], name="act"),
        make_node("Shape", ["b"], ["s"], name="shape"),
        make_node("Reshape", ["b", "s"], ["c"], name="view"),
        make_node("Unique", ["c"], ["u"], name="unique"),
        make_node("Transpose", ["c"], ["t"], name="turn"),
        make_node("Mul", ["t", "t"], ["y"], name="square"),
    ]
    return onnx.load(model(nodes, {"x": ["n", 3]}, ["y", "u"], constants={"w": WEIGHTS}), sizes={})


def test_open_sizes_are_listed_and_bound_by_a_call() -> None:
    found = mixed_model()
    (problem,) = found.interpretation().records[0].problems
    assert (problem.code, problem.remedy) == ("onnx.dynamic", "pass sizes for 'n'")
    compiled = found.compile("numpy")
    for count in (4, 2):
        x = np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)
        product = np.maximum(x @ WEIGHTS, 0)
        result = compiled({"x": x})
        np.testing.assert_allclose(result["y"], np.square(product.T), rtol=1e-5)
        np.testing.assert_allclose(result["u"], np.unique(product), rtol=1e-5, atol=1e-6)


def test_each_node_has_its_place() -> None:
    found = onnx.load(mixed_model().loaded.proto, sizes={"n": 4})
    records = {record.name: record for record in found.interpretation().records}
    assert {name: (record.where, record.operators) for name, record in records.items()} == {
        "product": ("directml", ("GEMM",)),
        "act": ("directml", ("ACTIVATION_RELU",)),
        "shape": ("folded", ()),
        "view": ("directml", ()),
        "unique": ("host", ()),
        "turn": ("directml", ()),
        "square": ("directml", ("ELEMENT_WISE_MULTIPLY",)),
    }
    assert records["act"].level == dml.FeatureLevel.FL_1_0
    assert records["unique"].problems[0].code == "onnx.kernel"
    (graph,) = found.graphs
    assert graph.input_names == ("x", "w")
    assert graph.output_names == ("c", "y")


def test_messages_name_the_node() -> None:
    graph = onnx.load(mixed_model().loaded.proto, sizes={"n": 4}).graphs[0]
    assert "from ONNX node 'act'" in str(graph.check("1_0")[0]) or graph.check("1_0")
    names = [node.name for node in graph.nodes]
    assert names == ["product/gemm", "act/activation_relu", "square/multiply"]


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({}, "x is not given"),
        ({"X": np.zeros((4, 3), np.float32)}, "did you mean x"),
        ({"x": np.zeros((4, 3), np.float64)}, "x is float64, expected float32"),
        ({"x": np.zeros((4, 2), np.float32)}, "of sizes [4, 2]"),
    ],
)
def test_wrong_inputs_are_refused(inputs: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]], text: str) -> None:
    with pytest.raises(dml.BindError, match=text.replace("[", r"\[")):
        mixed_model().compile("numpy")(inputs)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"sizes": {"m": 2}}, "neither a symbol nor an input"),
        ({"sizes": {"n": -1}}, "expected a size"),
        ({"sizes": {"x": [4]}}, "sizes that the input has"),
        ({"constants": {"z": 1}}, "no input"),
    ],
)
def test_wrong_sizes_are_refused(arguments: dict[str, dict[str, object]], text: str) -> None:
    with pytest.raises(dml.DescError, match=text):
        onnx.load(mixed_model().loaded.proto, **arguments)


def test_a_chosen_branch_takes_the_place_of_if() -> None:
    branches = {
        name: model([make_node(operator, ["x"], ["y"])], {}, ["y"]).graph
        for name, operator in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    nodes = [make_node("If", ["condition"], ["z"], name="choice", **branches)]
    built = model(nodes, {"x": [2, 2], "condition": []}, ["z"], types={"condition": TensorProto.BOOL})
    x = np.array([[1, -2], [3, -4]], np.float32)
    for condition, expected in ((True, np.maximum(x, 0)), (False, -x)):
        found = onnx.load(built, constants={"condition": np.bool_(condition)})
        assert [record.name for record in found.interpretation().records] == [f"choice/{'Relu' if condition else 'Neg'}_0"]
        np.testing.assert_array_equal(found.compile("numpy")({"x": x})["z"], expected)


def test_a_domain_may_be_imported_twice_at_one_version() -> None:
    built = model([make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"])
    built.opset_import.append(built.opset_import[0])
    found = onnx.load(built).compile("numpy")({"x": np.asarray([-1, 1], np.float32)})
    np.testing.assert_array_equal(found["y"], [0, 1])


@pytest.mark.parametrize("level", ["1_0", "2_0"])
@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_levels_without_graphs_run_operators_one_by_one(device: str, level: str) -> None:
    nodes = [
        make_node("Conv", ["x", "w"], ["a"], name="conv"),
        make_node("Relu", ["a"], ["b"], name="act"),
        make_node("Reshape", ["b", "s"], ["c"], name="view"),
        make_node("Split", ["c"], ["d", "e"], name="parts", axis=1, num_outputs=2),
        make_node("Softmax", ["d"], ["f"], name="scores"),
        make_node("Erf", ["d"], ["g"], name="late"),
        make_node("Mul", ["f", "e"], ["y"], name="product"),
    ]
    rng = np.random.default_rng(5)
    constants = {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32), "s": np.array([0, -1])}
    found = onnx.load(model(nodes, {"x": ["n", 3, 5, 7]}, ["y", "g", "b"], constants=constants))
    x = rng.standard_normal((2, 3, 5, 7)).astype(np.float32)
    report = found.report(level)
    assert [node.name for node in report.nodes if node.where != "directml"] == (["late"] if level == "1_0" else [])
    assert {partition.place for partition in report.partitions} == ({"alone", "host"} if level == "1_0" else {"alone"})
    assert report.memory_bytes is not None
    low, latest = (found.compile(device, at)({"x": x}) for at in (level, "6_4"))
    for name in ("y", "g", "b"):
        np.testing.assert_allclose(low[name], latest[name], rtol=1e-5, atol=1e-6)
    graph = onnx.load(found.loaded.proto, sizes={"n": 2}).graphs[0]
    with pytest.raises(dml.CompileError, match="a graph at feature level"):
        dml.compile(graph, device, level)
