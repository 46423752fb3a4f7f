"""The compiled ARGMIN and ARGMAX against their definitions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import dmlpy as dml

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.reduction import plan as reduction_plan
from tests.support.cpu.compiled_plans import run_on
from tests.support.operators.layout_runs import by_definition, run

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], np.float32)


@pytest.mark.parametrize(("direction", "output"), [("INCREASING", "INT64"), ("DECREASING", "UINT32")])
@pytest.mark.parametrize("kind", [dml.ArgminDesc, dml.ArgmaxDesc])
def test_indices_of_extremes(kind: Any, direction: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows shorter and longer than vectors, with and without equal elements, NaN and infinities; on one thread and on two."""
    rng = np.random.default_rng(2)
    for sizes, axes in (((150, 1), [1]), ((6, 37), [1]), ((2, 3, 16), [2]), ((4, 1, 50), [1, 2]), ((3, 4, 5), [1])):
        memory = rng.normal(size=sizes).astype(np.float32), rng.choice(SPECIAL, sizes), np.full(sizes, np.nan, np.float32)
        for values in memory:
            given = np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 1, -1)), -1, 1) if axes == [1] else values
            reduced = dml.TensorDesc(data_type=output, sizes=[1 if axis in axes else size for axis, size in enumerate(sizes)])
            desc = kind(input_tensor=dml.TensorDesc.of(given), output_tensor=reduced, axes=axes, axis_direction=direction)
            expected = dml.reference(desc, {"input_tensor": given}).output_tensor
            for threads in (1, 2):
                found = run_on(threads, reduction_plan, desc, {"input_tensor": given}, monkeypatch)
                np.testing.assert_array_equal(found, expected, err_msg=f"{sizes} {axes}")


@pytest.mark.parametrize(("direction", "output"), [("INCREASING", "INT64"), ("DECREASING", "UINT32")])
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("kind", [dml.ArgminDesc, dml.ArgmaxDesc])
def test_indices_of_extremes_of_columns(kind: Any, data_type: str, direction: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of rows: of few columns and of several vectors of them, which are not whole vectors; and rows of halves."""
    rng = np.random.default_rng(2)
    for sizes, axis in (((2, 5, 3), 1), ((2, 4, 6, 7), 1), ((2, 3, 5, 150), 2), ((70, 100), 0), ((3, 21), 1)):
        for values in (rng.normal(size=sizes), rng.choice(SPECIAL, sizes), np.full(sizes, np.nan)):
            given = values.astype(data_type.lower())
            reduced = dml.TensorDesc(data_type=output, sizes=[1 if at == axis else size for at, size in enumerate(sizes)])
            desc = kind(input_tensor=dml.TensorDesc.of(given), output_tensor=reduced, axes=[axis], axis_direction=direction)
            expected = dml.reference(desc, {"input_tensor": given}).output_tensor
            for threads in (1, 2):
                found = run_on(threads, reduction_plan, desc, {"input_tensor": given}, monkeypatch)
                np.testing.assert_array_equal(found, expected, err_msg=f"{sizes} {axis}")


@pytest.mark.parametrize("data_type", ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"])
def test_indices_of_extremes_of_integers(data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows of one vector, of several, and of many; with equal extremes, the limits of the type, gaps between rows, and columns."""
    rng, dtype = np.random.default_rng(3), np.dtype(data_type.lower())
    limits = np.iinfo(dtype)
    for sizes, strides, axis in (((9, 5), None, 1), ((4, 3, 37), (333, 40, 1), 2), ((2, 301), None, 1), ((3, 19, 6), None, 1)):
        ends = np.array([limits.min, limits.max], dtype)
        for values in (
            rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True),
            rng.choice(ends, sizes),
        ):
            reduced = dml.TensorDesc(data_type="INT64", sizes=[1 if at == axis else size for at, size in enumerate(sizes)])
            own = dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)
            x = np.lib.stride_tricks.as_strided(np.zeros(own.span, dtype), sizes, own.numpy_strides())
            x[...] = values
            for kind, direction in ((dml.ArgminDesc, "DECREASING"), (dml.ArgmaxDesc, "INCREASING"), (dml.ArgmaxDesc, "DECREASING")):
                desc = kind(input_tensor=own, output_tensor=reduced, axes=[axis], axis_direction=direction)
                expected = dml.reference(desc, {"input_tensor": x}).output_tensor
                for threads in (1, 2):
                    found = run_on(threads, reduction_plan, desc, {"input_tensor": x}, monkeypatch)
                    np.testing.assert_array_equal(found, expected, err_msg=f"{sizes} {direction}")


# sizes, strides, the reduced dimensions
SEVERAL: dict[str, tuple[Any, Any, Any]] = {
    "the last": ((2, 3, 4, 5), None, (2, 3)),
    "all": ((2, 3, 7, 5), None, (0, 1, 2, 3)),
    "apart": ((2, 3, 4, 5), None, (1, 3)),
    "in another order": ((2, 3, 4, 5), (60, 20, 1, 4), (2, 3)),
    "none of several elements": ((70, 3, 1), None, (2,)),
}


@pytest.mark.parametrize("data_type", ["FLOAT32", "INT32"])
@pytest.mark.parametrize("name", SEVERAL)
def test_indices_along_several_dimensions(name: str, data_type: str) -> None:
    """Of ARGMAX, and of REDUCE, whose first equal element counts."""
    sizes, strides, axes = SEVERAL[name]
    x = dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)
    values = np.random.default_rng(4).integers(0, 9, sizes).astype(data_type.lower())
    output = dml.TensorDesc(data_type="UINT32", sizes=[1 if axis in axes else size for axis, size in enumerate(sizes)])
    own = {"input_tensor": x, "output_tensor": output, "axes": axes}
    directions = ("INCREASING", "DECREASING")
    descs = [kind(**own, axis_direction=direction) for kind in (dml.ArgminDesc, dml.ArgmaxDesc) for direction in directions]
    for desc in [*descs, *(dml.ReduceDesc(**own, function=function) for function in ("ARGMIN", "ARGMAX"))]:
        assert not isinstance(compiled_plan(desc), str)
        found, expected = (each(desc, {"input_tensor": values})["output_tensor"] for each in (partial(run, device="cpu"), by_definition))
        np.testing.assert_array_equal(found, expected)
