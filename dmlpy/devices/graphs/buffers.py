"""`BufferAssignment`: which values of a graph share the memory of others, so that fewer are copied and fewer need memory."""

from __future__ import annotations

from collections import ChainMap
from copy import copy
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from dmlpy.description.enums import TensorFlags
from dmlpy.description.tensors import same_layout
from dmlpy.devices.graphs.views import Movement, moved_strides, movements
from dmlpy.devices.plan import with_tensors
from dmlpy.messages.problems import CompileError, DescError, DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.graphs.ir import GraphIR, Source, Use
    from dmlpy.devices.operator import CompiledOperator
    from dmlpy.devices.plan import Plan


class BufferView(NamedTuple):
    """The place of a value.

    Attributes:
        root: the value in whose memory it was put. That one may since have been put into another one's: see `BufferAssignment.root`.
        first: the element of that memory where it begins.
        strides: its strides there, in elements.
    """

    root: Source
    first: int
    strides: tuple[int, ...]


class BufferAssignment:
    """The places of all values of a graph. A value has its own memory until it is put into that of another one.

    Attributes:
        ir: the graph.
        views: the nodes that need not run, since their outputs lie within their inputs, or the other way round.
        in_place: the nodes that write to the memory of an input: none before `in_order`.
        order: the nodes that run, in order.

    Args:
        ir: the graph.
        compile_node: compiles a desc; a rejected desc is not used.
    """

    def __init__(self, ir: GraphIR, compile_node: Callable[[OperatorDesc], CompiledOperator]) -> None:
        self.ir = ir
        self.views: list[int] = []
        self.in_place: list[int] = []
        self.order = ir.order()
        self._compile = compile_node
        self._places: dict[Source, BufferView] = {}
        self._members: dict[Source, dict[Source, None]] = {}
        """The values that views put into the memory of another one, by that one."""
        self._replaced: dict[Source, Source] = {}
        """The values that were overwritten, each with the value that overwrote it last."""
        self._extents: dict[Source, int] = {}
        """The cache of `extent`; for a value written in place it includes all values that were in its memory before."""
        self._descs: dict[int, OperatorDesc] = {}
        """The cache of `desc`, once all places are found."""
        self._skipped: set[int] = set()
        """The same as `views`."""
        self._room = _rooms(ir)
        for index in self.order:
            self._try_view(index)
        del self._compile  # which belongs to the caller
        self.order = tuple(index for index in self.order if index not in self._skipped)

    def in_order(self, order: tuple[int, ...]) -> BufferAssignment:
        """The same views with the nodes in an order, and with in-place nodes where that order allows it."""
        ordered = copy(self)
        ordered.order, ordered.in_place = order, []
        ordered._places, ordered._replaced, ordered._extents = dict(self._places), {}, dict(self._extents)
        ordered._write_in_place()
        return ordered

    # where values lie

    def root(self, source: Source) -> Source:
        """The value whose memory holds a value."""
        place = self._places.get(source)
        return source if place is None else self._last(place.root)

    def _last(self, root: Source) -> Source:
        """The last value written to the memory of a value."""
        passed = []
        while (following := self._replaced.get(root)) is not None:
            passed.append(root)
            root = following
        for before in passed:  # path compression: else each node would traverse a chain of thousands
            self._replaced[before] = root
        return root

    def read(self, use: Use) -> tuple[Source, int, TensorDesc]:
        """How a node reads a value: the value with the memory, the first byte there, and the desc."""
        view = self._read(use, self._places)
        assert view is not None, "places are chosen so that all can read"
        return view

    def written(self, source: Source) -> tuple[Source, int, TensorDesc]:
        """How the value of a node is written, as `read`."""
        desc, place = self.ir.tensors[source], self._places.get(source)
        return (source, 0, desc) if place is None else (self._last(place.root), _byte(desc, place.first), _strided(desc, place.strides))

    def desc(self, index: int) -> OperatorDesc:
        """The desc of a node with the layouts in which it reads and writes."""
        if index not in self._descs:
            self._descs[index] = self._desc(index, self._places)
        return self._descs[index]

    def _read(self, use: Use, places: Mapping[Source, BufferView]) -> tuple[Source, int, TensorDesc] | None:
        source, tensor = self.ir.reads[use], self.ir.seen(use)
        place = places.get(source)
        if place is None:
            return source, 0, tensor
        written = self.ir.tensors[source]
        if tensor.data_type.bits != written.data_type.bits:
            return None
        moved = moved_strides(written, place.strides, tensor)
        if moved is None or _byte(tensor, place.first + moved[0]) % max(1, tensor.guaranteed_base_offset_alignment):
            return None
        return self._last(place.root), _byte(tensor, place.first + moved[0]), _strided(tensor, moved[1])

    def _desc(self, index: int, places: Mapping[Source, BufferView]) -> OperatorDesc:
        desc = self.ir.operators[index]
        changed: dict[str, TensorDesc] = {}
        for slot in desc.slots():
            if slot.tensor is None:
                continue
            if not slot.field.marker.output:
                read = self._read((index, slot.place), places)
                if read is None:
                    raise CompileError(desc.c_name, [])
                changed[slot.place] = read[2]
        for at, slot in enumerate(desc.output_slots()):
            if slot.tensor is not None and (place := places.get((index, at))) is not None:
                changed[slot.place] = _strided(slot.tensor, place.strides)
        tensors = desc.tensors()
        return with_tensors(desc, {name: tensor for name, tensor in changed.items() if tensor != tensors[name]})

    # views

    def _try_view(self, index: int) -> None:
        """Skips a node that only moves elements, if its readers or writers can use other strides."""
        parts = movements(self.ir.operators[index])
        if not parts:
            return
        tensors = self.ir.operators[index].tensors()
        values = {slot.place: (index, at) for at, slot in enumerate(self.ir.operators[index].output_slots())}
        outputs = [values[part.output] for part in parts]
        if all(_fits(tensors[part.output], tensors[part.input]) for part in parts) and not any(
            output in self.ir.given or output in self.ir.uncovered for output in outputs
        ):
            within = [self._within_input(index, part) for part in parts]
            if all(place is not None for place in within) and self._accept(
                index, {output: place for output, place in zip(outputs, within, strict=True) if place is not None}
            ):
                return
        whole = all(_fits(tensors[part.input], tensors[part.output]) for part in parts)
        if whole and len(set(outputs)) == 1 and outputs[0] not in self.ir.uncovered:
            self._try_within_output(index, parts, outputs[0])

    def _within_input(self, index: int, part: Movement) -> BufferView | None:
        """The place of an output within the memory of the input that it is taken from."""
        use = (index, part.input)
        root, byte, tensor = self.read(use)
        if self.ir.reads[use] in self.ir.uncovered:
            return None
        strides = tensor.element_strides
        first = _element(tensor, byte) + sum(start * stride for start, stride in zip(part.starts, strides, strict=True))
        return BufferView(root, first, tuple(step * stride for step, stride in zip(part.steps, strides, strict=True)))

    def _try_within_output(self, index: int, parts: Iterable[Movement], output: Source) -> None:
        """Lets the writers of a node's inputs write into the memory of its output."""
        root, byte, tensor = self.written(output)
        views: dict[Source, BufferView] = {}
        for part in parts:
            use = (index, part.input)
            source, seen = self.ir.reads[use], self.ir.seen(use)
            if not self._can_move(source) or source in views or seen.overlaps_itself() or _repeats(seen):
                return
            strides = tensor.element_strides
            first = _element(tensor, byte) + sum(start * stride for start, stride in zip(part.starts, strides, strict=True))
            begin = self._as_written(source, seen, first, strides)
            if begin is None:
                return
            views[source] = BufferView(root, *begin)
        moved = dict(views)
        for source, place in views.items():
            for member in self._members.get(source, ()):
                inner, outer, tensor = self._places[member], self.ir.tensors[source], self.ir.tensors[member]
                moved_to = moved_strides(outer, place.strides, (tensor.sizes, inner.strides), inner.first)
                if moved_to is None or tensor.data_type.bits != outer.data_type.bits:
                    return
                moved[member] = BufferView(root, place.first + moved_to[0], moved_to[1])
        self._accept(index, moved)

    def _can_move(self, source: Source) -> bool:
        """Whether a value can be written to other memory than its own."""
        return source in self.ir.tensors and source not in self._places and source not in self.ir.given and source not in self.ir.uncovered

    def _as_written(self, source: Source, seen: TensorDesc, first: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        """The first element and the strides of a value whose reader's elements get other strides; None if no strides express that."""
        written = self.ir.tensors[source]
        if written.element_count != seen.element_count or written.data_type.bits != seen.data_type.bits:
            return None
        moved = moved_strides(seen, strides, written)
        return None if moved is None else (first + moved[0], moved[1])

    def _accept(self, index: int, changed: Mapping[Source, BufferView]) -> bool:
        """Adopts new places and skips a node, if all nodes that read and write there compile for them, without a new detour.

        A copy takes less time than a fallback in place of a plan for packed tensors, and several nodes read the same copy.
        """
        places = ChainMap(dict(changed), self._places)
        for source, place in changed.items():
            tensor = self.ir.tensors[source]
            if _byte(tensor, place.first) % max(1, tensor.guaranteed_base_offset_alignment):
                return False
        affected_steps = {source[0] for source in changed} | {node for source in changed for node, _ in self.ir.readers.get(source, ())}
        try:
            for node in affected_steps:
                if node is not None and node != index and node not in self._skipped:
                    detour = _detour(self._compile(self._desc(node, places))._plan)
                    if detour and detour > _detour(self._compile(self._desc(node, self._places))._plan):
                        return False
        except (CompileError, DescError, DeviceError):
            return False
        for source, place in changed.items():
            if (old := self._places.get(source)) is not None:
                del self._members[old.root][source]
            self._members.setdefault(place.root, {})[source] = None
        self._places.update(changed)
        self.views.append(index)
        self._skipped.add(index)
        return True

    # in place

    def _write_in_place(self) -> None:
        """Lets nodes write to the memory of an input that is not read later, if both have the same layout."""
        steps = {index: step for step, index in enumerate(self.order)}
        last_read: dict[Source, int] = {}
        for (node, _), source in self.ir.reads.items():
            if node in steps:
                root = self.root(source)
                last_read[root] = max(last_read.get(root, 0), steps[node])
        for step, index in enumerate(self.order):
            for output in self.outputs(index):
                replaced = next((root for root in self.replaceable(index, output) if last_read[root] == step), None)
                if replaced is not None:
                    self._overwrite(replaced, output)
                    last_read[output] = max(last_read.get(output, 0), step)
                    self.in_place.append(index)

    def outputs(self, index: int) -> tuple[Source, ...]:
        """The values that a node writes."""
        slots = enumerate(self.ir.operators[index].output_slots())
        return tuple((index, at) for at, slot in slots if slot.tensor is not None)

    def replaceable(self, index: int, output: Source) -> Iterable[Source]:
        """Values in the graph's memory whose layout lets a node overwrite them with an output."""
        if output in self._places or output in self.ir.uncovered or not type(self.ir.operators[index]).in_place:
            return
        written = self.ir.tensors[output]
        read = {use: self.read(use) for use, _ in self.ir.reads_of(index)}
        for root, byte, tensor in read.values():
            alike = (tensor.sizes, tensor.data_type) == (written.sizes, written.data_type) and same_layout(written, tensor.element_strides)
            others = [seen for use, seen in read.items() if seen[0] == root and (seen[1] != byte or seen[2] != tensor)]
            if not alike or byte or others or root not in self.ir.tensors or root[0] == index:
                continue
            if not self._is_kept(root) and self.extent(root) <= self._room.get(output, inf) and self._can_overwrite(root, output):
                yield root

    def _can_overwrite(self, source: Source, output: Source) -> bool:
        """Whether all nodes that read a value can read it in the memory of another one: not as elements of another width."""
        places = ChainMap({source: self._in_memory_of(source, output)}, self._places)
        return all(self._read(use, places) is not None for use in self.ir.readers.get(source, ()) if use[0] not in self._skipped)

    def _in_memory_of(self, source: Source, output: Source) -> BufferView:
        """The place of a value at the first byte of the memory of another one, in the layout that it is written in."""
        return BufferView(output, 0, self.ir.tensors[source].element_strides)

    def _is_kept(self, root: Source) -> bool:
        """Whether some value in the memory of a value is needed after all nodes have read it. Overwritten values are not."""
        return any(member in self.ir.given or member in self.ir.uncovered for member in self._own(root))

    def _own(self, root: Source) -> tuple[Source, ...]:
        """A value and its views; without what it has overwritten."""
        return (root, *self._members.get(root, ()))

    def extent(self, root: Source) -> int:
        """The bytes of a value's memory that anything in it reaches, readers included."""
        if root not in self._extents:
            self._extents[root] = self._extent_of(self._own(root))
        return self._extents[root]

    def _extent_of(self, members: Iterable[Source]) -> int:
        """The bytes of the memory of values that they or their readers reach."""
        extent = 0
        for member in members:
            if member in self.ir.tensors:
                _, byte, tensor = self.written(member)
                extent = max(extent, byte + tensor.extent_in_bytes)
            for use in self.ir.readers.get(member, ()):
                if use[0] not in self._skipped:
                    _, byte, tensor = self.read(use)
                    extent = max(extent, byte + tensor.extent_in_bytes)
        return extent

    def _overwrite(self, source: Source, output: Source) -> None:
        """Moves all values in the memory of one value to that of another, at the same bytes."""
        self._extents[output] = max(self.extent(output), self.extent(source))
        self._places[source] = self._in_memory_of(source, output)
        self._replaced[source] = output


def _detour(plan: Plan) -> int:
    """How far a plan is from one that reads and writes tensors where they are by kernels of its own: 0 if it is one."""
    return 2 if plan.is_fallback else int(plan.copies_layouts)


def _rooms(ir: GraphIR) -> dict[Source, int]:
    """The bytes of the memory that the caller binds for a value; unlimited for values that are not outputs of the graph."""
    rooms: dict[Source, int] = {}
    for name, source in ir.outputs.items():
        rooms[source] = min(ir.bound_outputs[name].extent_in_bytes, rooms.get(source, ir.bound_outputs[name].extent_in_bytes))
    return rooms


def _byte(desc: TensorDesc, element: int) -> int:
    return element * desc.data_type.bits // 8


def _element(desc: TensorDesc, byte: int) -> int:
    return byte * 8 // desc.data_type.bits


def _fits(part: TensorDesc, whole: TensorDesc) -> bool:
    """Whether a tensor is in no dimension longer than another one."""
    return all(size <= other for size, other in zip(part.sizes, whole.sizes, strict=True))


def _repeats(desc: TensorDesc) -> bool:
    return bool(desc.broadcast_axes)


def _strided(desc: TensorDesc, strides: tuple[int, ...]) -> TensorDesc:
    """The desc with other strides; the same one if they are equivalent."""
    if same_layout(desc, strides):
        return desc
    return desc.replace(strides=strides, total_tensor_size_in_bytes=None, flags=TensorFlags.NONE)
