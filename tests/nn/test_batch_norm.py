"""batch_norm against its formula in float64, and its gradients against differences of that formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlpy import nn
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]
EPSILON = 1e-3


def formula(x: Array, scale: Array, bias: Array, mean: Array | None = None, variance: Array | None = None) -> Array:
    axes, shape = (0, *range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
    mean = x.mean(axes) if mean is None else mean
    variance = x.var(axes) if variance is None else variance
    centred = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + EPSILON)
    return scale.reshape(shape) * centred + bias.reshape(shape)


def differences(inputs: list[Array], at: int, dy: Array) -> Array:
    """The gradient of sum(dy * formula) by one input, by central differences in float64."""
    found = np.empty_like(inputs[at])
    for index in np.ndindex(found.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [array.copy() for array in inputs]
            moved[at][index] += step
            ends.append((dy * formula(*moved)).sum())
        found[index] = (ends[0] - ends[1]) / 2e-6
    return found


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4), (2, 3, 2, 3)])
@pytest.mark.parametrize("given", [False, True])
def test_values_and_gradients(shape: tuple[int, ...], given: bool) -> None:
    rng = np.random.default_rng(len(shape))
    x, dy = rng.standard_normal((2, *shape)).astype(np.float32)
    scale, bias, mean = rng.standard_normal((3, 3)).astype(np.float32)
    statistics = [mean, np.abs(rng.standard_normal(3)).astype(np.float32)] if given else []
    # A view with negative strides, which operators do not take.
    arrays = [np.flip(np.ascontiguousarray(np.flip(x, 0)), 0), scale, bias, *statistics]
    result, backward = nn.batch_norm_vjp(*arrays, epsilon=EPSILON, device="numpy")
    wide = [array.astype(np.float64) for array in arrays]
    axes = (0, *range(2, x.ndim))
    assert_close(result.y, formula(*wide), np.float32, terms=x.size)
    assert_close(result.mean, mean if given else x.mean(axes, np.float64), np.float32, terms=x.size)
    assert_close(result.variance, statistics[1] if given else x.astype(float).var(axes), np.float32, terms=x.size)
    np.testing.assert_array_equal(nn.batch_norm(*arrays, epsilon=EPSILON, device="numpy").y, result.y)
    found = backward(np.flip(np.ascontiguousarray(np.flip(dy, -1)), -1))
    for at, gradient in enumerate(found):
        assert_close(gradient, differences(wide, at, dy.astype(np.float64)), np.float32, terms=x.size)
