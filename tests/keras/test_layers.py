"""SimpleRNN, GRU, LSTM and Bidirectional: Keras's results, the descs behind them, dropout, masks, states, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, LSTM, Adam, Bidirectional, Dense, Embedding, Recurrent, Sequential, SimpleRNN, TimeDistributed, l1l2, l2
from tests.support.keras.cases import DEVICES, LAYERS, Array, built, check_keras_case, names, run, trained
from tests.support.tolerance import assert_close

SMOOTH: dict[str, Callable[..., Recurrent]] = {
    "SimpleRNN": SimpleRNN,
    "GRU": lambda units, **more: GRU(units, inner_activation="sigmoid", **more),
    "GRU, reset after": lambda units, **more: GRU(units, inner_activation="sigmoid", reset_after=True, **more),
    "LSTM": lambda units, **more: LSTM(units, inner_activation="sigmoid", **more),
}
BATCH, STEPS, INPUT, UNITS = 3, 5, 4, 6


def sequences(*sizes: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(sizes or (BATCH, STEPS, INPUT)).astype(np.float32)


def some_mask(seed: int = 1) -> Array:
    """With leading masked steps, holes, and a sample of which nothing counts."""
    mask = np.random.default_rng(seed).random((BATCH, STEPS)) < 0.6
    mask[0, 0], mask[1], mask[2, -1] = False, False, False
    mask[0, 1] = mask[2, 0] = True
    return mask


def made(kind: Callable[..., Any], seed: int = 0, device: str = "numpy", **options: Any) -> Any:
    """A built layer, biases drawn too: zeros would hide what becomes of them."""
    layer = built(kind(UNITS, **options), BATCH, STEPS, INPUT, device=device, seed=seed)
    randomize(layer, seed)
    return layer


def randomize(layer: Any, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    layer.set_weights([0.6 * rng.standard_normal(array.shape) for array in layer.get_weights()])


# Keras's results


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", names(("keras_simplernn_", "keras_gru_", "keras_lstm_")))
def test_keras_cases(name: str, device: str) -> None:
    check_keras_case(name, device)


def test_all_keras_cases_are_here() -> None:
    assert len(names(("keras_simplernn_", "keras_gru_", "keras_lstm_"))) == 18


# gradients


@pytest.mark.parametrize("options", [{}, {"dropout_W": 0.4, "dropout_U": 0.3}, {"go_backwards": True, "dropout_U": 0.5}], ids=str)
@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("cell", SMOOTH)
def test_gradients_are_slopes(cell: str, return_sequences: bool, options: dict[str, Any]) -> None:
    """Of a loss that weights all outputs at random, along a random direction, by central differences."""
    layer = made(SMOOTH[cell], return_sequences=return_sequences, **options)
    x, mask, rng = sequences(), some_mask(), np.random.default_rng(3)
    upstream = np.asarray(rng.standard_normal(trained(layer, x, mask).output.shape), np.float32)
    found = trained(layer, x, mask, upstream)

    def loss(at: Array) -> float:
        return float((trained(layer, at, mask).output.astype(np.float64) * upstream).sum())

    step = 5e-3
    slopes = {}
    way = np.asarray(rng.standard_normal(x.shape), np.float32)
    slopes["x"] = (loss(x + step * way) - loss(x - step * way)) / (2 * step), float((found.input_gradient * way).sum())
    for weight in layer.weights:
        way = rng.standard_normal(weight.value.shape).astype(np.float32)
        before = weight.value.copy()
        values = []
        for sign in (1, -1):
            weight.value[...] = before + sign * step * way
            values.append(loss(x))
        weight.value[...] = before
        slopes[weight.name] = (values[0] - values[1]) / (2 * step), float((found.weight_gradients[weight.name] * way).sum())
    for name, (slope, expected) in slopes.items():
        assert slope == pytest.approx(expected, rel=5e-3, abs=5e-3), name
        assert expected != 0, name


def test_a_masked_sample_has_no_gradient() -> None:
    found = trained(made(LSTM, return_sequences=True), sequences(), some_mask())
    assert not found.input_gradient[1].any()
    assert not found.output[1].any()
    assert found.input_gradient[2, 0].any()


@pytest.mark.parametrize("cell", SMOOTH)
def test_the_same_seed_gives_the_same_bits(cell: str) -> None:
    first, second, other = (
        trained(made(SMOOTH[cell], dropout_W=0.5, dropout_U=0.5, return_sequences=True), sequences(), None, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.output, second.output)
    for name, gradient in first.weight_gradients.items():
        np.testing.assert_array_equal(gradient, second.weight_gradients[name])
    assert (first.output != other.output).any()


# descs


def test_descs_show_what_ran() -> None:
    layer = made(GRU, return_sequences=True)
    assert layer.descs == ()
    run(layer, sequences())
    (plain,) = layer.descs
    assert type(plain) is dml.GRUDesc
    assert dml.check(plain) == []
    # [B, T, ...] in memory, [1, T, B, I] and [T, 1, B, H] in the struct.
    assert plain.input_tensor.sizes == (1, STEPS, BATCH, INPUT)
    assert plain.input_tensor.element_strides[1:] == (INPUT, STEPS * INPUT, 1)
    assert plain.output_sequence_tensor is not None
    assert plain.output_sequence_tensor.element_strides == (UNITS, UNITS, STEPS * UNITS, 1)
    assert plain.output_single_tensor is None
    assert "DML_GRU_OPERATOR_DESC" in str(plain)

    trained(layer, sequences(), None)
    forward, gradient = layer.descs
    assert (type(forward), type(gradient)) == (dml.GRUTrainingDesc, dml.GRUGradDesc)
    assert forward.input_tensor == plain.input_tensor
    assert gradient.hidden_init_gradient_tensor is None
    assert gradient.output_single_gradient_tensor is None
    assert gradient.input_gradient_tensor is not None

    layer.input_gradient = False
    layer.forward(sequences(), None, training=True)
    assert layer.descs == (forward,)
    assert layer.backward(np.ones((BATCH, STEPS, UNITS), np.float32)) is None
    assert layer.descs[1].input_gradient_tensor is None
    assert layer.descs[1].weight_gradient_tensor is not None


def test_a_mask_takes_the_training_form_without_a_reserve() -> None:
    layer = made(LSTM)
    run(layer, sequences(), some_mask())
    (desc,) = layer.descs
    assert type(desc) is dml.LSTMTrainingDesc
    assert desc.step_mask_tensor is not None
    assert desc.reserve_tensor is None
    assert desc.output_sequence_tensor is None


def test_each_size_has_its_desc_once() -> None:
    layer = built(LSTM(UNITS, return_sequences=True), None, None, INPUT)
    descs = []
    for steps in (STEPS, 2, STEPS):
        run(layer, sequences(BATCH, steps, INPUT))
        descs.append(layer.descs[0])
    assert descs[0] is descs[2]
    assert descs[1].input_tensor.sizes == (1, 2, BATCH, INPUT)


# dropout


def test_one_mask_for_all_gates_and_steps() -> None:
    """With `gpu` all gates see the same inputs, at every step: the layer without dropout sees them too if they are multiplied before."""
    layer = made(LSTM, dropout_W=0.5, consume_less="gpu", return_sequences=True)
    x = sequences()
    found = trained(layer, x, None, seed=7)
    multipliers = np.where(np.random.default_rng(7).random((1, 1, BATCH, INPUT), np.float32) >= 0.5, np.float32(2), np.float32(0))[0, 0][
        :, None
    ]
    plain = trained(made(LSTM, return_sequences=True), x * multipliers, None)
    assert_close(found.output, plain.output, np.float32, terms=INPUT)
    assert_close(found.input_gradient, plain.input_gradient * multipliers, np.float32, terms=STEPS * UNITS)
    for name, gradient in plain.weight_gradients.items():
        assert_close(found.weight_gradients[name], gradient, np.float32, terms=STEPS * BATCH * UNITS, what=name)
    strides = layer.descs[0].input_dropout_tensor.element_strides
    assert strides[1] == 0

    apart = made(LSTM, dropout_W=0.5, consume_less="cpu", return_sequences=True)
    assert not np.allclose(trained(apart, x, None, seed=7).output, found.output)
    assert apart.descs[0].input_dropout_tensor.is_packed


@pytest.mark.parametrize(("rate", "name", "size"), [(0.25, "dropout_W", 40), (0.75, "dropout_U", 50)])
def test_dropout_keeps_its_share_and_the_mean(rate: float, name: str, size: int) -> None:
    layer = built(LSTM(50, **{name: rate}), 200, STEPS, 40)
    # Products of zeros with anything are zeros, so the multipliers are read where they go in.
    seen: dict[str, Any] = {}
    runs = layer.backend.run
    layer.backend.run = lambda desc, **tensors: seen.update(tensors) or runs(desc, **tensors)
    layer.forward(sequences(200, STEPS, 40), None, training=True)
    (dropped,) = (array for field, array in seen.items() if field.endswith("dropout_tensor"))
    assert dropped.shape == (1, 4, 200, size)
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(1 / (1 - rate))}
    assert dropped.mean() == pytest.approx(1, abs=0.05)


def test_without_training_nothing_is_dropped() -> None:
    np.testing.assert_array_equal(run(made(GRU, dropout_W=0.5, dropout_U=0.5), sequences()), run(made(GRU), sequences()))


@pytest.mark.parametrize("options", [{"unroll": True}, {"consume_less": "mem"}, {"consume_less": "gpu"}], ids=str)
def test_options_that_change_nothing(options: dict[str, Any]) -> None:
    plain, other = (trained(made(LSTM, **more), sequences(), some_mask()) for more in ({}, options))
    np.testing.assert_array_equal(plain.output, other.output)
    np.testing.assert_array_equal(plain.input_gradient, other.input_gradient)


# masks


def test_masks_pass_with_sequences_only() -> None:
    mask = some_mask()
    for options, expected in [({"return_sequences": True}, mask), ({"return_sequences": True, "go_backwards": True}, mask), ({}, None)]:
        found = trained(made(GRU, **options), sequences(), mask).mask
        assert found is None if expected is None else np.array_equal(found, expected)
    assert trained(made(GRU, return_sequences=True), sequences(), None).mask is None


def test_a_mask_is_as_good_as_the_steps_left_out() -> None:
    layer, x = made(LSTM), sequences(1, STEPS, INPUT)
    mask = np.array([[False, True, False, True, False]])
    np.testing.assert_array_equal(run(layer, x, mask), run(layer, x[:, [1, 3]], np.ones((1, 2), bool)))


def test_outputs_of_masked_steps_are_zero_if_wanted() -> None:
    mask = some_mask()
    repeated, zero = (made(GRU, return_sequences=True, zero_output_for_mask=wanted) for wanted in (False, True))
    np.testing.assert_array_equal(run(zero, sequences(), mask), run(repeated, sequences(), mask) * mask[..., None])
    only = sequences(BATCH, STEPS, UNITS)
    assert_close(
        trained(zero, sequences(), mask, only).input_gradient,
        trained(repeated, sequences(), mask, only * mask[..., None]).input_gradient,
        np.float32,
    )


# states


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"return_sequences": True}], ids=str)
@pytest.mark.parametrize("cell", LAYERS)
def test_states_go_from_batch_to_batch(cell: str, options: dict[str, Any], device: str) -> None:
    whole, parts = made(LAYERS[cell], device=device, **options), made(LAYERS[cell], device=device, stateful=True, **options)
    x = sequences(BATCH, 2 * STEPS, INPUT)
    expected = run(whole, x)
    for _ in range(2):
        halves = []
        for start in (0, STEPS):
            y = parts(x[:, start : start + STEPS])
            halves.append(np.array(parts.backend.host(y)))
            y[...] = 9  # the caller's array, not the state's
        found = np.concatenate(halves, axis=1) if options else halves[1]
        assert_close(found, expected, np.float32, terms=UNITS)
        parts.reset_states()


def test_states_pass_through_training_and_masks() -> None:
    layer = made(LSTM, stateful=True)
    first = trained(layer, sequences(), None).output
    # Nothing counts, so nothing is put out, and the state stays.
    assert not run(layer, sequences(seed=1), np.zeros((BATCH, STEPS), bool)).any()
    again = run(layer, sequences(seed=2))
    layer.reset_states()
    np.testing.assert_array_equal(trained(layer, sequences(), None).output, first)
    np.testing.assert_array_equal(run(layer, sequences(seed=2)), again)


# both directions


MERGES: dict[str, Callable[[Array, Array], Array]] = {
    "concat": lambda a, b: np.concatenate((a, b), axis=-1),
    "sum": np.add,
    "mul": np.multiply,
    "ave": lambda a, b: (a + b) / 2,
}
SHARES: dict[str, Callable[[Array, Array, Array], tuple[Array, Array]]] = {
    "concat": lambda dy, a, b: (dy[..., :UNITS], dy[..., UNITS:]),
    "sum": lambda dy, a, b: (dy, dy),
    "mul": lambda dy, a, b: (dy * b, dy * a),
    "ave": lambda dy, a, b: (dy / 2, dy / 2),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("merge_mode", MERGES)
@pytest.mark.parametrize("cell", LAYERS)
def test_bidirectional_is_two_layers(cell: str, merge_mode: Any, return_sequences: bool, device: str) -> None:
    kind, x, mask = LAYERS[cell], sequences(), some_mask()
    both = built(Bidirectional(kind(UNITS, return_sequences=return_sequences), merge_mode), BATCH, STEPS, INPUT, device=device)
    randomize(both)
    forward, backward = (
        built(kind(UNITS, return_sequences=return_sequences, go_backwards=way), BATCH, STEPS, INPUT, device=device) for way in (False, True)
    )
    weights = both.get_weights()
    forward.set_weights(weights[: len(weights) // 2])
    backward.set_weights(weights[len(weights) // 2 :])

    def in_time(array: Array) -> Array:
        return array[:, ::-1] if return_sequences else array

    ahead, back = run(forward, x, mask), in_time(run(backward, x, mask))
    expected = MERGES[merge_mode](ahead, back)
    upstream = np.asarray(np.random.default_rng(4).standard_normal(expected.shape), np.float32)
    found = trained(both, x, mask, upstream)
    assert_close(found.output, expected, np.float32, terms=UNITS)
    assert_close(run(both, x, mask), expected, np.float32, terms=UNITS)
    assert both.output_shape == expected.shape
    assert found.mask is None if not return_sequences else np.array_equal(found.mask, mask)

    shares = SHARES[merge_mode](upstream, ahead, back)
    single = trained(forward, x, mask, shares[0]), trained(backward, x, mask, np.ascontiguousarray(in_time(shares[1])))
    assert_close(found.input_gradient, single[0].input_gradient + single[1].input_gradient, np.float32, terms=STEPS * UNITS)
    for way, one in zip(("forward", "backward"), single, strict=True):
        for name, gradient in one.weight_gradients.items():
            assert_close(found.weight_gradients[f"{way}_{name}"], gradient, np.float32, terms=STEPS * BATCH * UNITS, what=f"{way}_{name}")
    assert [desc.direction for desc in both.descs[:1]] == [dml.RecurrentDirection.BIDIRECTIONAL]


def test_bidirectional_states() -> None:
    both = made(lambda units, **more: Bidirectional(LSTM(units, **more)), stateful=True)
    first, second = run(both, sequences()), run(both, sequences())
    assert not np.allclose(first, second)
    both.reset_states()
    np.testing.assert_array_equal(run(both, sequences()), first)


# shapes and regularizers


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"input_dim": 64, "input_length": 10}, (None, 10, 64)),
        ({"input_shape": (10, 64)}, (None, 10, 64)),
        ({"input_dim": 64}, (None, None, 64)),
        ({"batch_input_shape": (8, 10, 64)}, (8, 10, 64)),
        ({}, None),
    ],
)
def test_input_shapes(options: dict[str, Any], expected: Any) -> None:
    for layer in (LSTM(32, return_sequences=True, **options), Bidirectional(LSTM(16, return_sequences=True, **options))):
        assert layer.input_shape == expected
        if expected is not None:
            assert layer.compute_output_shape(expected) == (*expected[:2], 32)


def test_a_layer_called_alone_builds_itself() -> None:
    layer = LSTM(UNITS)
    assert layer(sequences()).shape == (BATCH, UNITS)
    assert layer(sequences(2, 7, INPUT)).shape == (2, UNITS)
    stateful = GRU(UNITS, stateful=True, batch_input_shape=(BATCH, None, INPUT))
    assert stateful(sequences()).shape == (BATCH, UNITS)


def test_regularizers_belong_to_their_weights() -> None:
    options = {"W_regularizer": l2(0.1), "U_regularizer": "l1", "b_regularizer": l1l2(0.1, 0.2)}
    expected = [l2(0.1), l1l2(0.01, 0.0), l1l2(0.1, 0.2)]
    assert [weight.regularizer for weight in made(LSTM, **options).weights] == expected
    both = made(lambda units, **more: Bidirectional(LSTM(units, **more)), **options)
    assert [weight.regularizer for weight in both.weights] == expected * 2


# errors


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Recurrent(3, {}), [("", "layer.abstract")]),
        (
            lambda: LSTM(0, init="glorot", activation="tan", inner_activation="softmax", forget_bias_init="on", dropout_W=1),
            [
                ("init", "field.form"),
                ("inner_activation", "activation_kind"),
                ("activation", "field.form"),
                ("forget_bias_init", "field.form"),
                ("output_dim", "field.form"),
                ("dropout_W", "dropout_range"),
            ],
        ),
        (
            lambda: GRU(3, reset_after="yes", return_sequences="no", consume_less="tpu", W_regularizer="l3", dropout_U=-0.1),
            [
                ("W_regularizer", "field.form"),
                ("dropout_U", "dropout_range"),
                ("return_sequences", "field.form"),
                ("consume_less", "field.form"),
                ("reset_after", "field.form"),
            ],
        ),
        (lambda: SimpleRNN(3, inner_activation="tanh", units=4), [("inner_activation", "field.unknown"), ("units", "field.unknown")]),
        (lambda: LSTM(3, input_shape=(4,)), [("input_shape", "layer.input_shape")]),
        (
            lambda: LSTM(3, input_dim=0, input_length=2.5, input_shape=3, batch_input_shape=(None, None, 0)),
            [
                ("input_dim", "field.form"),
                ("input_length", "field.form"),
                ("input_shape", "layer.input_shape"),
                ("batch_input_shape", "layer.input_shape"),
            ],
        ),
        (lambda: LSTM(3, W_regularizer=["l1"]), [("W_regularizer", "field.form")]),
        (lambda: LSTM(3)("text", [[1], [1, 2]]), [("x", "data.form"), ("mask", "data.form")]),
        (lambda: LSTM(3)(None), [("x", "data.form")]),
        (lambda: built(LSTM(3), None, 4), [("input_shape", "layer.input_shape")]),
        (lambda: built(LSTM(3), None, 4, None), [("input_shape[2]", "layer.input_size")]),
        (lambda: built(LSTM(3, stateful=True), None, 4, 2), [("input_shape[0]", "layer.batch_size")]),
        (lambda: built(Bidirectional(LSTM(3, stateful=True)), None, 4, 2), [("input_shape[0]", "layer.batch_size")]),
        (lambda: run(made(LSTM, stateful=True), sequences(BATCH + 1, STEPS, INPUT)), [("x", "layer.batch_size")]),
        (lambda: run(made(LSTM), sequences(BATCH, STEPS, INPUT + 1)), [("x", "array.shape")]),
        (lambda: run(made(LSTM), sequences(BATCH, INPUT)), [("x", "array.shape")]),
        (lambda: run(made(LSTM), sequences(0, STEPS, INPUT)), [("x", "array.shape")]),
        (lambda: run(made(LSTM), sequences(), np.ones((BATCH, STEPS + 1))), [("mask", "mask.shape")]),
        (lambda: made(LSTM).backward(sequences(BATCH, UNITS)), [("dy", "layer.not_trained")]),
        (
            lambda: built(Bidirectional(LSTM(UNITS), "mul"), None, STEPS, INPUT).backward(sequences(BATCH, UNITS)),
            [("dy", "layer.not_trained")],
        ),
        (lambda: LSTM(3).set_weights([]), [("weights", "layer.not_built")]),
        (lambda: Bidirectional(3, "sun"), [("layer", "field.form"), ("merge_mode", "field.form")]),
        (lambda: Sequential(LSTM(3)), [("layers", "field.form")]),
        (lambda: Sequential(LSTM), [("layers", "field.form")]),
        (
            lambda: Bidirectional(GRU(3, go_backwards=True, weights=[]), None),
            [("layer.go_backwards", "layer.direction"), ("layer.weights", "weights.count"), ("merge_mode", "field.form")],
        ),
    ],
)
def test_errors(make: Callable[[], Any], expected: list[tuple[str, str]]) -> None:
    with pytest.raises(dml.DescError) as caught:
        make()
    assert [(problem.path, problem.code) for problem in caught.value.problems] == expected


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"dtype": "mixed_bfloat16"}, "dmlpy.nn and dmlpy.torch have recurrent layers of float16 and bfloat16"),
        ({"recurrent_activation": "tanh"}, "Keras 1 calls it inner_activation"),
        ({"retrun_sequences": True}, "did you mean return_sequences?"),
        ({"activation": "relus"}, "did you mean relu?"),
    ],
)
def test_remedies(options: dict[str, Any], remedy: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        LSTM(3, **options)
    assert [problem.remedy for problem in caught.value.problems] == [remedy]


@pytest.mark.parametrize(
    ("make", "remedies"),
    [
        (lambda: LSTM(units=3), ["Keras 1 calls it output_dim"]),
        (lambda: Bidirectional(LSTM), ["call the class: LSTM(...)"]),
        (lambda: Bidirectional(GRU(3), "add"), ["did you mean sum?"]),
        (lambda: Bidirectional(GRU(3), "cancat"), ["did you mean concat?"]),
        (lambda: TimeDistributed(Dense), ["call the class: Dense(...)"]),
        (lambda: Sequential(Dense(3)), ["put it into a list: [...]"]),
        (lambda: Sequential(Dense), ["call the class: Dense(...)"]),
        (
            lambda: Dense(units=3, kernel_initializer="zero", use_bias=False),
            ["Keras 1 calls it output_dim", "Keras 1 calls it init", "Keras 1 calls it bias"],
        ),
        (lambda: Dense(3, use_bias=False, activatoin="relu"), ["Keras 1 calls it bias", "did you mean activation?"]),
        (lambda: Adam(learning_rate=0.1), ["Keras 1 calls it lr"]),
        (lambda: LSTM(input_size=4, hidden_size=3), ["Keras 1 calls it input_dim", "Keras 1 calls it output_dim"]),
        (lambda: Embedding(num_embeddings=4, embedding_dim=3), ["Keras 1 calls it input_dim", "Keras 1 calls it output_dim"]),
        (lambda: Dense(outptu_dim=3), ["did you mean output_dim?"]),
        (lambda: LSTM(3, num_layers=2), ["add as many layers, all but the last with return_sequences=True"]),
        (lambda: LSTM(3, bidirectional=True), ["wrap the layer: Bidirectional(layer)"]),
        (lambda: Embedding(5, 3, embeddings_initializer="zero"), ["Keras 1 calls it init"]),
    ],
)
def test_names_of_later_versions(make: Callable[[], Any], remedies: list[str]) -> None:
    with pytest.raises(dml.DescError) as caught:
        make()
    assert [problem.remedy for problem in caught.value.problems] == remedies
