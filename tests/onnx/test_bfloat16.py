"""Models of BFLOAT16: where their nodes run, their results against FLOAT64, ONNX Runtime's conversions, and exported graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, numpy_helper
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx, x
from tests.support.onnx.exports import checked, graph_of
from tests.support.onnx.models import model
from tests.support.operators.bfloat16_cases import BFLOAT16, USUAL, Array, tensor
from tests.support.tables import table
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(17)
_BF, _DOUBLE = TensorProto.BFLOAT16, TensorProto.DOUBLE
SIZES = {"x": (2, 3, 6, 7), "w": (4, 3, 3, 3), "s": (7,)}


def numbers(*sizes: int) -> Array:
    return RNG.standard_normal(sizes).astype(BFLOAT16)


def results(nodes: list[NodeProto], element: int, given: dict[str, Array], device: Any, **options: Any) -> tuple[Array, onnx.Report]:
    """The output `y` of nodes whose floats are of a type, and the report on them."""
    dtype = BFLOAT16 if element == _BF else np.dtype(np.float64)
    floats = {name for name, array in given.items() if array.dtype == BFLOAT16}
    held = {name: array.astype(dtype) if name in floats else array for name, array in given.items()}
    constants = {name: array for name, array in held.items() if name not in ("x", "n")}
    inputs = {name: array for name, array in held.items() if name not in constants}
    types = {**{name: element for name in inputs if name in floats}, "y": element, **({"n": TensorProto.INT64} if "n" in inputs else {})}
    built = onnx.load(
        model(nodes, {name: array.shape for name, array in inputs.items()}, ["y"], types=types, constants=constants, opset=22)
    )
    with np.errstate(all="ignore"):
        return built.compile(device, **options)(inputs)["y"], built.report(**options)


def check(nodes: list[NodeProto], device: Any = "numpy", **more: Array) -> None:
    """All nodes run on the device, and give what FLOAT64 gives."""
    names = dict.fromkeys(name for node in nodes for name in node.input)
    given = {name: numbers(*SIZES[name]) for name in names if name in SIZES} | more
    found, report = results(nodes, _BF, given, device)
    assert {node.where for node in report.nodes} <= {"directml", "folded"}, report
    assert report.lowest_level is None
    assert any("none has BFLOAT16" in line for line in report.summary())
    assert found.dtype == BFLOAT16
    assert_close(found, results(nodes, _DOUBLE, given, "numpy")[0], BFLOAT16, what=nodes[-1].op_type)


@pytest.mark.parametrize("device", ["numpy", pytest.param("cpu", marks=pytest.mark.slow)])
def test_a_network_runs_on_a_device(device: str) -> None:
    chain = [
        make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        make_node("Relu", ["a"], ["b"]),
        make_node("LayerNormalization", ["b", "s"], ["c"], axis=-1),
        make_node("MatMul", ["c", "m"], ["d"]),
        make_node("Softmax", ["d"], ["y"]),
    ]
    check(chain, device, m=numbers(7, 5))


NODES = {
    "Pow": (make_node("Pow", ["x", "n"], ["y"]), {"n": np.asarray([2], np.int64)}),
    "Clip": (make_node("Clip", ["x", "low", "high"], ["y"]), {"low": numbers(), "high": np.asarray(1.5, BFLOAT16)}),
    "Sign": (make_node("Sign", ["x"], ["y"]), {}),
    "Pad": (make_node("Pad", ["x", "p", "v"], ["y"]), {"p": np.asarray([0, 0, 1, 2, 0, 0, 0, 1]), "v": np.asarray(0.5, BFLOAT16)}),
    "Resize": (make_node("Resize", ["x", "", "f"], ["y"], mode="linear"), {"f": np.asarray([1, 1, 1.5, 2], np.float32)}),
    "Mod": (make_node("Mod", ["x", "s"], ["y"], fmod=1), {}),
}


@table("name", NODES)
def test_a_node_gives_what_float64_gives(name: str) -> None:
    node, more = NODES[name]
    check([node], **more)


def test_below_the_latest_level_and_on_directml_none_run() -> None:
    given = {"x": numbers(2, 3)}
    found, report = results([make_node("Relu", ["x"], ["y"])], _BF, given, "numpy", feature_level="6_3")
    np.testing.assert_array_equal(found, np.maximum(given["x"], 0))
    assert [node.where for node in report.nodes] == ["host"]
    assert "DirectML has no BFLOAT16 at any feature level" in str(report)
    assert "remedy: feature level 6_4, the latest, runs it, on dmlpy's devices alone" in str(report)
    built = model([make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, ["y"], types={"x": _BF, "y": _BF})
    assert [node.where for node in onnx.load(built).report(like="onnxruntime").nodes] == ["host"]


def test_the_bits_of_numbers_are_told_to_be_viewed() -> None:
    built = model([make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, ["y"], types={"x": _BF, "y": _BF})
    with pytest.raises(dml.BindError, match=r"view it: array\.view\(ml_dtypes\.bfloat16\)"):
        onnx.load(built).compile("numpy")({"x": numbers(2, 3).view(np.uint16)})


@pytest.mark.parametrize("level", ["6_4", "6_3"])
def test_a_loss_whose_definition_lacks_the_type_is_computed_as_in_float16(level: str) -> None:
    """ONNX defines SoftmaxCrossEntropyLoss by NegativeLogLikelihoodLoss and an old Where, which do not take BFLOAT16, as it does."""
    node = make_node("SoftmaxCrossEntropyLoss", ["x", "n", "w"], ["y"], reduction="mean", ignore_index=2)
    given = {"x": numbers(20, 700), "n": RNG.integers(0, 9, 20), "w": RNG.uniform(0.5, 1.5, 700).astype(BFLOAT16)}
    found, report = results([node], _BF, given, "numpy", feature_level=level)
    assert {node.where for node in report.nodes} == ({"directml", "folded"} if level == "6_4" else {"host"})
    assert_close(found, results([node], _DOUBLE, given, "numpy")[0], BFLOAT16)


def test_conversions_are_those_of_onnx_runtime() -> None:
    runtime = pytest.importorskip("onnxruntime")
    bits = np.arange(0, 1 << 16, dtype=np.uint32) * np.uint32(65521)
    given = bits.view(np.float32)[~np.isnan(bits.view(np.float32))]
    nodes = [
        make_node("Cast", ["x"], ["b"], to=_BF),
        make_node("Identity", ["b"], ["c"]),
        make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    built = model(nodes, {"x": given.shape}, ["y"])
    [expected] = runtime.InferenceSession(built.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": given})
    found = onnx.load(built).compile("cpu")({"x": given})["y"]
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


# exported graphs


@table("name", [name for name in USUAL if name != "attention"])
def test_an_exported_operator_computes_the_same(name: str) -> None:
    desc = USUAL[name]
    inputs = {slot.place: numbers(*slot.tensor.sizes) for slot in desc.input_slots() if slot.tensor is not None}
    graph = graph_of(desc)
    exported = checked(graph)
    assert {item.type.tensor_type.elem_type for item in (*exported.graph.input, *exported.graph.output)} == {_BF}
    [expected] = dml.compile(graph, "numpy")(**inputs).as_dict().values()
    [found] = onnx.load(exported).compile("numpy")(inputs).values()
    assert_close(found, expected.astype(np.float64), BFLOAT16, what=name)


def test_operators_that_the_opset_has_no_bfloat16_for_are_between_casts() -> None:
    kinds = {name: [node.op_type for node in checked(graph_of(USUAL[name])).graph.node] for name in ("convolution", "softmax")}
    assert kinds["softmax"] == ["Softmax"]
    assert kinds["convolution"].count("Cast") >= 3
    assert "Conv" in kinds["convolution"]


def test_constants_keep_their_type() -> None:
    weights = numbers(3, 4)
    graph = (
        x.input("data", [2, 3], "BFLOAT16") @ x.constant(weights)
        + x.fill_value_constant(value_data_type="BFLOAT16", value=0.3, output_sizes=[2, 4])
    ).graph()
    exported = checked(graph)
    held = [numpy_helper.to_array(item) for item in exported.graph.initializer if item.data_type == _BF]
    assert any(array.shape[-2:] == (3, 4) and np.array_equal(array.reshape(3, 4), weights) for array in held)
    data = numbers(2, 3)
    [found] = onnx.load(exported).compile("numpy")({"data": data}).values()
    assert_close(found, data.astype(float) @ weights.astype(float) + float(BFLOAT16.type(0.3)), BFLOAT16)
    assert tensor(2, 4).data_type is dml.DataType.BFLOAT16
