"""Tensors whose elements are at distances beyond 32 bits, in address space of which only their pages have memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.description.arrays import array_at
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.plans import Target, plan_of

Array = np.ndarray[Any, Any]
_NO_RESERVE = 0x4000  # MAP_NORESERVE, which Python has no name for

STEP = 2**31 + 64
"""Elements from one entry to the next along an axis: more than an int counts."""


@contextmanager
def far_array(tensor: dml.TensorDesc) -> Iterator[Array]:
    """A described tensor, all its elements 0."""
    dtype = tensor.data_type.numpy
    with mmap.mmap(-1, tensor.span * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE) as memory:
        whole = np.frombuffer(memory, np.uint8)
        array = array_at(whole.ctypes.data, tensor.sizes, dtype, tensor.element_strides)
        yield array
        del whole, array


def run_far(desc: dml.OperatorDesc, inputs: Mapping[str, Array], device: CudaDevice) -> dict[str, Array]:
    """The outputs by field of a desc whose strides may reach further than `dml.check` lets them."""
    plan = plan_of(desc, Target(device.library))
    assert plan is not None
    scratch = np.zeros(plan.temporary_size + 256, np.uint8)
    temporary = scratch.ctypes.data + -scratch.ctypes.data % 256
    with ExitStack() as stack:
        arrays = {name: stack.enter_context(far_array(tensor)) for name, tensor in desc.tensors().items()}
        for name, values in inputs.items():
            arrays[name][...] = values
        plan.bind({name: array.ctypes.data for name, array in arrays.items()}, temporary, None)(0)
        found = {slot.place: arrays[slot.place].copy() for slot in desc.output_slots() if slot.tensor is not None}
        arrays.clear()
    return found
