"""Compiled diagonals, constants and sequences against the definition, in guarded memory, on two threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import random_values, run

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.generation import plan
from dmlpy.devices.cpu.plans import compiled_plan

INF, NAN = float("inf"), float("nan")


def tensor(data_type: str, *sizes: int, strides: Any = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def _as_defined(desc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "available_threads", lambda: 2)
    monkeypatch.setattr(plan, "_BYTES_OF_A_THREAD", 1)
    assert not isinstance(compiled_plan(desc), str)
    rng = np.random.default_rng(1)
    arrays = {slot.place: random_values(rng, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None}
    found, expected = run(desc, arrays, "cpu")["output_tensor"], dml.reference(desc, arrays).as_dict()["output_tensor"]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, np.asarray(expected).astype(found.dtype))


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "INT8", "UINT64"])
def test_diagonals(data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands that begin or end outside, that are empty, and all but a band, with an input and over zeros; single diagonals."""
    for begin, end in ((-3, 2), (2, -3), (-100, 0), (0, 100), (1, 1), (-(1 << 31), 1), ((1 << 31) - 1, -(1 << 31))):
        own: dict[str, Any] = {"value_data_type": data_type, "value": 3, "diagonal_fill_begin": begin, "diagonal_fill_end": end}
        sizes = (2, 3, 5, 7) if begin < end else (1, 3, 7, 5)
        others = tensor(data_type, *sizes) if begin != 0 else None
        _as_defined(dml.DiagonalMatrix1Desc(input_tensor=others, output_tensor=tensor(data_type, *sizes), **own), monkeypatch)
    for offset in (-9, -3, 0, 2, 9):
        _as_defined(dml.DiagonalMatrixDesc(output_tensor=tensor(data_type, 1, 2, 5, 7), offset=offset, value=2.5), monkeypatch)


@pytest.mark.parametrize("strides", [None, (64, 9, 1)])
@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "INT8", "UINT64"])
def test_constants(data_type: str, strides: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each width, packed and with gaps."""
    own: dict[str, Any] = {"value_data_type": data_type, "value": 101}
    _as_defined(dml.FillValueConstantDesc(output_tensor=tensor(data_type, 3, 5, 7, strides=strides), **own), monkeypatch)


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32"])
def test_sequences_are_rounded_once(data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start and distance lie so that FLOAT16 by way of FLOAT32 would be rounded twice, up and down."""
    once = 1 + 2.0**-11
    rows = ((-3.0, 0.125), (0.1, 0.0123), (-65000.0, 1.37), (1e-7, 3e-8), (NAN, 1.0), (0.0, INF), (-once, 2.0**-30), (once, -(2.0**-30)))
    for start, delta in rows:
        for count in (1, 37, 5003):
            own: dict[str, Any] = {"value_data_type": data_type, "value_start": start, "value_delta": delta}
            _as_defined(dml.FillValueSequenceDesc(output_tensor=tensor(data_type, count), **own), monkeypatch)
