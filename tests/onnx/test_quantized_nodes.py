"""Elements of 4 bits in models, and quantization at low feature levels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx_models import Array, model

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


def test_blocks_of_4_bits_of_unequal_sizes_are_refused() -> None:
    node = make_node("QuantizeLinear", ["x", "scale"], ["q"], axis=1, block_size=2, output_dtype=TensorProto.INT4)
    built = model([node], {"x": [3, 5]}, ["q"], types={"q": TensorProto.INT4}, constants={"scale": np.ones((3, 3), np.float32)}, opset=23)
    (record,) = onnx.load(built).interpretation().records
    assert (record.where, record.problems[0].code) == ("host", "onnx.sizes")
