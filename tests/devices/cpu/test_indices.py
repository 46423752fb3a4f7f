"""The compiled GATHER, ARGMIN and ARGMAX, against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.indexing import plan as gather_plans
from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.reduction import index_plan
from tests.support.compiled_plans import run_on

# sizes of the input, axis, sizes of the actual indices, their type and that of the elements
GATHERS: dict[str, tuple[tuple[int, ...], int, tuple[int, ...], Any, Any]] = {
    "rows": ((1, 1, 7, 5), 2, (9,), np.int64, np.float32),
    "elements of four bytes": ((1, 3, 4, 6), 3, (2, 5), np.uint32, np.float32),
    "elements of eight bytes": ((1, 1, 3, 6), 3, (7,), np.int32, np.int64),
    "elements of two bytes": ((1, 2, 3, 4), 3, (3,), np.uint64, np.float16),
    "matrices of bytes": ((1, 4, 3, 3), 1, (5,), np.int32, np.uint8),
    "one index": ((1, 2, 6, 4), 2, (), np.int64, np.float32),
}


@pytest.mark.parametrize("name", GATHERS)
def test_gathered_slices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one thread and on two; indices that count from the end or are out of range are among them."""
    sizes, axis, of_indices, index_type, element = GATHERS[name]
    rng, limits = np.random.default_rng(1), np.iinfo(index_type)
    values = rng.integers(0, 250, sizes).astype(element)
    indices = rng.integers(-sizes[axis] if limits.min else 0, sizes[axis], of_indices, np.int64).astype(index_type)
    if indices.size > 1:
        indices.reshape(-1)[:2] = limits.max, max(limits.min, -sizes[axis] - 1)
    given = {"input_tensor": values, "indices_tensor": indices.reshape((1,) * (4 - len(of_indices)) + of_indices)}
    described = {place: dml.TensorDesc.of(array) for place, array in given.items()}
    desc = dml.GatherDesc(**described, axis=axis, index_dimensions=len(of_indices)).with_outputs()
    expected = dml.reference(desc, given).output_tensor
    for threads in (1, 2):
        np.testing.assert_array_equal(run_on(threads, gather_plans, desc, given, monkeypatch), expected)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], np.float32)


@pytest.mark.parametrize(("direction", "output"), [("INCREASING", "INT64"), ("DECREASING", "UINT32")])
@pytest.mark.parametrize("kind", [dml.ArgminDesc, dml.ArgmaxDesc])
def test_indices_of_extremes(kind: Any, direction: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows shorter and longer than vectors, with and without equal elements, NaN and infinities; on one thread and on two."""
    rng = np.random.default_rng(2)
    for sizes, axes in (((9, 1), [1]), ((6, 37), [1]), ((2, 3, 16), [2]), ((4, 1, 50), [1, 2]), ((3, 4, 5), [1])):
        memory = rng.normal(size=sizes).astype(np.float32), rng.choice(SPECIAL, sizes), np.full(sizes, np.nan, np.float32)
        for values in memory:
            given = np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 1, -1)), -1, 1) if axes == [1] else values
            reduced = dml.TensorDesc(data_type=output, sizes=[1 if axis in axes else size for axis, size in enumerate(sizes)])
            desc = kind(input_tensor=dml.TensorDesc.of(given), output_tensor=reduced, axes=axes, axis_direction=direction)
            expected = dml.reference(desc, {"input_tensor": given}).output_tensor
            for threads in (1, 2):
                found = run_on(threads, index_plan, desc, {"input_tensor": given}, monkeypatch)
                np.testing.assert_array_equal(found, expected, err_msg=f"{sizes} {axes}")


X = dml.TensorDesc(data_type="FLOAT32", sizes=(2, 3, 4, 5))
INDICES = dml.TensorDesc(data_type="INT64", sizes=(1, 1, 1, 7))
ELSEWHERE: dict[str, tuple[dml.OperatorDesc, str]] = {
    "along columns": (dml.ArgmaxDesc(input_tensor=X, axes=[2]), "rows of contiguous elements"),
    "along two dimensions": (dml.ArgmaxDesc(input_tensor=X, axes=[2, 3]), "along one dimension"),
    "of halves": (dml.ArgminDesc(input_tensor=X.replace(data_type="FLOAT16"), axes=[3]), "that of FLOAT32"),
    "strided": (
        dml.GatherDesc(input_tensor=X.replace(strides=(120, 40, 5, 1)), indices_tensor=INDICES, axis=3, index_dimensions=1),
        "packed tensors",
    ),
    "four bits": (
        dml.GatherDesc(input_tensor=X.replace(data_type="INT4"), indices_tensor=INDICES, axis=3, index_dimensions=1),
        "whole bytes",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_numpy_runs_says_why(name: str) -> None:
    desc, reason = ELSEWHERE[name]
    found = compiled_plan(desc.with_outputs())
    assert isinstance(found, str)
    assert reason in found
