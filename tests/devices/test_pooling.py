"""Pooling on every device, against the definition window by window and against ONNX."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import SOME_OR_ALL, Array, defined, failures_in_layouts, is_emulated, run_in_layouts, tensor
from tests.support.tolerance import assert_close

# sizes, window, strides, dilations, start padding, end padding, whether sizes are rounded up
CASES: list[tuple[Any, ...]] = [
    ((1, 1, 1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), False),
    ((2, 3, 5, 6), (2, 3), (1, 2), (1, 1), (0, 0), (0, 0), False),
    ((2, 1, 5, 7), (3, 2), (2, 1), (1, 1), (1, 0), (1, 1), False),
    ((1, 2, 6, 5), (2, 2), (1, 1), (3, 2), (1, 1), (0, 2), False),
    ((1, 2, 6, 5), (3, 2), (2, 2), (1, 1), (1, 0), (0, 0), True),
    ((1, 1, 7, 8), (2, 2), (3, 4), (2, 1), (1, 1), (1, 0), True),
    ((2, 1, 3, 4, 5), (2, 1, 3), (1, 2, 1), (1, 1, 2), (0, 0, 1), (1, 0, 1), False),
    ((1, 2, 3, 3), (3, 3), (1, 1), (1, 1), (0, 0), (0, 0), False),
]
WHOLLY_PADDED = ((1, 2, 2, 3), (2, 1), (1, 1), (1, 1), (3, 0), (1, 2), False)


def members(case: tuple[Any, ...], kind: type[dml.OperatorDesc]) -> dict[str, Any]:
    """The arrays of a case; without dilations, a window of neighbours."""
    _, window, strides, dilations, start, end, _ = case
    found = {"window_size": window, "strides": strides, "start_padding": start, "end_padding": end}
    return {**found, "dilations": dilations} if dilated(kind) else found


def dilated(kind: type[dml.OperatorDesc]) -> bool:
    return kind.__name__ not in ("AveragePoolingDesc", "AveragePoolingGradDesc", "LPPoolingDesc", "MaxPoolingDesc", "MaxPooling1Desc")


def cases(kind: type[dml.OperatorDesc]) -> list[tuple[Any, ...]]:
    """The cases, without those of dilations where the operator has none."""
    return [case for case in CASES if dilated(kind) or set(case[3]) == {1}]


def positions(case: tuple[Any, ...]) -> tuple[int, ...]:
    sizes, window, strides, dilations, start, end, up = case
    rooms = [
        size + first + last - (length - 1) * dilation - 1
        for size, first, last, length, dilation in zip(sizes[2:], start, end, window, dilations, strict=True)
    ]
    return tuple((math.ceil if up else math.floor)(room / stride) + 1 for room, stride in zip(rooms, strides, strict=True))


def windows(case: tuple[Any, ...]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]], int]]:
    """Each position, its elements of the tensor in the order of their indices, and how many it has with padding."""
    sizes, window, strides, dilations, start, end, _ = case
    for out in np.ndindex(*positions(case)):
        inside, count = [], 0
        for tap in np.ndindex(*window):
            at = tuple(o * s + k * d - p for o, s, k, d, p in zip(out, strides, tap, dilations, start, strict=True))
            count += all(index < size + last for index, size, last in zip(at, sizes[2:], end, strict=True))
            if all(0 <= index < size for index, size in zip(at, sizes[2:], strict=True)):
                inside.append(at)
        yield out, inside, count


def outputs(case: tuple[Any, ...], dtype: Any) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=np.dtype(dtype).name.upper(), sizes=(*case[0][:2], *positions(case)))


def numbers(rng: np.random.Generator, sizes: tuple[int, ...], dtype: Any) -> Array:
    return rng.normal(size=sizes).astype(dtype)


@pytest.mark.pairwise
@pytest.mark.parametrize("include", [False, True], ids=["without padding", "with padding"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("kind", [dml.AveragePoolingDesc, dml.AveragePooling1Desc, dml.AveragePoolingGradDesc])
def test_average_pooling_and_its_gradient(any_device: dml.Device, kind: Any, dtype: Any, include: bool) -> None:
    rng = np.random.default_rng(1)
    for case in cases(kind):
        backward = kind is dml.AveragePoolingGradDesc
        x, dy = numbers(rng, case[0], dtype), numbers(rng, (*case[0][:2], *positions(case)), dtype)
        wanted = np.zeros(x.shape if backward else dy.shape)
        for out, inside, size in windows(case):
            divisor = size if include else len(inside)
            for at in inside:
                source, place = (dy[(..., *out)], at) if backward else (x[(..., *at)], out)
                wanted[(..., *place)] += source.astype(np.float64) / divisor
        names = ("input_gradient_tensor", "output_gradient_tensor") if backward else ("input_tensor", "output_tensor")
        described = {names[0]: tensor(dy if backward else x), names[1]: tensor(x) if backward else outputs(case, dtype)}
        desc = kind(**described, **members(case, kind), include_padding=include)
        result = run_in_layouts(desc, {names[0]: dy if backward else x}, any_device)[names[1]]
        assert_close(result, wanted, dtype, terms=16, what=f"{kind.__name__} {case} {include}")


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("kind", [dml.LPPoolingDesc, dml.LPPooling1Desc])
@pytest.mark.parametrize("p", [1, 2, 3, 10])
def test_lp_pooling(any_device: dml.Device, p: int, kind: Any, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    for case in cases(kind):
        x = numbers(rng, case[0], dtype)
        wanted: Any = np.zeros((*case[0][:2], *positions(case)))
        for out, inside, _ in windows(case):
            taps = np.array([x[(..., *at)].astype(np.float64) for at in inside])
            wanted[..., *out] = np.linalg.norm(taps.reshape(len(inside), -1), p, axis=0).reshape(case[0][:2])
        desc = kind(input_tensor=tensor(x), output_tensor=outputs(case, dtype), **members(case, kind), p=p)
        result = run_in_layouts(desc, {"input_tensor": x}, any_device)["output_tensor"]
        assert_close(result, wanted, dtype, terms=16, what=f"{kind.__name__} {case}")


def test_lp_pooling_does_not_overflow_on_the_way(any_device: dml.Device) -> None:
    x = np.array([[[[3e30, -4e30, 3e-30, 4e-30, 0, 0, -np.inf, 1]]]], np.float32)
    desc = dml.LPPoolingDesc(
        input_tensor=tensor(x), window_size=(1, 2), strides=(1, 2), start_padding=(0, 0), end_padding=(0, 0), p=2
    ).with_outputs()
    result = run_in_layouts(desc, {"input_tensor": x}, any_device)["output_tensor"].reshape(-1)
    np.testing.assert_allclose(result, [5e30, 5e-30, 0, np.inf], rtol=1e-6)


MAXIMA = (dml.MaxPoolingDesc, dml.MaxPooling1Desc, dml.MaxPooling2Desc)


def maxima(x: Array, case: tuple[Any, ...]) -> tuple[Array, Array]:
    """The largest of each window and its index in the whole tensor, by Python's numbers; the first of equal ones."""
    values = np.empty((*x.shape[:2], *positions(case)), x.dtype)
    indices = np.empty(values.shape, np.int64)
    for out, inside, _ in windows(case):
        for n, c in np.ndindex(*x.shape[:2]):
            own = [x[(n, c, *at)].item() for at in inside]
            first = inside[own.index(max(own))]
            values[(n, c, *out)], indices[(n, c, *out)] = max(own), np.ravel_multi_index((n, c, *first), x.shape)
    return values, indices


@pytest.mark.parametrize("every", [18, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_max_pooling_and_its_indices(any_device: dml.Device, every: int) -> None:
    """On the emulated GPU, where each type has kernels to compile, only one of `every` cases of types other than FLOAT32."""
    rng, count, run = np.random.default_rng(3), 0, set()
    pairs = [(kind, case) for kind in MAXIMA for case in cases(kind)]
    types = ("float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    for place, dtype in enumerate(types):
        for number, (kind, case) in enumerate(pairs):
            count += 1
            if place and is_emulated(any_device) and (number + 5 * place) % every:
                continue
            # Few different numbers, so that many are equal; those of the least size, where padding must not win.
            least = -np.inf if "float" in dtype else np.iinfo(dtype).min
            x = np.where(rng.random(case[0]) < 0.6, least, rng.integers(0, 3, case[0])).astype(dtype)
            if "int" in dtype:
                x.reshape(-1)[0] = np.iinfo(dtype).max
            described = {"input_tensor": tensor(x), "output_tensor": outputs(case, dtype)}
            if kind is not dml.MaxPoolingDesc and count % 4:
                described["output_indices_tensor"] = outputs(case, np.uint32 if count % 2 else np.uint64)
            results = run_in_layouts(kind(**described, **members(case, kind)), {"input_tensor": x}, any_device)
            values, indices = maxima(x, case)
            what = f"{kind.__name__} {dtype} {case}"
            np.testing.assert_array_equal(results["output_tensor"], values, err_msg=what)
            if "output_indices_tensor" in results:
                np.testing.assert_array_equal(results["output_indices_tensor"], indices, err_msg=what)
            run.add((dtype, "output_indices_tensor" in results))
    assert {dtype for dtype, _ in run} == set(types)
    assert {indexed for dtype, indexed in run if "int" in dtype} == {False, True}


def test_max_pooling_gradient_and_unpooling_follow_the_indices(any_device: dml.Device) -> None:
    rng = np.random.default_rng(4)
    for case, dtype in itertools.product(cases(dml.MaxPoolingGradDesc), (np.float32, np.float16)):
        x = rng.integers(0, 4, case[0]).astype(dtype)
        dy = numbers(rng, (*case[0][:2], *positions(case)), dtype)
        _, indices = maxima(x, case)
        described = {"input_tensor": tensor(x), "input_gradient_tensor": tensor(dy)}
        desc = dml.MaxPoolingGradDesc(**described, **members(case, dml.MaxPoolingGradDesc)).with_outputs()
        wanted = np.bincount(indices.reshape(-1), dy.reshape(-1).astype(np.float64), x.size).reshape(x.shape)
        result = run_in_layouts(desc, {"input_tensor": x, "input_gradient_tensor": dy}, any_device)["output_gradient_tensor"]
        assert_close(result, wanted, dtype, terms=16, what=f"{case}")
    for dtype, index in itertools.product(("float32", "float16", "int8", "uint64"), ("uint32", "uint64")):
        x, sizes = rng.integers(1, 100, (2, 3, 2, 2)).astype(dtype), (1, 2, 4, 5)
        indices = rng.permutation(math.prod(sizes))[: x.size].reshape(x.shape).astype(index)
        unpooled = dml.MaxUnpoolingDesc(
            input_tensor=tensor(x), indices_tensor=tensor(indices), output_tensor=dml.TensorDesc(data_type=dtype.upper(), sizes=sizes)
        )
        result = run_in_layouts(unpooled, {"input_tensor": x, "indices_tensor": indices}, any_device)["output_tensor"].reshape(-1)
        assert [result[at] for at in indices.reshape(-1)] == x.reshape(-1).tolist()
        assert np.count_nonzero(result) == x.size
        indices[0, 0, 0, 0] = np.iinfo(index).max  # outside: not defined, but nothing else is written
        outside = run_in_layouts(unpooled, {"input_tensor": x, "indices_tensor": indices}, any_device)["output_tensor"]
        assert np.count_nonzero(outside) == x.size - 1


def test_windows_in_the_padding_alone(any_device: dml.Device) -> None:
    x = np.arange(1, 13, dtype=np.float32).reshape(1, 2, 2, 3)
    described: dict[str, Any] = {"input_tensor": tensor(x), **members(WHOLLY_PADDED, dml.MaxPooling2Desc)}
    empty = np.zeros(positions(WHOLLY_PADDED), bool)
    for out, inside, _ in windows(WHOLLY_PADDED):
        empty[out] = not inside
    assert 0 < empty.sum() < empty.size
    pooled = run_in_layouts(
        dml.MaxPooling2Desc(**described).with_outputs("output_tensor", "output_indices_tensor"), {"input_tensor": x}, any_device
    )
    assert np.isneginf(pooled["output_tensor"][..., empty]).all()
    assert (pooled["output_tensor"][..., ~empty] > 0).all()
    assert not pooled["output_indices_tensor"][..., empty].any()
    for include, value in ((True, 0.0), (False, np.nan)):
        desc = dml.AveragePooling1Desc(**described, include_padding=include).with_outputs()
        averaged = run_in_layouts(desc, {"input_tensor": x}, any_device)["output_tensor"]
        np.testing.assert_array_equal(averaged[..., empty], np.full_like(averaged[..., empty], value))
        assert (averaged[..., ~empty] > 0).all()
    dy = np.ones((1, 2, *empty.shape), np.float32)
    gradient = dml.MaxPoolingGradDesc(**described, input_gradient_tensor=tensor(dy)).with_outputs()
    result = run_in_layouts(gradient, {"input_tensor": x, "input_gradient_tensor": dy}, any_device)["output_gradient_tensor"]
    assert result.sum() == 2 * (~empty).sum()


@pytest.mark.onnx_reference
def test_pooling_agrees_with_onnx(any_device: dml.Device) -> None:
    rng, compared = np.random.default_rng(5), 0
    for case in CASES:
        sizes, window, strides, dilations, start, end, up = case
        x = numbers(rng, sizes, np.float32)
        attributes: dict[str, Any] = {"kernel_shape": window, "strides": strides, "dilations": dilations, "pads": [*start, *end]}
        common = {"input_tensor": tensor(x), "output_tensor": outputs(case, np.float32), **members(case, dml.MaxPooling2Desc)}
        (wanted,) = onnx_outputs("MaxPool", [x], **attributes, ceil_mode=int(up))
        if wanted.shape == outputs(case, np.float32).sizes:  # ONNX drops a window that begins in the padding at the end
            result = run_in_layouts(dml.MaxPooling2Desc(**common), {"input_tensor": x}, any_device)["output_tensor"]
            np.testing.assert_array_equal(result, wanted, err_msg=str(case))
            compared += 1
        for include in (False, True):
            (wanted,) = onnx_outputs("AveragePool", [x], **attributes, ceil_mode=int(up), count_include_pad=int(include))
            if wanted.shape == outputs(case, np.float32).sizes:
                result = run_in_layouts(dml.AveragePooling1Desc(**common, include_padding=include), {"input_tensor": x}, any_device)[
                    "output_tensor"
                ]
                assert_close(result, wanted, np.float32, terms=16, what=f"{case} {include}")
                compared += 1
    assert compared > 15


def test_pooling_of_regions_as_onnx_runtime_does_it(any_device: dml.Device) -> None:
    """The values are those of ONNX Runtime 1.31.1's MaxRoiPool: rounded halves, corners outside, and a region outside altogether."""
    x = (np.arange(48, dtype=np.float32) - 60).reshape(1, 1, 6, 8)
    regions: list[list[float]] = [[0, 0, 7, 5], [1.5, 2.5, 3.5, 4.5], [-3, -3, -1, -1], [6, 4, 12, 9], [2, 2, 2, 2], [0.5, -0.5, 4.49, 1.5]]
    wanted = [
        [-42, -39, -37, -18, -15, -13],
        [-26, -25, -24, -18, -17, -16],
        [0] * 6,
        [-13, 0, 0, 0, 0, 0],
        [-42] * 6,
        [-58, -57, -56, -42, -41, -40],
    ]
    rois = np.array([[0, *region] for region in regions], np.float32)[np.newaxis, np.newaxis]
    desc = dml.ROIPoolingDesc(input_tensor=tensor(x), roi_tensor=tensor(rois), pooled_size={"width": 3, "height": 2}).with_outputs()
    result = run_in_layouts(desc, {"input_tensor": x, "roi_tensor": rois}, any_device)["output_tensor"]
    np.testing.assert_array_equal(result.reshape(len(regions), -1), wanted)


def test_pooling_of_regions_of_many_images(any_device: dml.Device) -> None:
    rng = np.random.default_rng(6)
    for dtype, scale in itertools.product((np.float32, np.float16), (1.0, 0.5)):
        x = numbers(rng, (3, 2, 9, 7), dtype)
        first, extent = rng.integers(0, 5, (8, 2)), rng.integers(0, 6, (8, 2))
        batches = rng.integers(0, 3, (8, 1))
        corners = np.concatenate([batches, (first / scale), (first + extent) / scale], axis=1)
        rois = corners.astype(dtype)[np.newaxis, np.newaxis]
        described = {"input_tensor": tensor(x), "roi_tensor": tensor(rois), "spatial_scale": scale}
        desc = dml.ROIPoolingDesc(**described, pooled_size={"width": 2, "height": 4}).with_outputs()
        result = run_in_layouts(desc, {"input_tensor": x, "roi_tensor": rois}, any_device)["output_tensor"]
        for region, c, oy, ox in np.ndindex(*result.shape):
            (left, top), (columns, rows) = first[region], extent[region] + 1
            pixels = [
                x[batches[region, 0], c, y, at]
                for y in range(top + oy * rows // 4, min(9, top + math.ceil((oy + 1) * rows / 4)))
                for at in range(left + ox * columns // 2, min(7, left + math.ceil((ox + 1) * columns / 2)))
            ]
            assert result[region, c, oy, ox] == max(pixels, default=0)


def test_regions_that_make_no_sense_are_computed_without_an_exception(any_device: dml.Device) -> None:
    x = np.ones((1, 1, 2, 2), np.float32)
    rois = np.array([[np.nan, np.inf, -np.inf, 1e38, np.nan], [-5, 3, 3, -3, -3], [7, 0, 0, 1, 1]], np.float32)[np.newaxis, np.newaxis]
    described = {"input_tensor": tensor(x), "roi_tensor": tensor(rois), "spatial_scale": 4.0}
    desc = dml.ROIPoolingDesc(**described, pooled_size={"width": 2, "height": 2}).with_outputs()
    result = run_in_layouts(desc, {"input_tensor": x, "roi_tensor": rois}, any_device)["output_tensor"]
    assert np.isin(result, (0, 1)).all()
    np.testing.assert_array_equal(result[2], [[[1, 0], [0, 0]]])


@SOME_OR_ALL
def test_every_valid_desc_computes_in_every_layout(any_device: dml.Device, every: int) -> None:
    """All but ROI_ALIGN_GRAD, of which test_region_gradients does so: images that are broadcast have samples that tie for the maximum."""
    names = [name for name in defined("pooling") if name != "ROI_ALIGN_GRAD"]
    found = failures_in_layouts(*names, sums=True, device=any_device, every=every)
    assert not found, "\n".join(found)
