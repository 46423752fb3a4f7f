"""RNN, GRU and LSTM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import TensorProto

from dmlpy.description.enums import RecurrentDirection
from dmlpy.onnx.exporting.rules import exports
from dmlpy.operators.activation import ActivationIdentityDesc, ActivationLinearDesc, ActivationSoftplusDesc
from dmlpy.operators.recurrent.onnx_names import ONNX_ACTIVATIONS

if TYPE_CHECKING:
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value

_DIRECTIONS = {
    RecurrentDirection.FORWARD: "forward",
    RecurrentDirection.BACKWARD: "reverse",
    RecurrentDirection.BIDIRECTIONAL: "bidirectional",
}
_NAMES = {kind: name for name, (kind, _) in ONNX_ACTIVATIONS.items()}


@exports("RNN", "GRU", "LSTM")
def recurrent(node: Node) -> dict[str, Value]:
    """The operator of the same name, whose gates have the same order."""
    desc, lstm = node.desc, node.name == "LSTM"
    _, steps, batch, width = node.sizes("input_tensor")
    _, directions, rows, hidden = node.sizes("recurrence_tensor")

    def reshaped(place: str, *sizes: int) -> Value | None:
        return node.x(place).reshape(sizes) if node.has(place) else None

    lengths = reshaped("sequence_lengths_tensor", batch)
    inputs = [
        reshaped("input_tensor", steps, batch, width),
        reshaped("weight_tensor", directions, rows, width),
        reshaped("recurrence_tensor", directions, rows, hidden),
        reshaped("bias_tensor", directions, 2 * rows),
        None if lengths is None else lengths.at_most(steps).cast(TensorProto.INT32),
        reshaped("hidden_init_tensor", directions, batch, hidden),
    ]
    attributes: dict[str, Any] = {"direction": _DIRECTIONS[desc.direction], "hidden_size": hidden, **_activations(node)}
    if lstm:
        inputs += [reshaped("cell_mem_init_tensor", directions, batch, hidden), reshaped("peephole_tensor", directions, 3 * hidden)]
        attributes["clip"] = desc.clip_threshold if desc.use_clip_threshold else None
        attributes["input_forget"] = int(desc.couple_input_forget)
    elif node.name == "GRU":
        attributes["linear_before_reset"] = int(desc.linear_before_reset)
    places = ("output_sequence_tensor", "output_single_tensor", "output_cell_single_tensor")[: 2 + lstm]
    results = node.writer.several(node.name, *inputs, count=len(places), **attributes)
    constant_lengths = node.constant("sequence_lengths_tensor") if lengths is not None else None
    if lengths is not None and (constant_lengths is None or not constant_lengths.all()):
        # A sequence without steps returns its initial state; ONNX does not define this.
        none = lengths.reshape([1, batch, 1]).cast(TensorProto.INT64).equals(0)
        for at, first in enumerate((inputs[5], inputs[6] if lstm else None)[: 1 + lstm], 1):
            results[at] = none.where(results[at].like(0) if first is None else first, results[at])
    return {place: value.reshape(node.sizes(place)) for place, value in zip(places, results, strict=True) if node.has(place)}


def _activations(node: Node) -> dict[str, Any]:
    """ONNX's names of the activations, and the parameters that they have, in order."""
    names, parameters = [], {"alpha": list[float](), "beta": list[float]()}
    for at, desc in enumerate(node.desc.activation_descs):
        activation: Any = ActivationLinearDesc(alpha=1.0, beta=0.0) if isinstance(desc, ActivationIdentityDesc) else desc
        place = f"activation_descs[{at}]"
        if type(activation) not in _NAMES:
            raise node.rejection(
                place, activation.short_name(), f"an activation that ONNX's recurrent operators have: {', '.join(ONNX_ACTIVATIONS)}"
            )
        if isinstance(activation, ActivationSoftplusDesc) and activation.steepness != 1:
            raise node.rejection(f"{place}.steepness", activation.steepness, "1: Softplus of ONNX's recurrent operators has no steepness")
        names.append(_NAMES[type(activation)])
        for item in ONNX_ACTIVATIONS[names[-1]][1]:
            parameters[item].append(getattr(activation, item))
    return {"activations": names} | {f"activation_{item}": values for item, values in parameters.items() if values}
