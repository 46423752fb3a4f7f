"""Calls of an operator on small arrays of host memory: these are copied into memory that is bound, since binding others takes longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dmlpy.description.outputs import Outputs
from dmlpy.devices.memory.binding import strided

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.device import Device
    from dmlpy.devices.dispatch import Dispatch, ValueBound
    from dmlpy.devices.memory.binding_table import OperatorTables
    from dmlpy.devices.plan import BindingProperties

_MOST_BYTES = 1 << 18
"""The most bytes of a call, scratch included, that are copied: copying so many takes less time than binding the arrays would."""
_MOST_KNOWN = 8
"""The kinds of calls of an operator that are known."""


class Stageable(Protocol):
    """A compiled operator, or one with its constants packed, as staged calls use it."""

    @property
    def desc(self) -> OperatorDesc: ...

    @property
    def device(self) -> Device: ...

    @property
    def binding_properties(self) -> BindingProperties: ...

    @property
    def _tables(self) -> OperatorTables: ...

    @property
    def _value_bounds(self) -> tuple[ValueBound, ...]: ...

    def bind(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Dispatch: ...


class Stage(NamedTuple):
    """Memory of an operator's tensors that is bound to a dispatch.

    Attributes:
        inputs: the inputs, as passed.
        dispatch: the dispatch.
        outputs: the outputs by place, None for those that are absent.
    """

    inputs: list[np.ndarray[Any, Any]]
    dispatch: Dispatch
    outputs: dict[str, np.ndarray[Any, Any] | None]


class Stages:
    """The stages of an operator's calls. A dispatch runs one call at a time: each call takes one that is free, or binds another.

    Args:
        operator: the operator, on a device of host memory.
        inputs: the place of each input, its layout as passed, and the layout that the operator reads.
    """

    def __init__(self, operator: Stageable, inputs: Sequence[tuple[str, TensorDesc, TensorDesc]]) -> None:
        self._operator, self._inputs = operator, inputs
        self._free: list[Stage] = []

    def take(self) -> Stage:
        """A stage for the exclusive use of a call."""
        try:
            return self._free.pop()
        except IndexError:
            return self._bind()

    def give(self, stage: Stage) -> None:
        """Takes a stage back; not after an error, which may have left its dispatch in the middle of the work."""
        self._free.append(stage)

    def _bind(self) -> Stage:
        targets, inputs = [], {}
        for place, given, taken in self._inputs:
            memory = np.zeros(given.extent_in_bytes, np.uint8)
            targets.append(strided(memory, given))
            inputs[place] = strided(memory, taken)
        outputs = {
            slot.place: None if slot.tensor is None else strided(np.zeros(slot.tensor.extent_in_bytes, np.uint8), slot.tensor)
            for slot in self._operator.desc.output_slots()
        }
        bound = {place: array for place, array in outputs.items() if array is not None}
        return Stage(targets, self._operator.bind(inputs, bound), outputs)


class StagedCalls:
    """The calls of an operator that are staged: of NumPy arrays as in an earlier call, which has been checked, without outputs to fill.

    Args:
        operator: the operator.
        packed: the inputs that calls do not give, since they are packed.
    """

    def __init__(self, operator: Stageable, packed: Collection[str] = ()) -> None:
        slots = [(slot, slot.tensor) for slot in operator.desc.slots() if slot.tensor is not None and slot.place not in packed]
        size = sum(tensor.extent_in_bytes for _, tensor in slots) + operator.binding_properties.temporary_resource_size
        self.is_possible = (
            operator.device.memory_kind == "cpu"
            and size <= _MOST_BYTES
            and not operator._value_bounds
            and not operator._tables.reserves
            and all(slot.index is None and tensor.data_type.bits != 4 for slot, tensor in slots)
            and all(tensor.required_alignment <= tensor.data_type.numpy.alignment for _, tensor in slots)
            and all(tensor.is_packed for slot, tensor in slots if slot.field.marker.output)
        )
        """Whether calls of this operator may be staged: their arrays are small and have all that is checked in their types and layouts."""
        self._inputs = [(slot.place, tensor) for slot, tensor in slots if not slot.field.marker.output]
        self._stages = Stages(operator, [(place, tensor, tensor) for place, tensor in self._inputs])
        self._known: dict[Hashable, list[int]] = {}

    def run(self, tensors: Mapping[str, Any]) -> Outputs | None:
        """The outputs of a call with known arrays; None for others."""
        if (key := _key(tensors)) is None or (places := self._known.get(key)) is None:
            return None
        stage = self._stages.take()
        for place, array in zip(places, tensors.values(), strict=True):
            stage.inputs[place][...] = array
        stage.dispatch()
        outputs = {place: output.copy() for place, output in stage.outputs.items() if output is not None}
        self._stages.give(stage)
        return Outputs(outputs)

    def remember(self, tensors: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        """Notes the arrays of a call that succeeded, which are also given by place."""
        if len(self._known) >= _MOST_KNOWN or (key := _key(tensors)) is None or len(tensors) != len(given):
            return
        descs, order = dict(self._inputs), [place for place, _ in self._inputs]
        rows = zip(tensors.values(), given.items(), strict=True)
        if all(
            array is value and array.shape == (desc := descs[place]).sizes and array.dtype == desc.data_type.numpy
            for array, (place, value) in rows
        ):
            self._known[key] = [order.index(place) for place in given]


def _key(tensors: Mapping[str, Any]) -> Hashable | None:
    """All of the arrays that is checked; None if there is more to it."""
    parts: list[Hashable] = []
    for name, array in tensors.items():
        if type(array) is not np.ndarray or not array.flags.aligned:
            return None
        parts += (name, array.dtype, array.shape, array.strides)
    return tuple(parts)
