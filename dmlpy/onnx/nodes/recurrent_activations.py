"""The activations that a recurrent node names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.messages.naming import plural

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.operators.activation import ActivationDesc


_DEFAULT = 2
"""The activations of ONNX's default for RNN, of both directions: where a node with one direction states them, the first is its own."""


def parse_activations(node: Node, cell: str, directions: int) -> list[ActivationDesc]:
    """The activations of all directions of an RNN, GRU or LSTM; their names are those of ONNX in any case."""
    from dmlpy.operators.recurrent.onnx_names import ONNX_ACTIVATIONS, ONNX_DEFAULTS, onnx_activations  # imports all activations

    spelled = {name.lower(): name for name in ONNX_ACTIVATIONS}
    given = node.attributes.get("activations") or ONNX_DEFAULTS[cell] * directions
    if cell == "RNN" and directions == 1:
        given = given[:1] if len(given) == _DEFAULT else given
    if any(name.lower() not in spelled for name in given):
        raise node.invalid("activations", *ONNX_ACTIVATIONS)
    if len(given) != (wanted := len(ONNX_DEFAULTS[cell]) * directions):
        expected = f"{wanted}, {len(ONNX_DEFAULTS[cell])} for each of {plural(directions, 'direction')}"
        raise node.refusal("onnx.invalid", "activations", plural(len(given), "name"), expected)
    names = [spelled[name.lower()] for name in given]
    return onnx_activations(names, node.attribute("activation_alpha", ()), node.attribute("activation_beta", ()))
