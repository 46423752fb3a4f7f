"""Structs that plans fill and compiled kernels read: each field has a unit and a line of documentation.

    class Copy(KernelStruct):
        source: Address = field("the first element")
        row: Bytes = field("from a row to the next")
        rows: Count = field("how many there are")

The class has the structured type (`dtype`), makes filled structs (`make`), and gives its fields' names to type checkers: a kernel that
views memory as a `Copy` (`simd.struct_view`) has `p: Copy`. A field that is not set is 0, the null address. A launch whose struct
`bound` makes can be relocated.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from dmlpy.description.sized_arrays import SizedArray
from dmlpy.devices.plan import BoundAddress, PlanPart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = np.ndarray[Any, np.dtype[Any]]

ALIGNMENT = 64
"""The bytes that arrays in scratch begin at a multiple of: a cache line, and the widest registers."""

Address: TypeAlias = int
"""An address in memory; 0 for none."""
CodeAddress: TypeAlias = int
"""The address of a compiled kernel; 0 for none."""
Bytes: TypeAlias = int
"""A distance or size in bytes."""
Count: TypeAlias = int
"""A number of things, or the number of one."""
Flag: TypeAlias = int
"""0 is false."""
Float32: TypeAlias = float
Float64: TypeAlias = float

_TYPES = {
    "Address": np.int64,
    "CodeAddress": np.int64,
    "Bytes": np.int64,
    "Count": np.int64,
    "Flag": np.int64,
    "Float32": np.float32,
    "Float64": np.float64,
}


def make_struct(kind: np.dtype[np.void], values: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.void]]:
    """The parameters of a compiled kernel: a struct in an array of its own, with the values of some fields and zeros in the others."""
    struct = np.zeros(1, kind)
    for name, value in values.items():
        struct[name] = value
    return struct


class _Field(NamedTuple):
    text: str
    values: int


def field(text: str, *, count: int = 0) -> Any:
    """A field of a `KernelStruct`.

    Args:
        text: its documentation.
        count: the number of values of an array; 0 for a single value.
    """
    return _Field(text, count)


class Relocation(NamedTuple):
    """A word of a kernel's parameters that holds an address in bound memory.

    Attributes:
        word: the address of the word.
        memory: the name of the memory.
        offset: the bytes from the memory's first one.
    """

    word: int
    memory: str
    offset: int


class FixedArray(PlanPart):
    """An array that all launches of a plan read, with its address, which NumPy returns slowly."""

    def __init__(self, array: Array) -> None:
        self.array = array

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> FixedArray:
        """An array of int64 of some rows, whose numbers may be symbolic sizes."""
        return cls(SizedArray.of([number for row in rows for number in row], (len(rows), len(rows[0]) if rows else 0)))

    @classmethod
    def of_struct(cls, kind: type[KernelStruct], values: Mapping[str, int]) -> FixedArray:
        """A struct of some numbers, which may be symbolic sizes, with zeros in the other fields."""
        return cls(SizedArray.of_records([[values.get(name, 0) for name in kind.dtype.names or ()]], kind.dtype))

    @cached_property
    def address(self) -> int:
        return _address_of(self.array)


class Parameters:
    """A filled struct, with the words that change with bound memory.

    Attributes:
        address: its address.
        memory: the struct, and the arrays that it refers to.
        relocations: all words with addresses in bound memory that may be replaced; None if some are not known.
    """

    def __init__(self, block: ctypes.Array[ctypes.c_int64]) -> None:
        self.address = ctypes.addressof(block)  # in a tenth of the time that NumPy takes to return an array's
        self.memory: list[ctypes.Array[ctypes.c_int64] | Array] = [block]
        self.relocations: list[Relocation] | None = []

    def _record(self, word: int, value: int) -> None:
        """Records an address that a word holds."""
        if type(value) is BoundAddress:
            if value.memory is not None and self.relocations is not None:
                self.relocations.append(Relocation(word, value.memory, value.offset))
        elif value:
            self.relocations = None

    def _hold(self, array: Array) -> int:
        """Keeps an array that the struct refers to; returns its address."""
        self.memory.append(array)
        return _address_of(array)

    def stored(self, word: int, value: Any) -> int:
        """Records the value of an address field at a word; returns the address to store.

        Args:
            word: the address of the word.
            value: an address, an array, which the parameters then hold, or a list of addresses, which become such an array.
        """
        if type(value) is FixedArray:
            self.memory.append(value.array)
            return value.address
        if isinstance(value, np.ndarray):
            return self._hold(value)
        if not isinstance(value, list):
            self._record(word, value)
            return int(value)
        table = self._hold(np.array([int(each) for each in value], np.int64))  # NumPy converts other integers slowly
        for place, each in enumerate(value):
            self._record(table + 8 * place, each)
        return table


def _address_of(array: Array) -> int:
    return array.ctypes.data  # `__array_interface__` would also describe a structured type, which takes ten times as long


class KernelStruct:
    """A struct of parameters. Fields of a base class come first.

    Attributes:
        dtype: the structured type.
        texts: the fields' documentation, by name.
        addresses: the offset of each field that is an address, by name.
    """

    dtype: ClassVar[np.dtype[np.void]] = np.dtype([])
    texts: ClassVar[dict[str, str]] = {}
    addresses: ClassVar[dict[str, int]] = {}
    _zeros: ClassVar[dict[str, int]] = {}
    _packer: ClassVar[struct.Struct]
    _block: ClassVar[type[ctypes.Array[ctypes.c_int64]]]

    def __init_subclass__(cls) -> None:
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, _Field)}
        kinds = [
            (name, _TYPES[cls.__annotations__[name]], *([(value.values,)] if value.values else [])) for name, value in declared.items()
        ]
        cls.dtype = np.dtype([*((name, cls.dtype[name]) for name in cls.dtype.names or ()), *kinds])
        cls.texts = cls.texts | {name: value.text for name, value in declared.items()}
        addresses = (name for name in declared if cls.__annotations__[name] == "Address")
        fields = [(name, cls.dtype[name]) for name in cls.dtype.names or ()]
        cls._zeros = {name: 0 for name, kind in fields if kind.shape == ()}
        codes = {np.dtype(np.int64): "q", np.dtype(np.float32): "f", np.dtype(np.float64): "d"}
        cls._packer = struct.Struct("=" + "".join(codes[kind] if name in cls._zeros else f"{kind.itemsize}x" for name, kind in fields))
        cls._block = ctypes.c_int64 * -(-cls._packer.size // 8)
        cls.addresses = cls.addresses | {name: cls.dtype.fields[name][1] for name in addresses if cls.dtype.fields is not None}
        for name in declared:
            delattr(cls, name)

    @classmethod
    def make(cls, values: Mapping[str, Any]) -> Array:
        """A struct in an array of its own, with the values of some fields and zeros in the others."""
        return make_struct(cls.dtype, values)

    @classmethod
    def bound(cls, values: Mapping[str, Any]) -> Parameters:
        """A struct as `make` makes it, for a launch that can be relocated if all addresses are `BoundAddress`es or arrays.

        Args:
            values: the values of some fields with one value each; of an `Address` also an array, or a list of addresses.
        """
        packer = cls._packer
        block = cls._block()
        parameters, filled = Parameters(block), {**cls._zeros, **values}
        if len(filled) != len(cls._zeros):
            raise ValueError(f"no fields of {cls.__name__}: {', '.join(sorted(values.keys() - cls._zeros.keys()))}")
        for name, offset in cls.addresses.items():
            if name in values:
                filled[name] = parameters.stored(parameters.address + offset, values[name])
        packer.pack_into(block, 0, *filled.values())  # in a tenth of the time of assignments to a structured array
        return parameters


class StagedParameters(KernelStruct):
    """The parameters of `thread_pool_kernels.acquire`."""

    acquire: Address = field("what `thread_pool_kernels.build_acquire` gives")
    steal_timeout: Count = field("nanoseconds that a thread waits before it computes a tile again that another has acquired")


class ConcurrentParameters(StagedParameters):
    """The parameters of `launch_kernels.build_concurrent_task`."""

    tasks: Count = field("how many tasks run at the same time")
    entries: Address = field("two integers for each: the addresses of its function and of the function's parameters")


class CountedParameters(KernelStruct):
    """The parameters of `thread_pool_kernels.share_tiles`."""

    ticket: Count = field("the launch's epoch and the tiles taken from either end")
    done: Count = field("how many tiles are done")
    tiles: Count = field("how many tiles there are")


class UnitParameters(CountedParameters):
    """The parameters of `thread_pool_kernels.share_units`."""

    units: Count = field("how many units all tiles have")


def aligned(size: int) -> int:
    """The next multiple of `ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT
