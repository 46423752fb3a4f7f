"""Memory between pages that nobody may touch: whoever reads or writes past its end, or writes what he may only read, is killed."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_NOTHING, _READ, _WRITE = 0, 1, 2
_PAGE = mmap.PAGESIZE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Guarded:
    """A block of bytes with a page on either side that kills who touches it.

    Attributes:
        pointer: its address.
        size: in bytes.
        bytes: the block and the rest that its alignment leaves, up to the pages.

    Args:
        size: in bytes.
        alignment: of the address, a power of two.
        at_end: whether it ends where the page begins, as near as the alignment lets it; else it begins behind the page.
        fill: the byte that it is full of.
    """

    def __init__(self, size: int, alignment: int, *, at_end: bool, fill: int) -> None:
        self.size = size
        self._room = max(-(-size // _PAGE), 1) * _PAGE
        self._whole = self._room + 2 * _PAGE
        base = _libc.mmap(None, self._whole, _NOTHING, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        assert base not in (None, ctypes.c_void_p(-1).value), "no memory to fuzz with"
        self._base: int = base
        self._first = base + _PAGE
        self.write_protect(False)
        self.pointer = self._first + (self._room - size) // alignment * alignment if at_end else self._first
        self.bytes: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * self._room).from_address(self._first))
        self.bytes[...] = fill

    def write_protect(self, protect: bool) -> None:
        """Whether who writes it is killed, too."""
        assert _libc.mprotect(self._first, self._room, _READ if protect else _READ | _WRITE) == 0

    def values(self, sizes: tuple[int, ...], data_type: np.dtype[Any], byte_strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """The elements of a tensor in it."""
        return np.ndarray(sizes, data_type, self.bytes.data, self.pointer - self._first, byte_strides)

    def free(self) -> None:
        """Gives the memory back at once: from then on whoever touches any of it is killed."""
        _libc.munmap(self._base, self._whole)
