"""`BoundRunCache`: runs of a model, whose graphs are bound together for recurring sizes."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from dmlpy.onnx.lowering.cache import NODE_BYTES, LRUCache
from dmlpy.onnx.runtime.bound_graphs import BoundGraph
from dmlpy.onnx.runtime.bound_steps import RunTensor, Source, Step
from dmlpy.onnx.runtime.graph_runs import DeviceTensor, GraphCalls
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from dmlpy.devices import Device
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.runtime.graph_runs import GraphCall
    from dmlpy.onnx.runtime.loop_iterations import LoopFlow, LoopIterations

_LAUNCH_BYTES = 1 << 12
"""The bytes of a node's launch, without tensors."""

_MOST_OF_KEPT = 1 / 8
"""The largest share of the cache for the runs of one set of sizes, which have memory for each tensor between graphs."""

_SEEN_BYTES, _MOST_SEEN = 1 << 10, 1 << 20
"""The bytes to remember one set of sizes, and the most bytes for all."""

Signature: TypeAlias = "tuple[Hashable, ...]"
"""The types and sizes of the inputs of a model, in its order."""

Compute: TypeAlias = "Callable[[Mapping[str, Any], GraphCalls | None], dict[str, Any]]"
"""Computes outputs from inputs, by name; the calls receive the graphs that ran."""


class Form(Protocol):
    """A model for some inputs, as `CompiledProgram` is one."""

    def values(self, given: Mapping[str, Any], calls: GraphCalls | None = None) -> dict[str, Any]:
        """The outputs as the parts pass them; `calls` receives the graphs that ran."""

    def outputs(self, values: Mapping[str, Any], *, on_device: bool) -> dict[str, Any]:
        """Converts the result of `values` to what a run returns."""


class BoundRuns:
    """The graphs of a run, bound together: tensors between graphs stay in place. One thread at a time runs it.

    Args:
        calls: the graphs, as they ran.
        sources: the inputs of that run by `id`.
        outputs: the outputs of that run.
        device: where it ran.
        stream: the identity of the stream that it ran in: in another one, scratch would be used while earlier runs still use it.
    """

    def __init__(self, calls: Sequence[GraphCall], sources: dict[int, Source], outputs: Mapping[str, Any], device: Device, stream: int):
        self._device, self._stream = device, stream
        self._lock = forks.lock()
        self._is_repeatable = True
        """Whether `iterations` may give what repeats the run; each node of a loop has bound runs of its own."""
        self._iterations: LoopIterations | None = None
        for at, call in enumerate(calls):
            sources |= {id(tensor): (at, name) for name, tensor in call.writes.items()}
        self._sources = {name: sources[id(tensor)] for name, tensor in outputs.items() if id(tensor) in sources}
        self._constants = {name: tensor for name, tensor in outputs.items() if name not in self._sources}
        """Outputs that are known before the model runs: what is neither given nor written by a graph, where nothing ran on the host."""
        self._kept = {name for name, source in self._sources.items() if isinstance(source, str)} | self._constants.keys()
        changing = {source for source in sources.values() if isinstance(source, str)} | {*self._sources.values()}
        self._steps = []
        for at, call in enumerate(calls):
            read = {name: sources[id(tensor)] for name, tensor in call.reads.items()}
            written: dict[str, Source] = {name: (at, name) for name in call.writes}
            reads = [(name, call.run.part.reads[name], source) for name, source in read.items() if source in changing]
            writes = [(name, call.run.part.writes[name], source) for name, source in written.items() if source in changing]
            fixed = {
                name: tensor.array for name, tensor in (*call.reads.items(), *call.writes.items()) if (read | written)[name] not in changing
            }
            known = None if fixed or call.is_late else call.run.take_bound(stream)
            bound = BoundGraph(call.run.prepared, call.run.copied, device, fixed, device.current_stream()) if known is None else known
            self._steps.append(Step(bound, call.run, reads, writes))

    def outputs(self, given: Mapping[str, Any], *, on_device: bool) -> dict[str, Any] | None:
        """The outputs as `CompiledProgram.run` returns them; None if it cannot run here and now.

        Args:
            given: as for `values`.
            on_device: whether they stay in the device's memory.
        """
        values: dict[str, Any] | None = self.values(given)
        if values is None:
            return None
        for name, tensor in values.items():
            if isinstance(tensor, DeviceTensor):
                values[name] = tensor.elements(self._device) if on_device else tensor.to_host(self._device)
            elif name in self._kept:
                values[name] = tensor.copy() if isinstance(tensor, np.ndarray) or on_device else self._device.to_host(tensor)
        return values

    def values(self, given: Mapping[str, Any]) -> dict[str, RunTensor] | None:
        """The outputs, in memory that no other run writes; None if it cannot run here and now.

        Args:
            given: the inputs, of the types and sizes of the first run.
        """
        stream = self._acquire()
        if stream is None:
            return None
        try:
            tensors: dict[Source, RunTensor] = {}
            tensors.update(given)
            for step in self._steps:
                step(tensors, stream)
        finally:
            self._lock.release()
        values = {name: tensors[source] for name, source in self._sources.items()}
        return values | self._constants if self._constants else values

    @contextmanager
    def iterations(self, given: Mapping[str, Array], flow: LoopFlow) -> Iterator[tuple[LoopIterations, int] | None]:
        """The iterations that repeat the run, and their stream, for exclusive use; None if it cannot be repeated, or not now.

        Args:
            given: the inputs, of the types and sizes of the first run.
            flow: what happens between iterations: always the same.
        """
        stream = self._acquire() if self._is_repeatable else None
        if stream is None:
            yield None
            return
        try:
            if self._iterations is None:
                from dmlpy.onnx.runtime.loop_iterations import LoopIterations  # few models have loops

                with suppress(LookupError):
                    self._iterations = LoopIterations(self._steps, self._sources, self._constants, given, flow, self._device)
            self._is_repeatable = self._iterations is not None
            if self._iterations is None:
                yield None
                return
            self._iterations.begin(given)
            yield self._iterations, stream
        finally:
            self._lock.release()

    def _acquire(self) -> int | None:
        """Makes this thread the only one that runs the graphs; returns the stream, or None if they cannot run here and now."""
        stream = self._device.current_stream()
        if self._device.stream_identity(stream) != self._stream or self._device.is_capturing(stream):
            return None
        return stream if self._lock.acquire(blocking=False) else None


def _held_bytes(calls: Sequence[GraphCall], device: Device) -> int:
    """The bytes of scratch, of tensors between graphs, of launches, and of the graphs that are compiled for these sizes only."""
    late = {call.run for call in calls if call.is_late}
    held_bytes = sum(run.held_bytes + NODE_BYTES * len(run.part.graph.nodes) for run in late)
    for call in calls:
        properties = call.run.compiled.binding_properties
        held_bytes += properties.temporary_resource_size + call.run.copied_bytes + _LAUNCH_BYTES * len(call.run.part.graph.nodes)
        held_bytes += sum(call.run.prepared.outputs[name].extent_in_bytes for name in call.writes)
    return held_bytes


class BoundRunCache:
    """Runs a model; when sizes recur, binds the graphs of the run together. Thread-safe.

    A run with nodes on the host, or whose parts depend on elements, is not bound.

    Args:
        device: where it runs.
        cache: caches the bound runs.
    """

    def __init__(self, device: Device, cache: LRUCache) -> None:
        self._device, self._cache = device, cache
        self._seen = LRUCache(_MOST_SEEN)

    def find(self, key: Signature) -> BoundRuns | None:
        """The graphs that are bound together for inputs of these types and sizes."""
        bound: BoundRuns | None = self._cache.get((BoundRuns, key))
        return bound

    def outputs(self, form: Form, given: Mapping[str, Any], key: Signature | None, *, on_device: bool) -> dict[str, Any]:
        """The outputs as the form's `run` returns them.

        Args:
            form: the model for these inputs.
            given: its inputs.
            key: their types and sizes; None if they are not all tensors.
            on_device: whether outputs stay in the device's memory.
        """
        if key is not None and (bound := self.find(key)) is not None:
            outputs = bound.outputs(given, on_device=on_device)
            if outputs is not None:
                return outputs
        return form.outputs(self._computed(form.values, given, key), on_device=on_device)

    def values(self, compute: Compute, given: Mapping[str, Any], key: Signature | None) -> dict[str, Any]:
        """The result of the function: the outputs of nodes as they are.

        Args:
            compute: runs the nodes, and returns the graphs that ran.
            given: their inputs by name.
            key: the nodes, and the types and sizes of these inputs; None if they are not all arrays of NumPy.
        """
        if key is not None and (bound := self.find(key)) is not None:
            values = bound.values(given)
            if values is not None:
                return values
        return self._computed(compute, given, key)

    def _computed(self, compute: Compute, given: Mapping[str, Any], key: Signature | None) -> dict[str, Any]:
        """The result of the function; the second time for a key, the graphs that run are bound together."""
        visits: int = 0 if key is None else self._seen.get(key) or 0
        if key is None or visits > 1:
            return compute(given, None)
        if visits == 0:
            values = compute(given, None)
            self._seen.put(key, 1, _SEEN_BYTES)
            return values
        stream = self._device.current_stream()
        if self._device.is_capturing(stream):
            return compute(given, None)
        self._seen.put(key, visits + 1, _SEEN_BYTES)
        return self._bind_calls(compute, given, key, stream)

    def _bind_calls(self, compute: Compute, given: Mapping[str, Any], key: Signature, stream: int) -> dict[str, Any]:
        """Runs the nodes, and binds their graphs together."""
        # A separate object for each input distinguishes them, also if one array is passed for several.
        given = {name: tensor.view() if isinstance(tensor, np.ndarray) else tensor for name, tensor in given.items()}
        calls = GraphCalls()
        values = compute(given, calls)
        sources: dict[int, Source] = {id(tensor): name for name, tensor in given.items()}
        known = sources.keys() | {id(tensor) for call in calls.graphs for tensor in call.writes.values()}
        handed = [tensor for call in calls.graphs for tensor in call.reads.values()]
        is_distinct = len(sources) == len(given)
        if calls.is_whole and is_distinct and all(id(tensor) in known for tensor in handed):
            held_bytes = _held_bytes(calls.graphs, self._device)
            if held_bytes <= self._cache.max_bytes * _MOST_OF_KEPT:
                bound = BoundRuns(calls.graphs, sources, values, self._device, self._device.stream_identity(stream))
                self._cache.put((BoundRuns, key), bound, held_bytes)
        return values
