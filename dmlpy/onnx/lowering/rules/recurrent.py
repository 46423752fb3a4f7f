"""RNN, GRU and LSTM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy import x
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.clipped_cells import unroll_cells
from dmlpy.onnx.nodes.recurrent_activations import parse_activations

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_DIRECTIONS = {"forward": "FORWARD", "reverse": "BACKWARD", "bidirectional": "BIDIRECTIONAL"}


@lowers("RNN", "GRU")
def without_cell(node: Node) -> tuple[Expression | None, ...]:
    """RNN or GRU; these do not support a clip, with which each step is unrolled to operators. A negative clip is none."""
    if node.value(0).is_empty:
        return _initial_states(node)
    if node.attribute("clip", -1.0) >= 0:
        options = _options(node)
        backwards = {"FORWARD": [False], "BACKWARD": [True], "BIDIRECTIONAL": [False, True]}[options["direction"]]
        return _results(node, unroll_cells(node, _tensors(node), backwards, options["activation_descs"]))
    if node.op_type == "GRU":
        after = bool(node.attribute("linear_before_reset", 0))
        return _results(node, x.gru(**_tensors(node), **_options(node), linear_before_reset=after))
    return _results(node, x.rnn(**_tensors(node), **_options(node)))


@lowers("LSTM")
def with_cell(node: Node) -> tuple[Expression | None, ...]:
    """LSTM."""
    if node.value(0).is_empty:
        return _initial_states(node)
    extra: dict[str, Any] = {}
    if node.has(6):
        extra["cell_mem_init"] = _state(node, 6)
    if node.has(7):
        extra["peephole"] = node.x(7).with_leading_ones(4)
    clip = node.attribute("clip")
    return _results(
        node,
        x.lstm(
            **_tensors(node),
            **extra,
            **_options(node),
            clip_threshold=clip or 0.0,
            use_clip_threshold=bool(clip),
            couple_input_forget=bool(node.attribute("input_forget", 0)),
        ),
    )


def _tensors(node: Node) -> dict[str, Any]:
    """The inputs that all cells have, by DirectML's names."""
    data = node.x(0).transpose(1, 0, 2) if _batch_first(node) else node.x(0)
    tensors = {"input": data, "weight": node.x(1), "recurrence": node.x(2)}
    if node.has(3):
        tensors["bias"] = node.x(3)
    if node.has(4):
        tensors["sequence_lengths"] = x.cast(node.x(4).with_leading_ones(4), output_data_type="UINT32")
    if node.has(5):
        tensors["hidden_init"] = _state(node, 5)
    return {name: tensor.with_leading_ones(4) for name, tensor in tensors.items()}


def _state(node: Node, index: int) -> Expression:
    """An initial state as [1, directions, batch, hidden]."""
    state = node.x(index)
    return (state.transpose(1, 0, 2) if _batch_first(node) else state).with_leading_ones(4)


def _initial_states(node: Node) -> tuple[Expression | None, ...]:
    """The last states after no steps: the initial states, or states of 0. No tensor of DirectML is empty."""
    sizes = node.sizes(0)
    batch, directions, hidden = sizes[0 if _batch_first(node) else 1], node.sizes(2)[0], node.sizes(2)[2]
    whole = (batch, directions, hidden) if _batch_first(node) else (directions, batch, hidden)
    states: list[Expression | None] = []
    for index in (5, 6) if node.op_type == "LSTM" else (5,):
        if node.has(index):
            states.append(node.x(index))
        elif node.wants(index - 4):
            zero = x.fill_value_constant(value_data_type=node.data_type(0), value=0, output_sizes=[1])
            states.append(zero.broadcast(*whole))
        else:
            states.append(None)
    return None, *states


def _options(node: Node) -> dict[str, Any]:
    direction = node.attribute("direction", "forward")
    return {
        "direction": _DIRECTIONS[direction],
        "activation_descs": parse_activations(node, node.op_type, 2 if direction == "bidirectional" else 1),
    }


def _batch_first(node: Node) -> bool:
    return bool(node.attribute("layout", 0))


def _results(node: Node, outputs: Any) -> tuple[Expression | None, ...]:
    """The sequence and the last states in the order of ONNX's layout: the batch is first or comes after the directions."""
    order = ((2, 0, 1, 3), (0, 2, 1, 3)) if _batch_first(node) else ((0, 1, 2, 3), (0, 1, 2, 3))
    sequence, *states = outputs
    return sequence.transpose(*order[0]), *(state.transpose(*order[1]) for state in states)
