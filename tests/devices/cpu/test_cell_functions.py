"""The activations of compiled cells that have no name of their own: their slopes' accuracy, and that no library is called for them.

How accurate their values are is a matter of `tests.devices.test_accuracy`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.common.functors import ATTRIBUTES
from dmlpy.operators.activation import ActivationDesc
from tests.support.operators.activation_cases import label
from tests.support.operators.derivative_cases import KINKS, LIMITS, assert_within, closed_form, random_arguments, random_desc

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu.isa import Isa, host_isa
from dmlpy.devices.cpu.llvm import machine_code
from dmlpy.devices.cpu.recurrent.gradient_kernels import build_gradient_step
from dmlpy.devices.cpu.recurrent.kernels import build_step
from dmlpy.devices.cpu.recurrent.parameters import COMPILED, LayerParameters, constants_of, copied
from tests.support.cpu.small_kernels import FUNCTION, SLOPES

Array = np.ndarray[Any, np.dtype[Any]]
OTHERS = [kind for kind in ATTRIBUTES if kind not in COMPILED]
EACH = pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: label(kind()))


def slopes(desc: ActivationDesc, x: Array) -> Array:
    parameters = copied(LayerParameters.make({"constants": constants_of((desc,))}))
    found = np.full_like(x, 7.0)
    SLOPES(host_isa())(parameters.ctypes.data, x.ctypes.data, found.ctypes.data, len(x))
    return found


@EACH
def test_slopes_are_accurate(kind: type[ActivationDesc]) -> None:
    rng = np.random.default_rng(17)
    for _ in range(4):
        desc = random_desc(kind, rng)
        x = random_arguments(desc, rng, np.float32, widest=43.0)
        assert_within(6.0, desc, x, slopes(desc, x), closed_form(desc, x))


@pytest.mark.parametrize(("desc", "derivatives"), [(desc, values) for desc, values in LIMITS if type(desc) in OTHERS], ids=repr)
def test_slopes_at_the_limits(desc: ActivationDesc, derivatives: list[float]) -> None:
    largest = float(np.finfo(np.float32).max)
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, largest, -largest], np.float32)
    with np.errstate(over="ignore"):
        expected = np.array(derivatives, np.float32)
    np.testing.assert_array_equal(slopes(desc, x), expected)


@pytest.mark.parametrize(("desc", "places"), [(desc, places) for desc, places in KINKS if type(desc) in OTHERS], ids=repr)
def test_slopes_at_kinks(desc: ActivationDesc, places: dict[float, float]) -> None:
    found = slopes(desc, np.array(list(places), np.float32))
    np.testing.assert_array_equal(found, np.array(list(places.values()), np.float32))


@pytest.mark.parametrize("x", [-88.3, -88.4, -88.5, -88.7, -89.0, -200.0, -np.inf])
def test_a_celu_that_overflows(x: float) -> None:
    """Of a negative alpha: exp(x / alpha) - 1 is the largest numbers, then infinite, and never infinity less infinity."""
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 40])
    desc = dml.ActivationCeluDesc(input_tensor=tensor, output_tensor=tensor, alpha=-1.0)
    given = np.full((1, 1, 1, 40), x, np.float32)
    with np.errstate(over="ignore"):
        expected = (-np.expm1(-given.astype(np.float64))).astype(np.float32)
    np.testing.assert_allclose(dml.compile(desc, "cpu")(input_tensor=given).output_tensor, expected, rtol=1e-6)


@pytest.mark.parametrize(("cell", "roles"), [("RNN", 1), pytest.param("GRU", 2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [build_step, build_gradient_step])
def test_cells_call_no_library(make: Any, cell: str, roles: int) -> None:
    """LLVM's loader finds no functions of C's on Windows. Each role has all activation functions, which call the most."""
    arguments, stored = (7, ["float16"]) if make is build_step else (6, [])
    build = partial(make, cell, False, ("other",) * roles, *stored, host_isa())
    _, text = machine_code(build, arguments, returns=False, level=0)
    names = re.findall(r'^declare [^@]*@"?([^"(]+)"?\(', text, re.MULTILINE)
    assert [name for name in names if not name.startswith("llvm.")] == []


@pytest.mark.parametrize("name", ["exp", "exp_of_negative", "exp_minus_one"])
def test_powers_are_those_of_other_registers(name: str) -> None:
    """Those of 512 bits are scaled by an instruction of their own; subnormal powers, infinite ones and NaN are the same."""
    x = np.concatenate([np.linspace(-110, 95, 30001), [np.inf, -np.inf, np.nan, 0.0, -0.0, -87.33655, -103.97, 88.72284]]).astype(
        np.float32
    )
    x = x[~(x > 0)] if name == "exp_of_negative" else x
    found = [np.full_like(x, 7.0) for _ in range(2)]
    for isa, y in zip((host_isa(), Isa(4, 16)), found, strict=True):
        FUNCTION(name, isa)(x.ctypes.data, y.ctypes.data, len(x))
    np.testing.assert_array_equal(found[0].view(np.uint32), found[1].view(np.uint32))
    with np.errstate(over="ignore", under="ignore"):
        expected = (np.expm1 if name == "exp_minus_one" else np.exp)(x.astype(np.float64))
        np.testing.assert_allclose(found[0], expected.astype(np.float32), rtol=3e-7, atol=3e-45)
