"""The gradients of RNN, LSTM and GRU: the gradient of a loss by every input, given its gradient by the outputs.

Only dmlpy has these operators. A field `x_gradient_tensor` is the gradient with respect to the forward operator's `x_tensor`, and has its
sizes: as an input it is the upstream gradient of an output (absent, zero), as an output the gradient of an input (absent, not computed).
The operator reads the reserve that the training form wrote with the same inputs; of the biases and initial states it needs nothing.

Upstream gradients past a sequence's end are ignored. At a masked step they reach the state that the step repeats, and nothing where there
is no output yet. All sums are float32, in a fixed order: the same inputs give the same bits.

Where a function has a kink the derivative is that of one side. Activations: RELU at 0, THRESHOLDED_RELU at alpha, HARD_SIGMOID at both
corners, SHRINK at both thresholds: 0; LEAKY_RELU, ELU, CELU at 0: 1; SCALED_ELU at 0: gamma * alpha. A clipped sum at its bound: 1.

Letters: T steps, B batch, I input size, H hidden units, D directions, G gates (RNN 1, GRU 3, LSTM 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from dmlpy.description.coercion import After, Bool, default
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import In, Out, TensorField, Violation, derived, rule
from dmlpy.description.sizes import Sizes, Term
from dmlpy.description.support import FLOAT32, UINT8
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.recurrent.layer import ClippedDesc, RecurrentDesc

_OF_STATE = frozenset(
    f"{name}{suffix}"
    for name in ("recurrence", "hidden_init", "state_dropout", "output_sequence", "output_single")
    for suffix in ("_tensor", "_gradient_tensor")
)
"""Fields whose last dimension is h's: with a projection its size, not the hidden size."""


_OPTIONAL_INPUTS = (
    "peephole_tensor",
    "projection_tensor",
    "sequence_lengths_tensor",
    "step_mask_tensor",
    "input_dropout_tensor",
    "state_dropout_tensor",
)
"""Members that the training form and its gradient must both have or lack."""


class ReserveDesc(RecurrentDesc):
    """The base of the training forms and the gradients: the reserve that connects them.

    The reserve holds float32 values: reserve_size = D * B * (T * K * H + (T + 1) * (S + M)), where K values are saved for each unit and
    step (RNN 1, LSTM 4, GRU 3, GRU with linear_before_reset 4), S are the entries of h (H, with a projection P) and M those of the cell
    state (H for LSTM, else 0). Its layout is internal to the device.
    """

    step_mask_tensor: Annotated[TensorDesc | None, In("1 1 seq_length batch_size", UINT8)] = None
    """The mask of steps: 0 where a sample skips one. If absent, none is skipped."""

    input_dropout_tensor: Annotated[TensorDesc | None, In("num_directions num_gates batch_size input_size")] = None
    """The multiplier of each gate's input x. If absent, 1."""

    state_dropout_tensor: Annotated[TensorDesc | None, In("num_directions num_gates batch_size hidden_size")] = None
    """The multiplier of each gate's hidden state h[t-1]. If absent, 1."""

    if TYPE_CHECKING:

        @property
        def reserve_tensor(self) -> TensorDesc | None: ...

    @derived("the number of the cell's gates")
    def num_gates(self, symbols: Sizes) -> int:
        return len(self.gate_names)

    @derived("D B (T K H + (T + 1) (S + M)): K values saved for each unit, S entries of h, M of the cell state")
    def reserve_size(self, symbols: Sizes) -> int:
        cell = self.cell
        steps, hidden = symbols["seq_length"], symbols["hidden_size"]
        states = symbols["projection_size"] if cell.projection else hidden
        if cell.has_memory:
            states += hidden
        return symbols["num_directions"] * symbols["batch_size"] * (steps * cell.saved * hidden + (steps + 1) * states)

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        terms = super().terms(field)
        return (*terms[:-1], Term(1, "projection_size")) if field.name in _OF_STATE and self.cell.projection else terms

    def reserve_configuration(self) -> dict[str, Any]:
        cell, sizes, described = self.cell, self.geometry, self.tensors()
        return {
            "cell": cell.kind,
            "data_type": self.input_tensor.data_type,
            "seq_length": sizes.seq_length,
            "batch_size": sizes.batch_size,
            "input_size": sizes.input_size,
            "hidden_size": sizes.hidden_size,
            "state_size": sizes.state_size,
            "direction": self.direction,
            "activation_descs": self.activation_descs,
            "clip_threshold": cell.clip,
            "couple_input_forget": cell.couple_input_forget,
            "linear_before_reset": cell.linear_before_reset,
            **{name.removesuffix("_tensor"): name in described for name in _OPTIONAL_INPUTS if name in type(self).model_fields},
        }

    @rule("attributes are finite")
    def finite_attributes(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for path, value in _numbers(self):
            if not math.isfinite(value):
                yield Violation(path, f"{value:g}", "a finite number", ("gradients through it would be NaN",))


def _numbers(desc: RecurrentDesc) -> Iterator[tuple[str, float]]:
    for index, activation in enumerate(desc.activation_descs):
        for name in activation.attribute_names():
            if isinstance(value := getattr(activation, name), float):
                yield f"activation_descs[{index}].{name}", value
    for name in desc.attribute_names():
        if isinstance(value := getattr(desc, name), float):
            yield name, value


class RecurrentGradDesc(ReserveDesc):
    """The base of the three gradients."""

    unused = dict.fromkeys(("bias_tensor", "hidden_init_tensor", "cell_mem_init_tensor"), "the reserve holds all that its gradient needs")

    step_mask_tensor: Annotated[TensorDesc | None, In("1 1 seq_length batch_size", UINT8), After("sequence_lengths_tensor")] = None
    """The step mask of the training form, if it had one."""

    input_dropout_tensor: Annotated[TensorDesc | None, In("num_directions num_gates batch_size input_size"), After("step_mask_tensor")] = (
        None
    )
    """The training form's multipliers of x, if it had them."""

    state_dropout_tensor: Annotated[
        TensorDesc | None, In("num_directions num_gates batch_size hidden_size"), After("input_dropout_tensor")
    ] = None
    """The training form's multipliers of h[t-1], if it had them."""

    reserve_tensor: Annotated[TensorDesc, In("1 1 1 reserve_size", FLOAT32, reserve=True)]
    """The values that the training form saved."""

    output_sequence_gradient_tensor: Annotated[TensorDesc | None, In("seq_length num_directions batch_size hidden_size")] = None
    """The upstream gradient of every h[t]. If absent, zeros."""

    output_single_gradient_tensor: Annotated[TensorDesc | None, In("1 num_directions batch_size hidden_size")] = None
    """The upstream gradient of the last hidden state. If absent, zeros."""

    input_gradient_tensor: Annotated[TensorDesc | None, Out("1 seq_length batch_size input_size")] = None
    """The gradient of x. It is zero past the end of a sequence."""

    hidden_init_gradient_tensor: Annotated[TensorDesc | None, Out("1 num_directions batch_size hidden_size")] = None
    """The gradient of the hidden state before the first step."""


class RNNGradDesc(RecurrentGradDesc, extension="RNN_GRAD"):
    """DMLPY_RNN_GRAD_OPERATOR_DESC: the gradient of a simple recurrent layer.

    Kinks: RELU at 0, THRESHOLDED_RELU at alpha, HARD_SIGMOID at its corners and SHRINK at its thresholds have derivative 0;
    LEAKY_RELU, ELU and CELU at 0 have 1, SCALED_ELU gamma * alpha.
    """

    cell_kind = "RNN"
    gate_names = ("i",)
    activation_roles = ("f",)
    formula = """\
dh = dh[t] + da[t+1] R
da[t] = dh * f'(x[t] W^T + h[t-1] R^T + Wb + Rb)
dx[t] = da[t] W
dW = sum over t of da[t]^T x[t]
dR = sum over t of da[t]^T h[t-1]
dWb = dRb = sum over t and batch of da[t]"""

    weight_tensor: Annotated[TensorDesc, In("1 num_directions hidden_size input_size"), After("input_tensor")]
    """The matrix W of the forward operator."""

    recurrence_tensor: Annotated[TensorDesc, In("1 num_directions hidden_size hidden_size")]
    """The matrix R of the forward operator."""

    weight_gradient_tensor: Annotated[TensorDesc | None, Out("1 num_directions hidden_size input_size"), After("input_gradient_tensor")] = (
        None
    )
    """The gradient of W."""

    recurrence_gradient_tensor: Annotated[TensorDesc | None, Out("1 num_directions hidden_size hidden_size")] = None
    """The gradient of R."""

    bias_gradient_tensor: Annotated[TensorDesc | None, Out("1 1 num_directions 2*hidden_size")] = None
    """The gradient of Wb, then that of Rb. They are equal."""


class LSTMGradDesc(ClippedDesc, RecurrentGradDesc, extension="LSTM_GRAD"):
    """DMLPY_LSTM_GRAD_OPERATOR_DESC: the gradient of a long short-term memory layer.

    Kinks: RELU at 0, THRESHOLDED_RELU at alpha, HARD_SIGMOID at its corners and SHRINK at its thresholds have derivative 0;
    LEAKY_RELU, ELU and CELU at 0 have 1, SCALED_ELU gamma * alpha. A clipped sum has 1 up to its bound and 0 beyond.
    """

    cell_kind = "LSTM"
    gate_names = ("i", "o", "f", "c")
    activation_roles = ("f", "g", "h")
    formula = """\
dh = dh[t] + da[t+1] R
da_o = dh * h(c[t]) * f'(a_o)
dc = dc[t+1] + dh * o * h'(c[t]) + Po * da_o
da_i = dc * g(a_c) * f'(a_i)
da_f = dc * c[t-1] * f'(a_f); with couple_input_forget 0, and da_i = dc * (g(a_c) - c[t-1]) * f'(a_i)
da_c = dc * i * g'(a_c)
dc[t] = dc * f + Pi * da_i + Pf * da_f
dx[t] = da W; dW = sum of da^T x[t]; dR = sum of da^T h[t-1]; dWb = dRb = sum of da
dPi = sum of da_i * c[t-1]; dPf = sum of da_f * c[t-1]; dPo = sum of da_o * c[t]"""

    weight_tensor: Annotated[TensorDesc, In("1 num_directions 4*hidden_size input_size"), After("input_tensor")]
    """The matrices W of the forward operator, of the gates i, o, f, c."""

    recurrence_tensor: Annotated[TensorDesc, In("1 num_directions 4*hidden_size hidden_size")]
    """The matrices R of the forward operator, of the gates i, o, f, c."""

    peephole_tensor: Annotated[TensorDesc | None, In("1 1 num_directions 3*hidden_size"), After("sequence_lengths_tensor")] = None
    """The peephole weights P of the gates i, o, f, if the forward operator had them."""

    projection_tensor: Annotated[TensorDesc | None, In("1 num_directions projection_size hidden_size")] = None
    """The projection, if the forward operator had one. Every h then has projection_size entries."""

    output_cell_single_gradient_tensor: Annotated[
        TensorDesc | None, In("1 num_directions batch_size hidden_size"), After("output_single_gradient_tensor")
    ] = None
    """The upstream gradient of the last cell state. If absent, zeros."""

    weight_gradient_tensor: Annotated[
        TensorDesc | None, Out("1 num_directions 4*hidden_size input_size"), After("input_gradient_tensor")
    ] = None
    """The gradient of W."""

    recurrence_gradient_tensor: Annotated[TensorDesc | None, Out("1 num_directions 4*hidden_size hidden_size")] = None
    """The gradient of R."""

    bias_gradient_tensor: Annotated[TensorDesc | None, Out("1 1 num_directions 8*hidden_size")] = None
    """The gradient of Wb, then that of Rb. They are equal."""

    cell_mem_init_gradient_tensor: Annotated[
        TensorDesc | None, Out("1 num_directions batch_size hidden_size"), After("hidden_init_gradient_tensor")
    ] = None
    """The gradient of the cell state before the first step."""

    peephole_gradient_tensor: Annotated[TensorDesc | None, Out("1 1 num_directions 3*hidden_size")] = None
    """The gradient of the peephole weights."""

    projection_gradient_tensor: Annotated[TensorDesc | None, Out("1 num_directions projection_size hidden_size")] = None
    """The gradient of the projection."""

    couple_input_forget: Annotated[Bool, After("use_clip_threshold")] = default(False)
    """Whether the forget gate is 1 - i. The rows of f are then zero in all gradients."""

    def applicable_outputs(self) -> tuple[str, ...]:
        absent = {f"{name}_gradient_tensor" for name in ("peephole", "projection") if getattr(self, f"{name}_tensor") is None}
        return tuple(name for name in super().applicable_outputs() if name not in absent)

    @rule("gradients of peepholes and projection need the tensor itself")
    def gradient_of_absent(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for name in ("peephole", "projection"):
            if getattr(self, f"{name}_gradient_tensor") is not None and getattr(self, f"{name}_tensor") is None:
                yield Violation(f"{name}_gradient_tensor", "described", "null", (f"{name}_tensor is null",), f"describe {name}_tensor too")


class GRUGradDesc(RecurrentGradDesc, extension="GRU_GRAD"):
    """DMLPY_GRU_GRAD_OPERATOR_DESC: the gradient of a layer of gated recurrent units.

    Kinks: RELU at 0, THRESHOLDED_RELU at alpha, HARD_SIGMOID at its corners and SHRINK at its thresholds have derivative 0;
    LEAKY_RELU, ELU and CELU at 0 have 1, SCALED_ELU gamma * alpha.
    """

    cell_kind = "GRU"
    gate_names = ("z", "r", "h")
    activation_roles = ("f", "g")
    formula = """\
dh = dh[t] + what the step after it gave
da_h = dh * (1 - z) * g'(a_h); da_z = dh * (h[t-1] - n) * f'(a_z)
dq = da_h Rh, da_r = dq * h[t-1] * f'(a_r), and h[t-1] gets dh * z + dq * r + da_z Rz + da_r Rr; with linear_before_reset
da_r = da_h * (h[t-1] Rh^T + Rbh) * f'(a_r), and h[t-1] gets dh * z + (r * da_h) Rh + da_z Rz + da_r Rr
dx[t] = da W; dW = sum of da^T x[t]; dWb = sum of da
dR, dRb: as dW, dWb with h[t-1] for x[t], but the gate h with r * h[t-1], or r * da_h with linear_before_reset"""

    weight_tensor: Annotated[TensorDesc, In("1 num_directions 3*hidden_size input_size"), After("input_tensor")]
    """The matrices W of the forward operator, of the gates z, r, h."""

    recurrence_tensor: Annotated[TensorDesc, In("1 num_directions 3*hidden_size hidden_size")]
    """The matrices R of the forward operator, of the gates z, r, h."""

    weight_gradient_tensor: Annotated[
        TensorDesc | None, Out("1 num_directions 3*hidden_size input_size"), After("input_gradient_tensor")
    ] = None
    """The gradient of W."""

    recurrence_gradient_tensor: Annotated[TensorDesc | None, Out("1 num_directions 3*hidden_size hidden_size")] = None
    """The gradient of R."""

    bias_gradient_tensor: Annotated[TensorDesc | None, Out("1 1 num_directions 6*hidden_size")] = None
    """The gradient of Wb, then that of Rb. With linear_before_reset they differ in the gate h, else they are equal."""

    linear_before_reset: Annotated[Bool, After("direction")] = default(False)
    """Whether the reset gate multiplies the recurrent product, or h before it."""
