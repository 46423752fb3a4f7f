"""The derivatives of the activations, by definition and by kernel: closed forms, central differences, kinks and limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda.common.functors import ATTRIBUTES
from dmlpy.devices.cuda.emulation.runtime import approximates
from dmlpy.operators import activation as descs
from dmlpy.operators.activation import ActivationDesc
from dmlpy.reference.activation_derivatives import derivative
from tests.support.cuda.functors import NAMES, SOURCE, apply
from tests.support.operators.activation_cases import ALL, INF, NAN, Array, M, exact_gelu, gelu_points, keeps_value, label
from tests.support.operators.derivative_cases import KINKS, LIMITS, assert_within, closed_form, kinks, random_arguments, random_desc
from tests.support.operators.scalar_activations import activate as activate_number

PLACES = np.array([0.0, -0.0, INF, -INF, NAN, M, -M])


def differentiate(desc: ActivationDesc, x: Array) -> Array:
    """The definition's derivative, which the NumPy device computes; the arguments stay as they are."""
    before = x.copy()
    with np.errstate(all="ignore"):
        found = derivative(desc, x)
    np.testing.assert_array_equal(x, before)
    assert found.dtype == x.dtype
    return found


def test_tables_are_complete() -> None:
    assert {type(desc) for desc, _ in LIMITS} == set(ATTRIBUTES) == {type(desc) for desc in ALL}


@pytest.mark.parametrize("kind", ATTRIBUTES, ids=lambda kind: label(kind()))
def test_closed_forms_are_the_slopes_of_the_definitions(kind: type[ActivationDesc]) -> None:
    rng = np.random.default_rng(11)
    step = 2.0**-16
    for _ in range(4):
        desc = random_desc(kind, rng)
        x = rng.uniform(-6.0, 6.0, 301)
        for kink in kinks(desc):
            x = x[np.abs(x - kink) > step]
        above, below = (np.array([activate_number(desc, float(v)) for v in x + side]) for side in (step, -step))
        slope = closed_form(desc, x).astype(np.float64)
        np.testing.assert_allclose((above - below) / (2 * step), slope, rtol=1e-6, atol=1e-8, err_msg=repr(desc))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ATTRIBUTES, ids=lambda kind: label(kind()))
def test_the_definition_is_accurate(kind: type[ActivationDesc], dtype: Any) -> None:
    rng = np.random.default_rng(12)
    for _ in range(4):
        desc = random_desc(kind, rng)
        x = random_arguments(desc, rng, dtype, widest=43.0)
        assert_within(6.0, desc, x, differentiate(desc, x), closed_form(desc, x))


@pytest.mark.parametrize("kind", ATTRIBUTES, ids=lambda kind: label(kind()))
def test_functors_are_accurate(cuda_device: Any, kind: type[ActivationDesc]) -> None:
    rng = np.random.default_rng(13)
    desc = random_desc(kind, rng)
    x = random_arguments(desc, rng, np.float32, widest=20.0)
    given = apply(cuda_device.runtime, desc, x) if keeps_value(desc) else x
    # CUDA documents 4 ulp of erfcf, of which each is two units of a derivative just below 1/2, and 2 of expf: the two terms may cancel.
    limit = 13.0 if label(desc) == "Gelu" and approximates(cuda_device.runtime) else 6.0
    assert_within(limit, desc, x, apply(cuda_device.runtime, desc, given, derivative=True), closed_form(desc, x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gelu_stays_accurate(dtype: Any) -> None:
    x = gelu_points(dtype)
    expected = np.array([exact_gelu(float(value))[1] for value in x])
    np.testing.assert_allclose(differentiate(descs.ActivationGeluDesc(), x), expected, rtol=3e-15 if dtype == np.float64 else 1.5e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("desc", "derivatives"), LIMITS, ids=[label(desc) for desc, _ in LIMITS])
def test_limits_of_the_definition(desc: ActivationDesc, derivatives: list[float], dtype: Any) -> None:
    found = differentiate(desc, PLACES.astype(dtype))
    with np.errstate(over="ignore"):
        expected = np.array(derivatives).astype(dtype)
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-70)


@pytest.mark.parametrize(("desc", "derivatives"), LIMITS, ids=[label(desc) for desc, _ in LIMITS])
def test_limits_of_functors(cuda_device: Any, desc: ActivationDesc, derivatives: list[float]) -> None:
    x = PLACES.astype(np.float32)
    given = apply(cuda_device.runtime, desc, x) if keeps_value(desc) else x
    with np.errstate(over="ignore"):
        expected = np.array(derivatives).astype(np.float32)
    np.testing.assert_allclose(apply(cuda_device.runtime, desc, given, derivative=True), expected, rtol=2e-7, atol=1e-44)


@pytest.mark.parametrize(("desc", "places"), KINKS, ids=[label(desc) for desc, _ in KINKS])
def test_kinks(cuda_device: Any, desc: ActivationDesc, places: dict[float, float]) -> None:
    x = np.array(list(places), np.float32)
    expected = np.array(list(places.values()), np.float32)
    for dtype in (np.float32, np.float64):
        np.testing.assert_array_equal(differentiate(desc, x.astype(dtype)), expected)
    given = apply(cuda_device.runtime, desc, x) if keeps_value(desc) else x
    np.testing.assert_array_equal(apply(cuda_device.runtime, desc, given, derivative=True), expected)


def test_small_results_of_large_arguments(cuda_device: Any) -> None:
    desc = descs.ActivationSoftsignDesc()
    x = np.array([1e15, -3e18, 2e19], np.float32)  # the square of the last one overflows, its reciprocal is 2.5e-39
    expected = x.astype(np.float64) ** -2
    np.testing.assert_allclose(differentiate(desc, x), expected, rtol=1e-6)
    np.testing.assert_allclose(apply(cuda_device.runtime, desc, x, derivative=True), expected, rtol=1e-6)
    np.testing.assert_allclose(differentiate(desc, np.array([1e150, -1e154, 1e155])), [1e-300, 1e-308, 1e-310], rtol=1e-12)


def test_which_values_functors_keep(cuda_device: Any) -> None:
    claims = "".join(f"static_assert({label(kind())}::saves_value == {str(keeps_value(kind())).lower()});\n" for kind in ATTRIBUTES)
    runtime = cuda_device.runtime
    runtime.compile(SOURCE + claims, [f"apply<{', '.join(NAMES)}>"], runtime.limits(0).compute_capability)


def test_an_activation_of_rows_is_refused() -> None:
    with pytest.raises(TypeError, match="ACTIVATION_SOFTMAX is not an activation of a recurrent cell"):
        derivative(descs.ActivationSoftmaxDesc(), np.zeros(3))
