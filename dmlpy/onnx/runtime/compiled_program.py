"""`CompiledProgram`: a model compiled for given sizes of its inputs, and its runs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.compiler import compile_at_any_level
from dmlpy.onnx.loading.stored_weights import all_elements
from dmlpy.onnx.lowering.cache import NODE_BYTES, WAITING_BYTES
from dmlpy.onnx.lowering.programs import GraphPart
from dmlpy.onnx.nodes.levels import cap_of
from dmlpy.onnx.runtime.graph_runs import DeviceTensor, GraphRun, HostCall
from dmlpy.onnx.runtime.host_nodes import prepare_host_node
from dmlpy.onnx.runtime.shared_nodes import SharedNodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices import Device
    from dmlpy.onnx.lowering.programs import HostPart, Program
    from dmlpy.onnx.lowering.stages import HostNode
    from dmlpy.onnx.runtime.compile_context import CompileContext
    from dmlpy.onnx.runtime.graph_runs import GraphCalls
    from dmlpy.onnx.runtime.plans import ModelComparison, ModelPlan


_MOST_NESTED = 8
"""The most programs that are compiled within each other's runs, each without the first node of the one around it.

Nodes that are left then are compiled a few at a time, one after the other: a chain of hundreds would exceed Python's stack, and take
memory by the square of its length.
"""
_TOGETHER = 8
"""The nodes that are compiled at a time then."""


class CompiledProgram:
    """A model, or a part of one, compiled for given sizes of its inputs. Thread-safe.

    Args:
        program: the program.
        context: the target of the compilation.
        late: whether the program was built from run-time values: then a first node that runs on the host stays there.
    """

    def __init__(self, program: Program, context: CompileContext, *, late: bool = False) -> None:
        self._program = program
        self._context = context
        self._is_late = late
        self._runs: list[GraphRun | _HostRun] = []
        for place, part in enumerate(program.parts):
            if isinstance(part, GraphPart):
                graph = compile_at_any_level(part.graph, context.device, cap_of(context.level), context.flags, fuse=context.fuse)
                self._runs.append(GraphRun(part, graph, context.device, context.weights))
            else:
                self._runs.append(_HostRun(part, context, tried=late and place == 0))

    @property
    def held_bytes(self) -> int:
        """The approximate bytes that it holds: packed weights, the scratch of a run, and each node's launch."""
        held_bytes = NODE_BYTES
        for run in self._runs:
            if isinstance(run, GraphRun):
                held_bytes += run.held_bytes + NODE_BYTES * len(run.part.graph.nodes)
            else:
                held_bytes += NODE_BYTES * run.count_prepared + WAITING_BYTES * (len(run.nodes) - run.count_prepared)
        return held_bytes

    def make_launches(self) -> None:
        """Makes the launches of the graphs, which loads what is needed for that; nothing runs."""
        for run in self._runs:
            if isinstance(run, GraphRun):
                run.make_launches()

    def run(self, given: Mapping[str, Any], *, on_device: bool) -> dict[str, Any]:
        """The outputs by the model's names: with `on_device` where they were computed, else on the host."""
        return self.outputs(self.values(given), on_device=on_device)

    def outputs(self, values: Mapping[str, Any], *, on_device: bool) -> dict[str, Any]:
        """Converts the result of `values` to that of `run`."""
        return {name: self._output(value, on_device=on_device) for name, value in values.items()}

    def values(self, given: Mapping[str, Any], calls: GraphCalls | None = None) -> dict[str, Any]:
        """The outputs by name, as the parts pass them; `calls` receives the graphs that ran."""
        values = dict(given)
        for run in self._runs:
            if isinstance(run, GraphRun):
                run(values, calls, is_late=self._is_late)
            else:
                run(values, calls)
        return {name: values[value.name] if value.array is None else value.array for name, value in self._program.outputs.items()}

    def _output(self, value: Any, *, on_device: bool) -> Any:
        if on_device and isinstance(value, DeviceTensor):
            return value.elements(self._context.device)
        if isinstance(value, np.ndarray):
            return value.copy()
        if isinstance(value, list):
            return [self._output(item, on_device=on_device) for item in value]
        return value if on_device else self._context.to_host(value)

    def plan(self) -> ModelPlan:
        """See `CompiledModel.explain_plan`."""
        from dmlpy.onnx.runtime.plans import ModelPlan

        parts: list[Any] = []
        graphs = [run for run in self._runs if isinstance(run, GraphRun)]
        for run in self._runs:
            if isinstance(run, GraphRun):
                parts.append(run.prepared.explain_plan())
            else:
                parts.append(tuple(node.proto.name or node.proto.op_type for node in run.nodes))
        properties = [run.compiled.binding_properties for run in graphs]
        weights = sum(item.persistent_resource_size for item in properties)
        return ModelPlan(tuple(parts), weights, max((item.temporary_resource_size for item in properties), default=0))

    def compare(self, given: Mapping[str, Any], device: Device | str, tolerance: float | None) -> ModelComparison:
        """See `CompiledModel.compare`."""
        from dmlpy.comparison import compare
        from dmlpy.onnx.runtime.plans import ModelComparison

        values = dict(given)
        comparisons = []
        compiled_for = self._context.device
        for run in self._runs:
            if isinstance(run, GraphRun):
                inputs = {name: compiled_for.to_host(array) for name, array in run.inputs(values).items()} | all_elements(run.part.owned)
                comparisons.append(compare(run.part.graph, inputs, (compiled_for, device), tolerance=tolerance))
            run(values)
        return ModelComparison(tuple(comparisons))


class _HostRun:
    """Nodes that are not in a graph yet.

    Args:
        part: the nodes.
        context: the target of their compilation when their inputs are available.
        tried: whether they were just compiled: then the first of them stays on the host.
    """

    def __init__(self, part: HostPart, context: CompileContext, *, tried: bool) -> None:
        self.nodes = part.nodes
        self._context = context
        count = next((place for place, node in enumerate(part.nodes) if not (node.stays or (tried and place == 0))), len(part.nodes))
        prepared, waiting = part.nodes[:count], part.nodes[count:]
        self._own = [prepare_host_node(node, context) for node in prepared]
        self._owned = part.owned
        length = _TOGETHER if context.depth >= _MOST_NESTED else max(len(waiting), 1)
        groups = [waiting[start : start + length] for start in range(0, len(waiting), length)]
        self._waiting = [self._prepare_waiting(group, groups[place + 1 :], part) for place, group in enumerate(groups)]

    @property
    def count_prepared(self) -> int:
        """The number of nodes that do not wait."""
        return len(self._own)

    def _prepare_waiting(self, nodes: Sequence[HostNode], later: Sequence[Sequence[HostNode]], part: HostPart) -> SharedNodes:
        """Nodes that are compiled when their inputs are available.

        Args:
            nodes: the nodes.
            later: the ones that wait for them.
            part: the part that all of them belong to.
        """
        results = [name for node in nodes for name in node.results]
        reads = {name: value for node in nodes for name, value in node.reads.items() if name not in results}
        wanted = {*part.writes, *(name for group in later for node in group for name in node.reads)}
        return SharedNodes(nodes, reads, [name for name in results if name in wanted], self._context)

    def __call__(self, values: dict[str, Any], calls: GraphCalls | None = None) -> None:
        if calls is not None and self._own:
            calls.is_whole = False
        values.update(self._owned)
        for node, run in zip(self.nodes, self._own, strict=False):  # the others wait
            if calls is None or calls.wait is None:
                run(values)
                continue
            calls.wait()
            began = time.perf_counter_ns()
            run(values)
            us = (time.perf_counter_ns() - began) / 1000.0
            calls.on_host.append(HostCall(node.proto.name or node.proto.op_type, node.proto.op_type, us, len(calls.graphs)))
        for waiting in self._waiting:
            values.update(waiting(values, calls))


def compile_deferred(program: Program, context: CompileContext) -> CompiledProgram:
    """Prepares a program that was built from run-time values."""
    return CompiledProgram(program, replace(context, depth=context.depth + 1), late=True)
