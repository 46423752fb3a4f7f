"""Device memory of the emulated runtime: allocations between guard words, filled with 0xFF, and arrays in them."""

from __future__ import annotations

import bisect
import ctypes
import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = np.ndarray[Any, Any]

GUARD = bytes([0xA5]) * 256
POISON = 0xFF
ALIGNMENT = 256
QUARANTINE_BYTES = 64 << 20
"""How much freed memory is kept, to detect uses after free."""


def host_view(pointer: int, sizes: Sequence[int], byte_strides: Sequence[int], data_type: np.dtype[Any]) -> Array:
    """The memory at an address as a NumPy array, no copy."""
    if 0 in sizes:
        return np.empty(sizes, data_type)
    extent = data_type.itemsize + sum((size - 1) * stride for size, stride in zip(sizes, byte_strides, strict=True))
    return np.ndarray(sizes, data_type, memoryview((ctypes.c_char * extent).from_address(pointer)), strides=byte_strides)


def packed_strides(sizes: Sequence[int]) -> list[int]:
    """Element strides of a row-major array without gaps."""
    return [int(np.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]


class CpuMemory:
    """Device memory; freed with this object.

    Attributes:
        used: what is done about the memory where a stream uses it.
    """

    def __init__(self, pointer: int, size: int) -> None:
        self.pointer = pointer
        self.size = size
        self.used: Callable[[CpuMemory, int], None] = lambda memory, stream: None

    def used_in(self, stream: int) -> None:
        self.used(self, stream)


class DeviceArray:
    """An array in device memory: it has `__cuda_array_interface__`, and nothing by which NumPy would take it for a host array."""

    def __init__(self, owner: Any, pointer: int, sizes: Sequence[int], byte_strides: Sequence[int], data_type: np.dtype[Any]) -> None:
        self.owner = owner
        self.pointer = pointer
        self.shape = tuple(sizes)
        self.strides = tuple(byte_strides)
        self.dtype = data_type

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # Like CuPy: an array without elements has no address.
        pointer = 0 if 0 in self.shape else self.pointer
        return {"version": 3, "shape": self.shape, "strides": self.strides, "typestr": self.dtype.str, "data": (pointer, False)}

    def view(self, data_type: Any) -> DeviceArray:
        """The same memory as elements of another type of as many bytes."""
        dtype = np.dtype(data_type)
        if dtype.itemsize != self.dtype.itemsize:
            raise DeviceError(f"elements of {self.dtype} are viewed as {dtype}, expected elements of the same size")
        return DeviceArray(self.owner, self.pointer, self.shape, self.strides, dtype)

    def reshape(self, sizes: Sequence[int]) -> DeviceArray:
        """The same memory in other sizes."""
        host = host_view(self.pointer, self.shape, self.strides, self.dtype)
        if not host.flags.c_contiguous:
            raise DeviceError(f"an array with strides {self.strides} is reshaped, expected a packed one")
        if host.size != np.prod(sizes):
            raise DeviceError(f"sizes are {list(sizes)}, expected sizes of {host.size} elements, as {list(self.shape)} has")
        return DeviceArray(self.owner, self.pointer, sizes, host.reshape(sizes).strides, self.dtype)

    def set(self, values: Array) -> None:
        """Copies host values of the same sizes into the array's elements."""
        host_view(self.pointer, self.shape, self.strides, self.dtype)[...] = values

    def get(self) -> Array:
        """A copy on the host."""
        return host_view(self.pointer, self.shape, self.strides, self.dtype).copy()


class DlpackArray:
    """An array in device memory, emulated or a GPU's, that offers DLPack alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0  # kDLCUDA

    def __dlpack__(self, **options: Any) -> Any:
        if not isinstance(self.array, DeviceArray):
            return self.array.__dlpack__(**options)
        return host_view(self.array.pointer, self.array.shape, self.array.strides, self.array.dtype).__dlpack__()


@dataclass(eq=False)
class Allocation:
    """`storage` holds a guard, the memory at `pointer`, and a guard. It outlasts `freed` for a while, so that late uses are found."""

    storage: Array
    pointer: int
    size: int
    freed: bool = False

    def damage(self) -> str | None:
        """A sentence about a write outside the memory, or None."""
        start = self.pointer - self.storage.ctypes.data
        before = self.storage[start - len(GUARD) : start]
        after = self.storage[start + self.size : start + self.size + len(GUARD)]
        for place, words, nearest in (("before", before, -1), ("after", after, 0)):
            hit = np.flatnonzero(words != GUARD[0])
            if hit.size:
                distance = len(GUARD) - hit[nearest] if place == "before" else hit[nearest] + 1
                return f"{hit.size} bytes written {place} an allocation of {self.size} bytes, the nearest {distance} bytes outside"
        return None


class AddressMap:
    """All allocations by their address. Threads may share it."""

    def __init__(self) -> None:
        self._lock = forks.reentrant_lock()
        self._allocations: dict[int, Allocation] = {}
        self._pointers: list[int] = []  # sorted
        self._freed: deque[Allocation] = deque()  # oldest first
        self._freed_bytes = 0
        self._damages: list[str] = []

    def live_bytes(self) -> int:
        """The sizes of all allocations that are not freed."""
        with self._lock:
            return sum(allocation.size for allocation in list(self._allocations.values()) if not allocation.freed)

    def allocate(self, size: int) -> CpuMemory:
        """New memory, filled with 0xFF: every float in it is a NaN."""
        storage = np.full(size + 2 * len(GUARD) + ALIGNMENT, GUARD[0], np.uint8)
        pointer = storage.ctypes.data + len(GUARD)
        pointer += -pointer % ALIGNMENT
        allocation = Allocation(storage, pointer, size)
        ctypes.memset(pointer, POISON, size)
        with self._lock:
            self._allocations[pointer] = allocation
            bisect.insort(self._pointers, pointer)
        memory = CpuMemory(pointer, size)
        weakref.finalize(memory, self._release, allocation).atexit = False
        return memory

    def _release(self, allocation: Allocation) -> None:
        with self._lock:
            allocation.freed = True
            self._freed.append(allocation)
            self._freed_bytes += allocation.size
            while self._freed_bytes > QUARANTINE_BYTES:
                oldest = self._freed.popleft()
                self._freed_bytes -= oldest.size
                del self._allocations[oldest.pointer]
                self._pointers.remove(oldest.pointer)
                if damage := oldest.damage():
                    self._damages.append(damage)

    def check_guards(self) -> None:
        """Raises AssertionError if a byte outside any allocation was written, be it freed since or not."""
        with self._lock:
            damages = self._damages + [damage for allocation in list(self._allocations.values()) if (damage := allocation.damage())]
        if damages:
            raise AssertionError("; ".join(damages))  # no statement `assert`: guards hold under `python -O`, too

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds `address` or ends there. Raises DeviceError if it is freed."""
        with self._lock:
            index = bisect.bisect_right(self._pointers, address) - 1
            if index < 0:
                return None
            allocation = self._allocations[self._pointers[index]]
        if address > allocation.pointer + allocation.size:
            return None
        if allocation.freed:
            raise DeviceError(f"{address:#x} lies in freed memory of {allocation.size} bytes")
        return allocation

    def check_range(self, pointer: int, size: int) -> None:
        """Raises DeviceError unless the bytes lie within one allocation that is alive."""
        allocation = self.find(pointer)
        if allocation is None or pointer + size > allocation.pointer + allocation.size:
            raise DeviceError(f"{size} bytes at {pointer:#x} are not within one allocation")
