"""Products of matrices of quantized numbers on each device, against exact fractions and against ONNX."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import SOME_OR_ALL, Array, failures_in_layouts, run, run_in_layouts
from tests.support.operators.quantized_products import BYTES, described, each, quantized, random, scales
from tests.support.pairwise import PAIRS_OR_ALL, chosen
from tests.support.tolerance import assert_close

OPERATORS = ("MATRIX_MULTIPLY_INTEGER", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "QUANTIZED_LINEAR_MATRIX_MULTIPLY")


def matrix_cases(output: str | None, types: tuple[str, ...] = BYTES, *, every: bool) -> Iterator[dict[str, Array]]:
    """Matrices of every rank and pair of types, with one scale and zero point or with one for each row and column, or without any."""
    rng = np.random.default_rng(1)
    for a_type, b_type, batch, kind in chosen(itertools.product(types, types, ((), (2,), (2, 3)), ("one", "each", "none")), every):
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


@PAIRS_OR_ALL
def test_integer_products(every_device: dml.Device, every: bool) -> None:
    cases = list(matrix_cases(None, every=every))
    for given in cases:
        desc = described(dml.MatrixMultiplyIntegerDesc, given, "int32", (*given["a_tensor"].shape[:-1], 4))
        np.testing.assert_array_equal(run_in_layouts(desc, given, every_device)["output_tensor"], sums(given).astype(np.int32))
    assert len(cases) == 4 * 3 * 3 if every else len(cases) >= 9


@PAIRS_OR_ALL
def test_integer_products_as_floats(every_device: dml.Device, every: bool) -> None:
    rng, count = np.random.default_rng(2), 0
    for types in (BYTES, ("int32", "int16"), ("uint32", "uint16")):
        for given in matrix_cases("float32", types, every=every):
            dtype = np.float16 if count % 2 and types is BYTES else np.float32
            own: dict[str, Array] = {name: array.astype(dtype) if "scale" in name else array for name, array in given.items()}
            sizes = (*own["a_tensor"].shape[:-1], 4)
            wanted = scaled(own).astype(np.float64)
            if count % 3:
                own["bias_tensor"] = rng.normal(size=sizes).astype(dtype)
                wanted = wanted + own["bias_tensor"]
            desc = described(dml.MatrixMultiplyIntegerToFloatDesc, own, np.dtype(dtype).name, sizes)
            assert_close(run_in_layouts(desc, own, every_device)["output_tensor"], wanted, dtype, terms=8, what=f"{count}")
            count += 1
    assert count == 3 * 4 * 3 * 3 if every else count >= 3 * 9


@PAIRS_OR_ALL
def test_quantized_products(every_device: dml.Device, every: bool) -> None:
    for output in BYTES:
        inside = total = 0
        for given in matrix_cases(output, every=every):
            exact = scaled(given)
            out_scale, out_zero = each(given["output_scale_tensor"], 3), each(given.get("output_zero_point_tensor"), 3)
            wanted = np.empty(exact.shape, output)
            for place in np.ndindex(*exact.shape):
                row = place[-2]
                wanted[place] = quantized(exact[place] / Fraction(out_scale[row]), out_zero[row], output)
            desc = described(dml.QuantizedLinearMatrixMultiplyDesc, given, output, exact.shape)
            np.testing.assert_array_equal(run_in_layouts(desc, given, every_device)["output_tensor"], wanted)
            limits = np.iinfo(output)
            inside, total = inside + int(((wanted > limits.min) & (wanted < limits.max)).sum()), total + wanted.size
        assert total / 10 < inside < total  # some are clipped, some not


def test_sums_of_32_bits_wrap_around(every_device: dml.Device) -> None:
    terms = 34_000
    a, b = np.full((1, terms), 255, np.uint8), np.full((terms, 1), 255, np.uint8)
    desc = described(dml.MatrixMultiplyIntegerDesc, {"a_tensor": a, "b_tensor": b}, "int32", (1, 1))
    result = run(desc, {"a_tensor": a, "b_tensor": b}, every_device)["output_tensor"]
    assert result.item() == 255 * 255 * terms - (1 << 32)


@pytest.mark.onnx_reference
def test_products_agree_with_onnx(every_device: dml.Device) -> None:
    rng = np.random.default_rng(6)
    a, b = random(rng, "uint8", 2, 3, 4), random(rng, "int8", 2, 4, 5)
    az, bz = np.array(130, np.uint8), np.array(-3, np.int8)
    given = {"a_tensor": a, "a_zero_point_tensor": az.reshape(1), "b_tensor": b, "b_zero_point_tensor": bz.reshape(1)}
    (wanted,) = onnx_outputs("MatMulInteger", [a, b, az, bz])
    desc = described(dml.MatrixMultiplyIntegerDesc, given, "int32", (2, 3, 5))
    np.testing.assert_array_equal(run_in_layouts(desc, given, every_device)["output_tensor"], wanted)


@SOME_OR_ALL
def test_every_valid_desc_computes_in_every_layout(every_device: dml.Device, every: int) -> None:
    found = failures_in_layouts(*OPERATORS, sums=True, device=every_device, every=every)
    assert not found, "\n".join(found)


# type, operator, output, terms: the products of the largest numbers sum up to nearly 2^31, to more, or to more than 2^32
LONG = [
    ("uint8", dml.QuantizedLinearMatrixMultiplyDesc, "uint8", 2**15),
    pytest.param("uint8", dml.MatrixMultiplyIntegerToFloatDesc, "float32", 2**15, marks=pytest.mark.slow),
    pytest.param("uint8", dml.QuantizedLinearMatrixMultiplyDesc, "uint8", 34_000, marks=pytest.mark.slow),
    ("uint8", dml.MatrixMultiplyIntegerToFloatDesc, "float32", 34_000),
    ("uint16", dml.MatrixMultiplyIntegerToFloatDesc, "float32", 40),
    ("uint32", dml.MatrixMultiplyIntegerToFloatDesc, "float32", 40),
]


@pytest.mark.parametrize(("dtype", "kind", "output", "terms"), LONG)
def test_sums_of_32_bits_and_beyond_are_exact_where_they_are_scaled(
    every_device: dml.Device, dtype: str, kind: Any, output: str, terms: int
) -> None:
    top = int(np.iinfo(dtype).max)
    given = {"a_tensor": np.full((1, terms), top, dtype), "b_tensor": np.full((terms, 1), top, dtype)}
    one = np.ones((1, 1), np.float32)
    given |= {"a_scale_tensor": one, "b_scale_tensor": one}
    exact = top**2 * terms
    if output == "uint8":
        given["output_scale_tensor"] = np.full((1, 1), exact / 100, np.float32)
    result = run(described(kind, given, output, (1, 1)), given, every_device)["output_tensor"]
    assert result.item() == (100 if output == "uint8" else np.float32(exact))


def test_scaled_sums_are_rounded_once(every_device: dml.Device) -> None:
    """In float each factor's rounding shows; in double, which the definition has, the results are the same bit for bit."""
    rng = np.random.default_rng(7)
    given = {"a_tensor": random(rng, "int8", 20, 30), "b_tensor": random(rng, "uint8", 30, 20)}
    given |= {"a_scale_tensor": scales(rng, 20, 1), "b_scale_tensor": scales(rng, 1, 20)}
    given["bias_tensor"] = rng.normal(size=(20, 20)).astype(np.float32)
    desc = described(dml.MatrixMultiplyIntegerToFloatDesc, given, "float32", (20, 20))
    exact = scaled(given) + np.vectorize(Fraction, otypes=[object])(given["bias_tensor"].astype(object))
    result = run_in_layouts(desc, given, every_device)["output_tensor"]
    np.testing.assert_array_equal(result, exact.astype(np.float64).astype(np.float32))


def test_halves_are_where_the_exact_quotient_has_them(every_device: dml.Device) -> None:
    """sum * 0.1 / 0.2 is half an odd sum, and rounds to even."""
    sums_of_row = np.arange(-127, 128, 2, dtype=np.int8).reshape(-1, 1)
    given = {"a_tensor": sums_of_row, "b_tensor": np.ones((1, 1), np.int8)}
    tenth, one = np.full((1, 1), 0.1, np.float32), np.ones((1, 1), np.float32)
    given |= {"a_scale_tensor": tenth, "b_scale_tensor": one, "output_scale_tensor": 2 * tenth}
    desc = described(dml.QuantizedLinearMatrixMultiplyDesc, given, "int8", sums_of_row.shape)
    result = run_in_layouts(desc, given, every_device)["output_tensor"]
    np.testing.assert_array_equal(result, np.rint(sums_of_row / 2).astype(np.int8))


def test_scales_without_a_quotient(every_device: dml.Device) -> None:
    """Scales of 0, infinity and NaN: what is beyond the range is held in it, NaN counts as 0."""
    scale = np.array([0.0, np.inf, np.nan, 1e-38, 2.0], np.float32).reshape(5, 1)
    given = {
        "a_tensor": np.array([[3, -3], [1, 1], [2, 9], [-4, 1], [1, 2]], np.int8),
        "b_tensor": np.array([[1, -1, 0], [2, 1, 0]], np.int8),
    }
    given |= {
        "a_scale_tensor": scale[::-1].copy(),
        "b_scale_tensor": np.array([[1.0, 0.5, np.inf]], np.float32),
        "output_scale_tensor": scale,
    }
    given["output_zero_point_tensor"] = np.array([[-5], [0], [7], [1], [-128]], np.int8)
    desc = described(dml.QuantizedLinearMatrixMultiplyDesc, given, "int8", (5, 3))
    with np.errstate(all="ignore"):
        wanted = dml.reference(desc, given).output_tensor
        result = run_in_layouts(desc, given, every_device)["output_tensor"]
    np.testing.assert_array_equal(result, wanted)
    assert {-128, 127, 7} <= set(result.ravel().tolist())


SUMS = [(65, 1000, 3), (1, 257, 70), (3, 4099, 2), (2, 256, 2), (80, 96, 144)]
"""Rows, terms and columns: more terms than are summed at a time, a rest that no word of four fills, and what comes 16 bytes at a time."""


@pytest.mark.each_value
@pytest.mark.parametrize("a_type", ["int8", "uint8"])
@pytest.mark.parametrize("b_type", ["int8", "uint8"])
@pytest.mark.parametrize("extreme", [False, True])
def test_long_sums_of_bytes_are_exact(every_device: dml.Device, a_type: str, b_type: str, extreme: bool) -> None:
    """Also where all differences to the zero points are the largest that there are."""
    rng = np.random.default_rng(3)

    def drawn(dtype: str, *sizes: int, end: str) -> Array:
        limits = np.iinfo(dtype)
        values = np.full(sizes, getattr(limits, end)) if extreme else rng.integers(limits.min, limits.max + 1, sizes)
        return values.astype(dtype)

    for rows, terms, columns in SUMS:
        own = {
            "a_tensor": drawn(a_type, 1, 1, rows, terms, end="min"),
            "a_zero_point_tensor": drawn(a_type, 1, 1, rows, 1, end="max"),
            "b_tensor": drawn(b_type, 1, 1, terms, columns, end="min"),
            "b_zero_point_tensor": drawn(b_type, 1, 1, 1, columns, end="max"),
        }
        described_as = {name: dml.TensorDesc.of(array) for name, array in own.items()}
        columns_first = described_as["a_tensor"].replace(strides=[rows * terms, rows * terms, 1, rows])
        a, b = (own[f"{name}_tensor"].astype(np.int64) - own[f"{name}_zero_point_tensor"] for name in "ab")
        for layout in (described_as["a_tensor"], columns_first):
            desc = dml.MatrixMultiplyIntegerDesc(**(described_as | {"a_tensor": layout})).with_outputs()
            np.testing.assert_array_equal(run(desc, own, every_device)["output_tensor"], (a @ b).astype(np.int32))
