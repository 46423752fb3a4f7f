"""The training forms of RNN, LSTM and GRU: the struct, plus a reserve for the gradient, a step mask and dropout.

Only dmlpy has these operators. Without any of the added tensors they compute what the struct computes.

Step mask: at a masked step (0) a sample's states are carried, and the output repeats the previous one of that direction, or is zero where
there is none yet: Keras's rule. Masks may have holes; past a sequence's end outputs are zero all the same.

Dropout: gate g sees x * input_dropout[d, g] in place of x and h[t-1] * state_dropout[d, g] in place of h[t-1] (a GRU that resets first:
r * h[t-1] * state_dropout[d, g]), with the same multipliers at every step: 0, or 1 / (1 - p) for what is kept. Dropout applies to matrix
products only.

Letters: T steps, B batch, I input size, H hidden units, D directions, G gates (RNN 1, GRU 3, LSTM 4).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, TypeVar

from dmlpy.description.coercion import After
from dmlpy.description.markers import In, Out
from dmlpy.description.support import FLOAT32
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.recurrent.gradient import GRUGradDesc, LSTMGradDesc, RecurrentGradDesc, ReserveDesc, RNNGradDesc
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RNNDesc

GradT = TypeVar("GradT", bound=RecurrentGradDesc)


class RecurrentTrainingDesc(ReserveDesc):
    """The base of the three training forms."""

    reserve_tensor: Annotated[TensorDesc | None, Out("1 1 1 reserve_size", FLOAT32, reserve=True)] = None
    """The values that the gradient needs."""

    @abstractmethod
    def gradient(self, *names: str) -> RecurrentGradDesc:
        """The desc of the gradient, with upstream gradients for all described outputs; all added tensors are packed.

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
        gradients = {f"{name.removesuffix('_tensor')}_gradient_tensor": _pack_desc(tensor) for name, tensor in described.items()}
        members |= {field.name: gradients[field.name] for field in kind.inputs() if field.name in gradients}
        return kind(**members).with_outputs(*(names or (field.name for field in kind.outputs() if field.name in gradients)))


def _pack_desc(tensor: TensorDesc) -> TensorDesc:
    return TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes)


class RNNTrainingDesc(RNNDesc, RecurrentTrainingDesc, extension="RNN_TRAINING"):
    """DMLPY_RNN_TRAINING_OPERATOR_DESC: DML_RNN_OPERATOR_DESC with a reserve for RNN_GRAD, a step mask and dropout."""

    def gradient(self, *names: str) -> RNNGradDesc:
        return self._gradient(RNNGradDesc, names)


class LSTMTrainingDesc(LSTMDesc, RecurrentTrainingDesc, extension="LSTM_TRAINING"):
    """DMLPY_LSTM_TRAINING_OPERATOR_DESC: DML_LSTM_OPERATOR_DESC with a reserve for LSTM_GRAD, a step mask, dropout and a projection."""

    projection_tensor: Annotated[
        TensorDesc | None, In("1 num_directions projection_size hidden_size", constant=True), After("state_dropout_tensor")
    ] = None
    """The matrix that o * h(c) is multiplied by to give h. Every h then has projection_size entries, as each row of R has. If absent, h
    is o * h(c)."""

    def gradient(self, *names: str) -> LSTMGradDesc:
        return self._gradient(LSTMGradDesc, names)


class GRUTrainingDesc(GRUDesc, RecurrentTrainingDesc, extension="GRU_TRAINING"):
    """DMLPY_GRU_TRAINING_OPERATOR_DESC: DML_GRU_OPERATOR_DESC with a reserve for GRU_GRAD, a step mask and dropout."""

    def gradient(self, *names: str) -> GRUGradDesc:
        return self._gradient(GRUGradDesc, names)
