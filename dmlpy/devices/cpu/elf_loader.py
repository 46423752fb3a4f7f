"""Loads kernels that LLVM has emitted as ELF objects for x86-64, without LLVM: its import takes longer than loading all kernels of a model.

LLVM addresses constants and functions absolutely in code that is loaded wherever there is room, so one kind of relocation suffices.
Objects with anything else, and those of other processors and systems, are left to LLVM's loader.
"""

from __future__ import annotations

import platform
import sys
from ctypes import CDLL, addressof, c_char, c_int, c_size_t, c_void_p, cast, get_errno
from functools import cache
from struct import Struct, error, pack_into
from typing import NamedTuple

if sys.platform != "win32":
    import mmap

_FILE = Struct("<16sHHIQQQIHHHHHH")
_SECTION = Struct("<IIQQQQIIQQ")
_SYMBOL = Struct("<IBBHQQ")
_RELOCATION = Struct("<QQq")
_MAGIC = b"\x7fELF\x02\x01\x01"
"""Of objects of 64 bits, the lowest byte first."""
_RELOCATABLE, _X86_64 = 1, 62
_CODE_OR_CONSTANTS, _SYMBOLS, _RELOCATIONS = 1, 2, 4
"""The types of sections that are read."""
_WRITABLE, _LOADED = 1, 2
"""Flags of sections."""
_ABSOLUTE = 1
"""R_X86_64_64: the address of a symbol and an addend, as 64 bits."""
_MOST_ALIGNED = 4096

_memory: list[object] = []
"""Holds what was loaded: functions live as long as the process."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    start: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def load(image: bytes, symbol: str) -> int | None:
    """Loads an object and returns the address of a function in it; None if it is not of the form that is known here, or has none."""
    if sys.platform == "win32" or platform.machine() != "x86_64" or image[: len(_MAGIC)] != _MAGIC:
        return None
    try:
        return _load(image, symbol)
    except (ValueError, LookupError, OSError, OverflowError, error):
        return None


def _load(image: bytes, symbol: str) -> int:
    _, kind, machine, _, _, _, start, _, _, _, _, _, count, _ = _FILE.unpack_from(image)
    if (kind, machine) != (_RELOCATABLE, _X86_64):
        raise ValueError("not an object for this processor")
    sections = [_Section(*_SECTION.unpack_from(image, start + index * _SECTION.size)) for index in range(count)]
    offsets, size = _places(image, sections)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    base = addressof(c_char.from_buffer(memory))
    for index, offset in offsets.items():
        memory[offset : offset + sections[index].size] = _content(image, sections[index])
    (table,) = (section for section in sections if section.kind == _SYMBOLS)
    names = _content(image, sections[table.link])
    symbols = [(_text(names, name), section, value) for name, _, _, section, value, _ in _SYMBOL.iter_unpack(_content(image, table))]

    def address(name: str, section: int, value: int) -> int:
        return base + offsets[section] + value if section else _external(name)

    for section in sections:
        if section.kind == _RELOCATIONS and section.info in offsets:
            for place, info, addend in _RELOCATION.iter_unpack(_content(image, section)):
                if info & 0xFFFFFFFF != _ABSOLUTE:
                    raise ValueError("an unknown relocation")
                pack_into("<Q", memory, offsets[section.info] + place, address(*symbols[info >> 32]) + addend)
    (symbol_address,) = (address(*item) for item in symbols if item[0] == symbol)
    _make_executable(base, size)
    _memory.append(memory)
    return symbol_address


def _places(image: bytes, sections: list[_Section]) -> tuple[dict[int, int], int]:
    """The offsets of the loaded sections, by number, and the bytes that they take together."""
    offsets, end = {}, 0
    for index, section in enumerate(sections):
        if section.kind == _CODE_OR_CONSTANTS and section.flags & _LOADED:
            alignment = max(1, section.alignment)  # 0 is 1
            if section.flags & _WRITABLE or alignment > _MOST_ALIGNED or section.start + section.size > len(image):
                raise ValueError("an unknown kind of section")
            offsets[index] = -(-end // alignment) * alignment
            end = offsets[index] + section.size
    return offsets, end


def _content(image: bytes, section: _Section) -> bytes:
    return image[section.start : section.start + section.size]


def _text(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode()


@cache
def _external(name: str) -> int:
    """The address of a function of the C library."""
    function = getattr(CDLL(None), name, None)
    if function is None:
        raise LookupError(name)
    return cast(function, c_void_p).value or 0


def _make_executable(base: int, size: int) -> None:
    """Lets memory be executed, and no longer written."""
    protect = CDLL(None, use_errno=True).mprotect
    protect.argtypes = [c_void_p, c_size_t, c_int]
    if protect(base, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(get_errno(), "memory cannot be made executable")
