"""Every function of one float on every device, within the units in the last place of its operator's record.

The slow rows have a million arguments each, and emulate what a GPU's functions may be off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.conftest import cuda_on_cpu
from tests.support.operators.accuracy import (
    FUNCTIONS,
    HALVES,
    HALVES_OF_POLYNOMIALS,
    HALVES_ON_GPUS,
    IN_CELLS,
    NO_FUNCTIONS,
    POLYNOMIALS_OF_HALVES,
    Array,
    Function,
    floats,
    halves,
)
from tests.support.tables import table

COUNT, ALL = 30_000, 1_000_000
EACH = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.title)
IN_ONE = table("function", FUNCTIONS, ids=lambda function: function.title)
ARITHMETIC = pytest.mark.parametrize("arithmetic", ["exact", "up", "down"])
SEEDS = pytest.mark.parametrize("seed", [1, 2])


def check(function: Function, found: Array, arguments: dict[str, Array], bound: float) -> None:
    """Fails with the figures if a result is off by more units than the bound."""
    units = function.units(found, arguments)
    worst = int(np.argmax(units))
    at = ", ".join(f"{values[worst]!r}" for values in arguments.values())
    assert units[worst] <= bound, f"{function.title}({at}) is {found[worst]!r}: {units[worst]:.4g} units off, allowed {bound:g}"


def check_on(device: dml.Device, function: Function, x: Array) -> None:
    """Runs a function of some numbers on a device, and checks the results."""
    arguments = function.arguments(x)
    operator = dml.compile(function.of(dml.TensorDesc.of(x)), device)
    results = operator(**{name: device.from_host(values) for name, values in arguments.items()})
    found = np.asarray(device.to_host(results.output_tensor))
    name = device.name.partition(":")[0]
    bound = getattr(function.bound, name)
    if x.dtype == np.float16:
        title = function.kind.short_name().partition("_")[2].removeprefix("WISE_")
        is_polynomial = name == "cpu" and title in POLYNOMIALS_OF_HALVES
        bound = min(bound, HALVES_ON_GPUS if name == "cuda" else HALVES_OF_POLYNOMIALS if is_polynomial else HALVES)
    check(function, found, arguments, bound)


def test_every_function_has_a_bound() -> None:
    """An operator of elements that is new is listed, or the reason why it has no bound."""
    titles = {function.kind.short_name().partition("_")[2].removeprefix("WISE_") for function in FUNCTIONS}
    others = [name for names in NO_FUNCTIONS.values() for name in names]
    beginnings = ("DML_OPERATOR_ELEMENT_WISE_", "DML_OPERATOR_ACTIVATION_")
    known = {name.removeprefix(start) for name in OPERATORS for start in beginnings if name.startswith(start)}
    assert len(others) == len(set(others))
    assert sorted(known) == sorted(titles | set(others))


@IN_ONE
def test_float32(every_device: dml.Device, function: Function) -> None:
    check_on(every_device, function, floats(COUNT, 3))


COMPILED = FUNCTIONS[::3]
"""The functions whose kernels of FLOAT16 the usual run compiles for the emulated GPU: they compute in FLOAT32, as those that
`test_float32` runs, and the slow rows run them all.
"""


@IN_ONE
def test_every_float16(every_device: dml.Device, function: Function) -> None:
    if isinstance(every_device, CudaDevice) and isinstance(every_device.runtime, EmulatedRuntime) and function not in COMPILED:
        return
    check_on(every_device, function, halves())


@pytest.mark.slow
@SEEDS
@EACH
def test_a_million_float32(every_device: dml.Device, function: Function, seed: int) -> None:
    check_on(every_device, function, floats(ALL, seed))


@pytest.mark.slow
@ARITHMETIC
@EACH
def test_what_a_gpu_may_be_off(function: Function, arithmetic: str) -> None:
    for x in (floats(ALL, 1), halves()):
        check_on(cuda_on_cpu(arithmetic=arithmetic), function, x)


def check_in_cells(function: Function, device: str, x: Array) -> None:
    """A step of an RNN whose only unit gets the numbers as they are."""
    tensors = {
        "input_tensor": x.reshape(1, 1, -1, 1),
        "weight_tensor": np.ones((1, 1, 1, 1), x.dtype),
        "recurrence_tensor": np.zeros((1, 1, 1, 1), x.dtype),
    }
    layer = dml.RNNDesc(
        **{name: dml.TensorDesc.of(array) for name, array in tensors.items()},
        activation_descs=[function.fused()],
        direction="FORWARD",
    ).with_outputs("output_single_tensor")
    operator = dml.compile(layer, device)
    assert device != "cpu" or operator.plan.startswith("strategy: compiled")
    found: Any = operator(**tensors).output_single_tensor
    bound = function.bound.in_cells if device == "cpu" else function.bound.numpy
    assert bound is not None
    check(function, found.reshape(-1), function.arguments(x), min(bound, HALVES) if x.dtype == np.float16 else bound)


DEVICES_OF_CELLS = pytest.mark.parametrize("device", ["numpy", "cpu"])
IN_EACH_CELL = pytest.mark.parametrize("function", IN_CELLS, ids=lambda function: function.title)


@pytest.mark.each_value
@DEVICES_OF_CELLS
@IN_EACH_CELL
def test_activations_of_cells(function: Function, device: str) -> None:
    if device == "cpu":
        pytest.importorskip("llvmlite")
    for x in (floats(COUNT, 4), halves()[::4]):
        check_in_cells(function, device, x)


@pytest.mark.slow
@SEEDS
@DEVICES_OF_CELLS
@IN_EACH_CELL
def test_activations_of_cells_at_a_million(function: Function, device: str, seed: int) -> None:
    if device == "cpu":
        pytest.importorskip("llvmlite")
    for x in (floats(ALL, seed), halves()):
        check_in_cells(function, device, x)
