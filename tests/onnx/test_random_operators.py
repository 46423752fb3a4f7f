"""Nodes of random numbers: their distributions, types, and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

from dmlpy import onnx
from tests.support.onnx.models import Array, model

COUNT = 100_000
"""The numbers that are drawn: a mean of them is within 5 of its standard deviations, which no seed that is tested here exceeds."""

# operator, attributes, type of the results, mean, standard deviation
CASES: dict[str, tuple[str, dict[str, Any], int, float, float]] = {
    "RandomNormal": ("RandomNormal", {"shape": [COUNT // 10, 10]}, TensorProto.FLOAT, 0.0, 1.0),
    "RandomNormal, halves": ("RandomNormal", {"shape": [COUNT], "dtype": 10, "mean": 4.0}, TensorProto.FLOAT16, 4.0, 1.0),
    "RandomUniform": ("RandomUniform", {"shape": [COUNT]}, TensorProto.FLOAT, 0.5, 12**-0.5),
    "RandomUniform, doubles": (
        "RandomUniform",
        {"shape": [COUNT], "dtype": 11, "low": 2.0, "high": 6.0},
        TensorProto.DOUBLE,
        4.0,
        4 * 12**-0.5,
    ),
    "RandomNormalLike": ("RandomNormalLike", {"mean": -3.0, "scale": 2.0}, TensorProto.FLOAT, -3.0, 2.0),
    "RandomUniformLike": ("RandomUniformLike", {"low": -1.0, "dtype": 10}, TensorProto.FLOAT16, 0.0, 2 * 12**-0.5),
    "Bernoulli": ("Bernoulli", {}, TensorProto.FLOAT, 0.25, 0.1875**0.5),
    "Bernoulli, truth values": ("Bernoulli", {"dtype": 9}, TensorProto.BOOL, 0.25, 0.1875**0.5),
}


def drawn(operator: str, x: Array | None, element: int, **attributes: Any) -> list[Array]:
    """What two runs of a model give."""
    nodes = [make_node(operator, ["x"] if x is not None else [], ["y"], **attributes)]
    compiled = onnx.load(model(nodes, {} if x is None else {"x": x.shape}, ["y"], types={"y": element})).compile("numpy")
    return [np.asarray(compiled({} if x is None else {"x": x})["y"]) for _ in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_random_numbers_have_their_mean_and_deviation(name: str) -> None:
    operator, attributes, element, mean, deviation = CASES[name]
    x = None if "shape" in attributes else np.full((10, COUNT // 10), 0.25, np.float32)
    first, again = drawn(operator, x, element, seed=7.0, **attributes)
    np.testing.assert_array_equal(first, again, strict=True)
    assert first.shape == (x.shape if x is not None else tuple(attributes["shape"]))
    np.testing.assert_allclose(first.mean(dtype=np.float64), mean, atol=5 * deviation / COUNT**0.5)
    np.testing.assert_allclose(first.std(dtype=np.float64), deviation, rtol=0.02)
    (other, _), unseeded = drawn(operator, x, element, seed=7.5, **attributes), drawn(operator, x, element, **attributes)
    assert all((numbers != first).any() for numbers in (other, *unseeded))
    assert (unseeded[0] != unseeded[1]).any()


def test_probabilities_of_0_and_1_are_certain() -> None:
    assert drawn("Bernoulli", np.repeat(np.float32([0, 1]), 5000), TensorProto.FLOAT)[0].tolist() == [0.0] * 5000 + [1.0] * 5000


@pytest.mark.parametrize("element", [TensorProto.INT32, TensorProto.INT64])
def test_classes_are_as_frequent_as_their_probabilities(element: int) -> None:
    """Logarithms of any sum; a class of probability 0 is never drawn, not even at the end."""
    shares = np.array([[1, 2, 0, 5, 0], [0, 1, 0, 0, 0], [3, 3, 3, 3, 3]])
    with np.errstate(divide="ignore"):
        logits = np.log(shares * [[1e-20], [1e20], [1.0]]).astype(np.float32)
    first, again = drawn("Multinomial", logits, element, sample_size=COUNT, dtype=element, seed=-2.0)
    np.testing.assert_array_equal(first, again, strict=True)
    assert first.shape == (3, COUNT)
    for row, share in zip(first, shares / shares.sum(1, keepdims=True), strict=True):
        found = np.bincount(row, minlength=5) / COUNT
        assert (np.abs(found - share) <= 5 * np.sqrt(share * (1 - share) / COUNT)).all()
