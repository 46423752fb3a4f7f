"""The gradients of batch normalization against central differences in float64: the oracle's, the NumPy plans' and the devices'."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.reference.normalization.batch import statistics
from tests.support.operators.exact import exact
from tests.support.operators.normalization_cases import FUSED, INPUTS, MODES, Array, Arrays, data_format, described, random_values, run
from tests.support.pairwise import first_few

Evaluate = Callable[[Any, Arrays], dict[str, Array]]

FORWARD_OF = {
    "BATCH_NORMALIZATION_GRAD": "BATCH_NORMALIZATION",
    "BATCH_NORMALIZATION_TRAINING_GRAD": "BATCH_NORMALIZATION_TRAINING",
    "FUSED_BATCH_NORM_GRAD_V3 training": "FUSED_BATCH_NORM_V3 training",
    "FUSED_BATCH_NORM_GRAD_V3 inference": "FUSED_BATCH_NORM_V3 inference",
}
GRADIENTS = pytest.mark.parametrize("mode", FORWARD_OF)
STEP = 1e-5


def draw(mode: str, rng: np.random.Generator) -> tuple[Any, dict[str, Array], Any, dict[str, Array]]:
    """A gradient with its inputs, and its forward operator with its own; all inputs are float64, whatever the descs' types.

    A variance near 0 would make the third derivative too large for a difference quotient, so epsilon is not small.
    """
    fused = MODES[mode][0] in FUSED
    sizes: tuple[int, ...] = (7,) * 5
    while prod(sizes) > 24:
        sizes = tuple(int(size) for size in rng.integers(1, 5, rng.integers(4, 6) if fused else rng.integers(1, 5)))
    kept = (int(rng.choice([1, len(sizes) - 1])),) if fused else tuple(np.flatnonzero(rng.integers(0, 2, len(sizes))).tolist())
    values = random_values(rng, sizes, kept)
    if MODES[mode][1]:
        values["mean"], values["variance"] = statistics(values["x"], tuple(set(range(len(sizes))) - set(kept)))
    members: dict[str, Any] = {"epsilon": float(rng.uniform(0.1, 0.5))}
    if fused:
        members |= {"is_training": MODES[mode][1], "data_format": data_format(sizes, kept)}
    found: list[Any] = []
    for name in (mode, FORWARD_OF[mode]):
        kind, training = MODES[name]
        left_out = {"add"} | ({"mean", "variance"} if name != mode and training else set())
        images = {"x", "dy"}
        arrays = {
            field: values[role].reshape(-1) if fused and role not in images else values[role]
            for field, role in INPUTS[kind].items()
            if role not in left_out
        }
        found += [described(kind, {field: array.astype(np.float32) for field, array in arrays.items()}, **members), arrays]
    return tuple(found)


def differences(forward: Any, arrays: dict[str, Array], dy: Array, evaluate: Evaluate) -> list[Array]:
    """Central differences of sum(dy * y) by x, scale and bias."""
    output = next(iter(forward.outputs())).name
    found = []
    for role in ("x", "scale", "bias"):
        name = next(field for field, own in INPUTS[type(forward)].items() if own == role)
        gradient = np.zeros(arrays[name].shape)
        for place in np.ndindex(gradient.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = arrays[name].copy()
                moved[place] += step
                ends.append(np.sum(dy * evaluate(forward, arrays | {name: moved})[output]))
            gradient[place] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(gradient)
    return found


def compare(mode: str, seed: int, evaluate: Evaluate) -> None:
    desc, arrays, forward, operands = draw(mode, np.random.default_rng([seed, *mode.encode()]))
    (dy,) = (arrays[name] for name, role in INPUTS[type(desc)].items() if role == "dy")
    found = evaluate(desc, arrays)
    for name, expected in zip(gradients_of(desc), differences(forward, operands, dy, evaluate), strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-6 * max(1.0, float(np.abs(expected).max())), err_msg=name)


def gradients_of(desc: Any) -> list[str]:
    """The gradients of x, scale and bias, in this order."""
    return [field.name for field in desc.outputs()]


@pytest.mark.parametrize("seed", first_few(range(50), 20))
@GRADIENTS
def test_the_oracles_gradients(mode: str, seed: int) -> None:
    compare(mode, seed, exact)


@pytest.mark.parametrize("seed", range(50, 60))
@GRADIENTS
def test_the_devices_gradients(any_device: dml.Device, mode: str, seed: int) -> None:
    """In FLOAT32, of the same inputs rounded."""
    desc, arrays, forward, operands = draw(mode, np.random.default_rng([seed, *mode.encode()]))
    (dy,) = (arrays[name] for name, role in INPUTS[type(desc)].items() if role == "dy")
    found = run(any_device, desc, {name: array.astype(np.float32) for name, array in arrays.items()})
    for name, expected in zip(gradients_of(desc), differences(forward, operands, dy, exact), strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=2e-5 * max(1.0, float(np.abs(expected).max())), err_msg=name)
