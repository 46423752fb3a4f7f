"""The training forms of RNN, LSTM and GRU: the struct, plus what training needs: a reserve for the gradient, a step mask, dropout.

dmlpy's own operators. Without any of the added tensors they compute what the struct itself computes.

Step mask: at a masked step (0) a sample's states are carried, and the output repeats the previous one of that walk, or is zero where there
is none yet: Keras's rule. Masks may have holes; past a sequence's end outputs are zero all the same.

Dropout: gate g sees x * input_dropout[d, g] in place of x and h[t-1] * state_dropout[d, g] in place of h[t-1] (a GRU that resets first:
r * h[t-1] * state_dropout[d, g]), with the same multipliers at every step: 0, or 1 / (1 - p) for what is kept. Only matrix products see it.

Letters: T steps, B batch, I input size, H hidden units, D directions, G gates (RNN 1, GRU 3, LSTM 4).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, TypeVar

from dmlpy.description.markers import In, Out
from dmlpy.description.support import FLOAT32, UINT8
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.recurrent.gradient import GRUGradDesc, LSTMGradDesc, RecurrentGradDesc, ReserveDesc, RNNGradDesc
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RNNDesc
from dmlpy.validation.problems import DescError, Problem

GradT = TypeVar("GradT", bound=RecurrentGradDesc)


class RecurrentTrainingDesc(ReserveDesc):
    """What the three training forms share."""

    @abstractmethod
    def gradient(self, *names: str) -> RecurrentGradDesc:
        """The desc of the gradient, with upstream gradients for all described outputs, everything added being packed.

        Args:
            names: gradients to compute, `weight_gradient_tensor`, ...; none means those of all described inputs that have one.

        Raises:
            DescError: no such gradient, or the desc describes no reserve.
        """

    def _gradient(self, kind: type[GradT], names: tuple[str, ...]) -> GradT:
        described = self.tensors()
        if self.reserve_tensor is None:
            remedy = "with_outputs('reserve_tensor', ...)"
            raise DescError(self.c_name, [Problem("reserve.missing", "reserve_tensor", "missing", "a reserve", remedy=remedy)])
        members: dict[str, Any] = {name: getattr(self, name) for name in kind.model_fields if name in type(self).model_fields}
        gradients = {f"{name.removesuffix('_tensor')}_gradient_tensor": _packed(tensor) for name, tensor in described.items()}
        members |= {field.name: gradients[field.name] for field in kind.inputs() if field.name in gradients}
        return kind(**members).with_outputs(*(names or (field.name for field in kind.outputs() if field.name in gradients)))


def _packed(tensor: TensorDesc) -> TensorDesc:
    return TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes)


class RNNTrainingDesc(RNNDesc, RecurrentTrainingDesc, own="RNN_TRAINING"):
    """DMLPY_RNN_TRAINING_OPERATOR_DESC: DML_RNN_OPERATOR_DESC with a reserve for RNN_GRAD, a step mask and dropout.

    Attributes:
        input_tensor: x, [1, T, B, I].
        weight_tensor: W, [1, D, H, I].
        recurrence_tensor: R, [1, D, H, H].
        bias_tensor: Wb then Rb, [1, 1, D, 2H]; absent, zero.
        hidden_init_tensor: h before the first step, [1, D, B, H]; absent, zero.
        sequence_lengths_tensor: steps of each sequence that count, [1, 1, 1, B], UINT32, 0 to T; absent, all.
        output_sequence_tensor: every h[t], stored at its t, [T, D, B, H]; zero past a sequence's end.
        output_single_tensor: h after the last step walked, [1, D, B, H].
        activation_descs: f of each direction.
        direction: FORWARD, BACKWARD or BIDIRECTIONAL (forward first along D).
        step_mask_tensor: 0 where a sample skips a step, [1, 1, T, B], UINT8; absent, none does.
        input_dropout_tensor: multipliers of x for each gate, [D, G, B, I]; absent, 1.
        state_dropout_tensor: multipliers of h[t-1] for each gate, [D, G, B, H]; absent, 1.
        reserve_tensor: what the gradient needs, [1, 1, 1, D B (T H + (T + 1) H)], FLOAT32.
    """

    step_mask_tensor: Annotated[TensorDesc | None, In("1 1 seq_length batch_size", UINT8)] = None
    input_dropout_tensor: Annotated[TensorDesc | None, In("num_directions num_gates batch_size input_size")] = None
    state_dropout_tensor: Annotated[TensorDesc | None, In("num_directions num_gates batch_size hidden_size")] = None
    reserve_tensor: Annotated[TensorDesc | None, Out("1 1 1 reserve_size", FLOAT32, reserve=True)] = None

    def gradient(self, *names: str) -> RNNGradDesc:
        return self._gradient(RNNGradDesc, names)


class LSTMTrainingDesc(LSTMDesc, RecurrentTrainingDesc, own="LSTM_TRAINING"):
    """DMLPY_LSTM_TRAINING_OPERATOR_DESC: DML_LSTM_OPERATOR_DESC with a reserve for LSTM_GRAD, a step mask, dropout and a projection.

    Attributes:
        input_tensor: x, [1, T, B, I].
        weight_tensor: W, [1, D, 4H, I], gates i, o, f, c.
        recurrence_tensor: R, [1, D, 4H, H]; with a projection [1, D, 4H, P].
        bias_tensor: Wb then Rb of all gates, [1, 1, D, 8H]; absent, zero.
        hidden_init_tensor: h before the first step, [1, D, B, H]; absent, zero.
        cell_mem_init_tensor: c before the first step, [1, D, B, H]; absent, zero.
        sequence_lengths_tensor: steps of each sequence that count, [1, 1, 1, B], UINT32, 0 to T; absent, all.
        peephole_tensor: P of i, o, f, [1, 1, D, 3H]; absent, zero. The output gate sees the new cell state.
        output_sequence_tensor: every h[t], stored at its t, [T, D, B, H]; zero past a sequence's end.
        output_single_tensor: h after the last step walked, [1, D, B, H].
        output_cell_single_tensor: c after the last step walked, [1, D, B, H].
        activation_descs: f (gates), g (cell input), h (cell output) of each direction.
        direction: FORWARD, BACKWARD or BIDIRECTIONAL (forward first along D).
        clip_threshold: bound of the gates' sums, used only with use_clip_threshold.
        use_clip_threshold: whether the sums that enter f and g are bounded to [-clip_threshold, clip_threshold].
        couple_input_forget: whether f is 1 - i; the f rows are then ignored.
        step_mask_tensor: 0 where a sample skips a step, [1, 1, T, B], UINT8; absent, none does.
        input_dropout_tensor: multipliers of x for each gate, [D, G, B, I]; absent, 1.
        state_dropout_tensor: multipliers of h[t-1] for each gate, [D, G, B, H]; absent, 1.
        projection_tensor: [1, D, P, H]: h is this matrix times o * h(c). Then P takes H's place in every h. Absent, h is o * h(c).
        reserve_tensor: what the gradient needs, [1, 1, 1, D B (4 T H + 2 (T + 1) H)], FLOAT32; with a projection (T + 1) (H + P).
    """

    step_mask_tensor: Annotated[TensorDesc | None, In("1 1 seq_length batch_size", UINT8)] = None
    input_dropout_tensor: Annotated[TensorDesc | None, In("num_directions num_gates batch_size input_size")] = None
    state_dropout_tensor: Annotated[TensorDesc | None, In("num_directions num_gates batch_size hidden_size")] = None
    projection_tensor: Annotated[TensorDesc | None, In("1 num_directions projection_size hidden_size", constant=True)] = None
    reserve_tensor: Annotated[TensorDesc | None, Out("1 1 1 reserve_size", FLOAT32, reserve=True)] = None

    def gradient(self, *names: str) -> LSTMGradDesc:
        return self._gradient(LSTMGradDesc, names)


class GRUTrainingDesc(GRUDesc, RecurrentTrainingDesc, own="GRU_TRAINING"):
    """DMLPY_GRU_TRAINING_OPERATOR_DESC: DML_GRU_OPERATOR_DESC with a reserve for GRU_GRAD, a step mask and dropout.

    Attributes:
        input_tensor: x, [1, T, B, I].
        weight_tensor: W, [1, D, 3H, I], gates z, r, h.
        recurrence_tensor: R, [1, D, 3H, H].
        bias_tensor: Wb then Rb of all gates, [1, 1, D, 6H]; absent, zero.
        hidden_init_tensor: h before the first step, [1, D, B, H]; absent, zero.
        sequence_lengths_tensor: steps of each sequence that count, [1, 1, 1, B], UINT32, 0 to T; absent, all.
        output_sequence_tensor: every h[t], stored at its t, [T, D, B, H]; zero past a sequence's end.
        output_single_tensor: h after the last step walked, [1, D, B, H].
        activation_descs: f (gates), g (hidden) of each direction.
        direction: FORWARD, BACKWARD or BIDIRECTIONAL (forward first along D).
        linear_before_reset: whether r multiplies the recurrent product (cuDNN, PyTorch) or h before it (Keras 1, ONNX's default).
        step_mask_tensor: 0 where a sample skips a step, [1, 1, T, B], UINT8; absent, none does.
        input_dropout_tensor: multipliers of x for each gate, [D, G, B, I]; absent, 1.
        state_dropout_tensor: multipliers of h[t-1] for each gate, [D, G, B, H]; absent, 1.
        reserve_tensor: what the gradient needs, [1, 1, 1, D B (K T H + (T + 1) H)], FLOAT32; K is 3, with linear_before_reset 4.
    """

    step_mask_tensor: Annotated[TensorDesc | None, In("1 1 seq_length batch_size", UINT8)] = None
    input_dropout_tensor: Annotated[TensorDesc | None, In("num_directions num_gates batch_size input_size")] = None
    state_dropout_tensor: Annotated[TensorDesc | None, In("num_directions num_gates batch_size hidden_size")] = None
    reserve_tensor: Annotated[TensorDesc | None, Out("1 1 1 reserve_size", FLOAT32, reserve=True)] = None

    def gradient(self, *names: str) -> GRUGradDesc:
        return self._gradient(GRUGradDesc, names)
