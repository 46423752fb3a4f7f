"""The operators that make tensors on the host: against NumPy's functions, known answers and plain loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.operators.generated_values import FLOATS, INTEGERS, ends
from tests.support.operators.layout_runs import compute, failures_in_layouts, packed, same

FILLS = ("FILL_VALUE_CONSTANT", "FILL_VALUE_SEQUENCE")


def test_every_valid_desc_computes_in_every_layout() -> None:
    found = failures_in_layouts(*FILLS)
    assert not found, "\n".join(found)


def test_constants_of_every_type() -> None:
    for dtype in (*FLOATS, *INTEGERS):
        for value in ends(dtype):
            desc = dml.FillValueConstantDesc(
                output_tensor=packed(dtype, 2, 1, 3), value_data_type=np.dtype(dtype).name.upper(), value=value
            )
            same(compute(desc), np.full((2, 1, 3), np.array(value, dtype)), f"{value} as {np.dtype(dtype)}")


def test_sequences() -> None:
    dtypes: tuple[Any, ...] = (np.float16, np.float32, *INTEGERS)
    for dtype, sizes in itertools.product(dtypes, [(1,), (5, 3), (2, 1, 150)]):
        limits = None if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
        rows = [(0.5, 0.1), (-3.0, 1e-3), (0.0, math.inf)] if limits is None else [(limits.max - 2, 1), (limits.min, 77), (3, -2)]
        for start, delta in rows:
            what = f"{start} + i * {delta} as {np.dtype(dtype)}"
            desc = dml.FillValueSequenceDesc(
                output_tensor=packed(dtype, *sizes), value_data_type=np.dtype(dtype).name.upper(), value_start=start, value_delta=delta
            )
            if limits is None:
                first, step = np.array([start, delta], dtype).astype(np.float64)
                with np.errstate(invalid="ignore", over="ignore"):
                    expected = np.array([first + step * own for own in range(math.prod(sizes))]).astype(dtype)
            else:
                wrapped = [(start + delta * own) % (1 << limits.bits) for own in range(math.prod(sizes))]
                expected = np.array(wrapped, f"u{limits.bits // 8}").view(dtype)
            same(compute(desc), expected.reshape(sizes), what)
