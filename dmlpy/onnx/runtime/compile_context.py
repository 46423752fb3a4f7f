"""`CompileContext`: what the parts of a model are compiled for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.messages.problems import DmlError
from dmlpy.onnx.runtime.deferred_nodes import DeferredLowering, DeferredNodes, value_from_array
from dmlpy.onnx.runtime.graph_runs import DeviceTensor, PackedWeights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from onnx import GraphProto

    from dmlpy.compiler import Flags
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.devices import Device
    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.cache import LRUCache
    from dmlpy.onnx.lowering.programs import Program
    from dmlpy.onnx.runtime.bound_runs import BoundRunCache, Compute
    from dmlpy.onnx.runtime.deferred_nodes import LowerNodes, Runnable
    from dmlpy.onnx.runtime.graph_runs import GraphCalls


@dataclass(frozen=True)
class CompileContext:
    """The device, limits and caches that the parts of a model are compiled with.

    Attributes:
        name: the model's name in messages.
        model: the model.
        device: where its graphs run.
        level: the highest feature level that they use.
        flags: execution flags.
        fuse: whether activations are moved into the operators before them.
        run_late: prepares a program that was built from run-time values: `compile_deferred`.
        cache: forms compiled for run-time sizes.
        recurring: runs of recurring sizes.
        weights: weights packed for other sizes.
        depth: how many programs around this one were built from run-time values, each by a run of the one around it.
    """

    name: str
    model: LoadedModel
    device: Device
    level: FeatureLevel
    flags: Flags | Sequence[Flags]
    fuse: bool
    run_late: Callable[[Program, CompileContext], Runnable]
    cache: LRUCache
    recurring: BoundRunCache
    weights: PackedWeights
    depth: int = 0

    def to_host(self, value: Any) -> Any:
        """A value as a NumPy array; lists of them, maps and None are unchanged."""
        if isinstance(value, DeviceTensor):
            return value.to_host(self.device)
        if isinstance(value, list):
            return [self.to_host(item) for item in value]
        return value if isinstance(value, np.ndarray | dict) or value is None else self.device.to_host(value)

    def lowering_of(self, graph: GraphProto, opsets: Mapping[str, int]) -> LowerNodes:
        """Lowers a subgraph."""
        return lambda lowering, scope: lowering.lower_graph(graph, scope, "", opsets)

    def defer(self, take: LowerNodes, reads: Mapping[str, Value], wanted: Sequence[str]) -> Compute:
        """Creates nodes that are compiled when their inputs are available."""

        def prepare(program: Program) -> Runnable:
            return self.run_late(program, self)

        nodes = DeferredNodes(self.name, self.model, self.level, take, reads, wanted, prepare, self.cache)

        def run(values: Mapping[str, Any], calls: GraphCalls | None) -> dict[str, Any]:
            return nodes(values, self.to_host, calls)

        return run

    def infer_values(
        self, take: LowerNodes, reads: Mapping[str, Value], arrays: Mapping[str, Any], wanted: Sequence[str]
    ) -> dict[str, Value]:
        """The types and sizes of what nodes would give, as far as they follow from what they read.

        Args:
            take: lowers the nodes.
            reads: what they read, by name.
            arrays: the arrays of that, by name.
            wanted: the names of their outputs.
        """
        inputs = {name: value_from_array(name, arrays[name], value) if name in arrays else value for name, value in reads.items()}
        lowering = DeferredLowering(self.model, self.level, inputs=inputs)
        scope = dict(inputs)
        with suppress(DmlError):  # then the nodes could not run, either
            take(lowering, scope)
        return {name: scope[name] for name in wanted if name in scope}
