"""Compiled poolings of regions against the definition: corners off the image, not finite and inverted, and very many samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import run
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.pooling import region_gradient_plan, region_plan
from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan

IMAGES, REGIONS = (3, 4, 11, 13), 20
SPREAD = (2000, 3, 170, 13)
TYPES = {"FLOAT32": np.float32, "FLOAT16": np.float16}


def tensor(data_type: str, *sizes: int, strides: Any = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def _corners(rng: np.random.Generator, kind: Any) -> Any:
    start, extent = rng.uniform(-8, 14, (REGIONS, 2)), rng.uniform(-3, 20, (REGIONS, 2))
    found = np.concatenate([start, start + extent], axis=1)
    found[0], found[1], found[2:9] = np.nan, 0.0, np.round(found[2:9] * 2) / 2
    return found.astype(kind)


def _images(rng: np.random.Generator, kind: Any) -> Any:
    x = rng.normal(size=IMAGES)
    x[2, 0, 3, 3] = np.nan
    return x.astype(kind)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("channels", [8, 37])
def test_maxima_of_many_channels(channels: int, data_type: str) -> None:
    """Bit by bit, on copies whose channels are contiguous, with NaN and infinities; not where regions are small beside the images."""
    rng, kind = np.random.default_rng(5), TYPES[data_type]
    corners = np.concatenate([rng.integers(-1, 5, (REGIONS, 1)), _corners(rng, np.float32)], axis=1)
    x = rng.normal(size=(3, channels, 17, 13)).astype(kind)
    x[rng.random(x.shape) < 0.02] = np.nan
    x[rng.random(x.shape) < 0.02] = -np.inf
    arrays = {"input_tensor": x, "roi_tensor": corners.astype(kind).reshape(1, 1, REGIONS, 5)}
    for size, copies in ((5, True), (1, False)):
        desc = dml.ROIPoolingDesc(
            input_tensor=tensor(data_type, *x.shape),
            roi_tensor=tensor(data_type, 1, 1, REGIONS, 5),
            output_tensor=tensor(data_type, REGIONS, channels, size, size),
            pooled_size={"height": size, "width": size},
            spatial_scale=1.0,
        )
        assert isinstance(compiled_plan(desc), LayoutCopiesPlan) == copies
        expected = run(desc, arrays, "numpy")["output_tensor"]
        np.testing.assert_array_equal(run(desc, arrays, "cpu")["output_tensor"], expected)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("samples", [(2, 2), (1, 5), (1, 4_000_000_000)], ids=str)
def test_samples(samples: tuple[int, int], data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy pools regions with more samples than a table holds, which a length of 2,000 pixels has here if nothing bounds them."""
    monkeypatch.setattr(region_plan, "available_threads", lambda: 2)
    monkeypatch.setattr(region_plan, "_WORK_OF_A_THREAD", 1)
    rng, (least, most) = np.random.default_rng(1), samples
    for number in range(4):
        strides = SPREAD if number % 2 else None
        corners = _corners(rng, TYPES[data_type])
        if most > 9 and number == 1:
            corners[3] = 0, 0, 2000, 3000
        desc = dml.ROIAlign1Desc(
            input_tensor=tensor(data_type, *IMAGES, strides=strides),
            roi_tensor=tensor(data_type, 1, 1, REGIONS, 4),
            batch_indices_tensor=tensor("UINT64" if number % 2 else "UINT32", 1, 1, 1, REGIONS),
            output_tensor=tensor(data_type, REGIONS, 4, 3, 5, strides=(100, 1, 20, 4) if number % 2 else None),
            reduction_function="MAX" if number in (1, 2) else "AVERAGE",
            interpolation_mode="NEAREST_NEIGHBOR" if number == 3 else "LINEAR",
            spatial_scale_x=0.9,
            spatial_scale_y=1.1,
            input_pixel_offset=0.5,
            output_pixel_offset=-0.25,
            out_of_bounds_input_value=0.5,
            minimum_samples_per_output=least,
            maximum_samples_per_output=most,
            align_regions_to_corners=number > 1,
        )
        batches = rng.integers(0, 5, REGIONS).reshape(1, 1, 1, REGIONS)
        arrays = {
            "input_tensor": _images(rng, TYPES[data_type]),
            "roi_tensor": corners.reshape(1, 1, REGIONS, 4),
            "batch_indices_tensor": batches.astype(np.uint64 if number % 2 else np.uint32),
        }
        assert not isinstance(compiled_plan(desc), str)
        expected = dml.reference(desc, arrays).as_dict()["output_tensor"]
        found = run(desc, arrays, "cpu")["output_tensor"]
        assert_close(found, np.asarray(expected, np.float64).astype(found.dtype), found.dtype, terms=64, what=str(number))


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("strides", [SPREAD, None], ids=["spread", "packed"])
def test_maxima(data_type: str, strides: Any) -> None:
    """Bit by bit: the maximum of pixels is one of them. Rows of packed ones are compared by vectors, also at the end of memory."""
    rng = np.random.default_rng(2)
    for scale in (1.0, 0.37, 3.0):
        corners = np.concatenate([rng.integers(-1, 5, (REGIONS, 1)), _corners(rng, np.float32)], axis=1)
        corners[9], corners[10, 3:] = -np.inf, np.inf
        desc = dml.ROIPoolingDesc(
            input_tensor=tensor(data_type, *IMAGES, strides=strides),
            roi_tensor=tensor(data_type, 1, 1, REGIONS, 5),
            output_tensor=tensor(data_type, REGIONS, 4, 3, 5, strides=(100, 1, 20, 4)),
            pooled_size={"height": 3, "width": 5},
            spatial_scale=scale,
        )
        kind = TYPES[data_type]
        arrays = {"input_tensor": _images(rng, kind), "roi_tensor": corners.astype(kind).reshape(1, 1, REGIONS, 5)}
        assert not isinstance(compiled_plan(desc), str)
        expected = run(desc, arrays, "numpy")["output_tensor"]
        np.testing.assert_array_equal(run(desc, arrays, "cpu")["output_tensor"], expected)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("samples", [(2, 2), (1, 5), (1, 4_000_000_000)], ids=str)
def test_gradients_of_means(samples: tuple[int, int], data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the incoming gradient in another layout, and as many threads as two; NumPy computes those with more samples than tables hold."""
    monkeypatch.setattr(region_gradient_plan, "available_threads", lambda: 2)
    monkeypatch.setattr(region_gradient_plan, "_WORK_OF_A_THREAD", 1)
    rng, (least, most), kind = np.random.default_rng(6), samples, TYPES[data_type]
    for mode, extent in (("LINEAR", 1.0), ("NEAREST_NEIGHBOR", 1.0), ("LINEAR", 1e3)):
        corners = _corners(rng, kind)
        corners[-1, 2:] *= extent
        desc = dml.ROIAlignGradDesc(
            input_gradient_tensor=tensor(data_type, REGIONS, 4, 3, 5, strides=(100, 1, 20, 4)),
            roi_tensor=tensor(data_type, 1, 1, REGIONS, 4),
            batch_indices_tensor=tensor("UINT32", 1, 1, 1, REGIONS),
            output_gradient_tensor=tensor(data_type, *IMAGES),
            reduction_function="AVERAGE",
            interpolation_mode=mode,
            spatial_scale_x=0.9,
            spatial_scale_y=1.1,
            input_pixel_offset=0.5,
            output_pixel_offset=-0.25,
            minimum_samples_per_output=least,
            maximum_samples_per_output=most,
            align_regions_to_corners=mode == "LINEAR",
        )
        arrays = {
            "input_gradient_tensor": rng.normal(size=(REGIONS, 4, 3, 5)).astype(kind),
            "roi_tensor": corners.reshape(1, 1, REGIONS, 4),
            "batch_indices_tensor": rng.integers(0, 5, (1, 1, 1, REGIONS)).astype(np.uint32),
        }
        plan = compiled_plan(desc)
        assert not isinstance(plan, str)
        assert "2 threads" in plan.describe()
        expected = np.asarray(dml.reference(desc, arrays).as_dict()["output_gradient_tensor"])
        assert_close(run(desc, arrays, "cpu")["output_gradient_tensor"], expected, kind, terms=400, what=f"{mode}, {extent:g}")
