"""Resampling on every device against exact coordinates in fractions, one weight after the other, and against ONNX's Resize."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import Array, layouts, run
from tests.support.tolerance import assert_close

# Input sizes, output sizes, scales, input offsets, output offsets.
CASES: list[tuple[list[int], list[int], list[float], list[float], list[float]]] = [
    ([2, 3, 5, 8], [2, 3, 10, 4], [1, 1, 2, 0.5], [0.5, 0.5, 0.25, 0.5], [-0.5, -0.5, -0.25, 0]),
    ([5], [8], [1.6], [0.5], [-0.5]),
    ([1], [7], [7], [0.5], [-0.5]),
    ([7], [1], [0.14], [0.5], [-0.5]),
    ([9], [9], [1], [0], [0]),
    ([3, 4], [12, 17], [4, 4], [0.5, 0.5], [-0.5, -0.5]),
    ([20], [6], [0.3], [0.5], [-0.5]),
    ([20], [6], [0.3], [0.5], [0]),
    ([20], [70], [3.3], [0], [0]),
    ([31, 3], [10, 4], [0.32, 1.25], [0.75, 0], [-0.5, 0.5]),
    ([6], [20], [2], [0.5], [-0.5]),
    ([6], [9], [-1], [0], [6]),
    ([4, 2, 3], [3, 5, 2], [0.7, 2.5, 0.9], [-3, 2, 0.5], [-1.5, 0.25, 4]),
    ([2, 16, 20], [2, 4, 4], [1, 0.25, 0.2], [0.5, 0.5, 0.5], [-0.5, -0.5, -0.5]),
    ([17], [3], [0.05], [0.5], [-4]),
]
ROUNDING = {"NEAREST": lambda x: math.floor(x + Fraction(1, 2)), "INCREASING": math.ceil, "DECREASING": math.floor}


def weights(size: int, output_size: int, numbers: tuple[float, float, float], mode: str) -> Array:
    """What each input element counts in each output element: [output_size, size]."""
    scale, input_offset, output_offset = (Fraction(str(number)) for number in numbers)
    found = np.zeros((output_size, size))
    for output in range(output_size):
        x = (output - output_offset) / scale - input_offset
        radius = max(Fraction(1), 1 / abs(scale)) if mode == "STRETCHED" else Fraction(1)
        if mode in ROUNDING:
            shares = {ROUNDING[mode](x): Fraction(1)}
        else:
            taps = range(math.floor(x - radius), math.ceil(x + radius) + 1)
            shares = {tap: max(Fraction(0), 1 - abs(tap - x) / radius) for tap in taps}
        for tap, share in shares.items():
            found[output, min(max(tap, 0), size - 1)] += float(share / sum(shares.values()))
    return found


def applied(array: Array, matrices: list[Array]) -> Array:
    """An array times a matrix [output, input] along each axis."""
    for axis, matrix in enumerate(matrices):
        array = np.moveaxis(np.tensordot(matrix, array, (1, axis)), 0, axis)
    return array


def tensor(sizes: list[int], data_type: str) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes)


def kinds() -> list[tuple[Any, dict[str, Any], str]]:
    """Operators with pixel offsets: their additional members, and the oracle's names for them."""
    forward = [dml.Resample1Desc, dml.ResampleGradDesc]
    directed = [dml.Resample2Desc, dml.Resample3Desc, dml.ResampleGrad1Desc]
    found: list[tuple[Any, dict[str, Any], str]] = []
    for kind in forward:
        found += [(kind, {"interpolation_mode": "NEAREST_NEIGHBOR"}, "NEAREST"), (kind, {"interpolation_mode": "LINEAR"}, "LINEAR")]
    for kind in directed:
        found.append((kind, {"interpolation_mode": "LINEAR", "rounding_direction": "DECREASING"}, "LINEAR"))
        found += [
            (kind, {"interpolation_mode": "NEAREST_NEIGHBOR", "rounding_direction": way}, way) for way in ("INCREASING", "DECREASING")
        ]
    stretched = {"interpolation_mode": "LINEAR", "antialiased": True}
    nearest = {"interpolation_mode": "NEAREST_NEIGHBOR", "rounding_direction": "DECREASING", "antialiased": True}
    return [*found, (dml.Resample3Desc, stretched, "STRETCHED"), (dml.Resample3Desc, nearest, "DECREASING")]


@pytest.mark.parametrize(
    ("number", "data_type"),
    [
        pytest.param(number, data_type, marks=[pytest.mark.slow] * (place != number % 2))
        for number in range(len(CASES))
        for place, data_type in enumerate(("FLOAT32", "FLOAT16"))
    ],
)
def test_every_operator_weighs_what_exact_coordinates_say(any_device: dml.Device, number: int, data_type: str) -> None:
    rng = np.random.default_rng(5)
    sizes, output_sizes, scales, input_offsets, output_offsets = CASES[number]
    dimensions = list(zip(scales, input_offsets, output_offsets, strict=True))
    modes = {mode for _, _, mode in kinds()}
    axes = list(zip(sizes, output_sizes, dimensions, strict=True))
    matrices = {mode: [weights(*axis, mode) for axis in axes] for mode in modes}
    offsets = {"input_pixel_offsets": input_offsets, "output_pixel_offsets": output_offsets}
    given, made = tensor(sizes, data_type), tensor(output_sizes, data_type)
    for kind, members, mode in kinds():
        if "GRAD" in kind.short_name():
            names, (first, second) = ("input_gradient_tensor", "output_gradient_tensor"), (made, given)
            used = [matrix.T for matrix in matrices[mode]]
        else:
            names, (first, second), used = ("input_tensor", "output_tensor"), (given, made), matrices[mode]
        array = rng.normal(0, 3, first.sizes).astype(first.data_type.numpy)
        desc = kind(**{names[0]: first, names[1]: second}, scales=scales, **members, **offsets)
        wanted = applied(array.astype(np.float64), used)
        for own in layouts(desc):
            found = run(own, {names[0]: array}, any_device)[names[1]]
            assert_close(found, wanted, array.dtype, terms=array.size, what=f"{kind.short_name()} {members}")


def test_gradients_are_the_adjoints(any_device: dml.Device) -> None:
    """<resampled x, g> = <x, gradient of g>, for RESAMPLE2 and its gradient, with an input that is one element, broadcast."""
    rng = np.random.default_rng(6)
    for mode in ("NEAREST_NEIGHBOR", "LINEAR"):
        for sizes, output_sizes, scales, input_offsets, output_offsets in CASES:
            members: dict[str, Any] = {"interpolation_mode": mode, "rounding_direction": "INCREASING", "scales": scales}
            members |= {"input_pixel_offsets": input_offsets, "output_pixel_offsets": output_offsets}
            x, g = rng.normal(size=sizes).astype(np.float32), rng.normal(size=output_sizes).astype(np.float32)
            given, made = tensor(sizes, "FLOAT32"), tensor(output_sizes, "FLOAT32")
            y = run(dml.Resample2Desc(input_tensor=given, output_tensor=made, **members), {"input_tensor": x}, any_device)["output_tensor"]
            gradient = dml.ResampleGrad1Desc(input_gradient_tensor=made, output_gradient_tensor=given, **members)
            dx = run(gradient, {"input_gradient_tensor": g}, any_device)["output_gradient_tensor"]
            size = np.linalg.norm(y.astype(np.float64)) * np.linalg.norm(g)
            assert abs(np.vdot(y.astype(np.float64), g) - np.vdot(x.astype(np.float64), dx)) < 1e-6 * size


def test_centred_operators_are_those_with_the_offsets_of_centres(any_device: dml.Device) -> None:
    rng = np.random.default_rng(7)
    for mode, way in (("NEAREST_NEIGHBOR", "NEAREST"), ("LINEAR", "LINEAR")):
        for sizes, output_sizes, scales, _, _ in CASES:
            array = rng.normal(size=sizes).astype(np.float32)
            matrices = [weights(*own, way) for own in zip(sizes, output_sizes, [(scale, 0.5, -0.5) for scale in scales], strict=True)]
            desc = dml.ResampleDesc(
                input_tensor=tensor(sizes, "FLOAT32"), output_tensor=tensor(output_sizes, "FLOAT32"), interpolation_mode=mode, scales=scales
            )
            for own in layouts(desc):
                wanted = applied(array.astype(np.float64), matrices)
                assert_close(
                    run(own, {"input_tensor": array}, any_device)["output_tensor"],
                    wanted,
                    np.float32,
                    terms=array.size,
                    what=f"{mode} {sizes}",
                )
        for sizes, width, height in (([2, 3, 5, 7], 3, 2), ([1, 2, 3, 4, 1], 1, 4), ([1, 1, 1, 3], 5, 1)):
            for data_type in ("FLOAT32", "FLOAT16"):
                upsampled = dml.Upsample2DDesc(
                    input_tensor=tensor(sizes, data_type), scale_size={"width": width, "height": height}, interpolation_mode=mode
                ).with_outputs()
                array = rng.normal(size=sizes).astype(data_type.lower())
                if mode == "NEAREST_NEIGHBOR":
                    wanted = array.repeat(height, -2).repeat(width, -1).astype(np.float64)
                else:
                    outputs = [*sizes[:-2], sizes[-2] * height, sizes[-1] * width]
                    numbers = [(scale, 0.5, -0.5) for scale in [1] * (len(sizes) - 2) + [height, width]]
                    wanted = applied(array.astype(np.float64), [weights(*own, way) for own in zip(sizes, outputs, numbers, strict=True)])
                for own in layouts(upsampled):
                    assert_close(
                        run(own, {"input_tensor": array}, any_device)["output_tensor"], wanted, array.dtype, terms=4, what=f"{mode} {sizes}"
                    )


@pytest.mark.onnx_reference
def test_onnx_resizes_alike(any_device: dml.Device) -> None:
    """`Resize` of ONNX's reference, where DirectML has the same coordinates and roundings."""
    rng, offsets = np.random.default_rng(8), {"half_pixel": (0.5, -0.5), "asymmetric": (0.0, 0.0)}
    table: list[tuple[str, str, dict[str, Any]]] = [
        ("linear", "half_pixel", {"interpolation_mode": "LINEAR"}),
        ("linear", "asymmetric", {"interpolation_mode": "LINEAR"}),
        ("linear", "half_pixel", {"interpolation_mode": "LINEAR", "antialiased": True}),
        ("nearest", "half_pixel", {"interpolation_mode": "NEAREST_NEIGHBOR", "rounding_direction": "DECREASING"}),
        ("nearest", "asymmetric", {"interpolation_mode": "NEAREST_NEIGHBOR", "rounding_direction": "INCREASING"}),
    ]
    for scales in ([1.0, 0.625], [2.0, 0.25], [1.5, 3.0], [0.125, 0.75]):
        for mode, transformation, members in table:
            x = rng.normal(size=(8, 10)).astype(np.float32)
            attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transformation}
            attributes["antialias"] = int(members.get("antialiased", False))
            if mode == "nearest":
                attributes["nearest_mode"] = "floor" if members["rounding_direction"] == "DECREASING" else "ceil"
            (wanted,) = onnx_outputs("Resize", [x, None, np.array(scales, np.float32)], **attributes)
            before, after = ([offset] * 2 for offset in offsets[transformation])
            desc = dml.Resample3Desc(
                input_tensor=dml.TensorDesc.of(x),
                output_tensor=dml.TensorDesc.of(wanted),
                scales=scales,
                input_pixel_offsets=before,
                output_pixel_offsets=after,
                **members,
            )
            assert_close(
                run(desc, {"input_tensor": x}, any_device)["output_tensor"], wanted, np.float32, terms=100, what=f"{attributes} {scales}"
            )


def test_integers_are_kept_or_rounded(any_device: dml.Device) -> None:
    rng = np.random.default_rng(9)
    for data_type in ("INT8", "UINT8"):
        limits = np.iinfo(data_type.lower())
        array = rng.integers(limits.min, limits.max, (2, 5, 8), data_type.lower(), endpoint=True)
        array[0, 0, :2] = limits.min, limits.max
        for mode, way in (("NEAREST_NEIGHBOR", "NEAREST"), ("LINEAR", "LINEAR")):
            scales, outputs = [1.0, 2.0, 0.5], [2, 10, 4]
            numbers = [(scale, 0.5, -0.5) for scale in scales]
            matrices = [weights(*own, way) for own in zip(array.shape, outputs, numbers, strict=True)]
            desc = dml.ResampleDesc(
                input_tensor=tensor([2, 5, 8], data_type), output_tensor=tensor(outputs, data_type), interpolation_mode=mode, scales=scales
            )
            for own in layouts(desc):
                wanted = np.rint(applied(array.astype(np.float64), matrices))
                np.testing.assert_array_equal(run(own, {"input_tensor": array}, any_device)["output_tensor"], wanted, mode)


def along(device: dml.Device, scale: float, x: Array, size: int, **members: Any) -> Array:
    """A line resampled with pixels' centres."""
    own: dict[str, Any] = {"interpolation_mode": "NEAREST_NEIGHBOR", "input_pixel_offsets": [0.5], "output_pixel_offsets": [-0.5]}
    output = tensor([size], "FLOAT32")
    desc = dml.Resample3Desc(input_tensor=dml.TensorDesc.of(x), output_tensor=output, scales=[scale], **own | members)
    return run(desc, {"input_tensor": x}, device)["output_tensor"]


def test_a_scale_rounded_to_float_chooses_the_same_neighbours(any_device: dml.Device) -> None:
    x = np.arange(200, dtype=np.float32)
    for scale in (0.1, 0.3, 1 / 3, 0.7, 1.1, 3.3, 1 / 7):
        for way in ("INCREASING", "DECREASING"):
            exact, rounded = (along(any_device, own, x, 60, rounding_direction=way) for own in (scale, float(np.float32(scale))))
            np.testing.assert_array_equal(exact, rounded, f"{scale} {way}")


def test_what_is_not_finite_stays_where_it_is(any_device: dml.Device) -> None:
    x = np.array([1, np.inf, 2, 3, np.nan, 4, -np.inf], np.float32)
    np.testing.assert_array_equal(along(any_device, 1, x, 7, interpolation_mode="LINEAR"), x)
    wanted = [1, np.inf, np.inf, np.inf, np.inf, 2.25, 2.75, np.nan, np.nan, np.nan, np.nan, -np.inf, -np.inf, -np.inf]
    np.testing.assert_array_equal(along(any_device, 2, x, 14, interpolation_mode="LINEAR"), wanted)


def test_scales_that_no_image_has_still_read_the_input(any_device: dml.Device) -> None:
    x = np.array([5, 7, 6, 9], np.float32)
    for scale in (0.0, -0.0, -2.0, math.inf, -math.inf, math.nan, 1e-40, 1e-6, 1e30):
        for members in ({}, {"interpolation_mode": "LINEAR"}, {"interpolation_mode": "LINEAR", "antialiased": True}):
            found = along(any_device, scale, x, 6, **members)
            assert ((found >= 5) & (found <= 9)).all(), f"{scale} {members}: {found}"


def test_value_scale(any_device: dml.Device) -> None:
    rng = np.random.default_rng(10)
    for data_type in ("FLOAT32", "FLOAT16"):
        for sizes, bias in (([2, 3, 5, 7], [0.5, -1.25, 3.1]), ([1, 1, 4, 1], [2.5])):
            desc = dml.ValueScale2DDesc(input_tensor=tensor(sizes, data_type), scale=1.7, bias=bias).with_outputs()
            x = rng.normal(size=sizes).astype(data_type.lower())
            for own in layouts(desc):
                wanted = 1.7 * x.astype(np.float64) + np.reshape(bias, (-1, 1, 1))
                assert_close(run(own, {"input_tensor": x}, any_device)["output_tensor"], wanted, x.dtype)
