"""Random numbers on the host, by NumPy's generators: ONNX's reference implementation lacks Multinomial, and is slow.

A node with a `seed` gives the same numbers in each run, as in the reference implementation; ONNX Runtime, whose sessions go on from one run
to the next, gives others. Without a seed, numbers are others in each run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper
from onnx.reference.op_run import OpRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.loading.values import Array


def _generator(seed: float | None) -> np.random.Generator:
    """The generator for a seed, any float; one that nobody can repeat for None."""
    return np.random.Generator(np.random.SFC64(None if seed is None else int(np.float32(seed).view(np.uint32))))


def _type(given: int | None, x: Array | None = None) -> Any:
    """The type of the results: `dtype`, or else that of the input."""
    return x.dtype if x is not None and given is None else helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT if given is None else given)


def _drawn(dtype: Any) -> Any:
    """The type in which numbers are drawn for results of a type, or compared with numbers of it."""
    return np.float64 if dtype == np.float64 else np.float32


def _normal(sizes: Sequence[int], dtype: Any, mean: float | None, scale: float | None, seed: float | None) -> tuple[Array]:
    numbers = _generator(seed).standard_normal(sizes, _drawn(dtype))
    numbers *= 1.0 if scale is None else scale
    numbers += mean or 0.0
    return (numbers.astype(dtype, copy=False),)


def _uniform(sizes: Sequence[int], dtype: Any, low: float | None, high: float | None, seed: float | None) -> tuple[Array]:
    low, high = low or 0.0, 1.0 if high is None else high
    numbers = _generator(seed).random(sizes, _drawn(dtype))
    numbers *= high - low
    numbers += low
    return (numbers.astype(dtype, copy=False),)


class Bernoulli(OpRun):  # type: ignore[misc, unused-ignore]
    """1 with the probability that an element is, else 0."""

    def _run(self, x: Array, dtype: int | None = None, seed: float | None = None) -> tuple[Array]:
        drawn = _drawn(x.dtype)
        return ((_generator(seed).random(x.shape, drawn) < x.astype(drawn, copy=False)).astype(_type(dtype, x)),)


class Multinomial(OpRun):  # type: ignore[misc, unused-ignore]
    """Numbers of classes for each row of logarithms of their probabilities, which need not add up to 1."""

    def _run(self, x: Array, dtype: int | None = None, sample_size: int | None = None, seed: float | None = None) -> tuple[Array]:
        logits = x.astype(np.float64)
        most = logits.max(axis=1, keepdims=True, initial=-np.inf)
        sums = np.exp(np.where(logits == most, 0.0, logits - most)).cumsum(axis=1)
        drawn = _generator(seed).random((len(sums), 1 if sample_size is None else sample_size)) * sums[:, -1:]
        samples = np.empty(drawn.shape, _type(TensorProto.INT32 if dtype is None else dtype))
        for row, numbers, target in zip(sums, drawn, samples, strict=True):
            last = row.searchsorted(row[-1])  # the last class that has a probability: a product may round up to the sum
            np.minimum(row.searchsorted(numbers, side="right"), last, out=target, casting="same_kind")
        return (samples,)


class RandomNormal(OpRun):  # type: ignore[misc, unused-ignore]
    """Numbers of a normal distribution."""

    def _run(
        self,
        dtype: int | None = None,
        mean: float | None = None,
        scale: float | None = None,
        seed: float | None = None,
        shape: Sequence[int] | None = None,
    ) -> tuple[Array]:
        return _normal(shape or (), _type(dtype), mean, scale, seed)


class RandomNormalLike(OpRun):  # type: ignore[misc, unused-ignore]
    """As many numbers of a normal distribution as the input has."""

    def _run(
        self, x: Array, dtype: int | None = None, mean: float | None = None, scale: float | None = None, seed: float | None = None
    ) -> tuple[Array]:
        return _normal(x.shape, _type(dtype, x), mean, scale, seed)


class RandomUniform(OpRun):  # type: ignore[misc, unused-ignore]
    """Numbers from `low` to below `high`."""

    def _run(
        self,
        dtype: int | None = None,
        high: float | None = None,
        low: float | None = None,
        seed: float | None = None,
        shape: Sequence[int] | None = None,
    ) -> tuple[Array]:
        return _uniform(shape or (), _type(dtype), low, high, seed)


class RandomUniformLike(OpRun):  # type: ignore[misc, unused-ignore]
    """As many numbers from `low` to below `high` as the input has."""

    def _run(
        self, x: Array, dtype: int | None = None, high: float | None = None, low: float | None = None, seed: float | None = None
    ) -> tuple[Array]:
        return _uniform(x.shape, _type(dtype, x), low, high, seed)


RANDOM_OPERATORS: tuple[type[OpRun], ...] = (Bernoulli, Multinomial, RandomNormal, RandomNormalLike, RandomUniform, RandomUniformLike)
