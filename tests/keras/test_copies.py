"""What a failed call leaves as it was, copies of layers and models, and the device that a model makes the current one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, LSTM, Bidirectional, Dense, Embedding, Recurrent, Sequential, l2

SAMPLES = 4


def model(*layers: Any) -> Sequential:
    m = Sequential(layers, device="numpy", seed=0)
    m.compile("adam", "mse")
    return m


def stateful(cell: Callable[..., Recurrent] = LSTM, **options: Any) -> Any:
    return cell(3, stateful=True, return_sequences=True, batch_input_shape=(SAMPLES, None, 2), **options)


def draw(*shape: Any) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


X, Y = draw(SAMPLES, 5, 2), draw(SAMPLES, 5, 1)


@pytest.mark.parametrize("wrap", [lambda layer: layer, Bidirectional])
@pytest.mark.parametrize(
    ("activation", "call"),
    [
        ("linear", lambda m: m.train_on_batch(X, Y[:, :4])),
        ("linear", lambda m: m.test_on_batch(X, Y[:, :4])),
        (dml.ActivationHardmaxDesc(), lambda m: m.train_on_batch(X, Y)),
    ],
)
def test_an_error_leaves_states_and_weights_as_they_were(activation: Any, call: Callable[[Any], Any], wrap: Callable[[Any], Any]) -> None:
    m = model(wrap(stateful()), Dense(1, activation=activation))
    m.predict(X)
    states, weights = m.layers[0].states, m.get_weights()
    assert set(states) == {"hidden_init_tensor", "cell_mem_init_tensor"}
    kept = {name: array.copy() for name, array in states.items()}
    with pytest.raises(dml.DescError):
        call(m)
    for name, array in m.layers[0].states.items():
        np.testing.assert_array_equal(array, kept[name])
    for own, array in zip(m.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(own, array)


def test_states_can_be_saved_and_restored() -> None:
    m = model(stateful(GRU), Dense(1))
    m.predict(X)
    states = m.layers[0].states
    first = m.predict(X)
    assert not np.array_equal(m.predict(X), first)
    m.layers[0].states = states
    np.testing.assert_array_equal(m.predict(X), first)
    m.reset_states()
    assert m.layers[0].states == {}


COPIES = [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]


def trained() -> Sequential:
    m = model(
        Embedding(9, 4, mask_zero=True, batch_input_shape=(SAMPLES, None)),
        Bidirectional(GRU(3, return_sequences=True, dropout_W=0.2, stateful=True)),
        LSTM(3, dropout_U=0.3, W_regularizer=l2(0.1), stateful=True),
        Dense(1),
    )
    m.train_on_batch(*batch(0))
    return m


def batch(seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random.integers(0, 9, (SAMPLES, 5)), random.standard_normal((SAMPLES, 1))


@pytest.mark.parametrize("duplicate", COPIES)
def test_a_copy_continues_like_the_original(duplicate: Callable[[Any], Any]) -> None:
    first = trained()
    second = duplicate(first)
    losses = [[m.train_on_batch(*batch(seed)) for seed in (1, 2, 3)] for m in (first, second)]
    assert losses[0] == losses[1]
    np.testing.assert_array_equal(first.predict(batch(4)[0]), second.predict(batch(4)[0]))


@pytest.mark.parametrize("duplicate", COPIES)
def test_a_copy_has_weights_of_its_own(duplicate: Callable[[Any], Any]) -> None:
    first = trained()
    before = first.get_weights()
    second = duplicate(first)
    second.set_weights([array + 1 for array in before])
    for own, other, array in zip(first.get_weights(), second.get_weights(), before, strict=True):
        np.testing.assert_array_equal(own, array)
        np.testing.assert_array_equal(other, array + 1)
    second.reset_states()
    y = second.predict(batch(4)[0])
    first.set_weights(second.get_weights())
    first.reset_states()
    np.testing.assert_array_equal(first.predict(batch(4)[0]), y)


@pytest.mark.parametrize("duplicate", COPIES)
def test_a_copied_layer(duplicate: Callable[[Any], Any]) -> None:
    for layer in trained().layers[1:3]:
        assert layer.input_shape
        other = duplicate(layer)
        x = draw(SAMPLES, 5, layer.input_shape[-1])
        y = layer(x)
        np.testing.assert_array_equal(other(x), y)
        with pytest.raises(dml.DescError, match="before a training pass"):
            other.backward(y)


def test_an_initializers_array_is_not_trained() -> None:
    rows = np.ones((2, 1), np.float32)
    m = model(Dense(1, input_dim=2, init=lambda shape, random: rows))
    m.train_on_batch(draw(3, 2), draw(3, 1))
    np.testing.assert_array_equal(rows, np.ones((2, 1)))


# the current device


class Guarded:
    """NumPy, whose functions may be called on the current device only."""

    def __init__(self) -> None:
        self.depth = 0

    @contextmanager
    def current(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        assert isinstance(found, type) or self.depth, f"{name} on another device"
        return found


def test_arrays_are_made_on_the_models_device(tmp_path: Path) -> None:
    guarded = Guarded()
    m = Sequential(device="numpy", seed=0)
    m.backend.xp = guarded
    m.backend.current = guarded.current  # type: ignore[method-assign]
    for layer in (Embedding(9, 4, mask_zero=True), Bidirectional(GRU(3, return_sequences=True, dropout_W=0.2), "sum"), LSTM(3), Dense(1)):
        m.add(layer)
    m.compile("adam", "mse")
    x, y = batch(0)
    m.fit(x, y, validation_split=0.5, nb_epoch=1, verbose=0)
    m.train_on_batch(x, y)
    m.test_on_batch(x, y)
    m.predict(x)
    m.set_weights(m.get_weights())
    m.layers[2].set_weights(m.layers[2].get_weights())
    m.save_weights(tmp_path / "weights")
    m.load_weights(tmp_path / "weights")
    m.layers[1](draw(SAMPLES, 5, 4))
    assert not guarded.depth
