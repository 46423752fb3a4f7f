"""Operators that are computed on whole arrays, one NumPy call after the other: plain, and the definition of what they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from dmlpy.arrays import array_at
from dmlpy.descs import OperatorDesc
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.enums import DataType

Array = np.ndarray[Any, np.dtype[Any]]
Results = Array | Mapping[str, Any]

Function = Callable[[Any, Mapping[str, Any]], Results]
"""What an operator computes.

It takes the desc and the inputs by field: arrays of the described sizes (a tuple of them for an array of tensors, None for an absent
tensor), in the type that it computes in: floating point in float32, or float64 as a reference, integers in their own. It gives the
output, or the outputs by field, broadcastable to the described sizes and in any type that converts to the described one: floating point is
rounded, integers wrap around. It must not write its inputs; an output may be one of them, or a view.
"""

FAMILIES = (
    "attention",
    "convolution",
    "elementwise",
    "generation",
    "indexing",
    "matrix",
    "movement",
    "normalization",
    "optimization",
    "pooling",
    "quantized",
    "reduction",
    "resampling",
)
"""The families that have a module of functions below this package: `elementwise.functions`."""


@cache
def functions(family: str) -> Mapping[str, Function]:
    """The functions of a family by the operators' short names."""
    found: Mapping[str, Function] = _module(family).FUNCTIONS if family in FAMILIES else {}
    return found


def _module(family: str) -> ModuleType:
    return import_module(f"dmlpy.devices.numpy.{family}.functions")


def computes(kind: type[OperatorDesc]) -> bool:
    """Whether an operator is computed here."""
    return kind.short_name() in functions(kind.family())


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
        self._function = functions(desc.family())[desc.short_name()]
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
    """The plan for a checked desc; None if it has elements that NumPy has no type for, or nothing computes it here."""
    if not computes(type(desc)) or any(tensor.data_type.bits < 8 for tensor in desc.tensors().values()):
        return None
    # A family may tell of descs whose meaning no source tells: `attention.functions.unknown`.
    unknown = getattr(_module(desc.family()), "unknown", None)
    return None if unknown is not None and unknown(desc) is not None else WholePlan(desc, compute)


def reference(desc: OperatorDesc, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by place, computed in float64 and unrounded.

    Args:
        desc: a checked desc.
        arrays: every input by place, of its described sizes.
    """
    with np.errstate(all="ignore"):
        return WholePlan(desc, np.float64).results(arrays)
