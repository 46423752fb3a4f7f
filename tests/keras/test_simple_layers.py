"""Dense, Embedding and Masking: values and gradients against plain NumPy in float64, masks, first weights, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import simple
from dmlpy.keras.activations import ACTIVATIONS
from dmlpy.keras.backend import Backend
from dmlpy.keras.layer import Layer, Shape
from dmlpy.keras.pointwise import Activation
from dmlpy.keras.regularizers import Regularizer, l1, l1l2, l2
from dmlpy.keras.simple import Dense, Embedding, Masking, sum_by_symbol
from tests.support.keras.activation_formulas import FORMULAS
from tests.support.keras.numbers import Array, differences, draw
from tests.support.tolerance import assert_close

DENSE_SHAPES = [(5, 4), (3, 6, 4), (2, 3, 2, 4)]
DESCS: list[tuple[dml.OperatorDesc, Callable[[Array], Array]]] = [
    (dml.ActivationLinearDesc(alpha=0.5, beta=2), lambda z: 0.5 * z + 2),
    (dml.ActivationScaledTanhDesc(alpha=1.5, beta=0.7), lambda z: 1.5 * np.tanh(0.7 * z)),
    (dml.ActivationThresholdedReluDesc(alpha=0.25), lambda z: np.where(z > 0.25, z, 0)),
    (dml.ActivationSoftplusDesc(steepness=2), lambda z: np.log1p(np.exp(2 * z)) / 2),
    (dml.ActivationCeluDesc(alpha=2), lambda z: np.where(z > 0, z, 2 * np.expm1(z / 2))),
    (dml.ActivationSwishDesc(sigmoid_input_scale=1.7), lambda z: z / (1 + np.exp(-1.7 * z))),
    (dml.ActivationSoftmax1Desc(axes=[1]), FORMULAS["softmax"]),
    (dml.ActivationLogSoftmax1Desc(axes=[1]), FORMULAS["log_softmax"]),
    (dml.ElementWiseClipDesc(min=-0.5, max=1, scale_bias=dml.ScaleBias(scale=2, bias=0.25)), lambda z: np.clip(2 * z + 0.25, -0.5, 1)),
]
"""Descs in place of names, with their functions."""


def built(layer: Layer, *shape: int | None, seed: int = 0) -> Layer:
    layer.build((None, *shape), Backend("numpy", seed))
    return layer


# Dense


def test_every_name_has_a_function() -> None:
    assert {*ACTIVATIONS} == {*FORMULAS}


@pytest.mark.parametrize(
    ("activation", "function", "shape", "bias"),
    [
        *((name, FORMULAS[name], shape, bias) for name in ("linear", "softmax") for shape in DENSE_SHAPES for bias in (True, False)),
        *((given, function, (3, 6, 4), True) for given, function in (*FORMULAS.items(), *DESCS)),
    ],
    ids=lambda value: value.short_name() if isinstance(value, dml.OperatorDesc) else str(value) if not callable(value) else "",
)
def test_dense_and_its_gradients(activation: Any, function: Callable[[Array], Array], shape: tuple[int, ...], bias: bool) -> None:
    layer = built(Dense(3, activation=activation, bias=bias), *shape[1:])
    x, upstream = draw(*shape), draw(*shape[:-1], 3, seed=1)
    given = {"x": x, "W": draw(4, 3, seed=2), "b": draw(3, seed=3)}
    layer.set_weights([given[name] for name in ("W", "b")[: 1 + bias]])

    def value(**changed: Array) -> Array:
        arrays = {name: array.astype(np.float64) for name, array in (given | changed).items()}
        return function(arrays["x"] @ arrays["W"] + bias * arrays["b"])

    y, mask = layer.forward(x, None, training=True)
    assert mask is None
    assert_close(y, value(), np.float32, terms=4)
    found = {"x": layer.backward(upstream)} | {weight.name: weight.gradient for weight in layer.weights}
    assert list(found) == ["x", "W", "b"][: 2 + bias]
    for name, gradient in found.items():
        expected = differences(lambda moved, name=name: float((value(**{name: moved}) * upstream).sum()), given[name])  # type: ignore[misc]
        assert gradient is not None
        assert gradient.dtype == np.float32
        assert_close(gradient, expected, np.float32, terms=100, what=name)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_large_products_of_dense_are_gemm_on_the_cpu(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones, which cost less by BLAS, and those of few rows, for which packing the weights does not pay, are not."""
    layer = Dense(24, bias=bias)
    layer.build((None, 11, 7), Backend("cpu", 0))
    x, upstream = draw(3, 11, 7), draw(3, 11, 24, seed=1)
    y, _ = layer.forward(x, None, training=True)
    expected = [y, layer.backward(upstream), *(weight.gradient for weight in layer.weights)]
    assert not layer.descs
    monkeypatch.setattr(simple, "worth", lambda multiplications: 2)
    layer.forward(x, None, training=True)
    assert not layer.descs
    monkeypatch.setattr(simple, "_GEMM_ROWS", 33)
    for _ in range(2):
        y, _ = layer.forward(x, None, training=True)
        found = [y, layer.backward(upstream), *(weight.gradient for weight in layer.weights)]
        assert [type(desc) for desc in layer.descs] == [dml.GEMMDesc] * 3
        for one, other in zip(found, expected, strict=True):
            assert one is not None
            assert other is not None
            assert_close(one, other, np.float32, terms=33)


def test_dense_lets_masks_and_other_layouts_through() -> None:
    layer = built(Dense(3, activation="tanh"), 6, 4)
    x, mask = draw(6, 5, 4).swapaxes(0, 1), draw(5, 6) > 0
    y, passed = layer.forward(x, mask, training=False)
    assert passed is mask
    np.testing.assert_array_equal(y, layer(np.ascontiguousarray(x)))


def test_dense_shows_the_operator_that_ran() -> None:
    layer = built(Dense(3, activation="softmax"), 6, 4)
    layer(draw(5, 6, 4))
    (desc,) = layer.descs
    assert isinstance(desc, dml.ActivationSoftmaxDesc)
    assert desc.input_tensor is not None
    assert desc.input_tensor.sizes == (30, 3)
    linear = built(Dense(3), 4)
    linear(draw(5, 4))
    assert linear.descs == ()


def test_dense_predicts_with_hardmax_but_cannot_train_it() -> None:
    layer, x = built(Dense(3, activation=dml.ActivationHardmaxDesc()), 4), draw(5, 4)
    np.testing.assert_array_equal(layer(x).argmax(-1), (x.astype(np.float64) @ layer.get_weights()[0]).argmax(-1))
    why, remedy = r"its derivative is zero, so nothing is trained", r"did you mean SOFTMAX\?"
    message = rf"activation is HARDMAX, expected one of CELU, .*ELEMENT_WISE_CLIP, .*SWISH.*\n.*{why}\n.*{remedy}"
    with pytest.raises(dml.DescError, match=message):
        layer.forward(x, None, training=True)


@pytest.mark.parametrize("activation", [name for name in FORMULAS if "softmax" not in name])
def test_gradients_at_large_arguments_are_limits(activation: str) -> None:
    """Where functions of the argument overflow or are infinity times 0."""
    layer = built(Activation(activation), 4)
    layer.forward(np.array([[-np.inf, -200, 200, np.inf]], np.float32), None, training=True)
    function = FORMULAS[activation]
    with np.errstate(all="ignore"):
        found = layer.backward(np.ones((1, 4), np.float32))
        expected = np.array([[function(at + 1) - function(at) for at in map(np.float64, (-1e5, -200, 200, 1e5))]])
    expected = np.where(np.isnan(expected) | (expected > 1e38), np.inf, expected)  # the exponential's
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("activation", FORMULAS)
def test_gradients_at_the_largest_numbers_overflow_nowhere(activation: str) -> None:
    """Each warning of NumPy's fails."""
    layer = built(Activation(activation), 4)
    layer.forward(np.array([[-3e38, -1e20, 1e20, 3e38]], np.float32), None, training=True)
    assert not np.isnan(layer.backward(np.ones((1, 4), np.float32))).any()


def test_a_first_layer_computes_no_gradient_of_its_input() -> None:
    for layer, x in ((Dense(3), draw(5, 4)), (Masking(), draw(5, 3, 4))):
        built(layer, *x.shape[1:])
        layer.input_gradient = False
        y, _ = layer.forward(x, None, training=True)
        assert layer.backward(np.ones_like(y)) is None


# Embedding


def test_an_embedding_looks_up_rows() -> None:
    layer = built(Embedding(7, 3), None)
    (rows,) = layer.get_weights()
    assert np.abs(rows).max() <= 0.05
    symbols = np.array([[0, 6, 6], [2, 0, 1]])
    for x in (symbols, symbols.astype(np.uint8), symbols.astype(np.float64), symbols.tolist()):
        np.testing.assert_array_equal(layer(x), rows[symbols])
    y, mask = layer.forward(symbols.astype(np.int32), None, training=False)
    assert mask is None
    y[...] = 0  # the rows are copies
    np.testing.assert_array_equal(layer.get_weights()[0], rows)


def test_an_embedding_masks_zeros() -> None:
    layer = built(Embedding(7, 3, mask_zero=True), 3)
    _, mask = layer.forward(np.array([[0, 6, 6], [2, 0, 1]], np.int32), None, training=False)
    np.testing.assert_array_equal(mask, [[False, True, True], [True, False, True]])


SYMBOLS = {
    "one": np.zeros(13, np.int32),
    "all different": np.arange(13, dtype=np.int32)[::-1].copy(),
    "single": np.array([5], np.int32),
    "some": np.array([3, 3, 0, 12, 3, 0, 3, 3, 3], np.int32),
    "many": np.random.default_rng(0).zipf(1.5, 4000).clip(max=13).astype(np.int32) - 1,
}


@pytest.mark.parametrize("name", SYMBOLS)
def test_gradients_of_rows_are_summed_by_symbol(name: str) -> None:
    symbols = SYMBOLS[name]
    rows = draw(symbols.size, 5)
    expected = np.zeros((13, 5))
    np.add.at(expected, symbols, rows.astype(np.float64))
    kept = rows.copy()
    assert_close(sum_by_symbol(rows, symbols, 13, np), expected, np.float32, terms=symbols.size)
    np.testing.assert_array_equal(rows, kept)


def test_an_embeddings_gradient() -> None:
    layer = built(Embedding(7, 3, input_length=4), 4)
    x, upstream = np.array([[1, 1, 0, 1], [6, 2, 1, 6]], np.int32), draw(2, 4, 3)
    layer.forward(x, None, training=True)
    assert layer.backward(upstream) is None
    expected = np.zeros((7, 3))
    np.add.at(expected, x, upstream.astype(np.float64))
    assert_close(layer.weights[0].gradient, expected, np.float32, terms=4)


def test_an_embedding_drops_whole_symbols() -> None:
    layer = built(Embedding(400, 3, dropout=0.25), 500)
    x = np.random.default_rng(1).integers(0, 400, (2, 500)).astype(np.int32)
    (rows,) = layer.get_weights()
    np.testing.assert_array_equal(layer(x), rows[x])
    y, _ = layer.forward(x, None, training=True)
    factors = np.round(y / rows[x], 4)
    assert set(factors.ravel()) == {np.float32(0), np.float32(1.3333)}
    of_symbol = {int(symbol): factor.tolist() for symbol, factor in zip(x.ravel(), factors.reshape(-1, 3), strict=True)}
    assert all(of_symbol[int(symbol)] == factor.tolist() for symbol, factor in zip(x.ravel(), factors.reshape(-1, 3), strict=True))
    assert 0.15 < np.mean([factor[0] == 0 for factor in of_symbol.values()]) < 0.35
    layer.backward(np.ones_like(y))
    expected = np.zeros((400, 3))
    np.add.at(expected, x, (y / rows[x]).astype(np.float64))
    assert_close(layer.weights[0].gradient, expected, np.float32, terms=10)


# Masking


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_masking(value: float) -> None:
    layer = built(Masking(mask_value=value), 4, 2)
    x = draw(3, 4, 2)
    x[1, 2] = x[0, 0] = value
    x[2, 3, 0] = value  # not all of the step
    expected = np.ones((3, 4), bool)
    expected[1, 2] = expected[0, 0] = False
    y, mask = layer.forward(x, None, training=True)
    np.testing.assert_array_equal(mask, expected)
    np.testing.assert_array_equal(y, np.where(expected[..., None], x, 0))
    upstream = draw(3, 4, 2, seed=1)
    np.testing.assert_array_equal(layer.backward(upstream), np.where(expected[..., None], upstream, 0))
    given = np.ones((3, 4), bool)
    given[:, 1] = False
    np.testing.assert_array_equal(layer.forward(x, given, training=False)[1], expected & given)


# What layers share


SHAPES: list[tuple[Layer, Shape | None]] = [
    (Dense(3), None),
    (Dense(3, input_dim=4), (None, 4)),
    (Dense(3, input_dim=4, input_length=6), (None, 6, 4)),
    (Dense(3, input_shape=(6, 4)), (None, 6, 4)),
    (Dense(3, batch_input_shape=(8, None, 4)), (8, None, 4)),
    (Embedding(7, 3), (None, None)),
    (Embedding(7, 3, input_length=6), (None, 6)),
    (Embedding(7, 3, batch_input_shape=(8, 6)), (8, 6)),
    (Masking(), None),
    (Masking(input_dim=4), (None, None, 4)),
    (Masking(input_dim=4, input_length=6), (None, 6, 4)),
    (Masking(input_shape=(6, 4)), (None, 6, 4)),
]


@pytest.mark.parametrize(("layer", "expected"), SHAPES)
def test_input_shapes(layer: Layer, expected: Shape | None) -> None:
    assert layer.input_shape == expected


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (Dense(3), (8, None, 4), (8, None, 3)),
        (Dense(3), (None, 4), (None, 3)),
        (Embedding(7, 3), (None, 6), (None, 6, 3)),
        (Masking(), (None, 6, 4), (None, 6, 4)),
    ],
)
def test_output_shapes(layer: Layer, shape: Shape, expected: Shape) -> None:
    assert layer.compute_output_shape(shape) == expected


def test_first_weights_are_copied() -> None:
    given = [draw(4, 3), draw(3)]
    layer = built(Dense(3, weights=given), 4)
    rows = draw(7, 3)
    embedding = built(Embedding(7, 3, weights=[rows]), None)
    for own, arrays in ((layer, given), (embedding, [rows])):
        for found, weight, array in zip(own.get_weights(), own.weights, arrays, strict=True):
            np.testing.assert_array_equal(found, array)
            assert not np.shares_memory(weight.value, array)
            assert not np.shares_memory(weight.value, found)


def test_first_weights_are_reproducible() -> None:
    first, second, other = (built(Dense(3), 4, seed=seed).get_weights()[0] for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, second)
    assert (first != other).all()
    bound = np.sqrt(6 / 7)
    assert np.abs(first).max() <= bound
    np.testing.assert_array_equal(built(Dense(3, init="one"), 4).get_weights()[0], np.ones((4, 3)))


@pytest.mark.parametrize(
    ("given", "expected"), [("l1", l1(0.01)), ("l2", l2()), ("l1l2", Regularizer(0.01, 0.01)), (l1l2(0.5, 0.25), Regularizer(0.5, 0.25))]
)
def test_regularizers(given: Any, expected: Regularizer) -> None:
    layer = built(Dense(3, W_regularizer=given, b_regularizer=l2(3)), 4)
    assert [weight.regularizer for weight in layer.weights] == [expected, l2(3)]
    w = draw(4, 3)
    w[0, 0] = 0
    exact = w.astype(np.float64)
    assert expected.loss(w) == pytest.approx(expected.l1 * np.abs(exact).sum() + expected.l2 * (exact**2).sum(), rel=1e-6)
    assert_close(expected.gradient(w), expected.l1 * np.sign(exact) + 2 * expected.l2 * exact, np.float32)


ERRORS: list[tuple[str, Callable[[], Any], str]] = [
    ("output size", lambda: Dense(0), r"output_dim is 0, expected an integer of at least 1  \[field\.form\]"),
    ("activation", lambda: Dense(3, activation="sigmoyd"), r"activation is 'sigmoyd'.*\n.*did you mean sigmoid\?"),
    ("all arguments", lambda: Dense("3", init="glorot", W_regularizer="l3"), r"3 problems\n(.|\n)*W_regularizer"),
    ("unknown size of the input", lambda: built(Dense(3), None), r"input_shape is \[None, None\], expected \[B, input_dim\]"),
    ("samples of one number", lambda: Dense(3).compute_output_shape((None,)), r"input_shape is \[None\], expected"),
    (
        "too many weights",
        lambda: built(Dense(3, weights=[np.ones((4, 3))]), 4),
        r"weights has 1 array, expected 2: W, b  \[weights\.count\]",
    ),
    (
        "weight of a shape",
        lambda: built(Dense(1, weights=[[[1.0]], [2.0]]), 4),
        r"weights\[0\] is of shape \[1, 1\], expected \[4, 1\], as W",
    ),
    ("weights too early", lambda: Dense(3).set_weights([]), r"\[layer\.not_built\]"),
    ("symbols", lambda: Embedding(0, 0), "2 problems"),
    ("dropout", lambda: Embedding(7, 3, dropout=1.0), r"dropout is 1\.0, expected a number of at least 0, below 1"),
    ("regularizer", lambda: Embedding(7, 3, W_regularizer="12"), r"W_regularizer is '12', expected one of l1, l2, l1l2\b"),
    ("symbols of vectors", lambda: built(Embedding(7, 3), 4, 2), r"input_shape is \[None, 4, 2\], expected \[B, T\]"),
    (
        "large symbol",
        lambda: built(Embedding(7, 3), 2)([[0, 7]]),
        r"x\[0, 1\] is 7, expected a whole number from 0 to 6  \[embedding\.symbol\]",
    ),
    ("negative symbols", lambda: built(Embedding(7, 3), 2)([[-1, 9]]), r"x\[0, 0\] is -1, and 1 more are out of range, expected"),
    ("half a symbol", lambda: built(Embedding(7, 3), 2)([[0, 0.5]]), r"x\[0, 1\] is 0\.5, expected a whole number"),
    ("no symbol", lambda: built(Embedding(7, 3), 2)([[0, np.nan]]), r"x\[0, 1\] is nan, expected a whole number"),
    (
        "mask of symbols",
        lambda: built(Embedding(7, 3), 2)([[0, 1]], [[True, False]]),
        r"mask is given, expected no mask  \[mask\.unexpected\]",
    ),
    (
        "symbols that were computed",
        lambda: built(Embedding(7, 3), 2).forward(draw(1, 2), None, training=False),
        r"x is of type float32, expected symbols",
    ),
    ("size of the input", lambda: Dense(3, input_dim=-1), r"input_dim is -1, expected an integer of at least 1"),
    ("shape of the input", lambda: Masking(input_shape="34"), r"input_shape is '34', expected sizes of at least 1"),
    ("rows of another size", lambda: built(Dense(3), 4)(draw(2, 5)), r"x is of shape \[2, 5\], expected \[any, 4\]  \[array\.shape\]"),
    ("no samples", lambda: built(Dense(3), 4)(3.0), r"x is of shape \[1\], expected \[any, 4\]"),
    ("symbols of steps", lambda: built(Embedding(7, 3), 2)([[[1, 2]]]), r"x is of shape \[1, 1, 2\], expected \[any, any\]"),
    ("steps of another size", lambda: built(Masking(), 4, 2)(draw(2, 4, 3)), r"x is of shape \[2, 4, 3\], expected \[any, any, 2\]"),
    (
        "a mask of other steps",
        lambda: built(Masking(), 4, 2)(draw(2, 4, 2), np.ones((2, 3))),
        r"mask is of shape \[2, 3\], expected \[2, 4\]",
    ),
    ("no weights", lambda: built(Dense(3), 4).set_weights(3), r"weights is 3, expected a list of arrays  \[data\.form\]"),
    ("masking of samples", lambda: built(Masking(), 4), r"input_shape is \[None, 4\], expected \[B, T, input_dim\]"),
    ("Dense before training", lambda: built(Dense(3), 4).backward(draw(1, 3)), r"\[layer\.not_trained\]"),
    ("Embedding before training", lambda: built(Embedding(7, 3), 2).backward(draw(1, 2, 3)), r"\[layer\.not_trained\]"),
    ("Masking before training", lambda: built(Masking(), 4, 2).backward(draw(1, 4, 2)), r"\[layer\.not_trained\]"),
]


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.DescError, match=message):
        call()
