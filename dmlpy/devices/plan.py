"""Plans, which devices create from checked descs: a plan packs constants once and launches any number of times."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.debugging import LAUNCHES
from dmlpy.description.arrays import array_at
from dmlpy.description.enums import ExecutionFlags
from dmlpy.description.tensors import packed_strides
from dmlpy.devices.cost import Cost
from dmlpy.messages.naming import c_member

if TYPE_CHECKING:
    import numpy as np

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc

Launch = Callable[[int], None]
"""Enqueues the work on a stream, given as an integer handle (0 is the default stream). Allocates nothing, waits for nothing."""

Pointers = Mapping[str, int]
"""Address of each bound tensor, by field name; a tensor that is absent has no entry."""


class BoundAddress(int):
    """An address in bound memory. Sums with a number of bytes are addresses in the same memory.

    A plan that puts it into the parameters of a compiled kernel as it is lets the launch be relocated: see `LaunchSequence.relocate`.

    Attributes:
        memory: the name of the memory, which other memory may replace; None if it stays.
        offset: the bytes from the memory's first one.
    """

    memory: str | None
    offset: int

    def __new__(cls, address: int, memory: str | None, offset: int = 0) -> BoundAddress:
        bound = super().__new__(cls, address)
        bound.memory, bound.offset = memory, offset
        return bound

    def __add__(self, size: int, /) -> BoundAddress:
        return BoundAddress(int(self) + int(size), self.memory, self.offset + int(size))

    __radd__ = __add__


@dataclass(frozen=True)
class BindingProperties:
    """The memory that an operator needs: DML_BINDING_PROPERTIES.

    Attributes:
        required_descriptor_count: tensors that a dispatch binds, undescribed optional ones included.
        temporary_resource_size: bytes of scratch for one dispatch.
        persistent_resource_size: bytes of constants packed by `prepare`.
    """

    required_descriptor_count: int
    temporary_resource_size: int
    persistent_resource_size: int

    if not TYPE_CHECKING:  # with it type checkers would allow any name

        def __getattr__(self, name: str) -> int:
            """Reads a member by its C name, as of a desc."""
            members = {c_member(field.name): field.name for field in fields(self)}
            if name in members:
                return getattr(self, members[name])
            raise AttributeError(f"{type(self).__name__} has no member {name!r}", name=name, obj=self)


class InOrder:
    """Launches as one that runs them in order.

    Attributes:
        work: the launches.
    """

    def __init__(self, work: Sequence[Launch]) -> None:
        self.work = tuple(work)

    def __call__(self, stream: int) -> None:
        for part in self.work:
            part(stream)


def in_order(work: Sequence[Launch]) -> Launch:
    """Combines launches into one that runs them in order."""
    return work[0] if len(work) == 1 else InOrder(work)


class LaunchSequence:
    """Launches that run in order, some of them merged by the device into one.

    Attributes:
        parts: the parts, and the number of launches of each.
        relocatable: the indices of the launches that `relocate` relocates.
    """

    relocatable: Collection[int] = frozenset()

    def __init__(self, parts: Iterable[tuple[Launch, int]]) -> None:
        self.parts = list(parts)

    def relocate(self, addresses: Mapping[str, int]) -> None:
        """Replaces memory in launches that were bound to `BoundAddress`es, without binding them again.

        Args:
            addresses: the first address of each memory that may be replaced, by its name.
        """

    def replaced(self, launches: Mapping[int, Launch]) -> LaunchSequence:
        """A copy with other launches at some indices: the same work on other memory. It may consume this one."""
        return LaunchSequence((launches.get(at, part), count) for at, (part, count) in enumerate(self.parts))


def log_launch(launch: Launch, text: Callable[[], str]) -> Launch:
    """A launch that logs a line before it runs; the launch itself unless the logger `launches` is enabled."""
    if not LAUNCHES.isEnabledFor(logging.DEBUG):
        return launch
    line = text()

    def logged(stream: int) -> None:
        LAUNCHES.debug("%s", line)
        launch(stream)

    return logged


def arrays_of(tensors: Mapping[str, TensorDesc], pointers: Pointers) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Tensors in host memory as arrays of the described sizes, strides and types: those with an address."""
    descs = {name: tensors[name] for name in pointers}
    return {name: array_at(pointers[name], desc.sizes, desc.data_type.numpy, desc.element_strides) for name, desc in descs.items()}


class PlanPart:
    """Base class of what plans consist of, besides structs, dataclasses and arrays: nothing in it changes.

    A plan for other sizes may be a copy of it with other numbers: see `description/sized_copies.py`.
    """


class Layout(PlanPart):
    """Named arrays packed one after another in one block of memory.

    Attributes:
        arrays: offset in bytes, sizes and element type of each, by name.
        size: bytes of the block.

    Args:
        arrays: name, sizes and element type of each, in order.
        alignment: the alignment of each array in bytes.
    """

    def __init__(self, arrays: Iterable[tuple[str, Sequence[int], np.dtype[Any]]], alignment: int) -> None:
        self.arrays: dict[str, tuple[int, tuple[int, ...], np.dtype[Any]]] = {}
        self.size = 0
        for name, sizes, data_type in arrays:
            self.arrays[name] = (self.size, tuple(sizes), data_type)
            self.size += -(-prod(sizes) * data_type.itemsize // alignment) * alignment

    def pointers(self, base: int) -> dict[str, int]:
        """The arrays' addresses in a block at `base`."""
        return {name: base + offset for name, (offset, _, _) in self.arrays.items()}

    def typed_pointers(self, base: int) -> dict[str, tuple[int, int]]:
        """The arrays' addresses in a block at `base`, each with the number of bytes per element."""
        return {name: (base + offset, dtype.itemsize) for name, (offset, _, dtype) in self.arrays.items()}

    def arrays_at(self, base: int) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
        """The arrays in a block of host memory at `base`."""
        places = self.arrays.items()
        return {name: array_at(base + offset, sizes, dtype, packed_strides(sizes)) for name, (offset, sizes, dtype) in places}


def with_tensors(desc: OperatorDesc, changed: Mapping[str, TensorDesc]) -> OperatorDesc:
    """The desc with other tensors in some places, which may be those of elements of an array (`input_tensors[0]`)."""
    if not changed:
        return desc
    members: dict[str, object] = {}
    for slot in desc.slots():
        if slot.place in changed:
            if slot.index is None:
                members[slot.field.name] = changed[slot.place]
            else:
                listed = members.setdefault(slot.field.name, list(getattr(desc, slot.field.name)))
                listed[slot.index] = changed[slot.place]  # type: ignore[index]
    return desc.replace(**members)


def packing_of(desc: OperatorDesc, constants: Iterable[str], layout: Layout) -> Hashable:
    """A key of how constants are packed, if the attributes, the constants' tensors and the layout of the result determine it."""
    tensors = desc.tensors()
    attributes = tuple((name, getattr(desc, name)) for name in type(desc).attribute_names())
    return type(desc), attributes, tuple((name, tensors[name]) for name in constants), tuple(layout.arrays.items())


class Plan(PlanPart, ABC):
    """The ordered work of one operator on one device.

    A plan is immutable and holds no tensor memory, so threads may share it. Memory is passed in as addresses that the
    caller has checked: aligned to the element (or to the desc's guarantee), long enough, of the right device.

    Constants are the inputs that `constants` names (weights, recurrence, bias, peepholes). `pack` writes them, in the
    plan's layout, into a persistent buffer of `persistent_size` bytes; `bind` either reads that buffer
    (`persistent` given) or packs them into the scratch first, on every launch (`persistent` None).
    """

    constants: tuple[str, ...]
    """Field names of the described inputs that `pack` takes, all of them at once; empty if there are none."""

    persistent_size: int
    """Bytes of the packed constants."""

    temporary_size: int
    """Bytes of scratch for a launch that packs its constants itself."""

    prepared_temporary_size: int
    """Bytes of scratch for a launch that reads packed constants."""

    leaves_packed: bool = False
    """Whether a launch that packs its constants itself leaves them in the first `persistent_size` bytes of its scratch, as `pack` would;
    a launch that reads them may have the rest as scratch."""

    adds_in_same_pass: bool = False
    """Whether a matrix product adds C to its sums before it stores them."""

    capturable: bool = False
    """Whether a bound launch gains by being captured once and replayed (a CUDA graph)."""

    supported_flags: ExecutionFlags = ExecutionFlags.NONE
    """The execution flags, among those it was created with, that affect it."""

    strategy: str | None = None
    """The strategy that the device took, with the reason, if it chose among several and `describe` does not say so."""

    is_fallback: bool = False
    """Whether it is the slower, general plan that the device takes where it has no kernel of its own for a desc."""

    copies_layouts: bool = False
    """Whether launches copy tensors to a layout that kernels read, or from it: a view of other memory in their place saves no copy."""

    reserve_layout: str = "columns"
    """The name of the layout in which it writes or reads a training operator's reserve; a device may have several."""

    @property
    def packing(self) -> Hashable:
        """A key of how the constants are packed: plans of a class with equal keys pack alike. None if unknown."""
        return None

    def load(self) -> None:
        """Prepares everything that launches need besides memory, such as kernels to compile; called before the first `bind`.

        A graph calls it once the plans that run are known.

        Raises:
            DeviceError: a kernel cannot be compiled.
        """

    @property
    def current(self) -> Plan:
        """The plan to pack constants for: this one, or its successor if it has been replaced meanwhile."""
        return self

    def with_static_inputs(self, places: Collection[str]) -> Plan:
        """The plan for a graph in which the inputs at these places are the same in each dispatch.

        It may name more of them as constants, which `pack` takes all at once; this plan itself, if it has no use for them.
        """
        return self

    @property
    def reusing(self) -> Plan | None:
        """A plan of launches that reuse the constants that the last launch of this one packed; None if they are not kept."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """Describes, in lines of text, which kernels run, in which order, and why this strategy was chosen."""

    def cost(self) -> Cost:
        """The memory traffic and the predicted time, if there is a model of the device."""
        return Cost()

    @abstractmethod
    def pack(self, constants: Pointers, persistent: int) -> Launch:
        """The work that fills `persistent` from `constants`."""

    @abstractmethod
    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        """The work of one dispatch over these addresses.

        Everything that can be computed before the launch is computed here. With `persistent` the constants are absent from `tensors`.
        """


class PlanWithoutConstants(Plan):
    """A plan that packs nothing, so its launches need the same scratch whether prepared or not."""

    constants = ()
    persistent_size = 0

    @property
    def prepared_temporary_size(self) -> int:  # type: ignore[override]
        """Bytes of scratch of any launch."""
        return self.temporary_size

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        return lambda stream: None


class ArrayPlan(PlanWithoutConstants):
    """A plan in host memory, without scratch, that works on arrays in place."""

    temporary_size = 0

    @abstractmethod
    def bind_arrays(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Launch:
        """The work of one dispatch over these arrays, keyed by place, with the described sizes, types and strides."""
