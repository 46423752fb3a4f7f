"""`GraphIR`: a valid graph in the form that the code which runs it uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, overload

from dmlpy.description.enums import TensorFlags
from dmlpy.description.symbolic_sizes import are_symbolic
from dmlpy.description.tensors import TensorDesc, covers
from dmlpy.devices.plan import with_tensors
from dmlpy.graphs import ConstantNode, Graph, OperatorNode
from dmlpy.validation.checking import keep_validity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from dmlpy.description.descs import OperatorDesc

Source = tuple[int | None, int]
"""The source of a value: a node and the index of its output, or None and the index of a graph input."""

Use = tuple[int, str]
"""A reader of a value: a node, and the place of the input."""


class NodeGroup(NamedTuple):
    """Nodes that run as one, in place of the last of them.

    Attributes:
        nodes: in the order in which they run. The last one's result leaves the group.
        whole: the operator of all.
        reads: the sources of the values that it reads, by place.
    """

    nodes: tuple[int, ...]
    whole: OperatorDesc
    reads: Mapping[str, Source]


@dataclass(frozen=True)
class GraphIR:
    """The operators of a graph and what they read and write.

    Attributes:
        graph: the graph.
        operators: the desc of each operator node that runs. No tensor is flagged as owned.
        reads: the source of each described input, by node and place.
        outputs: the source of each output of the graph, by name.
        declared: how the graph declares that its outputs are bound, by name; empty if it does not.
        inputs: the source of each input of the graph that some node reads, and how it is bound, by name.
        fused: the activation and normalization nodes that became part of another node, by that one; they are not among `operators`.
        groups: the nodes that run as one, by the last of them, in order; of each group only that one is among `operators`. Nodes of a
            table of bytes are also there if nodes outside it read their results.
    """

    graph: Graph
    operators: Mapping[int, OperatorDesc]
    reads: Mapping[Use, Source]
    outputs: Mapping[str, Source]
    declared: Mapping[str, TensorDesc]
    inputs: Mapping[str, tuple[Source, TensorDesc]]
    fused: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    groups: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> GraphIR:
        """The IR of a graph without problems."""
        slots = [node.input_slots() for node in graph.nodes]
        reads: dict[Use, Source] = {}
        for edge in graph.input_edges:
            slot = slots[edge.to_node_index][edge.to_node_input_index]
            reads[edge.to_node_index, slot.place] = (None, edge.graph_input_index)
        for link in graph.intermediate_edges:
            slot = slots[link.to_node_index][link.to_node_input_index]
            reads[link.to_node_index, slot.place] = (link.from_node_index, link.from_node_output_index)
        ends = sorted(graph.output_edges, key=lambda edge: edge.graph_output_index)
        names = graph.output_names or [f"output_{index}" for index in range(graph.output_count)]
        outputs = {names[end.graph_output_index]: (end.from_node_index, end.from_node_output_index) for end in ends}
        operators = {index: _without_owned(node.operator) for index, node in enumerate(graph.nodes) if isinstance(node, OperatorNode)}
        bare = cls(graph, operators, reads, outputs, dict(zip(names, graph.output_tensors, strict=False)), {})
        return replace(bare, inputs=bare._described_inputs())

    def with_all_outputs(self) -> GraphIR:
        """The IR of the same nodes with each of their outputs as one of the graph, named `0.1` for output 1 of node 0."""
        return replace(self, outputs={f"{index}.{at}": (index, at) for index, at in self.tensors}, declared={})

    @cached_property
    def given(self) -> frozenset[Source]:
        """The values that are outputs of the graph."""
        return frozenset(self.outputs.values())

    @cached_property
    def readers(self) -> Mapping[Source, tuple[Use, ...]]:
        """The readers of each value, without outputs of the graph."""
        by_source: dict[Source, list[Use]] = {}
        for use, source in self.reads.items():
            by_source.setdefault(source, []).append(use)
        return {source: tuple(uses) for source, uses in by_source.items()}

    def with_groups(self, groups: Iterable[NodeGroup], gone: Set[int]) -> GraphIR:
        """The IR in which the last node of each group computes what all of them did.

        Args:
            groups: the groups.
            gone: the nodes that do not run any more. The last nodes of groups run, also if they are among these.
        """
        operators = {node: desc for node, desc in self.operators.items() if node not in gone}
        kept = {node: nodes for node, nodes in self.groups.items() if node not in gone}
        reads: dict[Use, Source] = {}
        for group in groups:
            last = group.nodes[-1]
            operators[last] = group.whole
            reads |= {(last, place): source for place, source in group.reads.items()}
            kept[last] = tuple(node for member in group.nodes for node in self.groups.get(member, (member,)))
        replaced = {node for node, _ in reads}
        others = {use: source for use, source in self.reads.items() if use[0] not in gone and use[0] not in replaced}
        return replace(self, operators=operators, reads=others | reads, declared=dict(self.bound_outputs), groups=kept)

    def reads_of(self, node: int) -> list[tuple[Use, Source]]:
        """The values that a node reads, by use, in the order of its inputs."""
        uses = [(node, slot.place) for slot in self.operators[node].input_slots() if slot.tensor is not None]
        return [(use, self.reads[use]) for use in uses]

    @cached_property
    def tensors(self) -> Mapping[Source, TensorDesc]:
        """The desc by which a node writes each of its outputs."""
        return {
            (index, at): slot.tensor
            for index, desc in self.operators.items()
            for at, slot in enumerate(desc.output_slots())
            if slot.tensor is not None
        }

    @cached_property
    def written(self) -> Mapping[Source, str]:
        """The place of the output that writes each value of a node."""
        return {
            (index, at): slot.place
            for index, desc in self.operators.items()
            for at, slot in enumerate(desc.output_slots())
            if slot.tensor is not None
        }

    def seen(self, use: Use) -> TensorDesc:
        """The desc by which a node reads a value."""
        return self._tensors_by_use[use]

    @cached_property
    def _tensors_by_use(self) -> Mapping[Use, TensorDesc]:
        return {(index, place): tensor for index, desc in self.operators.items() for place, tensor in desc.tensors().items()}

    def _described_inputs(self) -> Mapping[str, tuple[Source, TensorDesc]]:
        """How each input of the graph is bound: see `inputs`.

        That is as the graph declares it, else as it is read: with several readers the desc with the largest extent, the first of equals,
        flagged as the graph flags it.
        """
        graph = self.graph
        described: dict[str, tuple[Source, TensorDesc]] = {}
        owned = {
            edge.graph_input_index for edge in graph.input_edges if _is_flagged_owned(graph, edge.to_node_index, edge.to_node_input_index)
        }
        for index in sorted({edge.graph_input_index for edge in graph.input_edges}):  # there may be millions that feed no node
            if uses := self.readers.get((None, index)):
                read = max((self.seen(use) for use in uses), key=lambda tensor: tensor.extent_in_bytes)
                tensor = graph.input_tensors[index] if graph.input_tensors else read
                flags = TensorFlags.OWNED_BY_DML if index in owned else TensorFlags.NONE
                described[input_name(graph, index)] = ((None, index), tensor.replace(flags=flags) if flags else tensor)
        return described

    @cached_property
    def owned(self) -> tuple[str, ...]:
        """The inputs that are flagged OWNED_BY_DML, in the graph's order."""
        return tuple(name for name, (_, tensor) in self.inputs.items() if tensor.flags is TensorFlags.OWNED_BY_DML)

    @cached_property
    def static(self) -> frozenset[Source]:
        """The values that are the same in each dispatch: constants and owned inputs."""
        constants = {(index, 0) for index, node in enumerate(self.graph.nodes) if isinstance(node, ConstantNode)}
        return frozenset(constants | {self.inputs[name][0] for name in self.owned})

    def constant(self, source: Source) -> ConstantNode | None:
        """The constant node that a value is the data of."""
        node = None if source[0] is None else self.graph.nodes[source[0]]
        return node if isinstance(node, ConstantNode) else None

    def described(self, source: Source) -> TensorDesc:
        """The desc of a value as it is written; of a constant as the first node that reads it packed does, else plain bytes."""
        if source in self.tensors:
            return self.tensors[source]
        node = self.constant(source)
        assert node is not None, "an output of the graph is written by a node, or a constant"
        for use in self.readers.get(source, ()):
            if self.seen(use).is_packed:
                return self.seen(use)
        return TensorDesc(data_type="UINT8", sizes=[node.data_size])

    @cached_property
    def bound_outputs(self) -> Mapping[str, TensorDesc]:
        """How each output of the graph is bound, by name: as the graph declares it, else as it is written."""
        return {name: self.declared.get(name) or self.described(source) for name, source in self.outputs.items()}

    @cached_property
    def uncovered(self) -> Mapping[Source, int]:
        """The outputs of nodes of which some node reads more than is written: gaps between strided elements, or bytes after the last one.

        Maps each to the extent of its readers.
        """
        sizes: dict[Source, int] = {}
        for use, source in self.reads.items():
            if source in self.tensors and not covers(self.tensors[source], self.seen(use)):
                sizes[source] = max(sizes.get(source, 0), self.seen(use).extent_in_bytes)
        return sizes

    def is_read_once(self, source: Source) -> bool:
        """Whether a value is computed, and read as it is written by one node alone."""
        if source not in self.tensors:
            return False
        uses, written = self.readers.get(source, ()), self.tensors[source]
        return len(uses) == 1 and source not in self.given and source not in self.uncovered and self.seen(uses[0]) == written

    def order(self) -> tuple[int, ...]:
        """The nodes that run, each after those that it reads; of those that could run next the one with the lowest index."""
        return self._order

    @cached_property
    def _order(self) -> tuple[int, ...]:
        waits_for: dict[int, set[int]] = {index: set() for index in self.operators}
        readers: dict[int, set[int]] = {index: set() for index in self.operators}
        for (reader, _), (writer, _) in self.reads.items():
            if writer in waits_for and reader in waits_for:
                waits_for[reader].add(writer)
                readers[writer].add(reader)
        ready = [index for index, needed in waits_for.items() if not needed]
        heapify(ready)
        order: list[int] = []
        while ready:
            order.append(heappop(ready))
            for reader in readers[order[-1]]:
                waits_for[reader].discard(order[-1])
                if not waits_for[reader]:
                    heappush(ready, reader)
        return tuple(order)

    def step(self, index: int) -> int:
        """The place of a node in that order."""
        return self._steps[index]

    @cached_property
    def _steps(self) -> Mapping[int, int]:
        return {index: step for step, index in enumerate(self._order)}

    def labels(self, sources: Sequence[Source]) -> list[str]:
        """The names of values of nodes, each different from the others."""
        labels = [self.value_label(source) for source in sources]
        counts = Counter(labels)
        return [label if counts[label] == 1 else f"{label} (node {source[0]})" for source, label in zip(sources, labels, strict=True)]

    def value_label(self, source: Source) -> str:
        """The name of a value in messages: that of its node, with the output's place if the node has several."""
        if source[0] is None:
            return input_name(self.graph, source[1])
        name = node_name(self.graph, source[0])
        return f"{name}.{self.written[source]}" if self._output_counts[source[0]] > 1 else name

    @cached_property
    def _output_counts(self) -> Mapping[int | None, int]:
        """The number of outputs of each node."""
        return dict(Counter(index for index, _ in self.written))


class NumberedInputs(Sequence[str]):
    """The names of unnamed inputs, created lazily: a file may claim billions of them."""

    def __init__(self, count: int) -> None:
        self._numbers = range(count)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        known = self._numbers[index]
        return f"input_{known}" if isinstance(known, int) else [f"input_{number}" for number in known]


def input_name(graph: Graph, index: int) -> str:
    """The name by which an input of the graph is bound."""
    return graph.input_names[index] if graph.input_names else NumberedInputs(graph.input_count)[index]


def node_name(graph: Graph, index: int) -> str:
    """The name of a node in messages; its index if it has none."""
    return graph.nodes[index].name or f"node {index}"


def _without_owned(desc: OperatorDesc) -> OperatorDesc:
    return _compute_without_owned.__wrapped__(desc) if are_symbolic() else _compute_without_owned(desc)


@lru_cache(512)
def _compute_without_owned(desc: OperatorDesc) -> OperatorDesc:
    owned = {place: tensor for place, tensor in desc.tensors().items() if tensor.flags is TensorFlags.OWNED_BY_DML}
    replaced = with_tensors(desc, {place: tensor.replace(flags=TensorFlags.NONE) for place, tensor in owned.items()})
    if not are_symbolic():  # where a check records what it compares
        keep_validity(desc, replaced)
    return replaced


def _is_flagged_owned(graph: Graph, node: int, slot: int) -> bool:
    tensor = graph.nodes[node].input_slots()[slot].tensor
    return tensor is not None and tensor.flags is TensorFlags.OWNED_BY_DML
