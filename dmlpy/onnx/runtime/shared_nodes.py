"""`SharedNodes`: nodes that wait for sizes, compiled together with others that compute the same, such as those of another layer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from dmlpy.messages.problems import CompileError
from dmlpy.onnx.lowering import subgraphs
from dmlpy.onnx.lowering.cache import WAITING_BYTES
from dmlpy.onnx.lowering.program_templates import may_follow_from_sizes
from dmlpy.onnx.lowering.programs import GraphPart
from dmlpy.onnx.lowering.stages import HostNode
from dmlpy.onnx.runtime.deferred_nodes import MOST_KNOWN, DeferredNodes, lower_host_nodes

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

    What was learned of them, such as programs for other sizes, serves programs of other sizes of the model, too. Nodes that cannot be
    compiled, or run on the host, are left to `own`, whose messages have the nodes' names.

    Args:
        nodes: the nodes.
        reads: the values that they read, by name.
        wanted: the names of the values that they give.
        context: the device and options that they are compiled for.
    """

    def __init__(self, nodes: Sequence[HostNode], reads: Mapping[str, Value], wanted: Sequence[str], context: CompileContext) -> None:
        self._context = context
        self._own = _deferred(nodes, reads, wanted, context, graphs_only=False)
        self._own_reads = [name for name, value in reads.items() if not _is_fixed(value)]
        self._shared: DeferredNodes | None = None
        if any(True for node in nodes for _ in subgraphs.subgraphs_of(node.proto)):
            return
        names, alike = _rename_by_position(nodes, reads)
        self._reads = {names[name]: name for name in self._own_reads}
        self._wanted = {names[name]: name for name in wanted}
        renamed = {names[name]: value.named(names[name]) for name, value in reads.items()}
        self._shared = _deferred(alike, renamed, [*self._wanted], context, graphs_only=True)

    def __call__(self, values: dict[str, Any], calls: GraphCalls | None = None) -> dict[str, Any]:
        """Computes the nodes' outputs from their inputs, by name; `calls` receives the graphs that ran."""
        shared = self._shared
        if shared is not None and not shared.is_refused:
            try:
                with suppress(CompileError):  # which the nodes report by their own names
                    found = shared({name: values[own] for name, own in self._reads.items()}, self._context.to_host, calls)
                    return {own: found[name] for name, own in self._wanted.items()}
            except _HasHostNodesError:
                shared.is_refused = True
        if calls is not None:
            calls.is_whole = False
        return self._own({name: values[name] for name in self._own_reads}, self._context.to_host, calls)


def _deferred(
    nodes: Sequence[HostNode], reads: Mapping[str, Value], wanted: Sequence[str], context: CompileContext, *, graphs_only: bool
) -> DeferredNodes:
    """Nodes that wait, as they are kept for all programs of a model. Short known integers, which may follow from sizes, are read."""
    depth = None if graphs_only else context.depth
    described = tuple((name, _value_key(value)) for name, value in reads.items())
    key = SharedNodes, depth, tuple(_node_key(node) for node in nodes), described, tuple(wanted)
    found: DeferredNodes | None = context.cache.get(key)
    if found is None:
        given = {name: replace(value, array=None) if _may_follow_from_sizes(value) else value for name, value in reads.items()}
        found = DeferredNodes(
            context.name,
            context.model,
            context.level,
            lower_host_nodes(nodes),
            given,
            wanted,
            lambda program: context.run_late(_graphs_only(program) if graphs_only else program, context),
            context.cache,
            frozenset(name for name, value in given.items() if value is not reads[name]),
        )
        context.cache.put(key, found, WAITING_BYTES * len(nodes))
    return found


def _may_follow_from_sizes(value: Value) -> bool:
    return isinstance(value.array, np.ndarray) and may_follow_from_sizes(value.array)


def _is_fixed(value: Value) -> bool:
    return value.array is not None and not _may_follow_from_sizes(value)


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
    """The part of an input value that nodes are compiled for, but for sizes. Users of a key that identifies an array must hold it."""
    described = None if value.described is None else value.described.SerializeToString(deterministic=True)
    return value.element, value.kind, described, _array_key(value)


def _array_key(value: Value) -> Hashable:
    array = value.array
    if array is None or _may_follow_from_sizes(value):
        return array is None
    is_short = isinstance(array, np.ndarray) and array.size <= MOST_KNOWN and not array.dtype.hasobject
    return (array.dtype, array.shape, array.tobytes()) if is_short else id(array)
