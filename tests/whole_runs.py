"""Operators that are computed on whole arrays, run in every layout: packed, with gaps and axes in another order, broadcast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike

import dmlpy as dml
from dmlpy.devices.numpy.whole import reference
from tests import relation_descs
from tests.tolerance import assert_close

Array = np.ndarray[Any, Any]

POISON = 0xA5
_MARGIN = 16  # elements of guarded memory before and behind a tensor


def tensor(array: Array) -> dml.TensorDesc:
    return dml.TensorDesc.of(array)


def packed(dtype: DTypeLike, *sizes: int) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=np.dtype(dtype).name.upper(), sizes=sizes)


def compute(desc: dml.OperatorDesc, **inputs: Any) -> Array:
    """The only output, in memory that the device allocates."""
    [result] = dml.compile(desc, "numpy")(**inputs).as_dict().values()
    return np.asarray(result)


def same(found: Array, expected: Array, what: str) -> None:
    """Fails unless types, sizes and values are equal."""
    assert found.dtype == expected.dtype, f"{what}: {found.dtype}, expected {expected.dtype}"
    np.testing.assert_array_equal(found, expected, what, strict=True)


def run(desc: dml.OperatorDesc, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by place, of inputs by place: all tensors in guarded memory, as the desc lays them out."""
    kept = {}
    for place, tensor in desc.tensors().items():
        kept[place] = Guarded(tensor)
        if place in arrays:
            kept[place].array[...] = arrays[place]
    fields: dict[str, Any] = {}
    for slot in desc.slots():
        if slot.tensor is not None and slot.index is None:
            fields[slot.place] = kept[slot.place].array
        elif slot.tensor is not None:
            fields.setdefault(slot.field.name, []).append(kept[slot.place].array)
    dml.compile(desc, "numpy")(**fields)
    for place, memory in kept.items():
        assert memory.guarded(), f"{desc.c_name} wrote past {place}"
        if place in arrays:
            np.testing.assert_array_equal(memory.array, arrays[place].astype(memory.array.dtype), f"{desc.c_name} wrote its {place}")
    return {slot.place: kept[slot.place].array for slot in desc.output_slots() if slot.tensor is not None}


class Guarded:
    """A tensor in memory full of poison."""

    def __init__(self, tensor: dml.TensorDesc) -> None:
        dtype = tensor.data_type.numpy
        strides = tensor.element_strides
        count = 1 + sum((size - 1) * stride for size, stride in zip(tensor.sizes, strides, strict=True))
        self._memory = np.full((count + 2 * _MARGIN) * dtype.itemsize, POISON, np.uint8)
        self._outside = np.ones(count + 2 * _MARGIN, np.bool_)
        as_strided(self._outside[_MARGIN:], tensor.sizes, strides)[...] = False
        self.array = as_strided(self._memory.view(dtype)[_MARGIN:], tensor.sizes, [stride * dtype.itemsize for stride in strides])

    def guarded(self) -> bool:
        """Whether the memory that is not the tensor's is as it was."""
        return bool((self._memory.reshape(len(self._outside), -1)[self._outside] == POISON).all())


def spread(tensor: dml.TensorDesc, broadcast: int | None = None) -> dml.TensorDesc:
    """The tensor with its axes in the opposite order and gaps between elements; one axis may be broadcast, with a stride of 0."""
    strides, step = [], 2
    for axis, size in enumerate(tensor.sizes):
        strides.append(0 if axis == broadcast else step)
        step = step if axis == broadcast else step * size + 1
    return dml.TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes, strides=strides)


def relaid(desc: dml.OperatorDesc, broadcast: bool) -> dml.OperatorDesc:
    """The desc with all tensors spread, and inputs broadcast along their longest axis if so wished."""
    members: dict[str, Any] = {name: getattr(desc, name) for name in type(desc).model_fields}
    for field in desc.tensor_fields():
        if members[field.name] is None:
            continue
        given = members[field.name] if field.listed else (members[field.name],)
        tensors = tuple(spread(tensor, int(np.argmax(tensor.sizes)) if broadcast and not field.marker.output else None) for tensor in given)
        members[field.name] = tensors if field.listed else tensors[0]
    return type(desc)(**members)


def random_values(rng: np.random.Generator, tensor: dml.TensorDesc) -> Array:
    """Values of a type's whole range, half of them small, and of floating point also what is not finite."""
    dtype, sizes = tensor.data_type.numpy, tensor.sizes
    if dtype.kind == "f":
        return np.where(rng.random(sizes) < 0.9, rng.normal(0, 50, sizes), rng.choice([np.nan, np.inf, -np.inf, -0.0], sizes)).astype(dtype)
    limits = np.iinfo(dtype)
    wide = rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
    return np.where(rng.random(sizes) < 0.5, wide, rng.integers(max(limits.min, -4), 5, sizes)).astype(dtype)


def check_layouts(desc: dml.OperatorDesc, rng: np.random.Generator) -> None:
    """Fails unless the desc computes the same in all layouts and, but for rounding, in float64."""
    assert dml.check(desc) == []
    arrays = {slot.place: random_values(rng, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None}
    for broadcast in (False, True):
        other = relaid(desc, broadcast)
        if broadcast:
            for slot in desc.input_slots():
                if slot.tensor is not None:
                    axis = int(np.argmax(slot.tensor.sizes))
                    own = arrays[slot.place]
                    arrays[slot.place] = np.broadcast_to(np.take(own, [-1], axis), own.shape).copy()
        results, spread_out = run(desc, arrays), run(other, arrays)
        exact = reference(desc, arrays)
        for place, result in results.items():
            what = f"{desc.c_name} {place}"
            np.testing.assert_array_equal(spread_out[place], result, what)
            wanted = np.broadcast_to(exact[place], result.shape)
            if result.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    assert_close(result, wanted.astype(result.dtype), result.dtype, what=what)
            else:
                np.testing.assert_array_equal(result, wanted.astype(result.dtype), what)


def failures_in_layouts(operators: tuple[str, ...]) -> list[str]:
    """What fails of the relations' valid descs of some operators, by their short names."""
    rng, found = np.random.default_rng(1729), []
    for operator in operators:
        name = f"DML_OPERATOR_{operator}"
        descs = relation_descs.valid_descs(name)
        assert descs
        for own in descs:
            try:
                check_layouts(dml.OperatorDesc.from_dict(relation_descs.data(name, own.members)), rng)
            except Exception as error:  # whatever is raised is a failure to be told, with all others
                found.append(f"{operator}, {own.about}: {type(error).__name__}: {error}")
    return found
