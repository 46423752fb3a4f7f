"""Losses and optimizers against their formulas in float64."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dmlpy.keras.backend import Backend
from dmlpy.keras.layer import Weight
from dmlpy.keras.losses import LOSSES, Crossentropy, loss, score_weights
from dmlpy.keras.optimizers import SGD, Adam, Optimizer, optimizer
from tests.support.keras.numbers import differences, draw
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]

BACKEND = Backend("numpy", 0)


# Losses


def one_hot(classes: Array, count: int) -> Array:
    return np.eye(count, dtype=np.float32)[classes]


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def held(y: Array) -> Array:
    return y.clip(1e-7, 1 - 1e-7)


FORMULAS: dict[str, Callable[[Array, Array], Array]] = {
    "mse": lambda t, y: ((t - y) ** 2).mean(-1),
    "mean_squared_error": lambda t, y: ((t - y) ** 2).mean(-1),
    "mae": lambda t, y: abs(t - y).mean(-1),
    "mean_absolute_error": lambda t, y: abs(t - y).mean(-1),
    "binary_crossentropy": lambda t, y: -(t * np.log(held(y)) + (1 - t) * np.log1p(-held(y))).mean(-1),
    "categorical_crossentropy": lambda t, y: -(t * np.log(held(y / y.sum(-1, keepdims=True)))).sum(-1),
    "sparse_categorical_crossentropy": lambda t, y: FORMULAS["categorical_crossentropy"](one_hot(t[..., 0], y.shape[-1]), y),
}


def targets_of(name: str, *shape: int) -> Array:
    random = np.random.default_rng(5)
    if name == "sparse_categorical_crossentropy":
        return random.integers(0, shape[-1], (*shape[:-1], 1)).astype(np.int32)
    # Soft targets, which sum to anything.
    return random.random(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(6, 1), (6, 3), (4, 5, 3)], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_values(name: str, shape: tuple[int, ...]) -> None:
    assert FORMULAS.keys() == LOSSES.keys()
    targets, values = targets_of(name, *shape), np.random.default_rng(1).uniform(0.05, 0.95, shape).astype(np.float32)
    scores, gradient = loss(name).of_values(targets, values, BACKEND)
    exact = FORMULAS[name](targets, values.astype(np.float64))
    np.testing.assert_allclose(scores, exact, rtol=1e-5, atol=2e-7)
    assert scores.dtype == gradient.dtype == np.float32
    expected = differences(lambda moved: float(FORMULAS[name](targets, moved).sum()), values)
    np.testing.assert_allclose(gradient, expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1, 30], ids=["usual logits", "large logits"])
@pytest.mark.parametrize("shape", [(6, 1), (6, 3), (4, 5, 3)], ids=str)
@pytest.mark.parametrize("name", [name for name, kind in LOSSES.items() if issubclass(kind, Crossentropy)])
def test_losses_of_logits(name: str, shape: tuple[int, ...], scale: float) -> None:
    """The gradient of a cross-entropy for the logits is y - t, whatever the logits."""
    targets, logits = targets_of(name, *shape), scale * draw(*shape)
    exact, soft = logits.astype(np.float64), targets
    if name == "binary_crossentropy":
        y, expected = 1 / (1 + np.exp(-exact)), (np.logaddexp(0, exact) - targets * exact).mean(-1)
        expected_gradient = (y - targets) / shape[-1]
    else:
        y = softmax(exact)
        if name.startswith("sparse"):
            soft = one_hot(targets[..., 0], shape[-1])
        logarithms = exact - exact.max(-1, keepdims=True)
        logarithms -= np.log(np.exp(logarithms).sum(-1, keepdims=True))
        expected = -(soft * logarithms).sum(-1)
        expected_gradient = y * soft.sum(-1, keepdims=True) - soft
    function = loss(name)
    assert isinstance(function, Crossentropy)
    scores, gradient = function.of_logits(targets, y.astype(np.float32), logits, BACKEND)
    np.testing.assert_allclose(scores, expected, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-6)


def keras_weights(shape: tuple[int, ...], mask: Array | None, sample_weight: Array | None) -> Array:
    """The weight of each score in Keras 1's `weighted_objective`, by its steps."""
    found = np.zeros(shape)
    for index in np.ndindex(shape):
        scores = np.zeros(shape)
        scores[index] = 1
        if mask is not None:
            scores = scores * mask
            scores = scores / mask.mean()
        if sample_weight is not None:
            scores = scores.mean(axis=tuple(range(1, scores.ndim)))
            scores = scores * sample_weight
            scores = scores / (sample_weight != 0).mean()
        found[index] = scores.mean()
    return found


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
@pytest.mark.parametrize("masked", [False, True], ids=["all", "mask"])
@pytest.mark.parametrize("shape", [(4,), (4, 5)], ids=str)
def test_masks_and_weights_of_samples_count_as_in_keras(shape: tuple[int, ...], masked: bool, weighted: bool) -> None:
    mask = draw(*shape) > -0.3 if masked else None
    weights = np.array([0, 2, 1, 0.5], np.float32) if weighted else None
    found = score_weights(shape, mask, weights, np)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, keras_weights(shape, mask, weights), rtol=1e-6)


def test_a_batch_without_weight_has_no_loss() -> None:
    assert not score_weights((2, 3), np.zeros((2, 3), bool), None, np).any()
    assert not score_weights((2, 3), None, np.zeros(2, np.float32), np).any()


# Optimizers


def weight_and_gradients(steps: int = 6) -> tuple[Array, list[Array]]:
    return draw(3, 4), [draw(3, 4, seed=seed) * 10.0 ** -(seed % 3) for seed in range(1, steps + 1)]


def run(rule: Optimizer, start: Array, gradients: list[Array]) -> list[Array]:
    weight = Weight("W", start.copy())
    after = []
    for gradient in gradients:
        weight.gradient = gradient.astype(np.float32)
        kept = weight.gradient.copy()
        rule.update([weight], BACKEND)
        np.testing.assert_array_equal(weight.gradient, kept)
        after.append(weight.value.copy())
    return after


@pytest.mark.parametrize("decay", [0, 0.1])
@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True), (0.0, True)])
def test_sgd(momentum: float, nesterov: bool, decay: float) -> None:
    start, gradients = weight_and_gradients()
    w, v = start.astype(np.float64), np.zeros((3, 4))
    expected = []
    for number, g in enumerate(gradients):
        lr = 0.05 / (1 + decay * number)
        v = momentum * v - lr * g
        w = w + (momentum * v - lr * g if nesterov else v)
        expected.append(w)
    found = run(SGD(lr=0.05, momentum=momentum, nesterov=nesterov, decay=decay), start, gradients)
    assert_close(np.array(found), np.array(expected), np.float32, terms=10)


@pytest.mark.parametrize("decay", [0, 0.1])
def test_adam_is_dml_adam_optimizer(decay: float) -> None:
    """M' = Beta1 M + (1 - Beta1) G; V' = Beta2 V + (1 - Beta2) G^2; X' = X - LearningRate * a * M' / (sqrt(V') + Epsilon)."""
    start, gradients = weight_and_gradients()
    x, m, v = start.astype(np.float64), np.zeros((3, 4)), np.zeros((3, 4))
    beta_1, beta_2, epsilon = 0.8, 0.95, 1e-3
    expected = []
    for t, g in enumerate(gradients, 1):
        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g**2
        a = math.sqrt(1 - beta_2**t) / (1 - beta_1**t)
        x = x - 0.05 / (1 + decay * (t - 1)) * a * m / (np.sqrt(v) + epsilon)
        expected.append(x)
    found = run(Adam(lr=0.05, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, decay=decay), start, gradients)
    assert_close(np.array(found), np.array(expected), np.float32, terms=10)


def test_defaults_are_keras_1s() -> None:
    sgd, adam = optimizer("sgd"), optimizer("Adam")
    assert (sgd.lr, sgd.momentum, sgd.nesterov, sgd.decay, sgd.clipnorm, sgd.clipvalue) == (0.01, 0, False, 0, None, None)  # type: ignore[attr-defined]
    assert (adam.lr, adam.beta_1, adam.beta_2, adam.epsilon, adam.decay) == (0.001, 0.9, 0.999, 1e-8, 0)  # type: ignore[attr-defined]


def test_the_norm_of_all_gradients_is_held() -> None:
    weights = [Weight("W", np.zeros((2, 2), np.float32)), Weight("b", np.zeros(1, np.float32))]
    gradients = [np.array([[2.0, 4.0], [4.0, 0.0]], np.float32), np.array([8.0], np.float32)]  # norm 10
    for limit, factor in ((5, 0.5), (20, 1.0)):
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.value[...], weight.gradient = 0, gradient
        SGD(lr=1, clipnorm=limit).update(weights, BACKEND)
        for weight, gradient in zip(weights, gradients, strict=True):
            np.testing.assert_allclose(weight.value, -factor * gradient, rtol=1e-6)


def test_each_entry_of_a_gradient_is_held() -> None:
    weight = Weight("W", np.zeros(4, np.float32), np.array([-3, -0.5, 0.5, 3], np.float32))
    SGD(lr=1, clipvalue=2).update([weight], BACKEND)
    np.testing.assert_array_equal(weight.value, [2, 0.5, -0.5, -2])


def test_updates_are_in_place_and_allocate_nothing() -> None:
    weights = [Weight("W", draw(64, 1024), draw(64, 1024, seed=1)), Weight("b", draw(1024), draw(1024, seed=2))]
    places = [weight.value.__array_interface__["data"] for weight in weights]
    for rule in (SGD(momentum=0.9, nesterov=True, clipnorm=1, clipvalue=1), Adam(clipnorm=1, clipvalue=1)):
        rule.update(weights, BACKEND)
        tracemalloc.start()
        rule.update(weights, BACKEND)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
        tracemalloc.stop()
    assert [weight.value.__array_interface__["data"] for weight in weights] == places
