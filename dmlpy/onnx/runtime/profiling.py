"""`profile_nodes`: the times of a model's nodes, of graphs and on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dmlpy.devices.reporting.profile import ProfiledNode
from dmlpy.onnx.runtime.graph_runs import GraphCalls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices import Device
    from dmlpy.onnx.runtime.compiled_program import CompiledProgram
    from dmlpy.onnx.runtime.graph_runs import GraphCall, HostCall

HOST = "host"
"""The place of nodes that no graph has."""


def profile_nodes(program: CompiledProgram, given: Mapping[str, Any], device: Device, runs: int, stream: int) -> tuple[ProfiledNode, ...]:
    """The times of the nodes, in the order in which they run.

    Args:
        program: the model for these inputs.
        given: its inputs by name, in the device's memory or as arrays of NumPy.
        device: where it runs.
        runs: how many runs are measured.
        stream: the stream.
    """
    made = []
    for _ in range(runs + 1):
        calls = GraphCalls(wait=lambda: device.synchronize(stream))
        program.values(given, calls)
        made.append(calls)
    last = made[-1]
    nodes = [_of_graph(call, runs, stream) for call in last.graphs]
    on_host = [_of_host([calls.on_host[at] for calls in made[1:]]) for at in range(len(last.on_host))]
    found: list[ProfiledNode] = []
    for place in range(len(nodes) + 1):
        found += [node for node, call in zip(on_host, last.on_host, strict=True) if call.after == place]
        found += nodes[place] if place < len(nodes) else ()
    return tuple(found)


def _of_graph(call: GraphCall, runs: int, stream: int) -> list[ProfiledNode]:
    """The nodes of a graph, with the values that it read."""
    found = call.run.prepared.profile(call.run.inputs(call.reads), runs=runs, stream=stream)
    return [replace(node, place=f"{node.place}, late") if call.is_late else node for node in found.nodes]


def _of_host(calls: list[HostCall]) -> ProfiledNode:
    return ProfiledNode(calls[0].name, calls[0].op_type, HOST, tuple(call.us for call in calls))
