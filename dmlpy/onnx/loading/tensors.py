"""Tensors of a model's file: their bytes are counted before they are read, and files of external data must be below the model's folder."""

from __future__ import annotations

import stat
from contextlib import suppress
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from onnx import SparseTensorProto, TensorProto, numpy_helper

from dmlpy.description.coercion import brief
from dmlpy.messages.naming import Count, listed
from dmlpy.messages.problems import DescError, Problem
from dmlpy.onnx.loading.elements import ELEMENTS, MAX_DIMENSIONS, dtype_of, element_name, sizes_problem
from dmlpy.system import files
from dmlpy.system.other_formats import LFS_POINTER, LFS_REMEDY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dmlpy.onnx.loading.values import Array

_LARGEST_POINTER = 1024
MAX_DENSE_BYTES = 1 << 28
"""The most bytes of a sparse tensor when made dense."""
_FIELDS: Mapping[int, tuple[str, int]] = {
    TensorProto.FLOAT: ("float_data", 1),
    TensorProto.COMPLEX64: ("float_data", 2),
    TensorProto.DOUBLE: ("double_data", 1),
    TensorProto.COMPLEX128: ("double_data", 2),
    TensorProto.INT64: ("int64_data", 1),
    TensorProto.UINT32: ("uint64_data", 1),
    TensorProto.UINT64: ("uint64_data", 1),
    TensorProto.STRING: ("string_data", 1),
}
"""The field with the elements of a type, and its entries per element; `int32_data` has those of other types."""
_BITS: dict[int, int] = {TensorProto.UINT4: 4, TensorProto.INT4: 4, TensorProto.FLOAT4E2M1: 4}
if hasattr(TensorProto, "INT2"):
    _BITS |= {TensorProto.UINT2: 2, TensorProto.INT2: 2}
_ALL_FIELDS = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data", "string_data")


def problem_of(tensor: TensorProto, folder: Path | None, data: Array | None = None) -> Problem | None:
    """The problem of a tensor; None if its elements can be read.

    Args:
        tensor: the tensor.
        folder: the folder of external data; None if there can be none.
        data: its bytes, if they were read apart from it.
    """
    if tensor.data_type not in ELEMENTS or tensor.data_type == TensorProto.UNDEFINED:
        return Problem("onnx.type", "data_type", str(tensor.data_type), "the number of one of ONNX's element types")
    if any(size < 0 for size in tensor.dims) or len(tensor.dims) > MAX_DIMENSIONS:
        return Problem("onnx.tensor", "dims", listed(tensor.dims), f"at most {MAX_DIMENSIONS} sizes, each 0 or more")
    if (problem := sizes_problem("dims", tensor.dims, tensor.data_type)) is not None and 0 in tensor.dims:
        return problem
    if tensor.HasField("segment"):
        return Problem("onnx.tensor", "segment", "given", "absent: all elements lie together")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external_problem(tensor, folder)
    if tensor.data_type == TensorProto.STRING or not tensor.HasField("raw_data"):
        return _field_problem(tensor)
    return _size_problem("raw_data", len(tensor.raw_data if data is None else data), tensor)


def array_of(tensor: TensorProto, folder: Path | None) -> Array:
    """The elements of a tensor for which `problem_of` returned None."""
    if tensor.data_type == TensorProto.STRING:
        return texts_of(tensor.string_data).reshape(tuple(tensor.dims))
    if tensor.data_location != TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    place = locate(tensor, folder)
    try:
        with files.opened(place.path) as file:
            file.seek(place.offset)
            data = file.read(place.size)
        found = f"{len(data)} bytes"
    except OSError as error:
        data, found = b"", error.strerror or str(error)
    if len(data) != place.size:
        expected = f"{place.size} bytes: the file has changed"
        raise DescError(place.path.name, [Problem("onnx.external", tensor.name, found, expected)])
    return elements_in(tensor, np.frombuffer(data, np.uint8))


def elements_in(tensor: TensorProto, data: Array) -> Array:
    """The elements of a tensor for which `problem_of` returned None, in bytes that are not copied where NumPy has the type."""
    dtype = np.dtype(dtype_of(tensor.data_type))
    if tensor.data_type in _BITS or dtype.kind == "O":
        inline = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data.tobytes())
        return numpy_helper.to_array(inline)
    return data.view(dtype.newbyteorder("<")).reshape(tuple(tensor.dims)).astype(dtype, copy=False)


def texts_of(texts: Iterable[bytes]) -> Array:
    """Texts as an array of objects: ONNX's converter temporarily pads each to the longest."""
    decoded = [text.decode("utf-8") for text in texts]
    array = np.empty(len(decoded), object)
    array[:] = decoded
    return array


def sparse_problem_of(tensor: SparseTensorProto, folder: Path | None) -> Problem | None:
    """The problem of a sparse tensor; None if its elements can be read."""
    for part, stored in (("values", tensor.values), ("indices", tensor.indices)):
        problem = problem_of(stored, folder)
        if problem is not None:
            return problem.under(part)
    if any(size < 0 for size in tensor.dims) or len(tensor.dims) > MAX_DIMENSIONS:
        return Problem("onnx.tensor", "dims", listed(tensor.dims), f"at most {MAX_DIMENSIONS} sizes, each 0 or more")
    if (problem := sizes_problem("dims", tensor.dims, tensor.values.data_type)) is not None:
        return problem
    count = prod(tensor.values.dims)
    if tensor.indices.data_type != TensorProto.INT64 or [*tensor.indices.dims] not in ([count], [count, len(tensor.dims)]):
        found = f"{element_name(tensor.indices.data_type)} {listed(tensor.indices.dims)}"
        return Problem("onnx.tensor", "indices", found, f"int64 [{count}] or [{count}, {len(tensor.dims)}]")
    if tensor.values.data_type == TensorProto.STRING or _bytes(prod(tensor.dims), tensor.values.data_type) > MAX_DENSE_BYTES:
        return Problem("onnx.tensor", "dims", listed(tensor.dims), f"sizes of at most {MAX_DENSE_BYTES} bytes of numbers")
    indices = np.asarray(array_of(tensor.indices, folder))
    limits = np.asarray(tensor.dims if indices.ndim == 2 else [prod(tensor.dims)], np.int64)
    if np.any(indices < 0) or np.any(indices >= limits):
        return Problem("onnx.tensor", "indices", "beyond the tensor", f"indices below {listed(tensor.dims)}")
    return None


def dense(tensor: SparseTensorProto, folder: Path | None) -> Array:
    """The dense elements of a sparse tensor for which `sparse_problem_of` returned None."""
    values, indices = array_of(tensor.values, folder), array_of(tensor.indices, folder)
    array = np.zeros(tuple(tensor.dims), values.dtype)
    places = tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, array.shape)
    array[places] = np.ravel(values)
    return array


def _bytes(count: int, element: int) -> int:
    bits = _BITS.get(element) or dtype_of(element).itemsize * 8
    return -(-count * bits // 8)


def _size_problem(path: str, found: int, tensor: TensorProto) -> Problem | None:
    expected = _bytes(prod(tensor.dims), tensor.data_type)
    if found == expected:
        return None
    why = (f"the tensor is {element_name(tensor.data_type)} {listed(tensor.dims)}",)
    return Problem("onnx.tensor", path, f"{found} bytes", f"{expected} bytes", why)


def _field_problem(tensor: TensorProto) -> Problem | None:
    field, each = _FIELDS.get(tensor.data_type, ("int32_data", 1))
    count = prod(tensor.dims) * each
    bits = _BITS.get(tensor.data_type)
    expected = count if bits is None else -(-count * bits // 8)
    entries = len(getattr(tensor, field))
    others = [name for name in _ALL_FIELDS if name != field and len(getattr(tensor, name))]
    if others or tensor.HasField("raw_data"):
        return Problem(
            "onnx.tensor", others[0] if others else "raw_data", "given", f"absent: {element_name(tensor.data_type)} is in {field}"
        )
    if tensor.data_type == TensorProto.STRING and not all(map(is_text, tensor.string_data)):
        return Problem("onnx.tensor", field, "not UTF-8", "text")
    if entries == expected:
        return None
    why = (f"the tensor is {element_name(tensor.data_type)} {listed(tensor.dims)}",)
    return Problem("onnx.tensor", field, Count(f"{entries} entries"), f"{expected} entries", why)


def is_text(data: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_pointer(path: Path) -> bool:
    with suppress(OSError), files.opened(path) as file:
        return file.read(len(LFS_POINTER)) == LFS_POINTER
    return False


def _external_problem(tensor: TensorProto, folder: Path | None) -> Problem | None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if not all(isinstance(text, str) for pair in entries.items() for text in pair):
        return Problem("onnx.external", "external_data", "text that is no UTF-8", "names and numbers as text")
    location = entries.get("location", "")
    if folder is None:
        remedy = "load the model from its file"
        return Problem("onnx.external", "external_data", brief(location), "data in the model itself: its folder is not known", (), remedy)
    for name in ("offset", "length"):
        if name in entries and not (entries[name].isascii() and entries[name].isdigit() and len(entries[name]) <= 18):
            return Problem("onnx.external", name, brief(entries[name]), "a number of bytes")
    parts = PurePosixPath(location).parts
    outside = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor or ".." in parts or ".." in location.split("\\")
    if not parts or outside or not location.isprintable():
        return Problem("onnx.external", "location", brief(location), "a relative path below the model's folder")
    try:
        path = (folder / location).resolve(strict=True)
        status = path.stat()
        size = status.st_size
        inside, regular = path.is_relative_to(folder.resolve()), stat.S_ISREG(status.st_mode)
    except (OSError, RuntimeError, ValueError):
        return Problem("onnx.external", "location", brief(location), "a file that can be read")
    if not inside or not regular:
        return Problem("onnx.external", "location", brief(location), "a file below the model's folder, not a link out of it")
    if (reason := files.refusal(status)) is not None:
        return Problem("onnx.external", "location", f"{brief(location)}, {reason}", "a file that is stored")
    if size <= _LARGEST_POINTER and _is_pointer(path):
        return Problem("onnx.external", "location", f"{brief(location)}, a pointer of Git LFS", "the file itself", remedy=LFS_REMEDY)
    start = int(entries.get("offset", 0))
    length = int(entries["length"]) if "length" in entries else size - start
    if start + length > size:
        return Problem("onnx.external", "location", f"{brief(location)}, {size} bytes", f"at least {start + length} bytes")
    if tensor.data_type == TensorProto.STRING:
        return Problem("onnx.external", "data_type", "string", "a type whose elements have a size")
    return _size_problem("length", length, tensor)


class ExternalLocation(NamedTuple):
    """The location of the elements of a tensor with external data.

    Attributes:
        path: the file.
        offset: the first byte.
        size: the bytes.
    """

    path: Path
    offset: int
    size: int


def locate(tensor: TensorProto, folder: Path | None) -> ExternalLocation:
    """The location of the elements of a tensor with external data for which `problem_of` returned None."""
    entries: dict[str, Any] = {entry.key: entry.value for entry in tensor.external_data}
    assert folder is not None
    return ExternalLocation((folder / entries["location"]).resolve(), int(entries.get("offset", 0)), bytes_of(tensor))


def bytes_of(tensor: TensorProto) -> int:
    """The bytes of a tensor's elements; the characters of texts are not counted."""
    return _bytes(prod(tensor.dims), tensor.data_type)


def dense_bytes_of(tensor: SparseTensorProto) -> int:
    """The bytes of a sparse tensor when made dense."""
    return _bytes(prod(tensor.dims), tensor.values.data_type)


def stored_bytes(path: Path) -> int:
    """The bytes that a file occupies on disk, if the system reports them: holes take none. At most its size."""
    try:
        status = path.stat()
    except OSError:
        return 0  # reported when it is read
    return min(status.st_size, getattr(status, "st_blocks", status.st_size) * 512)
