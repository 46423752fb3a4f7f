"""`BoundRunCache`: runs of a model in parts, whose graphs are bound together for recurring sizes."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dmlpy.onnx.runtime.bound_graphs import BoundGraph, copied_bytes
from dmlpy.onnx.runtime.cache import NODE_BYTES, LRUCache
from dmlpy.onnx.runtime.graph_runs import DeviceTensor, GraphCalls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices import Device
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.runtime.compiled_program import CompiledProgram
    from dmlpy.onnx.runtime.graph_runs import GraphCall, GraphRun

_LAUNCH_BYTES = 1 << 12
"""The bytes of a node's launch, without tensors."""

_MOST_OF_KEPT = 1 / 8
"""The largest share of the cache for the runs of one set of sizes, which have memory for each tensor between graphs."""

_SEEN_BYTES, _MOST_SEEN = 1 << 10, 1 << 20
"""The bytes to remember one set of sizes, and the most bytes for all."""

Source: TypeAlias = "str | tuple[int, str]"
"""The source of a value: an input of the model by its name, or an output of a graph by the graph's index and its name there."""


@dataclass(frozen=True, eq=False)
class _Step:
    """A graph bound to its memory, except for the model's inputs and outputs.

    Attributes:
        run: the graph.
        bound: the graph with its memory.
        reads: the sources of the inputs that each run rebinds, with their values in the graph.
        writes: its outputs that are new in each run.
    """

    run: GraphRun
    bound: BoundGraph
    reads: Sequence[tuple[str, Value, Source]]
    writes: Sequence[tuple[str, Value, Source]]


class BoundRuns:
    """The graphs of a run, bound together: tensors between graphs stay in place. One thread at a time runs it.

    Args:
        calls: the graphs, as they ran.
        sources: the inputs of that run by `id`.
        outputs: the outputs of that run.
        device: where it ran.
        stream: the identity of the stream that it ran in: in another one, scratch would be used while earlier runs still use it.

    Attributes:
        held_bytes: about the bytes that it holds.
    """

    def __init__(self, calls: Sequence[GraphCall], sources: dict[int, Source], outputs: Mapping[str, Any], device: Device, stream: int):
        self._device, self._stream = device, stream
        self._lock = threading.Lock()
        for at, call in enumerate(calls):
            sources |= {id(held): (at, name) for name, held in call.writes.items()}
        self._outputs = {name: sources[id(held)] for name, held in outputs.items()}
        changing = {source for source in sources.values() if isinstance(source, str)} | {*self._outputs.values()}
        self._steps = []
        for at, call in enumerate(calls):
            read = {name: sources[id(held)] for name, held in call.reads.items()}
            written: dict[str, Source] = {name: (at, name) for name in call.writes}
            reads = [(name, call.run.part.reads[name], source) for name, source in read.items() if source in changing]
            writes = [(name, call.run.part.writes[name], source) for name, source in written.items() if source in changing]
            fixed = {
                name: held.array for name, held in (*call.reads.items(), *call.writes.items()) if (read | written)[name] not in changing
            }
            bound = BoundGraph(call.run.prepared, device, fixed, device.current_stream())
            self._steps.append(_Step(call.run, bound, reads, writes))
        self.held_bytes = _held_bytes(calls, device)

    def values(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """The outputs as `Specialized.values` returns them; None if it cannot run here and now."""
        stream = self._device.current_stream()
        if self._device.stream_identity(stream) != self._stream or self._device.is_capturing(stream):
            return None
        if not self._lock.acquire(blocking=False):
            return None
        try:
            held: dict[Source, Any] = {}
            held.update(given)
            for step in self._steps:
                self._run(step, held, stream)
        finally:
            self._lock.release()
        return {name: held[source] for name, source in self._outputs.items()}

    def _run(self, step: _Step, held: dict[Source, Any], stream: int) -> None:
        inputs = {name: step.run.read(value, held[source]) for name, value, source in step.reads}
        outputs = step.bound(inputs, stream)
        for name, value, source in step.writes:
            held[source] = DeviceTensor(outputs[name], value)


def _held_bytes(calls: Sequence[GraphCall], device: Device) -> int:
    """The bytes of scratch, of tensors between graphs, of launches, and of the graphs that are compiled for these sizes only."""
    late = {call.run for call in calls if call.is_late}
    found = sum(run.held_bytes + NODE_BYTES * len(run.part.graph.nodes) for run in late)
    for call in calls:
        properties = call.run.compiled.binding_properties
        found += (
            properties.temporary_resource_size + copied_bytes(call.run.prepared, device) + _LAUNCH_BYTES * len(call.run.part.graph.nodes)
        )
        found += sum(call.run.prepared.outputs[name].extent_in_bytes for name in call.writes)
    return found


class BoundRunCache:
    """Runs a model in parts; when sizes recur, binds the graphs of the run together. Thread-safe.

    A run with nodes on the host, or whose parts depend on elements, is not bound.

    Args:
        device: where it runs.
        cache: caches the bound runs.
    """

    def __init__(self, device: Device, cache: LRUCache) -> None:
        self._device, self._cache = device, cache
        self._seen = LRUCache(_MOST_SEEN)

    def values(self, form: CompiledProgram, given: Mapping[str, Any], sizes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The outputs as the form's `values` returns them.

        Args:
            form: the model in parts.
            given: its inputs.
            sizes: the sizes of those that are tensors.
        """
        key = form, tuple([tuple(own) for own in sizes.values()])
        bound: BoundRuns | None = self._cache.get(key)
        if bound is not None:
            found = bound.values(given)
            return form.values(given) if found is None else found
        visits: int | None = self._seen.get(key)
        if visits is None:
            found = form.values(given)
            self._seen.put(key, 1, _SEEN_BYTES)
            return found
        stream = self._device.current_stream()
        if visits > 1 or self._device.is_capturing(stream):
            return form.values(given)
        self._seen.put(key, visits + 1, _SEEN_BYTES)
        return self._bind_calls(form, given, key, stream)

    def _bind_calls(self, form: CompiledProgram, given: Mapping[str, Any], key: Any, stream: int) -> dict[str, Any]:
        """Runs the form, and binds its graphs together."""
        # A separate object for each input distinguishes them, also if one array is passed for several.
        given = {name: held.view() if isinstance(held, np.ndarray) else held for name, held in given.items()}
        calls = GraphCalls()
        found = form.values(given, calls)
        sources: dict[int, Source] = {id(held): name for name, held in given.items()}
        known = sources.keys() | {id(held) for call in calls.made for held in call.writes.values()}
        handed = [*found.values(), *(held for call in calls.made for held in call.reads.values())]
        is_distinct = len(sources) == len(given)
        if calls.is_whole and is_distinct and all(id(held) in known for held in handed):
            bound = BoundRuns(calls.made, sources, found, self._device, self._device.stream_identity(stream))
            if bound.held_bytes <= self._cache.max_bytes * _MOST_OF_KEPT:
                self._cache.put(key, bound, bound.held_bytes)
        return found
