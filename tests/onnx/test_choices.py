"""Nodes of which ONNX's text, its reference implementation and ONNX Runtime disagree: dmlpy gives what ONNX Runtime gives.

It does so whether their sizes are known, come late, or all is known before the model runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto
from onnx.helper import make_node
from onnx.helper import np_dtype_to_tensor_dtype as onnx_type

from dmlpy import onnx
from tests.support.onnx.hidden_sizes import as_initializers, behind_compress
from tests.support.onnx.models import model
from tests.support.onnx.stored_nodes import StoredNode, stored_nodes
from tests.support.tolerance import assert_close

CASES = stored_nodes("onnx_choices")
OPERATORS = sorted({case.operator for case in CASES})


def check(case: StoredNode, found: Mapping[str, Any], way: str) -> None:
    for index, expected in case.outputs.items():
        own, what = found[f"y{index}"], f"{case}, output {index}, {way}"
        own = own.view(np.uint8) if own.dtype == np.bool_ else own  # which the stored results have for truth values
        assert (own.dtype, own.shape) == (expected.dtype, expected.shape), what
        if expected.dtype.kind == "f":
            assert_close(own, expected, expected.dtype, terms=64, what=what)
        else:
            np.testing.assert_array_equal(own, expected, err_msg=what)


@pytest.mark.each_value
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("level", ["6_4", "3_0"])
def test_a_node_gives_what_onnx_runtime_gives(operator: str, level: str) -> None:
    for case in CASES:
        if case.operator != operator:
            continue
        found = case.model()
        if level == "6_4":  # the host runs what needs a higher level
            assert {record.where for record in found.interpretation().records} <= {"directml", "folded"}, case.name
        check(case, found.compile("numpy", level)(case.given()), f"at {level}")


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["ways in turn", "all ways"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_when_sizes_are_known_makes_no_difference(operator: str, every: bool) -> None:
    for number, case in enumerate(case for case in CASES if case.operator == operator):
        proto, given = case.model().loaded.proto, case.given()
        ways = (behind_compress, as_initializers) if proto.opset_import[0].version > 8 else (as_initializers,)
        for way in ways if every else [ways[number % len(ways)]]:
            own = ModelProto()
            own.CopyFrom(proto)
            hidden, inputs = way(own, given)
            check(case, onnx.load(hidden).compile("numpy")(inputs), way.__name__)


@pytest.mark.parametrize("across", [0, 1])
def test_axes_after_the_fourth_are_not_normalized_before_opset_9(across: int) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 1, 4, 2)).astype(np.float32)
    node = make_node("MeanVarianceNormalization", ["x"], ["y"], across_channels=across)
    found, parts = (onnx.load(model([node], {"x": shape}, ["y"], opset=8)).compile("numpy") for shape in (x.shape, x.shape[:4]))
    expected = np.stack([parts({"x": x[..., index]})["y"] for index in range(2)], axis=-1)
    assert_close(found({"x": x})["y"], expected, np.dtype(np.float32), terms=64)


@pytest.mark.parametrize("operator", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
def test_an_image_of_four_dimensions_is_pooled_whole(operator: str) -> None:
    """DirectML's windows have three at most."""
    x = np.random.default_rng(3).standard_normal((2, 3, 1, 4, 2, 3)).astype(np.float32)
    found = onnx.load(model([make_node(operator, ["x"], ["y"])], {"x": x.shape}, ["y"], opset=17))
    assert not found.report().fallbacks
    squares = np.sqrt((x.astype(np.float64) ** 2).sum((2, 3, 4, 5), keepdims=True))
    expected = {"Max": x.max((2, 3, 4, 5), keepdims=True), "Average": x.mean((2, 3, 4, 5), keepdims=True), "Lp": squares}
    assert_close(found.compile("numpy")({"x": x})["y"], expected[operator[6:-4]], np.float32, terms=24)


def test_a_margin_of_truth_values_may_be_known() -> None:
    x = np.array([[True, False, False]])
    constants = {"pads": np.array([1, 0, 0, 1], np.int64), "margin": np.array(True)}
    node, types = make_node("Pad", ["x", "pads", "margin"], ["y"]), {"x": TensorProto.BOOL, "y": TensorProto.BOOL}
    found = onnx.load(model([node], {"x": [1, 3]}, ["y"], opset=13, types=types, constants=constants)).compile("numpy")({"x": x})["y"]
    np.testing.assert_array_equal(found, [[True, True, True, True], [True, False, False, True]])


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("opset", [11, 21])
def test_a_window_that_begins_in_the_padding_counts_nowhere(operator: str, opset: int) -> None:
    """Up to opset 21 ONNX's inference counts it; what is made from the sizes has to know that it is left out."""
    nodes = [
        make_node(operator, ["x"], ["a"], name="pool", kernel_shape=[2], strides=[2], pads=[0, 1], ceil_mode=1),
        make_node("Shape", ["a"], ["s"], name="shape"),
        make_node("ConstantOfShape", ["s"], ["z"], name="zeros"),
        make_node("Add", ["a", "z"], ["y"], name="sum"),
    ]
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    found = onnx.load(model(nodes, {"x": [1, 1, 6]}, ["y", "s"], opset=opset, types={"s": TensorProto.INT64}))
    assert not found.report().fallbacks
    result = found.compile("numpy")({"x": x})
    np.testing.assert_array_equal(result["s"], [1, 1, 3])
    np.testing.assert_array_equal(result["y"], [[[1, 3, 5]]] if operator == "MaxPool" else [[[0.5, 2.5, 4.5]]])


def test_a_resized_tensor_has_the_sizes_that_others_read() -> None:
    """ONNX's inference takes 10 by 0.7 as 6 elements; PyTorch's exporter writes 7 next to it, and ONNX Runtime makes 7."""
    nodes = [
        make_node("Resize", ["x", "", "scales"], ["a"], name="resize", mode="linear"),
        make_node("Shape", ["a"], ["s"], name="shape"),
        make_node("Reshape", ["a", "s"], ["b"], name="view"),
        make_node("MatMul", ["b", "w"], ["y"], name="product"),
    ]
    w = np.random.default_rng(2).standard_normal((7, 3)).astype(np.float32)
    constants = {"scales": np.array([1, 1, 0.7], np.float32), "w": w}
    found = onnx.load(model(nodes, {"x": ["n", 2, 10]}, ["y"], opset=18, constants=constants)).compile("numpy")
    assert found({"x": np.ones((3, 2, 10), np.float32)})["y"].shape == (3, 2, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("level", ["1_0", "2_1", "6_4"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_an_index_passes_over_nan_at_any_level_and_in_any_type(operator: str, last: int, level: str, dtype: Any) -> None:
    """As DirectML does; NumPy has the place of the NaN, and ONNX Runtime that of one that comes first."""
    x = np.random.default_rng(5).integers(-3, 4, (20, 7)).astype(dtype)  # small integers: equal elements are frequent
    x[np.random.default_rng(6).random(x.shape) < 0.3] = np.nan
    x[:3, 0], x[3] = np.nan, 1
    assert np.isnan(x).any(axis=1).sum() > 10
    assert not np.isnan(x).all(axis=1).any()
    node = make_node(operator, ["x"], ["y"], name="index", axis=1, keepdims=0, select_last_index=last)
    types = {"x": int(onnx_type(np.dtype(dtype))), "y": TensorProto.INT64}
    found = onnx.load(model([node], {"x": [20, 7]}, ["y"], opset=17, types=types)).compile("numpy", level)({"x": x})["y"]
    plain = np.where(np.isnan(x), -np.inf, x) if operator == "ArgMax" else np.where(np.isnan(x), -np.inf, -x)
    expected = 6 - plain[:, ::-1].argmax(axis=1) if last else plain.argmax(axis=1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("size", "window", "stride"), [(8, 1, 3), (8, 2, 4), (7, 2, 4)])
def test_windows_further_apart_than_they_are_wide_begin_at_the_first_element(
    size: int, window: int, stride: int, mode: str, operator: str
) -> None:
    pool = make_node(operator, ["x"], ["y"], auto_pad=mode, kernel_shape=[window], strides=[stride])
    x = np.random.default_rng(3).random((1, 2, size), np.float32)
    found = onnx.load(model([pool], {"x": [1, 2, size]}, ["y"], opset=18)).compile("numpy")(x=x)["y"]
    windows = np.stack([x[..., start : start + window] for start in range(0, size, stride)], axis=2).astype(float)
    expected = {"MaxPool": windows.max(-1), "AveragePool": windows.mean(-1), "LpPool": np.sqrt((windows**2).sum(-1))}[operator]
    assert_close(found, expected, np.float32, terms=window)


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM", "ReverseSequence"])
def test_a_length_that_no_sequence_has_takes_all_steps(operator: str) -> None:
    rng, element = np.random.default_rng(5), TensorProto.INT64 if operator == "ReverseSequence" else TensorProto.INT32
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}.get(operator, 0)
    weights = {name: rng.standard_normal((1, gates * 2, 2), np.float32) for name in "wr" if gates}
    node = make_node(operator, ["x", *weights, *([""] if gates else []), "lengths"], ["y"], **({"hidden_size": 2} if gates else {}))
    run = onnx.load(model([node], {"x": [4, 3, 2], "lengths": [3]}, ["y"], types={"lengths": element}, constants=weights)).compile("numpy")
    x, dtype = rng.standard_normal((4, 3, 2), np.float32), np.int64 if operator == "ReverseSequence" else np.int32
    found, expected = (run(x=x, lengths=np.array(lengths, dtype))["y"] for lengths in ([9, -3, 2], [4, 4, 2]))
    np.testing.assert_array_equal(found, expected)
