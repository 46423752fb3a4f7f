"""Random inputs of an operator, and the bytes of tensors in their layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc

Array = np.ndarray[Any, np.dtype[Any]]


def random_inputs(rng: np.random.Generator, desc: OperatorDesc) -> dict[str, Array]:
    """Values of every described input by place; integers are small, and indices and lengths no larger than they may be.

    Tensors of 4-bit elements are the bytes of their memory.
    """
    sizes, arrays = desc.sizes(), dict[str, Array]()
    for slot in desc.input_slots():
        if slot.tensor is not None:
            limit = 3 if slot.field.marker.at_most is None else sizes[slot.field.marker.at_most]
            arrays[slot.place] = random_values(rng, slot.tensor, limit)
    return arrays


def random_values(rng: np.random.Generator, tensor: TensorDesc, limit: int) -> Array:
    """Values of one tensor: floats of both signs, integers from 0 to a limit; elements that share memory are equal."""
    return from_bytes(tensor, to_bytes(tensor, _drawn(rng, tensor, limit)))


def _drawn(rng: np.random.Generator, tensor: TensorDesc, limit: int) -> Array:
    memory = tensor.memory
    dtype = memory.data_type.numpy
    if dtype.kind == "f":
        # No pole of TAN lies in what the samples' scale and bias, 2 and -1, make of these.
        return rng.uniform(-0.2, 0.8, memory.sizes).astype(dtype)
    return rng.integers(0, limit, memory.sizes, endpoint=True).astype(dtype)


def to_bytes(tensor: TensorDesc, array: Array) -> bytes:
    """The memory of a tensor from its first to its last element, with zeros between them where its strides leave gaps."""
    memory = bytearray(tensor.extent_in_bytes)
    _view(tensor, memory)[...] = array
    return bytes(memory)


def from_bytes(tensor: TensorDesc, memory: bytes) -> Array:
    """The elements of a tensor in memory."""
    return np.array(_view(tensor, memory))


def _view(tensor: TensorDesc, memory: bytes | bytearray) -> Array:
    stored = tensor.memory
    return np.ndarray(stored.sizes, stored.data_type.numpy, memory, strides=stored.numpy_strides())
