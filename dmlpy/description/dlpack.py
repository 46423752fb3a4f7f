"""Tensors of BFLOAT16 in host memory by DLPack, which NumPy does not read."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from dmlpy.description.bfloat16_numbers import holds_bfloat16, numpy_type

_BFLOAT = 4
"""kDLBfloat of dlpack.h."""
_MAJOR = 1
"""The major version of DLPack that is read."""
_READ_ONLY = 1
"""DLPACK_FLAG_BITMASK_READ_ONLY."""


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    function.argtypes, function.restype = [ctypes.py_object, *arguments], result
    return function


capsule_name = _function("PyCapsule_GetName", ctypes.c_char_p)
capsule_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_char_p)


class _Held:
    """Memory as an array interface, which keeps the capsule that owns it: its destructor frees the tensor, since nothing consumes it."""

    def __init__(self, capsule: Any, interface: dict[str, Any]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def bfloat16_array(array: Any) -> np.ndarray[Any, Any]:
    """Views a tensor of BFLOAT16 in host memory as NumPy's array, without a copy.

    Raises:
        TypeError: it has another type.
        BufferError: its capsule is consumed, or its layout is that of another major version of DLPack.
    """
    try:
        capsule = array.__dlpack__(max_version=(_MAJOR, 0))
    except TypeError:  # a producer older than version 1.0
        capsule = array.__dlpack__()
    name = capsule_name(capsule)
    address, read_only = capsule_pointer(capsule, name), False
    if name == b"dltensor_versioned":
        versioned = _Versioned.from_address(address)
        if versioned.major != _MAJOR:  # only the version and the deleter are then where they are here
            raise BufferError(f"its DLPack tensor is of version {versioned.major}.{versioned.minor}, expected {_MAJOR}")
        tensor, read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    elif name == b"dltensor":
        tensor = _Tensor.from_address(address)
    else:  # another consumer owns its memory, and may have freed it
        raise BufferError(f"its DLPack capsule is named {name.decode()!r}, expected one that nothing has consumed")
    if (tensor.code, tensor.bits, tensor.lanes) != (_BFLOAT, 16, 1):
        raise TypeError(f"its DLPack type has code {tensor.code}, {tensor.bits} bits and {tensor.lanes} lanes, which is not BFLOAT16")
    sizes = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(2 * step for step in tensor.strides[: tensor.ndim]) if tensor.strides else None
    start = (tensor.data or 0) + tensor.byte_offset
    interface = {"version": 3, "shape": sizes, "strides": strides, "typestr": "<u2", "data": (start, read_only)}
    return np.asarray(_Held(capsule, interface)).view(numpy_type())


def tensor_of(torch: Any, array: Any) -> Any:
    """An array as a tensor of PyTorch, without a copy. NumPy does not pass on elements of BFLOAT16, but integers of their size."""
    if holds_bfloat16(array):
        return torch.from_dlpack(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_dlpack(array)
