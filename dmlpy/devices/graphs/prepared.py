"""`PreparedGraph`: a compiled graph that has taken its owned inputs and packed its constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.binding import Bound
from dmlpy.devices.pickling import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.graphs.compiled import CompiledGraph, Values
    from dmlpy.devices.graphs.dispatch import GraphDispatch
    from dmlpy.devices.graphs.report import GraphReport
    from dmlpy.devices.pickling import Bytes
    from dmlpy.devices.prepared import BindingProperties


class PreparedGraph:
    """A compiled graph that has taken its owned inputs. Called and bound like the graph, without them. Immutable.

    A pickle holds the graph's and, if it was prepared with `portable=True` or has no owned inputs, those inputs, which are packed anew
    where it is loaded. Else it holds the packed bytes, and loading it raises `PickleError` where plans pack in another layout.

    Attributes:
        graph: the compiled graph.
    """

    def __init__(self, graph: CompiledGraph, memory: Memory, owned: Mapping[str, Bytes] | None = None) -> None:
        self.graph = graph
        self._memory, self._owned = memory, owned

    @property
    def device(self) -> Device:
        return self.graph.device

    @property
    def inputs(self) -> dict[str, TensorDesc]:
        """The inputs that are still to bind, by name."""
        return {name: tensor for name, tensor in self.graph.inputs.items() if name not in self.graph.prepared_inputs}

    @property
    def outputs(self) -> dict[str, TensorDesc]:
        """The outputs, by name."""
        return self.graph.outputs

    @property
    def binding_properties(self) -> BindingProperties:
        return self.graph.binding_properties

    def explain_plan(self) -> GraphReport:
        """Reports what `CompiledGraph.explain_plan` reports."""
        return self.graph.explain_plan()

    def shared_with(self, graph: CompiledGraph) -> PreparedGraph | None:
        """Another graph, such as one for other sizes, prepared by the same memory; None if it is not known to pack it alike."""
        layout = self.graph._packing.layout
        alike = graph.device is self.device and layout is not None and layout == graph._packing.layout
        return PreparedGraph(graph, self._memory, self._owned) if alike else None

    def __call__(self, *, stream: Any = None, copy: bool = False, temporary: Any = None, **tensors: Any) -> Any:
        """Runs once, as `CompiledGraph.__call__` does, without the owned inputs."""
        return self.graph._run(tensors, self._memory, stream, copy=copy, temporary=temporary)

    def bind(self, inputs: Values, outputs: Values, temporary: Any = None) -> GraphDispatch:
        """Binds memory for many dispatches, as `CompiledGraph.bind` does; in a list the owned inputs are None."""
        return self.graph._bind(inputs, outputs, temporary, self._memory)

    def __reduce__(self) -> tuple[Any, ...]:
        packing = self.graph._packing
        if self._owned is not None:
            return _packed_anew, (self.graph, self._owned)
        return _prepared, (self.graph, packing.packed_bytes(self._memory), packing.fingerprint())

    def __copy__(self) -> PreparedGraph:
        return self

    def __deepcopy__(self, memo: Any) -> PreparedGraph:
        return self

    def __repr__(self) -> str:
        return f"<graph of {len(self.graph.graph.nodes)} nodes prepared for {self.device.name}>"


def _prepared(graph: CompiledGraph | Refused, packed: Bytes, fingerprint: bytes) -> PreparedGraph | Refused:
    """Restores a prepared graph from a pickle with packed bytes."""
    if isinstance(graph, Refused):
        return graph
    return PreparedGraph(graph, graph._packing.restored(packed, fingerprint))


def _packed_anew(graph: CompiledGraph | Refused, owned: Mapping[str, Bytes]) -> PreparedGraph | Refused:
    """Restores a prepared graph from a pickle with its owned inputs."""
    if isinstance(graph, Refused):
        return graph
    device, handle = graph.device, graph.device.current_stream()
    sources = {name: device.upload(data, handle) for name, data in owned.items()}
    bound = [Bound(name, graph.inputs[name], False, source.pointer, source) for name, source in sources.items()]
    memory = graph._packing.pack(bound, None, handle)
    device.synchronize(handle)  # dispatches may go into other streams
    return PreparedGraph(graph, memory, owned)
