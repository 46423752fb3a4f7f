"""`GraphRun`: a graph of a model's nodes on a device, `GraphCalls`: those that ran, and `DeviceTensor`: an output of one."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from dmlpy.description.int4 import int4_type
from dmlpy.graphs import ConstantNode
from dmlpy.onnx.loading.elements import dtype_of
from dmlpy.onnx.loading.load import memory_key
from dmlpy.onnx.loading.stored_weights import StoredWeight, all_elements
from dmlpy.onnx.lowering.stages import to_elements, to_tensor
from dmlpy.onnx.runtime.bound_graphs import BoundGraph, copied_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping

    from dmlpy.devices import Device
    from dmlpy.devices.graphs import CompiledGraph, PreparedGraph
    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.lowering.programs import GraphPart

_MOST_BOUND = 8
"""The most bound instances of a graph that are cached: as many threads or streams can run it without rebinding."""

_MOST_COMPARED = 4096
"""The most bytes of an array whose elements are compared with those of others."""


class DeviceTensor:
    """An output of a graph, in the device's memory."""

    def __init__(self, array: Any, value: Value) -> None:
        self.array = array
        self.value = value

    def elements(self, device: Device) -> Any:
        """The tensor with ONNX's type and sizes, where it is; in host memory where NumPy has no type of as few bits."""
        dtype = dtype_of(self.value.element or 0)
        array = self.array
        if int4_type(dtype):
            return self.to_host(device)
        if array.dtype != dtype and array.dtype.itemsize == dtype.itemsize:
            array = array.view(dtype)
        return array.reshape(self.value.static_sizes) if self.value.is_static and array.shape != self.value.static_sizes else array

    def to_host(self, device: Device) -> Any:
        """The tensor with ONNX's type and sizes as an array of NumPy."""
        return to_elements(self.value, device.to_host(self.array))


@dataclass(frozen=True, eq=False)
class GraphCall:
    """A graph that ran.

    Attributes:
        run: the graph.
        is_late: whether it was compiled for run-time sizes.
        reads: the values that it read, by its names.
        writes: the values that it computed, by its names.
    """

    run: GraphRun
    is_late: bool
    reads: Mapping[str, Any]
    writes: Mapping[str, DeviceTensor]


@dataclass(frozen=True, eq=False)
class HostCall:
    """A node that ran on the host.

    Attributes:
        name: the node's name.
        op_type: its operator.
        us: the microseconds that it took, with the copies of its inputs to the host.
        after: how many graphs had run before it.
    """

    name: str
    op_type: str
    us: float
    after: int


@dataclass(eq=False)
class GraphCalls:
    """The graphs that one run of a model consists of.

    Attributes:
        graphs: these graphs, in the order in which they ran.
        is_whole: whether they are the whole run, also for all other inputs of these sizes.
        wait: waits for the work of graphs, before a node on the host is timed; None if those nodes are not timed.
        on_host: the nodes that were timed on the host, in order.
    """

    graphs: list[GraphCall] = field(default_factory=list)
    is_whole: bool = True
    wait: Callable[[], None] | None = None
    on_host: list[HostCall] = field(default_factory=list)


class PackedWeights:
    """The packed weights of a model's graphs, shared by graphs of other sizes with the same packing. Thread-safe."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._packed: WeakValueDictionary[Hashable, PreparedGraph] = WeakValueDictionary()

    def prepare(self, part: GraphPart, compiled: CompiledGraph) -> tuple[PreparedGraph, bool]:
        """The graph of a part, prepared, and whether it packed the weights itself."""
        key: tuple[Hashable, ...] = tuple((name, self._identity(array)) for name, array in part.owned.items())
        if not compiled.binding_properties.persistent_resource_size or any(self._identity(array) is None for array in part.owned.values()):
            return self._prepared(part, compiled), True
        key += tuple((node.name, id(node.data)) for node in part.graph.nodes if isinstance(node, ConstantNode))
        known = self._packed.get(key)
        shared = None if known is None else known.shared_with(compiled)
        prepared = self._prepared(part, compiled) if shared is None else shared
        self._packed[key] = prepared  # replaces the other, which is freed sooner
        return prepared, shared is None

    def _prepared(self, part: GraphPart, compiled: CompiledGraph) -> PreparedGraph:
        return _prepare(part, compiled, [name for name, array in part.owned.items() if self._model.holds(array)])

    def _identity(self, array: Array) -> Hashable:
        """The identity of an array: its address if its memory is permanent, its elements if they are few, else None."""
        if self._model.holds(array):
            return memory_key(array)
        return (array.dtype, array.shape, array.tobytes()) if array.nbytes <= _MOST_COMPARED else None


def _prepare(part: GraphPart, compiled: CompiledGraph, immutable: Collection[str] = ()) -> PreparedGraph:
    owned = all_elements(part.owned)
    stored = {name: array for name, array in part.owned.items() if isinstance(array, StoredWeight)}

    def release(name: str) -> None:
        """Frees a weight before the next one is packed: the weights are never in memory twice as a whole."""
        if name in stored:
            stored[name].release()
        del owned[name]

    prepared = compiled.prepare(owned, copy=True, immutable=immutable, on_packed=release)
    compiled.device.synchronize(compiled.device.current_stream())  # runs may use other streams
    for weight in stored.values():
        weight.release()
    return prepared


class GraphRun:
    """A prepared graph with the dispatches that earlier runs bound.

    Attributes:
        copied: the inputs and outputs that bound graphs copy, by name.
        copied_bytes: the most bytes that a bound graph allocates for them.
        held_bytes: the bytes of packed weights that it does not share, and of the memory of a run.
    """

    def __init__(self, part: GraphPart, compiled: CompiledGraph, device: Device, weights: PackedWeights | None = None) -> None:
        self.part = part
        self.compiled = compiled
        self.prepared, packs = (_prepare(part, compiled), True) if weights is None else weights.prepare(part, compiled)
        properties = compiled.binding_properties
        self.copied = copied_tensors(self.prepared, device)
        self.copied_bytes = sum([desc.extent_in_bytes for desc in self.copied.values()])
        self.held_bytes = properties.temporary_resource_size + self.copied_bytes
        self.held_bytes += properties.persistent_resource_size if packs else 0
        self._device = device
        self._free: deque[tuple[int, BoundGraph]] = deque(maxlen=_MOST_BOUND)
        """Bound graphs with the stream of their last run: in another one they would use their scratch while that run still does."""

    def inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays that the graph is bound to, in the device's memory."""
        return {name: self.read(value, values[name]) for name, value in self.part.reads.items()}

    def read(self, value: Value, tensor: Any) -> Any:
        """The array of a value in the form that the graph binds."""
        if isinstance(tensor, DeviceTensor):
            return tensor.array
        if isinstance(tensor, np.ndarray):
            return self._device.from_host(to_tensor(value, tensor))
        array = tensor.reshape(value.tensor_sizes)
        return array.view(np.uint8) if array.dtype == np.bool_ else array

    def __call__(self, values: dict[str, Any], calls: GraphCalls | None = None, *, is_late: bool = False) -> None:
        """Runs the graph.

        Args:
            values: its inputs by name; receives its outputs.
            calls: receives this call.
            is_late: whether the graph was compiled for run-time sizes.
        """
        inputs = self.inputs(values)
        stream = self._device.current_stream()
        identity = self._device.stream_identity(stream)
        # A CUDA graph that captures this run uses the scratch in every launch, so it owns the scratch; no other run may use it.
        is_captured = self._device.is_capturing(stream)
        bound = None if is_captured else self.take_bound(identity)
        if bound is None:
            bound = BoundGraph(self.prepared, self.copied, self._device, {}, stream)
        outputs = bound(inputs, stream)
        if not is_captured:
            self._free.append((identity, bound))
        written = {name: DeviceTensor(outputs[name], value) for name, value in self.part.writes.items()}
        if calls is not None:
            calls.graphs.append(GraphCall(self, is_late, {name: values[name] for name in self.part.reads}, written))
        values.update(written)

    def make_launches(self) -> None:
        """Makes the launches of a run, in memory that is freed again."""
        stream = self._device.current_stream()
        inputs, outputs = (
            {name: self._device.empty(desc, stream) for name, desc in descs.items()}
            for descs in (self.prepared.inputs, self.prepared.outputs)
        )
        self.prepared.bind(inputs, outputs)

    def take_bound(self, stream: int) -> BoundGraph | None:
        """A bound graph that last ran in this stream, which no other thread has taken."""
        for item in tuple(self._free):
            if item[0] == stream:
                with suppress(ValueError):  # another thread has taken it
                    self._free.remove(item)
                    return item[1]
        return None
