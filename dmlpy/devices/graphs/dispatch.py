"""`GraphDispatch`: a graph with all its memory bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dmlpy.devices.dispatch import Rebindable, check_value_bounds
from dmlpy.devices.graphs.hazards import areas_of, shared_memory
from dmlpy.devices.graphs.launches import SCRATCH, GraphLaunches
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.enums import ExecutionFlags, FeatureLevel
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.graphs.ir import Source
    from dmlpy.devices.graphs.program import GraphProgram
    from dmlpy.devices.graphs.report import GraphReport
    from dmlpy.devices.memory.binding import BoundTensor, KnownLayouts
    from dmlpy.devices.plan import BindingProperties, Launch
    from dmlpy.devices.reporting.profile import ProfiledPart
    from dmlpy.graphs import Graph


class DispatchedGraph(Protocol):
    """The part of `CompiledGraph` that a dispatch uses."""

    graph: Graph
    device: Device
    feature_level: FeatureLevel | None
    flags: ExecutionFlags
    name: str
    _program: GraphProgram
    _layouts: dict[str, KnownLayouts]

    @property
    def prepared_inputs(self) -> tuple[str, ...]: ...

    @property
    def binding_properties(self) -> BindingProperties: ...

    def explain_plan(self) -> GraphReport: ...


@foreign_members
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
        areas = areas_of(scratch, persistent)
        program = graph._program
        memories = [memory for memory in (scratch, persistent, *constants.values()) if memory is not None]
        is_replayed = repeated and bool(program.steps or program.copies)
        bound = (*inputs, *outputs)
        super().__init__(graph.name, graph.device, bound, graph._layouts, areas, memories, producers, replayed=is_replayed)
        self.graph = graph
        self._scratch = scratch.pointer
        self._graph_launches = GraphLaunches(program, graph.device, graph.name, graph.graph.label, constants, persistent)
        self._value_bounds = self._graph_launches.bounded_values(self._addresses_by_name(self._bound))
        self._build_first_launch()

    def _addresses_by_name(self, bound: Mapping[str, BoundTensor]) -> dict[str, int]:
        return {SCRATCH: self._scratch} | {name: item.pointer for name, item in bound.items()}

    def _by_place(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        known = {name: value for name, value in tensors.items() if name in self._bound}
        return known, [self._not_bound(name) for name in tensors if name not in known]

    def _not_bound(self, name: str) -> Problem:
        if name in self.graph.prepared_inputs:
            return Problem("bind.packed", name, "given", "nothing: prepare has copied it")
        expected = f"one of {', '.join(self._bound)}"
        return Problem("bind.unknown", name, "not bound by this dispatch", expected, remedy=did_you_mean(name, self._bound))

    def _hazards(self, bound: Mapping[str, BoundTensor]) -> list[Problem]:
        items = bound.values()
        return shared_memory([item for item in items if not item.output], [item for item in items if item.output], self._areas)

    def _update_value_bounds(self, bound: Mapping[str, BoundTensor]) -> None:
        if self._value_bounds:
            self._value_bounds = self._graph_launches.bounded_values(self._addresses_by_name(bound))

    def _enqueue(self, stream: int) -> None:
        if self._value_bounds:
            check_value_bounds(self._name, self._value_bounds)
        if self._waits:
            self._wait(stream)
        (self._launch or self._rebuild_launch())(stream)

    def _build_launch(self) -> Launch:
        return self._graph_launches.at(self._addresses_by_name(self._bound))

    def launches(self) -> list[Launch] | None:
        """The launches of a call, in order, while the same memory is bound; None if it does more than launch."""
        if self._value_bounds or self._waits:
            return None
        return self._graph_launches.in_order(self._addresses_by_name(self._bound))

    def _profiled_parts(self) -> Sequence[ProfiledPart]:
        return self._graph_launches.parts(self._addresses_by_name(self._bound))

    def _repr_html_(self) -> str:
        from dmlpy.devices.reporting.notebook import bound_table

        return bound_table(repr(self), self._bound.values()).to_html()
