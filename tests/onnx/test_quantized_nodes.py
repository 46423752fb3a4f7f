"""Elements of 4 bits in models, and quantization at low feature levels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from onnx import helper as onnx_helper
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.models import Array, model

RNG = np.random.default_rng(4)
NUMBERS = (RNG.standard_normal((3, 5)) * 4).astype(np.float32)


@pytest.mark.parametrize(("element", "dtype"), [(TensorProto.INT4, ml_dtypes.int4), (TensorProto.UINT4, ml_dtypes.uint4)])
def test_elements_of_4_bits_go_into_graphs_and_come_out(element: int, dtype: type) -> None:
    """An odd number of elements, quantized in a graph, given out, and given back in."""
    least, most = (-8, 7) if element == TensorProto.INT4 else (0, 15)
    nodes = [make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]), make_node("DequantizeLinear", ["p", "scale", "zero"], ["y"])]
    found = onnx.load(
        model(
            nodes,
            {"x": [3, 5], "p": [3, 5]},
            ["q", "y"],
            types={"p": element, "q": element},
            constants={"scale": np.float32(0.7), "zero": np.asarray(3, dtype)},
        )
    )
    assert {record.where for record in found.interpretation().records} == {"directml"}
    given: Array = RNG.integers(least, most + 1, (3, 5)).astype(dtype)
    result = found.compile("numpy")({"x": NUMBERS, "p": given})
    assert result["q"].dtype == dtype
    np.testing.assert_array_equal(result["q"].astype(int), np.clip(np.rint(NUMBERS / np.float32(0.7)) + 3, least, most))
    np.testing.assert_allclose(result["y"], (given.astype(np.float32) - 3) * np.float32(0.7), rtol=1e-6)


@pytest.mark.parametrize("level", ["5_0", "6_4"])
def test_quantization_without_a_zero_point_at_any_level(level: str) -> None:
    nodes = [make_node("QuantizeLinear", ["x", "scale"], ["q"]), make_node("DequantizeLinear", ["q", "scale"], ["y"])]
    found = onnx.load(model(nodes, {"x": [3, 5]}, ["y"], constants={"scale": np.float32(0.1)}))
    records = found.interpretation(level).records
    assert [record.where for record in records] == ["directml", "directml"]
    levels = [record.level for record in records if record.level is not None]
    assert max(levels) <= dml.FeatureLevel.FL_5_0 or level == "6_4"
    expected = np.clip(np.rint(NUMBERS / np.float32(0.1)), 0, 255) * np.float32(0.1)
    np.testing.assert_allclose(found.compile("numpy", level)({"x": NUMBERS})["y"], expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [1, -3])
@pytest.mark.parametrize("is_known", [False, True])
def test_one_scale_has_no_axis(axis: int, is_known: bool) -> None:
    """A scale [1] is one for all elements, whatever the axis: ONNX Runtime's quantizer and optimizer write that for biases."""
    nodes = [
        make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=axis),
        make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=axis),
    ]
    constants = {"scale": np.float32([0.5]), "zero": np.int8([3])}
    numbers = NUMBERS[0]
    given = model(nodes, {} if is_known else {"x": [5]}, ["y"], constants={**constants, **({"x": numbers} if is_known else {})})
    found = onnx.load(given).compile("numpy")({} if is_known else {"x": numbers})["y"]
    np.testing.assert_array_equal(found, np.clip(np.rint(numbers / np.float32(0.5)), -131, 124) * np.float32(0.5))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, ml_dtypes.uint4, ml_dtypes.int4])
def test_blocks_without_zero_points_have_zero(dtype: type) -> None:
    """With SCALE alone DirectML's zero point is 128 or 8 for unsigned types, ONNX's is 0."""
    scales = np.array([[0.5, 2.0]], np.float32)
    least, most = (
        (-8, 7) if dtype is ml_dtypes.int4 else (0, 15) if dtype is ml_dtypes.uint4 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    )
    element = onnx_helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        make_node("QuantizeLinear", ["x", "scale"], ["q"], axis=1, block_size=2, output_dtype=element),
        make_node("DequantizeLinear", ["p", "scale"], ["y"], axis=1, block_size=2),
    ]
    types = {"p": element, "q": element}
    found = onnx.load(model(nodes, {"x": [1, 4], "p": [1, 4]}, ["q", "y"], types=types, constants={"scale": scales}, opset=21))
    assert {record.where for record in found.interpretation().records} == {"directml"}
    given: Array = np.array([[least, most, 1, 3]]).astype(dtype)
    result = found.compile("numpy")({"x": np.array([[0.5, -1.0, 7.0, 300.0]], np.float32), "p": given})
    assert result["q"].astype(int).tolist() == [[1, max(-2, least), 4, min(150, most)]]
    np.testing.assert_array_equal(result["y"], given.astype(np.float32) * np.repeat(scales, 2, 1))


@pytest.mark.parametrize("single", ["w_zero", "w_scale"])
def test_a_convolution_with_one_parameter_for_each_channel_and_one_for_all(single: str) -> None:
    """DirectML refuses such a QUANTIZED_LINEAR_CONVOLUTION: ONNX Runtime's tests of it fail there with an invalid parameter."""
    x, w = RNG.integers(0, 256, (1, 2, 4, 4), np.uint8), RNG.integers(-128, 128, (3, 2, 1, 1), np.int8)
    each: dict[str, Any] = {"w_scale": np.array([0.5, 0.25, 2.0], np.float32), "w_zero": np.array([3, -4, 0], np.int8)}
    each[single] = each[single][0]
    one = {"x_scale": np.float32(0.1), "x_zero": np.uint8(7), "y_scale": np.float32(4.0), "y_zero": np.uint8(99), "w": w}
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"]
    types = {"x": TensorProto.UINT8, "y": TensorProto.UINT8}
    found = onnx.load(model([make_node("QLinearConv", names, ["y"])], {"x": [1, 2, 4, 4]}, ["y"], types=types, constants=one | each))
    (record,) = found.interpretation().records
    assert record.where == "directml"
    scale, zero = (np.broadcast_to(each[name], 3).astype(np.float64) for name in ("w_scale", "w_zero"))
    sums = np.einsum("ncij,mc->nmij", x.astype(np.float64) - 7, w[:, :, 0, 0] - zero[:, None]) * 0.1 * scale[:, None, None]
    expected = np.clip(np.rint(sums / 4.0) + 99, 0, 255)
    assert np.abs(found.compile("numpy")({"x": x})["y"] - expected).max() <= 1  # 0.1 is rounded to FLOAT32: ties may go the other way


def test_blocks_of_4_bits_of_unequal_sizes_are_refused() -> None:
    node = make_node("QuantizeLinear", ["x", "scale"], ["q"], axis=1, block_size=2, output_dtype=TensorProto.INT4)
    built = model([node], {"x": [3, 5]}, ["q"], types={"q": TensorProto.INT4}, constants={"scale": np.ones((3, 3), np.float32)}, opset=23)
    (record,) = onnx.load(built).interpretation().records
    assert (record.where, record.problems[0].code) == ("host", "onnx.sizes")
