"""`Specialized`: a model compiled for given sizes of its inputs, and its runs."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.comparison import compare
from dmlpy.compiler import compile as compile_graph
from dmlpy.description.enums import HResult
from dmlpy.nibbles import int4_type, pack_int4
from dmlpy.onnx.elements import dtype_of
from dmlpy.onnx.plans import ModelComparison, ModelPlan
from dmlpy.onnx.programs import GraphPart, HostPart
from dmlpy.onnx.stages import as_elements
from dmlpy.validation.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.compiler import Flags
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.devices import Device
    from dmlpy.devices.graphs import CompiledGraph, GraphDispatch, PreparedGraph
    from dmlpy.onnx.host import HostProgram
    from dmlpy.onnx.programs import Program
    from dmlpy.onnx.values import Value

_MOST_BOUND = 8
"""The most dispatches of a graph that are kept for further runs: as many threads or streams run it without binding it anew."""


class _OnDevice:
    """A tensor that a graph gave, in the device's memory."""

    def __init__(self, array: Any, value: Value) -> None:
        self.array = array
        self.value = value

    def elements(self, device: Device) -> Any:
        """The tensor with ONNX's type and sizes, where it is; in host memory where NumPy has no type of as few bits."""
        dtype = dtype_of(self.value.element or 0)
        array = self.array
        if int4_type(dtype):
            return self.on_host(device)
        if array.dtype != dtype and array.dtype.itemsize == dtype.itemsize:
            array = array.view(dtype)
        return array.reshape(self.value.static_sizes) if self.value.is_static and array.shape != self.value.static_sizes else array

    def on_host(self, device: Device) -> Any:
        """The tensor with ONNX's type and sizes as an array of NumPy."""
        return as_elements(self.value, device.to_host(self.array))


class _GraphRun:
    """A prepared graph with the dispatches that earlier runs bound."""

    def __init__(self, part: GraphPart, compiled: CompiledGraph, device: Device) -> None:
        self.part = part
        self.compiled = compiled
        self.prepared: PreparedGraph = compiled.prepare(part.owned, copy=True)
        self._device = device
        self._free: deque[tuple[int, GraphDispatch]] = deque(maxlen=_MOST_BOUND)
        """Dispatches with the stream of their last run: in another one they would use their scratch while that run still does."""

    def inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays that the graph is bound to, in the device's memory."""
        return {name: self._read(value, values[name]) for name, value in self.part.reads.items()}

    def _read(self, value: Value, held: Any) -> Any:
        if isinstance(held, _OnDevice):
            return held.array
        if isinstance(held, np.ndarray):
            packed = np.ascontiguousarray(held).reshape(value.tensor_sizes)
            if packed.dtype == np.bool_:
                packed = packed.view(np.uint8)
            return self._device.from_host(pack_int4(packed) if int4_type(packed.dtype) else packed)
        array = held.reshape(value.tensor_sizes)
        return array.view(np.uint8) if array.dtype == np.bool_ else array

    def __call__(self, values: dict[str, Any]) -> None:
        inputs = self.inputs(values)
        stream = self._device.current_stream()
        outputs = {name: self._device.empty(self.prepared.outputs[name], stream) for name in self.prepared.outputs}
        identity = self._device.stream_identity(stream)
        dispatch = self._taken(identity)
        if dispatch is None:
            dispatch = self.prepared.bind(inputs, outputs)
        else:
            dispatch.rebind(**inputs, **outputs)
        dispatch(stream)
        self._free.append((identity, dispatch))
        values.update({name: _OnDevice(outputs[name], value) for name, value in self.part.writes.items()})

    def _taken(self, stream: int) -> GraphDispatch | None:
        """A dispatch that last ran in this stream, which no other thread has taken."""
        for item in tuple(self._free):
            if item[0] == stream:
                with suppress(ValueError):  # another thread was first
                    self._free.remove(item)
                    return item[1]
        return None


class Specialized:
    """A model compiled for given sizes of its inputs. Threads may share it.

    Args:
        name: what messages call the model.
        program: what it runs.
        device: where its graphs run.
        feature_level: the highest level that they use.
        flags: execution flags.
        fuse: whether activations are moved into the operators before them.
    """

    def __init__(
        self, name: str, program: Program, device: Device, feature_level: FeatureLevel, flags: Flags | Sequence[Flags], *, fuse: bool
    ) -> None:
        self._name = name
        self._program = program
        self._device = device
        self._runs: list[_GraphRun | list[HostProgram]] = []
        for part in program.parts:
            if isinstance(part, GraphPart):
                self._runs.append(_GraphRun(part, compile_graph(part.graph, device, feature_level, flags, fuse=fuse), device))
            else:
                self._runs.append(part.programs())
        self._host_lock = threading.Lock()

    def run(self, given: Mapping[str, Any], *, on_device: bool) -> dict[str, Any]:
        """The outputs by the model's names: with `on_device` where they were made, else on the host."""
        values = dict(given)
        for part, run in zip(self._program.parts, self._runs, strict=True):
            self._step(part, run, values)
        return {name: self._output(value, values, on_device=on_device) for name, value in self._program.outputs.items()}

    def _step(self, part: GraphPart | HostPart, run: _GraphRun | list[HostProgram], values: dict[str, Any]) -> None:
        if isinstance(run, _GraphRun):
            run(values)
            return
        known = dict(part.owned) | {name: self._on_host(values[name]) for name in part.reads}
        try:
            with self._host_lock:
                for program in run:
                    known.update(program(known))
        except MemoryError:
            text = f"the host has no memory left for a node of {self._name}"
            raise DeviceError(text, hresult=HResult.E_OUTOFMEMORY) from None
        values.update({name: known[name] for name in part.writes})

    def _on_host(self, held: Any) -> Any:
        if isinstance(held, _OnDevice):
            return held.on_host(self._device)
        return held if isinstance(held, np.ndarray | list) or held is None else self._device.to_host(held)

    def _output(self, value: Value, values: Mapping[str, Any], *, on_device: bool) -> Any:
        held = value.array if value.array is not None else values[value.name]
        if on_device and isinstance(held, _OnDevice):
            return held.elements(self._device)
        if isinstance(held, np.ndarray):
            return held.copy()
        return held if on_device else self._on_host(held)

    def plan(self) -> ModelPlan:
        """See `CompiledModel.explain_plan`."""
        parts: list[Any] = []
        graphs = [run for run in self._runs if isinstance(run, _GraphRun)]
        for part, run in zip(self._program.parts, self._runs, strict=True):
            if isinstance(run, _GraphRun):
                parts.append(run.prepared.explain_plan())
            elif isinstance(part, HostPart):
                parts.append(tuple(node.proto.name or node.proto.op_type for node in part.nodes))
        properties = [run.compiled.binding_properties for run in graphs]
        weights = sum(item.persistent_resource_size for item in properties)
        return ModelPlan(tuple(parts), weights, max((item.temporary_resource_size for item in properties), default=0))

    def compare(self, given: Mapping[str, Any], device: Device | str, tolerance: float | None) -> ModelComparison:
        """See `CompiledModel.compare`."""
        values = dict(given)
        found = []
        for part, run in zip(self._program.parts, self._runs, strict=True):
            if isinstance(run, _GraphRun) and isinstance(part, GraphPart):
                inputs = {name: self._device.to_host(array) for name, array in run.inputs(values).items()} | dict(part.owned)
                found.append(compare(part.graph, inputs, (self._device, device), tolerance=tolerance))
            self._step(part, run, values)
        return ModelComparison(tuple(found))
