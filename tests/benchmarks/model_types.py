"""ONNX models of FLOAT32 in other types: FLOAT16 throughout, or quantized to INT8 as ONNX Runtime does it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

TYPES = ("FLOAT32", "FLOAT16", "INT8")
CALIBRATIONS = 4
"""The random inputs from which the ranges of quantized values are taken."""

Model = Any
"""A ModelProto: onnx has no types."""


def in_type(model: Model, dtype: str) -> Model | None:
    """The model in another type; None where quantizing it changes nothing, as in recurrent layers."""
    if dtype == "FLOAT32":
        return model
    return halved(model) if dtype == "FLOAT16" else quantized(model)


def halved(model: Model) -> Model:
    """The model with weights, inputs, outputs and casts of FLOAT16 in the place of FLOAT32."""
    from onnx import ModelProto, TensorProto, numpy_helper

    made = ModelProto()
    made.CopyFrom(model)
    constants = [attribute.t for node in made.graph.node if node.op_type == "Constant" for attribute in node.attribute]
    for weight in (*made.graph.initializer, *constants):
        if weight.data_type == TensorProto.FLOAT:
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).astype(np.float16), weight.name))
    for value in (*made.graph.input, *made.graph.output, *made.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for node in made.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    return made


class _Inputs:
    """What ONNX Runtime reads the inputs from that it runs a model with, to see its ranges."""

    def __init__(self, model: Model) -> None:
        [given] = model.graph.input
        sizes = [size.dim_value for size in given.type.tensor_type.shape.dim]
        rng = np.random.default_rng(3)
        self._left = [{given.name: rng.standard_normal(sizes, np.float32)} for _ in range(CALIBRATIONS)]

    def get_next(self) -> dict[str, Any] | None:
        return self._left.pop() if self._left else None


def quantized(model: Model) -> Model | None:
    """The model with QuantizeLinear and DequantizeLinear about its products and convolutions."""
    import onnx
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        plain, made = (str(Path(folder, name)) for name in ("plain.onnx", "made.onnx"))
        onnx.save(model, plain)
        kinds = {"activation_type": quantization.QuantType.QUInt8, "weight_type": quantization.QuantType.QInt8}
        quantization.quantize_static(plain, made, _Inputs(model), quant_format=quantization.QuantFormat.QDQ, per_channel=False, **kinds)
        found = onnx.load(made)
    return found if any(node.op_type == "QuantizeLinear" for node in found.graph.node) else None
