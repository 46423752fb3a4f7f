"""Imports recurrent nodes of ONNX models as layers of this package. Only TensorProtos need the package onnx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.gate_order import Cell, GateOrder, reorder
from dmlpy.keras.bidirectional import Bidirectional
from dmlpy.keras.importers import LAYERS
from dmlpy.messages.naming import with_article
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.recurrent.onnx_names import ONNX_ACTIVATIONS, ONNX_DEFAULTS, onnx_activations

if TYPE_CHECKING:
    from dmlpy.keras.recurrent import Recurrent
    from dmlpy.operators.activation import ActivationDesc

_DIRECTIONS = ("forward", "reverse", "bidirectional")
_INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


def from_onnx(
    source: Any, weights: Mapping[str, Any] | Iterable[Any] | str | None = None, *, return_sequences: bool | None = None
) -> Recurrent | Bidirectional:
    """Creates a layer from an RNN, GRU or LSTM node, with its weights; a bidirectional node becomes Bidirectional.

    The layer's input and output are [batch, steps, size], the node's [steps, batch, size], or with layout 1 the same (its Y has an axis
    for the directions). A node of direction `reverse` becomes a layer with `go_backwards`, whose sequences are in reading order, ONNX's in
    time order. The two biases are summed, except for a GRU with linear_before_reset, which becomes one with `reset_after`.

    Args:
        source: the node (a NodeProto), or the model or graph that holds it.
        weights: for a node: its initializers, by name or as TensorProtos. For a model: the node's name; None if it has only one such node.
        return_sequences: whether the output has all steps; None: true if the node has the output Y.

    Raises:
        DescError: an unsupported node, missing weights, or options that cannot be expressed; all problems at once.
    """
    node, tensors = _node_of(source, weights)
    cell: Cell = node.op_type
    given = dict(zip(_INPUTS, node.input, strict=False))
    try:
        attributes = {attribute.name: _attribute(attribute) for attribute in node.attribute}
    except (KeyError, UnicodeDecodeError) as error:
        raise DescError(
            f"from_onnx: {brief(node.name)}", [Problem("import.kind", "attribute", "unreadable", "ONNX's", (str(error),))]
        ) from None
    arrays = {name: tensors[given[name]] for name in ("W", "R", "B", "initial_h", "initial_c") if given.get(name) in tensors}
    problems = _option_problems(cell, attributes, given, arrays) or _shape_problems(cell, attributes, arrays)
    if problems:
        raise DescError(f"from_onnx: {node.name or cell}", problems)
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    descs = _activations(cell, attributes, ways)
    arguments: dict[str, Any] = {"activation": descs[-1]} | ({} if cell == "RNN" else {"inner_activation": descs[0]})
    reset_after = bool(attributes.get("linear_before_reset", 0))
    if cell == "GRU":
        arguments["reset_after"] = reset_after
    matrix, recurrence = arrays["W"], arrays["R"]
    sequences = bool(node.output and node.output[0]) if return_sequences is None else return_sequences
    recurrent: Recurrent | Bidirectional = LAYERS[cell](
        recurrence.shape[2],
        input_shape=(None, matrix.shape[2]),
        return_sequences=sequences,
        go_backwards=attributes.get("direction") == "reverse",
        **arguments,
    )
    if ways == 2:
        recurrent = Bidirectional(recurrent)  # type: ignore[arg-type]
    bias = arrays.get("B", np.zeros((ways, 2 * matrix.shape[1]), np.float32))
    listed = []
    for way in range(ways):
        pairs = reorder(bias[way], cell, GateOrder.DIRECTML, GateOrder.KERAS, axis=0, parts=2).reshape(2, -1)
        listed += [reorder(array[way], cell, GateOrder.DIRECTML, GateOrder.KERAS, axis=0).T for array in (matrix, recurrence)]
        listed.append(pairs if reset_after else pairs.sum(axis=0))
    recurrent.begin_with(listed, "keras3")
    return recurrent


def _node_of(source: Any, weights: Any) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
    """The node, and by name the tensors that are constant."""
    graph = getattr(source, "graph", source)
    if not hasattr(graph, "node"):
        if getattr(source, "op_type", None) not in LAYERS:
            found = getattr(source, "op_type", None) or brief(source)
            raise DescError("from_onnx", [Problem("import.kind", "source", str(found), "a node of type RNN, GRU or LSTM, or a model")])
        items = weights.items() if isinstance(weights, Mapping) else ((tensor.name, tensor) for tensor in weights or ())
        return source, {name: _array(tensor) for name, tensor in items}
    nodes = [node for node in graph.node if node.op_type in LAYERS and weights in (None, node.name)]
    if len(nodes) != 1:
        names = ", ".join(node.name or f"{with_article(node.op_type)} without a name" for node in graph.node if node.op_type in LAYERS)
        why = (f"the model's recurrent nodes: {names or 'none'}",)
        expected = "the name of its one recurrent node" if weights is None else "the name of one"
        raise DescError("from_onnx", [Problem("import.missing", "weights", brief(weights), expected, why)])
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    constants = ((node.output[0], item) for node in graph.node if node.op_type == "Constant" for item in node.attribute)
    tensors |= {name: item.t for name, item in constants if item.name == "value"}
    wanted = {name: tensors[name] for name in nodes[0].input if name in tensors}
    return nodes[0], {name: _array(tensor) for name, tensor in wanted.items()}


def _option_problems(cell: Cell, attributes: Mapping[str, Any], given: Mapping[str, str], arrays: Mapping[str, Any]) -> list[Problem]:
    problems = []

    def refuse(path: str, found: Any, expected: str, remedy: str | None = None) -> None:
        problems.append(Problem("import.option", path, str(found), expected, remedy=remedy))

    for name in ("W", "R", "B"):
        if given.get(name) and name not in arrays:
            known = "a tensor that is known before the model runs: an initializer"
            problems.append(Problem("import.missing", name, f"{given[name]!r}, not an initializer", known))
    for name in ("W", "R"):
        if not given.get(name):
            problems.append(Problem("import.missing", name, "missing", "a tensor"))
    for name in ("initial_h", "initial_c"):
        if given.get(name) and (name not in arrays or np.any(arrays[name])):
            refuse(
                name,
                repr(given[name]),
                "absent, or zeros",
                "a layer begins with zeros: if this is zeros, pass zeros among the initializers",
            )
    if given.get("sequence_lens"):
        refuse("sequence_lens", repr(given["sequence_lens"]), "absent", "call the layer with a mask")
    if given.get("P"):
        refuse("P", repr(given["P"]), "absent: a layer has no peepholes")
    if attributes.get("layout", 0) not in (0, 1):
        refuse("layout", attributes["layout"], "0 or 1")
    if attributes.get("input_forget", 0):
        refuse("input_forget", attributes["input_forget"], "0")
    if "clip" in attributes:
        refuse("clip", attributes["clip"], "absent: a layer does not clip")
    direction = attributes.get("direction", "forward")
    if direction not in _DIRECTIONS:
        refuse("direction", repr(direction), f"one of {', '.join(_DIRECTIONS)}")
    return problems + _activation_problems(cell, attributes, 2 if direction == "bidirectional" else 1)


def _shape_problems(cell: Cell, attributes: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> list[Problem]:
    """Problems of weights whose sizes differ from ONNX's: W [D, G H, I], R [D, G H, H], B [D, 2 G H]."""
    ways, gates = 2 if attributes.get("direction") == "bidirectional" else 1, len(GateOrder.DIRECTML.gates(cell))
    units = arrays["R"].shape[-1] if arrays["R"].ndim else 0
    size = arrays["W"].shape[-1] if arrays["W"].ndim else 0
    expected = {"W": (ways, gates * units, size), "R": (ways, gates * units, units), "B": (ways, 2 * gates * units)}
    return [
        Problem("import.option", name, f"of shape {list(arrays[name].shape)}", f"{list(shape)}, of {units} units and {size} inputs")
        for name, shape in expected.items()
        if name in arrays and (arrays[name].shape != shape or 0 in shape)
    ]


def _activation_problems(cell: Cell, attributes: Mapping[str, Any], ways: int) -> list[Problem]:
    names = attributes.get("activations", ONNX_DEFAULTS[cell] * ways)
    unknown = [name for name in names if name not in ONNX_ACTIVATIONS]
    count = len(ONNX_DEFAULTS[cell])
    if unknown or len(names) != count * ways:
        expected = f"{count * ways} of {', '.join(ONNX_ACTIVATIONS)}"
        return [Problem("import.option", "activations", ", ".join(names), expected)]
    descs = _activations(cell, attributes, ways)
    problems = []
    if descs[:count] * ways != descs:
        problems.append(Problem("import.option", "activations", ", ".join(map(str, names)), "the same for both directions"))
    if cell == "LSTM" and descs[1] != descs[2]:
        problems.append(Problem("import.option", "activations[2]", names[2], f"{names[1]}, as of the cell's input"))
    return problems


def _activations(cell: Cell, attributes: Mapping[str, Any], ways: int) -> list[ActivationDesc]:
    """The activations of all directions."""
    names = attributes.get("activations", ONNX_DEFAULTS[cell] * ways)
    return onnx_activations(names, attributes.get("activation_alpha", ()), attributes.get("activation_beta", ()))


_FIELDS = {1: "f", 2: "i", 3: "s", 6: "floats", 7: "ints", 8: "strings"}
"""The field of an AttributeProto that holds a value of each type."""


def _attribute(attribute: Any) -> Any:
    value = getattr(attribute, _FIELDS[attribute.type])
    if isinstance(value, bytes):
        return value.decode()
    if attribute.type == 8:
        return [item.decode() for item in value]
    return list(value) if attribute.type in (6, 7) else value


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    """Converts a TensorProto, or an array of any library, to float32 in host memory."""
    if hasattr(tensor, "raw_data"):
        from onnx import numpy_helper

        try:
            tensor = numpy_helper.to_array(tensor)
        except Exception as error:  # onnx's readers document no error type for an invalid tensor
            why = (brief(str(error)),)
            raise DescError("from_onnx", [Problem("import.kind", brief(tensor.name), "unreadable", "a tensor of ONNX", why)]) from None
    try:
        return np.asarray(tensor, np.float32)
    except (TypeError, ValueError) as error:
        raise DescError("from_onnx", [Problem("import.kind", "weights", brief(tensor), "numbers", (brief(str(error)),))]) from None
