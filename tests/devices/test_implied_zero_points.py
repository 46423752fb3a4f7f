"""QUANTIZE and DEQUANTIZE with a scale alone: the zero point is the middle of an unsigned type.

By ONNX Runtime 1.25: its DequantizeLinear makes a tensor of zeros for DirectML's, its MatMulNBits without zero points relies on 8.
"""

from __future__ import annotations

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import run

INTEGERS = {
    "UINT8": ([0, 127, 128, 255], [-64.0, -0.5, 0.0, 63.5]),
    "INT8": ([-128, -1, 0, 127], [-64.0, -0.5, 0.0, 63.5]),
    "UINT4": ([0, 7, 8, 15], [-4.0, -0.5, 0.0, 3.5]),
    "INT4": ([-8, -1, 0, 7], [-4.0, -0.5, 0.0, 3.5]),
}
"""Integers, and the numbers that they represent by a scale of 0.5."""


@pytest.mark.parametrize("data_type", INTEGERS)
def test_a_scale_alone_means_the_middle_of_the_type(any_device: dml.Device, data_type: str) -> None:
    integers, numbers = INTEGERS[data_type]
    whole = dml.TensorDesc(data_type=data_type, sizes=[1, 4])
    stored = np.array([integers], "int8" if data_type.startswith("I") else "uint8")
    real = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 4])
    common = {"quantization_type": "SCALE", "quantization_tensors": [real.replace(sizes=[1, 1])]}
    scale = {"quantization_tensors[0]": np.full((1, 1), 0.5, np.float32)}
    back = dml.DequantizeDesc(input_tensor=whole, output_tensor=real, **common)
    np.testing.assert_array_equal(run(back, {"input_tensor": stored, **scale}, any_device)["output_tensor"], [numbers])
    there = dml.QuantizeDesc(input_tensor=real, output_tensor=whole, **common)
    found = run(there, {"input_tensor": np.array([numbers], np.float32), **scale}, any_device)["output_tensor"]
    np.testing.assert_array_equal(found, stored)


def test_results_are_rounded_and_held_in_range(any_device: dml.Device) -> None:
    x = np.array([[-1, 0, 0.5, 1, -100, 100, np.nan]], np.float32)
    desc = dml.QuantizeDesc(
        input_tensor=dml.TensorDesc.of(x),
        quantization_type="SCALE",
        quantization_tensors=[dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1])],
        output_tensor=dml.TensorDesc(data_type="UINT8", sizes=[1, 7]),
    )
    found = run(desc, {"input_tensor": x, "quantization_tensors[0]": np.full((1, 1), 0.1, np.float32)}, any_device)["output_tensor"]
    assert found.tolist() == [[118, 128, 133, 138, 0, 255, 128]]
