"""ONNX Runtime's results of activations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import erf, erfc, sqrt
from typing import Any, NamedTuple

import numpy as np

import dmlpy as dml
from dmlpy.operators.activation import ActivationDesc
from tests.support.folders import STORED_CASES

Array = np.ndarray[Any, np.dtype[Any]]


Attributes = Mapping[str, Any]


TOLERANCE = 1e-6
"""Relative."""


SMALLEST = 2 * float(np.finfo(np.float32).smallest_subnormal)
"""What rounding adds to the smallest results."""


OPERATORS: dict[str, tuple[str, dict[str, str]]] = {
    "Identity": ("Identity", {}),
    "Relu": ("Relu", {}),
    "LeakyRelu": ("LeakyRelu", {"alpha": "alpha"}),
    "ThresholdedRelu": ("ThresholdedRelu", {"alpha": "alpha"}),
    "PRelu": ("ParameterizedRelu", {}),
    "Elu": ("Elu", {"alpha": "alpha"}),
    "Celu": ("Celu", {"alpha": "alpha"}),
    "Selu": ("ScaledElu", {"alpha": "alpha", "gamma": "gamma"}),
    "Sigmoid": ("Sigmoid", {}),
    "HardSigmoid": ("HardSigmoid", {"alpha": "alpha", "beta": "beta"}),
    "Tanh": ("Tanh", {}),
    "Softsign": ("Softsign", {}),
    "Softplus": ("Softplus", {}),
    "Gelu": ("Gelu", {}),
    "Shrink": ("Shrink", {"bias": "bias", "lambd": "threshold"}),
    "HardSwish": ("HardSwish", {}),
    "QuickGelu": ("Swish", {"alpha": "sigmoid_input_scale"}),
    "Softmax": ("Softmax", {}),
    "LogSoftmax": ("LogSoftmax", {}),
    "Hardmax": ("Hardmax", {}),
    "ScaledTanh": ("ScaledTanh", {"alpha": "alpha", "beta": "beta"}),
    "ParametricSoftplus": ("ParametricSoftplus", {"alpha": "alpha", "beta": "beta"}),
    "Affine": ("Linear", {"alpha": "alpha", "beta": "beta"}),
}
"""Each operator's counterpart, and its attributes by ONNX's names. HardSwish has its numbers built in."""


class Difference(NamedTuple):
    """Where dmlpy and ONNX Runtime give different results.

    Attributes:
        where: of the input in float64 and the attributes: the results that differ.
        exact: the function, in float64, as dmlpy has it.
        reason: what ONNX Runtime does.
        absolute: error allowed to dmlpy, in addition to the relative one.
        exponent: of the power in the result, whose rounding is allowed for too.
    """

    where: Callable[[Array, Attributes], Array]
    exact: Callable[[Array, Attributes], Array]
    reason: str
    absolute: float = SMALLEST
    exponent: Callable[[Array, Attributes], Array] = lambda x, attributes: np.zeros_like(x)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Array, attributes: Attributes) -> Array:
    tails = np.array([0.5 * value * (erfc(-value / sqrt(2)) if value < 0 else 1 + erf(value / sqrt(2))) for value in x])
    return np.where(x == -np.inf, 0.0, tails)


def _log_softmax(x: Array, attributes: Attributes) -> Array:
    shifted = x - x.max(attributes["axis"], keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(attributes["axis"], keepdims=True)))


def _first_nan(x: Array, attributes: Attributes) -> Array:
    missing = np.isnan(x)
    return np.where(missing & (missing.cumsum(attributes["axis"]) == 1), 1.0, 0.0)


_CANCELS = "exp(x) - 1 in float32: near zero the difference has few digits, below 6e-8 none"


_TAILS = "a rational function of x whose error is absolute, not relative: small results have few digits and end at zero"


DIFFERENCES: dict[str, Difference] = {
    "Elu": Difference(lambda x, a: (x < 0) & (x > -0.5), lambda x, a: a["alpha"] * np.expm1(x), _CANCELS),
    "Celu": Difference(lambda x, a: (x < 0) & (x > -0.5), lambda x, a: a["alpha"] * np.expm1(x / a["alpha"]), _CANCELS),
    "Selu": Difference(
        lambda x, a: (x < 0) & (x > -0.5),
        lambda x, a: a.get("gamma", 1.05070102) * a.get("alpha", 1.67326319) * np.expm1(x),
        _CANCELS,
        absolute=2 * SMALLEST,
    ),
    "HardSigmoid": Difference(
        lambda x, a: np.abs(a["alpha"] * x + a["beta"]) < 0.1 * a["beta"],
        lambda x, a: np.clip(a["alpha"] * x + a["beta"], 0, 1),
        "the product is rounded before the sum, which cancels; a compiler may round them together",
        absolute=2.0**-24,
    ),
    "Sigmoid": Difference(lambda x, a: x < -3, lambda x, a: _logistic(x), _TAILS, exponent=lambda x, a: x),
    "QuickGelu": Difference(
        lambda x, a: a["alpha"] * x < -3,
        lambda x, a: np.where(x == -np.inf, 0.0, x * _logistic(a["alpha"] * x)),
        f"{_TAILS}; minus infinity times zero is NaN, where dmlpy has the limit",
        absolute=104 * SMALLEST,  # a logistic below the smallest number is zero to dmlpy too
        exponent=lambda x, a: a["alpha"] * x,
    ),
    "Gelu": Difference(
        lambda x, a: x < -1.5,
        _gelu,
        "0.5 x (1 + erf(x / sqrt(2))) in float32: the sum cancels; minus infinity times zero is NaN, where dmlpy has the limit",
        exponent=lambda x, a: 0.5 * x * x,
    ),
    "ParametricSoftplus": Difference(
        lambda x, a: a["beta"] * x < -2,
        lambda x, a: a["alpha"] * np.log1p(np.exp(a["beta"] * x)),
        "ln(1 + exp(x)) in float32: the sum has few digits of a small power",
        exponent=lambda x, a: a["beta"] * x,
    ),
    "Tanh": Difference(
        lambda x, a: (x != 0) & (np.abs(x) < 1e-38), lambda x, a: np.tanh(x), "a quotient of denormal numbers, which have few digits"
    ),
    "Softsign": Difference(lambda x, a: np.isinf(x), lambda x, a: np.sign(x), "infinity by infinity is NaN, where dmlpy has the limit"),
    "HardSwish": Difference(
        lambda x, a: x == -np.inf, lambda x, a: np.zeros_like(x), "minus infinity times zero is NaN, where dmlpy has the limit"
    ),
    "LogSoftmax": Difference(
        lambda x, a: _log_softmax(x, a) > -0.1,
        _log_softmax,
        "x - (m + ln(s)), which rounds the sum; near zero either has the absolute error of ln(s) alone",
        absolute=1.5e-7,
    ),
    "Hardmax": Difference(
        lambda x, a: np.broadcast_to(np.isnan(x).any(a["axis"], keepdims=True), x.shape),
        _first_nan,
        "comparisons with NaN are false: it passes over a NaN, which is the largest to dmlpy as to NumPy's argmax",
    ),
}


CASES: dict[str, dict[str, Any]] = {
    entry["case"].removeprefix("onnx_activation_"): entry["attributes"]
    for entry in json.loads((STORED_CASES / "index.json").read_text())
    if entry["case"].startswith("onnx_activation_")
}


def load(case: str) -> tuple[dict[str, Array], Array]:
    """A case's inputs by dmlpy's names, and ONNX Runtime's output."""
    with np.load(STORED_CASES / f"onnx_activation_{case}.npz") as file:
        given = {"input_tensor": file["in.X"]}
        if "in.slope" in file:
            given["slope_tensor"] = file["in.slope"]
        return given, file["out.Y"]


def described(case: str, given: Mapping[str, Array]) -> list[ActivationDesc]:
    """The descs that compute a case: groups along the last axis of a matrix have two."""
    attributes = CASES[case]
    name, fields = OPERATORS[attributes["operator"]]
    values = {ours: attributes[theirs] for theirs, ours in fields.items() if theirs in attributes}
    if attributes["operator"] == "HardSwish":
        values = {"alpha": 1 / 6, "beta": 0.5}
    tensors: dict[str, Any] = {field: dml.TensorDesc.of(array) for field, array in given.items()}
    if "axis" not in attributes:
        return [getattr(dml, f"Activation{name}Desc")(**tensors, **values).with_outputs()]
    rank = given["input_tensor"].ndim
    axis = attributes["axis"] % rank
    over_axes = getattr(dml, f"Activation{name}1Desc")(**tensors, axes=(axis,)).with_outputs()
    of_rows = getattr(dml, f"Activation{name}Desc")(**tensors)
    return [over_axes, of_rows.with_outputs()] if axis == rank - 1 and rank == 2 else [over_axes]


def close(found: Array, wanted: Array, relative: Array | float = TOLERANCE, absolute: Array | float = SMALLEST) -> Array:
    """Which results are near enough, of the same sign where infinite, NaN where NaN is wanted."""
    near = np.abs(found - wanted) <= relative * np.abs(wanted) + absolute
    return np.asarray((found == wanted) | (np.isnan(found) & np.isnan(wanted)) | (near & np.isfinite(wanted)))


def check_onnx_runtime(any_device: dml.Device, case: str) -> None:
    given, stored = load(case)
    attributes, x, theirs = CASES[case], given["input_tensor"].astype(np.float64), stored.astype(np.float64)
    for desc in described(case, given):
        arrays = {**given, "output_tensor": np.full(x.shape, np.nan, np.float32)}
        run = dml.compile(desc, device=any_device)
        output = run(**{field: any_device.from_host(array) for field, array in arrays.items()}).output_tensor
        ours = any_device.to_host(output).astype(np.float64)
        with np.errstate(all="ignore"):
            right = close(ours, theirs)
            if attributes["operator"] in DIFFERENCES:
                known = DIFFERENCES[attributes["operator"]]
                there = known.where(x, attributes)
                exponent = np.abs(known.exponent(x, attributes))
                relative = TOLERANCE + np.where(exponent < 200, exponent, 0) * np.finfo(np.float32).eps
                right = np.where(there, close(ours, known.exact(x, attributes), relative, known.absolute), right)
        for place in np.argwhere(~right)[:5]:
            at = tuple(place)
            print(f"{desc.type_name} at {x[at]:.9g}: {ours[at]:.9g}, ONNX Runtime's {theirs[at]:.9g}")
        assert right.all()
