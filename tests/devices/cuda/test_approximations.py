"""What a GPU's approximate functions and its tensor cores may be off, emulated by `CpuSeam(arithmetic=...)`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dmlpy.arrays import view
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.seam import Seam
from tests.devices.cuda.test_on_cpu import PARAMETERS, device, parameters
from tests.support.cuda.cpu_arithmetic import rounded_to_tf32, truncated_to_tf32, truncating_product
from tests.support.cuda.cpu_compiler import ARITHMETICS
from tests.support.cuda.cpu_seam import CpuSeam
from tests.support.folders import TESTS
from tests.support.tools import require

Array = np.ndarray[Any, Any]

SOURCE = sources.read(str(TESTS / "kernels" / "approximations.cu"))
INEXACT = [arithmetic for arithmetic in ARITHMETICS if arithmetic != "exact"]
ARITHMETIC = pytest.mark.parametrize("arithmetic", INEXACT)

FUNCTIONS: dict[str, tuple[Callable[[Array], Array], int, tuple[float, float]]] = {
    # what it is, the documented error in ulp, and the operands of the tests
    "exp2_approx": (np.exp2, 2, (-140.0, 127.0)),
    "reciprocal_approx": (np.reciprocal, 1, (-1e3, 1e3)),
    "expf": (np.exp, 2, (-100.0, 88.0)),
    "expm1f": (np.expm1, 1, (-20.0, 80.0)),
    "logf": (np.log, 1, (1e-30, 1e5)),
    "log1pf": (np.log1p, 1, (-0.999, 1e5)),
    "erfcf": (np.vectorize(math.erfc, otypes=[np.float64]), 4, (-3.0, 9.0)),
}
EXACT_ON_GPUS = {"fabsf", "fmaxf", "fminf", "copysignf", "ceilf", "floorf", "truncf", "rintf", "sqrtf", "fmaf"}
MATH_FUNCTION = re.compile(
    r"\b((?:a?(?:cos|sin|tan)h?|atan2|sincos|(?:cos|sin)pi|exp(?:2|10|m1)?|log(?:2|10|1p|b)?|erfc?(?:inv|x)?|r?(?:cbrt|sqrt|hypot)|pow|fdim"
    r"|fdivide|fma|fmax|fmin|fmod|frexp|ldexp|[lt]gamma|modf|nearbyint|rint|round|trunc|ceil|floor|fabs|copysign|remainder|scalbn|normcdf"
    r"|[jy][01n])f)\("
)
"""A call of one of CUDA's functions of floats."""


def apply(seam: Seam, function: str, operands: Array) -> Array:
    """What a kernel gets from a function."""
    given, output = seam.to_device(0, operands, 0), seam.to_device(0, np.full_like(operands, np.nan), 0)
    words = seam.to_device(0, np.array([list(FUNCTIONS).index(function)], np.uint32), 0)
    argument = np.zeros(1, PARAMETERS)
    argument["input"], argument["output"], argument["words"] = (view(array).pointer for array in (given, output, words))
    argument["count"] = operands.size
    image = seam.compile(SOURCE, ["apply"], seam.limits(0).compute_capability)
    seam.launch(seam.load(0, *image[0], 0), (1, 1, 1), 1, 0, argument, 0)
    return np.asarray(seam.to_host(output, 0))


def moved(values: Array, floats: Array | int) -> Array:
    """The values so many floats towards plus infinity."""
    bits = np.abs(values).view(np.int32) + np.where(values < 0, -1, 1) * floats
    return np.copysign(bits.astype(np.int32).view(np.float32), values)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_off_by_all_that_is_documented(function: str) -> None:
    require("g++")
    exact, ulps, (low, high) = FUNCTIONS[function]
    operands = np.random.default_rng(1).uniform(low, high, 500).astype(np.float32)
    rounded = exact(operands.astype(np.float64)).astype(np.float32)
    found = {arithmetic: apply(CpuSeam(arithmetic=arithmetic), function, operands) for arithmetic in ARITHMETICS}
    np.testing.assert_array_max_ulp(found["exact"], rounded, 2)  # as good as the C library is
    for arithmetic, step in (("up", ulps), ("down", -ulps)):
        np.testing.assert_array_equal(found[arithmetic], moved(rounded, step))
    upwards = found["mixed"] == found["up"]
    np.testing.assert_array_equal(found["mixed"][~upwards], found["down"][~upwards])
    assert 0.4 < upwards.mean() < 0.6


TAKEN_AS_EXACT: dict[str, list[float]] = {
    "exp2_approx": [*range(-149, 128), -200, -1e30, 1e30],
    "reciprocal_approx": [sign * 2.0**power for power in range(-126, 128) for sign in (1, -1)],
    "expf": [1e-30, -1e-30, -200, -1e30, 1e30],
    "expm1f": [1e-30, -1e-30, -60, -1e30, 1e30],
    "logf": [1.0],
    "log1pf": [1e-30, -1e-30],
    "erfcf": [1e-30, -1e-30, -7, -1e30, 30, 1e30],
}
"""Operands whose results a float holds exactly, or that underflow; beside zeros, infinities and NaN."""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_taken_as_exact_is_so(cuda_device: Any, function: str) -> None:
    """The documents leave some of these open: so a GPU is asked."""
    operands = np.array([*TAKEN_AS_EXACT[function], 0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[function][0](operands.astype(np.float64)).astype(np.float32)
    for seam in (cuda_device.seam, *(CpuSeam(arithmetic=arithmetic) for arithmetic in INEXACT)):
        np.testing.assert_array_equal(apply(seam, function, operands), exact)


@ARITHMETIC
@pytest.mark.parametrize("scale", [1.0, 1e-20])
@pytest.mark.parametrize("kind", ["float", "machine::half"])
def test_sums_on_tensor_cores_are_cut_off(kind: str, scale: float, arithmetic: str) -> None:
    """In a kernel as in a product of the seam; the products of positive values come out too small, by less than is lost at most."""
    require("g++")
    dtype = np.dtype(np.float32 if kind == "float" else np.float16)
    depth = 32 // dtype.itemsize
    scale = scale if kind == "float" else 1.0
    factors = (np.random.default_rng(2).uniform(0.1, 1.0, (24, depth)) * scale).astype(dtype)
    taken = truncated_to_tf32(factors.astype(np.float32))
    seam = CpuSeam(arithmetic=arithmetic)
    given, sums = device(seam, factors), device(seam, np.zeros((16, 8), np.float32))
    argument = parameters(input=given, output=sums)
    seam.launch(seam.load(0, *seam.compile(SOURCE, [f"multiply<{kind}>"], 90)[0], 0), (1, 1, 1), 32, 0, argument, 0)
    found = sums.get()
    np.testing.assert_array_equal(found, truncating_product(taken[:16], taken[16:]))
    exact = taken[:16].astype(np.float64) @ taken[16:].T.astype(np.float64)
    error = (exact - found) / np.spacing(exact.astype(np.float32))
    assert (error >= 0).all()
    assert 1.0 < error.max() <= 5 * depth / 4  # in each round of four the last bit of five numbers


@pytest.mark.parametrize("sizes", [(3, 5, 7), (1, 1, 1), (4, 2, 0), (2, 3, 1000)])
def test_truncating_products_keep_signs_and_what_is_not_finite(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    rng = np.random.default_rng(3)
    left, right = (truncated_to_tf32(rng.standard_normal(shape, np.float32)) for shape in ((m, k), (n, k)))
    found = truncating_product(left, right)
    exact = left.astype(np.float64) @ right.T.astype(np.float64)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=0, atol=2.0**-23 * 5 * max(1, k))
    np.testing.assert_array_equal(truncating_product(-left, right), -found)
    if k:
        left[0, 0] = np.inf
        assert not np.isfinite(truncating_product(left, right)[0]).any()
        np.testing.assert_array_equal(truncating_product(left, right)[1:], found[1:])


def test_factors_of_tf32() -> None:
    """Beside the NaN whose bits all lie where TF32 has none: it must not become an infinity."""
    values = np.array(
        [1.0, 1 + 2.0**-10, 1 + 2.0**-11, -1 - 3 * 2.0**-12, 1 + 2.0**-12, np.inf, -np.inf, np.nan, 2.0**-149, 65504.0, 0.0, -0.0, 0.0],
        np.float32,
    )
    values[-1:].view(np.uint32)[:] = 0x7F800001
    expected = [1.0, 1 + 2.0**-10, 1 + 2.0**-10, -1 - 2.0**-10, 1.0, np.inf, -np.inf, np.nan, 0.0, 65504.0, 0.0, -0.0, np.nan]
    np.testing.assert_array_equal(rounded_to_tf32(values), np.array(expected, np.float32))
    expected = [1.0, 1 + 2.0**-10, 1.0, -1.0, 1.0, np.inf, -np.inf, np.nan, 0.0, 65504.0, 0.0, -0.0, np.nan]
    np.testing.assert_array_equal(truncated_to_tf32(values), np.array(expected, np.float32))


def test_no_function_is_forgotten() -> None:
    """Each of the C library that a kernel calls is emulated, or exact on a GPU; and so is each approximate instruction."""
    folder = sources.directory()
    text = "".join(path.read_text() for path in (*folder.rglob("*.cu"), *folder.rglob("*.cuh")))
    assert set(MATH_FUNCTION.findall(text)) - EXACT_ON_GPUS == set(FUNCTIONS) - {"exp2_approx", "reciprocal_approx"}
    assert set(re.findall(r"\b\w+\.approx[.\w]*", text)) == {"ex2.approx.f32", "rcp.approx.f32"}
    assert not re.findall(r"\b__(?:\w*(?:exp|log|pow|sin|cos|tan|div|rcp|sqrt)\w*)\(", text), "intrinsics with errors of their own"


def test_an_unknown_arithmetic_is_refused() -> None:
    for arithmetic in ("upwards", "up diffused"):
        with pytest.raises(ValueError, match="is none of the arithmetics"):
            CpuSeam(arithmetic=arithmetic)
