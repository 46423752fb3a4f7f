"""Quantized products on whole arrays, against exact fractions and against ONNX."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.layout_runs import Array, defined, failures_in_layouts, run_in_layouts, tensor
from tests.support.onnx_reference import onnx_outputs
from tests.support.tolerance import assert_close

BYTES = ("uint8", "int8")


def random(rng: np.random.Generator, dtype: str, *sizes: int) -> Array:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)


def scales(rng: np.random.Generator, *sizes: int) -> Array:
    return rng.uniform(0.001, 0.1, sizes).astype(np.float32)


def quantized(value: Fraction, zero_point: int, dtype: str) -> int:
    """A number, rounded with halves to even, in the range of a type."""
    limits = np.iinfo(dtype)
    return min(max(round(value) + zero_point, int(limits.min)), int(limits.max))


def each(array: Array | None, count: int) -> list[Any]:
    """A scale or zero point for each row, column or channel, as Python's numbers; absent, zeros."""
    if array is None:
        return [0] * count
    values = array.reshape(-1).tolist()
    return values * count if len(values) == 1 else values


def matrix_cases(output: str | None, types: tuple[str, ...] = BYTES) -> Iterator[dict[str, Array]]:
    """Matrices of every rank and pair of types, with one scale and zero point or with one for each row and column, or without any."""
    rng = np.random.default_rng(1)
    for (a_type, b_type), batch, kind in itertools.product(itertools.product(types, repeat=2), ((), (2,), (2, 3)), ("one", "each", "none")):
        m, k, n = 3, 5, 4
        rank = len(batch) + 2
        ones = (1,) * (rank - 2)
        rows, columns = ((*ones, m, 1), (*ones, 1, n)) if kind == "each" else ((1,) * rank, (1,) * rank)
        given = {"a_tensor": random(rng, a_type, *batch, m, k), "b_tensor": random(rng, b_type, *batch, k, n)}
        if kind != "none":
            given |= {"a_zero_point_tensor": random(rng, a_type, *rows), "b_zero_point_tensor": random(rng, b_type, *columns)}
        if output is not None:
            given |= {"a_scale_tensor": scales(rng, *rows), "b_scale_tensor": scales(rng, *columns)}
        if output in BYTES:
            given["output_scale_tensor"] = scales(rng, *rows) * 40
            if kind != "none":
                given["output_zero_point_tensor"] = random(rng, output, *rows)
        yield given


def sums(given: dict[str, Array]) -> Array:
    """The product of the differences, in Python's integers."""
    a, b = given["a_tensor"].astype(object), given["b_tensor"].astype(object)
    (m, _), n = a.shape[-2:], b.shape[-1]
    az, bz = each(given.get("a_zero_point_tensor"), m), each(given.get("b_zero_point_tensor"), n)
    return np.matmul(a - np.array(az, object)[:, np.newaxis], b - np.array(bz, object))


def scaled(given: dict[str, Array]) -> Array:
    """The dequantized product, in fractions."""
    exact = sums(given)
    for name, count, axis in (("a", exact.shape[-2], 1), ("b", exact.shape[-1], 0)):
        factors = np.array([Fraction(scale) for scale in each(given[f"{name}_scale_tensor"], count)], object)
        exact = exact * np.expand_dims(factors, axis)
    return exact


def described(kind: Callable[..., Any], given: dict[str, Array], output: str, sizes: tuple[int, ...], **members: Any) -> Any:
    tensors = {name: tensor(array) for name, array in given.items()}
    return kind(**tensors, output_tensor=dml.TensorDesc(data_type=output.upper(), sizes=sizes), **members)


def test_integer_products() -> None:
    cases = list(matrix_cases(None))
    for given in cases:
        desc = described(dml.MatrixMultiplyIntegerDesc, given, "int32", (*given["a_tensor"].shape[:-1], 4))
        np.testing.assert_array_equal(run_in_layouts(desc, given)["output_tensor"], sums(given).astype(np.int32))
    assert len(cases) == 4 * 3 * 3


def test_integer_products_as_floats() -> None:
    rng, count = np.random.default_rng(2), 0
    for types in (BYTES, ("int32", "int16"), ("uint32", "uint16")):
        for given in matrix_cases("float32", types):
            dtype = np.float16 if count % 2 and types is BYTES else np.float32
            own = {name: array.astype(dtype) if "scale" in name else array for name, array in given.items()}
            sizes = (*own["a_tensor"].shape[:-1], 4)
            wanted = scaled(own).astype(np.float64)
            if count % 3:
                own["bias_tensor"] = rng.normal(size=sizes).astype(dtype)
                wanted = wanted + own["bias_tensor"]
            desc = described(dml.MatrixMultiplyIntegerToFloatDesc, own, np.dtype(dtype).name, sizes)
            assert_close(run_in_layouts(desc, own)["output_tensor"], wanted, dtype, terms=8, what=f"{count}")
            count += 1
    assert count == 3 * 4 * 3 * 3


def test_quantized_products() -> None:
    for output in BYTES:
        inside = total = 0
        for given in matrix_cases(output):
            exact = scaled(given)
            out_scale, out_zero = each(given["output_scale_tensor"], 3), each(given.get("output_zero_point_tensor"), 3)
            wanted = np.empty(exact.shape, output)
            for place in np.ndindex(*exact.shape):
                row = place[-2]
                wanted[place] = quantized(exact[place] / Fraction(out_scale[row]), out_zero[row], output)
            desc = described(dml.QuantizedLinearMatrixMultiplyDesc, given, output, exact.shape)
            np.testing.assert_array_equal(run_in_layouts(desc, given)["output_tensor"], wanted)
            limits = np.iinfo(output)
            inside, total = inside + int(((wanted > limits.min) & (wanted < limits.max)).sum()), total + wanted.size
        assert total / 10 < inside < total  # some are clipped, some not


# input, filter, strides, dilations, start padding, end padding, groups
CONVOLUTIONS: list[tuple[Any, ...]] = [
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 1),
    ((2, 3, 4, 5), (4, 3, 3, 2), (1, 2), (1, 1), (1, 0), (1, 1), 1),
    ((1, 4, 5, 4), (6, 2, 2, 2), (2, 1), (2, 1), (0, 2), (1, 1), 2),
    ((2, 2, 7), (3, 2, 3), (2,), (1,), (1,), (0,), 1),
    ((2, 2, 7), (3, 2, 3), (1, 2), (1, 1), (0, 1), (0, 0), 1),  # two entries for tensors without a height
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


def convolution_cases(linear: bool) -> Iterator[tuple[dict[str, Array], dict[str, Any]]]:
    """Inputs and attributes, for every pair of types, with one scale and zero point, or with one for each channel, or without any."""
    rng = np.random.default_rng(3)
    for (case, types), kind in itertools.product(
        itertools.product(CONVOLUTIONS, itertools.product(BYTES, repeat=2)), ("one", "each", "none")
    ):
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


def test_integer_convolutions() -> None:
    count = 0
    for given, members in convolution_cases(linear=False):
        desc = dml.ConvolutionIntegerDesc(**{name: tensor(array) for name, array in given.items()}, **members).with_outputs()
        assert desc.output_tensor is not None
        wanted = exact_sums(given, members, desc.output_tensor.sizes)
        np.testing.assert_array_equal(run_in_layouts(desc, given)["output_tensor"], wanted.astype(np.int32))
        count += 1
    assert count == len(CONVOLUTIONS) * 4 * 3


def test_quantized_convolutions() -> None:
    inside = total = 0
    for given, members in convolution_cases(linear=True):
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
        np.testing.assert_array_equal(run_in_layouts(desc, given)["output_tensor"], wanted)
        limits = np.iinfo(output)
        inside, total = inside + int(((wanted > limits.min) & (wanted < limits.max)).sum()), total + wanted.size
    assert total / 10 < inside < total


def test_quantized_average_pooling() -> None:
    rng, count = np.random.default_rng(4), 0
    members: dict[str, Any] = {
        "strides": (2, 1),
        "window_size": (3, 2),
        "start_padding": (1, 0),
        "end_padding": (0, 1),
        "dilations": (1, 2),
    }
    for types, kind, include in itertools.product(itertools.product(BYTES, repeat=2), ("one", "each", "none"), (False, True)):
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
        np.testing.assert_array_equal(run_in_layouts(desc, given)["output_tensor"], wanted)
        count += 1
    assert count == 4 * 3 * 2


def test_sums_of_32_bits_wrap_around() -> None:
    a, b = np.full((1, 1 << 16), 255, np.uint8), np.full((1 << 16, 1), 255, np.uint8)
    desc = described(dml.MatrixMultiplyIntegerDesc, {"a_tensor": a, "b_tensor": b}, "int32", (1, 1))
    result = run_in_layouts(desc, {"a_tensor": a, "b_tensor": b})["output_tensor"]
    assert result.item() == (255 * 255 << 16) - (1 << 32)


def test_a_scale_or_zero_point_of_fewer_dimensions_lies_along_any() -> None:
    rng = np.random.default_rng(5)
    x, filters = random(rng, "uint8", 1, 2, 4, 4), random(rng, "int8", 3, 2, 2, 2)
    common = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), "group_count": 1}
    results = []
    for sizes in ((1, 3, 1, 1), (3,), (3, 1), (1, 1, 3)):
        zero = np.array([-5, 7, 100], np.int8).reshape(sizes)
        given = {"input_tensor": x, "filter_tensor": filters, "filter_zero_point_tensor": zero}
        desc = described(dml.ConvolutionIntegerDesc, given, "int32", (1, 3, 3, 3), **common)
        results.append(run_in_layouts(desc, given)["output_tensor"])
    assert all(np.array_equal(results[0], other) for other in results[1:])
    assert len({int(channel.sum()) for channel in results[0][0]}) == 3


@pytest.mark.onnx_reference
def test_products_agree_with_onnx() -> None:
    rng = np.random.default_rng(6)
    a, b = random(rng, "uint8", 2, 3, 4), random(rng, "int8", 2, 4, 5)
    az, bz = np.array(130, np.uint8), np.array(-3, np.int8)
    given = {"a_tensor": a, "a_zero_point_tensor": az.reshape(1), "b_tensor": b, "b_zero_point_tensor": bz.reshape(1)}
    (wanted,) = onnx_outputs("MatMulInteger", [a, b, az, bz])
    desc = described(dml.MatrixMultiplyIntegerDesc, given, "int32", (2, 3, 5))
    np.testing.assert_array_equal(run_in_layouts(desc, given)["output_tensor"], wanted)
    x, filters = random(rng, "uint8", 1, 2, 5, 5), random(rng, "uint8", 3, 2, 3, 3)
    zero = np.array(7, np.uint8)
    (wanted,) = onnx_outputs("ConvInteger", [x, filters, zero], pads=[1, 0, 1, 0], strides=[1, 2])
    own = {"strides": (1, 2), "dilations": (1, 1), "start_padding": (1, 0), "end_padding": (1, 0)}
    given = {"input_tensor": x, "input_zero_point_tensor": zero.reshape(1), "filter_tensor": filters}
    desc = described(dml.ConvolutionIntegerDesc, given, "int32", wanted.shape, **own)
    np.testing.assert_array_equal(run_in_layouts(desc, given)["output_tensor"], wanted)


def test_every_valid_desc_computes_in_every_layout() -> None:
    found = failures_in_layouts(*defined("quantized.products"), sums=True)
    assert not found, "\n".join(found)
