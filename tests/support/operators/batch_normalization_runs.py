"""Batch normalization in every layout of memory on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.operators.normalization_cases import IMAGE_SIZED, Array, poisons
from tests.support.recurrent.layer_runs import GUARD, Placed

LAYOUTS = ("packed", "channels last", "transposed", "padded images", "padded rows", "slice", "every second")


def strides_of(layout: str, sizes: Sequence[int]) -> list[int]:
    """Strides in elements. Images are all dimensions but the first, rows the last one."""
    order = list(range(len(sizes)))
    if layout == "channels last":
        order.append(order.pop(min(1, len(sizes) - 1)))
    elif layout == "transposed":
        order.reverse()
    strides, reach = [0] * len(sizes), 2 if layout == "every second" else 1
    for axis in reversed(order):
        strides[axis] = reach
        reach *= sizes[axis]
        at = len(sizes) - 1 - axis
        if layout == "slice" or (layout == "padded rows" and at == 0) or (layout == "padded images" and axis == 1):
            reach += 8 if layout == "padded images" else 3
    return strides


def lay(values: Array, layout: str, *, repeats: Sequence[int] = (), aligned: bool = True) -> Placed:
    """The values in guarded memory, aligned to 16 bytes or to the element only; the first entry of some axes may repeat by strides of 0."""
    for axis in repeats:
        values = np.broadcast_to(np.take(values, [0], axis), values.shape)
    own = [1 if axis in repeats else size for axis, size in enumerate(values.shape)]
    strides = [0 if axis in repeats else stride for axis, stride in enumerate(strides_of(layout, own))]
    data_type = dml.DataType.of(values.dtype)
    desc = dml.TensorDesc(data_type=data_type, sizes=values.shape, strides=None if layout == "packed" and not repeats else strides)
    item = values.dtype.itemsize
    start = 64 if aligned else 64 + item
    memory = np.full(start + desc.span * item + 64, GUARD, np.uint8)
    whole = memory[start : start + desc.span * item].view(values.dtype)
    elements = np.lib.stride_tricks.as_strided(whole, values.shape, [stride * item for stride in strides])
    elements[...] = values
    return Placed(desc, memory, elements)


def run_placed(device: dml.Device, desc: Any, inputs: Mapping[str, Placed], outputs: Mapping[str, Placed]) -> Any:
    """Runs over memory that is laid out like the host's, byte by byte, and copies it back; the desc with these layouts.

    Inputs must stay as they were, and so must the memory between and around the elements of outputs.
    """
    everything = {**inputs, **outputs}
    desc = desc.replace(**{name: placed.desc for name, placed in everything.items()})
    stream = device.current_stream()
    memory = {name: device.upload(placed.memory, stream) for name, placed in everything.items()}

    def buffers(placed: Mapping[str, Placed]) -> dict[str, dml.Buffer]:
        starts = {name: item.pointer - item.memory.ctypes.data for name, item in placed.items()}
        return {name: dml.Buffer(memory[name].pointer + start, memory[name].size - start) for name, start in starts.items()}

    dml.compile(desc, device=device).bind(buffers(inputs), buffers(outputs))()
    for name, placed in everything.items():
        after = np.frombuffer(device.read(memory[name].pointer, placed.memory.size, stream), np.uint8)
        if name in inputs:
            np.testing.assert_array_equal(after, placed.memory, err_msg=f"{name} was written to")
        placed.memory[...] = after
        assert (placed.gaps() == GUARD).all(), f"{name}: memory beside its elements was written"
    return desc


def results(
    device: dml.Device,
    desc: Any,
    arrays: Mapping[str, Array],
    layout: str | Mapping[str, str] = "packed",
    *,
    repeats: Mapping[str, Sequence[int]] | None = None,
    aligned: bool = True,
) -> dict[str, Array]:
    """The outputs of a run whose tensors of the input's sizes have a layout, the same or each another."""

    def placed(values: Mapping[str, Array]) -> dict[str, Placed]:
        found = {}
        for name, array in values.items():
            own = layout if isinstance(layout, str) else layout.get(name, "packed")
            own = own if name in IMAGE_SIZED or not isinstance(layout, str) else "packed"
            found[name] = lay(array, own, repeats=(repeats or {}).get(name, ()), aligned=aligned)
        return found

    outputs = placed(poisons(desc))
    run_placed(device, desc, placed(arrays), outputs)
    return {name: item.elements for name, item in outputs.items()}


def assert_same(found: Mapping[str, Array], expected: Mapping[str, Array], names: set[str] | None = None) -> None:
    """Bit for bit."""
    for name in set(expected) if names is None else names & set(expected):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
