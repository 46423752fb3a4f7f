"""Resampling's CUDA plans: random descs against the NumPy device, odd scales, what plans describe, sanitizers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.operators.layout_runs import by_definition, check_layouts, compute, packed, results_of, run_in_layouts, same, tensor
from tests.support.tolerance import assert_close
from tests.support.tools import require

MODES = ("NEAREST_NEIGHBOR", "LINEAR", "ANTIALIASED")


def random_desc(rng: np.random.Generator, mode: str, data_type: str, *, gradient: bool = False) -> Any:
    """A resampling of random sizes and scales; some dimensions keep theirs."""
    rank = int(rng.integers(1, 5))
    keep = rng.random(rank) < 0.4
    sizes = [int(n) for n in rng.integers(1, 9, rank)]
    scales = np.where(keep, 1.0, rng.choice([0.3, 0.5, 0.7, 1.5, 2.0, 3.0, 1 / 3, -1.0], rank)).tolist()
    outputs = [size if own else int(rng.integers(1, 12)) for size, own in zip(sizes, keep, strict=True)]
    before = np.where(keep, 0.5, rng.choice([0.5, 0.0, 0.25, -2.0], rank)).tolist()
    after = np.where(keep, -0.5, rng.choice([-0.5, 0.0, 3.0], rank)).tolist()
    members: dict[str, Any] = {"scales": scales, "input_pixel_offsets": before, "output_pixel_offsets": after}
    members |= {"rounding_direction": str(rng.choice(["INCREASING", "DECREASING"]))}
    members |= {"interpolation_mode": mode if mode == "NEAREST_NEIGHBOR" else "LINEAR"}
    given, made = packed(data_type, *sizes), packed(data_type, *outputs)
    if gradient:
        return dml.ResampleGrad1Desc(input_gradient_tensor=made, output_gradient_tensor=given, **members)
    return dml.Resample3Desc(input_tensor=given, output_tensor=made, antialiased=mode == "ANTIALIASED", **members)


@pytest.mark.parametrize("mode", MODES)
def test_random_descs_give_what_the_definition_says(cuda_device: dml.Device, mode: str) -> None:
    for seed in range(10):
        for gradient in (False, True)[: 1 + (mode != "ANTIALIASED")]:
            rng = np.random.default_rng(seed)
            desc = random_desc(rng, mode, str(rng.choice(["float32", "float16"])), gradient=gradient)
            assert dml.check(desc) == [], desc
            check_layouts(desc, rng, sums=True, device=cuda_device)


@pytest.mark.parametrize("mode", MODES)
def test_whole_numbers_are_those_of_numpy_bit_by_bit(cuda_device: dml.Device, mode: str) -> None:
    """Also those that are half way but for the rounding of weights."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        data_type = str(rng.choice(["int8", "uint8"]))
        desc = random_desc(rng, mode, data_type)
        limits = np.iinfo(data_type)
        x = rng.integers(limits.min, limits.max, desc.input_tensor.sizes, data_type, endpoint=True)
        found = run_in_layouts(desc, {"input_tensor": x}, cuda_device)["output_tensor"]
        same(found, results_of(desc, {"input_tensor": x}, "numpy")["output_tensor"], str(desc))


ODD = (0.0, -0.0, -2.0, math.inf, -math.inf, math.nan, 1e-40, 1e-6, 1e30)


def test_gradients_of_scales_that_no_image_has(cuda_device: dml.Device) -> None:
    rng = np.random.default_rng(1)
    g = rng.normal(size=(2, 7)).astype(np.float32)
    for scale in ODD:
        for mode in MODES[:2]:
            for offset in (0.5, 3.0, math.nan, -math.inf):
                desc = dml.ResampleGrad1Desc(
                    input_gradient_tensor=tensor(g),
                    output_gradient_tensor=packed("float32", 2, 5),
                    scales=[1.0, scale],
                    input_pixel_offsets=[0.5, offset],
                    output_pixel_offsets=[-0.5, 2.0],
                    interpolation_mode=mode,
                    rounding_direction="DECREASING",
                )
                arrays = {"input_gradient_tensor": g}
                found = compute(desc, device=cuda_device, **arrays)
                expected = by_definition(desc, arrays)["output_gradient_tensor"]
                assert_close(found, expected, np.float32, terms=7, what=f"{scale} {mode} {offset}")


def line(x: np.ndarray[Any, Any], size: int, scale: float, mode: str) -> Any:
    return dml.ResampleDesc(
        input_tensor=tensor(x),
        output_tensor=dml.TensorDesc(data_type=x.dtype.name.upper(), sizes=[size]),
        scales=[scale],
        interpolation_mode=mode,
    )


def test_nearest_elements_are_moved_as_they_are(cuda_device: dml.Device) -> None:
    """NaN with their bits, and zeros with their signs."""
    for bits, other in ((np.array([0x7FC12345, 0x80000000], np.uint32), np.float32), (np.array([0xFE55, 0x8000], np.uint16), np.float16)):
        x = bits.view(other)
        found = compute(line(x, 4, 2.0, "NEAREST_NEIGHBOR"), device=cuda_device, input_tensor=x)
        np.testing.assert_array_equal(found.view(bits.dtype), bits.repeat(2))


def test_long_edges_and_filters_stay_accurate(cuda_device: dml.Device) -> None:
    """An edge that 200,000 elements repeat, backwards; and a filter over as many."""
    count = 200_000
    g = np.full(count, 1.1, np.float32)  # all roundings go the same way
    gradient = dml.ResampleGradDesc(
        input_gradient_tensor=tensor(g),
        output_gradient_tensor=packed("float32", 2),
        scales=[1.0],
        input_pixel_offsets=[0.5],
        output_pixel_offsets=[-0.5],
        interpolation_mode="LINEAR",
    )
    found = compute(gradient, device=cuda_device, input_gradient_tensor=g)
    assert_close(found, [1.1, (count - 1) * float(np.float32(1.1))], np.float32, terms=1)
    x = np.linspace(1, 2, count, dtype=np.float32)
    mean = dml.Resample3Desc(
        input_tensor=tensor(x),
        output_tensor=packed("float32", 2),
        scales=[2 / count],
        input_pixel_offsets=[0.5],
        output_pixel_offsets=[-0.5],
        interpolation_mode="LINEAR",
        antialiased=True,
    )
    found = compute(mean, device=cuda_device, input_tensor=x)
    assert_close(found, by_definition(mean, {"input_tensor": x})["output_tensor"], np.float32, terms=1)


def test_plans_name_their_kernels_and_scratch(cuda_device: dml.Device) -> None:
    """Tables only of what changes: 40 bytes for an element of the output, 8 for one of a gradient's."""
    x = packed("float16", 2, 3, 100, 200)
    up = dml.Upsample2DDesc(input_tensor=x, scale_size={"width": 2, "height": 1}, interpolation_mode="LINEAR").with_outputs()
    op = dml.compile(up, cuda_device)
    assert op.plan.splitlines()[1:] == [
        "tabulate<Linear>: 403 elements, 2 blocks",
        "interpolate<machine::half>: 240000 elements, 938 blocks",
    ]
    assert op.explain_plan().bytes_moved == {"tensors": 2 * (120_000 + 240_000), "scratch": 2 * (-(-403 * 40 // 256) * 256)}
    gradient = dml.ResampleGradDesc(
        input_gradient_tensor=packed("float32", 400),
        output_gradient_tensor=packed("float32", 200),
        scales=[2.0],
        input_pixel_offsets=[0.5],
        output_pixel_offsets=[-0.5],
        interpolation_mode="NEAREST_NEIGHBOR",
    )
    kernels = [text.partition(":")[0] for text in dml.compile(gradient, cuda_device).plan.splitlines()[1:]]
    assert kernels == ["tabulate<Nearest>", "invert<Range>", "gradient<float>"]


SANITIZED = {
    "pick": random_desc(np.random.default_rng(3), "NEAREST_NEIGHBOR", "float16"),
    "interpolate": random_desc(np.random.default_rng(3), "ANTIALIASED", "float32"),
    "interpolate bytes": random_desc(np.random.default_rng(6), "LINEAR", "int8"),
    "gradient": random_desc(np.random.default_rng(3), "LINEAR", "float32", gradient=True),
    "scale values": dml.ValueScale2DDesc(input_tensor=packed("float32", 2, 3, 2, 2), scale=2.0, bias=[1.0, 2.0, 3.0]).with_outputs(),
}


@pytest.mark.parametrize("name", SANITIZED)
def test_the_sanitizers_are_silent(name: str) -> None:
    require("g++")
    runtime = EmulatedRuntime(sanitize="address,undefined")
    check_layouts(SANITIZED[name], np.random.default_rng(5), sums="bytes" not in name, device=CudaDevice(runtime))
    runtime.check_guards()
