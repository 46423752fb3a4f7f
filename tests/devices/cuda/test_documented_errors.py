"""Every tolerance of the suite holds, too, where a GPU's approximate functions and tensor cores are off by all that is documented.

The fast tests hold a sample to the suite's own checks, the slow ones run all that runs on the emulated CUDA device, with products and
sums fused besides.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.registry import operator_class
from dmlpy.devices.cuda.convolution import plan as convolution_plan
from dmlpy.devices.cuda.convolution.tiles import MOST_TERMS_WITHOUT_TOTALS
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.compiler import ARITHMETICS
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.inspection.samples import sample
from tests.support.cuda import training_layers as training
from tests.support.cuda.functors import check_accuracy as check_functor
from tests.support.cuda.grid_rows import FEW, FLOAT, Row
from tests.support.cuda.layer_plans import launch
from tests.support.cuda.network_checks import check_network, check_resetting_gru, stacked
from tests.support.cuda.tf32 import check_results_in_tf32 as check_tf32
from tests.support.folders import ROOT, TESTS
from tests.support.operators import activation_runs, layout_runs, normalization_cases, softmax_runs
from tests.support.operators.activation_cases import ALL, ALONE
from tests.support.tolerance import assert_close
from tests.support.tools import require

INEXACT = [arithmetic for arithmetic in ARITHMETICS if arithmetic != "exact"]
ARITHMETIC = pytest.mark.parametrize("arithmetic", INEXACT)


# a sample


def strategy(name: str) -> Callable[[EmulatedRuntime], None]:
    """Results and gradients of a network, and a cell that no network has."""

    def check(runtime: EmulatedRuntime) -> None:
        device = CudaDevice(runtime, strategy=name)
        check_network(device, stacked("gru", 6, 3, 5, np.float32))
        check_resetting_gru(device, 6, 3, 5, np.float32)

    return check


def grid(row: Row) -> Callable[[EmulatedRuntime], None]:
    """A layer in training, in many blocks."""

    def check(runtime: EmulatedRuntime) -> None:
        run = row.build(trains=True)
        launch(run, row.plan, runtime)
        training.check(run)

    return check


def functors(runtime: EmulatedRuntime) -> None:
    for desc in ALL + ALONE:
        check_functor(runtime, desc)


def elements(runtime: EmulatedRuntime) -> None:
    for desc, dtype in activation_runs.SAMPLE:
        if np.dtype(dtype).kind == "f":
            values = activation_runs.random_values(np.random.default_rng(1), (67,), dtype)
            arrays = activation_runs.inputs(desc, values, values)
            assert_close(activation_runs.run(CudaDevice(runtime), desc, arrays), activation_runs.oracle(desc, arrays), dtype)


ELEMENT_WISE = {
    # an operator and its operands
    **dict.fromkeys(("ACOS", "ASIN", "ATANH"), (-0.99, 0.99)),
    **dict.fromkeys(("ASINH", "ATAN", "ATAN_YX", "COS", "COSH", "ERF", "EXP", "MODULUS_FLOOR", "SIN", "SINH", "TAN", "TANH"), (-9.0, 9.0)),
    **dict.fromkeys(("ACOSH", "LOG", "POW", "RECIP", "SQRT"), (1.01, 9.0)),
}


def elementwise(runtime: EmulatedRuntime) -> None:
    rng = np.random.default_rng(1)
    for name, (low, high) in ELEMENT_WISE.items():
        desc = sample(operator_class(f"DML_OPERATOR_ELEMENT_WISE_{name}"))
        if hasattr(desc, "scale_bias"):
            desc = desc.replace(scale_bias=None)  # whose rounding the functions magnify
        tensors = {slot.place: slot.tensor for slot in desc.input_slots() if slot.tensor is not None}
        arrays = {place: rng.uniform(low, high, tensor.sizes).astype(tensor.data_type.numpy) for place, tensor in tensors.items()}
        found = layout_runs.run(desc, arrays, CudaDevice(runtime))["output_tensor"]
        assert_close(found, layout_runs.by_definition(desc, arrays)["output_tensor"], found.dtype, what=name)


def powers_of_integers(runtime: EmulatedRuntime) -> None:
    """What is computed by pow of doubles is the whole number where that is what the power is."""
    x, exponent = np.arange(-40, 41, dtype=np.int32), np.resize(np.array([0, 1, 2, 3, 4, 5], np.float32), 81)
    desc = dml.ElementWisePowDesc(input_tensor=layout_runs.tensor(x), exponent_tensor=layout_runs.tensor(exponent)).with_outputs()
    found = layout_runs.compute(desc, device=CudaDevice(runtime), input_tensor=x, exponent_tensor=exponent)
    layout_runs.same(found, x ** exponent.astype(np.int32), "x ^ exponent")


def groups(runtime: EmulatedRuntime) -> None:
    device = CudaDevice(runtime)
    for function in ("softmax", "log_softmax"):
        for row in softmax_runs.ROWS:
            softmax_runs.check_accuracy(device, function, row, False)


def normalization(runtime: EmulatedRuntime) -> None:
    for mode in ("BATCH_NORMALIZATION", "BATCH_NORMALIZATION_TRAINING", "BATCH_NORMALIZATION_TRAINING_GRAD"):
        desc, arrays = normalization_cases.case(mode, np.random.default_rng(1), (2, 3, 5, 7), (1,))
        normalization_cases.check(normalization_cases.run(CudaDevice(runtime), desc, arrays), desc, arrays, mode)


def products(runtime: EmulatedRuntime) -> None:
    """Of halves, all of one sign, so that what is cut off adds up."""
    desc = dml.GEMMDesc(a_tensor=layout_runs.packed("float16", 20, 1500), b_tensor=layout_runs.packed("float16", 1500, 9)).with_outputs()
    rng = np.random.default_rng(1)
    arrays = {name: rng.uniform(0.5, 1.0, desc.tensors()[name].sizes).astype(np.float16) for name in ("a_tensor", "b_tensor")}
    found = layout_runs.run(desc, arrays, CudaDevice(runtime))["output_tensor"]
    assert_close(found, layout_runs.by_definition(desc, arrays)["output_tensor"], np.float16)


def convolutions(runtime: EmulatedRuntime) -> None:
    """Of halves of one sign."""
    x, w = (layout_runs.packed("float16", *sizes) for sizes in ((1, 40, 6, 6), (9, 40, 3, 3)))
    own = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1), "output_padding": (0, 0)}
    desc = dml.ConvolutionDesc(input_tensor=x, filter_tensor=w, **own).with_outputs()
    rng = np.random.default_rng(1)
    arrays = {name: rng.uniform(0.5, 1.0, desc.tensors()[name].sizes).astype(np.float16) for name in ("input_tensor", "filter_tensor")}
    found = layout_runs.run(desc, arrays, CudaDevice(runtime))["output_tensor"]
    assert_close(found, layout_runs.by_definition(desc, arrays)["output_tensor"], np.float16)


def sums_without_totals(runtime: EmulatedRuntime) -> None:
    """The longest sums of the large tiles of convolutions: of halves, and of floats rounded to TF32; all of one sign."""
    pairs = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), "output_padding": (0, 0)}
    rng = np.random.default_rng(1)
    for dtype in ("float16", "float32"):
        x, w = (layout_runs.packed(dtype, *sizes) for sizes in ((1, MOST_TERMS_WITHOUT_TOTALS, 3, 2), (9, MOST_TERMS_WITHOUT_TOTALS, 1, 1)))
        desc = dml.ConvolutionDesc(input_tensor=x, filter_tensor=w, **pairs).with_outputs()
        factors = {name: rng.uniform(0.5, 1.0, desc.tensors()[name].sizes) for name in ("input_tensor", "filter_tensor")}
        arrays = {name: array.astype(np.float16).astype(dtype) for name, array in factors.items()}
        with patch.object(convolution_plan, "ranked_tiles", lambda tiles, *_: [tiles[-1]]):
            operator = dml.compile(desc, CudaDevice(runtime), flags="ALLOW_HALF_PRECISION_COMPUTATION")
        assert ", Many" in operator.plan
        on_device = {name: operator.device.from_host(array) for name, array in arrays.items()}
        found = operator.device.to_host(operator(**on_device).output_tensor)
        assert_close(found.astype(np.float16), layout_runs.by_definition(desc, arrays)["output_tensor"], np.float16)


def attention(runtime: EmulatedRuntime) -> None:
    """Of halves, by tensor cores."""
    three = layout_runs.packed("float16", 1, 70, 40)
    tensors = {"query_tensor": three, "key_tensor": three, "value_tensor": three}
    desc = dml.MultiheadAttentionDesc(**tensors, scale=0.3, mask_filter_value=0.0, head_count=1).with_outputs("output_tensor")
    rng = np.random.default_rng(1)
    arrays = {name: rng.uniform(0.0, 1.0, three.sizes).astype(np.float16) for name in tensors}
    found = layout_runs.run(desc, arrays, CudaDevice(runtime))["output_tensor"]
    assert_close(found, layout_runs.by_definition(desc, arrays)["output_tensor"], np.float16)


SAMPLE: dict[str, Callable[[EmulatedRuntime], None]] = {
    "persistent_block": strategy("persistent_block"),
    "persistent_grid": strategy("persistent_grid"),
    "per_step": strategy("per_step"),
    "grid, halves": grid(FEW["LSTM"]),
    "grid, halves, two products": grid(FEW["GRU"]),
    "grid, TF32": grid(Row("RNN", FLOAT, (16, 4, 8), tf32=True)),
    "functors": functors,
    "elements": elements,
    "element-wise functions": elementwise,
    "powers of integers": powers_of_integers,
    "groups": groups,
    "normalization": normalization,
    "products of halves": products,
    "convolutions of halves": convolutions,
    "attention of halves": attention,
    "sums without totals": sums_without_totals,
}
SLOW = ("sums without totals",)
"""These take ten seconds."""


@pytest.mark.parametrize(
    ("name", "arithmetic"),
    [
        pytest.param(name, arithmetic, marks=[pytest.mark.slow] * ((number + place) % len(INEXACT) > 0 or name in SLOW))
        for number, name in enumerate(SAMPLE)
        for place, arithmetic in enumerate(INEXACT)
    ],
)
def test_a_sample(name: str, arithmetic: str) -> None:
    require("g++")
    runtime = EmulatedRuntime(arithmetic=arithmetic)
    SAMPLE[name](runtime)
    runtime.check_guards()


@ARITHMETIC
def test_products_of_tf32(monkeypatch: pytest.MonkeyPatch, arithmetic: str) -> None:
    """The matrix products outside the kernels, whose factors are truncated."""
    monkeypatch.setenv("DMLPY_TEST_ARITHMETIC", arithmetic)
    check_tf32("persistent_grid")


# everything


USERS = re.compile(r"emulated_runtime|cuda_device|cuda_runtime|any_device|cuda_on_cpu")
OWN_ARITHMETIC = {
    "test_access_counts.py",
    "test_approximations.py",
    "test_on_cpu.py",
    "test_documented_errors.py",
    "test_memory_accesses.py",
}
MODULES = [
    path.relative_to(TESTS).as_posix()
    for path in sorted(TESTS.rglob("test_*.py"))
    if USERS.search(path.read_text()) and path.name not in OWN_ARITHMETIC and "sanitize" not in path.name
]
"""Those that run kernels on the CPU, except tests of the emulated device itself."""


@pytest.mark.slow
@ARITHMETIC
@pytest.mark.parametrize("module", MODULES)
def test_everything(module: str, arithmetic: str) -> None:
    """Sanitized programs run in the exact arithmetic only: what they find does not depend on it."""
    require("g++")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-k", "not sanitize", "-p", "no:cacheprovider", str(TESTS / module)]
    environment = {**os.environ, "DMLPY_TEST_ARITHMETIC": f"{arithmetic} fused"}
    outcome = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert re.search(r"^\d+ passed", outcome.stdout, re.MULTILINE), outcome.stdout
