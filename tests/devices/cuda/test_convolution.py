"""Convolution's CUDA plans: random descs against the definition, long sums, tensors beyond 2^31 elements, plans' texts, sanitizers."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.convolution import plan
from dmlpy.devices.cuda.convolution.geometry import Geometry
from dmlpy.devices.cuda.convolution.tiles import MOST_TERMS_OF_PLAIN_TOTALS
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.gpu_models import H200
from tests.support.operators import layout_runs
from tests.support.operators.layout_runs import Array, by_definition, check_layouts, compute, packed, random_values, results_of, run, same
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


@pytest.mark.parametrize(
    ("channels", "count", "most", "sums"),
    [(1, 20_000, 1, "each"), (8, 20_000, 1, "WholeFloats"), (8, MOST_TERMS_OF_PLAIN_TOTALS, 64, "ManyFloats")],
    ids=["each element", "tiles", "large tiles"],
)
def test_long_sums_stay_accurate(
    cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch, channels: int, count: int, most: int, sums: str
) -> None:
    """All roundings go the same way: one float that adds them up is off by more."""
    monkeypatch.setattr(plan, "ranked_tiles", lambda tiles, *_: [tile for tile in tiles if tile.sums == sums])
    x, w = np.full((1, count, 1), 1.1, np.float32), np.full((channels, count, 1), 1.3, np.float32)
    found = compute(one_dimensional("float32", x.shape, w.shape), device=cuda_device, input_tensor=x, filter_tensor=w)
    exact = np.sum(x.astype(np.float64) * w[:1])
    assert_close(found, np.full((1, channels, 1), exact), np.float32, terms=most)


@pytest.mark.parametrize("channels", [2, 9], ids=["each element", "tiles"])
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_infinities_and_nan_go_where_numpy_has_them(cuda_device: dml.Device, channels: int, direction: str, dtype: str) -> None:
    """Backward, a tap that meets no element adds nothing; forward, padding is 0 and an infinite weight makes NaN of it."""
    rng = np.random.default_rng(7)
    filters = (channels, 3, 3) if direction == "FORWARD" else (3, channels, 3)
    desc = one_dimensional(dtype, (2, 3, 9), filters, strides=(2,), start_padding=(1,), end_padding=(1,), direction=direction)
    arrays: dict[str, Array] = {"input_tensor": rng.normal(size=(2, 3, 9)), "filter_tensor": rng.normal(size=filters)}
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    for value in (np.inf, -np.inf, np.nan):
        arrays["filter_tensor"][1, 1, 0] = value
        arrays["input_tensor"][0, 2, 4] = -value
        found, wanted = (results_of(desc, arrays, device)["output_tensor"] for device in (cuda_device, "numpy"))
        assert not np.isfinite(wanted).all()
        assert_close(found, wanted, dtype, terms=9)


def test_elements_of_a_quantized_convolution_may_have_sums_of_more_than_32_bits(cuda_device: dml.Device) -> None:
    """Wrapped around they would be negative; those of CONVOLUTION_INTEGER do wrap around."""
    count = 40_000
    x, w = np.full((1, count, 1, 1), 255, np.uint8), np.full((8, count, 1, 1), 255, np.uint8)
    given = {"input_tensor": packed("uint8", *x.shape), "filter_tensor": packed("uint8", *w.shape)}
    own = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    sums = dml.ConvolutionIntegerDesc(**given, **own).with_outputs()
    found = compute(sums, device=cuda_device, input_tensor=x, filter_tensor=w)
    assert (found == count * 255 * 255 - (1 << 32)).all()
    scales = {name: packed("float32", 1, 1, 1, 1) for name in ("input_scale_tensor", "filter_scale_tensor", "output_scale_tensor")}
    linear = dml.QuantizedLinearConvolutionDesc(**given, **own, **scales, output_tensor=packed("uint8", 1, 8, 1, 1))
    plans = [str(dml.compile(desc, device=CudaDevice(DryRunRuntime())).plan) for desc in (sums, linear)]
    assert ["convolve_tiles<" in plan for plan in plans] == [True, False]
    values = {"input_scale_tensor": 1.0, "filter_scale_tensor": 1.0, "output_scale_tensor": 2.0**25}
    arrays = {name: np.full((1, 1, 1, 1), value, np.float32) for name, value in values.items()}
    found = compute(linear, device=cuda_device, input_tensor=x, filter_tensor=w, **arrays)
    assert (found == round(count * 255 * 255 / 2**25)).all()


def channels_last(tensor: dml.TensorDesc) -> dml.TensorDesc:
    """The same sizes of two spatial dimensions, with the channels side by side."""
    _, channels, height, width = tensor.sizes
    return tensor.replace(strides=(channels * height * width, 1, channels * width, channels))


def image_desc(kind: str, channels: int = 32, groups: int = 2, outputs: int = 70, **members: Any) -> Any:
    """A convolution of two spatial dimensions whose channels lie last, and so many output channels of each group."""
    backward, integers = kind.startswith("backward"), kind == "int8"
    dtype = kind.removeprefix("backward ")
    filters = (groups * channels, outputs) if backward else (groups * outputs, channels)
    own = {"strides": (2, 1), "dilations": (1, 2), "start_padding": (1, 2), "end_padding": (1, 0), "group_count": groups}
    x, w = packed(dtype, 2, groups * channels, 5, 6), packed(dtype, *filters, 3, 2)
    if integers:
        zero_points = {"input_zero_point_tensor": packed(dtype, 1), "filter_zero_point_tensor": packed(dtype, groups * outputs)}
        desc: Any = dml.ConvolutionIntegerDesc(input_tensor=x, filter_tensor=w, **own, **zero_points, **members).with_outputs()
    else:
        own |= {"output_padding": (0, 0), "direction": "BACKWARD" if backward else "FORWARD"}
        desc = dml.ConvolutionDesc(input_tensor=x, filter_tensor=w, **own, **members).with_outputs()
    return desc.replace(input_tensor=channels_last(x), output_tensor=channels_last(desc.output_tensor))


WIDE = "16 bytes of channels copied at a time"


def arrays_of(desc: dml.OperatorDesc, rng: np.random.Generator) -> dict[str, Array]:
    return {slot.place: random_values(rng, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None}


@pytest.mark.parametrize("kind", ["float32", "float16", "backward float16", "int8"])
def test_channels_are_copied_16_bytes_at_a_time_from_any_layout(
    cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Copies have channels last, and zeros up to whole multiples of 16 bytes. Sums have one order: results are equal bit for bit."""
    monkeypatch.setattr(plan, "copies_us", lambda *_: 0.0)
    rng, last = np.random.default_rng(3), image_desc(kind)
    first = last.replace(input_tensor=packed(kind.split()[-1], *last.input_tensor.sizes))
    odd = image_desc(kind, channels=30)
    plans = [str(dml.compile(desc, CudaDevice(DryRunRuntime(H200))).plan) for desc in (last, first, odd)]
    assert all(WIDE in plan for plan in plans)
    assert [plan.count("x packed") for plan in plans] == [0, 1, 2]
    for desc in (last, odd):
        arrays = arrays_of(desc, rng)
        found = run(desc, arrays, cuda_device)["output_tensor"]
        wanted = run(desc, arrays)["output_tensor"]
        if kind == "int8":
            same(found, wanted, kind)
        else:
            assert_close(found, wanted, found.dtype, terms=200)
        if desc is last:
            same(run(first, arrays, cuda_device)["output_tensor"], found, "channels first")


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
def test_tensors_at_any_address_are_copied_element_by_element(cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The plan takes 16 bytes at a time where it can: at addresses that do not allow it, results are the same, bit for bit."""
    last = image_desc(kind, 32, 1, 9)
    desc = last.replace(filter_tensor=channels_last(last.filter_tensor))
    operator = dml.compile(desc, cuda_device)
    assert WIDE in operator.plan
    assert operator.binding_properties.temporary_resource_size == 0
    arrays = arrays_of(desc, np.random.default_rng(6))
    wanted = run(desc, arrays, cuda_device)["output_tensor"]
    monkeypatch.setattr(layout_runs, "_MARGIN", 17)
    same(run(desc, arrays, cuda_device)["output_tensor"], wanted, kind)


@pytest.mark.parametrize("flags", ["NONE", "ALLOW_HALF_PRECISION_COMPUTATION"])
@pytest.mark.parametrize("tile", ["small", "large"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_tile_gives_what_the_definition_says(
    cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch, dtype: str, tile: str, flags: str
) -> None:
    """More output channels and pixels than a tile has; TF32 only where the flag allows it."""
    monkeypatch.setattr(plan, "ranked_tiles", lambda tiles, *_: [tiles[0 if tile == "small" else -1]])
    rng = np.random.default_rng(8)
    desc = dml.ConvolutionDesc(
        input_tensor=packed(dtype, 2, 20, 9, 10),
        filter_tensor=packed(dtype, 140, 20, 3, 2),
        bias_tensor=packed(dtype, 1, 140, 1, 1),
        **{"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 0), "output_padding": (0, 0)},
        fused_activation=dml.ActivationReluDesc(),
    ).with_outputs()
    operator, tf32 = dml.compile(desc, cuda_device, flags=flags), dtype == "float32" and flags != "NONE"
    sums = {"float16": ("Halves", "ManyHalves"), "float32": ("Tf32", "ManyTf32") if tf32 else ("WholeFloats", "ManyFloats")}[dtype]
    assert f", {sums[tile == 'large']}>: " in operator.plan
    assert ("TF32" in operator.plan) == tf32
    arrays = arrays_of(desc, rng)
    found = cuda_device.to_host(operator(**{place: cuda_device.from_host(array) for place, array in arrays.items()}).output_tensor)
    wanted = by_definition(desc, arrays)["output_tensor"]
    assert_close(found.astype(np.float16) if tf32 else found, wanted, "float16" if tf32 else dtype, terms=120)
    if tf32:
        assert not np.array_equal(found, compute(desc, device=cuda_device, **arrays))


@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 2), (4, 2), (2, 3)])
def test_backward_multiplies_only_what_taps_meet(cuda_device: dml.Device, stride: int, dilation: int, direction: str) -> None:
    """Positions a stride apart have the same taps: a stride of 2 halves the terms of each sum; some positions have none."""
    sizes = (9, 5, 4) if direction == "FORWARD" else (5, 9, 4)
    desc = one_dimensional(
        "float32", (2, 5, 30), sizes, strides=(stride,), dilations=(dilation,), start_padding=(1,), end_padding=(2,), direction=direction
    )
    backward = direction == "BACKWARD"
    geometry = Geometry(desc)
    step = stride // math.gcd(stride, dilation) if backward else 1
    assert (geometry.phases, geometry.phase_taps) == (stride if backward else 1, -(-4 // step))
    arrays = arrays_of(desc, np.random.default_rng(9))
    found = run(desc, arrays, cuda_device)["output_tensor"]
    assert_close(found, by_definition(desc, arrays)["output_tensor"], np.float32, terms=20)


@pytest.mark.parametrize("mode", ["CROSS_CORRELATION", "CONVOLUTION"])
@pytest.mark.parametrize("layout", ["taps last", "channels last", "outputs last"])
def test_filters_are_copied_where_channels_do_not_lie_side_by_side(cuda_device: dml.Device, layout: str, mode: str) -> None:
    desc = image_desc("float16", 8, 1, 24, mode=mode)
    order = {"taps last": (0, 1, 2, 3), "channels last": (0, 2, 3, 1), "outputs last": (2, 3, 1, 0)}[layout]
    sizes = desc.filter_tensor.sizes
    strides = [0] * 4
    for at, axis in enumerate(order):
        strides[axis] = int(np.prod([sizes[inner] for inner in order[at + 1 :]]))
    desc = desc.replace(filter_tensor=desc.filter_tensor.replace(strides=strides))
    plan = dml.compile(desc, cuda_device)
    copies = layout != "channels last"
    assert ("filter packed" in str(plan.plan)) == copies
    assert (plan.binding_properties.temporary_resource_size > 0) == copies
    arrays = arrays_of(desc, np.random.default_rng(3))
    found, wanted = (run(desc, arrays, device)["output_tensor"] for device in (cuda_device, dml.device("numpy")))
    assert_close(found, wanted, found.dtype, terms=48)


@pytest.mark.parametrize("kind", ["float32", "backward float16", "int8"])
def test_a_prepared_convolution_packs_its_filter_once(cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """What it gives is that of the filter as it was then; scratch is left for copies of x alone."""
    monkeypatch.setattr(plan, "copies_us", lambda *_: 0.0)
    last = image_desc(kind)
    desc = last.replace(**{place: getattr(last, place).replace(strides=None) for place in ("input_tensor", "output_tensor")})
    arrays = arrays_of(desc, np.random.default_rng(4))
    on_device = {place: cuda_device.from_host(array) for place, array in arrays.items()}
    operator = dml.compile(desc, cuda_device)
    wanted = cuda_device.to_host(operator(**on_device).output_tensor)
    assert operator.prepared_inputs == ("filter_tensor",)
    prepared = operator.prepare(filter_tensor=on_device.pop("filter_tensor"))
    whole, of_prepared = (made.binding_properties for made in (operator, prepared))
    assert whole.temporary_resource_size == of_prepared.temporary_resource_size + whole.persistent_resource_size
    assert of_prepared.temporary_resource_size >= desc.input_tensor.element_count * desc.input_tensor.data_type.numpy.itemsize
    same(cuda_device.to_host(prepared(**on_device).output_tensor), wanted, kind)


def test_more_than_2_to_the_32_pixels_are_counted() -> None:
    """No argument of a launch is truncated: 2^33 pixels of 16 channels, each at a 64-bit offset."""
    desc = one_dimensional("float16", (512, 16, 1 << 24), (16, 16, 1))
    geometry = Geometry(desc)
    assert geometry.fits_tiles
    fields = geometry.tiles_fields(64, 64, 2, geometry.in_place(), {"input": 0, "filter": 0, "output": 0})
    assert (fields["pixels"], fields["tiles"]) == (1 << 33, 1 << 27)
    [outer, inner] = [fields["axes"]["strides"][0][axis] for axis in range(2)]
    assert (int(outer), int(inner)) == (16 << 24, 1)
    assert geometry.each_fields()["count"] == 1 << 37


def test_plans_name_their_kernel_and_cost() -> None:
    device = CudaDevice(DryRunRuntime(H200))
    tiles = dml.compile(one_dimensional("float16", (2, 32, 100), (70, 32, 3), fused_activation=dml.ActivationReluDesc()), device)
    assert "convolve_tiles<Floats<machine::half, Epilogue<Relu>>, Halves>: 8 tiles" in tiles.plan
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


@pytest.mark.parametrize(
    ("dtype", "flags", "sizes", "filters", "last", "sums", "copies"),
    [
        ("float16", "NONE", (32, 256, 28, 28), (256, 256, 3, 3), False, "ManyHalves", ["x", "filter"]),
        ("float16", "NONE", (32, 256, 28, 28), (256, 256, 3, 3), True, "ManyHalves", []),
        ("float16", "NONE", (32, 1024, 28, 28), (256, 1024, 3, 3), True, "Halves", []),
        ("float16", "NONE", (1, 64, 56, 56), (64, 64, 3, 3), False, "Halves", ["x", "filter"]),
        ("float16", "NONE", (32, 3, 226, 226), (64, 3, 7, 7), False, "Halves", ["x", "x", "filter", "filter"]),
        ("float16", "NONE", (8, 16, 8, 8), (16, 16, 1, 1), False, "Halves", []),
        ("float32", "NONE", (32, 256, 28, 28), (256, 256, 3, 3), False, "ManyFloats", ["x", "filter"]),
        ("float32", "NONE", (32, 1024, 28, 28), (256, 1024, 3, 3), True, "WholeFloats", []),
        ("float32", "NONE", (64, 1, 28, 28), (32, 1, 5, 5), False, "WholeFloats", []),
        ("float32", "ALLOW_HALF_PRECISION_COMPUTATION", (32, 256, 28, 28), (256, 256, 3, 3), True, "ManyTf32", []),
        ("float32", "ALLOW_HALF_PRECISION_COMPUTATION", (1, 64, 56, 56), (64, 64, 3, 3), True, "Tf32", []),
    ],
)
def test_the_estimate_chooses_tiles_and_copies(
    dtype: str, flags: str, sizes: tuple[int, ...], filters: tuple[int, ...], last: bool, sums: str, copies: list[str]
) -> None:
    """Large tiles where there are many and sums need no totals; copies where they take less time than elements one by one."""
    x, w = packed(dtype, *sizes), packed(dtype, *filters)
    members = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1), "output_padding": (0, 0)}
    desc = dml.ConvolutionDesc(input_tensor=x, filter_tensor=w, **members).with_outputs()
    if last:
        desc = desc.replace(**{place: channels_last(tensor) for place, tensor in desc.tensors().items()})
    text = dml.compile(desc, CudaDevice(DryRunRuntime(H200)), flags=flags).plan
    assert f", {sums}>: " in text
    assert re.findall(r"^(\w+) packed by", text, re.MULTILINE) == copies
    assert ("(no effect here)" in text) == (flags != "NONE" and "Tf32" not in sums)


SANITIZED = [
    one_dimensional("float16", (2, 4, 9), (4, 1, 3), group_count=4, start_padding=(2,), end_padding=(2,)),
    one_dimensional("float32", (2, 5, 40), (9, 5, 3), dilations=(2,), start_padding=(2,), end_padding=(1,)),
    one_dimensional("float32", (2, 5, 40), (5, 9, 3), strides=(2,), direction="BACKWARD"),
    one_dimensional("float16", (2, 6, 9), (6, 1, 3), strides=(3,), dilations=(2,), group_count=3, direction="BACKWARD"),
]


@pytest.mark.parametrize(
    "desc",
    [pytest.param(desc, marks=[pytest.mark.slow] * (number < 2)) for number, desc in enumerate(SANITIZED)],
    ids=["each", "tiles", "tiles backward", "each backward"],
)
def test_the_sanitizers_are_silent(desc: dml.OperatorDesc) -> None:
    require("g++")
    runtime = EmulatedRuntime(sanitize="address,undefined")
    check_layouts(desc, np.random.default_rng(5), sums=True, device=CudaDevice(runtime))
    runtime.check_guards()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "float16", "backward float16", "int8"])
def test_the_thread_sanitizer_is_silent(kind: str) -> None:
    """Also where weights are infinite, whose sums are formed anew."""
    require("g++")
    desc, rng, runtime = image_desc(kind, 16, 1, 9), np.random.default_rng(5), EmulatedRuntime(sanitize="thread")
    arrays = {slot.place: random_values(rng, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None}
    if kind != "int8":
        arrays["filter_tensor"][0, 0, 0, 0] = np.inf
    run(desc, arrays, CudaDevice(runtime))
    runtime.check_guards()
