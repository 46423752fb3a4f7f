"""`pack_int4` and `unpack_int4`, against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.int4 import pack_tensor, unpack_tensor

ml_dtypes = pytest.importorskip("ml_dtypes")

Array = np.ndarray[Any, Any]
RANGES = {"INT4": (-8, 7), "UINT4": (0, 15)}
DTYPES = {"INT4": [np.int8, ml_dtypes.int4], "UINT4": [np.uint8, ml_dtypes.uint4]}


def plain(values: list[int]) -> list[int]:
    """The bytes of values: the first of two in the low half, 0 behind an odd last one."""
    halves = [value % 16 for value in values] + [0] * (len(values) % 2)
    return [low + 16 * high for low, high in zip(halves[::2], halves[1::2], strict=True)]


@pytest.mark.parametrize("data_type", RANGES)
@given(st.data())
def test_packed_is_what_plain_python_packs(data_type: str, data: Any) -> None:
    least, most = RANGES[data_type]
    values = data.draw(st.lists(st.integers(least, most), max_size=9))
    for dtype in DTYPES[data_type]:
        array = np.array(values, np.int8).astype(dtype)
        packed = dml.pack_int4(array)
        assert packed.dtype == np.uint8
        assert packed.tolist() == plain(values)
        for wanted in (data_type, dml.DataType[data_type], *DTYPES[data_type][1:]):
            back = dml.unpack_int4(packed, wanted, [len(values)])
            assert back.dtype == (DTYPES[data_type][1] if wanted is DTYPES[data_type][1] else DTYPES[data_type][0])
            assert back.astype(np.int8).tolist() == values


def test_sizes_and_strides_of_what_is_packed() -> None:
    """Any sizes, the last dimension fastest, whatever the array's own strides."""
    values = np.arange(-7, 8, dtype=np.int8).reshape(5, 3).T
    packed = dml.pack_int4(values)
    assert packed.tolist() == plain(values.reshape(-1).tolist())
    np.testing.assert_array_equal(dml.unpack_int4(packed, "INT4", (3, 5)), values)
    assert dml.unpack_int4(dml.pack_int4(np.int8(-8)), "INT4", ()) == -8


@pytest.mark.parametrize(
    ("strides", "data"), [(None, [0x21, 0x43, 0x65]), ([4, 1], [0x21, 0x03, 0x54, 0x06]), ([1, 2], [0x41, 0x52, 0x63])]
)
def test_described_layouts(strides: list[int] | None, data: list[int]) -> None:
    tensor = dml.TensorDesc(data_type="UINT4", sizes=[2, 3], strides=strides)
    values = np.arange(1, 7, dtype=np.uint8).reshape(2, 3)
    assert pack_tensor(values, tensor).tolist() == data
    np.testing.assert_array_equal(unpack_tensor(np.array(data, np.uint8), tensor), values)


def test_a_repeated_element_is_stored_once() -> None:
    tensor = dml.TensorDesc(data_type="INT4", sizes=[2, 3], strides=[1, 0])
    values = np.array([[-1] * 3, [5] * 3], np.int8)
    assert pack_tensor(values, tensor).tolist() == [0x5F]
    np.testing.assert_array_equal(unpack_tensor(np.array([0x5F], np.uint8), tensor), values)


class OnGpu:
    __cuda_array_interface__ = {"shape": (2,), "typestr": "|u1", "data": (4096, False), "version": 3}


I8, BYTES = np.array([1, 8, -9], np.int8), np.zeros(2, np.uint8)
WRONG: dict[str, tuple[Any, str, str, str]] = {
    "above INT4": (lambda: dml.pack_int4(I8), "value.range", "values[1]", "-8 to 7"),
    "below INT4": (lambda: dml.pack_int4(I8[2:]), "value.range", "values[0]", "-8 to 7"),
    "above UINT4": (lambda: dml.pack_int4(np.array([15, 16], np.uint8)), "value.range", "values[1]", "0 to 15"),
    "wide integers": (lambda: dml.pack_int4(I8.astype(int)), "array.type", "values", "int8, uint8, ml_dtypes.int4"),
    "floating point": (lambda: dml.pack_int4(np.zeros(2)), "array.type", "values", "int8, uint8, ml_dtypes.int4"),
    "no array": (lambda: dml.pack_int4("12"), "array.kind", "values", "an array"),
    "memory of a GPU": (lambda: dml.pack_int4(OnGpu()), "array.device", "values", "host memory"),
    "not bytes": (lambda: dml.unpack_int4(I8, "INT4", [6]), "array.type", "packed", "uint8"),
    "too many bytes": (lambda: dml.unpack_int4(BYTES, "INT4", [2]), "array.shape", "packed", "[1]"),
    "too few bytes": (lambda: dml.unpack_int4(BYTES, "INT4", [5]), "array.shape", "packed", "[3]"),
    "bytes in rows": (lambda: dml.unpack_int4(BYTES[None], "INT4", [4]), "array.shape", "packed", "[2]"),
    "another type": (lambda: dml.unpack_int4(BYTES, "INT8", [4]), "field.form", "data_type", "INT4, UINT4"),
    "no type": (lambda: dml.unpack_int4(BYTES, object(), [4]), "field.form", "data_type", "INT4, UINT4"),
    "wrong sizes": (lambda: dml.unpack_int4(BYTES, "INT4", [-4]), "field.form", "sizes", "at least 0"),
    "one size": (lambda: dml.unpack_int4(BYTES, "INT4", 4), "field.form", "sizes", "a list"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_packed_or_unpacked(name: str) -> None:
    call, code, path, expected = WRONG[name]
    with pytest.raises(dml.DescError) as caught:
        call()
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == (code, path)
    assert expected in problem.expected
