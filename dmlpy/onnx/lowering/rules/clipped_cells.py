"""RNN and GRU with a clip, which in DirectML only LSTM supports: unrolled step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy import x

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.operators.activation import ActivationDesc
    from dmlpy.x.expressions import Expression

MAX_STEPS = 1000
"""The most steps, each of which becomes several operators."""


def unroll_cells(
    node: Node, tensors: dict[str, Expression], backwards: Sequence[bool], activations: Sequence[ActivationDesc]
) -> list[Expression]:
    """The sequence and the last states of an RNN or GRU.

    One product computes the gates' inputs of all steps. Each step is a product with the last state, sums, CLIP and activations; past a
    sequence's length the state is unchanged, and the output is 0.

    Args:
        node: the node.
        tensors: its inputs with four dimensions, by DirectML's names.
        backwards: for each direction, whether it begins at the last step.
        activations: those of all directions.

    Returns:
        [steps, directions, batch, hidden] and [1, directions, batch, hidden].
    """
    steps = tensors["input"].sizes[1]
    if steps * len(backwards) > MAX_STEPS:
        why = "of DirectML's recurrent layers only LSTM clips, so that each step becomes operators of its own"
        raise node.refusal(
            "onnx.unroll", "clip", f"given for {steps} steps", f"absent, or at most {MAX_STEPS} steps of all directions", why
        )
    each = len(activations) // len(backwards)
    by_direction = [
        _direction(node, tensors, index, activations[index * each :][:each], backwards=backward) for index, backward in enumerate(backwards)
    ]
    sequences, states = zip(*by_direction, strict=True)
    return [_join(sequences), _join(states)]


def _join(tensors: Sequence[Expression]) -> Expression:
    return tensors[0] if len(tensors) == 1 else x.join(tensors, axis=1)


def _direction(
    node: Node, tensors: dict[str, Expression], index: int, activations: Sequence[ActivationDesc], *, backwards: bool
) -> tuple[Expression, Expression]:
    _, steps, batch, features = tensors["input"].sizes
    node.reserve_steps(steps)
    hidden = tensors["recurrence"].sizes[-1]
    weight, recurrence = (tensors[name][:, index : index + 1] for name in ("weight", "recurrence"))
    gates = weight.sizes[2]
    bias = tensors["bias"][:, :, index : index + 1].reshape(1, 1, 1, 2 * gates) if "bias" in tensors else None
    flat = tensors["input"].reshape(1, 1, steps * batch, features)
    input_bias = None if bias is None else bias[..., :gates].broadcast(1, 1, steps * batch, gates)
    entering = x.gemm(flat, weight, input_bias, trans_b="TRANSPOSE").reshape(1, steps, batch, gates)
    again = None if bias is None else bias[..., gates:].broadcast(1, 1, batch, gates)
    nothing = x.fill_value_constant(value_data_type=weight.data_type, value=0, output_sizes=[1, 1, 1, 1])
    state = tensors["hidden_init"][:, index : index + 1] if "hidden_init" in tensors else nothing.broadcast(1, 1, batch, hidden)
    step = _gru(node, recurrence, again, activations) if node.op_type == "GRU" else _rnn(node, recurrence, again, activations)
    lengths = tensors.get("sequence_lengths")
    outputs: dict[int, Expression] = {}
    for time in reversed(range(steps)) if backwards else range(steps):
        after = step(entering[:, time : time + 1], state)
        if lengths is None:
            outputs[time] = state = after
            continue
        number = x.fill_value_constant(value_data_type=lengths.data_type, value=time, output_sizes=[1, 1, 1, 1])
        present = x.logical_greater_than(lengths.reshape(1, 1, batch, 1), number, output_data_type="UINT8").broadcast(1, 1, batch, hidden)
        outputs[time] = x.if_(present, after, nothing.broadcast(*after.sizes))
        state = x.if_(present, after, state)
    sequence = [outputs[time].reshape(1, 1, batch, hidden) for time in range(steps)]
    return (sequence[0] if steps == 1 else x.join(sequence, axis=0)), state


def _rnn(
    node: Node, recurrence: Expression, bias: Expression | None, activations: Sequence[ActivationDesc]
) -> Callable[[Expression, Expression], Expression]:
    """A step: f(clip(x W + h R + b))."""
    return lambda entering, state: _activate(node, entering + x.gemm(state, recurrence, bias, trans_b="TRANSPOSE"), activations[0])


def _gru(
    node: Node, recurrence: Expression, bias: Expression | None, activations: Sequence[ActivationDesc]
) -> Callable[[Expression, Expression], Expression]:
    """A step: z and r are f(clip(x W + h R + b)), the candidate g(clip(x W + (r h) R + b)), or g(clip(x W + r (h R + b)))."""
    hidden = recurrence.sizes[-1]
    after = bool(node.attribute("linear_before_reset", 0))

    def part(tensor: Expression | None, first: int, last: int) -> Expression | None:
        return None if tensor is None else tensor[..., first * hidden : last * hidden]

    def step(entering: Expression, state: Expression) -> Expression:
        both = x.gemm(state, recurrence[:, :, : 2 * hidden], part(bias, 0, 2), trans_b="TRANSPOSE")
        opened = _activate(node, entering[..., : 2 * hidden] + both, activations[0])
        update, reset = opened[..., :hidden], opened[..., hidden:]
        candidate_weights = recurrence[:, :, 2 * hidden :]
        if after:
            inner = reset * x.gemm(state, candidate_weights, part(bias, 2, 3), trans_b="TRANSPOSE")
        else:
            inner = x.gemm(reset * state, candidate_weights, part(bias, 2, 3), trans_b="TRANSPOSE")
        candidate = _activate(node, entering[..., 2 * hidden :] + inner, activations[1])
        return (1.0 - update) * candidate + update * state

    return step


def _activate(node: Node, tensor: Expression, activation: ActivationDesc) -> Expression:
    """An activation of the clipped value."""
    clip = float(node.attribute("clip"))
    kind = type(activation)
    members = {name: getattr(activation, name) for name in kind.model_fields if name not in ("input_tensor", "output_tensor")}
    activated: Expression = getattr(x, kind.short_name().lower())(x.clip(tensor, min=-clip, max=clip), **members)
    return activated
