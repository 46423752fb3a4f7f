"""ROI_ALIGN_GRAD on every device, against differences of ROI_ALIGN1's definition, and its optional outputs.

ROI_ALIGN1 is piecewise linear in the image and its samples move linearly with the corners, so central differences are exact but for
rounding where nothing turns between their two ends.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.descs import relation_descs
from tests.support.operators.layout_runs import Array, by_definition, check_layouts, packed, random_values, run, run_in_layouts, tensor
from tests.support.tolerance import assert_close
from tests.support.tools import require

STEP = 2.0**-12
BATCHES = np.array([1, 0, 0, 1, 1, 0], np.uint32)
REGIONS = np.array(
    [[0.37, 0.61, 4.13, 3.29], [-2.7, -1.9, 3.4, 2.2], [2.9, 1.3, 8.4, 5.7], [4.6, 3.2, 1.1, 0.3], [2.2, 1.7, 2.6, 1.9], [20, 20, 23, 24]],
    np.float32,
)
"""Inside, with corners outside, inverted, smaller than a pixel, outside altogether."""

MEMBERS: dict[str, dict[str, Any]] = {
    "one sample": {"minimum_samples_per_output": 1, "maximum_samples_per_output": 1},
    "scaled": {"minimum_samples_per_output": 2, "maximum_samples_per_output": 2, "spatial_scale_x": 0.8, "spatial_scale_y": 1.3},
    "a sample for each pixel": {"minimum_samples_per_output": 1, "maximum_samples_per_output": 9, "input_pixel_offset": 0.0},
    "aligned": {"minimum_samples_per_output": 3, "maximum_samples_per_output": 3, "align_regions_to_corners": True},
    "offset": {"minimum_samples_per_output": 2, "maximum_samples_per_output": 3, "input_pixel_offset": 0.23, "output_pixel_offset": -0.31},
}
SIZES = (2, 3)


def common(reduction: str, mode: str, own: dict[str, Any]) -> dict[str, Any]:
    return {"spatial_scale_x": 1.0, "spatial_scale_y": 1.0, "reduction_function": reduction, "interpolation_mode": mode, **own}


def gradient_desc(arrays: dict[str, Array], members: dict[str, Any], *outputs: str) -> Any:
    described = {"output_gradient_tensor": arrays["input_tensor"], "output_roi_gradient_tensor": arrays["roi_tensor"]}
    desc = dml.ROIAlignGradDesc(
        **{name: tensor(array) for name, array in arrays.items()},
        **{name: packed(array.dtype, *array.shape) for name, array in described.items() if name in outputs},
        **members,
    )
    assert dml.check(desc) == []
    return desc


BOTH = ("output_gradient_tensor", "output_roi_gradient_tensor")


def inputs(dtype: Any, seed: int = 3) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "input_tensor": rng.normal(size=(2, 2, 4, 5)).astype(dtype),
        "input_gradient_tensor": rng.normal(size=(len(REGIONS), 2, *SIZES)).astype(dtype),
        "roi_tensor": REGIONS.astype(dtype),
        "batch_indices_tensor": BATCHES,
    }


def forward(x: Array, regions: Array, batches: Array, members: dict[str, Any]) -> Array:
    """What ROI_ALIGN1's definition gives in float64."""
    desc = dml.ROIAlign1Desc(
        input_tensor=packed(np.float32, *x.shape),
        roi_tensor=packed(np.float32, *regions.shape),
        batch_indices_tensor=packed(np.uint32, *batches.shape),
        output_tensor=packed(np.float32, len(regions), x.shape[1], *SIZES),
        **members,
    )
    given = {"input_tensor": x.astype(np.float64), "roi_tensor": regions.astype(np.float64), "batch_indices_tensor": batches}
    return np.asarray(dml.reference(desc, given).as_dict()["output_tensor"])


def image_differences(arrays: dict[str, Array], members: dict[str, Any]) -> Array:
    """The gradient of the images: each pixel moved up and down, all at once in channels of their own."""
    x, dy, batches = (arrays[name].astype(np.float64) for name in ("input_tensor", "input_gradient_tensor", "batch_indices_tensor"))
    found = np.zeros(x.shape)
    for channel in range(x.shape[1]):
        image = x[:, channel].reshape(len(x), 1, *x.shape[2:])
        moves = STEP * np.eye(image[0].size).reshape(-1, *x.shape[2:])
        up, down = (forward(image + sign * moves, arrays["roi_tensor"], arrays["batch_indices_tensor"], members) for sign in (1, -1))
        shares = np.einsum("rpij,rij->rp", (up - down) / (2 * STEP), dy[:, channel])
        for batch in range(len(x)):
            found[batch, channel] = shares[batches == batch].sum(axis=0).reshape(x.shape[2:])
    return found


def corner_differences(arrays: dict[str, Array], members: dict[str, Any]) -> Array:
    """The gradient of the regions: each corner moved up and down."""
    regions, found = arrays["roi_tensor"].astype(np.float64), np.zeros(arrays["roi_tensor"].shape)
    for corner in range(4):
        move = STEP * np.eye(4)[corner]
        up, down = (forward(arrays["input_tensor"], regions + sign * move, arrays["batch_indices_tensor"], members) for sign in (1, -1))
        found[:, corner] = np.sum((up - down) / (2 * STEP) * arrays["input_gradient_tensor"], axis=(1, 2, 3))
    return found


@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("reduction", ["AVERAGE", "MAX"])
def test_gradients_are_the_differences_of_the_forward_operator(any_device: dml.Device, reduction: str, mode: str) -> None:
    for (name, own), dtype in zip(MEMBERS.items(), itertools.cycle([np.float32, np.float16])):
        arrays, members = inputs(dtype), common(reduction, mode, own)
        if reduction == "AVERAGE":  # of a region without a size all samples tie for the maximum
            arrays["roi_tensor"][4, 2:] = arrays["roi_tensor"][4, :2]
        found = run_in_layouts(gradient_desc(arrays, members, *BOTH), arrays, any_device)
        assert_close(found["output_gradient_tensor"], image_differences(arrays, members), dtype, terms=64, what=f"{name}, images")
        assert_close(found["output_roi_gradient_tensor"], corner_differences(arrays, members), dtype, terms=64, what=f"{name}, regions")


@pytest.mark.parametrize("name", MEMBERS)
def test_the_mean_s_gradient_is_its_adjoint(name: str) -> None:
    """<forward(dx), dy> = <dx, gradient(dy)> in float64."""
    arrays, members = inputs(np.float32), common("AVERAGE", "LINEAR", MEMBERS[name])
    desc = gradient_desc(arrays, members, "output_gradient_tensor")
    gradient = dml.reference(desc, arrays).as_dict()["output_gradient_tensor"]
    moved = forward(arrays["input_tensor"], arrays["roi_tensor"], BATCHES, members)
    left, right = np.sum(moved * arrays["input_gradient_tensor"]), np.sum(arrays["input_tensor"].astype(np.float64) * gradient)
    np.testing.assert_allclose(left, right, rtol=1e-12)


def test_the_regions_gradient_is_directml_s_formula_where_scales_are_the_output_s_sizes(any_device: dml.Device) -> None:
    """The page's code, which knows neither scales nor the division: gx * (W - ox), gy * (H - oy), gx * ox, gy * oy."""
    height, width = SIZES
    rng = np.random.default_rng(8)
    arrays = inputs(np.float32)
    arrays["roi_tensor"] = rng.uniform(0.1, 1.1, REGIONS.shape).astype(np.float32)
    own = {**MEMBERS["one sample"], "spatial_scale_x": float(width), "spatial_scale_y": float(height)}
    members = common("AVERAGE", "LINEAR", own | {"input_pixel_offset": 0.0, "output_pixel_offset": 0.0})
    x, dy = (arrays[name].astype(np.float64) for name in ("input_tensor", "input_gradient_tensor"))
    expected = np.zeros(REGIONS.shape)
    for region, (left, top, right, bottom) in enumerate(arrays["roi_tensor"].astype(np.float64) * [width, height, width, height]):
        for channel, oy, ox in np.ndindex(2, height, width):
            y, across = top + oy * (bottom - top) / height, left + ox * (right - left) / width
            row, column = int(y), int(across)
            patch = x[BATCHES[region], channel, row : row + 2, column : column + 2]
            share = np.array([1 - (y - row), y - row]), np.array([1 - (across - column), across - column])
            gx, gy = share[0] @ (patch[:, 1] - patch[:, 0]), (patch[1] - patch[0]) @ share[1]
            expected[region] += dy[region, channel, oy, ox] * np.array([gx * (width - ox), gy * (height - oy), gx * ox, gy * oy])
    found = run_in_layouts(gradient_desc(arrays, members, *BOTH), arrays, any_device)["output_roi_gradient_tensor"]
    assert_close(found, expected, np.float32, terms=64)


@pytest.mark.parametrize("reduction", ["AVERAGE", "MAX"])
def test_each_output_may_be_left_out(any_device: dml.Device, reduction: str) -> None:
    arrays, members = inputs(np.float32), common(reduction, "LINEAR", MEMBERS["scaled"])
    both = run_in_layouts(gradient_desc(arrays, members, *BOTH), arrays, any_device)
    for name in BOTH:
        [(own, found)] = run_in_layouts(gradient_desc(arrays, members, name), arrays, any_device).items()
        assert own == name
        np.testing.assert_array_equal(found, both[name])
    if reduction == "AVERAGE":
        desc = gradient_desc(arrays, members, "output_gradient_tensor").replace(input_tensor=None)
        del arrays["input_tensor"]
        np.testing.assert_array_equal(run_in_layouts(desc, arrays, any_device)["output_gradient_tensor"], both["output_gradient_tensor"])


@pytest.mark.parametrize("reduction", ["AVERAGE", "MAX"])
def test_regions_and_indices_that_make_no_sense_pass_nothing_on(any_device: dml.Device, reduction: str) -> None:
    """Regions that are not finite have gradients of 0; a batch index beyond the images is the last one's."""
    odd = [[np.nan, 0, 2, 2], [0, np.inf, 2, np.inf], [-np.inf, 0, np.inf, 2], [0, 0, 1e38, 1e38], [9, 9, 12, 12], [1, 1, 2, 2]]
    arrays = inputs(np.float32) | {"roi_tensor": np.array(odd, np.float32), "batch_indices_tensor": np.full(6, 2**32 - 1, np.uint32)}
    members = common(reduction, "LINEAR", MEMBERS["a sample for each pixel"])
    found = run_in_layouts(gradient_desc(arrays, members, *BOTH), arrays, any_device)
    np.testing.assert_array_equal(found["output_roi_gradient_tensor"][:5], np.zeros((5, 4)))
    np.testing.assert_array_equal(found["output_gradient_tensor"][0], np.zeros((2, 4, 5)))
    assert_close(found["output_gradient_tensor"].sum(), arrays["input_gradient_tensor"][-1].sum(dtype=np.float64), np.float32, terms=64)


def test_samples_outside_may_be_the_maximum(any_device: dml.Device) -> None:
    """They are 0: where all others are negative, nothing is passed on."""
    arrays, members = inputs(np.float32), common("MAX", "LINEAR", MEMBERS["scaled"])
    arrays["input_tensor"] = np.full((2, 2, 4, 5), -1, np.float32)
    arrays["roi_tensor"] = np.tile(np.array([[-5, 0, 4, 3]], np.float32), (6, 1))
    arrays["input_gradient_tensor"] = np.ones((6, 2, *SIZES), np.float32)
    found = run_in_layouts(gradient_desc(arrays, members, *BOTH), arrays, any_device)["output_gradient_tensor"]
    # of the three columns of the output the first lies outside, the second half so
    assert_close(found.sum(), 6 * 2 * SIZES[0], np.float32, terms=64)


def test_every_valid_desc_computes_in_every_layout(any_device: dml.Device) -> None:
    """A maximum not with images that are broadcast: equal samples tie there, and in FLOAT32 rounding chooses another than in float64."""
    rng, name = np.random.default_rng(11), "DML_OPERATOR_ROI_ALIGN_GRAD"
    reductions = set()
    for valid in relation_descs.valid_descs(name):
        desc: Any = dml.OperatorDesc.from_dict(relation_descs.data(name, valid.members))
        reductions.add(desc.reduction_function)
        if desc.reduction_function is dml.ReduceFunction.AVERAGE:
            check_layouts(desc, rng, sums=True, device=any_device)
            continue
        arrays = {slot.place: random_values(rng, slot.tensor, positive=True) for slot in desc.input_slots() if slot.tensor is not None}
        exact = by_definition(desc, arrays)
        for place, found in run_in_layouts(desc, arrays, any_device).items():
            assert_close(found, exact[place], found.dtype, terms=64, what=f"{place}, {valid.about}")
    assert reductions == {dml.ReduceFunction.AVERAGE, dml.ReduceFunction.MAX}


def test_the_sanitizers_are_silent() -> None:
    require("g++")
    runtime = EmulatedRuntime(sanitize="address,undefined")
    arrays = inputs(np.float32)
    arrays["batch_indices_tensor"] = BATCHES + np.uint32(1)
    desc = gradient_desc(arrays, common("MAX", "LINEAR", MEMBERS["scaled"]), *BOTH)
    run(desc, arrays, CudaDevice(runtime))
    runtime.check_guards()


@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("reduction", ["AVERAGE", "MAX"])
def test_a_pixel_without_a_share_has_no_gradient(every_device: dml.Device, reduction: str, mode: str) -> None:
    """Each sample is a pixel: an infinite gradient is that of the pixel alone."""
    dy = np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5)
    dy[0, 0, 1, 1], dy[0, 0, 3, 4], dy[0, 0, 2, 0] = np.inf, np.nan, -np.inf
    arrays = {
        "input_tensor": np.ones_like(dy),
        "input_gradient_tensor": dy,
        "roi_tensor": np.array([[0, 0, 5, 4]], np.float32),
        "batch_indices_tensor": np.zeros(1, np.uint32),
    }
    members = common(reduction, mode, MEMBERS["one sample"] | {"input_pixel_offset": 0.5, "output_pixel_offset": -0.5})
    desc = gradient_desc(arrays, members, "output_gradient_tensor")
    np.testing.assert_array_equal(run_in_layouts(desc, arrays, every_device)["output_gradient_tensor"], dy)
