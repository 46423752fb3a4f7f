"""`CompiledGraph`: a checked graph whose nodes run one after the other on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dmlpy.arrays import Buffer
from dmlpy.description.naming import did_you_mean
from dmlpy.description.outputs import Outputs
from dmlpy.description.tensors import TensorDesc, covers
from dmlpy.devices import binding
from dmlpy.devices.binding import KnownLayouts
from dmlpy.devices.device import Device, Memory, no_memory
from dmlpy.devices.dispatch import BoundWork, Dispatch, Limits, check_limits
from dmlpy.graphs import ConstantNode, Graph, OperatorNode
from dmlpy.validation.problems import BindError, Problem
from dmlpy.validation.tensor_arguments import in_order, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.enums import ExecutionFlags, FeatureLevel
    from dmlpy.devices.binding import Bound
    from dmlpy.devices.operator import CompiledOperator
    from dmlpy.devices.report import PlanReport

Source = tuple[int | None, int]
"""The source of a value: a node and the index of its output, or None and the index of a graph input."""


@dataclass(frozen=True)
class Wiring:
    """A valid graph as the code that runs it sees it.

    Attributes:
        order: the operator nodes, each after those that it reads.
        operators: their descs.
        sources: the source of each input slot of a node, by node and slot.
        inputs: how each input of the graph is bound, by name: as the graph declares it, else as it is read; of several ways the one that
            reaches farthest, the first of equals. Unread inputs are left out.
        outputs: the source and the desc of each output of the graph, by name: as the graph declares it, else as it is written.
        tensors: the desc by which each output of a node is written.
        uncovered: the outputs of nodes of which some node reads more than is written, gaps between strided elements or bytes behind the
            last one; of these nodes the one that reaches farthest, and how it reads.
    """

    order: tuple[int, ...]
    operators: Mapping[int, OperatorDesc]
    sources: Mapping[tuple[int, int], Source]
    inputs: Mapping[str, tuple[Source, TensorDesc]]
    outputs: Mapping[str, tuple[Source, TensorDesc]]
    tensors: Mapping[Source, TensorDesc]
    uncovered: Mapping[Source, tuple[int, TensorDesc]]

    @classmethod
    def of(cls, graph: Graph) -> Wiring:
        """The wiring of a graph without problems."""
        sources: dict[tuple[int, int], Source] = {}
        for edge in graph.input_edges:
            sources[edge.to_node_index, edge.to_node_input_index] = (None, edge.graph_input_index)
        for link in graph.intermediate_edges:
            sources[link.to_node_index, link.to_node_input_index] = (link.from_node_index, link.from_node_output_index)
        tensors: dict[Source, TensorDesc] = {}
        readers: dict[Source, list[TensorDesc]] = {}
        uncovered: dict[Source, tuple[int, TensorDesc]] = {}
        for index, node in enumerate(graph.nodes):
            for place, slot in enumerate(node.output_slots()):
                if slot.tensor is not None:
                    tensors[index, place] = slot.tensor
        slots = [node.input_slots() for node in graph.nodes]
        for (reader, place), source in sources.items():
            if (seen := slots[reader][place].tensor) is None:
                continue
            readers.setdefault(source, []).append(seen)
            if source in tensors and not covers(tensors[source], seen):
                uncovered[source] = max(uncovered.get(source, (reader, seen)), (reader, seen), key=lambda item: item[1].reached_bytes)
        inputs: dict[str, tuple[Source, TensorDesc]] = {}
        for index in range(graph.input_count):
            source = (None, index)
            if source in readers:
                name = graph.input_names[index] if graph.input_names else f"input_{index}"
                read = max(readers[source], key=lambda tensor: tensor.reached_bytes)
                inputs[name] = (source, graph.input_tensors[index] if graph.input_tensors else read)
        outputs: dict[str, tuple[Source, TensorDesc]] = {}
        for end in sorted(graph.output_edges, key=lambda edge: edge.graph_output_index):
            source = (end.from_node_index, end.from_node_output_index)
            name = graph.output_names[end.graph_output_index] if graph.output_names else f"output_{end.graph_output_index}"
            # A constant's layout comes from the nodes that read it; without readers it is plain bytes.
            node = graph.nodes[end.from_node_index]
            plain = [TensorDesc(data_type="UINT8", sizes=[node.data_size])] if isinstance(node, ConstantNode) else []
            declared = graph.output_tensors[end.graph_output_index] if graph.output_tensors else None
            outputs[name] = (source, declared or tensors.get(source) or (readers.get(source) or plain)[0])
        operators = {index: node.operator for index, node in enumerate(graph.nodes) if isinstance(node, OperatorNode)}
        return cls(_order(operators, sources), operators, sources, inputs, outputs, tensors, uncovered)


def _order(operators: Iterable[int], sources: Mapping[tuple[int, int], Source]) -> tuple[int, ...]:
    """The operator nodes in a fixed order in which they can run."""
    needs: dict[int, list[int]] = {index: [] for index in operators}
    for (reader, _), (writer, _) in sources.items():
        if writer in needs:
            needs[reader].append(writer)
    return tuple(TopologicalSorter(needs).static_order())


class CompiledGraph:
    """A graph on a device: its nodes run one after the other, on one stream. Immutable; threads may share it.

    A pickle holds the graph, the device's name, the feature level and the flags: it is compiled again where it is loaded.

    Attributes:
        graph: the compiled graph.
        device: the device that it runs on.
        feature_level: the cap that it was checked against.
        flags: the execution flags, of every node.
    """

    def __init__(
        self,
        graph: Graph,
        wiring: Wiring,
        device: Device,
        feature_level: FeatureLevel,
        flags: ExecutionFlags,
        operators: Mapping[int, CompiledOperator],
    ) -> None:
        self.graph = graph
        self.device = device
        self.feature_level = feature_level
        self.flags = flags
        self._operators = operators
        self._wiring = wiring
        self._layouts = {
            kind: {name: KnownLayouts() for name in known} for kind, known in (("input", self.inputs), ("output", self.outputs))
        }
        stream = device.current_stream()
        # DirectML too copies constants when it compiles.
        self._constants = {
            (index, 0): device.upload(np.frombuffer(node.data, np.uint8), stream)
            for index, node in enumerate(graph.nodes)
            if isinstance(node, ConstantNode)
        }

    @property
    def inputs(self) -> dict[str, TensorDesc]:
        """The inputs to bind, by name (`input_0`, ... if the graph has no names), without inputs that feed no node."""
        return {name: tensor for name, (_, tensor) in self._wiring.inputs.items()}

    @property
    def outputs(self) -> dict[str, TensorDesc]:
        """The outputs, by name (`output_0`, ...)."""
        return {name: tensor for name, (_, tensor) in self._wiring.outputs.items()}

    def explain_plan(self) -> PlanReport:
        """The sums of `CompiledOperator.explain_plan` over all nodes; the nodes' reports are its `parts`, in execution order."""
        from dmlpy.devices.report import total

        parts = (self._operators[index].explain_plan() for index in self._wiring.order)
        return total(self.graph.name or self.graph.c_name, self.device.name, parts)

    def __call__(self, *, stream: Any = None, **tensors: Any) -> Any:
        """Runs once.

        Args:
            stream: as for `Dispatch`.
            **tensors: arrays or `Buffer`s of the inputs, and of outputs that shall be filled, by name.

        Returns:
            Outputs: those that were not passed are allocated.

        Raises:
            BindError: arrays that do not fit; nothing was written.
            DeviceError: not enough memory, a failed launch.
        """
        handle = self.device.stream_handle(stream)
        results = {name: tensors.get(name) for name in self.outputs}
        results = {name: self.device.empty(self.outputs[name], handle) if value is None else value for name, value in results.items()}
        given = {name: value for name, value in tensors.items() if name not in results}
        self.bind(given, results)(handle)
        return Outputs(results)

    def bind(self, inputs: Mapping[str, Any] | Sequence[Any], outputs: Mapping[str, Any] | Sequence[Any]) -> GraphDispatch:
        """Binds memory for many dispatches. Tensors between nodes get separate memory, and all nodes share the scratch.

        A node may read more of another's output than that node writes: gaps between strided elements, or bytes behind the last one. They
        are zero.

        Args:
            inputs: arrays or `Buffer`s by name, or a list of them in the graph's order, with None for inputs that feed no node.
            outputs: the same.

        Raises:
            BindError: memory that does not fit, is missing, or is used twice.
        """
        bound, problems = self._place(inputs, self.inputs, self._input_order(), "input")
        written, wrong = self._place(outputs, self.outputs, list(self.outputs), "output")
        problems += wrong or _hazards(bound, written)
        if problems:
            raise BindError(self.graph.name or "graph", problems)
        stream = self.device.current_stream()
        memory: dict[Source, Buffer] = {source: Buffer(item.pointer, item.size) for source, item in self._constants.items()}
        for places, known in ((bound, self._wiring.inputs), (written, self._wiring.outputs)):
            for item in places:
                memory[known[item.name][0]] = Buffer(item.pointer, known[item.name][1].reached_bytes)
        kept: list[Memory] = []
        for source, tensor in self._wiring.tensors.items():
            if source not in memory:
                kept.append(self.device.allocate(tensor.size_in_bytes, stream, f"what {self.graph.label(source[0] or 0)} writes"))
                memory[source] = Buffer(kept[-1].pointer, tensor.size_in_bytes)
                if source in self._wiring.uncovered:
                    # No dispatch ever writes there, and the memory may hold stale values.
                    self.device.clear(kept[-1].pointer, self._wiring.uncovered[source][1].reached_bytes, stream)
                    self.device.synchronize(stream)  # dispatches may go into other streams
        sizes = [self._operators[index].binding_properties.temporary_resource_size for index in self._wiring.order]
        scratch = self.device.allocate(max(sizes, default=0), stream, f"scratch of {self.graph.name or 'a graph'}")
        last = len(sizes) - 1
        dispatches = [
            self._dispatch(index, memory, scratch, kept if number == last else ()) for number, index in enumerate(self._wiring.order)
        ]
        limits = [
            limit for index, dispatch in zip(self._wiring.order, dispatches, strict=True) for limit in self._known_limits(index, dispatch)
        ]
        return GraphDispatch(self, dispatches, limits, (bound, written, kept))

    def _input_order(self) -> list[str]:
        """The names of all inputs in the graph's order, those that feed no node included."""
        return list(self.graph.input_names or (f"input_{index}" for index in range(self.graph.input_count)))

    def _place(
        self,
        values: Mapping[str, Any] | Sequence[Any],
        wanted: Mapping[str, TensorDesc],
        order: Sequence[str],
        kind: Literal["input", "output"],
    ) -> tuple[list[Bound], list[Problem]]:
        found: list[Bound] = []
        given, problems = in_order(values, order, kind) if isinstance(values, list | tuple) else named(values, kind, in_order=True)
        for name in given:
            if name not in wanted and given[name] is not None:
                expected = f"one of {', '.join(wanted)}"
                problems.append(
                    Problem("bind.unknown", name, f"not among the {kind}s of the graph", expected, remedy=did_you_mean(name, wanted))
                )
        for name, tensor in wanted.items():
            if given.get(name) is None:
                problems.append(Problem("bind.missing", name, "not given", f"memory for {tensor.summary()}"))
                continue
            known = self._layouts[kind][name]
            place, wrong = binding.place(self.device, name, tensor, given[name], output=kind == "output", known=known)
            problems += wrong
            found += [place] if place else []
        return found, problems

    def _dispatch(self, index: int, memory: Mapping[Source, Buffer], scratch: Memory, also_used: Iterable[Memory]) -> Dispatch:
        node, sources = self.graph.nodes[index], self._wiring.sources
        given = {slot.place: memory[sources[index, at]] for at, slot in enumerate(node.input_slots()) if slot.tensor is not None}
        written = {slot.place: memory[index, at] for at, slot in enumerate(node.output_slots()) if slot.tensor is not None}
        return self._operators[index]._bind(given, written, scratch, None, also_used)

    def _known_limits(self, index: int, dispatch: Dispatch) -> Limits:
        """A node's limits on values that exist before the graph runs, by their names in the graph."""
        names: dict[str, str] = {}
        for at, slot in enumerate(self.graph.nodes[index].input_slots()):
            source = self._wiring.sources.get((index, at))
            if source is not None and (source[0] is None or isinstance(self.graph.nodes[source[0]], ConstantNode)):
                given = [name for name, (own, _) in self._wiring.inputs.items() if own == source]
                names[slot.place] = given[0] if given else self.graph.label(source[0] or 0)
        return [(replace(limit, name=names[limit.name]), values) for limit, values in dispatch._limits if limit.name in names]

    def _repr_html_(self) -> str:
        from dmlpy.inspection.render import paragraph_html

        return self.graph._repr_html_() + paragraph_html(repr(self))

    def __copy__(self) -> CompiledGraph:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledGraph:
        return self

    def __repr__(self) -> str:
        return f"<graph of {len(self.graph.nodes)} nodes compiled for {self.device.name} at feature level {self.feature_level}>"


class GraphDispatch(BoundWork):
    """A graph with all its memory: calling it launches every node. It owns its scratch: see `Dispatch`.

    Sequence lengths that a node computes count as the nearest ones in range, as in a GPU's memory: by then other nodes have written. After
    an error the nodes before it have run, but for `BindError`: then none has.
    """

    def __init__(self, graph: CompiledGraph, dispatches: Sequence[Dispatch], limits: Limits, keep: tuple[Any, ...]) -> None:
        super().__init__(graph.graph.name or "graph", graph.device)
        self.graph = graph
        self._dispatches = tuple(dispatches)
        self._limits = limits
        self._keep = keep

    def _enqueue(self, stream: int) -> None:
        check_limits(self._name, self._limits)
        for dispatch in self._dispatches:
            try:
                dispatch._launch(stream)
            except MemoryError as error:
                raise no_memory(dispatch.operator.name, error) from None


def _hazards(inputs: Sequence[Bound], outputs: Sequence[Bound]) -> list[Problem]:
    """Finds outputs whose memory something else uses: another node may still read it."""
    problems = []
    for index, output in enumerate(outputs):
        for other in (*inputs, *outputs[:index]):
            if output.pointer < other.end and other.pointer < output.end:
                code = "hazard.outputs" if other.output else "hazard.in_place"
                problems.append(Problem(code, output.name, f"memory that {other.name} uses too", "separate memory"))
    return problems


def unrunnable(graph: Graph, wiring: Wiring) -> list[Problem]:
    """The problems of a valid graph that cannot be run: outputs that need a copy."""
    seen: dict[Source, str] = {}
    problems = []
    for name, (source, tensor) in wiring.outputs.items():
        expected = "an operator's output, a different one for each graph output"
        remedy = "ELEMENT_WISE_IDENTITY copies"
        if source in seen:
            problems.append(
                Problem("graph.copy", f"output {name!r}", f"the same value as output {seen[source]!r}", expected, remedy=remedy)
            )
        elif isinstance(graph.nodes[source[0] or 0], ConstantNode):
            problems.append(Problem("graph.copy", f"output {name!r}", "a constant", expected, remedy=remedy))
        seen.setdefault(source, name)
        if source in wiring.uncovered:
            node, reader = wiring.uncovered[source]
            found = f"{tensor.summary()}, of which {graph.label(node)} reads {reader.summary()}"
            why = ("its memory belongs to the caller: the graph may not access bytes between or after its elements",)
            problems.append(Problem("graph.copy", f"output {name!r}", found, "readers of its elements only", why, remedy))
    return problems
