"""Quantized convolutions and pooling on every device, against exact fractions and against ONNX."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import SOME_OR_ALL, Array, defined, failures_in_layouts, run_in_layouts, tensor
from tests.support.operators.quantized_products import BYTES, described, each, quantized, random, scales
from tests.support.pairwise import PAIRS_OR_ALL, chosen

# input, filter, strides, dilations, start padding, end padding, groups
CONVOLUTIONS: list[tuple[Any, ...]] = [
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 1),
    ((2, 3, 4, 5), (4, 3, 3, 2), (1, 2), (1, 1), (1, 0), (1, 1), 1),
    ((1, 4, 5, 4), (6, 2, 2, 2), (2, 1), (2, 1), (0, 2), (1, 1), 2),
    ((2, 2, 7), (3, 2, 3), (2,), (1,), (1,), (0,), 1),
    ((2, 2, 7), (3, 2, 3), (1, 2), (1, 1), (0, 1), (0, 0), 1),  # two entries for tensors without a height
    ((1, 3, 3, 4), (18, 3, 2, 2), (1, 1), (1, 1), (1, 0), (0, 1), 1),  # channels enough for tiles
]


def convolved(x: Array, filters: Array, strides: Any, dilations: Any, start: Any, sizes: tuple[int, ...], groups: int) -> Array:
    """The sums of products of differences, in Python's integers."""
    y = np.zeros(sizes, object)
    group, dims = len(filters) // groups, x.ndim - 2
    rows = (strides[-dims:], dilations[-dims:], start[-dims:])
    for out, tap in itertools.product(np.ndindex(*sizes[2:]), np.ndindex(*filters.shape[2:])):
        at = [o * s + k * d - p for o, k, s, d, p in zip(out, tap, *rows, strict=True)]
        if all(0 <= index < size for index, size in zip(at, x.shape[2:], strict=True)):
            for m in range(len(filters)):
                first = m // group * filters.shape[1]
                pixels = x[(slice(None), slice(first, first + filters.shape[1]), *at)]
                y[(slice(None), m, *out)] += pixels @ filters[(m, slice(None), *tap)]
    return y


def convolution_cases(linear: bool, every: bool) -> Iterator[tuple[dict[str, Array], dict[str, Any]]]:
    """Inputs and attributes, for every pair of types, with one scale and zero point, or with one for each channel, or without any."""
    rng = np.random.default_rng(3)
    for case, *types, kind in chosen(itertools.product(CONVOLUTIONS, BYTES, BYTES, ("one", "each", "none")), every):
        sizes, filters, *own = case
        rank, channels = len(sizes), filters[0]
        one, of_channels = (1,) * rank, (1, channels if kind == "each" else 1, *[1] * (rank - 2))
        given = {"input_tensor": random(rng, types[0], *sizes), "filter_tensor": random(rng, types[1], *filters)}
        if kind != "none":
            given |= {"input_zero_point_tensor": random(rng, types[0], *one)}
            given |= {"filter_zero_point_tensor": random(rng, types[1], *of_channels)}
        if linear:
            given |= {"input_scale_tensor": scales(rng, *one), "filter_scale_tensor": scales(rng, *of_channels)}
            given["output_scale_tensor"] = scales(rng, *one) * 40
            if kind != "none":
                given["output_zero_point_tensor"] = random(rng, "int8", *one)
                given["bias_tensor"] = rng.integers(-9999, 9999, (1, channels, *[1] * (rank - 2))).astype(np.int32)
        names = ("strides", "dilations", "start_padding", "end_padding", "group_count")
        yield given, dict(zip(names, own, strict=True))


def exact_sums(given: dict[str, Array], members: dict[str, Any], sizes: tuple[int, ...]) -> Array:
    x, filters = given["input_tensor"].astype(object), given["filter_tensor"].astype(object)
    x = x - each(given.get("input_zero_point_tensor"), 1)[0]
    zero_points = np.array(each(given.get("filter_zero_point_tensor"), len(filters)), object)
    filters = filters - zero_points.reshape(-1, *[1] * (filters.ndim - 1))
    return convolved(x, filters, members["strides"], members["dilations"], members["start_padding"], sizes, members["group_count"])


@PAIRS_OR_ALL
def test_integer_convolutions(every_device: dml.Device, every: bool) -> None:
    count = 0
    for given, members in convolution_cases(linear=False, every=every):
        desc = dml.ConvolutionIntegerDesc(**{name: tensor(array) for name, array in given.items()}, **members).with_outputs()
        assert desc.output_tensor is not None
        wanted = exact_sums(given, members, desc.output_tensor.sizes)
        np.testing.assert_array_equal(run_in_layouts(desc, given, every_device)["output_tensor"], wanted.astype(np.int32))
        count += 1
    assert count == len(CONVOLUTIONS) * 4 * 3 if every else count >= len(CONVOLUTIONS) * 3


@PAIRS_OR_ALL
def test_quantized_convolutions(every_device: dml.Device, every: bool) -> None:
    inside = total = 0
    for given, members in convolution_cases(linear=True, every=every):
        output = "int8" if "output_zero_point_tensor" in given else BYTES[total % 2]
        bare = dml.QuantizedLinearConvolutionDesc(**{name: tensor(array) for name, array in given.items()}, **members)
        shape = dml.ConvolutionIntegerDesc(input_tensor=bare.input_tensor, filter_tensor=bare.filter_tensor, **members).with_outputs()
        assert shape.output_tensor is not None
        desc = bare.replace(output_tensor=dml.TensorDesc(data_type=output.upper(), sizes=shape.output_tensor.sizes))
        exact = exact_sums(given, members, shape.output_tensor.sizes)
        channels = exact.shape[1]
        bias, filter_scale = each(given.get("bias_tensor"), channels), each(given["filter_scale_tensor"], channels)
        factor = Fraction(given["input_scale_tensor"].item()) / Fraction(given["output_scale_tensor"].item())
        zero_point = each(given.get("output_zero_point_tensor"), 1)[0]
        wanted = np.empty(exact.shape, output)
        for place in np.ndindex(*exact.shape):
            value = (exact[place] + bias[place[1]]) * Fraction(filter_scale[place[1]]) * factor
            wanted[place] = quantized(value, zero_point, output)
        np.testing.assert_array_equal(run_in_layouts(desc, given, every_device)["output_tensor"], wanted)
        limits = np.iinfo(output)
        inside, total = inside + int(((wanted > limits.min) & (wanted < limits.max)).sum()), total + wanted.size
    assert total / 10 < inside < total


@PAIRS_OR_ALL
def test_quantized_average_pooling(every_device: dml.Device, every: bool) -> None:
    rng, count = np.random.default_rng(4), 0
    members: dict[str, Any] = {
        "strides": (2, 1),
        "window_size": (3, 2),
        "start_padding": (1, 0),
        "end_padding": (0, 1),
        "dilations": (1, 2),
    }
    for *types, kind, include in chosen(itertools.product(BYTES, BYTES, ("one", "each", "none"), (False, True)), every):
        x = random(rng, types[0], 2, 3, 5, 6)
        parameter = (1, 3 if kind == "each" else 1, 1, 1)
        given = {"input_tensor": x, "input_scale_tensor": scales(rng, *parameter), "output_scale_tensor": scales(rng, *parameter)}
        if kind != "none":
            given |= {"input_zero_point_tensor": random(rng, types[0], *parameter)}
            given |= {"output_zero_point_tensor": random(rng, types[1], *parameter)}
        wanted = np.empty((2, 3, 2, 5), types[1])
        parameters = {
            name: each(given.get(f"{name}_tensor"), 3) for name in ("input_scale", "output_scale", "input_zero_point", "output_zero_point")
        }
        for n, c, oy, ox in np.ndindex(*wanted.shape):
            places = itertools.product((oy * 2 + k - 1 for k in range(3)), (ox + 2 * k for k in range(2)))
            taps = [int(x[n, c, y, at]) - parameters["input_zero_point"][c] for y, at in places if 0 <= y < 5 and at < 6]
            mean = Fraction(sum(taps), 6 if include else len(taps)) * Fraction(parameters["input_scale"][c])
            wanted[n, c, oy, ox] = quantized(mean / Fraction(parameters["output_scale"][c]), parameters["output_zero_point"][c], types[1])
        desc = described(dml.QuantizedLinearAveragePoolingDesc, given, types[1], wanted.shape, **members, include_padding=include)
        np.testing.assert_array_equal(run_in_layouts(desc, given, every_device)["output_tensor"], wanted)
        count += 1
    assert count == 4 * 3 * 2 if every else count >= 3 * 2


def test_a_scale_or_zero_point_of_fewer_dimensions_lies_along_any(every_device: dml.Device) -> None:
    rng = np.random.default_rng(5)
    x, filters = random(rng, "uint8", 1, 2, 4, 4), random(rng, "int8", 3, 2, 2, 2)
    common = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), "group_count": 1}
    results = []
    for sizes in ((1, 3, 1, 1), (3,), (3, 1), (1, 1, 3)):
        zero = np.array([-5, 7, 100], np.int8).reshape(sizes)
        given = {"input_tensor": x, "filter_tensor": filters, "filter_zero_point_tensor": zero}
        desc = described(dml.ConvolutionIntegerDesc, given, "int32", (1, 3, 3, 3), **common)
        results.append(run_in_layouts(desc, given, every_device)["output_tensor"])
    assert all(np.array_equal(results[0], other) for other in results[1:])
    assert len({int(channel.sum()) for channel in results[0][0]}) == 3


@pytest.mark.parametrize("filters", [(3, 4, 3, 5), (4, 1, 3, 5), (3, 4, 3, 1), (4, 1, 1, 1)])
def test_steps_of_one_position_or_one_tap_have_any_length(every_device: dml.Device, filters: tuple[int, ...]) -> None:
    rng, any_step = np.random.default_rng(7), 2**32 - 1
    given = {"input_tensor": random(rng, "uint8", 2, 4, 3, 5), "filter_tensor": random(rng, "int8", *filters)}
    taps, positions = filters[2:], [size - window + 1 for size, window in zip((3, 5), filters[2:], strict=True)]
    own = {"start_padding": (0, 0), "end_padding": (0, 0), "group_count": 4 // filters[1]}
    results = []
    for step in (1, any_step):
        strides = [1 if count > 1 else step for count in positions]
        dilations = [1 if count > 1 else step for count in taps]
        desc = described(
            dml.ConvolutionIntegerDesc, given, "int32", (2, filters[0], *positions), strides=strides, dilations=dilations, **own
        )
        results.append(run_in_layouts(desc, given, every_device)["output_tensor"])
    np.testing.assert_array_equal(results[1], results[0])
    assert results[0].any()


@pytest.mark.onnx_reference
def test_convolutions_agree_with_onnx(every_device: dml.Device) -> None:
    rng = np.random.default_rng(6)
    x, filters = random(rng, "uint8", 1, 2, 5, 5), random(rng, "uint8", 3, 2, 3, 3)
    zero = np.array(7, np.uint8)
    (wanted,) = onnx_outputs("ConvInteger", [x, filters, zero], pads=[1, 0, 1, 0], strides=[1, 2])
    own = {"strides": (1, 2), "dilations": (1, 1), "start_padding": (1, 0), "end_padding": (1, 0)}
    given = {"input_tensor": x, "input_zero_point_tensor": zero.reshape(1), "filter_tensor": filters}
    desc = described(dml.ConvolutionIntegerDesc, given, "int32", wanted.shape, **own)
    np.testing.assert_array_equal(run_in_layouts(desc, given, every_device)["output_tensor"], wanted)


@SOME_OR_ALL
def test_every_valid_desc_computes_in_every_layout(every_device: dml.Device, every: int) -> None:
    found = failures_in_layouts(*defined("quantized.products"), sums=True, device=every_device, every=every)
    assert not found, "\n".join(found)
