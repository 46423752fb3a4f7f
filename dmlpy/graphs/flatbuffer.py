"""FlatBuffers from untrusted files: every offset is verified before it is followed.

The library's generated classes trust the buffer. Here each table, vtable, vector and string is held against the buffer's bounds first;
then `flatbuffers.table.Table` reads it. Offsets lead forward only, so none leads in a circle; a budget bounds what many offsets to one
place cost, so that time and memory grow with the file's size and no faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from flatbuffers import encode, number_types, table

from dmlpy.messages.problems import DescError, Problem

MAX_BYTES = 256 * 2**20
_SHARING = 2
"""The most times that a buffer's size may be read in total: writers may share a string or a table among several places."""
_DEEPEST = 32

UINT8 = number_types.Uint8Flags
UINT16 = number_types.Uint16Flags
UINT32 = number_types.Uint32Flags
UINT64 = number_types.Uint64Flags
INT32 = number_types.Int32Flags
FLOAT32 = number_types.Float32Flags


class Buffer:
    """The bytes of a FlatBuffer."""

    def __init__(self, data: bytes, subject: str = "FlatBuffer") -> None:
        self.data = data
        self.subject = subject
        self._budget = _SHARING * len(data)
        if len(data) > MAX_BYTES:
            self.refuse("limit", "", 0, f"{len(data)} bytes", f"at most {MAX_BYTES} bytes")

    def root(self) -> VerifiedTable:
        """The root table."""
        if len(self.data) < 8:
            self.refuse("bounds", "", 0, f"a file of {len(self.data)} bytes", "at least the 8 bytes of a root table")
        return VerifiedTable(self, self.follow(0, ""), "", 0)

    def refuse(self, code: str, path: str, at: int, found: str, expected: str) -> NoReturn:
        """Raises the error for what was found at a byte of the buffer."""
        raise DescError(self.subject, [Problem(f"flatbuffer.{code}", path, f"{found} at byte {at}", expected)])

    def need(self, at: int, size: int, alignment: int, what: str, path: str) -> None:
        """Raises unless this many bytes lie in the buffer at an aligned place."""
        if not 0 <= at <= len(self.data) - size:
            self.refuse("bounds", path, at, f"{what} of {size} bytes", f"{what} within the file's {len(self.data)} bytes")
        if at % alignment:
            self.refuse("alignment", path, at, what, f"a multiple of {alignment}")

    def spend(self, size: int, at: int, path: str) -> None:
        """Counts bytes against the limit on reads."""
        self._budget -= size
        if self._budget < 0:
            self.refuse("limit", path, at, f"a file whose parts are read more than {_SHARING} times over", "separate parts")

    def number(self, flags: Any, at: int) -> Any:
        """Reads the number at a verified place."""
        return encode.Get(flags.packer_type, self.data, at)

    def follow(self, at: int, path: str) -> int:
        """The address that the offset at a place points to, verified."""
        self.need(at, 4, 4, "an offset", path)
        offset = self.number(UINT32, at)
        if not 0 < offset <= len(self.data) - at:
            self.refuse("bounds", path, at, f"an offset of {offset}", f"an offset into the {len(self.data) - at} bytes that follow")
        return int(at + offset)

    def vector(self, at: int, item_size: int, path: str, alignment: int = 4) -> tuple[int, int]:
        """The address of the first item, and the number of items, of the vector that the offset at a place leads to."""
        start = self.follow(at, path)
        self.need(start, 4, 4, "a vector's length", path)
        count = self.number(UINT32, start)
        if count * item_size > len(self.data) - start - 4:
            expected = f"at most the {len(self.data) - start - 4} bytes that follow"
            self.refuse("bounds", path, start, f"a vector of {count} items of {item_size} bytes", expected)
        if count and (start + 4) % alignment:
            self.refuse("alignment", path, start + 4, "a vector's items", f"a multiple of {alignment}")
        self.spend(4 + count * item_size, start, path)
        return start + 4, count

    def string(self, at: int, path: str) -> str:
        """Reads the text that the offset at a place leads to."""
        start, count = self.vector(at, 1, path)
        if start + count >= len(self.data) or self.data[start + count]:
            self.refuse("text", path, start + count, "no zero", "the zero that ends a string")
        try:
            return self.data[start : start + count].decode("utf-8")
        except UnicodeDecodeError as error:
            self.refuse("text", path, start + error.start, "no UTF-8", "UTF-8 text")


class VerifiedTable:
    """A table whose vtable was verified. Fields are named by their vtable offsets: 4, 6, 8, ...

    Attributes:
        at: the byte where the table begins.
        path: the table's place for messages: `nodes[3].desc`.
    """

    def __init__(self, buffer: Buffer, at: int, path: str, depth: int) -> None:
        self.buffer = buffer
        self.at = at
        self.path = path
        self._depth = depth
        if depth > _DEEPEST:
            buffer.refuse("limit", path, at, f"a table {depth} tables deep", f"at most {_DEEPEST}")
        buffer.need(at, 4, 4, "a table", path)
        vtable = at - buffer.number(INT32, at)
        buffer.need(vtable, 4, 2, "a vtable", path)
        self._vtable_size = buffer.number(UINT16, vtable)
        if self._vtable_size < 4 or self._vtable_size % 2:
            buffer.refuse("vtable", path, vtable, f"a vtable of {self._vtable_size} bytes", "an even number, at least 4")
        buffer.need(vtable, self._vtable_size, 2, "a vtable", path)
        self._size = buffer.number(UINT16, vtable + 2)
        if self._size < 4:
            buffer.refuse("vtable", path, vtable + 2, f"a table of {self._size} bytes", "at least 4")
        buffer.need(at, self._size, 4, "a table", path)
        buffer.spend(self._size, at, path)
        self._table = table.Table(buffer.data, at)

    def place(self, name: str, index: int | None = None) -> str:
        """The place of a field, or of one of its items, for messages."""
        suffix = "" if index is None else f"[{index}]"
        return f"{self.path}{'.' if self.path else ''}{name}{suffix}"

    def _field(self, name: str, slot: int, size: int, alignment: int) -> int | None:
        """The address of a field; None if the table lacks it."""
        offset = self._table.Offset(slot)
        if offset == 0:
            return None
        if not 4 <= offset <= self._size - size:
            found, expected = f"field {name} at offset {offset}", f"an offset within the table's {self._size} bytes"
            self.buffer.refuse("vtable", self.place(name), self.at, found, expected)
        self.buffer.need(self.at + offset, size, alignment, f"field {name}", self.place(name))
        return int(self.at + offset)

    def missing(self, name: str) -> NoReturn:
        """Raises the error for a missing required field."""
        self.buffer.refuse("missing", self.place(name), self.at, f"a table without {name}", "a value")

    def number(self, name: str, slot: int, flags: Any, default: int = 0) -> Any:
        """Reads a number stored in the table."""
        at = self._field(name, slot, flags.bytewidth, flags.bytewidth)
        return default if at is None else self.buffer.number(flags, at)

    def string(self, name: str, slot: int) -> str | None:
        """Reads a text; None if there is none."""
        at = self._field(name, slot, 4, 4)
        return None if at is None else self.buffer.string(at, self.place(name))

    def strings(self, name: str, slot: int) -> list[str]:
        """Reads a list of texts; empty if there is none."""
        at = self._field(name, slot, 4, 4)
        if at is None:
            return []
        start, count = self.buffer.vector(at, 4, self.place(name))
        return [self.buffer.string(start + 4 * index, self.place(name, index)) for index in range(count)]

    def bytes(self, name: str, slot: int) -> bytes | None:
        """Reads a list of bytes; None if there is none."""
        at = self._field(name, slot, 4, 4)
        if at is None:
            return None
        start, count = self.buffer.vector(at, 1, self.place(name))
        return self.buffer.data[start : start + count]

    def numbers(self, name: str, slot: int, flags: Any) -> list[Any] | None:
        """Reads a list of numbers; None if there is none."""
        at = self._field(name, slot, 4, 4)
        if at is None:
            return None
        start, count = self.buffer.vector(at, flags.bytewidth, self.place(name), flags.bytewidth)
        dtype = np.dtype(number_types.to_numpy_type(flags)).newbyteorder("<")
        numbers: list[Any] = encode.GetVectorAsNumpy(dtype, self.buffer.data, count, start).tolist() if count else []
        return numbers

    def tables(self, name: str, slot: int) -> TableVector:
        """Reads a list of tables; each is verified on access."""
        at = self._field(name, slot, 4, 4)
        start, count = (0, 0) if at is None else self.buffer.vector(at, 4, self.place(name))
        return TableVector(self, name, start, count, self._depth + 1)

    def union(self, name: str, slot: int) -> Union | None:
        """Reads a union, whose type is in the preceding field; None if it has no type or no value."""
        kind = self.number(f"{name} type", slot - 2, UINT8)
        at = self._field(name, slot, 4, 4)
        if at is None or kind == 0:
            return None
        return Union(self.buffer, kind, self.buffer.follow(at, self.place(name)), self.place(name), self._depth + 1)


class TableVector:
    """The tables of a list."""

    def __init__(self, owner: VerifiedTable, name: str, start: int, count: int, depth: int) -> None:
        self._owner = owner
        self._name = name
        self._start = start
        self._count = count
        self._depth = depth

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[VerifiedTable]:
        buffer = self._owner.buffer
        for index in range(self._count):
            place = self._owner.place(self._name, index)
            yield VerifiedTable(buffer, buffer.follow(self._start + 4 * index, place), place, self._depth)


class Union:
    """The value of a union; `kind` is the index of its type."""

    def __init__(self, buffer: Buffer, kind: int, at: int, path: str, depth: int) -> None:
        self.kind = kind
        self.at = at
        self.path = path
        self._buffer = buffer
        self._depth = depth

    def table(self) -> VerifiedTable:
        """The value, where its type is a table."""
        return VerifiedTable(self._buffer, self.at, self.path, self._depth)

    def struct(self, *flags: Any) -> list[Any]:
        """The members of the value, where its type is a struct: it lies at the union's offset itself."""
        width = flags[0].bytewidth
        size = width * len(flags)
        self._buffer.need(self.at, size, width, "a struct", self.path)
        self._buffer.spend(size, self.at, self.path)
        return [self._buffer.number(kind, self.at + width * index) for index, kind in enumerate(flags)]

    def refuse(self, names: str) -> NoReturn:
        """Raises the error of a type that the union does not have, or that does not belong here."""
        self._buffer.refuse("union", self.path, self.at, f"a value of type {self.kind}", names)
