"""Weight lists in Keras 1's order and in later versions'; layers of Keras 3, PyTorch and ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, LSTM, Bidirectional, Dense, Sequential, SimpleRNN, TimeDistributed, from_keras
from dmlpy.keras.activations import of_rows
from dmlpy.keras.backend import Backend
from tests.support.keras.cases import DEVICES, built, case, keras_layer, names, run, trained
from tests.support.tables import table
from tests.support.tolerance import assert_close

INPUT, UNITS = 4, 3
MADE: dict[str, Callable[[], Any]] = {
    "SimpleRNN": lambda: SimpleRNN(UNITS),
    "GRU": lambda: GRU(UNITS),
    "GRU, reset after": lambda: GRU(UNITS, reset_after=True),
    "LSTM": lambda: LSTM(UNITS),
    "Bidirectional": lambda: Bidirectional(LSTM(UNITS)),
    "Bidirectional, reset after": lambda: Bidirectional(GRU(UNITS, reset_after=True)),
}


def layer(name: str) -> Any:
    made = built(MADE[name](), None, None, INPUT)
    rng = np.random.default_rng(2)
    made.set_weights([rng.standard_normal(array.shape) for array in made.get_weights()])
    return made


# lists


@pytest.mark.parametrize("order", ["keras1", "keras3"])
@pytest.mark.parametrize("name", MADE)
def test_round_trips(name: str, order: Any) -> None:
    first, second = layer(name), built(MADE[name](), None, None, INPUT, seed=9)
    second.set_weights(first.get_weights(order), order)
    for own, other in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(own.value, other.value)
        assert own.name == other.name
    for own, other in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(own, other)


def test_lists_are_copies() -> None:
    made = layer("SimpleRNN")
    kept = [array.copy() for array in made.get_weights()]
    for array in made.get_weights():
        array[...] = 0
    for array, expected in zip(made.get_weights(), kept, strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(("name", "first", "later"), [("GRU", "zrh", "zrh"), ("GRU, reset after", "zrh", "zrh"), ("LSTM", "icfo", "ifco")])
def test_orders(name: str, first: str, later: str) -> None:
    """Keras 1 lists W, U and b of each gate; later versions put the gates side by side."""
    made = layer(name)
    lists = made.get_weights()
    gates = {gate: lists[3 * index : 3 * index + 3] for index, gate in enumerate(first)}
    for index, whole in enumerate(made.get_weights("keras3")):
        np.testing.assert_array_equal(whole, np.concatenate([gates[gate][index] for gate in later], axis=-1))
    assert [array.shape for array in lists[:3]] == [(INPUT, UNITS), (UNITS, UNITS), (2, UNITS) if "after" in name else (UNITS,)]
    assert made.get_weights("keras3")[0].shape == (INPUT, len(first) * UNITS)


def test_gates_do_what_their_names_say() -> None:
    """An LSTM of one unit with one step: each gate is recognized by its part in the result."""
    lists = {gate: [np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1)] for gate in "icfo"}
    lists["i"][2][:], lists["c"][2][:], lists["o"][2][:] = 0.3, 0.4, -0.2
    made = LSTM(1, inner_activation="sigmoid", weights=[array for gate in "icfo" for array in lists[gate]])
    built(made, None, None, 1)

    def sigmoid(x: float) -> float:
        return float(1 / (1 + np.exp(-x)))

    cell = sigmoid(0.3) * np.tanh(0.4)
    assert run(made, np.ones((1, 1, 1)))[0, 0] == pytest.approx(sigmoid(-0.2) * np.tanh(cell), rel=1e-6)
    cell = sigmoid(0) * cell + cell
    assert run(made, np.ones((1, 2, 1)))[0, 0] == pytest.approx(sigmoid(-0.2) * np.tanh(cell), rel=1e-6)


def test_bidirectional_lists_the_forward_layer_first() -> None:
    both, single = layer("Bidirectional"), built(LSTM(UNITS), None, None, INPUT)
    single.set_weights(both.get_weights()[:12])
    x = np.random.default_rng(0).standard_normal((2, 5, INPUT)).astype(np.float32)
    assert_close(run(both, x)[:, :UNITS], run(single, x), np.float32, terms=UNITS)
    assert [weight.name for weight in both.weights] == [f"{way}_{name}" for way in ("forward", "backward") for name in "WUb"]


def test_weights_change_in_place() -> None:
    """Optimizers write into the arrays: the operators read those."""
    made = layer("LSTM")
    values = [weight.value for weight in made.weights]
    x = np.ones((1, 2, INPUT), np.float32)
    before = run(made, x)
    made.weights[2].value += 1
    assert (run(made, x) != before).any()
    made.set_weights(made.get_weights())
    assert all(weight.value is value for weight, value in zip(made.weights, values, strict=True))
    assert all(weight.value.flags.c_contiguous and weight.value.dtype == np.float32 for weight in made.weights)


@pytest.mark.parametrize(
    ("name", "change", "order", "expected"),
    [
        ("LSTM", lambda arrays: arrays[:-1], "keras1", [("weights", "weights.count", None)]),
        ("LSTM", lambda arrays: arrays, "keras3", [("weights", "weights.count", "set_weights(weights, order='keras1') fits")]),
        ("GRU", lambda arrays: arrays[:3], "keras1", [("weights", "weights.count", "set_weights(weights, order='keras3') fits")]),
        (
            "GRU, reset after",
            lambda arrays: [arrays[0].T, arrays[1], arrays[2][0], *arrays[3:]],
            "keras1",
            [("weights[0]", "weights.shape", None), ("weights[2]", "weights.shape", None)],
        ),
        ("Bidirectional", lambda arrays: [*arrays[:-1], arrays[0]], "keras1", [("weights[23]", "weights.shape", None)]),
        ("SimpleRNN", lambda arrays: arrays, "keras2", [("order", "field.form", None)]),
    ],
)
def test_lists_that_do_not_fit_change_nothing(name: str, change: Any, order: Any, expected: list[tuple[str, str, str | None]]) -> None:
    made = layer(name)
    kept = made.get_weights()
    with pytest.raises(dml.DescError) as caught:
        made.set_weights(change(kept), order)
    assert [(problem.path, problem.code, problem.remedy) for problem in caught.value.problems] == expected
    for array, before in zip(made.get_weights(), kept, strict=True):
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize(("missing", "found"), [(0, True), (1, False)])
def test_a_model_answers_for_the_arrays_of_later_versions(missing: int, found: bool) -> None:
    model = Sequential([LSTM(UNITS, input_shape=(2, INPUT)), Dense(2)], device="numpy")
    later = [*model.layers[0].get_weights("keras3"), *model.layers[1].get_weights()]
    with pytest.raises(dml.DescError, match=r"weights has \d arrays?, expected 14") as caught:
        model.set_weights(later[missing:])
    assert ("model.layers[0].set_weights(arrays, order='keras3')" in str(caught.value)) == found


def test_first_weights_that_do_not_fit() -> None:
    with pytest.raises(dml.DescError, match=r"expected 3: W, U, b"):
        built(SimpleRNN(UNITS, weights=[np.zeros(3)]), None, None, INPUT)


# Keras 3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", names(("keras_import_",)))
def test_from_keras(name: str, device: str) -> None:
    """Outputs, and gradients of the last batch, of a live layer's config and weights."""
    stored = case(name)
    mine = from_keras(keras_layer(stored))
    assert mine.input_shape is not None
    mine.build(mine.input_shape, Backend(device))
    options = mine.layer if isinstance(mine, Bidirectional) else mine
    assert not isinstance(options, TimeDistributed)
    options.dropout_W = options.dropout_U = 0.0  # Keras's results are those without training
    for training in (False, True):
        mine.reset_states()
        for x, y in stored.batches:
            if training:
                found = trained(mine, x, stored.mask, stored.inputs["output_backprop"])
            output = found.output if training else run(mine, x, stored.mask)
            assert_close(output, y, np.float32, terms=x[0].size, what=name)
    assert_close(found.input_gradient, stored.outputs["input_backprop"], np.float32, terms=x.size, what="input")
    for weight in mine.weights:
        weight.value[...] = weight.gradient  # to list the gradients as weights are
    for index, gradient in enumerate(mine.get_weights("keras3")):
        assert_close(gradient, stored.outputs[f"weight{index}_backprop"], np.float32, terms=x.size, what=f"weight {index}")


@pytest.mark.parametrize("name", ["simplernn_backwards", "gru", "gru_hard_sigmoid_last", "lstm_stateful", "bidirectional_gru_ave"])
def test_a_layer_of_keras_without_bias_has_one_of_zeros(name: str) -> None:
    """As one whose bias is zeros, of a `reset_after` GRU both of them."""
    stored = case(f"keras_import_{name}")
    plain, zeros = keras_layer(stored), keras_layer(stored)
    for theirs in [plain.forward_layer, plain.backward_layer] if name.startswith("bidirectional") else [plain]:
        own, weights = theirs.get_config() | {"use_bias": False}, theirs.get_weights()[:2]
        theirs.get_config, theirs.get_weights = (lambda own=own: own), (lambda weights=weights: weights)
    for theirs in [zeros.forward_layer, zeros.backward_layer] if name.startswith("bidirectional") else [zeros]:
        weights = [*theirs.get_weights()[:2], np.zeros_like(theirs.get_weights()[2])]
        theirs.get_weights = lambda weights=weights: weights
    found = []
    for theirs in (plain, zeros):
        mine = from_keras(theirs)
        assert mine.input_shape is not None
        mine.build(mine.input_shape, Backend("numpy"))
        found.append(run(mine, stored.inputs["x0"]))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("name", "change", "remedy"),
    [
        ("GRU, reset after", lambda bias: bias.reshape(-1), "weights[2].reshape(2, {width})"),
        ("LSTM", lambda bias: np.concatenate([bias, bias]), "weights[2][:{width}] + weights[2][{width}:]"),
        ("LSTM", lambda bias: np.stack([bias, bias]), "weights[2].sum(axis=0)"),
        ("GRU", lambda bias: np.concatenate([bias, bias]), "reset_after=True"),
        ("LSTM", lambda bias: bias[:-1], None),
    ],
)
def test_biases_of_layers_of_cudnn_are_known_by_their_sizes(name: str, change: Any, remedy: str | None) -> None:
    made = layer(name)
    kernel, recurrent, bias = made.get_weights("keras3")
    with pytest.raises(dml.DescError) as caught:
        made.set_weights([kernel, recurrent, change(bias)], "keras3")
    (problem,) = caught.value.problems
    assert problem.path == "weights[2]"
    assert problem.remedy is None if remedy is None else remedy.format(width=bias.shape[-1]) in (problem.remedy or "")


def test_from_keras_preserves_options() -> None:
    mine = from_keras(keras_layer(case("keras_import_lstm_zero_output")))
    assert isinstance(mine, LSTM)
    assert (mine.dropout_W, mine.dropout_U, mine.consume_less, mine.zero_output_for_mask) == (0.2, 0.1, "cpu", True)
    assert mine.activations[0] == dml.ActivationHardSigmoidDesc(alpha=1 / 6, beta=0.5)
    gru = from_keras(keras_layer(case("keras_import_gru")))
    assert isinstance(gru, GRU)
    assert (gru.reset_after, gru.consume_less, gru.return_sequences) == (True, "gpu", True)
    built(gru, None, None, 3)
    assert [(w.regularizer.l1, w.regularizer.l2) if w.regularizer else None for w in gru.weights] == [(0.01, 0.02), (0.0, 0.01), None]


@pytest.mark.parametrize(
    ("name", "config", "attributes", "paths"),
    [
        (
            "gru",
            {"bias_constraint": {"class_name": "NonNeg"}, "activity_regularizer": "l2"},
            {},
            ["activity_regularizer", "bias_constraint"],
        ),
        ("gru", {"activation": "silu", "kernel_constraint": {"class_name": "NonNeg"}}, {}, ["kernel_constraint", "activation"]),
        ("gru", {"recurrent_regularizer": {"class_name": "OrthogonalRegularizer", "config": {}}}, {}, ["recurrent_regularizer"]),
        ("gru", {}, {"compute_dtype": "float16"}, ["dtype"]),
        ("gru", {}, {"compute_dtype": "bfloat16"}, ["dtype"]),  # of the policy mixed_bfloat16, too
        ("gru", {}, {"built": False}, [""]),
        ("gru", {"time_major": False}, {}, [""]),
        ("bidirectional_gru_ave", {}, {"merge_mode": None}, ["merge_mode"]),
    ],
)
def test_from_keras_refuses_by_name(name: str, config: dict[str, Any], attributes: dict[str, Any], paths: list[str]) -> None:
    theirs = keras_layer(case(f"keras_import_{name}"))
    given = theirs.get_config() | config
    theirs.get_config = lambda: given
    theirs.__dict__.update(attributes)
    with pytest.raises(dml.DescError) as caught:
        from_keras(theirs)
    assert [problem.path for problem in caught.value.problems] == paths


KERAS_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "hard_shrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "soft_shrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
}
"""The functions of Keras 3 by their names, as its documentation defines them."""


@table("name", KERAS_FUNCTIONS)
def test_activations_of_keras_3_are_its_functions(name: str) -> None:
    """At numbers in between, at the corners, and far away."""
    x = np.concatenate([np.linspace(-4, 4, 33), [-3.0, 3.0, 60.0, -60.0]]).astype(np.float32)
    theirs = keras_layer(case("keras_import_gru"))
    given = theirs.get_config() | {"activation": name}
    theirs.get_config = lambda: given
    desc = from_keras(theirs).activations[1]
    found = dml.compile(of_rows(desc, (1, x.size)), device="numpy")(input_tensor=x[None])["output_tensor"]
    assert_close(found[0], KERAS_FUNCTIONS[name](x.astype(np.float64)), np.float32, terms=1, what=name)


@pytest.mark.parametrize(
    ("name", "words"),
    [("silu", "no activation that DirectML fuses into a recurrent layer computes silu"), ("leaky_rlu", "did you mean leaky_relu?")],
)
def test_an_activation_that_no_cell_applies_is_answered(name: str, words: str) -> None:
    theirs = keras_layer(case("keras_import_gru"))
    given = theirs.get_config() | {"activation": name}
    theirs.get_config = lambda: given
    with pytest.raises(dml.DescError) as caught:
        from_keras(theirs)
    assert words in str(caught.value)


def test_from_keras_takes_two_directions_of_one_layer_only() -> None:
    theirs = keras_layer(case("keras_import_bidirectional_gru_ave"))
    config = theirs.backward_layer.get_config() | {"activation": "relu"}
    theirs.backward_layer.get_config = lambda: config
    with pytest.raises(dml.DescError, match=r"backward_layer.activation is RELU, expected TANH, as of forward_layer"):
        from_keras(theirs)
    theirs.backward_layer = keras_layer(case("keras_import_lstm_stateful"))
    with pytest.raises(dml.DescError, match=r"backward_layer is an LSTM, expected a GRU"):
        from_keras(theirs)
    with pytest.raises(dml.DescError, match=r"an int, expected a layer of Keras 3"):
        from_keras(3)
    with pytest.raises(dml.DescError, match=r"a str, [^$]*remedy: load the file: from_keras\(keras\.saving\.load_model\(path\)\)"):
        from_keras("model.keras")
