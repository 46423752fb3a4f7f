"""Definitions that take a faster way where one is open give what the slower one gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.operators.movement.slicing import SliceDesc
from dmlpy.reference import conversion, taps
from dmlpy.reference.convolution import cross_correlation
from dmlpy.reference.pooling import regions
from dmlpy.reference.quantized import products
from dmlpy.reference.selection import select
from dmlpy.reference.windows import Along, spread_over_windows, sums_of_windows

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_integers_are_those_of_each_number_alone(dtype: Any, wide: Any) -> None:
    limits = np.iinfo(dtype)
    ordinary = [0.0, -0.0, 0.9, -0.9, 1.5, 100.9, float(limits.min) / 2, float(limits.max) / 4]
    ends = [limits.min, float(limits.min) - 1, limits.max, float(limits.max) + 1, np.nan, np.inf, -np.inf, 1e30]
    values = np.array([*ordinary, *ends], wide)
    alone = [conversion.as_integers(np.array([value, np.nan], wide), np.dtype(dtype))[0] for value in values]
    assert conversion.as_integers(values[: len(ordinary)], np.dtype(dtype)).tolist() == alone[: len(ordinary)]
    for value, wanted in zip(values, alone, strict=True):
        assert conversion.as_integers(np.array([value]), np.dtype(dtype))[0] == wanted
    assert conversion.as_integers(values[:0], np.dtype(dtype)).size == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64])
def test_what_is_dropped_is_zero_whatever_it_was(dtype: Any) -> None:
    values = np.array([1, 2, 3, 4], dtype)
    if values.dtype.kind == "f":
        values[:2] = np.nan, np.inf
    mask = np.array([True, False, False, True])
    np.testing.assert_array_equal(select(values, mask), np.where(mask, values, dtype(0)))
    np.testing.assert_array_equal(select(values[::-1], ~mask), np.where(~mask, values[::-1], dtype(0)))


def windows(size: int, taps: int, positions: int, stride: int, dilation: int, start: int) -> Along:
    return Along(np.arange(taps)[:, None] * dilation + np.arange(positions) * stride - start, size, 2)


ALONG = [windows(7, 3, 4, 2, 1, 1), windows(6, 2, 5, 1, 3, 2)]


@pytest.mark.parametrize("multiplier", [1, 3])
def test_channels_by_themselves_are_groups(multiplier: int) -> None:
    x, filters = RNG.standard_normal((2, 4, 7, 6)), RNG.standard_normal((4 * multiplier, 1, 3, 2))
    each = [
        cross_correlation(x[:, [channel]], filters[channel * multiplier : (channel + 1) * multiplier], 1, ALONG) for channel in range(4)
    ]
    np.testing.assert_allclose(cross_correlation(x, filters, 4, ALONG), np.concatenate(each, axis=1), rtol=1e-12, atol=1e-12)


def test_windows_sum_what_their_adjoint_spreads() -> None:
    x, y = RNG.standard_normal((2, 3, 7, 6)), RNG.standard_normal((2, 3, 4, 5))
    sums = sums_of_windows(x, ALONG)
    assert sums.shape == y.shape
    assert np.vdot(sums, y) == pytest.approx(np.vdot(x, spread_over_windows(y, ALONG)))
    alone = sum(
        x[1, 2, row, column]
        for row in ALONG[0].at[:, 3]
        for column in ALONG[1].at[:, 2]
        if 0 <= row < 7 and 0 <= column < 6
    )  # fmt: skip
    assert sums[1, 2, 3, 2] == pytest.approx(alone)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("gaps", [False, True])
def test_weighted_sums_do_not_depend_on_their_turns(monkeypatch: pytest.MonkeyPatch, axis: int, gaps: bool) -> None:
    x, size = RNG.standard_normal((5, 6, 7)), 9
    targets = np.sort(RNG.integers(0, size, 40)) if gaps else np.repeat(np.arange(size), 4)
    targets = targets[targets != 3] if gaps else targets
    sources, weights = RNG.integers(0, x.shape[axis], targets.size), RNG.random(targets.size)
    own = taps.Taps(sources, targets, weights)
    found = own.gather(x, axis, size)
    monkeypatch.setattr(taps, "MOST_TURNS", 0)
    np.testing.assert_allclose(found, own.gather(x, axis, size), rtol=1e-12, atol=1e-12)
    matrix = np.zeros((size, x.shape[axis]))
    np.add.at(matrix, (targets, sources), weights)
    np.testing.assert_allclose(found, np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis), rtol=1e-12, atol=1e-12)


def aligned(function: str, mode: str, largest: int) -> tuple[Any, dict[str, Any]]:
    """Regions inside an image, partly and wholly outside it, turned round and of no extent."""
    boxes = np.array([[1, 1, 6, 5], [-9, -3, 4, 3], [30, 30, 40, 50], [5, 4, 1, 0.5], [2, 2, 2, 2], [-50, 1, 60, 3]], np.float32)
    batches = np.array([0, 1, 1, 0, 9, 1], np.uint32)
    x = RNG.standard_normal((2, 3, 6, 7)).astype(np.float32)
    members: dict[str, Any] = {"reduction_function": function, "interpolation_mode": mode, "spatial_scale_x": 1.0, "spatial_scale_y": 1.0}
    members |= {"minimum_samples_per_output": 1, "maximum_samples_per_output": largest, "out_of_bounds_input_value": 0.5}
    members |= {"input_pixel_offset": 0.5, "output_pixel_offset": -0.5, "align_regions_to_corners": False}
    given = {"input_tensor": x, "roi_tensor": boxes, "batch_indices_tensor": batches}
    tensors: Any = {name: dml.TensorDesc.of(array) for name, array in given.items()}
    return dml.ROIAlign1Desc(**tensors, **members, output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(6, 3, 2, 3))), given


@pytest.mark.parametrize("function", ["AVERAGE", "MAX"])
@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("largest", [2, 40])
def test_regions_do_not_depend_on_how_many_are_computed_at_a_time(
    monkeypatch: pytest.MonkeyPatch, function: str, mode: str, largest: int
) -> None:
    desc, given = aligned(function, mode, largest)
    found = dml.reference(desc, given).output_tensor
    monkeypatch.setattr(regions, "_MOST_VALUES", 1)
    np.testing.assert_array_equal(found, dml.reference(desc, given).output_tensor)
    monkeypatch.setattr(regions, "_MOST_PLACED", 0)  # samples far outside are left out
    np.testing.assert_allclose(found, dml.reference(desc, given).output_tensor, rtol=1e-12, atol=1e-12)


def test_sums_of_integers_are_exact_in_either_type(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = RNG.integers(-255, 256, (20, 300)).astype(np.float32), RNG.integers(-255, 256, (300, 20)).astype(np.float32)
    assert [array.dtype for array in products._exact(one, other, 300)] == [np.float64] * 2
    assert [array.dtype for array in products._exact(one, other / 2, 300)] == [np.float32] * 2
    whole = one.astype(np.int64) @ other.astype(np.int64)
    np.testing.assert_array_equal(np.matmul(*products._exact(one, other, 300)), whole)
    # 258 products of two numbers of 8 bits stay below 2^24 whatever they are.
    limits = np.full((1, 258), 255, np.float32)
    a, b = products._exact(limits, limits.T, 258)
    assert a.dtype == np.float32
    assert np.matmul(a, b)[0, 0] == 258 * 255**2


@pytest.mark.parametrize("strides", [(1, 1), (2, 3), (0, 1), (0, 0)])
def test_a_slice_takes_every_so_manieth_element(strides: tuple[int, int]) -> None:
    x = RNG.standard_normal((1, 1, 5, 7)).astype(np.float32)
    members = {"offsets": (0, 0, 1, 2), "slice_sizes": (1, 1, 2, 2), "strides": (1, 1, *strides)}
    desc = SliceDesc(input_tensor=dml.TensorDesc.of(x), **members).with_outputs()
    rows, columns = ([offset, offset + stride] for offset, stride in zip((1, 2), strides, strict=True))
    np.testing.assert_array_equal(dml.reference(desc, {"input_tensor": x}).output_tensor, x[:, :, rows][..., columns])
