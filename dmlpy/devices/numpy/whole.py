"""Operators that NumPy computes by their definition in `dmlpy.reference`, on whole arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from dmlpy.arrays import array_at
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.reference.registry import definition, why_undefined

Array = np.ndarray[Any, np.dtype[Any]]


class WholePlan(PlanWithoutConstants):
    """An operator on whole arrays. Temporaries are NumPy's own.

    Args:
        desc: a checked desc.
        compute: type of the arithmetic on FLOAT32 and FLOAT16, float32 or float64.
    """

    temporary_size = 0

    def __init__(self, desc: OperatorDesc, compute: DTypeLike = np.float32) -> None:
        self._desc = desc
        self._compute = np.dtype(compute)
        function = definition(type(desc))
        assert function is not None
        self._function = function
        self._slots = [(slot, slot.tensor) for slot in desc.slots() if slot.tensor is not None]

    def describe(self) -> str:
        return f"NumPy, whole arrays, {self._compute} arithmetic; temporaries are allocated in each dispatch"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        arrays = {
            slot.place: array_at(tensors[slot.place], tensor.sizes, tensor.data_type.numpy, tensor.element_strides)
            for slot, tensor in self._slots
        }

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                results = self.results(arrays)
                for slot, _ in self._slots:
                    if slot.field.marker.output:
                        # A result may be a view of an input that shares memory with an output: NumPy's assignment takes care of overlaps.
                        # It converts as it writes: an array of converted results might find no memory when other outputs are written.
                        arrays[slot.place][...] = results[slot.place]

        return launch

    def results(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by place, unrounded, of the inputs by place."""
        inputs: dict[str, Any] = {field.name: () if field.listed else None for field in self._desc.inputs()}
        for slot, tensor in self._slots:
            if slot.field.marker.output:
                continue
            array = arrays[slot.place]
            if tensor.data_type in (DataType.FLOAT16, DataType.FLOAT32):
                array = array.astype(self._compute, copy=False)
            if slot.field.listed:
                inputs[slot.field.name] += (array,)
            else:
                inputs[slot.field.name] = array
        results = self._function(self._desc, inputs)
        outputs = [slot for slot, _ in self._slots if slot.field.marker.output]
        if not isinstance(results, Mapping):
            results = {outputs[0].field.name: results}
        return {
            slot.place: np.asarray(results[slot.field.name] if slot.index is None else results[slot.field.name][slot.index])
            for slot in outputs
        }


def whole_plan(desc: OperatorDesc, compute: DTypeLike = np.float32) -> WholePlan | None:
    """The plan for a checked desc; None if nothing defines what it computes."""
    return WholePlan(desc, compute) if why_undefined(desc) is None else None


def reference(desc: OperatorDesc, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by place, computed in float64 and unrounded.

    Args:
        desc: a checked desc.
        arrays: every input by place, of its described sizes.
    """
    with np.errstate(all="ignore"):
        return WholePlan(desc, np.float64).results(arrays)
