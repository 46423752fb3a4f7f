"""Runs of ONNX models over resources."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.int4 import pack_int4, unpack_int4
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices import Memory
from dmlpy.dxdispatch.onnx_dispatchables import data_type_in_buffer, nbytes
from dmlpy.dxdispatch.resources import with_memory
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import BindError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices import Device
    from dmlpy.devices.reporting.profile import Profile
    from dmlpy.dxdispatch.bindings import Range
    from dmlpy.dxdispatch.onnx_dispatchables import OnnxDispatch
    from dmlpy.dxdispatch.resources import Resource
    from dmlpy.onnx import CompiledModel
    from dmlpy.onnx.loading.values import Value


class BoundModel:
    """An ONNX model bound to resources. Each call reads those of its inputs and writes those of its outputs, in the device's memory.

    Args:
        action: the dispatch.
        compiled: the model for the dispatch's sizes.
        device: where it runs.
        memory: the memory of the resources by name; a deferred one gets some from each call.
        resources: the resources as they are now, by name; a deferred one gets its type and size from each call.
    """

    def __init__(
        self, action: OnnxDispatch, compiled: CompiledModel, device: Device, memory: dict[str, Memory], resources: dict[str, Resource]
    ) -> None:
        self._action = action
        self._compiled = compiled
        self._device = device
        self._memory = memory
        self._resources = resources
        free = {name: value for name, value in action.sized.inputs.items() if name not in action.inputs}
        purpose = f"the inputs of dispatchable {action.dispatchable.name!r} that have no resource"
        device.require(sum(math.prod(value.static_sizes) * 8 for value in free.values()), purpose)
        self._zeros: dict[str, Any] = {name: _zeros(value) for name, value in free.items()}

    def __call__(self, stream: int) -> None:
        outputs: Mapping[str, Any] = self._compiled.run(self._inputs(stream), outputs="device")
        values = self._action.sized.interpretation(self._compiled.feature_level).outputs
        for name, (place, sizes) in self._action.outputs.items():
            self._write(values[name], outputs[name], place, sizes, stream)

    def profile(self, *, stream: int) -> Profile:
        """Measures the model node by node, without what reads and writes the resources."""
        return self._compiled.profile(self._inputs(stream))

    def _inputs(self, stream: int) -> dict[str, Any]:
        arrays = {name: self._read(self._action.sized.inputs[name], place, stream) for name, place in self._action.inputs.items()}
        return self._zeros | arrays

    def _read(self, value: Value, place: Range, stream: int) -> Any:
        """An input with the contents of its resource."""
        from dmlpy.onnx.loading.elements import dtype_of

        dtype, sizes = dtype_of(value.element or 0), value.static_sizes
        data_type = data_type_in_buffer(value)
        assert data_type is not None, "checked when the model was loaded"
        if 0 in sizes:
            return np.empty(sizes, dtype)
        pointer, size = self._memory[place.resource.name].pointer + place.offset, nbytes(value, sizes)
        if data_type.bits == 4:
            packed = np.frombuffer(self._device.read(pointer, size, stream), np.uint8)
            return unpack_int4(packed, data_type, sizes).astype(dtype)
        array = self._device.empty(TensorDesc(data_type=data_type, sizes=value.tensor_sizes), stream)
        self._device.copy(self._device.view(array).pointer, pointer, size, stream)
        return array.view(dtype).reshape(sizes)

    def _write(self, value: Value, array: Any, place: Range, sizes: tuple[int, ...] | None, stream: int) -> None:
        """Copies an output into its resource."""
        name, shape = value.name, tuple(array.shape)
        if sizes is not None and shape != sizes:
            subject = f"dispatchable {self._action.dispatchable.name!r}"
            raise BindError(subject, [Problem("bind.shape", name, f"of sizes {listed(shape)}", f"the given shape, {listed(sizes)}")])
        data_type = data_type_in_buffer(value)
        assert data_type is not None, "checked when the model was loaded"
        size = nbytes(value, shape)
        if isinstance(array, np.ndarray):
            packed = pack_int4(array) if data_type.bits == 4 else np.ascontiguousarray(array)
            source = self._device.upload(packed.reshape(-1).view(np.uint8), stream)
        else:
            source = Memory(self._device.view(array).pointer, size, array)
        resource = self._resources[place.resource.name]
        if place.resource.deferred:
            device = self._device
            self._memory[resource.name] = source
            self._resources[resource.name] = with_memory(
                place.resource,
                data_type,
                math.prod(shape),
                lambda: np.frombuffer(device.read(source.pointer, size, device.current_stream()), np.uint8),
            )
        elif size:
            self._device.copy(self._memory[resource.name].pointer + place.offset, source.pointer, size, stream)


def _zeros(value: Value) -> np.ndarray[Any, Any]:
    from dmlpy.onnx.loading.elements import dtype_of

    dtype = dtype_of(value.element or 0)
    return np.full(value.static_sizes, "", dtype) if dtype.kind in "OU" else np.zeros(value.static_sizes, dtype)
