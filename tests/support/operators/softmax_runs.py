"""Softmax and its kin: rows of values, runs on a device, and the comparison with exact results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.devices.cuda.emulation.runtime import approximates
from dmlpy.operators.activation import AxesActivationDesc, RowActivationDesc

Array = np.ndarray[Any, np.dtype[Any]]


GroupsDesc = RowActivationDesc | AxesActivationDesc


OVER_AXES: dict[str, type[AxesActivationDesc]] = {
    "softmax": dml.ActivationSoftmax1Desc,
    "log_softmax": dml.ActivationLogSoftmax1Desc,
    "hardmax": dml.ActivationHardmax1Desc,
}


def of_group(function: str, x: Array) -> Array:
    """The function of one group, in float64, entries in row-major order."""
    if function == "hardmax":
        largest = np.isnan(x) if np.isnan(x).any() else x == np.max(x)
        return np.where(np.arange(len(x)) == np.flatnonzero(largest)[0], 1.0, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = x - np.max(x)
        powers = np.exp(shifted)
        total = np.sum(powers)
        return np.asarray(powers / total if function == "softmax" else shifted - np.log(total))


def expected(function: str, x: Array, axes: Sequence[int]) -> Array:
    """The function of each group, one by one."""
    reduced = sorted(set(axes))
    order = [axis for axis in range(x.ndim) if axis not in reduced] + reduced
    moved = x.astype(np.float64).transpose(order)
    rows = moved.reshape(-1, int(np.prod([x.shape[axis] for axis in reduced])))
    results = np.stack([of_group(function, row) for row in rows]).reshape(moved.shape)
    return results.transpose(np.argsort(order))


def described(function: str, x: Array, axes: Sequence[int]) -> AxesActivationDesc:
    return OVER_AXES[function](input_tensor=dml.TensorDesc.of(x), axes=axes).with_outputs()


def run(device: dml.Device, desc: GroupsDesc, x: Array) -> Array:
    """The output, on the host. Its memory held NaN before."""
    given = {"input_tensor": x, "output_tensor": np.full(x.shape, np.nan, x.dtype)}
    output = dml.compile(desc, device=device)(**{name: device.from_host(array) for name, array in given.items()}).output_tensor
    return np.asarray(device.to_host(output))


def check_each(device: dml.Device, function: str, found: Array, x: Array, axes: Sequence[int]) -> None:
    """Every element: the relative error of a probability is 1e-6 and that of rounding its exponent, x - max(x).

    The error of a logarithm is 2e-7 and that of two roundings. On a GPU, powers and rescalings of their sum are off by 2 ulp each, and the
    logarithm of the sum by 1.
    """
    wanted = expected(function, x, axes)
    if function == "hardmax":
        np.testing.assert_array_equal(found, wanted)
        return
    wide = x.astype(np.float64)
    exponent = wide.max(axis=tuple(set(axes)), keepdims=True) - wide
    rounding = np.finfo(np.float32).eps / 2
    if function == "softmax":
        allowed = wanted * (1e-6 + exponent * rounding) + np.finfo(np.float32).smallest_normal
    else:
        of_sum, of_logarithm = (5e-7, 2 * rounding) if approximates(getattr(device, "runtime", None)) else (0.0, 0.0)
        allowed = 2e-7 + of_sum + np.abs(wanted) * (2 * rounding + of_logarithm)
    error = np.abs(found - wanted)
    assert (error <= allowed).all(), f"{(error / allowed).max():.3g} of what is allowed"


ROWS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "near zero": lambda rng, n: rng.standard_normal(n.size),
    "far from zero": lambda rng, n: 1e4 + rng.standard_normal(n.size),
    "far below zero": lambda rng, n: -1e4 + rng.standard_normal(n.size),
    "all equal": lambda rng, n: np.full(n.size, 0.1),
    "slowly rising": lambda rng, n: n * 1e-4,
    "slowly falling": lambda rng, n: n[::-1] * 1e-4,
    "rising by less than half": lambda rng, n: n * 0.3,
    "one above all": lambda rng, n: np.where(n == n.size - 789, 20.0, -rng.uniform(size=n.size)),
    "wide": lambda rng, n: 40 * rng.standard_normal(n.size),
}
"""Entries of a group by their numbers."""


def check_accuracy(any_device: dml.Device, function: str, row: str, across: bool) -> None:
    x = ROWS[row](np.random.default_rng(6), np.arange(5000)).astype(np.float32)
    x = np.stack([x, x + np.float32(0.5)], axis=int(across))
    axes = (int(not across),)
    check_each(any_device, function, run(any_device, described(function, x, axes), x), x, axes)
