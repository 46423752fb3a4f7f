"""The derivatives of the activations, by definition and by kernel: closed forms, central differences, kinks and limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda.functors import ATTRIBUTES
from dmlpy.operators import activation as descs
from dmlpy.operators.activation import ActivationDesc
from dmlpy.reference.activation_derivatives import derivative
from tests.support.activation_cases import ALL, INF, NAN, Array, M, exact_gelu, gelu_points, keeps_value, label
from tests.support.cuda.cpu_seam import approximates
from tests.support.cuda.functors import NAMES, SOURCE, apply
from tests.support.scalar_activations import activate as activate_number

# desc, then its derivatives at 0, -0, inf, -inf, nan, and the largest number of float32 with either sign.
LIMITS: list[tuple[ActivationDesc, list[float]]] = [
    (descs.ActivationIdentityDesc(), [1, 1, 1, 1, 1, 1, 1]),
    (descs.ActivationLinearDesc(alpha=0.5, beta=0.25), [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]),
    (descs.ActivationReluDesc(), [0, 0, 1, 0, NAN, 1, 0]),
    (descs.ActivationLeakyReluDesc(alpha=0.5), [1, 1, 1, 0.5, NAN, 1, 0.5]),
    (descs.ActivationLeakyReluDesc(alpha=0.0), [1, 1, 1, 0, NAN, 1, 0]),
    (descs.ActivationThresholdedReluDesc(alpha=1.0), [0, 0, 1, 0, 0, 1, 0]),
    (descs.ActivationThresholdedReluDesc(alpha=-1.0), [1, 1, 1, 0, 0, 1, 0]),
    (descs.ActivationEluDesc(alpha=1.5), [1, 1, 1, 0, NAN, 1, 0]),
    (descs.ActivationCeluDesc(alpha=0.5), [1, 1, 1, 0, NAN, 1, 0]),
    (descs.ActivationCeluDesc(alpha=-0.5), [1, 1, 1, INF, NAN, 1, INF]),
    (descs.ActivationScaledEluDesc(alpha=2.0, gamma=0.5), [1, 1, 0.5, 0, NAN, 0.5, 0]),
    (descs.ActivationSigmoidDesc(), [0.25, 0.25, 0, 0, NAN, 0, 0]),
    (descs.ActivationHardSigmoidDesc(alpha=0.25, beta=0.5), [0.25, 0.25, 0, 0, NAN, 0, 0]),
    (descs.ActivationHardSigmoidDesc(alpha=-0.25, beta=0.5), [-0.25, -0.25, 0, 0, NAN, 0, 0]),
    (descs.ActivationTanhDesc(), [1, 1, 0, 0, NAN, 0, 0]),
    (descs.ActivationScaledTanhDesc(alpha=1.5, beta=0.5), [0.75, 0.75, 0, 0, NAN, 0, 0]),
    (descs.ActivationScaledTanhDesc(alpha=1e30, beta=-1e30), [-1e60, -1e60, 0, 0, NAN, 0, 0]),
    (descs.ActivationSoftsignDesc(), [1, 1, 0, 0, NAN, 0, 0]),
    (descs.ActivationSoftplusDesc(steepness=2.0), [0.5, 0.5, 1, 0, NAN, 1, 0]),
    (descs.ActivationParametricSoftplusDesc(alpha=2.0, beta=0.5), [0.5, 0.5, 1, 0, NAN, 1, 0]),
    (descs.ActivationParametricSoftplusDesc(alpha=2.0, beta=-0.5), [-0.5, -0.5, 0, -1, NAN, 0, -1]),
    (descs.ActivationParametricSoftplusDesc(alpha=1e30, beta=1e30), [5e59, 5e59, 1e60, 0, NAN, 1e60, 0]),
    (descs.ActivationGeluDesc(), [0.5, 0.5, 1, 0, NAN, 1, 0]),
    (descs.ActivationShrinkDesc(bias=0.25, threshold=0.5), [0, 0, 1, 1, 0, 1, 1]),
    (descs.ActivationShrinkDesc(bias=0.25, threshold=-0.5), [1, 1, 1, 1, 0, 1, 1]),
]

# desc, then arguments and their derivatives: where the function is not smooth, and the numbers of float32 next to that.
BELOW_ONE, ABOVE_ONE = 1.0 - 2.0**-24, 1.0 + 2.0**-23
KINKS: list[tuple[ActivationDesc, dict[float, float]]] = [
    (descs.ActivationReluDesc(), {-1e-38: 0, 0.0: 0, 1e-38: 1}),
    (descs.ActivationLeakyReluDesc(alpha=-0.5), {-1e-38: -0.5, 0.0: 1, 1e-38: 1}),
    (descs.ActivationThresholdedReluDesc(alpha=1.0), {BELOW_ONE: 0, 1.0: 0, ABOVE_ONE: 1}),
    (descs.ActivationThresholdedReluDesc(alpha=0.0), {-1e-38: 0, 0.0: 0, 1e-38: 1}),
    (descs.ActivationThresholdedReluDesc(alpha=-1.0), {-ABOVE_ONE: 0, -1.0: 0, -BELOW_ONE: 1, 0.0: 1}),
    (descs.ActivationEluDesc(alpha=1.5), {-1e-38: 1.5, 0.0: 1, 1e-38: 1}),
    (descs.ActivationCeluDesc(alpha=2.0), {-1e-38: 1, 0.0: 1, 1e-38: 1}),
    (descs.ActivationScaledEluDesc(alpha=2.0, gamma=3.0), {-1e-38: 6, 0.0: 6, 1e-38: 3}),
    (descs.ActivationHardSigmoidDesc(alpha=0.5, beta=0.5), {-ABOVE_ONE: 0, -1.0: 0, -BELOW_ONE: 0.5, 1.0 - 2.0**-23: 0.5, 1.0: 0, 2.0: 0}),
    (descs.ActivationShrinkDesc(bias=0.5, threshold=1.0), {BELOW_ONE: 0, 1.0: 0, ABOVE_ONE: 1, -BELOW_ONE: 0, -1.0: 0, -ABOVE_ONE: 1}),
    (descs.ActivationShrinkDesc(bias=0.5, threshold=0.0), {-1e-38: 1, 0.0: 0, 1e-38: 1}),
]

PLACES = np.array([0.0, -0.0, INF, -INF, NAN, M, -M])


def differentiate(desc: ActivationDesc, x: Array) -> Array:
    """The definition's derivative, which the NumPy device computes; the arguments stay as they are."""
    before = x.copy()
    with np.errstate(all="ignore"):
        found = derivative(desc, x)
    np.testing.assert_array_equal(x, before)
    assert found.dtype == x.dtype
    return found


def closed_form(desc: ActivationDesc, x: Array) -> Array:
    """The derivative from the argument, in the widest type there is (Gelu in float64), for finite `x` that are no kinks."""
    get: Any = desc
    v = x.astype(np.longdouble)
    with np.errstate(over="ignore", under="ignore"):
        match label(desc):
            case "Identity":
                return np.ones_like(v)
            case "Linear":
                return np.full_like(v, get.alpha)
            case "Relu":
                return np.where(v > 0, 1.0, 0.0)
            case "LeakyRelu":
                return np.where(v > 0, 1.0, get.alpha)
            case "ThresholdedRelu":
                return np.where(v > get.alpha, 1.0, 0.0)
            case "Elu":
                return np.where(v > 0, 1, get.alpha * np.exp(v))
            case "Celu":
                return np.where(v > 0, 1, np.exp(v / get.alpha))
            case "ScaledElu":
                return get.gamma * np.where(v > 0, 1, get.alpha * np.exp(v))
            case "Tanh":
                return np.cosh(v) ** -2
            case "ScaledTanh":
                return get.alpha * np.longdouble(get.beta) * np.cosh(get.beta * v) ** -2
            case "Sigmoid":
                return 1 / (2 * np.cosh(v / 2)) ** 2
            case "HardSigmoid":
                return np.where(np.abs(get.alpha * v + get.beta - 0.5) < 0.5, get.alpha, 0.0)
            case "Softplus":
                return 1 / (1 + np.exp(-get.steepness * v))
            case "ParametricSoftplus":
                return get.alpha * np.longdouble(get.beta) / (1 + np.exp(-get.beta * v))
            case "Softsign":
                return (1 + np.abs(v)) ** -2
            case "Gelu":
                root = math.sqrt(2.0)
                return np.array([0.5 * math.erfc(-t / root) + t * math.exp(-t * t / 2) / math.sqrt(2 * math.pi) for t in x.tolist()])
            case "Shrink":
                return np.where((v > get.threshold) | (v < -get.threshold), 1.0, 0.0)
    raise AssertionError(f"no derivative of {label(desc)}")


def kinks(desc: ActivationDesc) -> list[float]:
    """Arguments at which some activation with the desc's attributes is not smooth."""
    alpha, beta, threshold = (getattr(desc, name, 0.0) for name in ("alpha", "beta", "threshold"))
    corners = [-beta / alpha, (1.0 - beta) / alpha] if label(desc) == "HardSigmoid" else []
    return [0.0, alpha, threshold, -threshold, *corners]


def random_desc(kind: type[ActivationDesc], rng: np.random.Generator) -> ActivationDesc:
    """Attributes from 0.25 to 2 of either sign, exact in float32."""

    def attribute(name: str) -> float:
        sign = 1.0 if name == "steepness" else rng.choice([-1.0, 1.0])
        return float(np.float32(sign * rng.uniform(0.25, 2.0)))

    return kind(**{name: attribute(name) for name in ATTRIBUTES[kind]})


def random_arguments(desc: ActivationDesc, rng: np.random.Generator, dtype: Any, widest: float) -> Array:
    """Near zero, far out and tiny, none of them at a kink."""
    near, wide = rng.normal(0.0, 1.0, 1001), rng.uniform(-widest, widest, 1001)
    tiny = rng.normal(0.0, 1.0, 201) * 10.0 ** rng.uniform(-30.0, -3.0, 201)
    x = np.concatenate([near, wide, tiny]).astype(dtype)
    # No closer to a kink than 8 units of its last place: on which side of it an argument lies is then no matter of rounding.
    for kink in kinks(desc):
        x = x[(np.abs(x - kink) > 8 * np.finfo(dtype).eps * abs(kink)) & (x != kink)]
    return x


def units(desc: ActivationDesc, x: Array, found: Array, expected: Array) -> Array:
    """The error in units of the last place, times what f' itself makes of a last place of x: |v| for e^v, x^2 for erfc.

    A derivative from the value of TANH or SIGMOID has the value's error, units of a number near 1; GELU's has a zero, where two terms
    near 0.23 cancel. Numbers too small for all their digits are right if they are too small in both.
    """
    get: Any = desc
    name, tiny = label(desc), float(np.finfo(found.dtype).tiny)
    exponent = x.astype(np.float64)
    match name:
        case "Celu":
            exponent /= get.alpha
        case "ScaledTanh":
            exponent *= 2 * get.beta
        case "Softplus":
            exponent *= get.steepness
        case "ParametricSoftplus":
            exponent *= get.beta
        case "Gelu":
            exponent *= exponent
    smallest_unit = {"Tanh": 1.0, "Sigmoid": 1.0, "Gelu": 0.23}.get(name, tiny)
    with np.errstate(over="ignore", invalid="ignore"):
        right = (np.abs(found) < tiny) & (np.abs(expected) < tiny) | (found == expected.astype(found.dtype))
        unit = np.spacing(np.maximum(np.abs(expected), smallest_unit).astype(found.dtype)).astype(np.float64)
        error = np.abs(found - expected).astype(np.float64) / unit / np.maximum(1.0, np.abs(exponent) / 2)
    return np.where(right, 0.0, error)


def assert_within(limit: float, desc: ActivationDesc, x: Array, found: Array, expected: Array) -> None:
    error = units(desc, x, found, expected)
    worst = int(np.argmax(error))
    assert error[worst] <= limit, f"{error[worst]:.2f} units at x = {x[worst]!r}: {found[worst]!r}, not {expected[worst]!r}; {desc!r}"


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
    given = apply(cuda_device.seam, desc, x) if keeps_value(desc) else x
    # CUDA documents 4 ulp of erfcf, of which each is two units of a derivative just below 1/2, and 2 of expf: the two terms may cancel.
    limit = 13.0 if label(desc) == "Gelu" and approximates(cuda_device.seam) else 6.0
    assert_within(limit, desc, x, apply(cuda_device.seam, desc, given, derivative=True), closed_form(desc, x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gelu_keeps_its_digits(dtype: Any) -> None:
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
    given = apply(cuda_device.seam, desc, x) if keeps_value(desc) else x
    with np.errstate(over="ignore"):
        expected = np.array(derivatives).astype(np.float32)
    np.testing.assert_allclose(apply(cuda_device.seam, desc, given, derivative=True), expected, rtol=2e-7, atol=1e-44)


@pytest.mark.parametrize(("desc", "places"), KINKS, ids=[label(desc) for desc, _ in KINKS])
def test_kinks(cuda_device: Any, desc: ActivationDesc, places: dict[float, float]) -> None:
    x = np.array(list(places), np.float32)
    expected = np.array(list(places.values()), np.float32)
    for dtype in (np.float32, np.float64):
        np.testing.assert_array_equal(differentiate(desc, x.astype(dtype)), expected)
    given = apply(cuda_device.seam, desc, x) if keeps_value(desc) else x
    np.testing.assert_array_equal(apply(cuda_device.seam, desc, given, derivative=True), expected)


def test_small_results_of_large_arguments(cuda_device: Any) -> None:
    desc = descs.ActivationSoftsignDesc()
    x = np.array([1e15, -3e18, 2e19], np.float32)  # the square of the last one overflows, its reciprocal is 2.5e-39
    expected = x.astype(np.float64) ** -2
    np.testing.assert_allclose(differentiate(desc, x), expected, rtol=1e-6)
    np.testing.assert_allclose(apply(cuda_device.seam, desc, x, derivative=True), expected, rtol=1e-6)
    np.testing.assert_allclose(differentiate(desc, np.array([1e150, -1e154, 1e155])), [1e-300, 1e-308, 1e-310], rtol=1e-12)


def test_which_values_functors_keep(cuda_device: Any) -> None:
    claims = "".join(f"static_assert({label(kind())}::keeps_value == {str(keeps_value(kind())).lower()});\n" for kind in ATTRIBUTES)
    seam = cuda_device.seam
    seam.compile(SOURCE + claims, [f"apply<{', '.join(NAMES)}>"], seam.limits(0).compute_capability)


def test_an_activation_of_rows_is_refused() -> None:
    with pytest.raises(TypeError, match="ACTIVATION_SOFTMAX is not an activation of a recurrent cell"):
        derivative(descs.ActivationSoftmaxDesc(), np.zeros(3))
