"""NaN, infinities, zeros of both signs, subnormals and the ends of integers in the inputs of every operator.

Where the definition in float64 is NaN, an infinity or a number, so is the result of each device; integers are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.descs import FusableDesc
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from tests.support.operators.layout_runs import Array, by_definition, packed, repeated, run

EXCEPT = {
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": "a subnormal element times a factor is 0 in float32, and 0 times an infinite sum is NaN",
}
"""Operators of which devices make NaN of what is an infinity by definition, or the reverse."""
ODD = {
    **{name: {} for name in ("ACTIVATION_IDENTITY", "ACTIVATION_TANH", "ACTIVATION_SOFTSIGN", "ACTIVATION_GELU")},
    **{name: {"alpha": 0.5} for name in ("ACTIVATION_ELU", "ACTIVATION_CELU", "ACTIVATION_LEAKY_RELU")},
    "ACTIVATION_SCALED_ELU": {"alpha": 1.5, "gamma": 0.5},
    "ACTIVATION_SWISH": {"sigmoid_input_scale": 1.5},
    "ACTIVATION_HARD_SWISH": {"alpha": 0.2, "beta": 0.5},
    "ACTIVATION_SCALED_TANH": {"alpha": 1.5, "beta": 0.5},
    **{f"ELEMENT_WISE_{name}": {} for name in ("IDENTITY", "SIN", "TAN", "ASIN", "ATAN", "SINH", "TANH", "ASINH", "ATANH", "SQRT", "ERF")},
}
"""Functions that are -0 at -0, each with its attributes."""
LATEST = {kind.short_name().rstrip("0123456789"): kind for _, kind in sorted(OPERATORS.items()) if not kind.is_extension}
KINDS = {kind.short_name(): kind for kind in LATEST.values()}
"""The latest version of each operator: the others have the same definition and kernels."""


def families() -> dict[str, list[str]]:
    """The short names of DirectML's operators by the package that describes them."""
    found = defaultdict(list)
    for name, kind in KINDS.items():
        found[kind.__module__.split(".")[2]].append(name)
    return found


def values(rng: np.random.Generator, tensor: dml.TensorDesc, often: float) -> Array:
    dtype, sizes = tensor.data_type.unpacked, tensor.sizes
    if dtype.kind == "f":
        tiny = np.finfo(dtype).smallest_subnormal
        special = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, tiny, -tiny], dtype), sizes)
        return np.where(rng.random(sizes) < often, special, rng.normal(0, 2, sizes).astype(dtype))
    least, most = tensor.data_type.limits
    ends = rng.choice(np.array([least, most], dtype), sizes)
    return np.where(rng.random(sizes) < often, ends, rng.integers(0, 5, sizes).astype(dtype)).astype(dtype)


def classes(array: Array) -> Array:
    """NaN, infinity, -infinity or a number, of each element."""
    return np.select([np.isnan(array), array == np.inf, array == -np.inf], [3, 1, 2], 0)


def differences(name: str, device: dml.Device) -> Iterator[str]:
    """Where an operator's results are of other classes than by definition."""
    desc = sample(KINDS[name])
    for seed, often in enumerate((0.05, 0.5)):
        rng = np.random.default_rng(seed)
        given = {
            slot.place: repeated(values(rng, slot.tensor, often), slot.tensor) for slot in desc.input_slots() if slot.tensor is not None
        }
        try:
            with np.errstate(all="ignore"):
                exact = by_definition(desc, given)
        except dml.BindError:
            continue  # an integer that is no length of a sequence
        for place, found in run(desc, given, device).items():
            expected = np.broadcast_to(exact[place], found.shape)
            with np.errstate(all="ignore"):
                differ = found != expected if found.dtype.kind != "f" else classes(found) != classes(expected.astype(found.dtype))
            if differ.any():
                at = tuple(np.argwhere(differ)[0])
                yield f"{name}, {place}{[int(index) for index in at]}: {found[at]}, expected {expected[at]}; seed {seed}"


@pytest.mark.parametrize("family", sorted(families()))
@pytest.mark.parametrize(
    "every_device",
    ["numpy", "cpu", pytest.param("cuda-emulated", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.gpu)],
    indirect=True,
)
def test_results_are_finite_where_the_definition_is(every_device: dml.Device, family: str) -> None:
    wrong = [line for name in families()[family] if name not in EXCEPT for line in differences(name, every_device)]
    assert not wrong, "\n".join(wrong)


def test_the_exceptions_are_needed() -> None:
    assert [name for name in EXCEPT if not any(differences(name, dml.device("numpy")))] == []


def rows_of_odd() -> Iterator[Any]:
    """Each device and odd function. Of the emulated ones those that have a kernel each to compile are slow."""
    for device, name in product(("numpy", "cpu", "cuda-emulated", "cuda"), ODD):
        slow = [pytest.mark.slow] * (device == "cuda-emulated" and "ELEMENT_WISE" in name)
        yield pytest.param(device, name, marks=[*slow, *[pytest.mark.gpu] * (device == "cuda")])


@pytest.mark.parametrize(("every_device", "name"), [*rows_of_odd()], indirect=["every_device"])
def test_the_sign_of_zero_stays(every_device: dml.Device, name: str) -> None:
    x = np.array([[0.0, -0.0, 0.0, -0.0, 1.0]], np.float32)
    members: dict[str, Any] = {"input_tensor": packed(np.float32, 1, 5), "output_tensor": packed(np.float32, 1, 5), **ODD[name]}
    found = run(KINDS[name](**members), {"input_tensor": x}, every_device)["output_tensor"]
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))
    np.testing.assert_array_equal(found[0, :4], 0)


FIRST, SECOND = [0.0, -0.0, 0.0, -0.0, -1.0], [0.0, 0.0, -0.0, -0.0, 0.0]
# the operator, its attributes, its inputs, and the result
ZEROS: list[tuple[str, dict[str, Any], dict[str, list[float]], list[float]]] = [
    ("ACTIVATION_RELU", {}, {"input": FIRST}, [0.0] * 5),
    ("ACTIVATION_HARD_SIGMOID", {"alpha": 1.0, "beta": 0.0}, {"input": FIRST}, [0.0] * 5),
    ("ELEMENT_WISE_MAX", {}, {"a": FIRST, "b": SECOND}, [0.0, 0.0, 0.0, -0.0, 0.0]),
    ("ELEMENT_WISE_MIN", {}, {"a": FIRST, "b": SECOND}, [0.0, -0.0, -0.0, -0.0, -1.0]),
    ("ELEMENT_WISE_CLIP", {"min": 0.0, "max": 1.0}, {"input": FIRST}, [0.0] * 5),
    ("ELEMENT_WISE_CLIP", {"min": -1.0, "max": -0.0}, {"input": FIRST}, [*[-0.0] * 4, -1.0]),
    ("ELEMENT_WISE_CLIP1", {"min": 0.0, "max": 1.0}, {"input": FIRST}, [0.0] * 5),
    ("ELEMENT_WISE_THRESHOLD", {"min": 0.0}, {"input": FIRST}, [0.0] * 5),
    ("ELEMENT_WISE_ADD1", {"fused_activation": dml.ActivationReluDesc()}, {"a": [-0.0] * 5, "b": [-0.0] * 5}, [0.0] * 5),
]
"""Where a zero has the sign of the limit that it equals, and where +0 counts as larger than -0, as IEEE 754 has it."""


def rows_of_zeros() -> Iterator[Any]:
    for device, (number, row) in product(("numpy", "cpu", "cuda-emulated", "cuda"), enumerate(ZEROS)):
        slow = [pytest.mark.slow] * (device == "cuda-emulated" and "CLIP1" in row[0])
        yield pytest.param(device, row, marks=[*slow, *[pytest.mark.gpu] * (device == "cuda")], id=f"{device}-{row[0]}-{number}")


@pytest.mark.parametrize(("every_device", "row"), [*rows_of_zeros()], indirect=["every_device"])
def test_zeros_of_both_signs(every_device: dml.Device, row: tuple[str, dict[str, Any], dict[str, list[float]], list[float]]) -> None:
    name, attributes, inputs, expected = row
    for dtype in (np.float32, np.float16) if every_device.memory_kind == "cpu" else (np.float32,):
        tensors = {f"{given}_tensor": np.array([values], dtype) for given, values in inputs.items()}
        described = {given: packed(dtype, 1, 5) for given in [*tensors, "output_tensor"]}
        typed = {"min_max_data_type": np.dtype(dtype).name.upper()} if name == "ELEMENT_WISE_CLIP1" else {}
        desc = OPERATORS[f"DML_OPERATOR_{name}"](**described, **attributes, **typed)
        for found in (run(desc, tensors, every_device)["output_tensor"], by_definition(desc, tensors)["output_tensor"]):
            np.testing.assert_array_equal(found[0], expected)
            np.testing.assert_array_equal(np.signbit(found[0]), np.signbit(expected))


FUSED: dict[str, FusableDesc] = {
    "RELU": dml.ActivationReluDesc(),
    "from 0": dml.ElementWiseClipDesc(min=0.0, max=1.0),
    "the lower limit above the upper one": dml.ElementWiseClipDesc(min=2.0, max=-2.0),
    "no lower limit": dml.ElementWiseClipDesc(min=np.nan, max=1.0),
    "no upper limit": dml.ElementWiseClipDesc(min=-1.0, max=np.nan),
}


@pytest.mark.parametrize("name", FUSED)
def test_limits_of_fused_functions(every_device: dml.Device, name: str) -> None:
    """They are those of the operators alone: the upper one wins, NaN is none, and a zero that equals one has its sign."""
    numbers, factors = np.array([-1e-30, -3, 0.5, 3], np.float32), np.array([1e-30, *[1.0] * 38], np.float32)  # -1e-60 becomes -0
    a, rows = np.stack([numbers] * 2, 1), np.stack([factors] * 2, 1)
    given: list[tuple[Any, dict[str, Any], dict[str, Array]]] = [
        (dml.GEMMDesc, {}, {"a": a, "b": np.ascontiguousarray(rows.T)}),
        (dml.GEMMDesc, {"trans_b": "TRANSPOSE"}, {"a": a, "b": rows}),
    ]
    if every_device.memory_kind == "cpu":
        sides: dict[str, Any] = dict.fromkeys(("start_padding", "end_padding", "output_padding"), (0, 0))
        members = {"strides": (1, 1), "dilations": (1, 1), "group_count": 1, **sides}
        given.append((dml.ConvolutionDesc, members, {"input": numbers.reshape(1, 1, 1, 4), "filter": factors.reshape(-1, 1, 1, 1)}))
    for kind, own, arrays in given:
        tensors = {f"{place}_tensor": array for place, array in arrays.items()}
        described = {place: packed(array.dtype.type, *array.shape) for place, array in tensors.items()}
        desc = kind(**described, **own, fused_activation=FUSED[name]).with_outputs()
        found, expected = (of(desc, tensors)["output_tensor"] for of in (lambda *call: run(*call, every_device), by_definition))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-30)
        np.testing.assert_array_equal(np.signbit(found)[expected == 0], np.signbit(expected)[expected == 0])
