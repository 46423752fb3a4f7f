"""Operators that NumPy computes on whole arrays, with compiled conversions of FLOAT16."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import address_of
from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.movement.plan import CONVERSIONS, Copy, CopyPlan, Elements
from dmlpy.devices.numpy.array_functions import WholePlan
from dmlpy.devices.numpy.plans import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.numpy.array_functions import Array, Reader, Store

_LEAST = 1 << 11
"""Elements of a tensor whose compiled conversion is faster than NumPy's."""
_HALF = np.dtype(np.float16)


class Conversion:
    """Converts arrays between FLOAT16 and FLOAT32, all of the same sizes and strides. One thread may use it at a time.

    Args:
        target: an array like those that are written.
        source: an array like those that are read.
    """

    def __init__(self, target: Array, source: Array) -> None:
        parts = ("target", target), ("source", source)
        plan = CopyPlan([Copy(*(Elements(place, array.dtype, array.shape, array.strides) for place, array in parts))], CONVERSIONS)
        self._addresses = np.zeros(2, np.int64)
        self._launch = plan.bind_addresses(self._addresses)

    def __call__(self, target: Array, source: Array) -> None:
        self._addresses[0], self._addresses[1] = address_of(target), address_of(source)
        self._launch(0)


class ConvertingPlan(WholePlan):
    """An operator with large tensors of FLOAT16, on whole arrays."""

    def load(self) -> None:
        if any(tensor.data_type is DataType.FLOAT16 and tensor.element_count >= _LEAST for tensor in self._desc.tensors().values()):
            CONVERSIONS(host_isa())

    def _halves_reader(self, tensor: TensorDesc) -> Reader:
        if tensor.element_count < _LEAST:
            return super()._halves_reader(tensor)
        # Along strides of 0 elements are converted once.
        shape = [1 if step == 0 else size for size, step in zip(tensor.sizes, tensor.element_strides, strict=True)]
        index = tuple(slice(0, size) for size in shape)
        convert = Conversion(np.empty(shape, COMPUTE), _without_memory(shape, tensor.numpy_strides()))

        def read(array: Array) -> Array:
            converted: Array = np.empty(shape, COMPUTE)
            convert(converted, array[index])
            return np.broadcast_to(converted, array.shape) if converted.shape != array.shape else converted

        return read

    def _store(self, tensor: TensorDesc) -> Store | None:
        if tensor.data_type is not DataType.FLOAT16 or tensor.element_count < _LEAST or self._moves:
            return None
        convert = Conversion(_without_memory(tensor.sizes, tensor.numpy_strides()), np.empty(tensor.sizes, COMPUTE))

        def store(output: Array, result: Any) -> bool:
            if not isinstance(result, np.ndarray) or result.dtype != COMPUTE or result.shape != output.shape:
                return False
            if not result.flags.c_contiguous or np.may_share_memory(result, output):
                return False
            convert(output, result)
            return True

        return store


def _without_memory(shape: Sequence[int], strides: Sequence[int]) -> Array:
    """An array of FLOAT16 of these sizes and strides, without memory, which is never read."""
    return np.lib.stride_tricks.as_strided(np.empty(1, _HALF), shape, strides)
