"""Compiled gathers, scatters, ONE_HOT and reversals against the definition: each type of index, out of range too, one thread and two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import failures_in_layouts, random_values, run

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.indexing import plan
from dmlpy.devices.cpu.movement import plan as movement_plan
from dmlpy.devices.cpu.plans import compiled_plan

SIZES = (3, 5, 7)
_LONGER = ((9, 5, 7), (3, 9, 7), (3, 5, 9))
"""The sizes of indices along each axis: more than the input's."""


def tensor(data_type: str, *sizes: int, strides: Any = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def _gather(t: str, i: str, axis: int) -> Any:
    members: dict[str, Any] = {"axis": axis, "index_dimensions": 1}
    return dml.GatherDesc(input_tensor=tensor(t, *SIZES), indices_tensor=tensor(i, 1, 1, 11), **members).with_outputs()


def _gather_nd(t: str, i: str, batch: int) -> Any:
    members: dict[str, Any] = {"input_dimension_count": 3, "indices_dimension_count": 3, "batch_dimension_count": batch}
    return dml.GatherND1Desc(
        input_tensor=tensor(t, *SIZES), indices_tensor=tensor(i, 3, 4, 2 - batch + (batch == 0)), **members
    ).with_outputs()


def _scatter_nd(t: str, i: str, axes: int) -> Any:
    tensors = {"input_tensor": tensor(t, *SIZES), "indices_tensor": tensor(i, 1, 11, axes)}
    sizes = (1, 1, 11) if axes == 3 else (11, *SIZES[1:]) if axes == 1 else (1, 11, 7)
    members: dict[str, Any] = {"input_dimension_count": 3, "indices_dimension_count": 2}
    return dml.ScatterNDDesc(**tensors, updates_tensor=tensor(t, *sizes), **members).with_outputs()


def _elements(t: str, i: str, axis: int) -> Any:
    indices = tensor(i, *_LONGER[axis])
    return dml.GatherElementsDesc(input_tensor=tensor(t, *SIZES), indices_tensor=indices, axis=axis).with_outputs()


def _scatter(t: str, i: str, axis: int) -> Any:
    tensors = {"indices_tensor": tensor(i, *_LONGER[axis]), "updates_tensor": tensor(t, *_LONGER[axis])}
    return dml.ScatterDesc(input_tensor=tensor(t, *SIZES), **tensors, axis=axis).with_outputs()


def _one_hot(t: str, i: str, axis: int) -> Any:
    sizes = [1 if at == axis else size for at, size in enumerate(SIZES)]
    return dml.OneHotDesc(indices_tensor=tensor(i, *sizes), values_tensor=tensor(t, 1, 1, 2), output_tensor=tensor(t, *SIZES), axis=axis)


def _reversed(t: str, i: str, axis: int) -> Any:
    """The lengths are equal along the last axis where that is not reversed."""
    sizes = [1 if at == axis else size for at, size in enumerate(SIZES)]
    strides = None if axis == 2 else (0 if axis == 0 else 5, 0 if axis == 1 else 1, 0)
    lengths = tensor(i, *sizes, strides=strides)
    return dml.ReverseSubsequencesDesc(input_tensor=tensor(t, *SIZES), sequence_lengths_tensor=lengths, axis=axis).with_outputs()


def _table(t: str, i: str, count: int) -> Any:
    """The elements of a table, of so many indices."""
    members: dict[str, Any] = {"axis": 2, "index_dimensions": 1}
    return dml.GatherDesc(input_tensor=tensor(t, 1, 1, 7), indices_tensor=tensor(i, 1, 1, count), **members).with_outputs()


_TYPES = (("FLOAT16", "INT32"), ("FLOAT32", "UINT64"), ("INT8", "INT64"), ("FLOAT64", "UINT32"))
_MAKERS = (_gather, _gather_nd, _scatter_nd, _elements, _scatter, _one_hot, _reversed)
ROWS: list[tuple[Any, tuple[str, str], int]] = [(make, types, number % 3) for make in _MAKERS for number, types in enumerate(_TYPES)]
ROWS = [(make, types, axis + 1 if make is _scatter_nd else min(axis, 1) if make is _gather_nd else axis) for make, types, axis in ROWS]
ROWS += [(_elements, types, 2) for types in _TYPES if (_elements, types, 2) not in ROWS]  # along rows, which have a loop of their own
ROWS += [(_table, types, count) for types, count in zip(_TYPES, (130, 16_400, 64, 200), strict=True)]


def test_elements_of_a_table_are_read_in_rows() -> None:
    """As long ones as divide the indices, of which a prime number has none."""
    found = [dml.compile(_table("FLOAT32", "UINT32", count), "cpu").plan for count in (130, 20_000, 63, 8209)]
    assert [text.rsplit("; ")[-1] for text in found] == ["1 units", "4 units", "63 units", "8209 units"]


def test_rows_of_a_gather_along_the_last_axis_share_their_indices() -> None:
    """Each is a unit, whose elements need no division to be found."""
    assert dml.compile(_gather("FLOAT32", "INT64", 2), "cpu").plan.rsplit("; ")[-1] == "15 units"
    assert dml.compile(_gather("FLOAT32", "INT64", 1), "cpu").plan.rsplit("; ")[-1] == "33 units"


@pytest.mark.parametrize(("make", "types", "axis"), ROWS)
def test_as_the_definition(make: Any, types: tuple[str, str], axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal indices follow each other in scatters: the last update of an element stays."""
    data_type, index_type = types
    if make is _reversed:
        index_type = {"INT32": "UINT32", "INT64": "UINT64"}.get(index_type, index_type)
    for module in (plan, movement_plan):
        monkeypatch.setattr(module, "available_threads", lambda: 2)
        monkeypatch.setattr(module, "_BYTES_OF_A_THREAD", 1)
    rng, desc = np.random.default_rng(axis), make(data_type, index_type, axis)
    arrays = {slot.place: random_values(rng, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None}
    name = "sequence_lengths_tensor" if make is _reversed else "indices_tensor"
    held = desc.tensors()[name]
    indices = rng.integers(-9 if index_type.startswith("I") else 0, 9, held.sizes).astype(held.data_type.numpy)
    indices.reshape(-1)[:2] = np.iinfo(indices.dtype).min, np.iinfo(indices.dtype).max
    arrays[name] = np.broadcast_to(indices[tuple(slice(0, 1) if step == 0 else slice(None) for step in held.element_strides)], held.sizes)
    expected = dml.reference(desc, arrays).as_dict()
    assert not isinstance(compiled_plan(desc), str)
    for place, found in run(desc, arrays, "cpu").items():
        np.testing.assert_array_equal(found, expected[place])


def test_layouts() -> None:
    assert failures_in_layouts("GATHER_ND1", "REVERSE_SUBSEQUENCES", device="cpu") == []


def test_unpooling_fills_with_zeros() -> None:
    """Indices beyond the output write nothing; of equal ones the last stays."""
    rng = np.random.default_rng(3)
    for data_type, index_type in (("FLOAT16", "UINT64"), ("FLOAT32", "UINT32")):
        arrays = {"input_tensor": rng.normal(size=(2, 3, 4, 5)).astype(data_type.lower())}
        arrays["indices_tensor"] = rng.integers(0, 500, (2, 3, 4, 5)).astype(index_type.lower())
        tensors = {place: dml.TensorDesc.of(array) for place, array in arrays.items()}
        desc = dml.MaxUnpoolingDesc(**tensors, output_tensor=tensor(data_type, 2, 3, 8, 9))
        assert not isinstance(compiled_plan(desc), str)
        expected = np.asarray(dml.reference(desc, arrays).as_dict()["output_tensor"])
        np.testing.assert_array_equal(run(desc, arrays, "cpu")["output_tensor"], expected)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT8", "UINT32"])
def test_coordinates_of_elements_that_are_not_zero(data_type: str) -> None:
    """Of inputs with other axes innermost, gaps and repetitions, and without leading dimensions of one entry."""
    rng = np.random.default_rng(11)
    # Sizes, strides of the input, and dimensions of a coordinate.
    rows: list[tuple[tuple[int, ...], Any, int]] = [((7,), None, 1), ((5, 9), (1, 5), 2), ((3, 4, 6), (30, 7, 1), 3)]
    rows += [((1, 1, 4, 5), None, 3), ((1, 6, 8), None, 2), ((2, 3, 4), (0, 4, 1), 3), ((2, 1, 3, 2), (1, 1, 2, 6), 4)]
    for sizes, strides, dimensions in rows:
        count = int(np.prod(sizes))
        outputs = {"output_count_tensor": tensor("UINT32", 1), "output_coordinates_tensor": tensor("UINT32", count, dimensions)}
        desc = dml.NonzeroCoordinatesDesc(input_tensor=tensor(data_type, *sizes, strides=strides), **outputs)
        assert not isinstance(compiled_plan(desc), str)
        for share in (0.0, 0.5, 1.0):
            values: Any = np.where(rng.random(sizes) < share, rng.integers(1, 100, sizes), 0).astype(data_type.lower())
            if data_type.startswith("FLOAT"):
                values[rng.random(sizes) < 0.2] = -0.0
                values[rng.random(sizes) < 0.1] = np.nan
            if strides is not None and 0 in strides:
                values = np.broadcast_to(values[:1], sizes)
            found, wanted = (run(desc, {"input_tensor": values}, device) for device in ("cpu", "numpy"))
            for place, array in wanted.items():
                np.testing.assert_array_equal(found[place], array, err_msg=f"{sizes} {share} {place}")
