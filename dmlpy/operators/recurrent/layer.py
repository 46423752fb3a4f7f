"""The recurrent operators: one layer that reads a sequence step by step, in one direction or both.

Sizes: T = seq_length, B = batch_size, I = input_size, H = hidden_size, D = num_directions (forward first). All tensors have four
dimensions and one element type; `sequence_lengths_tensor` is UINT32. A sequence shorter than T is processed up to its end (the backward
direction starts there); outputs past the end are zero; the single outputs hold the state after the last step that was processed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

from dmlpy.description.coercion import After, Bool, Float, Spelled, default
from dmlpy.description.descs import SomeOutputDesc
from dmlpy.description.enums import FeatureLevel, RecurrentDirection
from dmlpy.description.markers import In, Out, TensorField, Violation, rule, size
from dmlpy.description.sizes import Sizes
from dmlpy.description.support import FLOATS, UINT32, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import plural
from dmlpy.operators.activation import ActivationDesc, Activations, unfusable

if TYPE_CHECKING:
    from dmlpy.description.gate_order import Cell

ONE_BIAS = "it holds Wb, then Rb: where there is one bias only, follow it with as many zeros"


@dataclass(frozen=True)
class RecurrentGeometry:
    """The sizes of a recurrent desc, for devices.

    Attributes:
        gates: G: 1 for RNN, 3 for GRU, 4 for LSTM.
        state_size: entries of h: the projection's with a projection, else hidden_size.
    """

    seq_length: int
    num_directions: int
    batch_size: int
    input_size: int
    hidden_size: int
    gates: int
    state_size: int


@dataclass(frozen=True)
class RecurrentCell:
    """The options of a step, other than its sizes and activations, that select a device's implementation.

    Attributes:
        kind: `RNN`, `GRU` or `LSTM`.
        gates: G.
        clip: the bound of the gates' sums, or None.
        couple_input_forget: whether f is 1 - i.
        linear_before_reset: whether the reset gate multiplies the recurrent product.
        peephole: whether gates see the cell state.
        projection: whether h is a matrix times the cell's output.
    """

    kind: Cell
    gates: int
    clip: float | None
    couple_input_forget: bool
    linear_before_reset: bool
    peephole: bool
    projection: bool

    @property
    def has_memory(self) -> bool:
        """Whether there is a cell state in addition to h."""
        return self.kind == "LSTM"

    @property
    def resets_first(self) -> bool:
        """Whether the last gate's recurrent product must wait for the reset gate."""
        return self.kind == "GRU" and not self.linear_before_reset

    @property
    def resets_last(self) -> bool:
        """Whether the reset gate multiplies the last gate's recurrent product and its bias."""
        return self.kind == "GRU" and self.linear_before_reset

    @property
    def saved(self) -> int:
        """The number of values per unit and step that training saves: one per gate, and a product that the reset gate multiplies."""
        return self.gates + self.resets_last


class RecurrentDesc(SomeOutputDesc):
    """The base of RNN, GRU and LSTM, and of their training forms and gradients."""

    cell_kind: ClassVar[Cell]
    """The cell that steps through the sequence."""

    gate_names: ClassVar[tuple[str, ...]] = ()
    """The gates in the order in which weights, recurrence and bias concatenate them."""

    activation_roles: ClassVar[tuple[str, ...]] = ()
    """The roles of one direction's activations, in the order of `activation_descs`."""

    c_counts: ClassVar[Mapping[str, str]] = {"ActivationDescCount": "activation_descs"}
    accepts_owned: ClassVar[bool] = False
    numbers: ClassVar[tuple[str, ...]] = ("geometry",)
    support = (SupportRow("1_0", dims=4, T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("1 seq_length batch_size input_size")]
    """The input x of every step."""

    sequence_lengths_tensor: Annotated[TensorDesc | None, In("1 1 1 batch_size", UINT32, at_most="seq_length")] = None
    """How many steps of each sequence count, from 0 to seq_length. If absent, all of them."""

    activation_descs: Activations
    """The activation functions of each direction, the forward direction's first."""

    direction: Spelled[RecurrentDirection]
    """The order in which the steps are processed. BIDIRECTIONAL has the forward direction first along num_directions."""

    @size(because="direction")
    def num_directions(self) -> int:
        return self.direction.count

    @classmethod
    def _attribute_form(cls, name: str) -> str:
        roles = ", ".join(cls.activation_roles)
        return f"activations: {roles} of each direction" if name == "activation_descs" else super()._attribute_form(name)

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        if field.name == "input_tensor" and len(self.input_tensor.sizes) == 3 and self.input_tensor.is_packed:
            # Other tensors may say which dimension is the batch.
            return None if symbols.is_held("batch_size") or symbols.is_held("seq_length") else self._without_leading_one()
        ordered = field.name in ("input_tensor", "output_sequence_tensor")
        if (remedy := super().size_remedy(field, symbols)) is not None:
            return remedy
        return self._batch_first() if ordered else self._matrix_remedy(field.name)

    def _matrix_remedy(self, name: str) -> str | None:
        """A remedy for matrices that are exchanged, or transposed."""
        tensors, gates = self.tensors(), len(self.gate_names)
        weight, recurrence, input_tensor = (tensors.get(f"{matrix}_tensor") for matrix in ("weight", "recurrence", "input"))
        if name not in ("weight_tensor", "recurrence_tensor") or weight is None or recurrence is None or input_tensor is None:
            return None
        if not len(weight.sizes) == len(recurrence.sizes) == len(input_tensor.sizes) == 4:
            return None
        (_, _, rows, entries), (_, directions, units, columns), inputs = weight.sizes, recurrence.sizes, input_tensor.sizes[3]
        if rows == units == gates * entries and columns == inputs:
            return (
                "weight_tensor and recurrence_tensor are exchanged: weights multiply the input, the recurrence multiplies the hidden state"
            )
        if gates > 1 and entries == columns == gates * units and rows == inputs and weight.is_packed and recurrence.is_packed:
            height = units if name == "recurrence_tensor" else inputs
            sizes, strides = [1, directions, columns, height], [directions * columns * height, columns * height, 1, columns]
            order = ", ".join(self.gate_names)
            return f"if it is transposed, as Keras's are, it is sizes {sizes}, strides {strides}; the gates have to be {order}"
        return None

    def _without_leading_one(self) -> str:
        """The remedy for an input of three dimensions, whose order only the caller knows."""
        first, second, size = self.input_tensor.sizes
        if first == 1:
            return f"the order is 1, steps, batch, input size: {second} steps of one sample are sizes {[1, second, 1, size]}"
        strides = [first * second * size, size, second * size, 1]
        return (
            f"the order is 1, steps, batch, input size: {first} steps of {second} samples are sizes {[1, first, second, size]}, "
            f"and {first} samples of {second} steps are sizes {[1, second, first, size]}, strides {strides}"
        )

    def _batch_first(self) -> str | None:
        """A remedy if the output has the input's steps and batch exchanged: the input was given with the batch first."""
        input_tensor, out = self.tensors().get("input_tensor"), self.tensors().get("output_sequence_tensor")
        if input_tensor is None or out is None or not len(input_tensor.sizes) == len(input_tensor.element_strides) == len(out.sizes) == 4:
            return None
        (_, entries, steps, size), (outer, entry, step, inner) = input_tensor.sizes, input_tensor.element_strides
        if entries == steps or (out.sizes[0], out.sizes[2]) != (steps, entries):
            return None
        sizes, strides = [1, steps, entries, size], [outer, step, entry, inner]
        return f"if the input has the batch first, it is sizes {sizes}, strides {strides}: strides alone define a layout"

    @cached_property
    def geometry(self) -> RecurrentGeometry:
        """The sizes of a valid desc as numbers."""
        symbols = self.sizes()
        return RecurrentGeometry(
            seq_length=symbols["seq_length"],
            num_directions=symbols["num_directions"],
            batch_size=symbols["batch_size"],
            input_size=symbols["input_size"],
            hidden_size=symbols["hidden_size"],
            gates=len(self.gate_names),
            state_size=symbols["projection_size"] if self.cell.projection else symbols["hidden_size"],
        )

    @property
    def cell(self) -> RecurrentCell:
        """The options of a step."""
        clips, tensors = getattr(self, "use_clip_threshold", False), self.tensors()
        return RecurrentCell(
            kind=self.cell_kind,
            gates=len(self.gate_names),
            clip=getattr(self, "clip_threshold", None) if clips else None,
            couple_input_forget=getattr(self, "couple_input_forget", False),
            linear_before_reset=getattr(self, "linear_before_reset", False),
            peephole="peephole_tensor" in tensors,
            projection="projection_tensor" in tensors,
        )

    def activations_of(self, direction: int) -> tuple[ActivationDesc, ...]:
        """The activations of the direction with this index: f, then g, then h."""
        count = len(self.activation_roles)
        return self.activation_descs[direction * count : (direction + 1) * count]

    @rule("the activations of every direction, the forward set first")
    def activation_count(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        roles, directions = ", ".join(self.activation_roles), symbols["num_directions"]
        expected = len(self.activation_roles) * directions
        if (count := len(self.activation_descs)) != expected:
            each = f"{roles} of the forward time loop, then {roles} of the backward one" if directions == 2 else roles
            actual = plural(count, "activation")
            yield Violation("activation_descs", actual, f"{expected}: {each}", (symbols.why("num_directions"),))

    @rule("activations are element-wise functions that can be fused")
    def activation_kind(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for index, activation in enumerate(self.activation_descs):
            yield from unfusable(f"activation_descs[{index}]", activation, "a cell applies it to single elements, and it has no tensors")


class ClippedDesc(RecurrentDesc):
    """A recurrent desc whose gates' sums may be clipped."""

    clip_threshold: Annotated[Float, After("direction")] = default(0.0)
    """The bound of the gates' sums. It is used only with use_clip_threshold."""

    use_clip_threshold: Bool = default(False)
    """Whether the sums that enter f and g are held between -clip_threshold and clip_threshold."""

    @rule("a clip threshold in use is above 0")
    def clip_threshold_positive(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if self.use_clip_threshold and not self.clip_threshold > 0:
            yield Violation("clip_threshold", f"{self.clip_threshold:g}", "a number above 0", ("use_clip_threshold is True",))


class LayerDesc(RecurrentDesc):
    """The initial state and the outputs that RNN, LSTM and GRU share."""

    hidden_init_tensor: Annotated[TensorDesc | None, In("1 num_directions batch_size hidden_size"), After("input_tensor")] = None
    """The hidden state h before the first step. If absent, zeros."""

    output_sequence_tensor: Annotated[
        TensorDesc | None, Out("seq_length num_directions batch_size hidden_size"), After("sequence_lengths_tensor")
    ] = None
    """The hidden state h[t] of every step, stored at its t. It is zero past the end of a sequence."""

    output_single_tensor: Annotated[TensorDesc | None, Out("1 num_directions batch_size hidden_size")] = None
    """The hidden state h after the last step that was processed."""


class RNNDesc(LayerDesc, dml="RNN"):
    """DML_RNN_OPERATOR_DESC: a simple recurrent layer; its state h is f of the input and of the state before."""

    cell_kind = "RNN"
    gate_names = ("i",)
    activation_roles = ("f",)
    formula = "h[t] = f(x[t] W^T + h[t-1] R^T + Wb + Rb)"

    weight_tensor: Annotated[TensorDesc, In("1 num_directions hidden_size input_size", constant=True), After("input_tensor")]
    """The matrix W that multiplies the input."""

    recurrence_tensor: Annotated[TensorDesc, In("1 num_directions hidden_size hidden_size", constant=True)]
    """The matrix R that multiplies the hidden state."""

    bias_tensor: Annotated[TensorDesc | None, In("1 1 num_directions 2*hidden_size", constant=True, if_half=ONE_BIAS)] = None
    """The bias Wb, then the bias Rb. If absent, zeros."""


class LSTMDesc(LayerDesc, ClippedDesc, dml="LSTM"):
    """DML_LSTM_OPERATOR_DESC: long short-term memory, a recurrent layer with a cell state c in addition to h; gates keep or change it.

    Along 4*hidden_size the gates are i (input), o (output), f (forget), c (cell): ONNX's order, not the i, f, g, o of cuDNN and PyTorch.
    The activations are f of the gates, g of the cell's input and h of its output.
    """

    cell_kind = "LSTM"
    gate_names = ("i", "o", "f", "c")
    activation_roles = ("f", "g", "h")
    formula = """\
i = f(clip(x[t] Wi^T + h[t-1] Ri^T + Pi * c[t-1] + Wbi + Rbi))
f = f(clip(x[t] Wf^T + h[t-1] Rf^T + Pf * c[t-1] + Wbf + Rbf)), or 1 - i with couple_input_forget
c[t] = f * c[t-1] + i * g(clip(x[t] Wc^T + h[t-1] Rc^T + Wbc + Rbc))
o = f(clip(x[t] Wo^T + h[t-1] Ro^T + Po * c[t] + Wbo + Rbo))
h[t] = o * h(c[t])"""

    weight_tensor: Annotated[TensorDesc, In("1 num_directions 4*hidden_size input_size", constant=True), After("input_tensor")]
    """The matrices W that multiply the input, of the gates i, o, f, c."""

    recurrence_tensor: Annotated[TensorDesc, In("1 num_directions 4*hidden_size hidden_size", constant=True)]
    """The matrices R that multiply the hidden state, of the gates i, o, f, c."""

    bias_tensor: Annotated[TensorDesc | None, In("1 1 num_directions 8*hidden_size", constant=True, if_half=ONE_BIAS)] = None
    """The biases Wb of the gates i, o, f, c, then the biases Rb. If absent, zeros."""

    cell_mem_init_tensor: Annotated[TensorDesc | None, In("1 num_directions batch_size hidden_size"), After("hidden_init_tensor")] = None
    """The cell state c before the first step. If absent, zeros."""

    peephole_tensor: Annotated[
        TensorDesc | None, In("1 1 num_directions 3*hidden_size", constant=True), After("sequence_lengths_tensor")
    ] = None
    """The peephole weights P of the gates i, o, f. The output gate sees the new cell state. If absent, zeros."""

    output_cell_single_tensor: Annotated[
        TensorDesc | None, Out("1 num_directions batch_size hidden_size"), After("output_single_tensor")
    ] = None
    """The cell state c after the last step that was processed."""

    couple_input_forget: Annotated[Bool, After("use_clip_threshold")] = default(False)
    """Whether the forget gate is 1 - i. The rows of f are then ignored."""


class GRUDesc(LayerDesc, dml="GRU"):
    """DML_GRU_OPERATOR_DESC: gated recurrent units, a recurrent layer that replaces its state h as far as the update gate z lets it.

    Along 3*hidden_size the gates are z (update), r (reset), h (hidden): ONNX's order, not the r, z, n of cuDNN and PyTorch. The activations
    are f of the gates and g of the hidden state.
    """

    cell_kind = "GRU"
    gate_names = ("z", "r", "h")
    activation_roles = ("f", "g")
    formula = """\
z = f(x[t] Wz^T + h[t-1] Rz^T + Wbz + Rbz)
r = f(x[t] Wr^T + h[t-1] Rr^T + Wbr + Rbr)
n = g(x[t] Wh^T + (r * h[t-1]) Rh^T + Rbh + Wbh), or with linear_before_reset
n = g(x[t] Wh^T + r * (h[t-1] Rh^T + Rbh) + Wbh)
h[t] = (1 - z) * n + z * h[t-1]"""

    weight_tensor: Annotated[TensorDesc, In("1 num_directions 3*hidden_size input_size", constant=True), After("input_tensor")]
    """The matrices W that multiply the input, of the gates z, r, h."""

    recurrence_tensor: Annotated[TensorDesc, In("1 num_directions 3*hidden_size hidden_size", constant=True)]
    """The matrices R that multiply the hidden state, of the gates z, r, h."""

    bias_tensor: Annotated[TensorDesc | None, In("1 1 num_directions 6*hidden_size", constant=True, if_half=ONE_BIAS)] = None
    """The biases Wb of the gates z, r, h, then the biases Rb. If absent, zeros."""

    linear_before_reset: Annotated[Bool, After("direction")] = default(False)
    """Whether the reset gate multiplies the recurrent product (cuDNN, PyTorch) or h before it (Keras 1, ONNX's default)."""
