"""Quantized numbers for tests of products: random ones, descs of given arrays, and results in exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.operators.layout_runs import Array, tensor

BYTES = ("uint8", "int8")


def random(rng: np.random.Generator, dtype: str, *sizes: int) -> Array:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)


def scales(rng: np.random.Generator, *sizes: int) -> Array:
    return rng.uniform(0.001, 0.1, sizes).astype(np.float32)


def quantized(value: Fraction, zero_point: int, dtype: str) -> int:
    """A number, rounded with halves to even, in the range of a type."""
    limits = np.iinfo(dtype)
    return min(max(round(value) + zero_point, int(limits.min)), int(limits.max))


def each(array: Array | None, count: int) -> list[Any]:
    """A scale or zero point for each row, column or channel, as Python's numbers; absent, zeros."""
    if array is None:
        return [0] * count
    values = array.reshape(-1).tolist()
    return values * count if len(values) == 1 else values


def described(kind: Callable[..., Any], given: dict[str, Array], output: str, sizes: tuple[int, ...], **members: Any) -> Any:
    tensors = {name: tensor(array) for name, array in given.items()}
    return kind(**tensors, output_tensor=dml.TensorDesc(data_type=output.upper(), sizes=sizes), **members)
