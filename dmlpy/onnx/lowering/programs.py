"""`Program`: the final stages that a model's outputs need: graphs with their inputs, and nodes on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dmlpy.onnx.loading.stored_weights import pinned_elements
from dmlpy.onnx.lowering.stages import GraphStage, HostNode, HostStage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.graphs import Graph
    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.lowering.stages import Stage


@dataclass(frozen=True, eq=False)
class GraphPart:
    """A graph of DirectML's operators.

    Attributes:
        graph: the graph.
        reads: the values that each run binds, by name.
        owned: the arrays that it copies when it is prepared, by name.
        writes: the values that it computes, by name.
    """

    graph: Graph
    reads: Mapping[str, Value]
    owned: Mapping[str, Array]
    writes: Mapping[str, Value]


@dataclass(frozen=True, eq=False)
class HostPart:
    """Nodes that run on the host.

    Attributes:
        nodes: the nodes, in execution order.
        reads: the values that they read from other parts, by name.
        owned: the arrays that are known before the model runs, by name.
        writes: the values that other parts read, by name.
    """

    nodes: tuple[HostNode, ...]
    reads: Mapping[str, Value]
    owned: Mapping[str, Array]
    writes: Mapping[str, Value]


Part: TypeAlias = GraphPart | HostPart


@dataclass(frozen=True, eq=False)
class Program:
    """The parts of a model's run.

    Attributes:
        parts: graphs and nodes on the host, in execution order.
        outputs: the model's outputs, by the model's names.
    """

    parts: tuple[Part, ...]
    outputs: Mapping[str, Value]

    @property
    def graphs(self) -> list[Graph]:
        """The graphs among the parts."""
        return [part.graph for part in self.parts if isinstance(part, GraphPart)]


def build_program(stages: Mapping[int, Stage], outputs: Mapping[str, Value], name: str) -> Program:
    """The parts that the outputs of a model need.

    Args:
        stages: the stages of the model by index.
        outputs: its outputs, by the model's names.
        name: what messages call it.
    """
    needed = {value.name for value in outputs.values()}
    parts: list[Part] = []
    for index in sorted(stages, reverse=True):
        stage = stages[index]
        part = _graph_part(stage, needed, name) if isinstance(stage, GraphStage) else _host_part(stage, needed)
        if part is not None:
            parts.append(part)
            needed |= set(part.reads)
    return Program(tuple(reversed(parts)), outputs)


def _graph_part(stage: GraphStage, needed: set[str], name: str) -> GraphPart | None:
    writes = {name: value for name, value in stage.results.items() if name in needed}
    if not writes:
        return None
    graph = stage.graph(f"{name}, stage {stage.index}", writes)
    names = graph.input_names or ()
    reads = {name: stage.reads[name] for name in names if name in stage.reads}
    owned = {name: stage.owned[name] for name in names if name in stage.owned}
    return GraphPart(graph, reads, owned, writes)


def _host_part(stage: HostStage, needed: set[str]) -> HostPart | None:
    wanted = set(needed)
    kept: list[HostNode] = []
    for node in reversed(stage.nodes):
        if wanted & set(node.results):
            kept.append(node)
            wanted |= set(node.reads)
    if not kept:
        return None
    results = {name for node in kept for name in node.results}
    read: dict[str, Value] = {name: value for node in kept for name, value in node.reads.items() if name not in results}
    owned = {name: pinned_elements(value.array) for name, value in read.items() if value.array is not None}
    reads = {name: value for name, value in read.items() if value.array is None}
    writes = {name: value for name, value in stage.results.items() if name in needed and name in results}
    return HostPart(tuple(reversed(kept)), reads, owned, writes)
