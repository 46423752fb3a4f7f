"""`initial_state` and `return_state` of recurrent layers, with Keras's meaning: the lists of states and what they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, LSTM, Bidirectional, Recurrent, Sequential, SimpleRNN, from_keras
from tests.support.keras.cases import DEVICES, Array, built, case, keras_layer, names, trained
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(8)
BATCH, STEPS, SIZE, UNITS = 3, 6, 4, 5
X = RNG.standard_normal((BATCH, STEPS, SIZE)).astype(np.float32)
KINDS: dict[str, type[Recurrent]] = {"SimpleRNN": SimpleRNN, "GRU": GRU, "LSTM": LSTM}
COUNTS = {"SimpleRNN": 1, "GRU": 1, "LSTM": 2}


def states(kind: str, directions: int = 1) -> list[Array]:
    return [RNG.standard_normal((BATCH, UNITS)).astype(np.float32) for _ in range(COUNTS[kind] * directions)]


def layer(kind: str, device: str = "numpy", **options: Any) -> Any:
    more = {} if kind == "SimpleRNN" else {"inner_activation": "sigmoid"}
    return built(KINDS[kind](UNITS, **more, **options), None, None, SIZE, device=device, seed=4)


def on_host(made: Any, found: list[Any]) -> list[Array]:
    return [np.array(made.backend.host(array)) for array in found]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def stepped(kind: str, weights: list[Array], x: Array, initial: list[Array], taken: Array) -> tuple[Array, list[Array]]:
    """All outputs and the last states by Keras's formulas in float64; a step that is not taken repeats the output and keeps the states."""
    kernel, recurrent, bias = (array.astype(np.float64) for array in weights)
    h, *rest = (state.astype(np.float64) for state in initial)
    c = rest[0] if rest else np.zeros_like(h)
    output, outputs = np.zeros_like(h), []
    for step in range(x.shape[1]):
        sums = x[:, step].astype(np.float64) @ kernel + bias
        if kind == "SimpleRNN":
            new_h, new_c = np.tanh(sums + h @ recurrent), c
        elif kind == "LSTM":
            i, f, g, o = np.split(sums + h @ recurrent, 4, axis=1)
            new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            new_h = sigmoid(o) * np.tanh(new_c)
        else:
            z, r = np.split(sigmoid(sums[:, : 2 * UNITS] + h @ recurrent[:, : 2 * UNITS]), 2, axis=1)
            candidate = np.tanh(sums[:, 2 * UNITS :] + (r * h) @ recurrent[:, 2 * UNITS :])
            new_h, new_c = z * h + (1 - z) * candidate, c
        now = taken[:, step, None]
        h, c, output = np.where(now, new_h, h), np.where(now, new_c, c), np.where(now, new_h, output)
        outputs.append(output)
    return np.stack(outputs, 1), [h, c][: COUNTS[kind]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_begins_with_its_states_and_returns_the_last(kind: str, sequences: bool, masked: bool, device: str) -> None:
    made = layer(kind, device, return_sequences=sequences, return_state=True)
    initial = states(kind)
    mask = None
    if masked:
        mask = RNG.random((BATCH, STEPS)) > 0.4
        mask[0] = False  # no step counts: the states stay, and the output is zero
    found = on_host(made, made(X, mask, initial_state=initial))
    whole, last = stepped(kind, made.get_weights("keras3"), X, initial, np.ones((BATCH, STEPS), bool) if mask is None else mask)
    for own, expected in zip(found, [whole if sequences else whole[:, -1], *last], strict=True):
        assert_close(own, expected.astype(np.float32), np.float32, terms=STEPS * UNITS, what=kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backwards", [False, True])
def test_a_sequence_continues_where_its_first_part_ended(kind: str, backwards: bool) -> None:
    made = layer(kind, return_sequences=True, return_state=True, go_backwards=backwards)
    whole = made(X)
    parts = [X[:, 2:], X[:, :2]] if backwards else [X[:, :4], X[:, 4:]]
    first = made(parts[0])
    second = made(parts[1], initial_state=first[1:])
    np.testing.assert_array_equal(np.concatenate([first[0], second[0]], axis=1), whole[0])
    for own, expected in zip(second[1:], whole[1:], strict=True):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("merge_mode", ["concat", "sum"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_directions_have_states_of_their_own(kind: str, merge_mode: Any) -> None:
    """Keras lists the forward direction's, then the backward one's."""
    more = {} if kind == "SimpleRNN" else {"inner_activation": "sigmoid"}
    both = built(Bidirectional(KINDS[kind](UNITS, return_state=True, **more), merge_mode), None, None, SIZE)
    initial, count = states(kind, 2), COUNTS[kind]
    found = both(X, initial_state=initial)
    assert len(found) == 1 + 2 * count
    last = []
    for way, x in enumerate((X, X[:, ::-1])):
        weights = both.get_weights("keras3")[3 * way : 3 * way + 3]
        whole, ended = stepped(kind, weights, x, initial[way * count : (way + 1) * count], np.ones((BATCH, STEPS), bool))
        last.append(whole[:, -1])
        for own, expected in zip(found[1 + way * count : 1 + (way + 1) * count], ended, strict=True):
            assert_close(own, expected.astype(np.float32), np.float32, terms=STEPS * UNITS)
    merged = np.concatenate(last, 1) if merge_mode == "concat" else sum(last)
    assert_close(found[0], np.asarray(merged, np.float32), np.float32, terms=STEPS * UNITS)


@pytest.mark.parametrize("name", [name for name in names(("keras_import_",)) if "stateful" in name])
def test_states_that_are_handed_on_give_what_stateful_layers_of_keras_gave(name: str) -> None:
    """Stored results of Keras's stateful layers, batch after batch, by the same layers without their memory."""
    stored = case(name)
    theirs = keras_layer(stored)
    for part in (theirs, *(getattr(theirs, way) for way in ("forward_layer", "backward_layer") if hasattr(theirs, way))):
        own = part.get_config() | {"stateful": False, "return_state": True}
        part.get_config = lambda own=own: own
    mine: Any = from_keras(theirs)
    options = mine.layer if isinstance(mine, Bidirectional) else mine
    options.dropout_W = options.dropout_U = 0.0
    built(mine, *mine.input_shape)
    found: list[Any] = [None]
    for x, y in stored.batches:
        found = mine(x, stored.mask, initial_state=found[1:] or None)
        assert_close(np.array(found[0]), y, np.float32, terms=x[0].size, what=name)
    assert len(stored.batches) > 1


def test_a_stateful_layer_takes_given_states_and_continues_from_there() -> None:
    made = built(LSTM(UNITS, stateful=True, return_state=True, batch_input_shape=(BATCH, None, SIZE)), BATCH, None, SIZE)
    fresh = made(X)
    given = made(X, initial_state=[np.zeros((BATCH, UNITS), np.float32)] * 2)
    for own, expected in zip(given, fresh, strict=True):
        np.testing.assert_array_equal(own, expected)
    after = made(X)
    handed_on = made(X, initial_state=given[1:])
    for own, expected in zip(handed_on, after, strict=True):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_inputs_and_states(kind: str, sequences: bool, device: str) -> None:
    """By differences of weighted sums of the outputs and of the final states, some of whose steps are masked."""
    made = layer(kind, device, return_sequences=sequences, return_state=True)
    initial, mask = states(kind), RNG.random((BATCH, STEPS)) > 0.3
    mask[0] = False
    y, *last = on_host(made, made(X, mask, initial_state=initial, training=True))
    slopes = [RNG.standard_normal(array.shape).astype(np.float32) for array in (y, *last)]
    given = [made.backend.array(slope, np.float32) for slope in slopes]
    dx = np.array(made.backend.host(made.backward(given[0], state_gradients=given[1:])))
    found = [dx, *on_host(made, made.initial_state_gradients)]
    weights = made.get_weights("keras3")

    def total(x: Array, *begun: Array) -> float:
        outputs, ended = stepped(kind, weights, x, [*begun], mask)
        shown = outputs if sequences else outputs[:, -1]
        return sum(float((array * slope).sum()) for array, slope in zip((shown, *ended), slopes, strict=True))

    arrays = [array.astype(np.float64) for array in (X, *initial)]
    for number, own in enumerate(found):
        assert own.shape == arrays[number].shape
        for place in [tuple(RNG.integers(0, size) for size in own.shape) for _ in range(6)]:
            sums = []
            for step in (1e-5, -1e-5):
                moved = [array.copy() for array in arrays]
                moved[number][place] += step
                sums.append(total(*moved))
            assert own[place] == pytest.approx((sums[0] - sums[1]) / 2e-5, rel=1e-3, abs=1e-4), (number, place)


def test_gradients_of_states_of_two_directions() -> None:
    """Those of each direction are those of a layer that has its weights alone, for an output that is concatenated."""
    both = built(Bidirectional(LSTM(UNITS, return_sequences=True, return_state=True)), None, None, SIZE, device="numpy", seed=4)
    initial, ended = states("LSTM", 2), states("LSTM", 2)
    y = both(X, initial_state=initial, training=True)[0]
    both.backward(np.ones_like(y), state_gradients=ended)
    weights = both.get_weights()
    for way, turned in enumerate((False, True)):
        own = slice(2 * way, 2 * way + 2)
        made = LSTM(UNITS, return_sequences=True, return_state=True, go_backwards=turned)
        alone = built(made, None, None, SIZE, device="numpy", seed=4)
        alone.set_weights(weights[: len(weights) // 2] if not way else weights[len(weights) // 2 :])
        alone(X, initial_state=initial[own], training=True)
        alone.backward(np.ones((BATCH, STEPS, UNITS), np.float32), state_gradients=ended[own])
        for found, expected in zip(both.initial_state_gradients[own], alone.initial_state_gradients, strict=True):
            assert_close(found, expected, np.float32)


@pytest.mark.parametrize(
    ("options", "given", "path"),
    [
        ({}, lambda: states("LSTM"), "state_gradients is"),
        ({"return_state": True}, lambda: states("LSTM")[:1], "state_gradients has 1 array"),
        ({"return_state": True}, lambda: [np.zeros((1, 1))] * 2, "state_gradients[1]"),
    ],
)
def test_gradients_of_states_that_do_not_fit_are_refused(options: dict[str, Any], given: Any, path: str) -> None:
    made = layer("LSTM", **options)
    made(X, training=True)
    with pytest.raises(dml.DescError) as caught:
        made.backward(np.zeros((BATCH, UNITS), np.float32), state_gradients=given())
    assert path in str(caught.value)


def test_a_pass_without_given_states_has_no_gradients_of_any() -> None:
    made = layer("GRU")
    for initial, count in ((states("GRU"), 1), (None, 0)):
        made.backward(np.ones_like(made(X, initial_state=initial, training=True)))
        assert len(made.initial_state_gradients) == count


@pytest.mark.parametrize(
    ("kind", "given", "path", "text"),
    [
        ("LSTM", lambda: states("GRU"), "initial_state", "2: h and c"),
        ("GRU", lambda: states("LSTM"), "initial_state", "1: h"),
        ("GRU", lambda: np.zeros((BATCH, UNITS + 1), np.float32), "initial_state[0]", f"[{BATCH}, {UNITS}]"),
        ("LSTM", lambda: [states("GRU")[0], "c"], "initial_state[1]", "numbers"),
    ],
)
def test_states_that_do_not_fit_are_refused(kind: str, given: Any, path: str, text: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        layer(kind)(X, initial_state=given())
    (problem,) = caught.value.problems
    assert problem.path == path
    assert text in problem.expected


def test_one_state_needs_no_list() -> None:
    made, initial = layer("GRU"), states("GRU")
    np.testing.assert_array_equal(made(X, initial_state=initial[0]), made(X, initial_state=initial))


def test_a_layer_of_a_model_has_one_output() -> None:
    with pytest.raises(dml.DescError, match="a model's layer has one output"):
        Sequential([GRU(UNITS, return_state=True, input_dim=SIZE)], device="numpy")
    with pytest.raises(dml.DescError, match="return_state is 1, expected True or False"):
        GRU(UNITS, return_state=1)


def test_without_the_options_nothing_changes() -> None:
    made = layer("LSTM")
    assert np.asarray(made(X)).shape == (BATCH, UNITS)
    assert trained(made, X, None).output.shape == (BATCH, UNITS)
    assert not made.final_states()
