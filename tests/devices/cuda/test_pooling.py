"""Pooling's CUDA plans: random descs against the NumPy device, long sums, shared indices, what plans describe, sanitizers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.plans import Target, plan_of
from tests.support.cuda.plan_kernels import H100, RecordingLibrary
from tests.support.operators.layout_runs import check_layouts, compute, packed, results_of, run_in_layouts, same
from tests.support.tolerance import assert_close
from tests.support.tools import require

Array = np.ndarray[Any, Any]


def windows(rng: np.random.Generator, spatial: int, dilated: bool) -> tuple[dict[str, Any], list[int], list[int]]:
    """Members of random windows, sizes of the tensor that they slide over, and their positions, rounded down or up."""
    window, strides, dilations = ([int(n) for n in rng.integers(1, 4, spatial)] for _ in range(3))
    start, end = ([int(n) for n in rng.integers(0, 3, spatial)] for _ in range(2))
    dilations = dilations if dilated else [1] * spatial
    reaches = [(length - 1) * dilation + 1 for length, dilation in zip(window, dilations, strict=True)]
    sizes = [max(1, reach - first - last) + int(rng.integers(0, 6)) for reach, first, last in zip(reaches, start, end, strict=True)]
    rooms = [size + first + last - reach for size, first, last, reach in zip(sizes, start, end, reaches, strict=True)]
    up = bool(rng.integers(0, 2))
    positions = [(-(-room // stride) if up else room // stride) + 1 for room, stride in zip(rooms, strides, strict=True)]
    members = {"window_size": window, "strides": strides, "start_padding": start, "end_padding": end}
    return members | ({"dilations": dilations} if dilated else {}), sizes, positions


KINDS = (
    dml.AveragePooling1Desc,
    dml.AveragePoolingGradDesc,
    dml.LPPooling1Desc,
    dml.MaxPooling2Desc,
    dml.MaxPoolingGradDesc,
    dml.QuantizedLinearAveragePoolingDesc,
)


def random_desc(kind: Any, rng: np.random.Generator) -> Any:
    """A valid desc of random windows, types and sizes."""
    members, spatial, positions = windows(rng, int(rng.integers(2, 4)), kind is not dml.AveragePoolingGradDesc)
    images = [int(n) for n in rng.integers(1, 4, 2)]
    dtype = str(rng.choice(["float32", "float16"]))
    if kind is dml.MaxPooling2Desc:
        dtype = str(rng.choice(["float32", "float16", "int8", "uint16", "int32", "uint64", "int64"]))
    slid, positioned = packed(dtype, *images, *spatial), packed(dtype, *images, *positions)
    if "include_padding" in kind.model_fields:
        members["include_padding"] = True  # so that no window is empty: those are tested elsewhere
    if kind is dml.AveragePoolingGradDesc:
        return kind(input_gradient_tensor=positioned, output_gradient_tensor=slid, **members)
    if kind is dml.MaxPoolingGradDesc:
        return kind(input_tensor=slid, input_gradient_tensor=positioned, output_gradient_tensor=slid, **members)
    if kind is dml.QuantizedLinearAveragePoolingDesc:
        x, y = (str(name) for name in rng.choice(["int8", "uint8"], 2))
        ones = [1] * len(spatial)
        parameters = {"input_scale_tensor": packed("float32", 1, images[1], *ones), "input_zero_point_tensor": packed(x, 1, 1, *ones)}
        parameters |= {"output_scale_tensor": packed("float32", 1, 1, *ones), "output_zero_point_tensor": packed(y, images[1])}
        return kind(input_tensor=packed(x, *slid.sizes), output_tensor=packed(y, *positioned.sizes), **parameters, **members)
    if kind is dml.MaxPooling2Desc and rng.integers(0, 3):
        members["output_indices_tensor"] = packed(str(rng.choice(["uint32", "uint64"])), *positioned.sizes)
    if kind is dml.LPPooling1Desc:
        members["p"] = int(rng.integers(1, 5))
    return kind(input_tensor=slid, output_tensor=positioned, **members)


def run_fuzz(device: dml.Device, kind: Any, seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        desc = random_desc(kind, rng)
        assert dml.check(desc) == [], desc
        whole = kind in (dml.MaxPooling2Desc, dml.QuantizedLinearAveragePoolingDesc)
        check_layouts(desc, rng, sums=not whole, device=device)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short_name())
def test_random_descs_give_what_the_definition_says(cuda_device: dml.Device, kind: Any) -> None:
    run_fuzz(cuda_device, kind, range(8))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short_name())
def test_many_random_descs_give_what_the_definition_says(cuda_device: dml.Device, kind: Any) -> None:
    run_fuzz(cuda_device, kind, range(8, 208))


def test_quantized_means_are_those_of_numpy_bit_by_bit(cuda_device: dml.Device) -> None:
    """Halves, zero and infinite scales, scales that are NaN, sums of a whole image."""
    rng = np.random.default_rng(3)
    scales = np.array([0.5, 0.125, 0.0, np.inf, np.nan, 1e-30, 3.7], np.float32).reshape(1, 7, 1, 1)
    for window, stride in (((2, 2), (1, 1)), ((8, 8), (8, 8)), ((1, 4), (3, 2))):
        positions = [(8 - length) // step + 1 for length, step in zip(window, stride, strict=True)]
        desc = dml.QuantizedLinearAveragePoolingDesc(
            input_tensor=packed("int8", 2, 7, 8, 8),
            input_scale_tensor=packed("float32", 1, 7, 1, 1),
            output_scale_tensor=packed("float32", 1, 7, 1, 1),
            output_zero_point_tensor=packed("uint8", 1, 1, 1, 1),
            output_tensor=packed("uint8", 2, 7, *positions),
            window_size=window,
            strides=stride,
            dilations=(1, 1),
            start_padding=(0, 0),
            end_padding=(0, 0),
            include_padding=False,
        )
        arrays = {
            "input_tensor": rng.integers(-128, 128, (2, 7, 8, 8), np.int8),
            "input_scale_tensor": scales,
            "output_scale_tensor": scales[:, ::-1].copy(),
            "output_zero_point_tensor": np.full((1, 1, 1, 1), 130, np.uint8),
        }
        found = run_in_layouts(desc, arrays, cuda_device)["output_tensor"]
        same(found, results_of(desc, arrays, "numpy")["output_tensor"], f"{window} {stride}")


def test_long_sums_stay_accurate(cuda_device: dml.Device) -> None:
    """Of a window of 200,000 elements, and of as many windows that have one element: one float that adds them up is off by more."""
    count = 200_000
    x = np.full((1, 1, 1, count), 1.1, np.float32)  # all roundings go the same way
    x[..., 0] = 1.3
    members = {"strides": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    mean = dml.AveragePoolingDesc(input_tensor=packed("float32", *x.shape), window_size=(1, count), include_padding=False, **members)
    found = compute(mean.with_outputs(), device=cuda_device, input_tensor=x)
    assert_close(found, np.mean(x, axis=3, keepdims=True, dtype=np.float64), np.float32, terms=1)
    norm = dml.LPPoolingDesc(input_tensor=packed("float32", *x.shape), window_size=(1, count), p=2, **members)
    found = compute(norm.with_outputs(), device=cuda_device, input_tensor=x)
    assert_close(found, np.linalg.norm(x.astype(np.float64), axis=3, keepdims=True), np.float32, terms=1)
    gradient = dml.AveragePoolingGradDesc(
        input_gradient_tensor=packed("float32", *x.shape),
        output_gradient_tensor=packed("float32", 1, 1, 1, 1),
        window_size=(1, count),
        strides=(1, 1),
        start_padding=(0, count - 1),
        end_padding=(0, count - 1),
        include_padding=False,
    )
    found = compute(gradient, device=cuda_device, input_gradient_tensor=x)
    assert_close(found, np.sum(x, axis=3, keepdims=True, dtype=np.float64), np.float32, terms=1)


def test_infinities_among_many_terms(cuda_device: dml.Device) -> None:
    """What is kept of roundings does not make them NaN; opposite ones do."""
    for values, wanted in (((np.inf, 1.0), np.inf), ((-np.inf, 1.0), -np.inf), ((np.inf, -np.inf), np.nan), ((np.nan, 1.0), np.nan)):
        x = np.ones((1, 1, 1, 100), np.float32)
        x[..., 3], x[..., 70] = values
        desc = dml.AveragePoolingDesc(
            input_tensor=packed("float32", *x.shape),
            window_size=(1, 100),
            strides=(1, 1),
            start_padding=(0, 0),
            end_padding=(0, 0),
            include_padding=False,
        ).with_outputs()
        np.testing.assert_array_equal(compute(desc, device=cuda_device, input_tensor=x), [[[[np.float32(wanted)]]]])


@pytest.mark.parametrize("seed", range(3))
def test_of_elements_that_share_an_index_the_last_one_counts(seed: int) -> None:
    """As on the NumPy device, in whatever order threads run."""
    require("g++")
    rng = np.random.default_rng(seed)
    for dtype, index in (("float32", "uint32"), ("int8", "uint64"), ("float16", "uint32"), ("int64", "uint64")):
        desc = dml.MaxUnpoolingDesc(
            input_tensor=packed(dtype, 2, 3, 8, 9), indices_tensor=packed(index, 2, 3, 8, 9), output_tensor=packed(dtype, 1, 2, 5, 5)
        )
        indices = rng.integers(0, 60, (2, 3, 8, 9)).astype(index)
        indices[rng.random(indices.shape) < 0.1] = np.iinfo(index).max
        arrays = {"input_tensor": rng.integers(-99, 99, (2, 3, 8, 9)).astype(dtype), "indices_tensor": indices}
        runtime = EmulatedRuntime(seed=seed)
        found = run_in_layouts(desc, arrays, CudaDevice(runtime))["output_tensor"]
        runtime.check_guards()
        same(found, results_of(desc, arrays, "numpy")["output_tensor"], f"{dtype} {index}")


def gradient_of_maxima() -> dml.OperatorDesc:
    members = {"window_size": (2, 2), "strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    tensors = {"input_tensor": packed("float32", 2, 3, 5, 6), "input_gradient_tensor": packed("float32", 2, 3, 4, 5)}
    return dml.MaxPoolingGradDesc(**tensors, **members).with_outputs()


def test_plans_name_their_kernels_and_cost(cuda_device: dml.Device) -> None:
    op = dml.compile(gradient_of_maxima(), cuda_device)
    kernels = ["pool_planes<float, IndexedOf, 2, 2, true, 3>", "largest_gradient<float, unsigned>"]
    assert [line.partition(":")[0] for line in op.plan.splitlines()[1:]] == kernels
    assert "72 times up to 2 elements" in op.plan
    assert "180 elements" in op.plan
    report = op.explain_plan()
    assert report.bytes_moved == {"tensors": 4 * (180 + 120 + 180), "scratch": 2 * 512}
    assert report.floor_us is not None
    assert report.estimate_us is not None
    assert report.estimate_us > report.floor_us > 0


@pytest.mark.parametrize(
    ("sizes", "window", "kernel"),
    [
        ((2, 3, 8, 9), (3, 3), "pool_planes<machine::half, MaximumOf, 3, 2, true, 3>"),
        ((2, 3, 8, 9), (2, 3), "pool_planes<machine::half, MaximumOf, 0, 1, true, 3>"),
        ((2, 3, 4, 8, 9), (3, 3, 3), "largest<machine::half>"),
        ((1, 1, 50_000, 50_000), (3, 3), "largest<machine::half>"),  # places need more than 32 bits
    ],
)
def test_kernels_of_two_dimensions_and_of_more(sizes: tuple[int, ...], window: tuple[int, ...], kernel: str) -> None:
    paddings = {name: [1] * len(window) for name in ("start_padding", "end_padding")}
    x, library = packed("float16", *sizes), RecordingLibrary(H100)
    desc = dml.MaxPoolingDesc(input_tensor=x, strides=[2] * len(window), window_size=window, **paddings).with_outputs()
    plan_of(desc, Target(library))
    assert [each.entry for each in library.kernels] == [kernel]


SANITIZED = [
    *(random_desc(kind, np.random.default_rng(1)) for kind in KINDS),
    dml.MaxUnpoolingDesc(
        input_tensor=packed("int8", 1, 2, 3, 3), indices_tensor=packed("uint32", 1, 2, 3, 3), output_tensor=packed("int8", 1, 1, 3, 4)
    ),
    dml.ROIPoolingDesc(
        input_tensor=packed("float32", 2, 2, 3, 4), roi_tensor=packed("float32", 1, 1, 3, 5), pooled_size={"width": 2, "height": 3}
    ).with_outputs(),
]


@pytest.mark.parametrize(
    "desc",
    [pytest.param(desc, marks=[pytest.mark.slow] * (number % 2), id=desc.short_name()) for number, desc in enumerate(SANITIZED)],
)
def test_the_sanitizers_are_silent(desc: dml.OperatorDesc) -> None:
    """Over random values: also indices and regions that lie anywhere."""
    require("g++")
    runtime = EmulatedRuntime(sanitize="address,undefined")
    check_layouts(
        desc, np.random.default_rng(5), sums=desc.short_name() not in ("MAX_UNPOOLING", "ROI_POOLING"), device=CudaDevice(runtime)
    )
    runtime.check_guards()
