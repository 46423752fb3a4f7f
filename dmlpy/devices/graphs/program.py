"""`GraphProgram`: the steps of a compiled graph and the memory of its tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.graphs.ir import GraphIR, Source, node_name
from dmlpy.devices.graphs.memory_planner import Item, MemoryPlan, aligned, plan_memory
from dmlpy.devices.graphs.scheduler import Task, TaskGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.graphs.buffers import BufferAssignment
    from dmlpy.devices.operator import CompiledOperator

Location = tuple[Source, int]
"""The value whose memory it is, and the first byte there."""


class NodeStep(NamedTuple):
    """One node that runs.

    Attributes:
        node: its index.
        operator: the operator, compiled for the layouts of this graph.
        tensors: where each described tensor lies, by place; without the constants that are packed.
        constants: where each constant lies that is packed once for all dispatches, by place.
        packed: where the packed constants begin in the persistent memory; None if none are packed.
        temporary: bytes of scratch.
        cleared: values whose memory is filled with zeros before the node writes it, since readers read more than is written, with the bytes
            that are read.
    """

    node: int
    operator: CompiledOperator
    tensors: Mapping[str, Location]
    constants: Mapping[str, Location]
    packed: int | None
    temporary: int
    cleared: tuple[tuple[Source, int], ...]


class Copy(NamedTuple):
    """An output that no node can write: a constant, a value that is an output twice, or one whose gaps are read.

    Attributes:
        output: the name of the output of the graph.
        source: the value.
        desc: its layout, in both places.
        operator: copies elements; None for a tensor without gaps, whose bytes are copied.
    """

    output: str
    source: Source
    desc: TensorDesc
    operator: CompiledOperator | None


@dataclass(frozen=True)
class GraphProgram:
    """The steps of a graph and its memory.

    Attributes:
        ir: the graph with its activations fused.
        views: the nodes that need not run, since their outputs lie within their inputs, or the other way round.
        in_place: the nodes that write to the memory of an input.
        steps: the nodes that run, in order.
        copies: the outputs that are copied afterwards.
        direct: the output of the graph in whose memory a value lies, by value.
        plan: the block of memory that holds the values in between and the scratch.
        offsets: where each value begins in that block.
        scratch: where the scratch of each step begins in it, by step.
        owned: where the copies of owned inputs begin in the persistent memory.
        persistent_size: bytes of packed constants and of the copies.
    """

    ir: GraphIR
    views: tuple[int, ...]
    in_place: tuple[int, ...]
    steps: tuple[NodeStep, ...]
    copies: tuple[Copy, ...]
    direct: Mapping[Source, str]
    plan: MemoryPlan
    offsets: Mapping[Source, int]
    scratch: Mapping[int, int]
    owned: Mapping[Source, int]
    persistent_size: int
    alignment: int = field(default=1)
    """The alignment that both blocks of memory need for the guarantees of descs."""

    @property
    def operators(self) -> tuple[CompiledOperator, ...]:
        """All that runs."""
        copying = (copy.operator for copy in self.copies if copy.operator is not None)
        return (*(step.operator for step in self.steps), *copying)

    def prepare(self) -> None:
        """Loads the kernels, and finds what launches need: programs of other sizes that are copies of this one take it over."""
        for operator in self.operators:
            operator._plan.load()
        for step in self.steps:
            _ = step.operator._value_bounds
        _ = self.affected_steps, self.raw_constants, self.staged_constants, self.packing

    @cached_property
    def affected_steps(self) -> Mapping[str, tuple[int, ...]]:
        """The steps, and after them the copies, that use the memory of an input or output of the graph, by its name."""
        names = {source: name for name, (source, _) in self.ir.inputs.items()} | dict(self.direct)
        affected: dict[str, set[int]] = {}
        for at, step in enumerate(self.steps):
            for root, _ in step.tensors.values():
                if root in names:
                    affected.setdefault(names[root], set()).add(at)
        for at, copy in enumerate(self.copies, len(self.steps)):
            affected.setdefault(copy.output, set()).add(at)
            if copy.source in names:
                affected.setdefault(names[copy.source], set()).add(at)
        return {name: tuple(sorted(steps)) for name, steps in affected.items()}

    @cached_property
    def packing(self) -> Hashable:
        """A key of how owned inputs and constants are packed, whatever the constants hold; None if unknown."""
        packed = [step for step in self.steps if step.packed is not None]
        if any(step.operator._plan.packing is None for step in packed):
            return None
        plans = [(step.node, step.packed, type(step.operator._plan), step.operator._plan.packing) for step in packed]
        places = [(place, *location) for step in packed for place, location in step.constants.items()]
        owned = [(name, self.ir.inputs[name]) for name in self.ir.owned]
        return self.persistent_size, tuple(self.owned.items()), tuple(owned), tuple(plans), tuple(places)

    @cached_property
    def raw_constants(self) -> tuple[Source, ...]:
        """The constant nodes whose data some step reads as they are."""
        read = [root for step in self.steps for root, _ in step.tensors.values()] + [copy.source for copy in self.copies]
        return tuple(source for source in dict.fromkeys(read) if self.ir.constant(source) is not None)

    @cached_property
    def staged_constants(self) -> tuple[Source, ...]:
        """The constant nodes whose data are only packed."""
        packed = [root for step in self.steps for root, _ in step.constants.values()]
        raw = frozenset(self.raw_constants)
        return tuple(source for source in dict.fromkeys(packed) if self.ir.constant(source) is not None and source not in raw)


def program_of(
    buffers: BufferAssignment,
    operators: Mapping[int, CompiledOperator],
    compile_node: Callable[[OperatorDesc], CompiledOperator],
    like: GraphProgram | None = None,
) -> GraphProgram:
    """Plans the memory of a graph whose nodes are compiled as the layout has them.

    The nodes run in the order of the graph, or in another one that needs less memory; like those of a program of the same graph for other
    sizes, if there is one: both searches take longer than all else.
    """
    direct, copies = _outputs(buffers.ir, compile_node)
    if like is not None and operators.keys() == {step.node for step in like.steps}:
        return _in_order(buffers.in_order(tuple(step.node for step in like.steps)), operators, direct, copies, like.plan)
    given = _in_order(buffers.in_order(buffers.order), operators, direct, copies)
    order = _lighter_order(given, buffers) if given.plan.size and not _is_chain(given) else buffers.order
    if order == buffers.order:
        return given
    return min(given, _in_order(buffers.in_order(order), operators, direct, copies), key=lambda program: program.plan.size)


def _is_chain(program: GraphProgram) -> bool:
    """Whether each step reads what the one before writes, so that they have no other order."""
    reads, steps = program.ir.reads, program.steps
    return all(any(reads.get((after.node, place), (None, 0))[0] == step.node for place in after.tensors) for step, after in pairwise(steps))


def _lighter_order(given: GraphProgram, buffers: BufferAssignment) -> tuple[int, ...]:
    """An order of the nodes in which they need less memory at once, if one is found."""
    ir = given.ir
    sizes: dict[Hashable, int] = {}

    def in_block(sources: Iterable[Source]) -> list[Source]:
        """The memory of these values that lies in the block."""
        roots = [root for root in map(buffers.root, sources) if root in ir.tensors and root not in given.direct]
        sizes.update({root: aligned(max(1, buffers.extent(root))) for root in roots if root not in sizes})
        return roots

    reads = {step.node: [source for _, source in ir.reads_of(step.node)] for step in given.steps}
    writes = {step.node: buffers.outputs(step.node) for step in given.steps}
    blocks = {step.node: frozenset(in_block((*reads[step.node], *writes[step.node]))) for step in given.steps}
    in_place = [step.node for step in given.steps if type(ir.operators[step.node]).in_place]
    outside: set[Source] = set()
    """Values that may lie in the memory of the graph's outputs, since a node overwrites it with one, or with what another overwrites."""
    for node in reversed(in_place):
        if any(output in given.direct or output in outside for output in writes[node]):
            outside.update(map(buffers.root, reads[node]))
    shared = {node: outside.union(writes[node]) for node in in_place}
    alone = (
        sum(sizes[root] for root in blocks[step.node] - shared.get(step.node, outside)) + aligned(step.temporary) for step in given.steps
    )
    if max(alone, default=0) >= given.plan.size:  # no order needs less
        return buffers.order
    tasks, writers = {}, _writers(buffers)
    for step in given.steps:
        replaced = {output: in_block(buffers.replaceable(step.node, output)) for output in in_block(writes[step.node])}
        after = frozenset(node for source in reads[step.node] for node in writers.get(source[0], ()))
        overwritten: dict[Hashable, list[Source]] = {output: roots for output, roots in replaced.items() if roots}
        tasks[step.node] = Task(after, blocks[step.node], aligned(step.temporary), overwritten)
    return TaskGraph(tasks, sizes, in_block(copy.source for copy in given.copies)).order(buffers.order)


def _writers(buffers: BufferAssignment) -> dict[int | None, frozenset[int]]:
    """The nodes that have to run before the result of a node exists: the node itself, and for a view its sources."""
    writers: dict[int | None, frozenset[int]] = {}
    views = frozenset(buffers.views)
    for index in buffers.ir.order():
        if index in views:
            writers[index] = frozenset(node for _, source in buffers.ir.reads_of(index) for node in writers.get(source[0], ()))
        else:
            writers[index] = frozenset([index])
    return writers


def _in_order(
    buffers: BufferAssignment,
    operators: Mapping[int, CompiledOperator],
    direct: Mapping[Source, str],
    copies: tuple[Copy, ...],
    like: MemoryPlan | None = None,
) -> GraphProgram:
    """The program of nodes in the layout's order; `like` is as `plan_memory` has it."""
    ir = buffers.ir
    steps: list[NodeStep] = []
    persistent = 0
    for index in buffers.order:
        step = _step(buffers, index, operators[index], persistent)
        persistent += aligned(step.operator._plan.persistent_size) if step.packed is not None else 0
        steps.append(step)
    read = {root for step in steps for root, _ in step.tensors.values()} | {copy.source for copy in copies}
    owned: dict[Source, int] = {}
    for name in ir.owned:
        source, tensor = ir.inputs[name]
        if source in read:
            owned[source] = persistent
            persistent += aligned(tensor.size_in_bytes)
    plan, offsets, scratch = _memory(ir, buffers, steps, copies, direct, like)
    promised = [tensor.guaranteed_base_offset_alignment for step in steps for tensor in step.operator.desc.tensors().values()]
    alignment = max(promised, default=1) or 1
    views, in_place = tuple(buffers.views), tuple(buffers.in_place)
    return GraphProgram(ir, views, in_place, tuple(steps), copies, direct, plan, offsets, scratch, owned, persistent, alignment)


def _outputs(ir: GraphIR, compile_node: Callable[[OperatorDesc], CompiledOperator]) -> tuple[dict[Source, str], tuple[Copy, ...]]:
    """The outputs that nodes write, by value, and those that are copied."""
    direct: dict[Source, str] = {}
    copies: list[Copy] = []
    for name, source in ir.outputs.items():
        if source in direct or source not in ir.tensors or source in ir.uncovered:
            desc = ir.described(source)
            copies.append(Copy(name, source, desc, None if _without_gaps(desc) else compile_node(_copying(desc))))
        else:
            direct[source] = name
    return direct, tuple(copies)


def _without_gaps(desc: TensorDesc) -> bool:
    return desc.element_count == desc.span


def _copying(desc: TensorDesc) -> OperatorDesc:
    """The operator that copies the elements of a tensor, whatever their type."""
    from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc  # which few graphs need

    raw = TensorDesc(data_type=f"UINT{desc.data_type.bits}", sizes=desc.sizes, strides=desc.strides)
    return ElementWiseIdentityDesc(input_tensor=raw, output_tensor=raw)


def _step(buffers: BufferAssignment, index: int, operator: CompiledOperator, persistent: int) -> NodeStep:
    ir, desc = buffers.ir, buffers.ir.operators[index]
    inputs = {slot.place: buffers.read((index, slot.place))[:2] for slot in desc.input_slots() if slot.tensor is not None}
    outputs = {slot.place: (index, at) for at, slot in enumerate(desc.output_slots()) if slot.tensor is not None}
    plan = operator._plan.with_static_inputs({place for place, (root, _) in inputs.items() if root in ir.static})
    operator = operator if plan is operator._plan else replace(operator, _plan=plan)
    packs = bool(plan.constants) and all(inputs[place][0] in ir.static for place in plan.constants)
    constants = {place: inputs.pop(place) for place in plan.constants} if packs else {}
    return NodeStep(
        index,
        operator,
        {**inputs, **{place: buffers.written(source)[:2] for place, source in outputs.items()}},
        constants,
        persistent if packs else None,
        plan.prepared_temporary_size if packs else plan.temporary_size,
        tuple((source, buffers.extent(source)) for source in outputs.values() if source in ir.uncovered),
    )


def _memory(
    ir: GraphIR,
    buffers: BufferAssignment,
    steps: list[NodeStep],
    copies: tuple[Copy, ...],
    direct: Mapping[Source, str],
    like: MemoryPlan | None,
) -> tuple[MemoryPlan, dict[Source, int], dict[int, int]]:
    """The plan, and where each value and the scratch of each step begins."""
    used: dict[Source, list[int]] = {}
    for at, step in enumerate(steps):
        for root, _ in step.tensors.values():
            if root in ir.tensors and root not in direct:
                used.setdefault(root, []).append(at)
    for copy in copies:
        if copy.source in used:
            used[copy.source].append(len(steps))
    items = [Item(ir.value_label(root), max(1, buffers.extent(root)), min(used_by), max(used_by)) for root, used_by in used.items()]
    scratch = [at for at, step in enumerate(steps) if step.temporary]
    items += [Item(f"scratch of {node_name(ir.graph, steps[at].node)}", steps[at].temporary, at, at) for at in scratch]
    plan = plan_memory(items, like)
    values = dict(zip(used, plan.offsets, strict=False))
    return plan, values, dict(zip(scratch, plan.offsets[len(used) :], strict=True))
