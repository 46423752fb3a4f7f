"""DYNAMIC_QUANTIZE_LINEAR on every device: the same integers, scale and zero point, bit for bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.operators.layout_runs import Array, layouts, results_of, run, same
from tests.support.tools import require

SIZES = [(1,), (7,), (5, 16), (3, 1, 40), (2, 3, 2, 1, 3, 2, 1, 2), (70_003,)]


def described(data_type: str, quantized: str, *sizes: int) -> dml.DynamicQuantizeLinearDesc:
    return dml.DynamicQuantizeLinearDesc(
        input_tensor=dml.TensorDesc(data_type=data_type, sizes=sizes),
        output_tensor=dml.TensorDesc(data_type=quantized, sizes=sizes),
        output_zero_point_tensor=dml.TensorDesc(data_type=quantized, sizes=[1] * len(sizes)),
    ).with_outputs()


def check(device: dml.Device | str, desc: Any, x: Array) -> None:
    """Fails unless all outputs are those of the definition in float32."""
    wanted = run(desc, {"input_tensor": x})
    for own in layouts(desc):
        for place, found in run(own, {"input_tensor": x}, device).items():
            same(found, wanted[place], f"{place} of {x.shape}")


@pytest.mark.parametrize("quantized", ["UINT8", "INT8"])
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_sizes_and_layouts(cuda_device: dml.Device, data_type: str, quantized: str) -> None:
    rng = np.random.default_rng(1)
    for number, sizes in enumerate(SIZES):
        desc = described(data_type, quantized, *sizes)
        x = rng.normal(number - 2, 3, sizes).astype(desc.input_tensor.data_type.numpy)
        check(cuda_device, desc, x)


ODD = {
    "zeros": [0.0, -0.0, 0.0, 0.0],
    "above 0": [1.0, 2.0, 3.0, 7.0],
    "below 0": [-1.0, -2.0, -3.0, -7.0],
    "infinity": [1.0, math.inf, -1.0, 0.0],
    "both infinities": [-math.inf, math.inf, 1.0, 0.0],
    "NaN": [1.0, math.nan, -1.0, 0.5],
    "the largest numbers": [3e38, -3e38, 1.0, 0.0],
    "the smallest numbers": [1e-44, 2e-44, 0.0, 5e-45],
}


@pytest.mark.each_value
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("quantized", ["UINT8", "INT8"])
def test_odd_numbers(cuda_device: dml.Device, quantized: str, name: str) -> None:
    check(cuda_device, described("FLOAT32", quantized, 4), np.array(ODD[name], np.float32))


@pytest.mark.parametrize(("sizes", "sanitizers"), [((3000,), "address,undefined"), pytest.param((1030,), "thread", marks=pytest.mark.slow)])
def test_the_sanitizers_find_nothing(sizes: tuple[int, ...], sanitizers: str) -> None:
    require("g++")
    runtime, desc = EmulatedRuntime(sanitize=sanitizers), described("FLOAT16", "INT8", *sizes)
    x = np.random.default_rng(2).normal(size=sizes).astype(np.float16)
    wanted = run(desc, {"input_tensor": x})
    for name, found in results_of(desc, {"input_tensor": x}, CudaDevice(runtime)).items():
        same(np.asarray(found), wanted[name], name)
    runtime.check_guards()


def test_what_cuda_reports_about_its_work(cuda_device: dml.Device) -> None:
    operator = dml.compile(described("FLOAT16", "INT8", 1 << 20), cuda_device)
    assert "kernels: find<machine::half, signed char, 8>, quantize<machine::half, signed char, 8>" in operator.plan
    assert 0 < operator.binding_properties.temporary_resource_size <= 1 << 16
