"""Reads a model's file with its large weights apart from the rest.

Protobuf copies a tensor's bytes when it parses the file, and again each time that they are asked for: a transformer would be in memory
three times before its weights are packed. Here the bytes of large initializers are read from the file into arrays, and protobuf parses a
model in which they are empty.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from onnx import GraphProto, ModelProto, TensorProto

from dmlpy.onnx.loading.stored_weights import LEAST_STORED, WeightFile, aligned_bytes
from dmlpy.system import files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dmlpy.onnx.loading.values import Array

_LEAST_FILE = 1 << 20
"""The bytes of a file from which on weights are read apart."""
_LEAST_WEIGHT = 1 << 12
"""The bytes of an initializer from which on."""
_MOST_FIELDS = 1 << 17
"""The fields that are read one by one: a file of more of them is not a model, or none whose weights matter."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_GRAPH = ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_FUNCTIONS = ModelProto.DESCRIPTOR.fields_by_name["functions"].number
_INITIALIZER = GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_RAW_DATA = TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number


@dataclass(frozen=True)
class SeparateWeights:
    """Weights that are empty in a model, by their place among its initializers.

    Attributes:
        arrays: their bytes.
        offsets: where they begin in the file.
        file: the file, from which they may be read again; None if they may not.
    """

    arrays: Mapping[int, Array] = field(default_factory=dict)
    offsets: Mapping[int, int] = field(default_factory=dict)
    file: WeightFile | None = None


class _UnusualError(Exception):
    """Raised for a file that is read as a whole: it is damaged, gives a field twice, or has functions, which ONNX's C++ code copies."""


def read_model(path: Path, most: int) -> tuple[bytes, SeparateWeights]:
    """The bytes of a serialized ModelProto, and the weights that are empty in it.

    Args:
        path: the file.
        most: the most bytes that it may have.

    Raises:
        OSError: it cannot be read, or is longer.
    """
    with files.opened(path) as file:
        size = files.limited_size(file, path, most)
        if size >= _LEAST_FILE:
            with suppress(_UnusualError):
                reader = _Reader(file)
                data = reader.model(size)
                may_be_freed = any(len(weight) >= LEAST_STORED for weight in reader.weights.values())
                return data, SeparateWeights(reader.weights, reader.offsets, WeightFile.of(path, file) if may_be_freed else None)
            file.seek(0, os.SEEK_SET)
        return file.read(size), SeparateWeights()


class _Reader:
    """Reads protobuf's wire format from a file.

    Args:
        file: the file, at its beginning.

    Attributes:
        weights: the bytes of large initializers, by their place.
        offsets: where they begin.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self.weights: dict[int, Array] = {}
        self.offsets: dict[int, int] = {}
        self._initializers = self._fields = 0
        self._has_graph = False

    def model(self, size: int) -> bytes:
        """The model without these weights."""
        return self._message(size, {_GRAPH: self._graph, _FUNCTIONS: self._refuse})

    def _message(self, end: int, readers: Mapping[int, Callable[[int], bytes]]) -> bytes:
        """A message up to an end, in which some fields are what their readers give."""
        parts: list[bytes] = []
        while self._at < end:
            self._fields += 1
            if self._fields > _MOST_FIELDS:
                raise _UnusualError
            tag = self._varint(end)
            field, form = tag >> 3, tag & 7
            parts.append(_encoded(tag))
            if form == _LENGTH:
                length = self._varint(end)
                if length > end - self._at:
                    raise _UnusualError
                content = readers[field](self._at + length) if field in readers else self._bytes(length)
                parts += (_encoded(len(content)), content)
            else:
                parts.append(self._number(form, end))
        return b"".join(parts)

    def _graph(self, end: int) -> bytes:
        if self._has_graph:
            raise _UnusualError
        self._has_graph = True
        return self._message(end, {_INITIALIZER: self._initializer})

    def _refuse(self, end: int) -> bytes:
        raise _UnusualError

    def _initializer(self, end: int) -> bytes:
        """A tensor up to an end, without its bytes if there are many."""
        place, self._initializers = self._initializers, self._initializers + 1
        if end - self._at < _LEAST_WEIGHT:
            return self._bytes(end - self._at)

        def raw_data(stop: int) -> bytes:
            if place in self.weights or stop - self._at < _LEAST_WEIGHT:
                raise _UnusualError
            weight = aligned_bytes(stop - self._at)
            if self._file.readinto(weight.data) != len(weight):  # type: ignore[attr-defined]
                raise _UnusualError
            weight.flags.writeable = False
            self.weights[place], self.offsets[place], self._at = weight, self._at, stop
            return b""

        return self._message(end, {_RAW_DATA: raw_data})

    def _number(self, form: int, end: int) -> bytes:
        if form == _VARINT:
            return _encoded(self._varint(end))
        if form not in (_FIXED64, _FIXED32):
            raise _UnusualError
        return self._bytes(8 if form == _FIXED64 else 4)

    def _bytes(self, count: int) -> bytes:
        data = self._file.read(count)
        self._at += count
        if len(data) != count:
            raise _UnusualError
        return data

    def _varint(self, end: int) -> int:
        number = shift = 0
        while self._at < end and shift < 64:
            byte = self._bytes(1)[0]
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
        raise _UnusualError


def _encoded(number: int) -> bytes:
    """A number as protobuf writes it."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
