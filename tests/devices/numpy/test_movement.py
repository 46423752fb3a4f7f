"""The movement operators on the host: against ONNX's reference, NumPy's functions and plain loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.onnx.reference import element_type, onnx_outputs
from tests.support.operators.layout_runs import compute, defined, failures_in_layouts, packed, same, tensor
from tests.support.operators.movement_cases import MARGINS_AND_REVERSALS, TYPES, numbers
from tests.support.tables import table


def test_every_valid_desc_computes_in_every_layout() -> None:
    found = failures_in_layouts(*(name for name in defined("movement") if name not in MARGINS_AND_REVERSALS))
    assert not found, "\n".join(found)


def cast_value(value: Any, target: np.dtype[Any]) -> Any:
    """A number in another type, by Python's integers."""
    if target.kind == "f":
        return target.type(value)
    limits = np.iinfo(target)
    if isinstance(value, np.floating):
        if math.isnan(value):
            return 0
        return limits.max if value == math.inf else limits.min if value == -math.inf else min(max(int(value), limits.min), limits.max)
    wrapped = int(value) % (1 << limits.bits)
    return wrapped - (1 << limits.bits) if wrapped > limits.max else wrapped


@table("target", TYPES)
@table("source", TYPES)
def test_cast_of_every_type_to_every_type(source: Any, target: Any) -> None:
    ends = [0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 1e-30, 65504, 65519, 65520, 1e30, 1e300, -1e300, math.inf, -math.inf, math.nan]
    ends += [sign * (2.0**bits + step) for bits in (7, 8, 15, 16, 31, 32, 63, 64) for step in (-1, -0.5, 0, 0.5, 1) for sign in (1, -1)]
    with np.errstate(over="ignore", invalid="ignore"):
        if np.dtype(source).kind == "f":
            values = np.array(ends, source)
        else:
            limits = np.iinfo(source)
            values = np.array([0, 1, 127, 128, 255, 256, limits.max, limits.max - 1, limits.min, limits.min // 2], object) % (
                1 << limits.bits
            )
            values = values.astype(f"u{limits.bits // 8}").view(source)
        expected = np.array([cast_value(value, np.dtype(target)) for value in values], target)
    desc = dml.CastDesc(input_tensor=tensor(values), output_tensor=packed(target, values.size))
    same(compute(desc, input_tensor=values), expected, "cast")
    if np.dtype(target).kind == "f":
        with np.errstate(over="ignore"):
            from_onnx = onnx_outputs("Cast", [values], to=element_type(target))
        same(expected, from_onnx[0], "the oracle and ONNX")


@pytest.mark.onnx_reference
def test_joins_splits_tiles_as_onnx_does() -> None:
    rng = np.random.default_rng(1)
    for dtype, (sizes, axis, lengths) in itertools.product(
        (np.float16, np.float32, np.int8, np.uint64),
        [((7,), 0, (1, 2, 4)), ((2, 5, 3), 1, (5,)), ((3, 1, 2, 4), 0, (1, 1, 1)), ((2, 1, 3, 1, 2, 5), 5, (2, 3))],
    ):
        what = f"{np.dtype(dtype)} {sizes} along {axis}"
        whole = numbers(rng, sizes, dtype)
        parts = onnx_outputs("Split", [whole, np.array(lengths, np.int64)], len(lengths), axis=axis)
        split = dml.compile(dml.SplitDesc(input_tensor=tensor(whole), output_tensors=[tensor(part) for part in parts], axis=axis), "numpy")
        found = split(input_tensor=whole)
        assert len(found.output_tensors) == len(parts)
        for own, part in zip(found.output_tensors, parts, strict=True):
            same(own, part, what)
        join = dml.JoinDesc(input_tensors=[tensor(part) for part in parts], axis=axis).with_outputs()
        same(compute(join, input_tensors=parts), onnx_outputs("Concat", parts, axis=axis)[0], what)
        repeats = tuple(rng.integers(1, 4, len(sizes)).tolist())
        tile = dml.TileDesc(input_tensor=tensor(whole), repeats=repeats).with_outputs()
        same(compute(tile, input_tensor=whole), onnx_outputs("Tile", [whole, np.array(repeats, np.int64)])[0], what)


def random_window(rng: np.random.Generator, size: int) -> tuple[int, int, int]:
    offset = int(rng.integers(size))
    return offset, int(rng.integers(1, size - offset + 1)), int(rng.choice([-9, -3, -2, -1, 1, 2, 3, 9]))


def test_slices_and_their_gradients() -> None:
    rng = np.random.default_rng(4)
    for number in range(60):
        sizes = tuple(rng.integers(1, 7, rng.integers(1, 6)).tolist())
        dtype = TYPES[number % len(TYPES)]
        values = numbers(rng, sizes, dtype)
        windows = [random_window(rng, size) for size in sizes]
        offsets, lengths, strides = zip(*windows, strict=True)
        axes = np.arange(len(sizes))
        starts = [offset if stride > 0 else offset + length - 1 for offset, length, stride in windows]
        ends = [
            offset + length if stride > 0 else offset - 1 - (offset == 0) * (size + 1)
            for (offset, length, stride), size in zip(windows, sizes, strict=True)
        ]
        expected = onnx_outputs("Slice", [values, *(np.array(own, np.int64) for own in (starts, ends, axes, strides))])[0]
        members = {"input_window_offsets": offsets, "input_window_sizes": lengths, "input_window_strides": strides}
        desc = dml.Slice1Desc(input_tensor=tensor(values), **members).with_outputs()
        what = f"{sizes} {windows}"
        same(compute(desc, input_tensor=values), expected, what)
        fewer = tuple(int(rng.integers(1, size + 1)) for size in expected.shape)
        first = dml.Slice1Desc(input_tensor=tensor(values), output_tensor=packed(dtype, *fewer), **members)
        same(compute(first, input_tensor=values), expected[tuple(slice(size) for size in fewer)], what)
        back = dml.SliceGradDesc(input_gradient_tensor=packed(dtype, *fewer), output_gradient_tensor=tensor(values), **members)
        gradient = numbers(rng, fewer, dtype)
        spread = compute(back, input_gradient_tensor=gradient)
        zeros = np.zeros(sizes, dtype)
        for place in np.ndindex(*fewer):
            zeros[tuple(start + stride * own for start, stride, own in zip(starts, strides, place, strict=True))] = gradient[place]
        same(spread, zeros, what)
        plain = [(offset, abs(stride)) for offset, _, stride in windows]
        counts = [int(rng.integers(1, (size - 1 - offset) // stride + 2)) for size, (offset, stride) in zip(sizes, plain, strict=True)]
        old = dml.SliceDesc(
            input_tensor=tensor(values), offsets=offsets, slice_sizes=counts, strides=[stride for _, stride in plain]
        ).with_outputs()
        picked = values[
            tuple(slice(offset, offset + stride * count, stride) for (offset, stride), count in zip(plain, counts, strict=True))
        ]
        same(compute(old, input_tensor=values), picked, what)
    repeated = dml.SliceDesc(input_tensor=packed(np.int32, 5), offsets=[3], slice_sizes=[4], strides=[0]).with_outputs()
    same(compute(repeated, input_tensor=np.arange(5, dtype=np.int32)), np.full(4, 3, np.int32), "a stride of 0")


@pytest.mark.onnx_reference
def test_blocks_of_channels_as_onnx_moves_them() -> None:
    rng = np.random.default_rng(5)
    for dtype, (block, sizes) in itertools.product(
        (np.float16, np.float32, np.uint8, np.int64), [(1, (2, 3, 2, 5)), (2, (1, 8, 3, 1)), (3, (2, 18, 1, 2)), (2, (3, 4, 5, 2))]
    ):
        values, what = numbers(rng, sizes, dtype), f"{np.dtype(dtype)} {sizes} by {block}"
        image = {"input_tensor": tensor(values), "block_size": block}
        old = compute(dml.DepthToSpaceDesc(**image).with_outputs(), input_tensor=values)
        for order, mode in (("DEPTH_COLUMN_ROW", "DCR"), ("COLUMN_ROW_DEPTH", "CRD")):
            expected = onnx_outputs("DepthToSpace", [values], blocksize=block, mode=mode)[0]
            found = compute(dml.DepthToSpace1Desc(**image, order=order).with_outputs(), input_tensor=values)
            same(found, expected, what)
            back = dml.SpaceToDepth1Desc(input_tensor=tensor(expected), block_size=block, order=order).with_outputs()
            same(compute(back, input_tensor=expected), values, what)
            if mode == "DCR":
                same(old, expected, what)
                plain = dml.SpaceToDepthDesc(input_tensor=tensor(expected), block_size=block).with_outputs()
                columns = compute(plain, input_tensor=expected)
                same(columns, onnx_outputs("SpaceToDepth", [expected], blocksize=block)[0], what)
