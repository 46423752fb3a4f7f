"""Arrays of other libraries as memory: address, layout, device."""

from __future__ import annotations

import ctypes
import operator
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.description.bfloat16_numbers import holds_bfloat16, numpy_type
from dmlpy.description.dlpack import bfloat16_array, capsule_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike

_byte_of = ctypes.c_char.from_buffer
_TWO_BYTES = np.dtype("V2")
_CPU = 1
"""kDLCPU of dlpack.h."""
_HOST_MEMORY = frozenset({_CPU, 3, 11})
"""kDLCPU, kDLCUDAHost and kDLROCMHost: the host reads page-locked memory, such as that of PyTorch's pinned tensors, as any other."""
_MASKED = "masked arrays are not supported: give what stands for masked elements, as by .filled(0)"


@dataclass(frozen=True)
class Buffer:
    """Raw memory that the caller keeps alive: an address on the operator's device and its length.

    Attributes:
        pointer: address of the first byte.
        size_in_bytes: bytes that may be used from there.
    """

    pointer: int
    size_in_bytes: int


def address_of(array: np.ndarray[Any, Any]) -> int:
    """The address of the first byte of a NumPy array.

    NumPy takes a microsecond to return it, its buffer a quarter of that: there is one of packed elements that can be written, of a type
    that Python's buffers have.
    """
    try:
        return ctypes.addressof(_byte_of(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return int(array.__array_interface__["data"][0])


class ArrayView(NamedTuple):
    """An array as memory.

    Attributes:
        pointer: the address of the first element.
        shape: the sizes.
        strides: in bytes.
        dtype: the element type.
        device: `cpu`; `cuda:1` where the GPU is known; `cuda` where it is not, and for memory that every GPU can use.
        read_only: whether it cannot be written.
        owner: the object that keeps the memory alive.
        stream: the CUDA stream of the work that fills it, which every user of the memory must wait for; None if there is nothing to wait
            for.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    device: str
    read_only: bool
    owner: Any
    stream: int | None = None


def view(array: Any) -> ArrayView:
    """Views an array as memory, without a copy.

    Arrays in GPU memory are known by `__cuda_array_interface__`; all others go through NumPy (`__array_interface__`, the
    buffer protocol, `__dlpack__`).

    Raises:
        TypeError: the object is not an array, or its memory cannot be reached without a copy.
    """
    if type(array) is np.ndarray:
        return _host_view(array, array)
    try:
        refuse_mask(array)
        viewed = _foreign_view(array)
    except TypeError:
        raise
    except Exception as error:  # the protocols are other libraries' code: whatever they raise, the array cannot be used
        raise TypeError(f"its memory cannot be shared: {type(error).__name__}: {error}") from error
    if viewed is None:
        raise TypeError("only NumPy's and CuPy's arrays, and what has __dlpack__ or __cuda_array_interface__, can be read in place")
    return viewed


def refuse_mask(array: Any) -> None:
    """Refuses NumPy's masked arrays, whose masked elements have no values.

    Raises:
        TypeError: the array is one.
    """
    # NumPy imports the module when it is first named. While another thread does so, the class is missing, and no array is of it.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(array, masked):
        raise TypeError(_MASKED)


def resolved(array: Any) -> Any:
    """The array, or a copy of a tensor of PyTorch whose elements are not those of its memory, which DLPack does not show.

    Its signs are flipped when it is read, or it has no memory, since all elements are 0.

    Raises:
        TypeError: it is such a tensor of a GPU: the copy would be made, and freed, in the order of PyTorch's stream alone.
    """
    is_negated = getattr(array, "is_neg", None)
    if not callable(is_negated):
        return array
    is_unwritten = getattr(array, "_is_zerotensor", None)
    if not is_negated() and not (callable(is_unwritten) and is_unwritten()):
        return array
    if getattr(array, "is_cuda", False):
        raise TypeError("its signs are flipped when PyTorch reads it, or it has no memory: give what .resolve_neg().clone() returns")
    return array.resolve_neg().clone()


def is_convertible(value: Any) -> bool:
    """Whether NumPy can make an array of a value whose memory is not shared: of a list or a number, or of a table of pandas."""
    return isinstance(value, list | tuple | int | float) or (hasattr(value, "__array__") and not hasattr(value, "__dlpack__"))


def layout_of(array: Any) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
    """The shape, strides in bytes and element type of an array of any library."""
    seen = view(array)
    return seen.shape, seen.strides, seen.dtype


def array_at(pointer: int, sizes: Sequence[int], dtype: DTypeLike, strides: Sequence[int]) -> np.ndarray[Any, Any]:
    """Views host memory as an array, without a copy and without keeping it alive; strides are in elements."""
    return arrays_at(sizes, dtype, strides)(pointer)


def arrays_at(sizes: Sequence[int], dtype: DTypeLike, strides: Sequence[int]) -> Callable[[int], np.ndarray[Any, Any]]:
    """A function that views host memory at an address as `array_at` does, for many addresses."""
    item = np.dtype(dtype)
    shape = tuple(sizes)
    block, steps = _block(shape, item.itemsize, tuple(strides))
    array, at = np.ndarray, block.from_address
    return lambda pointer: array(shape, item, at(pointer), 0, steps)  # type: ignore[arg-type]  # a buffer, as any ctypes array


@lru_cache(maxsize=1024)
def _block(sizes: tuple[int, ...], itemsize: int, strides: tuple[int, ...]) -> tuple[type[ctypes.Array[ctypes.c_byte]], tuple[int, ...]]:
    """A block of bytes that holds such an array, and the strides in bytes. Cached, since each call binds arrays again.

    The block's length is a power of two: `ctypes` keeps a class for each length, and takes as long to make one as to make ten arrays.
    """
    span = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return ctypes.c_byte * (1 << (span * itemsize - 1).bit_length()), tuple(stride * itemsize for stride in strides)


def dlpack_device(array: Any) -> tuple[int, int] | None:
    """DLPack's number of the kind of memory where an array lies, and the device's number; None where the array does not say.

    Page-locked memory of the host counts as any other of the host's: (1, 0).
    """
    try:
        kind, number = array.__dlpack_device__()
        return (_CPU, 0) if int(kind) in _HOST_MEMORY else (int(kind), int(number))
    except Exception:  # other libraries' code
        return None


def _foreign_view(array: Any) -> ArrayView | None:
    if (resolved_array := resolved(array)) is not array:
        viewed = _foreign_view(resolved_array)
        return None if viewed is None else viewed._replace(read_only=True)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return _cuda_view(array, interface)
    if hasattr(array, "__dlpack__"):
        device_type = int(array.__dlpack_device__()[0]) if hasattr(array, "__dlpack_device__") else _CPU
        if device_type not in _HOST_MEMORY:
            raise TypeError(f"its memory lies on a DLPack device of type {device_type}, without __cuda_array_interface__")
        if holds_bfloat16(array):
            return _host_view(bfloat16_array(array), array)
        seen = _host_view(np.from_dlpack(array), array)
        return seen._replace(read_only=False) if seen.read_only and _is_unversioned(array) else seen
    if hasattr(array, "__array_interface__") or _has_buffer(array):
        return _host_view(np.asarray(array), array)
    return None


def _has_buffer(array: Any) -> bool:
    """Whether an object shares its memory by the buffer protocol, as `array.array` and `bytearray` do; bytes do not count."""
    try:
        memoryview(array).release()
    except TypeError:
        return False
    return not isinstance(array, bytes)


def _is_unversioned(array: Any) -> bool:
    """Whether a producer of DLPack is older than version 1.0, which cannot mark memory as read-only: NumPy assumes that it is."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        return True
    return bool(capsule_name(capsule) == b"dltensor")


def _host_view(array: np.ndarray[Any, Any], owner: Any) -> ArrayView:
    return ArrayView(address_of(array), array.shape, array.strides, array.dtype, "cpu", not array.flags.writeable, (array, owner))


def interface_type(array: Any, typestr: str) -> np.dtype[Any]:
    """The element type of an array interface, which has no name for BFLOAT16: two bytes, of which only the array knows more."""
    dtype = np.dtype(typestr)
    return numpy_type() if dtype == _TWO_BYTES and holds_bfloat16(array) else dtype


def _cuda_view(array: Any, interface: dict[str, Any]) -> ArrayView:
    if interface.get("mask") is not None:
        raise TypeError(_MASKED)
    dtype = interface_type(array, interface["typestr"])
    shape = tuple(operator.index(size) for size in interface["shape"])
    strides = interface.get("strides")
    if strides is None:
        counted = [dtype.itemsize] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            counted[axis] = counted[axis + 1] * shape[axis + 1]
        strides = counted
    pointer, read_only = interface["data"]
    address = operator.index(pointer or 0)
    steps = tuple(operator.index(stride) for stride in strides)
    if len(steps) != len(shape) or min(shape, default=0) < 0 or not 0 <= address < 2**64:
        raise TypeError("its __cuda_array_interface__ describes no array")
    return ArrayView(address, shape, steps, dtype, "cuda", bool(read_only), array, _stream(interface))


def _stream(interface: dict[str, Any]) -> int | None:
    """The stream that version 3 of the interface gives: 1 is the legacy default stream, 2 each thread's own one, 0 either of them."""
    stream = interface.get("stream") if interface.get("version", 0) >= 3 else None
    if stream is None:
        return None
    handle = operator.index(stream)
    if not 0 < handle < 2**64:
        expected = "None, 1 (the legacy default stream), 2 (the thread's default stream) or a stream's handle"
        given = str(handle) if abs(handle) < 2**64 else "a number of more than 64 bits"
        raise TypeError(f"the stream of its __cuda_array_interface__ is {given}, expected {expected}")
    return handle
