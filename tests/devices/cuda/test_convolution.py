"""Convolution's CUDA plans: random descs against the definition, long sums, tensors beyond 2^31 elements, plans' texts, sanitizers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.convolution.geometry import Geometry
from dmlpy.devices.cuda.device import CudaDevice
from tests.support.cuda.cpu_seam import CpuSeam, NullSeam
from tests.support.cuda.machines import H200
from tests.support.layout_runs import Array, check_layouts, compute, packed, random_values, results_of, run, same
from tests.support.tolerance import assert_close
from tests.support.tools import require

KINDS = (dml.ConvolutionDesc, dml.ConvolutionIntegerDesc, dml.QuantizedLinearConvolutionDesc)


def random_desc(kind: Any, rng: np.random.Generator) -> Any:
    """A valid desc of random sizes, types, groups and attributes; groups have few channels or many."""
    quantized = kind is not dml.ConvolutionDesc
    spatial = 2 if quantized else int(rng.integers(1, 4))
    backward = not quantized and bool(rng.integers(0, 2))
    window, strides = ([int(n) for n in rng.integers(1, 4, spatial)] for _ in range(2))
    dilations = [int(n) for n in rng.integers(0, 4, spatial)]
    start, end = ([int(n) for n in rng.integers(0, 3, spatial)] for _ in range(2))
    reaches = [(length - 1) * dilation + 1 for length, dilation in zip(window, dilations, strict=True)]
    sizes = [max(1, reach - first - last) + int(rng.integers(0, 5)) for reach, first, last in zip(reaches, start, end, strict=True)]
    if backward:
        start, end = [0] * spatial, [int(rng.integers(0, min(reach, 3))) for reach in reaches]
    groups, inputs, outputs = int(rng.integers(1, 4)), int(rng.integers(1, 20)), int(rng.choice([1, 3, 8, 30, 66]))
    filters = (groups * inputs, outputs) if backward else (groups * outputs, inputs)
    x, w = (str(rng.choice(["uint8", "int8"] if quantized else ["float32", "float16"])) for _ in range(2))
    members: dict[str, Any] = {
        "input_tensor": packed(x, int(rng.integers(1, 4)), groups * inputs, *sizes),
        "filter_tensor": packed(w if quantized else x, *filters, *window),
        **{"strides": strides, "dilations": dilations, "start_padding": start, "end_padding": end, "group_count": groups},
    }
    channels = (1, groups * outputs, *[1] * spatial)
    if not quantized:
        members |= {"direction": "BACKWARD" if backward else "FORWARD", "mode": str(rng.choice(["CONVOLUTION", "CROSS_CORRELATION"]))}
        members |= {"output_padding": [int(rng.integers(0, stride)) if backward else 0 for stride in strides]}
        return kind(**members, bias_tensor=packed(x, *channels)).with_outputs()
    members |= {"dilations": [max(1, dilation) for dilation in dilations], "start_padding": start, "end_padding": end}
    members["input_tensor"] = packed(x, *members["input_tensor"].sizes[:2], *(size + 4 for size in sizes))
    members["input_zero_point_tensor"] = packed(x, 1, 1, 1, 1)
    members["filter_zero_point_tensor"] = packed(w, *channels)
    sums = dml.ConvolutionIntegerDesc(**members).with_outputs()
    if kind is dml.ConvolutionIntegerDesc:
        return sums
    assert sums.output_tensor is not None
    scales = {name: packed("float32", 1, 1, 1, 1) for name in ("input_scale_tensor", "output_scale_tensor")}
    scales["filter_scale_tensor"] = packed("float32", *channels)
    y = str(rng.choice(["uint8", "int8"]))
    output = {"output_zero_point_tensor": packed(y, 1, 1, 1, 1), "output_tensor": packed(y, *sums.output_tensor.sizes)}
    return kind(**members, **scales, **output, bias_tensor=packed("int32", *channels))


def run_fuzz(device: dml.Device, kind: Any, seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        desc = random_desc(kind, rng)
        assert dml.check(desc) == [], desc
        if kind is dml.ConvolutionDesc:
            check_layouts(desc, rng, sums=True, device=device)
            continue
        # Exact, so every bit is that of NumPy: scales of any kind, infinities and NaN included.
        arrays = {place: random_values(rng, tensor) for place, tensor in desc.tensors().items() if place != "output_tensor"}
        if "output_scale_tensor" in arrays:
            arrays["input_scale_tensor"], arrays["output_scale_tensor"] = (np.full((1, 1, 1, 1), scale, np.float32) for scale in (0.7, 90))
        same(run(desc, arrays, device)["output_tensor"], run(desc, arrays)["output_tensor"], f"{seed}")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short_name())
def test_random_descs_give_what_the_definition_says(cuda_device: dml.Device, kind: Any) -> None:
    run_fuzz(cuda_device, kind, range(8))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short_name())
def test_many_random_descs_give_what_the_definition_says(cuda_device: dml.Device, kind: Any) -> None:
    run_fuzz(cuda_device, kind, range(8, 158))


def one_dimensional(dtype: str, sizes: tuple[int, ...], filters: tuple[int, ...], **members: Any) -> dml.ConvolutionDesc:
    common = {"strides": (1,), "dilations": (1,), "start_padding": (0,), "end_padding": (0,), "output_padding": (0,)}
    return dml.ConvolutionDesc(input_tensor=packed(dtype, *sizes), filter_tensor=packed(dtype, *filters), **common | members).with_outputs()


@pytest.mark.parametrize("channels", [1, 8], ids=["each element", "tiles"])
def test_long_sums_stay_accurate(cuda_device: dml.Device, channels: int) -> None:
    """All roundings go the same way: one float that adds them up is off by more."""
    count = 50_000
    x, w = np.full((1, 1, count), 1.1, np.float32), np.full((channels, 1, count), 1.3, np.float32)
    found = compute(one_dimensional("float32", x.shape, w.shape), device=cuda_device, input_tensor=x, filter_tensor=w)
    exact = np.sum(x.astype(np.float64) * w[:1])
    assert_close(found, np.full((1, channels, 1), exact), np.float32, terms=1)


@pytest.mark.parametrize("channels", [2, 9], ids=["each element", "tiles"])
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
def test_infinities_and_nan_go_where_numpy_has_them(cuda_device: dml.Device, channels: int, direction: str) -> None:
    """Backward, a tap that meets no element adds nothing; forward, padding is 0 and an infinite weight makes NaN of it."""
    rng = np.random.default_rng(7)
    filters = (channels, 3, 3) if direction == "FORWARD" else (3, channels, 3)
    desc = one_dimensional("float32", (2, 3, 9), filters, strides=(2,), start_padding=(1,), end_padding=(1,), direction=direction)
    arrays: dict[str, Array] = {"input_tensor": rng.normal(size=(2, 3, 9)), "filter_tensor": rng.normal(size=filters)}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    for value in (np.inf, -np.inf, np.nan):
        arrays["filter_tensor"][1, 1, 0] = value
        arrays["input_tensor"][0, 2, 4] = -value
        found, wanted = (results_of(desc, arrays, device)["output_tensor"] for device in (cuda_device, "numpy"))
        assert not np.isfinite(wanted).all()
        assert_close(found, wanted, np.float32, terms=9)


def test_elements_of_a_quantized_convolution_may_have_sums_of_more_than_32_bits(cuda_device: dml.Device) -> None:
    """Wrapped around they would be negative; those of CONVOLUTION_INTEGER do wrap around."""
    count = 40_000
    x, w = np.full((1, 1, 1, count), 255, np.uint8), np.full((8, 1, 1, count), 255, np.uint8)
    given = {"input_tensor": packed("uint8", *x.shape), "filter_tensor": packed("uint8", *w.shape)}
    own = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    sums = dml.ConvolutionIntegerDesc(**given, **own).with_outputs()
    found = compute(sums, device=cuda_device, input_tensor=x, filter_tensor=w)
    assert (found == count * 255 * 255 - (1 << 32)).all()
    scales = {name: packed("float32", 1, 1, 1, 1) for name in ("input_scale_tensor", "filter_scale_tensor", "output_scale_tensor")}
    linear = dml.QuantizedLinearConvolutionDesc(**given, **own, **scales, output_tensor=packed("uint8", 1, 8, 1, 1))
    values = {"input_scale_tensor": 1.0, "filter_scale_tensor": 1.0, "output_scale_tensor": 2.0**25}
    arrays = {name: np.full((1, 1, 1, 1), value, np.float32) for name, value in values.items()}
    found = compute(linear, device=cuda_device, input_tensor=x, filter_tensor=w, **arrays)
    assert (found == round(count * 255 * 255 / 2**25)).all()


def test_more_than_2_to_the_32_pixels_are_counted() -> None:
    """Nothing of what a launch is given is cut off: 2^33 pixels of 16 channels, of which each lies where 64 bits say."""
    desc = one_dimensional("float16", (8, 16, 1 << 30), (16, 16, 1))
    geometry = Geometry(desc)
    fields = geometry.tiles_fields()
    assert (fields["pixels"], fields["tiles"]) == (1 << 33, 1 << 27)
    [outer, inner] = [fields["axes"]["strides"][0][axis] for axis in range(2)]
    assert (int(outer), int(inner)) == (16 << 30, 1)
    assert geometry.each_fields()["count"] == 1 << 37


def test_plans_name_their_kernel_and_tell_their_cost() -> None:
    device = CudaDevice(NullSeam(H200))
    tiles = dml.compile(one_dimensional("float16", (2, 32, 100), (70, 32, 3), fused_activation=dml.ActivationReluDesc()), device)
    assert "convolve_tiles<Floats<machine::half, Epilogue<Relu>>, false>: 8 tiles" in tiles.plan
    assert "sums of 96 terms" in tiles.plan
    each = dml.compile(one_dimensional("float32", (2, 32, 100), (32, 1, 3), group_count=32), device)
    assert "convolve_each<Floats<float, Epilogue<Identity>>, false>: 6272 elements, sums of 3 terms" in each.plan
    report = each.explain_plan()
    moved = 4 * (2 * 32 * 100 + 32 * 3 + 2 * 32 * 98)
    assert report.bytes_moved == {"tensors": moved}
    assert report.floor_us is not None
    assert report.floor_us == pytest.approx(moved / 4.3e6)
    assert report.estimate_us is not None
    assert report.estimate_us > report.floor_us


SANITIZED = [
    one_dimensional("float16", (2, 4, 9), (4, 1, 3), group_count=4, start_padding=(2,), end_padding=(2,)),
    one_dimensional("float32", (2, 5, 40), (9, 5, 3), dilations=(2,), start_padding=(2,), end_padding=(1,)),
    one_dimensional("float32", (2, 5, 40), (5, 9, 3), strides=(2,), direction="BACKWARD"),
    one_dimensional("float16", (2, 6, 9), (6, 1, 3), strides=(3,), dilations=(2,), group_count=3, direction="BACKWARD"),
]


@pytest.mark.parametrize("desc", SANITIZED, ids=["each", "tiles", "tiles backward", "each backward"])
def test_the_sanitizers_are_silent(desc: dml.OperatorDesc) -> None:
    require("g++")
    seam = CpuSeam(sanitize="address,undefined")
    check_layouts(desc, np.random.default_rng(5), sums=True, device=CudaDevice(seam))
    seam.check_guards()
