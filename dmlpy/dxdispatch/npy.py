"""NumPy's .npy files, read with nothing but the header's grammar: NumPy evaluates headers as Python and maps what they claim.

A header is a line like `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`. Its element type has to be one that tensors have, and
its sizes must not exceed the file; both are checked before any memory is allocated.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType
from dmlpy.dxdispatch.files import refuse
from dmlpy.system.files import opened

if TYPE_CHECKING:
    from pathlib import Path

MAX_DIMENSIONS = 32
"""The most dimensions of an array in a .npy file that every NumPy reads."""
MAGIC = b"\x93NUMPY"
_MAX_HEADER = 10_000
"""The most bytes of a header, as NumPy allows for untrusted files."""
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
"""The number of bytes of the header's length, by the format's version."""

# Possessive repeats: no text takes longer than its length.
_MEMBER = re.compile(
    r"""\s*+(?P<quote>['"])(?P<key>descr|fortran_order|shape)(?P=quote)\s*+:\s*+
    (?:(?P<flag>True|False)
    |\((?P<shape>(?:\s*+\d{1,20}+L?\s*+,)*+\s*+(?:\d{1,20}+L?)?+)\s*+\)
    |(?P<quoted>['"])(?P<descr>[^'"\\\n]*+)(?P=quoted)
    |(?P<structured>\[.*\]|\{.*?\}|\(.*?\)))\s*+(?:,|(?=\}))""",
    re.VERBOSE,
)
_DESCR = re.compile(r"[<>=|]?(?P<kind>[iuf])(?P<size>[1248])")


@dataclass(frozen=True)
class Header:
    """The header of a .npy file.

    Attributes:
        dtype: type of the elements as they are stored, in either byte order.
        sizes: elements along each dimension.
        fortran_order: whether the first dimension is the fastest.
        offset: the byte where the elements begin.
    """

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    fortran_order: bool
    offset: int

    @property
    def data_type(self) -> DataType:
        """The type of the elements as a tensor's type."""
        return DataType.of(self.dtype.newbyteorder("="))

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements."""
        return self.count * self.dtype.itemsize


def read_header(path: Path, member: str) -> Header:
    """Reads the header of a .npy file and verifies that all elements are present.

    Args:
        path: the file.
        member: the model's member that names it, for messages.

    Raises:
        DescError: the file is damaged, holds pickled objects, or elements that no tensor has.
        OSError: it cannot be read.
    """

    def damaged(*why: str) -> NoReturn:
        raise refuse("npy.damaged", member, path.name, "a .npy file", *why)

    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(len(MAGIC) + 2)
        if start[:2] == b"PK":
            raise refuse("npy.damaged", member, f"{path.name}, an archive", "a .npy file with one array")
        if start[:1] == b"\x80":
            _refuse_pickle(path, member, "it begins like a pickle")
        if start[: len(MAGIC)] != MAGIC or len(start) < len(MAGIC) + 2:
            damaged("it does not begin as .npy files do")
        length_bytes = _LENGTH_BYTES.get(start[-2])
        if length_bytes is None or start[-1] != 0:
            damaged(f"it is of version {start[-2]}.{start[-1]}; versions 1.0 to 3.0 are known")
        length = int.from_bytes(file.read(length_bytes), "little")
        offset = len(start) + length_bytes + length
        if length > _MAX_HEADER or offset > size:
            damaged(f"its header has {length} bytes, of a file of {size}; at most {_MAX_HEADER} are read")
        text = file.read(length).decode("utf-8" if start[-2] == 3 else "latin-1", errors="replace")
    members = _members(text)
    if members is None or {"descr", "fortran_order", "shape"} != members.keys():
        damaged(f"its header is {brief(text)}", "headers have descr, fortran_order and shape")
    return _verify(members, offset, size, path, member)


def _members(text: str) -> dict[str, re.Match[str]] | None:
    """The members of a header, each with its value among the match's groups; None if the text is not a header."""
    text = text.strip()
    if not text.startswith("{") or not text.endswith("}"):
        return None
    members: dict[str, re.Match[str]] = {}
    place = 1
    while match := _MEMBER.match(text, place):
        members[match["key"]] = match
        place = match.end()
    return members if not text[place:-1].strip() and len(members) <= 3 else None


def _verify(members: dict[str, re.Match[str]], offset: int, size: int, path: Path, member: str) -> Header:
    descr, shape, flag = members["descr"], members["shape"]["shape"], members["fortran_order"]["flag"]
    spelling = descr["descr"]
    if shape is None or flag is None or descr["flag"] or descr["shape"] is not None:
        reason = (f"its header says {' '.join(match[0].strip().rstrip(',') for match in members.values())}",)
        raise refuse("npy.damaged", member, path.name, "a .npy file", brief(reason[0]))
    if spelling is not None and "O" in spelling:
        _refuse_pickle(path, member, f"its elements are of type {brief(spelling)}")
    parsed = None if spelling is None else _DESCR.fullmatch(spelling)
    if parsed is None or (parsed["kind"], parsed["size"]) == ("f", "1"):
        found_type = brief(descr["structured"] if spelling is None else spelling)
        raise refuse("npy.type", member, f"{path.name} with elements of type {found_type}", "a tensor's type")
    dtype = np.dtype(spelling)
    sizes = tuple(int(text.strip().removesuffix("L")) for text in shape.split(",") if text.strip())
    if len(sizes) > MAX_DIMENSIONS:
        raise refuse("npy.damaged", member, f"{path.name} of {len(sizes)} dimensions", f"at most {MAX_DIMENSIONS}")
    header = Header(dtype, sizes, flag == "True", offset)
    if header.nbytes > size - offset:
        why = f"{header.count} elements of {dtype.itemsize} bytes take {header.nbytes} bytes; {size - offset} follow the header"
        raise refuse("npy.damaged", member, path.name, "a .npy file", why)
    return header


def _refuse_pickle(path: Path, member: str, why: str) -> NoReturn:
    expected = "an array of numbers: files with pickled objects can run programs and are not read"
    raise refuse("npy.pickle", member, path.name, expected, why)


def read_array(path: Path, header: Header) -> np.ndarray[Any, Any]:
    """The array of a file whose header was read: in C order and native byte order.

    Raises:
        OSError: the file cannot be read, or is shorter than its header says.
    """
    with opened(path) as file:
        stored = np.fromfile(file, header.dtype, header.count, offset=header.offset)
    if stored.size < header.count:
        raise OSError(f"{path.name} became shorter while it was read")
    array = stored.reshape(header.sizes, order="F" if header.fortran_order else "C")
    return np.asarray(array, header.dtype.newbyteorder("="), order="C")
