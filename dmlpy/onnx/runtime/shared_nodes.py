"""`SharedNodes`: nodes that wait for sizes, compiled together with others that compute the same, such as those of another layer."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onnx import NodeProto

from dmlpy.messages.problems import CompileError
from dmlpy.onnx.lowering import subgraphs
from dmlpy.onnx.lowering.cache import WAITING_BYTES
from dmlpy.onnx.lowering.programs import GraphPart
from dmlpy.onnx.lowering.stages import HostNode
from dmlpy.onnx.runtime.deferred_nodes import DeferredNodes, lower_host_nodes

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.programs import Program
    from dmlpy.onnx.runtime.compile_context import CompileContext
    from dmlpy.onnx.runtime.graph_runs import GraphCalls


class _HasHostNodesError(Exception):
    """Some of the nodes run on the host, where messages name them."""


class SharedNodes:
    """Nodes that are compiled when their inputs are available, once for all that differ only in names. Thread-safe.

    Nodes that cannot be compiled, or run on the host, are left to `own`, whose messages have the nodes' names.

    Args:
        nodes: the nodes.
        reads: the values that they read, by name.
        wanted: the names of the values that they give.
        context: the device and options that they are compiled for.
    """

    def __init__(self, nodes: Sequence[HostNode], reads: Mapping[str, Value], wanted: Sequence[str], context: CompileContext) -> None:
        self._own = context.defer(lower_host_nodes(nodes), reads, wanted)
        self._context = context
        self._is_alone = any(True for node in nodes for _ in subgraphs.subgraphs_of(node.proto))
        if self._is_alone:
            return
        names, alike = _rename_by_position(nodes, reads)
        self._reads = {names[name]: name for name, value in reads.items() if value.array is None}
        self._wanted = {names[name]: name for name in wanted}
        described = tuple((names[name], _value_key(value)) for name, value in reads.items())
        key = SharedNodes, tuple(_node_key(node) for node in alike), described, tuple(self._wanted)
        shared = context.cache.get(key)
        if shared is None:
            shared = DeferredNodes(
                context.name,
                context.model,
                context.level,
                lower_host_nodes(alike),
                {names[name]: value.named(names[name]) for name, value in reads.items()},
                [*self._wanted],
                lambda program: context.run_late(_graphs_only(program), context),
                context.cache,
            )
            context.cache.put(key, shared, WAITING_BYTES * len(alike))
        self._shared: DeferredNodes = shared

    def __call__(self, values: dict[str, Any], calls: GraphCalls | None = None) -> dict[str, Any]:
        """Computes the nodes' outputs from their inputs, by name; `calls` receives the graphs that ran."""
        if not self._is_alone:
            try:
                with suppress(CompileError):  # which the nodes report by their own names
                    return self._together(values, calls)
            except _HasHostNodesError:
                self._is_alone = True
        if calls is not None:
            calls.is_whole = False
        return self._own(values, calls)

    def _together(self, values: dict[str, Any], calls: GraphCalls | None) -> dict[str, Any]:
        found = self._shared({name: values[own] for name, own in self._reads.items()}, self._context.to_host, calls)
        return {own: found[name] for name, own in self._wanted.items()}


def _graphs_only(program: Program) -> Program:
    if not all(isinstance(part, GraphPart) for part in program.parts):
        raise _HasHostNodesError
    return program


def _rename_by_position(nodes: Sequence[HostNode], reads: Mapping[str, Value]) -> tuple[dict[str, str], list[HostNode]]:
    """Names by position, and the nodes with these names."""
    names = {name: f"read_{index}" for index, name in enumerate(reads)}
    found = []
    for index, node in enumerate(nodes):
        proto = NodeProto()
        proto.CopyFrom(node.proto)
        proto.name, proto.doc_string = f"{proto.op_type}_{index}", ""
        proto.input[:] = [names[name] if name else "" for name in proto.input]
        for name in filter(None, proto.output):
            names[name] = f"made_{len(names)}"
        proto.output[:] = [names[name] if name else "" for name in proto.output]
        found.append(HostNode(proto, node.opsets, {}, {}))
    return names, found


def _node_key(node: HostNode) -> Hashable:
    return node.proto.SerializeToString(deterministic=True), tuple(sorted(node.opsets.items()))


def _value_key(value: Value) -> Hashable:
    """The part of an input value that nodes are compiled for. Users of a key that identifies an array must hold the array."""
    described = None if value.described is None else value.described.SerializeToString(deterministic=True)
    return value.element, value.sizes, value.kind, described, None if value.array is None else id(value.array)
