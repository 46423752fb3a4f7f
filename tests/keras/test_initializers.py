"""How weights begin, and what the names of initializers and activations stand for."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, LSTM, SimpleRNN
from dmlpy.keras.activations import ACTIVATIONS, activation
from dmlpy.keras.initializers import INITIALIZERS, initial, initializer, orthogonal
from tests.support.keras.activation_formulas import FORMULAS
from tests.support.keras.cases import built


def drawn(name: Any, *shape: int, seed: int = 0) -> Any:
    return initial(initializer(name), shape, np.random.default_rng(seed))


UNIFORM = {
    "uniform": lambda fan_in, fan_out: 0.05,
    "lecun_uniform": lambda fan_in, fan_out: math.sqrt(3 / fan_in),
    "glorot_uniform": lambda fan_in, fan_out: math.sqrt(6 / (fan_in + fan_out)),
    "he_uniform": lambda fan_in, fan_out: math.sqrt(6 / fan_in),
}
NORMAL = {
    "normal": lambda fan_in, fan_out: 0.05,
    "glorot_normal": lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)),
    "he_normal": lambda fan_in, fan_out: math.sqrt(2 / fan_in),
}
SHAPE = (150, 400)


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform(name: str) -> None:
    limit, values = UNIFORM[name](*SHAPE), drawn(name, *SHAPE)
    assert limit * 0.999 < np.abs(values).max() <= limit * (1 + 1e-6)
    assert values.std() == pytest.approx(limit / math.sqrt(3), rel=0.01)
    assert values.mean() == pytest.approx(0, abs=0.02 * limit)


@pytest.mark.parametrize("name", NORMAL)
def test_normal(name: str) -> None:
    deviation, values = NORMAL[name](*SHAPE), drawn(name, *SHAPE)
    assert values.std() == pytest.approx(deviation, rel=0.01)
    assert values.mean() == pytest.approx(0, abs=0.02 * deviation)
    assert np.abs(values).max() > 3.5 * deviation  # nothing is cut off


@pytest.mark.parametrize("shape", [(7, 7), (4, 9), (9, 4), (1, 5)])
@pytest.mark.parametrize("scale", [1.0, 1.1])
def test_orthogonal(shape: tuple[int, int], scale: float) -> None:
    values = drawn(partial(orthogonal, scale=scale), *shape).astype(np.float64)
    product = values @ values.T if shape[0] <= shape[1] else values.T @ values
    np.testing.assert_allclose(product, scale**2 * np.eye(min(shape)), atol=1e-6)


def test_orthogonal_matrices_of_either_sign_are_drawn() -> None:
    signs = [drawn("orthogonal", 4, 4, seed=seed)[0, 0] > 0 for seed in range(64)]
    assert 16 < sum(signs) < 48


def test_constants() -> None:
    assert not drawn("zero", 3, 4).any()
    assert (drawn("ones", 5) == 1).all()
    np.testing.assert_array_equal(drawn("identity", 4, 4), np.eye(4))


@pytest.mark.parametrize("name", INITIALIZERS)
def test_a_seed_repeats_and_the_type_is_float32(name: str) -> None:
    first, second, other = drawn(name, 6, 6), drawn(name, 6, 6), drawn(name, 6, 6, seed=1)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, second)
    constant = name in ("zero", "zeros", "one", "ones", "identity")
    assert constant == (first == other).all()


def test_layers_use_the_given_initializers() -> None:
    lists = {gate: built(LSTM(6), None, None, 4).get_weights()[index : index + 3] for index, gate in zip((0, 3, 6, 9), "icfo", strict=True)}
    for gate, (W, U, b) in lists.items():
        assert (np.abs(W) <= math.sqrt(6 / 10)).all()
        np.testing.assert_allclose(U @ U.T, np.eye(6), atol=1e-6)
        assert (b == (gate == "f")).all()
    made = built(GRU(6, init="one", inner_init=lambda shape, random: np.full(shape, 2)), None, None, 4)
    for W, U, b in zip(*(made.get_weights()[kind::3] for kind in range(3)), strict=True):
        assert (W == 1).all()
        assert (U == 2).all()
        assert not b.any()
    assert (built(LSTM(3, forget_bias_init="zero"), None, None, 2).get_weights()[8] == 0).all()
    first, second, other = (built(SimpleRNN(5), None, None, 4, seed=seed).get_weights()[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


FUSED = (
    *("linear", "tanh", "sigmoid", "hard_sigmoid", "relu", "elu", "selu", "softplus", "softsign"),
    *("leaky_relu", "celu", "gelu", "hard_shrink", "soft_shrink", "log_sigmoid"),
)
"""The names of the activations that a cell can apply."""


@pytest.mark.parametrize("name", FUSED)
def test_activations_by_name(name: str) -> None:
    """One step of a layer without a state before it is the activation of x."""
    layer = built(SimpleRNN(1, activation=name, weights=[[[1.0]], [[0.0]], [0.0]]), None, None, 1)
    x = np.linspace(-4, 4, 33, dtype=np.float32)[:, None, None]
    np.testing.assert_allclose(layer(x)[:, 0], FORMULAS[name](x[:, 0, 0].astype(np.float64)), atol=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_cells_take_the_names_that_are_fused_and_refuse_the_others_with_the_list(name: str) -> None:
    if name in FUSED:
        assert SimpleRNN(1, activation=name).activations == [ACTIVATIONS[name]]
        return
    expected = f"an element-wise activation that DirectML fuses: .*{', .*'.join(FUSED)}, or another's desc"
    with pytest.raises(dml.DescError, match=f"activation is {ACTIVATIONS[name].type_name}, expected {expected}"):
        SimpleRNN(1, activation=name)


def test_descs_and_none_are_activations() -> None:
    given = dml.ActivationLeakyReluDesc(alpha=0.3)
    assert activation(given) is given
    assert activation(None) == dml.ActivationIdentityDesc()
    layer = built(LSTM(2, activation=given, inner_activation="sigmoid"), None, None, 1)
    layer(np.zeros((1, 1, 1)))
    assert layer.descs[0].activation_descs == (dml.ActivationSigmoidDesc(), given, given)


@pytest.mark.parametrize(
    ("find", "value", "remedy"),
    [
        (activation, "sofplus", "did you mean softplus?"),
        (activation, 3, None),
        (initializer, "glorot_unifrom", "did you mean glorot_uniform?"),
        (initializer, None, None),
        (lambda name: drawn(name, 3, 4), "identity", None),
        (lambda name: drawn(name, 3), "orthogonal", None),
        (lambda made: drawn(made, 3), lambda shape, random: np.zeros(4), None),
    ],
)
def test_errors(find: Any, value: Any, remedy: str | None) -> None:
    with pytest.raises(dml.DescError) as caught:
        find(value)
    assert [problem.remedy for problem in caught.value.problems] == [remedy]
