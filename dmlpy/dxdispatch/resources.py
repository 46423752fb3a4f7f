"""Resources: buffers with their initial contents, in all the forms that a model may use.

Reading a model counts the bytes of the contents and checks their values; memory for what the file does not spell out, such as a value that
is repeated or an array in another file, is allocated only when a buffer is filled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType
from dmlpy.description.int4 import pack_int4, unpack_int4
from dmlpy.dxdispatch import npy, pictures
from dmlpy.dxdispatch.entries import ModelEntry, Uint, as_lower, type_or_unknown
from dmlpy.dxdispatch.files import SOURCE, Array, Folders, refuse
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

DEFERRED = "deferred"
_MOST_WRONG_VALUES = 10
"""The most wrong values of a resource that are reported: it may have millions, and a few show the mistake."""


class ResourceEntry(ModelEntry):
    """A member of `resources` in the file."""

    type: Annotated[Literal["buffer"], BeforeValidator(as_lower)] = "buffer"
    initial_values_data_type: Annotated[DataType, BeforeValidator(type_or_unknown)] = DataType.UNKNOWN
    initial_values: Any
    size_in_bytes: Uint | None = None
    initial_values_offset_in_bytes: Uint = 0
    resample_size: Annotated[tuple[Uint, Uint, Uint, Uint] | None, Field(strict=False)] = None
    resample_mode: str = "scale"


@dataclass(frozen=True)
class Contents:
    """The initial values of a resource.

    Attributes:
        data_type: their type; None for a struct of mixed values.
        count: the number of values.
        nbytes: the bytes that they take.
        make: returns these bytes.
    """

    data_type: DataType | None
    count: int
    nbytes: int
    make: Callable[[], Array]


@dataclass(frozen=True)
class Resource:
    """A buffer with its initial contents.

    Attributes:
        name: its name in the file.
        contents: the initial values; None where it is deferred.
        offset: bytes in front of them.
        size: bytes of the buffer; 0 where it is deferred.
    """

    name: str
    contents: Contents | None
    offset: int
    size: int

    @property
    def data_type(self) -> DataType | None:
        """The type of the initial values; None for a struct of mixed values or a deferred buffer."""
        return None if self.contents is None else self.contents.data_type

    @property
    def count(self) -> int:
        """The number of initial values."""
        return 0 if self.contents is None else self.contents.count

    @property
    def nbytes(self) -> int:
        """The bytes of the initial values."""
        return 0 if self.contents is None else self.contents.nbytes

    @property
    def deferred(self) -> bool:
        """Whether the buffer has no memory until a dispatch allocates it."""
        return self.contents is None

    def data(self) -> Array:
        """Generates the initial values as bytes.

        Raises:
            DescError: a file that they come from has changed since the model was read.
            OSError: such a file cannot be read.
            MemoryError: they do not fit into the memory that is left.
        """
        if self.contents is None:
            return np.empty(0, np.uint8)
        data = self.contents.make()
        if data.nbytes != self.nbytes:
            raise refuse("file.changed", SOURCE, f"a file with {data.nbytes} bytes of values", f"{self.nbytes}, as when the model was read")
        return data

    def fill(self, buffer: Array) -> None:
        """Writes the initial contents into `size` zeroed bytes. Raises as `data` does."""
        buffer[self.offset : self.offset + self.nbytes] = self.data()

    def values(self, buffer: bytes) -> Array:
        """The values of the buffer, as many as there were initial ones; 4-bit elements take a byte each."""
        assert self.data_type is not None, "a struct of mixed values has no element type"
        if self.data_type.bits == 4:
            packed = np.frombuffer(buffer, np.uint8, count=_nbytes(self.count, self.data_type), offset=self.offset)
            return unpack_int4(packed, self.data_type, (self.count,))
        return np.frombuffer(buffer, self.data_type.numpy, count=self.count, offset=self.offset)


def with_memory(resource: Resource, data_type: DataType, count: int, read: Callable[[], Array]) -> Resource:
    """A deferred resource with memory from an output of an ONNX model; `read` returns the output's bytes."""
    contents = Contents(data_type, count, _nbytes(count, data_type), read)
    return replace(resource, contents=contents, size=contents.nbytes)


def build(name: str, entry: ResourceEntry, folders: Folders, available: int) -> Resource:
    """Builds a resource with its contents. Files are checked now, and read when a buffer is filled.

    Args:
        name: its name in the file.
        entry: its entry in the file.
        folders: the folders of files.
        available: bytes of memory that it may take.

    Raises:
        DescError: all that is wrong with its values; places are relative to the resource.
    """
    if entry.initial_values == DEFERRED:
        return Resource(name, None, 0, 0)
    if entry.resample_mode != "scale":
        raise refuse("field.form", "resampleMode", brief(entry.resample_mode), "'scale'")
    contents = _contents(entry, folders, available)
    end = entry.initial_values_offset_in_bytes + contents.nbytes
    size = -(-end // 4) * 4 if entry.size_in_bytes is None else entry.size_in_bytes
    if size < end:
        offset = entry.initial_values_offset_in_bytes
        why = (f"the data have {contents.nbytes} bytes" + (f" and begin at {offset}" if offset else ""),)
        raise refuse("resource.size", "sizeInBytes", str(size), f"at least {end}", *why)
    _afford(size, available, "sizeInBytes")
    return Resource(name, contents, entry.initial_values_offset_in_bytes, size)


def _contents(entry: ResourceEntry, folders: Folders, available: int) -> Contents:
    values, data_type = entry.initial_values, entry.initial_values_data_type
    if isinstance(values, dict) and "sourcePath" in values:
        return _from_file(entry, values, folders, available)
    if isinstance(values, list) and values and data_type is DataType.UNKNOWN and isinstance(values[0], dict):
        return _make_contents(None, len(values), _struct(values))
    if not isinstance(values, list | dict) or not values:
        expected = "a list of values, an object with valueCount or sourcePath, or 'deferred'; not empty"
        raise refuse("field.form", "initialValues", brief(values), expected)
    if data_type is DataType.UNKNOWN:
        raise refuse("field.missing", "initialValuesDataType", "missing", "the type of the values")
    if isinstance(values, list):
        return _make_contents(data_type, len(values), _pack_elements(parse_values(values, data_type, "initialValues"), data_type))
    return _generate(values, data_type, available)


def _make_contents(data_type: DataType | None, count: int, data: Array) -> Contents:
    """Parses contents that the file spells out."""
    return Contents(data_type, count, data.nbytes, lambda: data)


def _nbytes(count: int, data_type: DataType) -> int:
    """The bytes of this many elements; two 4-bit ones share a byte."""
    return -(-count * data_type.bits // 8)


def parse_values(values: Sequence[Any], data_type: DataType, path: str) -> Array:
    """Converts JSON values to elements of a type; 4-bit elements take a byte each.

    Raises:
        DescError: every value that the type does not hold.
    """
    exact = data_type.name.startswith(("INT", "UINT"))
    least, most = _range(data_type)
    if set(map(type, values)) <= ({int} if exact else {int, float}):
        # Numbers alone, as in nearly all files: they are compared without a step of Python for each.
        numbers = _numbers(values, data_type.unpacked if exact else np.dtype(np.float64)) if _between(least, values, most) else None
        if numbers is not None and (exact or bool(np.isfinite(numbers).all())):
            return numbers.astype(data_type.unpacked)
    return _parse_one_by_one(values, data_type, path, exact=exact)


def _between(least: float, values: Sequence[Any], most: float) -> bool:
    return bool(least <= min(values) and max(values) <= most)


def _numbers(values: Sequence[Any], dtype: np.dtype[Any]) -> Array | None:
    """Converts numbers to an array; None if the type does not hold them all."""
    try:
        return np.array(values, dtype)
    except OverflowError:
        return None


def _parse_one_by_one(values: Sequence[Any], data_type: DataType, path: str, *, exact: bool) -> Array:
    problems: list[Problem] = []
    least, most = _range(data_type)
    expected = f"an integer from {least} to {most}" if exact else f"a number that {data_type} holds, or 'inf', '-inf', 'nan'"
    numbers: list[Any] = []
    for index, value in enumerate(values):
        if len(problems) >= _MOST_WRONG_VALUES:
            break
        number = _number(value, exact)
        if number is None or not (least <= number <= most or (not exact and not math.isfinite(number))):
            place = f"{path}[{index}]" if len(values) > 1 else path
            problems.append(Problem("value.form", place, brief(value), expected))
        numbers.append(number)
    if problems:
        raise DescError("resource", problems)
    return np.array(numbers, data_type.unpacked)


def _number(value: Any, exact: bool) -> int | float | None:
    if isinstance(value, bool):
        return None
    if exact:
        return value if isinstance(value, int) else None
    if isinstance(value, str):
        return float(value) if value.lower() in ("inf", "-inf", "nan") else None
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


@cache
def _range(data_type: DataType) -> tuple[float, float]:
    if data_type.name.startswith("FLOAT"):
        most = float(np.finfo(data_type.numpy).max)
        return -most, most
    return data_type.limits  # Python's integers compare exactly with each other, however large


def _generate(values: dict[str, Any], data_type: DataType, available: int) -> Contents:
    """Generates a constant, or a sequence accumulated in its type, with that type's rounding and wrap-around."""
    forms = [name for name in ("value", "valueStart", "sourcePath") if name in values]
    if len(forms) != 1:
        actual = " and ".join(forms) or "without value, valueStart and sourcePath"
        raise refuse("field.form", "initialValues", actual, "exactly one of value, valueStart and sourcePath")
    count = values.get("valueCount")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise refuse(
            "field.form" if "valueCount" in values else "field.missing",
            "initialValues.valueCount",
            brief(count) if "valueCount" in values else "missing",
            "an integer of at least 1",
        )
    # Elements of 4 bits take a byte each until they are packed, and so do their halves.
    _afford(count * data_type.unpacked.itemsize * (4 if data_type.bits == 4 else 1), available, "initialValues.valueCount")
    if forms == ["value"]:
        value = parse_values([values["value"]], data_type, "initialValues.value")[0]
        return Contents(data_type, count, _nbytes(count, data_type), lambda: _constant(value, count, data_type))
    if "valueDelta" not in values:
        raise refuse("field.missing", "initialValues.valueDelta", "missing", "the step from one value to the next")
    start = parse_values([values["valueStart"]], data_type, "initialValues.valueStart")[0]
    delta = parse_values([values["valueDelta"]], data_type, "initialValues.valueDelta")[0]
    return Contents(data_type, count, _nbytes(count, data_type), lambda: _sequence(start, delta, count, data_type))


def _constant(value: Any, count: int, data_type: DataType) -> Array:
    return _pack_elements(np.full(count, value, data_type.unpacked), data_type)


def _sequence(start: Any, delta: Any, count: int, data_type: DataType) -> Array:
    element = data_type.unpacked
    steps = np.full(count, delta, element)
    steps[0] = start
    with np.errstate(over="ignore", invalid="ignore"):
        accumulated: Array = np.add.accumulate(steps, dtype=element, out=steps)
    if data_type is DataType.UINT4:
        accumulated &= 15
    elif data_type is DataType.INT4:
        accumulated = ((accumulated + 8) & 15) - 8
    return _pack_elements(accumulated, data_type)


def _pack_elements(elements: Array, data_type: DataType) -> Array:
    """The elements as the bytes of a buffer."""
    return pack_int4(elements) if data_type.bits == 4 else np.ascontiguousarray(elements).reshape(-1).view(np.uint8)


def _struct(values: list[Any]) -> Array:
    """Packs values of mixed types one after another without padding."""
    parts: list[Array] = []
    problems: list[Problem] = []
    for index, value in enumerate(values):
        if len(problems) >= _MOST_WRONG_VALUES:
            break
        path = f"initialValues[{index}]"
        if not isinstance(value, dict) or not {"type", "value"} <= value.keys():
            problems.append(Problem("field.form", path, brief(value), "an object with type and value"))
            continue
        try:
            data_type = type_or_unknown(value["type"])
        except ValueError as error:
            problems.append(Problem("field.form", f"{path}.type", brief(value["type"]), str(error).removeprefix("expected ")))
            continue
        if data_type in (DataType.FLOAT16, DataType.UNKNOWN, DataType.UINT4, DataType.INT4):
            problems.append(Problem("field.form", f"{path}.type", str(data_type), "a type of at least 8 bits other than FLOAT16"))
            continue
        try:
            parts.append(_pack_elements(parse_values([value["value"]], data_type, f"{path}.value"), data_type))
        except DescError as error:
            problems += error.problems
    if problems:
        raise DescError("resource", problems)
    return np.concatenate(parts)


def _from_file(entry: ResourceEntry, values: dict[str, Any], folders: Folders, available: int) -> Contents:
    others = [name for name in ("value", "valueStart") if name in values]
    if others or not isinstance(values["sourcePath"], str) or not values["sourcePath"]:
        actual = f"sourcePath and {' and '.join(others)}" if others else brief(values["sourcePath"])
        raise refuse("field.form", "initialValues", actual, "sourcePath alone, the name of a file")
    data_type = entry.initial_values_data_type
    path = folders.source(values["sourcePath"], SOURCE)
    suffix = path.suffix.lower()
    _afford(path.stat().st_size, available, SOURCE)
    if suffix == ".npy":
        return _from_npy(path, data_type)
    if data_type is DataType.UNKNOWN:
        raise refuse("field.missing", "initialValuesDataType", "missing", f"the type of the values in {path.name}")
    if suffix in pictures.IMAGE_SUFFIXES:
        picture = pictures.find(path, data_type, _resample_size(entry, data_type, available))
        nbytes = _nbytes(picture.count, data_type)
        _afford(nbytes, available, SOURCE)
        return Contents(data_type, picture.count, nbytes, lambda: _pack_elements(picture.read(data_type), data_type))
    return _raw(path, data_type)


def _from_npy(path: Path, data_type: DataType) -> Contents:
    header = npy.read_header(path, SOURCE)
    if header.count == 0:
        raise refuse("npy.empty", SOURCE, f"{path.name} without elements", "at least one value")
    if data_type not in (DataType.UNKNOWN, header.data_type):
        raise refuse("npy.type", "initialValuesDataType", str(data_type), f"{header.data_type}, the type in {path.name}")
    # The header is read again with the values: the file may be another one by then.
    stored = header.data_type
    return Contents(
        stored, header.count, header.nbytes, lambda: _pack_elements(npy.read_array(path, npy.read_header(path, SOURCE)), stored)
    )


def _resample_size(entry: ResourceEntry, data_type: DataType, available: int) -> tuple[int, int, int, int] | None:
    size = entry.resample_size
    if size is not None:
        if size[0] != 1 or size[1] not in (1, 3, 4) or min(size) < 1:
            raise refuse("image.size", "resampleSize", str(list(size)), "[1, C, H, W] with C = 1, 3 or 4")
        _afford(math.prod(size) * (data_type.bits // 8 + 8), available, "resampleSize")
    return size


def _raw(path: Path, data_type: DataType) -> Contents:
    size = path.stat().st_size
    if not size or size * 8 % data_type.bits:
        expected = f"a multiple of {data_type.bits // 8} bytes, not 0"
        raise refuse("resource.size", SOURCE, f"{path.name} of {size} bytes", expected)
    return Contents(data_type, size * 8 // data_type.bits, size, lambda: np.fromfile(path, np.uint8))


def _afford(size: int, available: int, path: str) -> None:
    if size > available:
        raise refuse("resource.memory", path, f"{size} bytes of memory", f"at most the {available} bytes that are available")
