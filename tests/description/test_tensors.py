"""`TensorDesc`: descs of arrays, layouts, bytes, and the rules of a tensor alone."""

from __future__ import annotations

import ctypes
import operator
from array import array as stdlib_array
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.tensors import covers, packed_strides, same_layout


def desc(sizes: Any = (1, 7, 3, 11), strides: Any = None, data_type: str = "FLOAT32", **more: Any) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides, **more)


def array(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype)


ARRAYS: list[tuple[str, np.ndarray[Any, Any], tuple[int, ...] | None]] = [
    ("packed", array(4, 5), None),
    ("Fortran order", np.asfortranarray(array(4, 5)), (1, 4)),
    ("transposed", array(2, 3, 4).transpose(2, 0, 1), (1, 12, 4)),
    ("every second column", array(4, 10)[:, ::2], (10, 2)),
    ("broadcast", np.broadcast_to(array(5), (4, 5)), (0, 1)),
    ("one row of a larger one, which is packed", array(4, 5)[1:2], None),
    ("one column of a larger one", array(4, 5)[:, 2:3], (5, 1)),
    ("halves", array(3, 3, dtype=np.float16).T, (1, 3)),
]


@pytest.mark.parametrize(("given", "strides"), [row[1:] for row in ARRAYS], ids=[row[0] for row in ARRAYS])
def test_of_an_array(given: np.ndarray[Any, Any], strides: tuple[int, ...] | None) -> None:
    found = dml.TensorDesc.of(given)
    assert found.sizes == given.shape
    assert found.strides == strides
    assert found.data_type.numpy == given.dtype
    steps = tuple(step // given.itemsize for step in given.strides)
    assert same_layout(found, steps)
    wide = dml.TensorDesc.of(given, dimension_count=4)
    assert wide.sizes == (1,) * (4 - given.ndim) + given.shape
    # The same memory, seen through the desc.
    seen = np.lib.stride_tricks.as_strided(given, wide.sizes, wide.numpy_strides())
    assert np.array_equal(seen.reshape(given.shape), given)


@pytest.mark.parametrize(
    ("given", "data_type", "sizes"),
    [
        (stdlib_array("f", [1, 2, 3]), "FLOAT32", (3,)),
        (bytearray(4), "UINT8", (4,)),
        (memoryview(bytearray(24)).cast("d", (3, 1)), "FLOAT64", (3, 1)),
        ((ctypes.c_int32 * 5 * 2)(), "INT32", (2, 5)),
    ],
    ids=["array.array", "bytearray", "memoryview", "ctypes"],
)
def test_of_an_object_with_a_buffer(given: Any, data_type: str, sizes: tuple[int, ...]) -> None:
    assert dml.TensorDesc.of(given) == dml.TensorDesc(data_type=data_type, sizes=sizes)


def test_of_bytes_is_refused() -> None:
    with pytest.raises(dml.DescError, match=r"expected an array  \[array.kind\]"):
        dml.TensorDesc.of(b"1234")


def test_of_a_scalar_array_needs_a_dimension() -> None:
    assert dml.TensorDesc.of(np.float32(3) * np.ones(()), dimension_count=1).sizes == (1,)
    assert [problem.code for problem in dml.TensorDesc.of(np.ones(())).problems(output=False)] == ["dims.range"]


class Exported:
    """An array that only DLPack can reach."""

    def __init__(self, inner: np.ndarray[Any, Any]) -> None:
        self.inner = inner

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.inner.__dlpack_device__()


class OnGpu:
    """An array as CuPy shows it."""

    def __init__(self, strides: tuple[int, ...] | None, typestr: str = "<f4", **more: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (4, 5),
            "typestr": typestr,
            "data": (4096, False),
            "version": 3,
            "strides": strides,
        } | more


def test_of_arrays_of_other_libraries() -> None:
    assert dml.TensorDesc.of(Exported(array(4, 5).T)) == desc((5, 4), (1, 5))
    assert dml.TensorDesc.of(OnGpu(None)) == desc((4, 5))
    assert dml.TensorDesc.of(OnGpu((40, 8))) == desc((4, 5), (10, 2))
    assert dml.TensorDesc.of(array(4, 5).data) == desc((4, 5))


NO_DESC: list[tuple[str, Any, str, str]] = [
    ("list", [[1.0]], "array.kind", ""),
    ("None", None, "array.kind", ""),
    ("bool", array(2, dtype=bool), "array.type", "data_type"),
    ("complex", array(2, dtype=complex), "array.type", "data_type"),
    ("big-endian", array(2, dtype=">f4"), "array.type", "data_type"),
    ("backwards", array(4)[::-1], "array.strides", "strides"),
    ("a field of a record", np.zeros(3, [("a", "u1"), ("b", "<f4")])["b"], "array.strides", "strides"),
    ("masked on the GPU", OnGpu(None, mask=object()), "array.kind", ""),
    ("too many dimensions", array(2, 2, 2), "array.dims", "sizes"),
]


@pytest.mark.parametrize(("given", "code", "path"), [row[1:] for row in NO_DESC], ids=[row[0] for row in NO_DESC])
def test_arrays_without_a_desc(given: Any, code: str, path: str) -> None:
    with pytest.raises(dml.DescError, match=r"^TensorDesc\.of: 1 problem") as caught:
        dml.TensorDesc.of(given, dimension_count=2)
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [(code, path)]


def test_all_that_is_wrong_with_an_array_is_reported_at_once() -> None:
    with pytest.raises(dml.DescError) as caught:
        dml.TensorDesc.of(array(2, 2, dtype=complex)[::-1], dimension_count=1)
    assert [problem.code for problem in caught.value.problems] == ["array.type", "array.strides", "array.dims"]


# Cases of DMLCalcBufferTensorSize: type, sizes, strides, bytes.
@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "size"),
    [
        ("FLOAT16", (1, 1, 1, 3), None, 8),
        ("UINT4", (1, 1, 1, 5), None, 4),
        ("FLOAT32", (1, 1, 4, 4), (0, 0, 0, 1), 16),
        ("FLOAT32", (2, 3), None, 24),
        ("FLOAT32", (2, 3), (8, 1), 44),
        ("UINT8", (1,), None, 4),
        ("FLOAT64", (3,), (5,), 88),
        ("INT4", (3, 3), None, 8),
    ],
)
def test_minimum_size(data_type: str, sizes: tuple[int, ...], strides: tuple[int, ...] | None, size: int) -> None:
    tensor = desc(sizes, strides, data_type)
    assert tensor.minimum_size_in_bytes == tensor.size_in_bytes == size
    assert tensor.replace(total_tensor_size_in_bytes=size + 4).size_in_bytes == size + 4


def test_packed_strides() -> None:
    assert packed_strides((2, 3, 4)) == (12, 4, 1)
    assert packed_strides(()) == ()
    assert desc((2, 3, 4)).element_strides == (12, 4, 1)


@pytest.mark.parametrize(
    ("sizes", "strides", "words"),
    [
        ((2, 3), None, "packed"),
        ((2, 3), (3, 1), "packed"),
        ((1, 3), (99, 1), "packed"),
        ((2, 3), (1, 2), "axis 0 contiguous"),
        ((2, 3), (8, 2), "no contiguous axis"),
        ((2, 3), (0, 1), "axis 1 contiguous, axis 0 broadcast"),
        ((2, 3), (0, 0), "no contiguous axis, axis 0 broadcast, axis 1 broadcast"),
        ((), None, "invalid"),
        ((2, 3), (1,), "invalid"),
    ],
)
def test_layouts_in_words(sizes: tuple[int, ...], strides: tuple[int, ...] | None, words: str) -> None:
    tensor = desc(sizes, strides)
    assert tensor.layout() == words
    assert words in str(tensor)
    assert words in tensor._repr_html_()


RULES: list[tuple[str, dml.TensorDesc, bool, str, str]] = [
    ("unknown type", desc(data_type="UNKNOWN"), False, "type.unknown", "data_type"),
    ("no dimensions", desc(()), False, "dims.range", "sizes"),
    ("nine dimensions", desc((1,) * 9), False, "dims.range", "sizes"),
    ("size 0", desc((1, 0)), False, "size.range", "sizes[1]"),
    ("negative size", desc((1, -2)), False, "size.range", "sizes[1]"),
    ("size beyond UINT32", desc((1, 2**32)), False, "size.range", "sizes[1]"),
    ("too few strides", desc((2, 3), (1,)), False, "stride.count", "strides"),
    ("too many strides", desc((2, 3), (1, 1, 1)), False, "stride.count", "strides"),
    ("negative stride", desc((2, 3), (-3, 1)), False, "stride.range", "strides[0]"),
    ("stride beyond UINT32", desc((2, 3), (2**32, 1)), False, "stride.range", "strides[0]"),
    ("negative alignment", desc(guaranteed_base_offset_alignment=-16), False, "alignment.range", "guaranteed_base_offset_alignment"),
    ("alignment of 48", desc(guaranteed_base_offset_alignment=48), False, "alignment.value", "guaranteed_base_offset_alignment"),
    ("alignment below the element", desc(guaranteed_base_offset_alignment=2), False, "alignment.value", "guaranteed_base_offset_alignment"),
    ("negative total", desc(total_tensor_size_in_bytes=-4), False, "total_size.range", "total_tensor_size_in_bytes"),
    ("total beyond UINT64", desc(total_tensor_size_in_bytes=2**64), False, "total_size.range", "total_tensor_size_in_bytes"),
    ("total too small", desc(total_tensor_size_in_bytes=920), False, "total_size.small", "total_tensor_size_in_bytes"),
    (
        "total not rounded up",
        desc((3,), data_type="FLOAT16", total_tensor_size_in_bytes=6),
        False,
        "total_size.small",
        "total_tensor_size_in_bytes",
    ),
    ("2^32 elements", desc((2**16, 2**16)), False, "elements.limit", "sizes"),
    ("2^32 elements, broadcast", desc((2**16, 2**16), (0, 0)), False, "elements.limit", "sizes"),
    ("a span beyond 2^32", desc((3, 2), (2**31, 1)), False, "elements.limit", "strides"),
    ("strided nibbles", desc((2, 3), (4, 1), "UINT4"), True, "stride.nibble", "strides"),
    ("owned output", desc(flags="OWNED_BY_DML"), True, "flag.output", "flags"),
    ("broadcast output", desc((2, 3), (0, 1)), True, "stride.broadcast", "strides[0]"),
    ("overlapping output", desc((2, 3), (2, 1)), True, "stride.overlap", "strides"),
]


@pytest.mark.parametrize(("tensor", "output", "code", "path"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_rules_of_a_tensor_alone(tensor: dml.TensorDesc, output: bool, code: str, path: str) -> None:
    assert [(problem.code, problem.path) for problem in tensor.problems(output=output)] == [(code, path)]
    if output:
        assert tensor.problems(output=False) == []


@pytest.mark.parametrize(
    "tensor",
    [
        desc((2**16, 2**16 - 1)),
        desc((1, 3), (2**32 - 1, 1)),
        desc((2, 3), (0, 0)),
        desc(guaranteed_base_offset_alignment=4),
        desc(data_type="UINT4", guaranteed_base_offset_alignment=1),
        desc((3,), data_type="FLOAT16", total_tensor_size_in_bytes=8),
        desc((2, 3), (3, 1), "INT4"),
    ],
    ids=str,
)
def test_the_last_legal_values(tensor: dml.TensorDesc) -> None:
    assert tensor.problems(output=False) == []


@pytest.mark.parametrize("dtype", ["V0", "U0", [("a", "f4"), ("b", "f4")]])
def test_arrays_of_other_elements_are_refused(dtype: Any) -> None:
    with pytest.raises(dml.DescError) as error:
        dml.TensorDesc.of(np.zeros(3, dtype))
    assert [problem.code for problem in error.value.problems] == ["array.type"]


def test_the_limit_of_elements_blames_what_exceeds_it() -> None:
    def paths(tensor: dml.TensorDesc) -> list[str]:
        return [problem.path for problem in tensor.problems(output=False) if problem.code == "elements.limit"]

    assert paths(desc((2**16, 2**16))) == ["sizes"]
    assert paths(desc((3, 2), (2**32 - 1, 1))) == ["strides"]


def test_strict_adds_the_rules_of_buffers() -> None:
    tensor = desc(total_tensor_size_in_bytes=926, guaranteed_base_offset_alignment=4)
    assert tensor.problems(output=True) == []
    assert [problem.code for problem in tensor.problems(output=True, strict=True)] == ["strict.size", "strict.alignment"]


def test_large_interleaved_tensors_count_as_overlapping() -> None:
    # Entries at 2i + 8191j with i <= 4096: none coincide, because 8191 is odd; too costly to find out by trying.
    assert desc((2, 4097), (8191, 2)).overlaps_itself()
    assert not desc((2, 5), (5, 2)).overlaps_itself()


def test_descs_are_values() -> None:
    assert desc(strides=[]) == desc(strides=None) == desc(total_tensor_size_in_bytes=0)
    assert hash(desc(strides=[])) == hash(desc())
    assert desc(np.array([1, 7, 3, 11], np.uint64), DimensionCount=4) == desc()
    assert desc((np.int32(1), np.uint8(7), 3, 11)) == desc()
    with pytest.raises(Exception, match="frozen"):
        desc().sizes = (1,)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_a_reader_is_covered_only_if_it_reads_elements(data: st.DataObject) -> None:
    axes = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=3)

    def drawn(kind: str) -> dml.TensorDesc:
        sizes, strides = zip(*data.draw(axes), strict=True)
        return dml.TensorDesc(data_type=kind, sizes=sizes, strides=strides)

    def elements(desc: dml.TensorDesc) -> set[int]:
        offsets = (sum(map(operator.mul, place, desc.element_strides)) for place in product(*map(range, desc.sizes)))
        item = desc.data_type.bits // 8
        return {offset * item + byte for offset in offsets for byte in range(item)}

    writer, reader = drawn("FLOAT32"), drawn(data.draw(st.sampled_from(["FLOAT32", "FLOAT16"])))
    assume(not writer.problems(output=True))
    assert covers(writer, writer)
    if covers(writer, reader):
        assert elements(reader) <= elements(writer)
