"""Plans on copies of tensors, in a type or a layout that kernels read and write."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.tensors import TensorDesc, same_layout
from dmlpy.devices.cpu.movement.plan import COPIES, Copy, CopyPlan, Elements
from dmlpy.devices.cpu.structs import ALIGNMENT
from dmlpy.devices.plan import Layout, Plan, in_order, with_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cpu.jit import Kernel
    from dmlpy.devices.plan import Launch, Pointers

_MOST_OF_OUTPUTS = 4
"""The most elements of a copy for each element of the outputs, where the plan reads only some of them."""


_FEWEST_ROWS = 64
"""Short rows that are worth copies."""
_MOST_BYTES = 1 << 22
"""Bytes of short rows whose copies stay in a cache."""


class TensorCopiesPlan(Plan):
    """A plan that reads copies of inputs and writes copies of outputs, from which other plans then write the outputs.

    Args:
        inner: the plan.
        desc: the checked desc of the tensors that are copied.
        copied: the tensors that are copied, by place, as the plan reads and writes them.
        copy: gives the plan that copies a tensor from `source` to `target`, of both.
        write: gives the plan that writes an output from its copy, likewise; None if that is a copy, too.
    """

    def __init__(
        self,
        inner: Plan,
        desc: OperatorDesc,
        copied: Mapping[str, TensorDesc],
        copy: Callable[[TensorDesc, TensorDesc], Plan],
        write: Callable[[TensorDesc, TensorDesc], Plan] | None = None,
    ) -> None:
        self._inner, tensors = inner, desc.tensors()
        self.constants, self.persistent_size = inner.constants, inner.persistent_size
        outputs = {slot.place for slot in desc.output_slots()}
        self._inputs = {place: copy(tensors[place], described) for place, described in copied.items() if place not in outputs}
        self._outputs = {place: (write or copy)(described, tensors[place]) for place, described in copied.items() if place in outputs}
        order = sorted(copied, key=lambda place: place in self.constants)  # the constants are not there in prepared launches
        sizes = [(place, (copied[place].span,), copied[place].data_type.numpy) for place in order]
        prepared = Layout([each for each in sizes if each[0] not in self.constants], ALIGNMENT)
        self._own, self._prepared_own_size = Layout(sizes, ALIGNMENT), prepared.size
        scratch = max((plan.temporary_size for plan in self._outputs.values()), default=0)
        self.prepared_temporary_size = prepared.size + max(inner.prepared_temporary_size, scratch)
        self.temporary_size = self._own.size + max(inner.temporary_size, scratch)

    def load(self) -> None:
        for plan in (self._inner, *self._inputs.values(), *self._outputs.values()):
            plan.load()

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        shapes = {place: self._own.arrays[place] for place in self.constants if place in self._inputs}
        memory = {place: np.empty(sizes, dtype) for place, (_, sizes, dtype) in shapes.items()}
        work = [self._copy_input(place, constants[place], array.ctypes.data) for place, array in memory.items()]
        copied = {place: array.ctypes.data for place, array in memory.items()}
        packed = in_order([*work, self._inner.pack({**constants, **copied}, persistent)])

        def launch(stream: int) -> None:
            _ = memory  # the packing reads it
            packed(stream)

        return launch

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        copies = self._own.pointers(temporary)
        if persistent is not None:
            copies = {place: address for place, address in copies.items() if place not in self.constants}
        scratch = temporary + (self._own.size if persistent is None else self._prepared_own_size)
        work = [self._copy_input(place, tensors[place], address) for place, address in copies.items() if place in self._inputs]
        work.append(self._inner.bind({**tensors, **copies}, scratch, persistent))
        work += [plan.bind({"source": copies[place], "target": tensors[place]}, scratch, None) for place, plan in self._outputs.items()]
        return in_order(work)

    def _copy_input(self, place: str, source: int, target: int) -> Launch:
        return self._inputs[place].bind({"source": source, "target": target}, 0, None)


class LayoutCopiesPlan(TensorCopiesPlan):
    """A plan on copies of tensors in another layout.

    Args:
        inner: the plan.
        desc: a checked desc, of whose tensors some have another layout in that of the plan.
        copied: these tensors as the plan reads and writes them, by place.
    """

    copies_layouts = True

    def __init__(self, inner: Plan, desc: OperatorDesc, copied: Mapping[str, TensorDesc]) -> None:
        super().__init__(inner, desc, copied, copy_of)

    def describe(self) -> str:
        return f"{self._inner.describe()}\ncopied to another layout: {', '.join([*self._inputs, *self._outputs])}"


def copy_of(source: TensorDesc, target: TensorDesc, kernel: Kernel = COPIES) -> CopyPlan:
    """The copy of a tensor's elements, each of which is written once where the target repeats it."""
    index = tuple(slice(0, 1) if step == 0 else slice(None) for step in target.element_strides)
    return CopyPlan([Copy(Elements.of("target", target)[index], Elements.of("source", source)[index])], kernel)


def layout_copies_plan(
    desc: OperatorDesc,
    make: Callable[[Any], Plan | str],
    places: Collection[str],
    innermost: Callable[[Any], Collection[int]] | None,
    reads_all: bool,
) -> LayoutCopiesPlan | None:
    """The plan of a checked desc by that of another layout, with copies of as few tensors as possible, or None.

    Args:
        desc: a desc that has no plan.
        make: gives the plan of a desc, or the reason why there is none.
        places: the places of the tensors that may be copied; empty for all.
        innermost: gives the dimensions of a desc whose elements kernels read side by side, if packed tensors do not always suffice.
        reads_all: whether it reads all elements of its inputs.
    """
    tensors = desc.tensors()
    if any(tensor.data_type.bits % 8 for tensor in tensors.values()):
        return None
    outputs = {slot.place for slot in desc.output_slots()}
    count = sum(tensors[place].element_count for place in outputs if place in tensors)
    tried = set[tuple[str, ...]]()
    for layout in _layouts(() if innermost is None else innermost(desc)):
        other = {place: layout(tensor) for place, tensor in tensors.items() if not places or place in places}
        differing = {place: copy for place, copy in other.items() if not same_layout(tensors[place], copy.element_strides)}
        if not reads_all and any(copy.element_count > _MOST_OF_OUTPUTS * count for copy in differing.values()):
            return None
        for copied in ({place: copy for place, copy in differing.items() if place not in outputs}, differing):
            key = tuple(f"{place} {copy.element_strides}" for place, copy in copied.items())
            if not copied or key in tried:
                continue
            tried.add(key)
            inner = make(with_tensors(desc, copied))
            if not isinstance(inner, str):
                return LayoutCopiesPlan(inner, desc, copied)
    return None


def columns_plan(desc: OperatorDesc, make: Callable[[Any], Plan | str], axes: Collection[int], most: int) -> LayoutCopiesPlan | None:
    """The plan of a checked desc whose groups are short rows, on copies in which vectors run across groups, or None.

    Args:
        desc: the desc.
        make: gives the plan of a desc, or the reason why there is none.
        axes: the dimensions of a group.
        most: the most entries of a row.
    """
    tensors = desc.tensors()
    source = tensors["input_tensor"]
    entries = prod([source.sizes[axis] for axis in axes])
    size = source.element_count * source.data_type.numpy.itemsize
    if not 1 < entries <= most or source.element_count < entries * _FEWEST_ROWS or size > _MOST_BYTES:
        return None
    if not any(source.element_strides[axis] == 1 and source.sizes[axis] > 1 for axis in axes):
        return None
    groups = [axis for axis in range(source.dimension_count) if axis not in axes]
    other = {place: dense(tensor, groups) for place, tensor in tensors.items()}
    copied = {place: copy for place, copy in other.items() if not same_layout(tensors[place], copy.element_strides)}
    inner = make(with_tensors(desc, copied))
    return None if isinstance(inner, str) or not copied else LayoutCopiesPlan(inner, desc, copied)


def _layouts(innermost: Collection[int]) -> Iterator[Callable[[TensorDesc], TensorDesc]]:
    """Layouts to which tensors are copied: packed, or with some dimensions innermost; first such that what is repeated stays so."""
    for repeats in (True, False):
        yield partial(dense, repeats=repeats)
        if innermost:
            yield partial(dense, innermost=innermost, repeats=repeats)


def dense(tensor: TensorDesc, innermost: Collection[int] = (), *, repeats: bool = True) -> TensorDesc:
    """The tensor without gaps.

    Args:
        tensor: the tensor.
        innermost: the dimensions that follow all others in memory; in both parts the last one is contiguous.
        repeats: whether elements that are repeated along a dimension stay so.
    """
    axes = sorted(range(tensor.dimension_count), key=lambda axis: (axis in innermost, axis))
    strides, step = [0] * tensor.dimension_count, 1
    for axis in reversed(axes):
        if not (repeats and tensor.element_strides[axis] == 0):
            strides[axis], step = step, step * tensor.sizes[axis]
    return TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes, strides=strides)
