"""ONNX models of FLOAT32 in other types: FLOAT16 throughout, or quantized to INT8 as ONNX Runtime does it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

TYPES = ("FLOAT32", "FLOAT16", "INT8", "QLINEAR", "DYNAMIC")
"""INT8 has QuantizeLinear and DequantizeLinear about products, QLINEAR quantized operators, and DYNAMIC quantizes values as it runs."""
_CONVERTED = {"INT8": "QuantizeLinear", "QLINEAR": "QuantizeLinear", "DYNAMIC": "DynamicQuantizeLinear"}
"""An operator that each quantized model has."""
CALIBRATIONS = 4
"""The random inputs from which the ranges of quantized values are taken."""

Model = Any
"""A ModelProto: onnx has no types."""


def in_type(model: Model, dtype: str) -> Model | None:
    """The model in another type; None where quantizing it changes nothing, as in recurrent layers."""
    if dtype == "FLOAT32":
        return model
    return halved(model) if dtype == "FLOAT16" else quantized(model, dtype)


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


def quantized(model: Model, dtype: str = "INT8") -> Model | None:
    """The model in one of the quantized types. What has a convolution is not quantized dynamically: ONNX Runtime would not be faster."""
    import onnx
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        plain, made = (str(Path(folder, name)) for name in ("plain.onnx", "made.onnx"))
        onnx.save(model, plain)
        signed, unsigned = quantization.QuantType.QInt8, quantization.QuantType.QUInt8
        if dtype == "DYNAMIC":
            if any(node.op_type == "Conv" for node in model.graph.node):
                return None
            quantization.quantize_dynamic(plain, made, weight_type=signed, op_types_to_quantize=["MatMul"])
        else:
            form = quantization.QuantFormat.QDQ if dtype == "INT8" else quantization.QuantFormat.QOperator
            kinds = {"activation_type": unsigned, "weight_type": signed}
            quantization.quantize_static(plain, made, _Inputs(model), quant_format=form, per_channel=False, **kinds)
        found = onnx.load(made)
    return found if any(node.op_type == _CONVERTED[dtype] for node in found.graph.node) else None
