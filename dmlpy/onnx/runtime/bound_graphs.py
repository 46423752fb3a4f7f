"""`BoundGraph`: a graph of a model with its memory, for many runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.onnx.lowering.stages import elements_in_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices import Device
    from dmlpy.devices.graphs import GraphDispatch, PreparedGraph
    from dmlpy.devices.plan import Launch
    from dmlpy.onnx.loading.values import Array, Value

_MOST_COPIED = 1 << 17
"""The most bytes of a tensor that is copied: up to this size, in host memory, a copy is faster than binding other memory."""


class BoundGraph:
    """A graph with its memory. Small tensors that change between runs are copied, so they stay bound; others are rebound.

    Args:
        prepared: the graph.
        copied: the inputs and outputs that are copied, as `copied_tensors` finds them.
        device: where it runs.
        fixed: the inputs and outputs that are the same in all runs, by name.
        stream: the stream of all runs.
    """

    def __init__(
        self, prepared: PreparedGraph, copied: Mapping[str, TensorDesc], device: Device, fixed: Mapping[str, Any], stream: int
    ) -> None:
        self._prepared, self._device, self._fixed = prepared, device, fixed
        self._dispatch: GraphDispatch | None = None
        self._writes = [name for name in prepared.outputs if name not in fixed]
        self._own = {name: device.empty(desc, stream) for name, desc in copied.items() if name not in fixed}

    def __call__(self, inputs: Mapping[str, Any], stream: int) -> dict[str, Any]:
        """Runs the graph, and returns the outputs that are not fixed by name; `inputs` has the inputs that are not."""
        outputs = self._own
        changed: dict[str, Any] = {}
        for name, array in inputs.items():
            memory = outputs.get(name)
            if memory is not None and memory.shape == array.shape and memory.dtype == array.dtype:
                memory[...] = array
            else:
                outputs.pop(name, None)
                changed[name] = array
        written = self.launch(changed, stream)
        return {name: written[name] if name in written else outputs[name].copy() for name in self._writes}

    def launch(self, changed: Mapping[str, Any], stream: int) -> dict[str, Any]:
        """Runs the graph with what lies in the memory of the tensors that are copied.

        Args:
            changed: the other inputs that are not fixed, by name.
            stream: the stream.

        Returns:
            The outputs that are neither fixed nor copied, by name.
        """
        outputs = self._own
        written = {name: self._device.empty(self._prepared.outputs[name], stream) for name in self._writes if name not in outputs}
        if self._dispatch is None:
            self._dispatch = self._bind({**changed, **written})
        elif changed or written:
            self._dispatch.rebind(**changed, **written)
        self._dispatch(stream)
        return written

    def launches(self) -> list[Launch] | None:
        """The launches of a run, in order, if all inputs and outputs are fixed or copied; None if it does more than launch."""
        if self._dispatch is None:
            self._dispatch = self._bind({})
        return self._dispatch.launches()

    def _bind(self, others: Mapping[str, Any]) -> GraphDispatch:
        """Binds the graph to the memory that is fixed, to its own, and to that of the other inputs and outputs."""
        bound = {**self._fixed, **self._own, **others}
        outputs = {name: bound.pop(name) for name in self._prepared.outputs}
        return self._prepared.bind(bound, outputs)

    def elements(self, name: str, value: Value) -> Array | None:
        """The memory of a tensor that is copied, with ONNX's type and sizes; None if the tensor is not copied, or not from now on."""
        memory = self._own.get(name)
        elements = None if memory is None else elements_in_place(value, memory)
        if elements is None:
            self._own.pop(name, None)
        return elements


def copied_tensors(prepared: PreparedGraph, device: Device) -> dict[str, TensorDesc]:
    """The inputs and outputs that are copied, by name."""
    if device.memory_kind != "cpu":
        return {}
    descs = {**prepared.inputs, **prepared.outputs}
    return {name: desc for name, desc in descs.items() if desc.extent_in_bytes <= _MOST_COPIED and desc.memory.is_packed}
