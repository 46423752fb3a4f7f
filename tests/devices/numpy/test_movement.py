"""The movement operators on the host: against ONNX's reference, NumPy's own functions and plain loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.layout_runs import Array, compute, defined, failures_in_layouts, packed, same, tensor
from tests.support.onnx_reference import element_type, onnx_outputs
from tests.support.tolerance import assert_close

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
TYPES = (*FLOATS, *INTEGERS)


def numbers(rng: np.random.Generator, sizes: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Values with both ends of a type's range among them."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        values = rng.normal(size=sizes).astype(dtype)
        values.reshape(-1)[:1] = np.nan
        values.reshape(-1)[-1:] = -np.inf
        return values
    values = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, sizes, dtype, endpoint=True)
    values.reshape(-1)[:1], values.reshape(-1)[-1:] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return values


def test_every_valid_desc_computes_in_every_layout() -> None:
    found = failures_in_layouts(*defined("movement"))
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


def test_cast_of_every_type_to_every_type() -> None:
    ends = [0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 1e-30, 65504, 65519, 65520, 1e30, 1e300, -1e300, math.inf, -math.inf, math.nan]
    ends += [sign * (2.0**bits + step) for bits in (7, 8, 15, 16, 31, 32, 63, 64) for step in (-1, -0.5, 0, 0.5, 1) for sign in (1, -1)]
    for source, target in itertools.product(TYPES, TYPES):
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
        same(compute(desc, input_tensor=values), expected, f"{np.dtype(source)} to {np.dtype(target)}")
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


def test_reversed_subsequences() -> None:
    rng = np.random.default_rng(2)
    for dtype, length_type, (sizes, axis) in itertools.product(
        (np.float16, np.int16, np.uint64),
        (np.uint32, np.uint64),
        [((6,), 0), ((4, 3), 0), ((2, 3, 5), 1), ((2, 1, 3, 2, 5), 4), ((3, 1), 1)],
    ):
        values, what = numbers(rng, sizes, dtype), f"{sizes} along {axis}"
        of_lengths = tuple(1 if own == axis else size for own, size in enumerate(sizes))
        lengths = rng.integers(0, sizes[axis] + 2, of_lengths).astype(length_type)
        lengths.reshape(-1)[-1] = np.iinfo(length_type).max
        desc = dml.ReverseSubsequencesDesc(input_tensor=tensor(values), sequence_lengths_tensor=tensor(lengths), axis=axis).with_outputs()
        result = compute(desc, input_tensor=values, sequence_lengths_tensor=lengths)
        expected = values.copy()
        for place in np.ndindex(*of_lengths):
            row = (*place[:axis], slice(None), *place[axis + 1 :])
            count = min(int(lengths[place]), sizes[axis])
            expected[row] = [*expected[row][:count][::-1], *expected[row][count:]]
        same(result, expected, what)
    values, lengths = numbers(rng, (4, 5, 3)), np.array([1, 2, 3, 5])
    wide = np.broadcast_to(lengths.astype(np.uint32)[:, None, None], (4, 1, 3)).copy()
    desc = dml.ReverseSubsequencesDesc(input_tensor=tensor(values), sequence_lengths_tensor=tensor(wide), axis=1).with_outputs()
    expected = onnx_outputs("ReverseSequence", [values, lengths], batch_axis=0, time_axis=1)[0]
    same(compute(desc, input_tensor=values, sequence_lengths_tensor=wide), expected, "ONNX")


def test_padding_in_every_mode_as_numpy_pads() -> None:
    rng = np.random.default_rng(3)
    modes = {"CONSTANT": "constant", "EDGE": "edge", "REFLECTION": "reflect", "SYMMETRIC": "symmetric", "WRAP": "wrap"}
    shapes = [
        ((5,), (2,), (3,)),
        ((1, 4), (3, 0), (0, 11)),
        ((2, 3, 1), (0, 9, 2), (7, 8, 2)),
        ((2, 3, 2, 2, 3), (1, 0, 2, 1, 0), (0, 4, 1, 1, 5)),
    ]
    for dtype, mode, (sizes, start, end) in itertools.product(TYPES, modes, shapes):
        values, what = numbers(rng, sizes, dtype), f"{np.dtype(dtype)} {mode} {sizes}"
        given = 10.6 if np.dtype(dtype).kind == "f" else int(np.iinfo(dtype).max)
        for kind, value, written in (("PADDING", 10.6, np.float32(10.6)), ("PADDING1", given, given)):
            own = {"constant_values": np.array(written).astype(dtype)} if mode == "CONSTANT" else {}
            expected = np.pad(values, list(zip(start, end, strict=True)), modes[mode], **own)
            extra = {"padding_value_data_type": np.dtype(dtype).name.upper()} if kind == "PADDING1" else {}
            desc = (dml.Padding1Desc if extra else dml.PaddingDesc)(
                input_tensor=tensor(values), padding_mode=mode, padding_value=value, start_padding=start, end_padding=end, **extra
            ).with_outputs()
            same(compute(desc, input_tensor=values), expected, f"{kind} {what}")
            if kind == "PADDING" and mode in ("EDGE", "REFLECTION", "WRAP") and dtype is np.float32 and len(sizes) == 1:
                pads = np.array([*start, *end], np.int64)
                same(onnx_outputs("Pad", [values, pads], mode=modes[mode])[0], expected, what)


def test_a_padding_value_is_clipped_to_the_range_of_integers() -> None:
    for dtype, value, expected in [
        (np.uint8, -3.7, 0),
        (np.uint8, 300.0, 255),
        (np.int8, -3.7, -3),
        (np.int8, -1e9, -128),
        (np.int64, 1e30, 2**63 - 1),
        (np.uint64, math.inf, 2**64 - 1),
        (np.int32, math.nan, 0),
        (np.float64, 0.1, float(np.float32(0.1))),
    ]:
        desc = dml.PaddingDesc(input_tensor=packed(dtype, 1), padding_value=value, start_padding=[1], end_padding=[0]).with_outputs()
        found = compute(desc, input_tensor=np.ones(1, dtype))
        same(found, np.array([expected, 1], dtype), f"{value} as {np.dtype(dtype)}")


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


def columns_by_loops(image: Array, windows: Any, strides: Any, dilations: Any, start: Any, positions: Any) -> Array:
    """UNFOLD, one element after the other."""
    batch, channels, *spatial = image.shape
    found = np.zeros((batch, channels, math.prod(windows), math.prod(positions)))
    for (row, own), (column, position) in itertools.product(enumerate(np.ndindex(*windows)), enumerate(np.ndindex(*positions))):
        place = [p * s + w * d - b for p, s, w, d, b in zip(position, strides, own, dilations, start, strict=True)]
        if all(0 <= own < size for own, size in zip(place, spatial, strict=True)):
            found[:, :, row, column] = image[:, :, *place]
    return found.reshape(batch, -1, math.prod(positions))


def test_columns_of_an_image_and_back() -> None:
    rng = np.random.default_rng(6)
    against_onnx = 0
    for number in range(24):
        count, dtype = number % 3 + 1, (np.float32, np.float16)[number % 2]
        batch, channels = (int(own) for own in rng.integers(1, 4, 2))
        windows, strides, dilations = (tuple(own) for own in rng.integers(1, 4, (3, count)).tolist())
        start, end = (tuple(own) for own in rng.integers(0, 3, (2, count)).tolist())
        reaches = [(size - 1) * dilation + 1 for size, dilation in zip(windows, dilations, strict=True)]
        spatial = tuple(max(reach - first - last, 1) + int(rng.integers(4)) for reach, first, last in zip(reaches, start, end, strict=True))
        positions = [
            (size + first + last - reach) // step + 1
            for size, first, last, reach, step in zip(spatial, start, end, reaches, strides, strict=True)
        ]
        image = rng.normal(size=(batch, channels, *spatial)).astype(dtype)
        members = {"window_sizes": windows, "strides": strides, "dilations": dilations, "start_padding": start, "end_padding": end}
        desc = dml.UnfoldDesc(input_tensor=tensor(image), **members).with_outputs()
        columns = columns_by_loops(image, windows, strides, dilations, start, positions)
        what = f"{image.shape} {members}"
        same(compute(desc, input_tensor=image), columns.astype(dtype), what)
        blocks = rng.normal(size=columns.shape).astype(dtype)
        back = compute(dml.FoldDesc(input_tensor=tensor(blocks), output_tensor=tensor(image), **members), input_tensor=blocks)
        # The transpose: what each element of the image is added, by the columns of the images that hold its number.
        numbered = np.arange(1, math.prod(image.shape) + 1, dtype=np.float64).reshape(image.shape)
        owners = columns_by_loops(numbered, windows, strides, dilations, start, positions).astype(np.int64)
        expected = np.bincount(owners.reshape(-1), blocks.astype(np.float64).reshape(-1), numbered.size + 1)[1:].reshape(image.shape)
        assert_close(back, expected, dtype, terms=math.prod(windows), what=what)
        if dtype is np.float32:
            sizes = [np.array(own, np.int64) for own in (spatial, windows)]
            folded = onnx_outputs("Col2Im", [blocks, *sizes], dilations=dilations, strides=strides, pads=[*start, *end])[0]
            assert_close(back, folded, dtype, terms=math.prod(windows), what=f"ONNX {what}")
            against_onnx += 1
    assert against_onnx == 12
