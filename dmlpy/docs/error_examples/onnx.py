"""Errors of ONNX models: rejected models, and the reasons why a node does not run on DirectML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

import dmlpy as dml
from dmlpy import onnx
from dmlpy.docs.error_examples.example import shows

Sizes = Sequence[int | str]


def made_of(*nodes: NodeProto, types: Mapping[str, int] | None = None, opset: int = 21, **inputs: Sizes) -> ModelProto:
    """A model whose outputs are those of its last node."""
    known = types or {}
    given = [helper.make_tensor_value_info(name, known.get(name, TensorProto.FLOAT), sizes) for name, sizes in inputs.items()]
    results = [
        helper.make_tensor_value_info(name, known[name], None) if name in known else helper.make_empty_tensor_value_info(name)
        for name in nodes[-1].output
    ]
    return helper.make_model(helper.make_graph(nodes, "model", given, results), opset_imports=[helper.make_opsetid("", opset)])


def reasons(model: ModelProto, like: Any = "dmlpy") -> list[dml.Problem]:
    """Why nodes of a model do not run on DirectML, or are not fused into its graphs."""
    return [problem for node in onnx.load(model).report(like=like).nodes for problem in (*node.problems, *node.alone)]


relu = helper.make_node("Relu", ["x"], ["y"], name="relu")


@shows("onnx.attribute")
def onnx_attribute() -> Any:
    onnx.load(made_of(helper.make_node("Relu", ["x"], ["y"], alpha=0.5), x=[2, 3]))


@shows("onnx.constant_input")
def onnx_constant_input() -> Any:
    reshape = helper.make_node("Reshape", ["x", "shape"], ["y"])
    return reasons(made_of(reshape, types={"shape": TensorProto.INT64}, x=[2, 3], shape=[2]))


@shows("onnx.count")
def onnx_count() -> Any:
    onnx.load(made_of(helper.make_node("Relu", ["x", "x"], ["y"]), x=[2, 3]))


@shows("onnx.cpu_preferred")
def onnx_cpu_preferred() -> Any:
    shape, size = helper.make_node("Shape", ["x"], ["s"]), helper.make_node("ReduceProd", ["s"], ["y"])
    return reasons(made_of(shape, size, x=["n", 3]), like="onnxruntime")


@shows("onnx.declared")
def onnx_declared() -> Any:
    return reasons(made_of(relu, types={"y": TensorProto.INT32}, x=[2, 3]))


@shows("onnx.dynamic")
def onnx_dynamic() -> Any:
    places = helper.make_node("NonZero", ["x"], ["places"])
    return reasons(made_of(places, helper.make_node("Cast", ["places"], ["y"], to=TensorProto.FLOAT), x=[2, 3]))


@shows("onnx.empty")
def onnx_empty() -> Any:
    return reasons(made_of(relu, x=[0, 3]), like="onnxruntime")


@shows("onnx.export")
def onnx_export() -> Any:
    g = dml.GraphBuilder()
    state, numbers = (dml.TensorDesc(data_type="UINT32", sizes=[1, 1, 1, count]) for count in (6, 8))
    generated = g.add(dml.RandomGeneratorDesc, input_state_tensor=g.input("state", state), output_tensor=numbers, type="PHILOX_4X32_10")
    g.output("y", generated)
    onnx.export(g.build())


@shows("onnx.external")
def onnx_external() -> Any:
    weights = TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="../weights.bin")
    model = made_of(helper.make_node("Add", ["x", "w"], ["y"]), x=[2, 3])
    model.graph.initializer.append(weights)
    onnx.load(model)


@shows("onnx.function")
def onnx_function() -> Any:
    model = made_of(helper.make_node("Twice", ["x"], ["y"], domain="mine"), x=[2, 3])
    again = helper.make_node("Twice", ["x"], ["y"], domain="mine")
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.functions.append(helper.make_function("mine", "Twice", ["x"], ["y"], [again], [helper.make_opsetid("mine", 1)]))
    onnx.load(model)


@shows("onnx.graph")
def onnx_graph() -> Any:
    return reasons(made_of(helper.make_node("Sum", ["x", "x", "x"], ["y"]), x=[2, 3]), like="onnxruntime")


@shows("onnx.host")
def onnx_host() -> Any:
    title = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="TITLE")
    onnx.load(made_of(title, types={"x": TensorProto.STRING}, x=[2])).compile("numpy")({"x": np.array(["a", "b"], object)})


@shows("onnx.inputs")
def onnx_inputs() -> Any:
    onnx.load(made_of(relu, x=[2, 3])).compile("numpy")({"x": np.zeros((2, 4), np.float32)})


@shows("onnx.invalid")
def onnx_invalid() -> Any:
    reshape = helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = onnx.load(made_of(reshape, types={"shape": TensorProto.INT64}, x=[2, 3], shape=[2]))
    model.compile("numpy")({"x": np.zeros((2, 3), np.float32), "shape": np.array([4, 2])})


@shows("onnx.kernel")
def onnx_kernel() -> Any:
    return reasons(made_of(helper.make_node("Det", ["x"], ["y"]), x=[3, 3]))


@shows("onnx.like")
def onnx_like() -> Any:
    onnx.load(made_of(relu, x=[2, 3])).report(like="openvino")


@shows("onnx.limit")
def onnx_limit() -> Any:
    onnx.load(made_of(relu, x=[2, 3]), limits=onnx.Limits(nodes=0))


@shows("onnx.missing")
def onnx_missing() -> Any:
    onnx.load(made_of(helper.make_node("MatMul", ["x", ""], ["y"]), x=[2, 3]))


@shows("onnx.name")
def onnx_name() -> Any:
    onnx.load(made_of(helper.make_node("Relu", ["z"], ["y"]), x=[2, 3]))


@shows("onnx.operator")
def onnx_operator() -> Any:
    onnx.load(made_of(helper.make_node("ReLU", ["x"], ["y"]), x=[2, 3]))


@shows("onnx.opset")
def onnx_opset() -> Any:
    onnx.load(made_of(relu, opset=999, x=[2, 3]))


@shows("onnx.output")
def onnx_output() -> Any:
    normalization = helper.make_node("LayerNormalization", ["x", "scale"], ["y", "mean"])
    return reasons(made_of(normalization, x=[2, 3], scale=[3]), like="onnxruntime")


@shows("onnx.sizes")
def onnx_sizes() -> Any:
    onnx.load(made_of(relu, x=["batch", 3]), sizes={"bath": 4})


@shows("onnx.tensor")
def onnx_tensor() -> Any:
    weights = TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT, raw_data=bytes(8))
    model = made_of(helper.make_node("Add", ["x", "w"], ["y"]), x=[2, 3])
    model.graph.initializer.append(weights)
    onnx.load(model)


@shows("onnx.type")
def onnx_type() -> Any:
    return reasons(made_of(helper.make_node("Identity", ["x"], ["y"], name="copy"), types={"x": TensorProto.COMPLEX64}, x=[2, 3]))
