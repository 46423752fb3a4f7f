"""`SimpleRNN`, `GRU` and `LSTM`, with the names, order and defaults of Keras 1's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.flags import option_problems
from dmlpy.keras.arguments import found_argument
from dmlpy.keras.initializers import Initializer, initial, zero
from dmlpy.keras.initializers import initializer as find_initializer
from dmlpy.keras.recurrent import Recurrent
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RNNDesc
from dmlpy.operators.recurrent.training import GRUTrainingDesc, LSTMTrainingDesc, RNNTrainingDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.keras.regularizers import Regularizer
    from dmlpy.messages.problems import Problem
    from dmlpy.operators.activation import ActivationDesc


class SimpleRNN(Recurrent):
    """A simple recurrent layer: h = activation(x W + h' U + b).

    Args:
        output_dim: H.
        init: see `Recurrent`, also for the other arguments.
        activation: the activation of the sum: a Keras name or an activation desc.
        **kwargs: `Recurrent`'s arguments by name.
    """

    cell = "RNN"
    forms = (RNNDesc, RNNTrainingDesc)

    def __init__(
        self,
        output_dim: int,
        init: Initializer | str = "glorot_uniform",
        inner_init: Initializer | str = "orthogonal",
        activation: ActivationDesc | str | None = "tanh",
        W_regularizer: Regularizer | str | None = None,
        U_regularizer: Regularizer | str | None = None,
        b_regularizer: Regularizer | str | None = None,
        dropout_W: float = 0.0,
        dropout_U: float = 0.0,
        **kwargs: Any,
    ) -> None:
        regularizers = (W_regularizer, U_regularizer, b_regularizer)
        super().__init__(output_dim, {"activation": activation}, init, inner_init, *regularizers, dropout_W, dropout_U, **kwargs)


class GRU(Recurrent):
    """Gated recurrent unit layer.

    z and r = inner_activation(x W + h' U + b); n = activation(x W_h + (r * h') U_h + b_h); h = z * h' + (1 - z) * n.

    Args:
        output_dim: H.
        init: see `Recurrent`, also for the other arguments.
        activation: the activation of n: a Keras name or an activation desc.
        inner_activation: the activation of the gates z and r.
        reset_after: whether r multiplies the product h' U_h and its bias, as in later versions of Keras by default, and always in cuDNN and
        PyTorch: n = activation(x W_h + b_h + r * (h' U_h + c_h)). Biases are then [2, ...]: b, then c.
        **kwargs: `Recurrent`'s arguments by name.
    """

    cell = "GRU"
    forms = (GRUDesc, GRUTrainingDesc)

    def __init__(
        self,
        output_dim: int,
        init: Initializer | str = "glorot_uniform",
        inner_init: Initializer | str = "orthogonal",
        activation: ActivationDesc | str | None = "tanh",
        inner_activation: ActivationDesc | str | None = "hard_sigmoid",
        W_regularizer: Regularizer | str | None = None,
        U_regularizer: Regularizer | str | None = None,
        b_regularizer: Regularizer | str | None = None,
        dropout_W: float = 0.0,
        dropout_U: float = 0.0,
        *,
        reset_after: bool = False,
        **kwargs: Any,
    ) -> None:
        self.reset_after = reset_after
        is_after = isinstance(reset_after, bool | np.bool_) and bool(reset_after)  # anything else is reported below
        self.bias_parts = 2 if is_after else 1
        self.attributes = {"linear_before_reset": is_after}
        activations = {"inner_activation": inner_activation, "activation": activation}
        regularizers = (W_regularizer, U_regularizer, b_regularizer)
        super().__init__(output_dim, activations, init, inner_init, *regularizers, dropout_W, dropout_U, **kwargs)

    def _argument_problems(self, unknown: Mapping[str, Any]) -> list[Problem]:
        return super()._argument_problems(unknown) + option_problems(reset_after=self.reset_after)


class LSTM(Recurrent):
    """Long short-term memory.

    i, f and o = inner_activation(x W + h' U + b); c = f * c' + i * activation(x W_c + h' U_c + b_c); h = o * activation(c).

    Args:
        output_dim: H.
        init: see `Recurrent`, also for the other arguments.
        forget_bias_init: initializer of the bias of f, [H]. With ones the cell keeps its state until it learns when to forget.
        activation: the activation of c's sum, and of c in h: a Keras name or an activation desc.
        inner_activation: the activation of the gates i, f and o.
        **kwargs: `Recurrent`'s arguments by name.
    """

    cell = "LSTM"
    forms = (LSTMDesc, LSTMTrainingDesc)

    def __init__(
        self,
        output_dim: int,
        init: Initializer | str = "glorot_uniform",
        inner_init: Initializer | str = "orthogonal",
        forget_bias_init: Initializer | str = "one",
        activation: ActivationDesc | str | None = "tanh",
        inner_activation: ActivationDesc | str | None = "hard_sigmoid",
        W_regularizer: Regularizer | str | None = None,
        U_regularizer: Regularizer | str | None = None,
        b_regularizer: Regularizer | str | None = None,
        dropout_W: float = 0.0,
        dropout_U: float = 0.0,
        **kwargs: Any,
    ) -> None:
        self.forget_bias_init = forget_bias_init
        activations = {"inner_activation": inner_activation, "activation": activation}
        regularizers = (W_regularizer, U_regularizer, b_regularizer)
        super().__init__(output_dim, activations, init, inner_init, *regularizers, dropout_W, dropout_U, **kwargs)
        # The desc's third activation applies to the cell's output.
        self.activations.append(self.activations[1])

    def _argument_problems(self, unknown: Mapping[str, Any]) -> list[Problem]:
        problems: list[Problem] = []
        self._forget_bias: Initializer = found_argument(find_initializer, self.forget_bias_init, "forget_bias_init", problems)
        return problems + super()._argument_problems(unknown)

    def _initial_bias(self, gate: str, shape: tuple[int, ...], random: np.random.Generator) -> Any:
        return initial(self._forget_bias if gate == "f" else zero, shape, random)
