"""Operators on tensors of BFLOAT16: as those of FLOAT32 on copies in scratch, or as those of UINT16 where elements are only moved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dmlpy.description.bfloat16 import in_other_type
from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.devices.plan import Layout, Plan, in_order
from dmlpy.validation.checking import LATEST, is_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cost import Cost
    from dmlpy.devices.plan import Launch, Pointers

_ALIGNMENT = 256
_MOVING = frozenset(
    {
        *("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "ELEMENT_WISE_IF", "GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1", "JOIN"),
        *("REVERSE_SUBSEQUENCES", "SCATTER", "SCATTER_ND", "SLICE", "SLICE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1", "SPLIT", "TILE"),
    }
)
"""The operators that only move elements: no number of an attribute is among the results."""


class Conversion(Protocol):
    """A device's plan that converts `source` to `target`, tensors of the same sizes, of which one is of FLOAT32 and one of BFLOAT16."""

    def __call__(self, source: TensorDesc, target: TensorDesc) -> Plan: ...


def bfloat16_plan(desc: OperatorDesc, plan_of: Callable[[OperatorDesc], Plan | None], conversion: Conversion) -> Plan | None:
    """The plan of a checked desc with tensors of BFLOAT16; None if the device has none of the operator in FLOAT32.

    Args:
        desc: the desc.
        plan_of: gives the device's plan of a checked desc without them.
        conversion: gives the plans that convert tensors.
    """
    if (moved := moved_desc(desc)) is not None:
        return plan_of(moved)
    plan = plan_of(widened(desc))
    return None if plan is None else WidenedPlan(desc, plan, conversion)


def moved_desc(desc: OperatorDesc) -> OperatorDesc | None:
    """The same movement of elements as UINT16; None if the operator computes with them, or does not take UINT16."""
    if desc.short_name() not in _MOVING:
        return None
    moved = in_other_type(desc, DataType.UINT16)
    return moved if is_valid(moved, LATEST) else None


def widened(desc: OperatorDesc) -> OperatorDesc:
    """The desc with packed tensors of FLOAT32 in the place of those of BFLOAT16; elements that a tensor repeats are there once."""
    return in_other_type(desc, DataType.FLOAT32, _packed)


def _packed(tensor: TensorDesc) -> TensorDesc:
    kept = [1 if step == 0 else size for size, step in zip(tensor.sizes, tensor.element_strides, strict=True)]
    strides = [0 if step == 0 else packed for step, packed in zip(tensor.element_strides, packed_strides(kept), strict=True)]
    return TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes, strides=strides if 0 in strides else None)


def _once(tensor: TensorDesc) -> TensorDesc:
    """The elements of a tensor without those that it repeats."""
    sizes = [1 if step == 0 else size for size, step in zip(tensor.sizes, tensor.element_strides, strict=True)]
    return tensor.replace(sizes=sizes, strides=tensor.element_strides, total_tensor_size_in_bytes=None)


class WidenedPlan(Plan):
    """An operator on tensors of BFLOAT16 by the plan of the same operator on FLOAT32: inputs are copied, results are rounded once.

    Packed constants are those of the other plan, and behind them their copies.

    Args:
        desc: a checked desc.
        plan: the plan of the widened desc.
        conversion: gives the device's plans that convert tensors.
    """

    def __init__(self, desc: OperatorDesc, plan: Plan, conversion: Conversion) -> None:
        self._desc, self._plan, self._conversion = desc, plan, conversion
        wide = widened(desc).tensors()
        outputs = {slot.place for slot in desc.output_slots()}
        self._own = {place: tensor for place, tensor in desc.tensors().items() if tensor.data_type is DataType.BFLOAT16}
        self._wide: Mapping[str, TensorDesc] = {place: wide[place] for place in self._own}
        self._outputs = [place for place in self._own if place in outputs]
        self._conversions = {place: self._converted(place, place in outputs) for place in self._own}
        self.constants = plan.constants
        kept = [place for place in self._own if place in plan.constants]
        self._copies = Layout([self._row(place) for place in self._own], _ALIGNMENT)
        self._prepared_copies = Layout([self._row(place) for place in self._own if place not in kept], _ALIGNMENT)
        self._packed = Layout([("", (plan.persistent_size,), np.dtype(np.uint8)), *map(self._row, kept)], _ALIGNMENT)
        # Without constants of BFLOAT16 the other plan's are packed as they are.
        self.persistent_size = self._packed.size if kept else plan.persistent_size
        self.temporary_size = self._copies.size + self._with_conversions(plan.temporary_size)
        self.prepared_temporary_size = self._prepared_copies.size + self._with_conversions(plan.prepared_temporary_size)
        self.supported_flags, self.strategy, self.reserve_layout = plan.supported_flags, plan.strategy, plan.reserve_layout

    def _row(self, place: str) -> tuple[str, tuple[int, ...], np.dtype[np.float32]]:
        return place, (self._wide[place].span,), np.dtype(np.float32)

    def _converted(self, place: str, is_output: bool) -> Plan:
        narrow, wide = _once(self._own[place]), _once(self._wide[place])
        return self._conversion(wide, narrow) if is_output else self._conversion(narrow, wide)

    def _with_conversions(self, size: int) -> int:
        return max([size, *(conversion.temporary_size for conversion in self._conversions.values())])

    @property
    def capturable(self) -> bool:  # type: ignore[override]
        """Whether a bound launch gains by being captured once and replayed (a CUDA graph)."""
        return self._plan.capturable

    @property
    def current(self) -> Plan:
        plan = self._plan.current
        return self if plan is self._plan else WidenedPlan(self._desc, plan, self._conversion)

    def load(self) -> None:
        for plan in (self._plan, *self._conversions.values()):
            plan.load()

    def describe(self) -> str:
        read, written = [place for place in self._own if place not in self._outputs], ", ".join(self._outputs)
        lines = [f"{', '.join(read)}: copied to float32"] if read else []
        lines.append(self._plan.describe())
        return "\n".join([*lines, f"{written}: rounded once to bfloat16"] if written else lines)

    def cost(self) -> Cost:
        cost = self._plan.cost()
        traffic = {**cost.traffic, "float32 copies": 2 * sum(4 * tensor.span for tensor in self._wide.values())}
        estimate = cost.estimate_us
        for conversion in self._conversions.values():
            conversion_us = conversion.cost().estimate_us
            estimate = None if estimate is None or conversion_us is None else estimate + conversion_us
        return replace(cost, traffic=traffic, estimate_us=estimate)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        wide = {place: address for place, address in self._packed.pointers(persistent).items() if place}
        work = [self._convert(place, constants[place], address) for place, address in wide.items()]
        return in_order([*work, self._plan.pack({**constants, **wide}, persistent)])

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        copies = self._copies if persistent is None else self._prepared_copies
        wide = {place: address for place, address in copies.pointers(temporary).items() if place in tensors}
        scratch = temporary + copies.size
        work = [self._convert(place, tensors[place], address, scratch) for place, address in wide.items() if place not in self._outputs]
        work.append(self._plan.bind({**tensors, **wide}, scratch, persistent))
        work += [self._convert(place, wide[place], tensors[place], scratch) for place in self._outputs if place in wide]
        return in_order(work)

    def _convert(self, place: str, source: int, target: int, scratch: int = 0) -> Launch:
        return self._conversions[place].bind({"input_tensor": source, "output_tensor": target}, scratch, None)
