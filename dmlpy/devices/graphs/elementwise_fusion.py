"""Fuses element-wise nodes whose results are not read elsewhere into one operator, if the device runs such groups as one kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from dmlpy.description.stored_floats import stored
from dmlpy.description.tensors import packed_strides, same_layout
from dmlpy.devices.graphs.elementwise_group_desc import ElementwiseGroupDesc, GroupedOperator
from dmlpy.devices.graphs.ir import NodeGroup
from dmlpy.devices.graphs.views import moved_strides, movements, with_ones
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.movement.copy import CastDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.graphs.ir import GraphIR, Source, Use

MAX_INPUTS = 12
"""Tensors that a group reads from memory, at most: each takes registers, and room among a kernel's parameters."""
MAX_GROUPED = 32
"""Nodes of a group, at most."""
_EQUALS, _NOT = "ELEMENT_WISE_LOGICAL_EQUALS", "ELEMENT_WISE_LOGICAL_NOT"
_LONG = 16
"""Elements along an axis from which contiguity matters."""


def fuse_elementwise(
    ir: GraphIR, is_element_wise: Callable[[OperatorDesc], bool], compile_node: Callable[[OperatorDesc], object]
) -> GraphIR:
    """The IR with groups of element-wise nodes as one node each, in place of the last of them.

    A node joins the readers of its result if it has no others, and if each of them reads each element once, in any order. So
    nothing is computed twice, except for values without inputs.

    Args:
        ir: a graph's.
        is_element_wise: whether the device can make a desc part of a group.
        compile_node: compiles a desc. A group that it rejects is not fused; one without conversions, which may have fewer types, may be.
    """
    free = {index for index, desc in ir.operators.items() if is_element_wise(desc) and _is_plain(desc)}
    conversions = {index for index in free if isinstance(ir.operators[index], CastDesc)}
    groups: list[NodeGroup] = []
    # Each is checked against the original IR: only the last node's result leaves a group, and its place does not change.
    for last in reversed(ir.order()):
        if last not in free or movements(ir.operators[last]):
            continue  # a copy after all others may be a view
        group = _largest(ir, last, free, conversions, compile_node)
        if group is not None:
            free.difference_update(group.nodes)
            groups.append(group)
    grouped = {node for group in groups for node in group.nodes}
    groups += (group for node in ir.order() if node not in grouped and (group := _inequality(ir, node, compile_node)) is not None)
    return ir.with_groups(groups, {node for group in groups for node in group.nodes}) if groups else ir


def _largest(
    ir: GraphIR, last: int, free: set[int], conversions: set[int], compile_node: Callable[[OperatorDesc], object]
) -> NodeGroup | None:
    """The largest group that ends with a node, with conversions before it or without; None if there is none."""
    for able in (free, free - conversions):
        builder = _GroupBuilder(ir, last)
        builder.grow(able)
        if len(builder.members) == 1:
            return None
        group = builder.group()
        try:
            compile_node(group.whole)
        except (CompileError, DescError, DeviceError):
            if conversions.isdisjoint(builder.members.keys() - {last}):
                return None
            continue
        return group
    return None


def _inequality(ir: GraphIR, last: int, compile_node: Callable[[OperatorDesc], object]) -> NodeGroup | None:
    """The group of an inverted LOGICAL_EQUALS, which devices may have although truth values are in none of their groups."""
    if ir.operators[last].short_name() != _NOT or not _is_plain(ir.operators[last]):
        return None
    equal = {node for _, (node, _) in ir.reads_of(last) if node is not None and ir.operators[node].short_name() == _EQUALS}
    return _largest(ir, last, {node for node in equal if _is_plain(ir.operators[node])}, set(), compile_node)


def _is_plain(desc: OperatorDesc) -> bool:
    """Whether all tensors have the sizes of the only output."""
    outputs = [slot.tensor for slot in desc.output_slots()]
    return len(outputs) == 1 and all(outputs[0] is not None and tensor.sizes == outputs[0].sizes for tensor in desc.tensors().values())


@dataclass
class _GroupBuilder:
    """Nodes that become one.

    Attributes:
        ir: of the graph before.
        last: the node whose result leaves the group.
        members: the nodes, each with one of its readers; `last` with None.
    """

    ir: GraphIR
    last: int
    members: dict[int, Use | None] = field(default_factory=dict)
    _inputs: dict[Use, tuple[Source, tuple[int, ...]]] = field(default_factory=dict)
    """The values read from memory, by use, with their strides in the order of the result."""
    _straight: set[int] = field(default_factory=set)
    """The members whose results have the sizes and the order of the group's result."""

    def grow(self, able: set[int]) -> None:
        """Adds all nodes that the group may have, those next to the last one first."""
        self.members[self.last] = None
        reads = self._read_by(self.last)
        assert reads is not None, "the last node's inputs have the result's order"
        self._inputs = reads
        self._straight.add(self.last)
        queue = [self.last]
        while queue:
            for _, source in self.ir.reads_of(queue.pop(0)):
                if source[0] in able and source[0] not in self.members and self._takes(source):
                    assert source[0] is not None
                    queue.append(source[0])

    def _takes(self, source: Source) -> bool:
        """Adds the node that computes a value, if the group may have it."""
        ir, node = self.ir, source[0]
        assert node is not None
        readers = ir.readers[source]
        outside = any(reader not in self.members for reader, _ in readers)
        if outside or source in ir.given or source in ir.uncovered or not self._is_whole(source, readers):
            return False
        self.members[node] = readers[0]
        reads = self._read_by(node)
        if reads is not None and len(self.members) <= MAX_GROUPED:
            inputs = {use: read for use, read in self._inputs.items() if read[0] != source} | reads
            if self._is_well_read(inputs):
                self._inputs = inputs
                if readers[0][0] in self._straight and self._is_same_layout(source, readers[0]):
                    self._straight.add(node)
                return True
        del self.members[node]
        return False

    def _is_whole(self, source: Source, readers: tuple[Use, ...]) -> bool:
        """Whether all readers map the elements of a value to the same elements of the group's result, one to one."""
        written = self.ir.tensors[source]
        if any(self.ir.seen(use).data_type.bits != written.data_type.bits for use in readers):
            return False
        assert source[0] is not None, "it is not an input of the graph"
        if not self.ir.reads_of(source[0]):
            return True  # without inputs: it is the same everywhere
        first, *others = (self._in_result(source, packed_strides(written.sizes), use) for use in readers)
        return first is not None and all(other == first for other in others)

    def _in_result(self, source: Source, strides: tuple[int, ...], use: Use) -> tuple[int, ...] | None:
        """Converts strides in the order of a value, which a member reads, to the order of the group's result."""
        written, seen = self.ir.tensors[source], self.ir.seen(use)
        if self._is_same_layout(source, use):
            return self._from(use[0], with_ones(written.sizes, strides))
        repeats = any(size > 1 and not stride for size, stride in zip(seen.sizes, seen.element_strides, strict=True))
        if seen.element_count != written.element_count or repeats:
            return None
        moved = moved_strides(written, strides, seen)
        if moved is None or moved[0]:
            return None
        return self._from(use[0], moved[1])

    def _is_same_layout(self, source: Source, use: Use) -> bool:
        """Whether a value is read as it is written."""
        written, seen = self.ir.tensors[source], self.ir.seen(use)
        return written.sizes == seen.sizes and same_layout(written, seen.element_strides)

    def _from(self, node: int, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        """The strides of a member's input in the order of the group's result."""
        use = self.members[node]
        if use is None:
            return strides
        if node in self._straight:
            return with_ones(self._result.sizes, strides)
        return self._in_result(self.ir.reads[use], strides, use)

    def _is_well_read(self, inputs: Mapping[Use, tuple[Source, tuple[int, ...]]]) -> bool:
        """Whether the group reads no more tensors than allowed, and at most one that is transposed against the result."""
        if len(inputs) > MAX_INPUTS:
            distinct: list[tuple[Source, tuple[int, ...]]] = []  # symbolic sizes have no hash
            for read in inputs.values():
                if read not in distinct:
                    distinct.append(read)
            if len(distinct) > MAX_INPUTS:
                return False
        return len({source for source, strides in inputs.values() if any(strides[axis] > 1 for axis in self._fastest)}) <= 1

    @cached_property
    def _fastest(self) -> tuple[int, ...]:
        """The contiguous axes of the result that are long enough for contiguity to matter."""
        steps = zip(self._result.sizes, self._result.element_strides, strict=True)
        return tuple(axis for axis, (size, stride) in enumerate(steps) if size >= _LONG and stride == 1)

    @property
    def _result(self) -> TensorDesc:
        return self.ir.tensors[self.last, 0]

    def _read_by(self, node: int) -> dict[Use, tuple[Source, tuple[int, ...]]] | None:
        """The inputs of a member, by use, with their strides in the order of the result; None if no strides express it."""
        reads: dict[Use, tuple[Source, tuple[int, ...]]] = {}
        for use, source in self.ir.reads_of(node):
            strides = self._from(node, self.ir.seen(use).element_strides)
            if strides is None:
                return None
            reads[use] = source, strides
        return reads

    def group(self) -> NodeGroup:
        """All members as one operator."""
        nodes = self._nodes()
        sizes = self._result.sizes
        inputs: list[tuple[Source, TensorDesc]] = []  # no set, as above
        numbers: dict[Use | int, int] = {}
        for node in self.members:
            for use, _ in self.ir.reads_of(node):
                if use in self._inputs:
                    source, strides = self._inputs[use]
                    given = None if strides == packed_strides(sizes) else strides
                    seen = self.ir.seen(use).replace(sizes=sizes, strides=given, total_tensor_size_in_bytes=None)
                    if (source, seen) not in inputs:
                        inputs.append((source, seen))
                    numbers[use] = inputs.index((source, seen))
        operators = []
        for at, node in enumerate(nodes):
            reads = []
            for use, source in self.ir.reads_of(node):
                inner = source[0]
                reads.append((use[1], numbers[use if inner is None or use in numbers else inner]))
            numbers[node] = len(inputs) + at
            operators.append(GroupedOperator(stored(self.ir.operators[node]), tuple(reads)))
        tensors = [tensor for _, tensor in inputs]
        whole = ElementwiseGroupDesc(input_tensors=tensors, output_tensor=self._result, nodes=tuple(operators))
        return NodeGroup(nodes, whole, {f"input_tensors[{number}]": source for number, (source, _) in enumerate(inputs)})

    def _nodes(self) -> tuple[int, ...]:
        """The members in the order in which they run; the last one comes last."""
        return tuple(sorted(self.members, key=self.ir.step))
