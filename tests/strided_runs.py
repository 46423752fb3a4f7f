"""Runs of an operator on the host in any layout: inputs spread as described, outputs in poisoned memory whose gaps have to stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

import dmlpy as dml

Array = np.ndarray[Any, np.dtype[Any]]
POISON = 0xA5


def _memory(tensor: dml.TensorDesc) -> tuple[Array, Array]:
    """Poisoned memory of a tensor with guards around it, and the tensor in it."""
    item = tensor.data_type.numpy
    strides = tensor.element_strides
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.sizes, strides, strict=True))
    memory = np.full((span + 8) * item.itemsize, POISON, np.uint8)
    own = memory.view(item)[4 : 4 + span]
    return memory, as_strided(own, tensor.sizes, [stride * item.itemsize for stride in strides])


def run(desc: dml.OperatorDesc, values: dict[str, Array]) -> dict[str, Array]:
    """The outputs by place of the inputs by place, which have the described sizes, and equal elements where strides of 0 repeat them."""
    compiled = dml.compile(desc, "numpy")
    given: dict[str, Any] = {}
    memories: dict[str, tuple[Array, Array]] = {}
    for slot in desc.slots():
        if slot.tensor is None:
            continue
        memory, view = memories[slot.place] = _memory(slot.tensor)
        if not slot.field.marker.output:
            view[...] = values[slot.place]
            np.testing.assert_array_equal(view, values[slot.place], err_msg=f"values of {slot.place}")
        if slot.field.listed:
            given.setdefault(slot.field.name, []).append(view)
        else:
            given[slot.field.name] = view
    kept = {place: memory.copy() for place, (memory, _) in memories.items()}
    compiled(**given)
    found: dict[str, Array] = {}
    for slot in desc.slots():
        if slot.tensor is None:
            continue
        memory, view = memories[slot.place]
        if slot.field.marker.output:
            found[slot.place] = view.copy()
            view.view(f"u{view.itemsize}")[...] = int.from_bytes(bytes([POISON]) * view.itemsize, "little")
        np.testing.assert_array_equal(memory, kept[slot.place], err_msg=f"memory of {slot.place} outside its elements")
    return found
