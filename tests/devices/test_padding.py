"""Padding and reversed subsequences on every device: against NumPy's own functions, ONNX's reference and plain loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import compute, failures_in_layouts, packed, same, tensor
from tests.support.operators.movement_cases import MARGINS_AND_REVERSALS, TYPES, numbers


def test_every_valid_desc_computes_in_every_layout(any_device: dml.Device) -> None:
    found = failures_in_layouts(*MARGINS_AND_REVERSALS, device=any_device)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("sizes", "axis"), [((6,), 0), ((4, 3), 0), ((2, 3, 5), 1), ((2, 1, 3, 2, 5), 4), ((3, 1), 1)], ids=str)
def test_reversed_subsequences(any_device: dml.Device, sizes: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(2)
    length_types: tuple[Any, ...] = (np.uint32, np.uint64)
    for dtype, length_type in itertools.product((np.float16, np.int16, np.uint64), length_types):
        values, what = numbers(rng, sizes, dtype), f"{np.dtype(dtype)}, lengths of {np.dtype(length_type)}"
        of_lengths = tuple(1 if own == axis else size for own, size in enumerate(sizes))
        lengths = rng.integers(0, sizes[axis] + 2, of_lengths).astype(length_type)
        lengths.reshape(-1)[-1] = np.iinfo(length_type).max
        desc = dml.ReverseSubsequencesDesc(input_tensor=tensor(values), sequence_lengths_tensor=tensor(lengths), axis=axis).with_outputs()
        result = compute(desc, device=any_device, input_tensor=values, sequence_lengths_tensor=lengths)
        expected = values.copy()
        for place in np.ndindex(*of_lengths):
            row = (*place[:axis], slice(None), *place[axis + 1 :])
            count = min(int(lengths[place]), sizes[axis])
            expected[row] = [*expected[row][:count][::-1], *expected[row][count:]]
        same(result, expected, what)


def test_reversed_subsequences_as_in_onnx(any_device: dml.Device) -> None:
    rng = np.random.default_rng(2)
    for inner in (3, 300):  # 300: blocks large enough for NumPy to reverse one by one
        values, lengths = numbers(rng, (4, 5, inner)), np.array([1, 2, 3, 5])
        wide = np.broadcast_to(lengths.astype(np.uint32)[:, None, None], (4, 1, inner)).copy()
        desc = dml.ReverseSubsequencesDesc(input_tensor=tensor(values), sequence_lengths_tensor=tensor(wide), axis=1).with_outputs()
        expected = onnx_outputs("ReverseSequence", [values, lengths], batch_axis=0, time_axis=1)[0]
        same(compute(desc, device=any_device, input_tensor=values, sequence_lengths_tensor=wide), expected, f"ONNX, {inner}")


MODES: dict[str, Any] = {"CONSTANT": "constant", "EDGE": "edge", "REFLECTION": "reflect", "SYMMETRIC": "symmetric", "WRAP": "wrap"}
"""DirectML's modes with NumPy's names of them."""
PADDED = [
    ((5,), (2,), (3,)),
    ((1, 4), (3, 0), (0, 11)),
    ((2, 3, 1), (0, 9, 2), (7, 8, 2)),
    ((2, 3, 2, 2, 3), (1, 0, 2, 1, 0), (0, 4, 1, 1, 5)),
]
"""Sizes with the padding before and behind."""


@pytest.mark.each_value
@pytest.mark.parametrize(("sizes", "start", "end"), PADDED, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_padding_in_every_mode_as_numpy_pads(
    any_device: dml.Device, mode: str, sizes: tuple[int, ...], start: tuple[int, ...], end: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(3)
    for dtype in TYPES:
        values, what = numbers(rng, sizes, dtype), f"{np.dtype(dtype)} {mode} {sizes}"
        given = 10.6 if np.dtype(dtype).kind == "f" else int(np.iinfo(dtype).max)
        for kind, value, written in (("PADDING", 10.6, np.float32(10.6)), ("PADDING1", given, given)):
            own: dict[str, Any] = {"constant_values": np.array(written).astype(dtype)} if mode == "CONSTANT" else {}
            expected = np.pad(values, list(zip(start, end, strict=True)), MODES[mode], **own)
            extra = {"padding_value_data_type": np.dtype(dtype).name.upper()} if kind == "PADDING1" else {}
            desc = (dml.Padding1Desc if extra else dml.PaddingDesc)(
                input_tensor=tensor(values), padding_mode=mode, padding_value=value, start_padding=start, end_padding=end, **extra
            ).with_outputs()
            same(compute(desc, device=any_device, input_tensor=values), expected, f"{kind} {what}")
            if kind == "PADDING" and mode in ("EDGE", "REFLECTION", "WRAP") and dtype is np.float32 and len(sizes) == 1:
                pads = np.array([*start, *end], np.int64)
                same(onnx_outputs("Pad", [values, pads], mode=MODES[mode])[0], expected, what)


def test_a_padding_value_is_clipped_to_the_range_of_integers(any_device: dml.Device) -> None:
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
        found = compute(desc, device=any_device, input_tensor=np.ones(1, dtype))
        same(found, np.array([expected, 1], dtype), f"{value} as {np.dtype(dtype)}")
