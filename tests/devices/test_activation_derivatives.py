"""The derivatives of the activations on both devices: against closed forms and central differences, at kinks and at the limits."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda.functors import ATTRIBUTES
from dmlpy.devices.numpy.activation.derivatives import Derivative, keeps_value
from dmlpy.operators import activation as descs
from dmlpy.operators.activation import ActivationDesc
from tests.support.activation_cases import ALL, INF, NAN, Array, M, evaluate, exact_gelu, gelu_points, label
from tests.support.cuda.cpu_seam import approximates
from tests.support.cuda.functors import NAMES, SOURCE, apply
from tests.support.derivative_cases import KINKS, LIMITS, assert_within, closed_form, kinks, random_arguments, random_desc
from tests.support.scalar_activations import activate as activate_number

PLACES = np.array([0.0, -0.0, INF, -INF, NAN, M, -M])
VALUE_KEEPERS = {"Identity", "Linear", "Relu", "Tanh", "Sigmoid", "HardSigmoid"}


def kept(desc: ActivationDesc, x: Array) -> Array:
    return evaluate(desc, x) if keeps_value(desc) else x


def differentiate(desc: ActivationDesc, given: Array) -> Array:
    """The NumPy device's derivative, from scratch and into a result that are full of NaN; what it is given stays as it is."""
    derivative = Derivative.of(desc, given.dtype)
    before, out = given.copy(), np.full_like(given, NAN)
    work, mask = np.full((derivative.work + 2, given.size + 5), NAN, given.dtype), np.ones(given.size + 5, np.bool_)
    call = derivative.bind(given, out, work, mask)
    with np.errstate(all="ignore"):
        call()
        first = out.copy()
        out.fill(NAN)
        call()
    np.testing.assert_array_equal(given, before)
    np.testing.assert_array_equal(out, first)
    return out


@pytest.mark.parametrize("desc", ALL, ids=label)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_may_have_any_strides(desc: ActivationDesc, dtype: Any) -> None:
    derivative, given = Derivative.of(desc, np.dtype(dtype)), kept(desc, np.random.default_rng(6).normal(0.0, 3.0, 37).astype(dtype))
    expected = differentiate(desc, given)
    for stride in range(2, 18):
        memory = np.full((2, given.size, stride), NAN, dtype)
        work, mask = np.full((derivative.work, given.size), NAN, dtype), np.ones(given.size, np.bool_)
        memory[0, :, 0] = given
        with np.errstate(all="ignore"):
            derivative.formula(memory[0, :, 0], memory[1, :, -1], work, mask, *derivative.constants)
        np.testing.assert_allclose(memory[1, :, -1], expected, rtol=1e-6, atol=1e-6, err_msg=f"{stride} elements apart")
        np.testing.assert_array_equal(memory[0, :, 0], given)


def test_tables_are_complete() -> None:
    assert {type(desc) for desc, _ in LIMITS} == set(ATTRIBUTES) == {type(desc) for desc in ALL}
    assert {label(desc) for desc in ALL if keeps_value(desc)} == VALUE_KEEPERS


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
def test_numpy_is_accurate(kind: type[ActivationDesc], dtype: Any) -> None:
    rng = np.random.default_rng(12)
    for _ in range(4):
        desc = random_desc(kind, rng)
        x = random_arguments(desc, rng, dtype, widest=43.0)
        assert_within(6.0, desc, x, differentiate(desc, kept(desc, x)), closed_form(desc, x))


@pytest.mark.parametrize("kind", ATTRIBUTES, ids=lambda kind: label(kind()))
def test_functors_are_accurate(cuda_device: Any, kind: type[ActivationDesc]) -> None:
    rng = np.random.default_rng(13)
    desc = random_desc(kind, rng)
    x = random_arguments(desc, rng, np.float32, widest=20.0)
    given = apply(cuda_device.seam, desc, x) if keeps_value(desc) else x
    # CUDA documents 4 ulp of erfcf, of which each is two units of a derivative just below 1/2, and 2 of expf: the two terms may cancel.
    limit = 13.0 if label(desc) == "Gelu" and approximates(cuda_device.seam) else 6.0
    assert_within(limit, desc, x, apply(cuda_device.seam, desc, given, derivative=True), closed_form(desc, x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("desc", [descs.ActivationSigmoidDesc(), descs.ActivationTanhDesc()], ids=label)
def test_derivatives_from_values_lose_no_digits_of_the_value(desc: ActivationDesc, dtype: Any) -> None:
    y = np.concatenate([10.0 ** np.linspace(-30.0, -0.5, 101), 1.0 - 2.0 ** -np.arange(1.0, 24.0)]).astype(dtype)
    exact = y.astype(np.longdouble)
    expected = exact * (1 - exact) if label(desc) == "Sigmoid" else (1 - exact) * (1 + exact)
    # The square of tanh is rounded once before it is subtracted.
    absolute = 0.0 if label(desc) == "Sigmoid" else np.finfo(dtype).eps / 4
    np.testing.assert_allclose(differentiate(desc, y), expected, rtol=2 * np.finfo(dtype).eps, atol=absolute)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gelu_keeps_its_digits(dtype: Any) -> None:
    x = gelu_points(dtype)
    expected = np.array([exact_gelu(float(value))[1] for value in x])
    np.testing.assert_allclose(differentiate(descs.ActivationGeluDesc(), x), expected, rtol=3e-15 if dtype == np.float64 else 1.5e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("desc", "derivatives"), LIMITS, ids=[label(desc) for desc, _ in LIMITS])
def test_limits_in_numpy(desc: ActivationDesc, derivatives: list[float], dtype: Any) -> None:
    found = differentiate(desc, kept(desc, PLACES.astype(dtype)))
    with np.errstate(over="ignore"):
        expected = np.array(derivatives).astype(dtype)
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-70)


@pytest.mark.parametrize(("desc", "derivatives"), LIMITS, ids=[label(desc) for desc, _ in LIMITS])
def test_limits_of_functors(cuda_device: Any, desc: ActivationDesc, derivatives: list[float]) -> None:
    x = PLACES.astype(np.float32)
    given = apply(cuda_device.seam, desc, x) if keeps_value(desc) else x
    with np.errstate(over="ignore"):
        expected = np.array(derivatives).astype(np.float32)
    np.testing.assert_allclose(apply(cuda_device.seam, desc, given, derivative=True), expected, rtol=2e-7, atol=1e-44)


@pytest.mark.parametrize(("desc", "places"), KINKS, ids=[label(desc) for desc, _ in KINKS])
def test_kinks(cuda_device: Any, desc: ActivationDesc, places: dict[float, float]) -> None:
    x = np.array(list(places), np.float32)
    expected = np.array(list(places.values()), np.float32)
    for dtype in (np.float32, np.float64):
        np.testing.assert_array_equal(differentiate(desc, kept(desc, x.astype(dtype))), expected)
    given = apply(cuda_device.seam, desc, x) if keeps_value(desc) else x
    np.testing.assert_array_equal(apply(cuda_device.seam, desc, given, derivative=True), expected)


def test_small_results_of_large_arguments(cuda_device: Any) -> None:
    desc = descs.ActivationSoftsignDesc()
    x = np.array([1e15, -3e18, 2e19], np.float32)  # the square of the last one overflows, its reciprocal is 2.5e-39
    expected = x.astype(np.float64) ** -2
    np.testing.assert_allclose(differentiate(desc, x), expected, rtol=1e-6)
    np.testing.assert_allclose(apply(cuda_device.seam, desc, x, derivative=True), expected, rtol=1e-6)
    np.testing.assert_allclose(differentiate(desc, np.array([1e150, -1e154, 1e155])), [1e-300, 1e-308, 1e-310], rtol=1e-12)


def test_functors_keep_what_numpy_keeps(cuda_device: Any) -> None:
    claims = "".join(f"static_assert({label(kind())}::keeps_value == {str(keeps_value(kind())).lower()});\n" for kind in ATTRIBUTES)
    seam = cuda_device.seam
    seam.compile(SOURCE + claims, [f"apply<{', '.join(NAMES)}>"], seam.limits(0).compute_capability)


@pytest.mark.parametrize("desc", [desc for desc, _ in LIMITS], ids=label)
def test_calls_allocate_nothing(desc: ActivationDesc) -> None:
    derivative = Derivative.of(desc, np.dtype(np.float32))
    x = np.linspace(0.0, 1.0, 100_000, dtype=np.float32)
    out, work, mask = np.empty_like(x), np.empty((derivative.work, x.size), np.float32), np.empty(x.size, np.bool_)
    call = derivative.bind(x, out, work, mask)
    tracemalloc.start()
    try:
        with np.errstate(all="ignore"):
            call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < x.size, "less than a mask of the array"


def test_an_activation_of_rows_is_refused() -> None:
    with pytest.raises(TypeError, match="ActivationSoftmaxDesc has no element-wise formula"):
        Derivative.of(descs.ActivationSoftmaxDesc(), np.dtype(np.float32))
