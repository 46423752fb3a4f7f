# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.recurrent`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy import bool_, floating

from dmlpy.description.enums import RecurrentDirection
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, several

if TYPE_CHECKING:
    from dmlpy.operators.activation import ActivationDesc


class GRUOutputs(NamedTuple):
    """The outputs of `gru`."""

    sequence: Expression
    """The hidden state h[t] of every step, stored at its t. It is zero past the end of a sequence."""
    single: Expression
    """The hidden state h after the last step that was processed."""


@refuse_others
def gru(
    input: Expression | Array,
    weight: Expression | Array,
    recurrence: Expression | Array,
    bias: Expression | Array | None = None,
    hidden_init: Expression | Array | None = None,
    sequence_lengths: Expression | Array | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    linear_before_reset: bool | bool_ = False,
) -> GRUOutputs:
    """GRU: gated recurrent units, a recurrent layer that replaces its state h as far as the update gate z lets it.

    Along 3*hidden_size the gates are z (update), r (reset), h (hidden): ONNX's order, not the r, z, n of cuDNN and
    PyTorch. The activations are f of the gates and g of the hidden state.

    ::

        z = f(x[t] Wz^T + h[t-1] Rz^T + Wbz + Rbz)
        r = f(x[t] Wr^T + h[t-1] Rr^T + Wbr + Rbr)
        n = g(x[t] Wh^T + (r * h[t-1]) Rh^T + Rbh + Wbh), or with linear_before_reset
        n = g(x[t] Wh^T + r * (h[t-1] Rh^T + Rbh) + Wbh)
        h[t] = (1 - z) * n + z * h[t-1]

    Args:
        input: `[1, seq_length, batch_size, input_size]`. The input x of every step.
        weight: `[1, num_directions, 3*hidden_size, input_size]`. The matrices W that multiply the input, of the gates
            z, r, h.
        recurrence: `[1, num_directions, 3*hidden_size, hidden_size]`. The matrices R that multiply the hidden state, of
            the gates z, r, h.
        bias: `[1, 1, num_directions, 6*hidden_size]`. The biases Wb of the gates z, r, h, then the biases Rb. If
            absent, zeros.
        hidden_init: `[1, num_directions, batch_size, hidden_size]`. The hidden state h before the first step. If
            absent, zeros.
        sequence_lengths: `[1, 1, 1, batch_size]`. How many steps of each sequence count, from 0 to seq_length. If
            absent, all of them.
        activation_descs: The activation functions of each direction, the forward direction's first.
        direction: The order in which the steps are processed. BIDIRECTIONAL has the forward direction first along
            num_directions.
        linear_before_reset: Whether the reset gate multiplies the recurrent product (cuDNN, PyTorch) or h before it
            (Keras 1, ONNX's default).

    Returns:
        The named tuple `GRUOutputs` of these fields.

        - `sequence`: `[seq_length, num_directions, batch_size, hidden_size]`. The hidden state h[t] of every step,
          stored at its t. It is zero past the end of a sequence.
        - `single`: `[1, num_directions, batch_size, hidden_size]`. The hidden state h after the last step that was
          processed.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return GRUOutputs(*several(
        "GRU",
        input_tensor=input,
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        bias_tensor=bias,
        hidden_init_tensor=hidden_init,
        sequence_lengths_tensor=sequence_lengths,
        activation_descs=activation_descs,
        direction=direction,
        linear_before_reset=linear_before_reset,
    ))


class LSTMOutputs(NamedTuple):
    """The outputs of `lstm`."""

    sequence: Expression
    """The hidden state h[t] of every step, stored at its t. It is zero past the end of a sequence."""
    single: Expression
    """The hidden state h after the last step that was processed."""
    cell_single: Expression
    """The cell state c after the last step that was processed."""


@refuse_others
def lstm(
    input: Expression | Array,
    weight: Expression | Array,
    recurrence: Expression | Array,
    bias: Expression | Array | None = None,
    hidden_init: Expression | Array | None = None,
    cell_mem_init: Expression | Array | None = None,
    sequence_lengths: Expression | Array | None = None,
    peephole: Expression | Array | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
    clip_threshold: float | str | floating[Any] = 0.0,
    use_clip_threshold: bool | bool_ = False,
    couple_input_forget: bool | bool_ = False,
) -> LSTMOutputs:
    """LSTM: long short-term memory, a recurrent layer with a cell state c in addition to h; gates keep or change it.

    Along 4*hidden_size the gates are i (input), o (output), f (forget), c (cell): ONNX's order, not the i, f, g, o of
    cuDNN and PyTorch. The activations are f of the gates, g of the cell's input and h of its output.

    ::

        i = f(clip(x[t] Wi^T + h[t-1] Ri^T + Pi * c[t-1] + Wbi + Rbi))
        f = f(clip(x[t] Wf^T + h[t-1] Rf^T + Pf * c[t-1] + Wbf + Rbf)), or 1 - i with couple_input_forget
        c[t] = f * c[t-1] + i * g(clip(x[t] Wc^T + h[t-1] Rc^T + Wbc + Rbc))
        o = f(clip(x[t] Wo^T + h[t-1] Ro^T + Po * c[t] + Wbo + Rbo))
        h[t] = o * h(c[t])

    Args:
        input: `[1, seq_length, batch_size, input_size]`. The input x of every step.
        weight: `[1, num_directions, 4*hidden_size, input_size]`. The matrices W that multiply the input, of the gates
            i, o, f, c.
        recurrence: `[1, num_directions, 4*hidden_size, hidden_size]`. The matrices R that multiply the hidden state, of
            the gates i, o, f, c.
        bias: `[1, 1, num_directions, 8*hidden_size]`. The biases Wb of the gates i, o, f, c, then the biases Rb. If
            absent, zeros.
        hidden_init: `[1, num_directions, batch_size, hidden_size]`. The hidden state h before the first step. If
            absent, zeros.
        cell_mem_init: `[1, num_directions, batch_size, hidden_size]`. The cell state c before the first step. If
            absent, zeros.
        sequence_lengths: `[1, 1, 1, batch_size]`. How many steps of each sequence count, from 0 to seq_length. If
            absent, all of them.
        peephole: `[1, 1, num_directions, 3*hidden_size]`. The peephole weights P of the gates i, o, f. The output gate
            sees the new cell state. If absent, zeros.
        activation_descs: The activation functions of each direction, the forward direction's first.
        direction: The order in which the steps are processed. BIDIRECTIONAL has the forward direction first along
            num_directions.
        clip_threshold: The bound of the gates' sums. It is used only with use_clip_threshold.
        use_clip_threshold: Whether the sums that enter f and g are held between -clip_threshold and clip_threshold.
        couple_input_forget: Whether the forget gate is 1 - i. The rows of f are then ignored.

    Returns:
        The named tuple `LSTMOutputs` of these fields.

        - `sequence`: `[seq_length, num_directions, batch_size, hidden_size]`. The hidden state h[t] of every step,
          stored at its t. It is zero past the end of a sequence.
        - `single`: `[1, num_directions, batch_size, hidden_size]`. The hidden state h after the last step that was
          processed.
        - `cell_single`: `[1, num_directions, batch_size, hidden_size]`. The cell state c after the last step that was
          processed.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return LSTMOutputs(*several(
        "LSTM",
        input_tensor=input,
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        bias_tensor=bias,
        hidden_init_tensor=hidden_init,
        cell_mem_init_tensor=cell_mem_init,
        sequence_lengths_tensor=sequence_lengths,
        peephole_tensor=peephole,
        activation_descs=activation_descs,
        direction=direction,
        clip_threshold=clip_threshold,
        use_clip_threshold=use_clip_threshold,
        couple_input_forget=couple_input_forget,
    ))


class RNNOutputs(NamedTuple):
    """The outputs of `rnn`."""

    sequence: Expression
    """The hidden state h[t] of every step, stored at its t. It is zero past the end of a sequence."""
    single: Expression
    """The hidden state h after the last step that was processed."""


@refuse_others
def rnn(
    input: Expression | Array,
    weight: Expression | Array,
    recurrence: Expression | Array,
    bias: Expression | Array | None = None,
    hidden_init: Expression | Array | None = None,
    sequence_lengths: Expression | Array | None = None,
    *,
    activation_descs: Iterable[ActivationDesc],
    direction: RecurrentDirection | str | int,
) -> RNNOutputs:
    """RNN: a simple recurrent layer; its state h is f of the input and of the state before.

    ::

        h[t] = f(x[t] W^T + h[t-1] R^T + Wb + Rb)

    Args:
        input: `[1, seq_length, batch_size, input_size]`. The input x of every step.
        weight: `[1, num_directions, hidden_size, input_size]`. The matrix W that multiplies the input.
        recurrence: `[1, num_directions, hidden_size, hidden_size]`. The matrix R that multiplies the hidden state.
        bias: `[1, 1, num_directions, 2*hidden_size]`. The bias Wb, then the bias Rb. If absent, zeros.
        hidden_init: `[1, num_directions, batch_size, hidden_size]`. The hidden state h before the first step. If
            absent, zeros.
        sequence_lengths: `[1, 1, 1, batch_size]`. How many steps of each sequence count, from 0 to seq_length. If
            absent, all of them.
        activation_descs: The activation functions of each direction, the forward direction's first.
        direction: The order in which the steps are processed. BIDIRECTIONAL has the forward direction first along
            num_directions.

    Returns:
        The named tuple `RNNOutputs` of these fields.

        - `sequence`: `[seq_length, num_directions, batch_size, hidden_size]`. The hidden state h[t] of every step,
          stored at its t. It is zero past the end of a sequence.
        - `single`: `[1, num_directions, batch_size, hidden_size]`. The hidden state h after the last step that was
          processed.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return RNNOutputs(*several(
        "RNN",
        input_tensor=input,
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        bias_tensor=bias,
        hidden_init_tensor=hidden_init,
        sequence_lengths_tensor=sequence_lengths,
        activation_descs=activation_descs,
        direction=direction,
    ))

