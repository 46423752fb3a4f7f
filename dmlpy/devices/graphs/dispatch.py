"""`GraphDispatch`: a graph with all its memory bound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from dmlpy.description.arrays import array_at
from dmlpy.devices.device import Memory, no_memory
from dmlpy.devices.dispatch import Rebindable, ValueBound, check_value_bounds
from dmlpy.devices.graphs.hazards import shared_memory
from dmlpy.devices.plan import Joined, Launch, in_order
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from dmlpy.description.enums import ExecutionFlags, FeatureLevel
    from dmlpy.devices.binding import BoundTensor, KnownLayouts
    from dmlpy.devices.device import Device
    from dmlpy.devices.graphs.ir import Source
    from dmlpy.devices.graphs.program import Copy, GraphProgram, NodeStep
    from dmlpy.devices.graphs.report import GraphReport
    from dmlpy.devices.plan import BindingProperties
    from dmlpy.graphs import Graph


class DispatchedGraph(Protocol):
    """The part of `CompiledGraph` that a dispatch uses."""

    graph: Graph
    device: Device
    feature_level: FeatureLevel
    flags: ExecutionFlags
    name: str
    _program: GraphProgram
    _layouts: dict[str, KnownLayouts]

    @property
    def prepared_inputs(self) -> tuple[str, ...]: ...

    @property
    def binding_properties(self) -> BindingProperties: ...

    def explain_plan(self) -> GraphReport: ...


class GraphDispatch(Rebindable):
    """A graph with all its memory: calling it launches every node. It owns its scratch: see `Dispatch`.

    On a GPU the whole graph is captured in one CUDA graph, and a call is one launch of it.

    Sequence lengths that a node computes are clamped to the range, as in a GPU's memory: by then other nodes have written. After
    an error the nodes before it have run, except after `BindError`: then none has.

    Args:
        graph: the graph.
        inputs: its inputs, without owned ones.
        outputs: all its outputs.
        constants: the data of its constant nodes that are read as they are.
        scratch: the block of memory of the plan.
        persistent: owned inputs and packed constants; None if there are none.
        producers: as for `Rebindable`.
        repeated: whether the launches are put into the form that is cheapest to repeat.
    """

    def __init__(
        self,
        graph: DispatchedGraph,
        inputs: Sequence[BoundTensor],
        outputs: Sequence[BoundTensor],
        constants: Mapping[Source, Memory],
        scratch: Memory,
        persistent: Memory | None,
        producers: Sequence[int],
        *,
        repeated: bool,
    ) -> None:
        areas = {"temporary": scratch.area} | ({} if persistent is None else {"persistent": persistent.area})
        program = graph._program
        memories = [memory for memory in (scratch, persistent, *constants.values()) if memory is not None]
        is_replayed = repeated and bool(program.steps or program.copies)
        bound = (*inputs, *outputs)
        super().__init__(graph.name, graph.device, bound, graph._layouts, areas, memories, producers, replayed=is_replayed)
        self.graph = graph
        self._program = program
        self._packed = 0 if persistent is None else persistent.pointer
        self._scratch = scratch.pointer
        self._fixed = {source: scratch.pointer + offset for source, offset in program.offsets.items()}
        self._fixed |= {source: memory.pointer for source, memory in constants.items()}
        self._fixed |= {source: self._packed + offset for source, offset in program.owned.items()}
        self._launches: Joined | None = None
        self._launched_at: dict[str, int] = {}
        """The addresses of the tensors that these launches are for, by name."""
        self._value_bounds = self._bounded_values(self._bases(self._bound))
        self._build_first_launch()

    def _by_place(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        known = {name: value for name, value in tensors.items() if name in self._bound}
        return known, [self._not_bound(name) for name in tensors if name not in known]

    def _not_bound(self, name: str) -> Problem:
        if name in self.graph.prepared_inputs:
            return Problem("bind.packed", name, "given", "nothing: prepare has taken it")
        expected = f"one of {', '.join(self._bound)}"
        return Problem("bind.unknown", name, "not bound by this dispatch", expected, remedy=did_you_mean(name, self._bound))

    def _hazards(self, bound: Mapping[str, BoundTensor]) -> list[Problem]:
        items = bound.values()
        return shared_memory([item for item in items if not item.output], [item for item in items if item.output], self._areas)

    def _update_value_bounds(self, bound: Mapping[str, BoundTensor]) -> None:
        if self._value_bounds:
            self._value_bounds = self._bounded_values(self._bases(bound))

    def _enqueue(self, stream: int) -> None:
        if self._value_bounds:
            check_value_bounds(self._name, self._value_bounds)
        if self._waits:
            self._wait(stream)
        (self._launch or self._rebuild_launch())(stream)

    def _build_launch(self) -> Launch:
        """All the work in one launch; launches of steps whose memory has not changed are reused."""
        program, bound, launches = self._program, self._bound, self._launches
        bases = self._bases(bound)
        self._launches = None  # after an interrupt all are recreated
        if launches is None:
            everything = range(len(program.steps) + len(program.copies))
            launches = self._device.joined([self._part_launch(at, bases, bound) for at in everything])
        else:
            changed = (name for name, item in bound.items() if self._launched_at[name] != item.pointer)
            affected_steps = {at for name in changed for at in program.affected_steps.get(name, ())}
            launches = launches.changed({at: self._part_launch(at, bases, bound) for at in affected_steps})
        self._launched_at = {name: item.pointer for name, item in bound.items()}
        self._launches = launches
        return self._whole(launches)

    def _part_launch(self, at: int, bases: Mapping[Source, int], bound: Mapping[str, BoundTensor]) -> Launch:
        """The launch of a step, or of a copy after them."""
        steps, copies = self._program.steps, self._program.copies
        if at < len(steps):
            return self._step_launch(at, steps[at], bases)
        return self._copy_launch(copies[at - len(steps)], bases, bound)

    def _whole(self, launches: Joined) -> Launch:
        """One launch of all. It does not refer to this object: in a reference cycle the scratch would wait for the garbage collector."""
        program, whole_name, parts = self._program, self._name, launches.parts

        def launch(stream: int) -> None:
            done = 0
            try:
                for part, count in parts:
                    part(stream)
                    done += count
            except MemoryError as error:
                name = program.steps[done].operator.name if done < len(program.steps) else whole_name
                raise no_memory(name, error) from None

        return launch

    def _bases(self, bound: Mapping[str, BoundTensor]) -> dict[Source, int]:
        """The address of each value that has its own memory."""
        program = self._program
        bases = dict(self._fixed)
        for name, (source, _) in program.ir.inputs.items():
            if name in bound:
                bases[source] = bound[name].pointer
        for source, name in program.direct.items():
            bases[source] = bound[name].pointer
        return bases

    def _step_launch(self, at: int, step: NodeStep, bases: Mapping[Source, int]) -> Launch:
        pointers = {place: bases[root] + byte for place, (root, byte) in step.tensors.items()}
        scratch = self._scratch + self._program.scratch.get(at, 0)
        launch = step.operator._plan.bind(pointers, scratch, None if step.packed is None else self._packed + step.packed)
        if step.cleared:
            clears = [self._clear(bases[source], self._program.buffers.extent(source)) for source in step.cleared]
            launch = in_order([*clears, launch])
        return self._device.part(launch, lambda: self.graph.graph.label(step.node))

    def _clear(self, pointer: int, size: int) -> Launch:
        clear = self._device.clear
        return lambda stream: clear(pointer, size, stream)

    def _copy_launch(self, copy: Copy, bases: Mapping[Source, int], bound: Mapping[str, BoundTensor]) -> Launch:
        source, target, size, device = bases[copy.source], bound[copy.output].pointer, copy.desc.extent_in_bytes, self._device
        if copy.operator is None:
            return lambda stream: device.copy(target, source, size, stream)
        return copy.operator._plan.bind({"input_tensor": source, "output_tensor": target}, 0, None)

    def _bounded_values(self, bases: Mapping[Source, int]) -> list[tuple[ValueBound, np.ndarray[Any, Any]]]:
        """The bounds of values that exist before the graph runs, by their names in the graph, with the values."""
        ir = self._program.ir
        if self._device.memory_kind != "cpu":
            return []
        found: list[tuple[ValueBound, np.ndarray[Any, Any]]] = []
        for step in self._program.steps:
            for value_bound in step.operator._value_bounds:
                source = ir.reads[step.node, value_bound.name]
                if source[0] is None or ir.constant(source) is not None:
                    root, byte = step.tensors[value_bound.name]
                    held = step.operator.desc.tensors()[value_bound.name].memory
                    values = array_at(bases[root] + byte, held.sizes, held.data_type.numpy, held.element_strides)
                    name = ir.value_label(source) if source[0] is None else self.graph.graph.label(source[0])
                    found.append((replace(value_bound, name=name), values))
        return found

    def _repr_html_(self) -> str:
        from dmlpy.devices.notebook import bound_table

        return bound_table(repr(self), self._bound.values()).to_html()
