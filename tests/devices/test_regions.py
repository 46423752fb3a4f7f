"""ROI_ALIGN and ROI_ALIGN1 on every device, against one sample after the other, and regions that make no sense."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.operators.layout_runs import Array, check_layouts, compute, packed, run_in_layouts, tensor
from tests.support.tolerance import assert_close
from tests.support.tools import require

REGIONS = [
    [0, 0, 9, 7],
    [1.5, 2.5, 3.5, 4.5],
    [-3, -3.25, 4, 5],
    [6, 4, 12.5, 9],
    [2, 2, 2, 2],
    [5.25, 4, 1.25, 0.5],
    [20, 20, 30, 30],
    [0, 6.5, 9, 6.5],
]
"""Inside, with corners outside, without a size, inverted, outside altogether."""


def read(image: Array, y: Fraction, x: Fraction, mode: str, outside: float) -> float:
    """A channel of an image at a place."""
    places = []
    for place, size in zip((y, x), image.shape, strict=True):
        if not -1 <= place <= size:
            return outside
        if mode == "NEAREST_NEIGHBOR":
            places.append([(min(max(math.ceil(place - Fraction(1, 2)), 0), size - 1), Fraction(1))])
            continue
        held = min(max(place, Fraction(0)), Fraction(size - 1))
        lower = math.floor(held)
        places.append([(lower, 1 - (held - lower)), (min(lower + 1, size - 1), held - lower)])
    return sum(float(down * across) * float(image[row, column]) for (row, down), (column, across) in itertools.product(*places))


def sample_places(start: Fraction, extent: Fraction, outputs: int, members: dict[str, Any]) -> list[list[Fraction]]:
    """The coordinates of the samples of each output element along an axis."""
    least, most = members["minimum_samples_per_output"], members["maximum_samples_per_output"]
    count = min(max(math.ceil(abs(extent) / outputs), least, 1), max(most, 1))
    total = outputs * count
    before, after = (Fraction(members.get(name, default)) for name, default in (("input_pixel_offset", 0.5), ("output_pixel_offset", -0.5)))
    if members.get("align_regions_to_corners"):
        places = [start + extent * (Fraction(number, total - 1) if total > 1 else Fraction(1, 2)) - before for number in range(total)]
    else:
        places = [start + extent * (number - after) / total - before for number in range(total)]
    return [places[first : first + count] for first in range(0, total, count)]


def expected(x: Array, regions: Array, batches: Array, sizes: tuple[int, int], members: dict[str, Any]) -> Array:
    """Every sample of every output element."""
    found = np.zeros((len(regions), x.shape[1], *sizes))
    scales = [Fraction(members["spatial_scale_x"]), Fraction(members["spatial_scale_y"])]
    for number, corners in enumerate(regions.astype(np.float64).tolist()):
        left, top, right, bottom = (Fraction(corner) * scales[at % 2] for at, corner in enumerate(corners))
        rows = sample_places(top, bottom - top, sizes[0], members)
        columns = sample_places(left, right - left, sizes[1], members)
        for channel, oy, ox in np.ndindex(x.shape[1], *sizes):
            values = [
                read(x[batches[number], channel], y, across, members["interpolation_mode"], members["out_of_bounds_input_value"])
                for y, across in itertools.product(rows[oy], columns[ox])
            ]
            found[number, channel, oy, ox] = max(values) if members["reduction_function"] == "MAX" else math.fsum(values) / len(values)
    return found


def aligned(kind: Any, x: Array, regions: Array, batches: Array, sizes: tuple[int, int], **members: Any) -> Any:
    tensors = {"input_tensor": tensor(x), "roi_tensor": tensor(regions), "batch_indices_tensor": tensor(batches)}
    output = packed(x.dtype, len(regions), x.shape[1], *sizes)
    return kind(**tensors, output_tensor=output, **members)


COMMON: dict[str, Any] = {"spatial_scale_x": 1.0, "spatial_scale_y": 1.0, "out_of_bounds_input_value": 0.0}
SAMPLED: list[dict[str, Any]] = [
    {"minimum_samples_per_output": 1, "maximum_samples_per_output": 2**32 - 1},
    {"minimum_samples_per_output": 0, "maximum_samples_per_output": 0},
    {"minimum_samples_per_output": 2, "maximum_samples_per_output": 2, "spatial_scale_x": 0.5, "out_of_bounds_input_value": -1.5},
    {"minimum_samples_per_output": 3, "maximum_samples_per_output": 4, "spatial_scale_y": 0.75, "out_of_bounds_input_value": 7.0},
]
PLACED: list[dict[str, Any]] = [
    {"input_pixel_offset": 0.0},
    {"input_pixel_offset": 0.0, "output_pixel_offset": 0.0, "align_regions_to_corners": True},
    {"output_pixel_offset": 0.25, "align_regions_to_corners": True},
    {"input_pixel_offset": 0.25, "output_pixel_offset": -0.25},
]


@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("reduction", ["AVERAGE", "MAX"])
def test_samples_one_after_the_other(any_device: dml.Device, reduction: str, mode: str) -> None:
    rng = np.random.default_rng(1)
    batches = rng.integers(0, 2, len(REGIONS))
    table: list[tuple[Any, dict[str, Any]]] = [(dml.ROIAlignDesc, own) for own in SAMPLED]
    table += [(dml.ROIAlign1Desc, {**SAMPLED[at % 3], **own}) for at, own in enumerate(PLACED)]
    for (kind, own), sizes in zip(table, itertools.cycle([(3, 4), (1, 1), (2, 3)])):
        dtype, index = ((np.float32, np.uint32), (np.float16, np.uint64))[len(own) % 2]
        x, regions = rng.normal(size=(2, 2, 7, 9)).astype(dtype), np.array(REGIONS, dtype)
        members = {**COMMON, **own, "reduction_function": reduction, "interpolation_mode": mode}
        desc = aligned(kind, x, regions, batches.astype(index), sizes, **members)
        assert dml.check(desc) == []
        arrays = {"input_tensor": x, "roi_tensor": regions, "batch_indices_tensor": batches.astype(index)}
        found = run_in_layouts(desc, arrays, any_device)["output_tensor"]
        assert_close(found, expected(x, regions, batches, sizes, members), dtype, terms=16, what=str(desc))


def test_regions_and_indices_that_make_no_sense(any_device: dml.Device) -> None:
    """They read what lies outside, as often as the bounds allow; a batch index beyond the images is the last one's."""
    x = np.stack([np.zeros((1, 3, 4)), np.ones((1, 3, 4))]).astype(np.float32)
    odd = [[np.nan, 0, 2, 2], [0, np.inf, 2, np.inf], [-np.inf, 0, np.inf, 2], [0, 0, 1e38, 1e38], [-3e38, -3e38, 3e38, 3e38], [1, 1, 2, 2]]
    regions, batches = np.array(odd, np.float32), np.full(len(odd), 2**32 - 1, np.uint32)
    members = {**COMMON, "reduction_function": "AVERAGE", "interpolation_mode": "LINEAR", "out_of_bounds_input_value": 5.0}
    for most in (1, 2**32 - 1):
        desc = aligned(
            dml.ROIAlignDesc, x, regions, batches, (1, 2), **members, minimum_samples_per_output=0, maximum_samples_per_output=most
        )
        arrays = {"input_tensor": x, "roi_tensor": regions, "batch_indices_tensor": batches}
        found = compute(desc, device=any_device, **arrays).reshape(len(odd), 2)
        np.testing.assert_array_equal(found[-1], [1, 1])
        np.testing.assert_array_equal(found[:3], np.full((3, 2), 5))
        np.testing.assert_allclose(found[3:5], 5, rtol=1e-6)


@pytest.mark.parametrize("reduction", ["AVERAGE", "MAX"])
def test_the_sanitizers_are_silent(reduction: str) -> None:
    require("g++")
    runtime = EmulatedRuntime(sanitize="address,undefined")
    desc = aligned(
        dml.ROIAlignDesc,
        np.zeros((2, 2, 3, 4), np.float32),
        np.zeros((3, 4), np.float32),
        np.zeros(3, np.uint32),
        (2, 2),
        **COMMON,
        reduction_function=reduction,
        interpolation_mode="LINEAR",
        minimum_samples_per_output=1,
        maximum_samples_per_output=3,
    )
    check_layouts(desc, np.random.default_rng(2), sums=True, device=CudaDevice(runtime))
    runtime.check_guards()


@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("reduction", ["AVERAGE", "MAX"])
def test_a_pixel_without_a_share_is_not_read(every_device: dml.Device, reduction: str, mode: str) -> None:
    """Each sample is a pixel: an infinity or a NaN beside it changes nothing."""
    image = np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5)
    image[0, 0, 1, 1], image[0, 0, 3, 4], image[0, 0, 2, 0] = np.inf, np.nan, -np.inf
    arrays = {
        "input_tensor": image,
        "roi_tensor": np.array([[0, 0, 5, 4]], np.float32),
        "batch_indices_tensor": np.zeros(1, np.uint32),
    }
    desc = dml.ROIAlignDesc(
        **{name: tensor(array) for name, array in arrays.items()},
        output_tensor=packed(np.float32, 1, 1, 4, 5),
        reduction_function=reduction,
        interpolation_mode=mode,
        spatial_scale_x=1.0,
        spatial_scale_y=1.0,
        out_of_bounds_input_value=0.0,
        minimum_samples_per_output=1,
        maximum_samples_per_output=1,
    )
    np.testing.assert_array_equal(run_in_layouts(desc, arrays, every_device)["output_tensor"], image)
