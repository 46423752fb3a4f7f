"""Initializers of weights, by Keras's names. An initializer takes a shape and a random generator, and returns float32 values.

For a matrix [in, out], fan_in is `in` and fan_out is `out`. For other shapes both are the square root of the size, as in Keras 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.keras.activations import ACTIVATIONS
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import DescError, Problem

Values = np.ndarray[Any, np.dtype[np.float32]]
Initializer = Callable[[tuple[int, ...], np.random.Generator], Any]
"""Computes the initial values of a weight of a given shape; arrays of other types are converted to float32."""


def fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """The fan_in and fan_out of a weight."""
    if len(shape) == 2:
        return shape[0], shape[1]
    root = math.sqrt(math.prod(shape))
    return root, root


def zero(shape: tuple[int, ...], random: np.random.Generator) -> Values:
    """Returns zeros."""
    return np.zeros(shape, np.float32)


def one(shape: tuple[int, ...], random: np.random.Generator) -> Values:
    """Returns ones."""
    return np.ones(shape, np.float32)


def uniform(shape: tuple[int, ...], random: np.random.Generator, scale: float = 0.05) -> Values:
    """Draws uniformly from -scale to scale."""
    return random.uniform(-scale, scale, shape).astype(np.float32)


def normal(shape: tuple[int, ...], random: np.random.Generator, scale: float = 0.05) -> Values:
    """Draws normally with the standard deviation `scale`."""
    return random.normal(0, scale, shape).astype(np.float32)


def lecun_uniform(shape: tuple[int, ...], random: np.random.Generator) -> Values:
    """Draws uniformly up to sqrt(3 / fan_in) in magnitude."""
    return uniform(shape, random, math.sqrt(3 / fans(shape)[0]))


def glorot_uniform(shape: tuple[int, ...], random: np.random.Generator) -> Values:
    """Draws uniformly up to sqrt(6 / (fan_in + fan_out)) in magnitude."""
    return uniform(shape, random, math.sqrt(6 / sum(fans(shape))))


def glorot_normal(shape: tuple[int, ...], random: np.random.Generator) -> Values:
    """Draws normally with the variance 2 / (fan_in + fan_out)."""
    return normal(shape, random, math.sqrt(2 / sum(fans(shape))))


def he_uniform(shape: tuple[int, ...], random: np.random.Generator) -> Values:
    """Draws uniformly up to sqrt(6 / fan_in) in magnitude."""
    return uniform(shape, random, math.sqrt(6 / fans(shape)[0]))


def he_normal(shape: tuple[int, ...], random: np.random.Generator) -> Values:
    """Draws normally with the variance 2 / fan_in."""
    return normal(shape, random, math.sqrt(2 / fans(shape)[0]))


def orthogonal(shape: tuple[int, ...], random: np.random.Generator, scale: float = 1.0) -> Values:
    """A random matrix whose rows or columns, whichever are fewer, are orthogonal and of length `scale`.

    Keras 1 has a scale of 1.1, later versions 1: `functools.partial(orthogonal, scale=1.1)` gives the former.

    Raises:
        DescError: the weight is not a matrix.
    """
    rows, columns = _matrix(shape, "orthogonal")
    drawn = random.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    # With r's diagonal positive the decomposition is unique, so that all orthogonal matrices are equally likely.
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return np.ascontiguousarray(scale * (q if rows >= columns else q.T), np.float32)


def identity(shape: tuple[int, ...], random: np.random.Generator, scale: float = 1.0) -> Values:
    """Returns `scale` times the identity.

    Raises:
        DescError: the weight is not a square matrix.
    """
    rows, columns = _matrix(shape, "identity")
    if rows != columns:
        raise DescError("identity", [Problem("weights.shape", "", f"{list(shape)}", "a square matrix")])
    return np.eye(rows, dtype=np.float32) * np.float32(scale)


def _matrix(shape: tuple[int, ...], name: str) -> tuple[int, int]:
    if len(shape) != 2:
        raise DescError(name, [Problem("weights.shape", "", f"{list(shape)}", "a matrix: two sizes")])
    return shape[0], shape[1]


INITIALIZERS: dict[str, Initializer] = {
    "zero": zero,
    "zeros": zero,
    "one": one,
    "ones": one,
    "uniform": uniform,
    "normal": normal,
    "lecun_uniform": lecun_uniform,
    "glorot_uniform": glorot_uniform,
    "glorot_normal": glorot_normal,
    "he_uniform": he_uniform,
    "he_normal": he_normal,
    "orthogonal": orthogonal,
    "identity": identity,
}
"""Initializers by Keras's names."""


def initializer(value: Initializer | str) -> Initializer:
    """Returns an initializer as it is, or the one of a Keras name.

    Raises:
        DescError: the name is unknown.
    """
    if callable(value):
        return value
    if not isinstance(value, str) or value not in INITIALIZERS:
        expected = f"a function of a shape and a random generator, or one of {', '.join(INITIALIZERS)}"
        remedy = did_you_mean(value, INITIALIZERS)
        if isinstance(value, str) and value in ACTIVATIONS:  # the second argument of later versions of Keras
            remedy = f"write activation={value!r}: an activation is given by name"
        raise DescError("initializer", [Problem("field.form", "", brief(value), expected, remedy=remedy)])
    return INITIALIZERS[value]


def initial(initializer: Initializer, shape: tuple[int, ...], random: np.random.Generator) -> Values:
    """The float32 values that an initializer returns.

    Raises:
        DescError: it returns values of another shape.
    """
    values = np.array(initializer(shape, random), np.float32)  # a copy: training changes it in place
    if values.shape != shape:
        raise DescError("initializer", [Problem("weights.shape", "", f"values of shape {list(values.shape)}", str(list(shape)))])
    return values
