"""`from_onnx`: layers like ONNX's nodes, compared with ONNX Runtime's stored results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, LSTM, Bidirectional, SimpleRNN, from_onnx
from dmlpy.keras.backend import Backend
from tests.support.keras.cases import Array, case, names, run
from tests.support.tolerance import assert_close
from tests.support.tools import require

require("onnx")

import onnx
from onnx import helper, numpy_helper

INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
CASES = names(("onnx_rnn_", "onnx_lstm_", "onnx_gru_"))


def node_of(name: str, inputs: dict[str, Array], attributes: dict[str, Any], outputs: tuple[str, ...] = ("Y", "Y_h")) -> Any:
    given = [item if item in inputs else "" for item in INPUTS]
    while not given[-1]:
        del given[-1]
    return helper.make_node(name.split("_")[1].upper(), given, list(outputs), name=name, **attributes)


def expected_refusals(name: str) -> list[str]:
    stored = case(name)
    paths: list[str] = [item for item in ("initial_h", "initial_c", "sequence_lens", "P") if item in stored.inputs]
    paths += [item for item in ("input_forget", "clip") if item in stored.attributes]
    return paths + ["activations[2]"] * (name == "onnx_lstm_custom_acts")


EXPRESSIBLE = [name for name in CASES if not expected_refusals(name)]


def in_layer_order(sequence: Array, direction: str) -> Array:
    """Y, [T, D, B, H], as the layer gives it."""
    ours = sequence.transpose(2, 0, 1, 3).reshape(sequence.shape[2], sequence.shape[0], -1)
    return ours[:, ::-1] if direction == "reverse" else ours


def built(layer: Any) -> Any:
    layer.build(layer.input_shape, Backend("numpy"))
    return layer


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_nodes(name: str) -> None:
    stored = case(name)
    weights = {item: array for item, array in stored.inputs.items() if item != "X"}
    layer = built(from_onnx(node_of(name, stored.inputs, stored.attributes), weights))
    x = stored.inputs["X"].swapaxes(0, 1)
    expected = in_layer_order(stored.outputs["Y"], stored.attributes["direction"])
    assert_close(run(layer, x), expected, np.float32, terms=x[0].size, what=name)

    protos = [numpy_helper.from_array(array, item) for item, array in weights.items()]
    last = built(from_onnx(node_of(name, stored.inputs, stored.attributes, ("", "Y_h")), protos))
    y_h = stored.outputs["Y_h"].swapaxes(0, 1).reshape(len(x), -1)
    assert_close(run(last, x), y_h, np.float32, terms=x[0].size, what=name)


@pytest.mark.parametrize("name", [name for name in EXPRESSIBLE if name.endswith("_bidi_nobias")])
def test_a_reverse_node_is_the_second_half_of_one_of_both_directions(name: str) -> None:
    stored = case(name)
    inputs = {item: array if item == "X" else array[1:] for item, array in stored.inputs.items()}
    layer = built(from_onnx(node_of(name, inputs, stored.attributes | {"direction": "reverse"}), inputs))
    expected = in_layer_order(stored.outputs["Y"][:, 1:], "reverse")
    assert_close(run(layer, inputs["X"].swapaxes(0, 1)), expected, np.float32, terms=inputs["X"][0].size, what=name)


def test_each_function_takes_its_own_alpha() -> None:
    attributes = {"hidden_size": 2, "activations": ["HardSigmoid", "LeakyRelu"], "activation_alpha": [0.3, 0.05], "activation_beta": [0.4]}
    weights = {"W": np.ones((1, 6, 3), np.float32), "R": np.ones((1, 6, 2), np.float32)}
    layer = from_onnx(helper.make_node("GRU", ["X", "W", "R"], ["Y"], **attributes), weights)
    inner, outer = layer.activations  # type: ignore[union-attr]
    assert isinstance(inner, dml.ActivationHardSigmoidDesc)
    assert (inner.alpha, inner.beta) == pytest.approx((0.3, 0.4))
    assert isinstance(outer, dml.ActivationLeakyReluDesc)
    assert outer.alpha == pytest.approx(0.05)


def test_the_expressible_ones_are_most() -> None:
    assert len(EXPRESSIBLE) >= 20
    assert {name.split("_")[1] for name in EXPRESSIBLE} == {"rnn", "gru", "lstm"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in EXPRESSIBLE])
def test_refused_by_name(name: str) -> None:
    stored = case(name)
    with pytest.raises(dml.DescError) as caught:
        from_onnx(node_of(name, stored.inputs, stored.attributes), {item: array for item, array in stored.inputs.items() if item != "X"})
    assert [problem.path for problem in caught.value.problems] == expected_refusals(name)


@pytest.mark.parametrize("name", ["onnx_gru_bidi_linear_before_reset_lens", "onnx_rnn_reverse_lens", "onnx_lstm_bidi_lens"])
def test_lengths_as_a_mask_and_states_of_zero(name: str) -> None:
    """A mask in place of the lengths: the last outputs agree with a layer of the same weights over each sample's steps."""
    stored = case(name)
    zeros = {item: np.zeros_like(array) for item, array in stored.inputs.items() if item.startswith("initial")}
    weights = {item: array for item, array in (stored.inputs | zeros).items() if item != "sequence_lens"}
    layer = built(from_onnx(node_of(name, weights, stored.attributes), weights, return_sequences=False))
    x, lengths = stored.inputs["X"].swapaxes(0, 1), stored.inputs["sequence_lens"]
    found = run(layer, x, np.arange(x.shape[1]) < lengths[:, None])
    for sample, length in enumerate(lengths):
        alone = run(layer, x[sample : sample + 1, :length])
        assert_close(found[sample : sample + 1], alone, np.float32, terms=x[0].size)
    if not zeros:
        assert_close(found, stored.outputs["Y_h"].swapaxes(0, 1).reshape(len(x), -1), np.float32, terms=x[0].size)


def model(*nodes: Any, initializers: dict[str, Array]) -> Any:
    x = helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, [4, 2, 18])
    y = helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, None)
    tensors = [numpy_helper.from_array(array, name) for name, array in initializers.items()]
    return helper.make_model(helper.make_graph(list(nodes), "graph", [x], [y], tensors))


def test_models() -> None:
    """By name, or the only one; weights may be initializers or constants."""
    stored = case("onnx_gru_plain_0")
    node = node_of("onnx_gru_plain_0", stored.inputs, stored.attributes)
    weights = {item: array for item, array in stored.inputs.items() if item != "X"}
    constant = helper.make_node("Constant", [], ["W"], value=numpy_helper.from_array(weights["W"]))
    whole = model(node, initializers=weights)
    expected = in_layer_order(stored.outputs["Y"], "forward")
    x = stored.inputs["X"].swapaxes(0, 1)
    for source, name in [
        (whole, None),
        (whole, "onnx_gru_plain_0"),
        (whole.graph, None),
        (model(constant, node, initializers={item: array for item, array in weights.items() if item != "W"}), None),
    ]:
        assert_close(run(built(from_onnx(source, name)), x), expected, np.float32, terms=x[0].size)
    for source, name in [(whole, "gru"), (model(node, node, initializers=weights), None), (model(constant, initializers={}), None)]:
        with pytest.raises(dml.DescError) as caught:
            from_onnx(source, name)
        assert [problem.code for problem in caught.value.problems] == ["import.missing"]


def test_kinds() -> None:
    for name, kind in [
        ("onnx_rnn_plain_0", SimpleRNN),
        ("onnx_gru_plain_0", GRU),
        ("onnx_lstm_plain_0", LSTM),
        ("onnx_rnn_bidi_nobias", Bidirectional),
    ]:
        stored = case(name)
        found: Any = from_onnx(node_of(name, stored.inputs, stored.attributes), {item: stored.inputs[item] for item in stored.inputs})
        assert isinstance(found, kind)
    hard = case("onnx_gru_custom_acts")
    gru: Any = from_onnx(node_of("onnx_gru_custom_acts", hard.inputs, hard.attributes), hard.inputs)
    alpha = float(np.float32(0.2))  # ONNX's floats are of 32 bits
    assert gru.activations == [dml.ActivationHardSigmoidDesc(alpha=alpha, beta=0.5), dml.ActivationReluDesc()]


def test_a_node_whose_batch_is_first_is_the_same_layer() -> None:
    """The layer has the batch first in any case, and the weights do not know."""
    stored = case("onnx_gru_bidi_nobias")
    layers = [
        built(from_onnx(node_of("onnx_gru_bidi_nobias", stored.inputs, stored.attributes | {"layout": layout}), stored.inputs))
        for layout in (0, 1)
    ]
    x = stored.inputs["X"].swapaxes(0, 1)
    np.testing.assert_array_equal(run(layers[0], x), run(layers[1], x))


@pytest.mark.parametrize(
    ("attributes", "without", "path"),
    [
        ({"layout": 2}, "", "layout"),
        ({"direction": "sideways"}, "", "direction"),
        ({"activations": ["Sigmoid"]}, "", "activations"),
        ({"activations": ["Sigmoid", "Swish"]}, "", "activations"),
        ({}, "W", "W"),
        ({}, "B", "B"),
    ],
)
def test_attributes_refused_by_name(attributes: dict[str, Any], without: str, path: str) -> None:
    stored = case("onnx_gru_plain_0")
    weights = {item: array for item, array in stored.inputs.items() if item != without}
    with pytest.raises(dml.DescError) as caught:
        from_onnx(node_of("onnx_gru_plain_0", stored.inputs, stored.attributes | attributes), weights)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_both_directions_have_the_same_activations() -> None:
    stored = case("onnx_gru_bidi_nobias")
    attributes = stored.attributes | {"activations": ["Sigmoid", "Tanh", "Sigmoid", "Relu"]}
    with pytest.raises(dml.DescError, match="the same for both directions"):
        from_onnx(node_of("onnx_gru_bidi_nobias", stored.inputs, attributes), stored.inputs)


def test_other_nodes() -> None:
    for source in (helper.make_node("Relu", ["X"], ["Y"]), 3):
        with pytest.raises(dml.DescError, match="expected a node of type RNN, GRU or LSTM"):
            from_onnx(source, {})
