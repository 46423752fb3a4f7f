"""What a GPU's approximate functions and its tensor cores may be off, emulated by `EmulatedRuntime(arithmetic=...)`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dmlpy.description.arrays import view
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.emulation.arithmetic import rounded_to_tf32, truncated_to_tf32, truncating_product
from dmlpy.devices.cuda.emulation.compiler import ARITHMETICS
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from tests.support.cuda.kernel_parameters import PARAMETERS, device, parameters
from tests.support.folders import TESTS
from tests.support.tools import require

Array = np.ndarray[Any, Any]

SOURCE = sources.read(str(TESTS / "kernels" / "approximations.cu"))
INEXACT = [arithmetic for arithmetic in ARITHMETICS if arithmetic != "exact"]
ARITHMETIC = pytest.mark.parametrize("arithmetic", INEXACT)

FUNCTIONS: dict[str, tuple[Callable[..., Array], int, tuple[float, float]]] = {
    # what it is, the documented error in ulp, and the operands of the tests
    "exp2_approx": (np.exp2, 2, (-140.0, 127.0)),
    "reciprocal_approx": (np.reciprocal, 1, (-1e3, 1e3)),
    "expf": (np.exp, 2, (-100.0, 88.0)),
    "expm1f": (np.expm1, 1, (-20.0, 80.0)),
    "logf": (np.log, 1, (1e-30, 1e5)),
    "log1pf": (np.log1p, 1, (-0.999, 1e5)),
    "erfcf": (np.vectorize(math.erfc, otypes=[np.float64]), 4, (-3.0, 9.0)),
    "acosf": (np.arccos, 3, (-1.0, 1.0)),
    "acoshf": (np.arccosh, 4, (1.0, 1e5)),
    "asinf": (np.arcsin, 4, (-1.0, 1.0)),
    "asinhf": (np.arcsinh, 3, (-1e5, 1e5)),
    "atanf": (np.arctan, 2, (-50.0, 50.0)),
    "atanhf": (np.arctanh, 3, (-1.0, 1.0)),
    "cosf": (np.cos, 2, (-1e3, 1e3)),
    "coshf": (np.cosh, 2, (-80.0, 80.0)),
    "erff": (np.vectorize(math.erf, otypes=[np.float64]), 2, (-3.0, 3.0)),
    "sinf": (np.sin, 2, (-1e3, 1e3)),
    "sinhf": (np.sinh, 3, (-80.0, 80.0)),
    "tanf": (np.tan, 4, (-1e3, 1e3)),
    "tanhf": (np.tanh, 2, (-4.0, 4.0)),
    "atan2f": (np.arctan2, 3, (-10.0, 10.0)),
    "powf": (np.power, 8, (0.1, 20.0)),
    "exp2_flushed": (np.exp2, 2, (-125.0, 127.0)),
    "reciprocal_flushed": (np.reciprocal, 1, (-1e3, 1e3)),
}
OF_TWO = {"atan2f", "powf"}
POW_ULPS = 2
"""The documented error of pow of doubles."""

EXACT_ON_GPUS = {
    *("fabsf", "fmaxf", "fminf", "copysignf", "ceilf", "floorf", "truncf", "rintf", "roundf", "fmodf", "sqrtf", "fmaf"),
    *("fabs", "fmax", "fmin", "copysign", "ceil", "floor", "trunc", "rint", "round", "fmod", "sqrt", "fma"),
}
MATH_FUNCTION = re.compile(
    r"\b((?:a?(?:cos|sin|tan)h?|atan2|sincos|(?:cos|sin)pi|exp(?:2|10|m1)?|log(?:2|10|1p|b)?|erfc?(?:inv|x)?|r?(?:cbrt|sqrt|hypot)|pow|fdim"
    r"|fdivide|fma|fmax|fmin|fmod|frexp|ldexp|[lt]gamma|modf|nearbyint|rint|round|trunc|ceil|floor|fabs|copysign|remainder|scalbn|normcdf"
    r"|[jy][01n])f?)\("
)
"""A call of one of CUDA's functions of floats or of doubles."""
COMMENT = re.compile(r"//.*")


def call(runtime: CudaRuntime, kernel: str, operands: Array, words: Array) -> Array:
    """What a kernel of one thread makes of operands, [2, count]."""
    given, output = runtime.to_device(0, operands, 0), runtime.to_device(0, np.full_like(operands[0], np.nan), 0)
    numbers = runtime.to_device(0, words, 0)
    argument = np.zeros(1, PARAMETERS)
    argument["input"], argument["output"], argument["words"] = (view(array).pointer for array in (given, output, numbers))
    argument["count"] = operands.shape[1]
    image = runtime.compile(SOURCE, [kernel], runtime.limits(0).compute_capability)
    runtime.launch(runtime.load(0, *image[0], 0), (1, 1, 1), 1, 0, argument, 0)
    return np.asarray(runtime.to_host(output, 0))


def apply(runtime: CudaRuntime, function: str, operands: Array) -> Array:
    """What a kernel gets from a function."""
    return call(runtime, "apply", operands, np.array([list(FUNCTIONS).index(function)], np.uint32))


def result(function: str, operands: Array) -> Array:
    """What the function is, rounded to float."""
    wide = operands.astype(np.float64)
    exact: Array = FUNCTIONS[function][0](*(wide if function in OF_TWO else wide[:1])).astype(np.float32)
    return exact


def moved(values: Array, floats: Array | int) -> Array:
    """The values so many floats towards plus infinity."""
    bits = np.abs(values).view(np.int32) + np.where(values < 0, -1, 1) * floats
    return np.copysign(bits.astype(np.int32).view(np.float32), values)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_off_by_all_that_is_documented(function: str) -> None:
    require("g++")
    _, ulps, (low, high) = FUNCTIONS[function]
    operands = np.random.default_rng(1).uniform(low, high, (2, 500)).astype(np.float32)
    rounded = result(function, operands)
    found = {arithmetic: apply(EmulatedRuntime(arithmetic=arithmetic), function, operands) for arithmetic in ARITHMETICS}
    np.testing.assert_array_max_ulp(found["exact"], rounded, 2)  # as good as the C library is
    for arithmetic, step in (("up", ulps), ("down", -ulps)):
        np.testing.assert_array_equal(found[arithmetic], moved(rounded, step))
    upwards = found["mixed"] == found["up"]
    np.testing.assert_array_equal(found["mixed"][~upwards], found["down"][~upwards])
    assert 0.4 < upwards.mean() < 0.6


def test_powers_of_doubles_are_off_by_all_that_is_documented() -> None:
    require("g++")
    operands = np.random.default_rng(1).uniform(0.1, 20.0, (2, 500))
    none = np.zeros(1, np.uint32)
    found = {arithmetic: call(EmulatedRuntime(arithmetic=arithmetic), "raise", operands, none) for arithmetic in ARITHMETICS}
    np.testing.assert_array_max_ulp(found["exact"], operands[0] ** operands[1], 1)
    for arithmetic, step in (("up", POW_ULPS), ("down", -POW_ULPS)):
        off = found[arithmetic].view(np.int64) - found["exact"].view(np.int64)
        assert (np.abs(off - step) <= 1).all()  # the C library does not round all powers correctly
        assert (off == step).mean() > 0.95
    upwards = found["mixed"] == found["up"]
    np.testing.assert_array_equal(found["mixed"][~upwards], found["down"][~upwards])
    assert 0.4 < upwards.mean() < 0.6
    whole = np.array([[3.0, -2.0, 10.0, 5.0, 0.0, np.inf], [5.0, 31.0, 15.0, 0.0, 2.0, 0.5]])
    for arithmetic in INEXACT:
        np.testing.assert_array_equal(call(EmulatedRuntime(arithmetic=arithmetic), "raise", whole, none), whole[0] ** whole[1])


TAKEN_AS_EXACT: dict[str, list[Any]] = {
    "exp2_approx": [*range(-126, 128), -200, -1e30, 1e30],  # an H100's 2^-127 is the denormal number next to it
    "reciprocal_approx": [sign * 2.0**power for power in range(-126, 128) for sign in (1, -1)],
    "expf": [1e-30, -1e-30, -200, -1e30, 1e30],
    "expm1f": [1e-30, -1e-30, -60, -1e30, 1e30],
    "logf": [1.0],
    "log1pf": [1e-30, -1e-30],
    "erfcf": [1e-30, -1e-30, -7, -1e30, 30, 1e30],
    "acosf": [1.0],
    "acoshf": [1.0],
    "asinf": [1e-30, -1e-30],
    "asinhf": [1e-30, -1e-30],
    "atanf": [1e-30, -1e-30],
    "atanhf": [1e-30, -1e-30, 1.0, -1.0],
    "cosf": [1e-30, -1e-30],
    "coshf": [1e-30, -1e-30, 200, -200],
    "erff": [7, -7, 1e30, -1e30],
    "sinf": [1e-30, -1e-30],
    "sinhf": [1e-30, -1e-30, 200, -200],
    "tanf": [1e-30, -1e-30],
    "tanhf": [1e-30, -1e-30, 30, -30, 1e30],
    "atan2f": [(1e-30, np.inf), (0.0, 1.0), (-0.0, 1.0), (np.nan, 1.0)],
    "powf": [
        (3.0, 5.0),
        (-2.0, 31.0),
        (7.0, 0.0),
        (1.0, 0.3),
        (0.0, 0.3),
        (2.0, -1.0),
        (np.inf, 0.3),
        (-1.5, 0.5),
        (10.0, 50.0),
        (0.1, 99.0),
    ],
    "exp2_flushed": [*range(-126, 128), -200, -1e30, 1e30],
    "reciprocal_flushed": [sign * 2.0**power for power in range(-126, 127) for sign in (1, -1)],
}
"""Operands whose results a float holds exactly, or that underflow; with zeros, infinities and NaN."""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_taken_as_exact_is_so(cuda_device: Any, function: str) -> None:
    """The documents leave some of these open: so a GPU is asked."""
    special = [0.0, -0.0, np.inf, -np.inf, np.nan]
    if function in OF_TWO:
        operands = np.array(TAKEN_AS_EXACT[function], np.float32).T
    else:
        inexact = {"acosf": (0.0,), "atanf": (np.inf, -np.inf)}.get(function, ())  # multiples of pi
        operands = np.array([[*TAKEN_AS_EXACT[function], *(number for number in special if number not in inexact)]] * 2, np.float32)
    with np.errstate(all="ignore"):
        exact = result(function, operands)
    for runtime in (cuda_device.runtime, *(EmulatedRuntime(arithmetic=arithmetic) for arithmetic in INEXACT)):
        np.testing.assert_array_equal(apply(runtime, function, operands), exact)


@ARITHMETIC
@pytest.mark.parametrize("scale", [1.0, 1e-20])
@pytest.mark.parametrize("kind", ["float", "machine::half"])
def test_sums_on_tensor_cores_are_cut_off(kind: str, scale: float, arithmetic: str) -> None:
    """In a kernel as in a product of the runtime; the products of positive values come out too small, by less than is lost at most."""
    require("g++")
    dtype = np.dtype(np.float32 if kind == "float" else np.float16)
    depth = 32 // dtype.itemsize
    scale = scale if kind == "float" else 1.0
    factors = (np.random.default_rng(2).uniform(0.1, 1.0, (24, depth)) * scale).astype(dtype)
    taken = truncated_to_tf32(factors.astype(np.float32))
    runtime = EmulatedRuntime(arithmetic=arithmetic)
    given, sums = device(runtime, factors), device(runtime, np.zeros((16, 8), np.float32))
    argument = parameters(input=given, output=sums)
    runtime.launch(runtime.load(0, *runtime.compile(SOURCE, [f"multiply<{kind}>"], 90)[0], 0), (1, 1, 1), 32, 0, argument, 0)
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
    """With a NaN all of whose bits are outside TF32: it must not become an infinity."""
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
    text = "".join(COMMENT.sub("", path.read_text()) for path in (*folder.rglob("*.cu"), *folder.rglob("*.cuh")))
    of_the_machine = {"exp2_approx", "exp2_flushed", "reciprocal_approx", "reciprocal_flushed"}
    assert set(MATH_FUNCTION.findall(text)) - EXACT_ON_GPUS == {*FUNCTIONS, "pow"} - of_the_machine
    assert set(re.findall(r"\b\w+\.approx[.\w]*", text)) == {"ex2.approx.f32", "ex2.approx.ftz.f32", "rcp.approx.f32", "rcp.approx.ftz.f32"}
    assert not re.findall(r"\b__(?:\w*(?:exp|log|pow|sin|cos|tan|div|rcp|sqrt)\w*)\(", text), "intrinsics with errors of their own"


def test_an_unknown_arithmetic_is_refused() -> None:
    for arithmetic in ("upwards", "up diffused"):
        with pytest.raises(ValueError, match="is none of the arithmetics"):
            EmulatedRuntime(arithmetic=arithmetic)
