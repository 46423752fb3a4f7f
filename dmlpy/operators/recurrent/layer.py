"""The recurrent operators: one layer that reads a sequence step by step, in one direction or both.

Sizes: T = seq_length, B = batch_size, I = input_size, H = hidden_size, D = num_directions (forward first). All tensors have four
dimensions and one element type; `sequence_lengths_tensor` is UINT32. A sequence shorter than T is walked up to its own end (the backward
direction starts there); outputs past the end are zero; the single outputs hold the state after the last step that was walked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

from dmlpy.description.descs import SomeOutputDesc
from dmlpy.description.enums import FeatureLevel, RecurrentDirection
from dmlpy.description.gate_order import Cell
from dmlpy.description.markers import Breach, In, Out, TensorField, rule, size
from dmlpy.description.naming import plural
from dmlpy.description.sizes import Sizes
from dmlpy.description.structs import Bool, Float, Spelled, default
from dmlpy.description.support import FLOATS, UINT32, Since
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.activation import ActivationDesc, Activations, unfusable

ONE_BIAS = "it holds Wb, then Rb: where there is one bias only, follow it with as many zeros"


@dataclass(frozen=True)
class RecurrentGeometry:
    """The numbers that a device needs of a recurrent desc.

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
    """What a step computes, beside its sizes and activations: what both devices choose their code by.

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
        """Whether there is a cell state beside h."""
        return self.kind == "LSTM"

    @property
    def resets_first(self) -> bool:
        """Whether the last gate's recurrent product waits for the reset gate."""
        return self.kind == "GRU" and not self.linear_before_reset

    @property
    def resets_last(self) -> bool:
        """Whether the reset gate multiplies the last gate's recurrent product and its bias."""
        return self.kind == "GRU" and self.linear_before_reset

    @property
    def kept(self) -> int:
        """Values for each unit and step that training keeps: one for each gate, and a product that the reset gate multiplies."""
        return self.gates + self.resets_last


class RecurrentDesc(SomeOutputDesc):
    """What RNN, GRU and LSTM share, and their training forms and gradients."""

    cell_kind: ClassVar[Cell]
    """The cell that steps through the sequence."""

    gate_names: ClassVar[tuple[str, ...]] = ()
    """The gates in the order in which weights, recurrence and bias concatenate them."""

    activation_roles: ClassVar[tuple[str, ...]] = ()
    """What the activations of one direction are for, in the order of `activation_descs`."""

    c_counts: ClassVar[Mapping[str, str]] = {"ActivationDescCount": "activation_descs"}
    accepts_owned: ClassVar[bool] = False
    support = (Since("1_0", dims=4, T=FLOATS),)

    @size(because="direction")
    def num_directions(self) -> int:
        return self.direction.count

    if TYPE_CHECKING:
        # Declared by each struct, at its place in the C struct's order.
        @property
        def input_tensor(self) -> TensorDesc: ...
        @property
        def direction(self) -> RecurrentDirection: ...
        @property
        def activation_descs(self) -> tuple[ActivationDesc, ...]: ...

    @classmethod
    def _attribute_form(cls, name: str) -> str:
        roles = ", ".join(cls.activation_roles)
        return f"activations: {roles} of each direction" if name == "activation_descs" else super()._attribute_form(name)

    def size_remedy(self, field: TensorField, known: Sizes) -> str | None:
        ordered = field.name in ("input_tensor", "output_sequence_tensor")
        return super().size_remedy(field, known) or (self._batch_first() if ordered else None)

    def _batch_first(self) -> str | None:
        """A remedy where the output has the input's steps and batch entries the other way round: for an input with the batch first."""
        given, out = self.tensors().get("input_tensor"), self.tensors().get("output_sequence_tensor")
        if given is None or out is None or not len(given.sizes) == len(given.element_strides) == len(out.sizes) == 4:
            return None
        (_, entries, steps, size), (outer, entry, step, inner) = given.sizes, given.element_strides
        if entries == steps or (out.sizes[0], out.sizes[2]) != (steps, entries):
            return None
        sizes, strides = [1, steps, entries, size], [outer, step, entry, inner]
        return f"if the input has the batch first, it is sizes {sizes}, strides {strides}: strides alone tell a layout"

    @cached_property
    def geometry(self) -> RecurrentGeometry:
        """The sizes of a valid desc as numbers."""
        known = self.sizes()
        return RecurrentGeometry(
            seq_length=known["seq_length"],
            num_directions=known["num_directions"],
            batch_size=known["batch_size"],
            input_size=known["input_size"],
            hidden_size=known["hidden_size"],
            gates=len(self.gate_names),
            state_size=known["projection_size"] if self.cell.projection else known["hidden_size"],
        )

    @property
    def cell(self) -> RecurrentCell:
        """What a step computes."""
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
        """The activations of the walk with this index: f, then g, then h."""
        count = len(self.activation_roles)
        return self.activation_descs[direction * count : (direction + 1) * count]

    @rule("the activations of every direction, the forward set first")
    def activation_count(self, known: Sizes, level: FeatureLevel) -> Iterable[Breach]:
        roles, directions = ", ".join(self.activation_roles), known["num_directions"]
        expected = len(self.activation_roles) * directions
        if (count := len(self.activation_descs)) != expected:
            each = f"{roles} of the forward walk, then {roles} of the backward one" if directions == 2 else roles
            found = plural(count, "activation")
            yield Breach("activation_descs", found, f"{expected}: {each}", (known.why("num_directions"),))

    @rule("activations are element-wise functions that can be fused")
    def activation_kind(self, known: Sizes, level: FeatureLevel) -> Iterable[Breach]:
        for index, activation in enumerate(self.activation_descs):
            yield from unfusable(
                f"activation_descs[{index}]", activation, "a cell applies it to single elements, without tensors of its own"
            )


class ClippedDesc(RecurrentDesc):
    """A recurrent desc whose gates' sums may be clipped."""

    if TYPE_CHECKING:

        @property
        def clip_threshold(self) -> float: ...
        @property
        def use_clip_threshold(self) -> bool: ...

    @rule("a clip threshold in use is above 0")
    def clip_threshold_positive(self, known: Sizes, level: FeatureLevel) -> Iterable[Breach]:
        if self.use_clip_threshold and not self.clip_threshold > 0:
            yield Breach("clip_threshold", f"{self.clip_threshold:g}", "a number above 0", ("use_clip_threshold is True",))


class RNNDesc(RecurrentDesc, dml="RNN"):
    """DML_RNN_OPERATOR_DESC: a simple recurrent layer; its state h is f of the input and of the state before.

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
    """

    cell_kind = "RNN"
    gate_names = ("i",)
    activation_roles = ("f",)
    formula = "h[t] = f(x[t] W^T + h[t-1] R^T + Wb + Rb)"

    input_tensor: Annotated[TensorDesc, In("1 seq_length batch_size input_size")]
    weight_tensor: Annotated[TensorDesc, In("1 num_directions hidden_size input_size", constant=True)]
    recurrence_tensor: Annotated[TensorDesc, In("1 num_directions hidden_size hidden_size", constant=True)]
    bias_tensor: Annotated[TensorDesc | None, In("1 1 num_directions 2*hidden_size", constant=True, if_half=ONE_BIAS)] = None
    hidden_init_tensor: Annotated[TensorDesc | None, In("1 num_directions batch_size hidden_size")] = None
    sequence_lengths_tensor: Annotated[TensorDesc | None, In("1 1 1 batch_size", UINT32, at_most="seq_length")] = None
    output_sequence_tensor: Annotated[TensorDesc | None, Out("seq_length num_directions batch_size hidden_size")] = None
    output_single_tensor: Annotated[TensorDesc | None, Out("1 num_directions batch_size hidden_size")] = None
    activation_descs: Activations
    direction: Spelled[RecurrentDirection]


class LSTMDesc(ClippedDesc, dml="LSTM"):
    """DML_LSTM_OPERATOR_DESC: long short-term memory, a recurrent layer with a cell state c beside h; gates keep or change it.

    Along 4H the gates are i (input), o (output), f (forget), c (cell): ONNX's order, not the i, f, g, o of cuDNN and PyTorch.

    Attributes:
        input_tensor: x, [1, T, B, I].
        weight_tensor: W, [1, D, 4H, I].
        recurrence_tensor: R, [1, D, 4H, H].
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

    input_tensor: Annotated[TensorDesc, In("1 seq_length batch_size input_size")]
    weight_tensor: Annotated[TensorDesc, In("1 num_directions 4*hidden_size input_size", constant=True)]
    recurrence_tensor: Annotated[TensorDesc, In("1 num_directions 4*hidden_size hidden_size", constant=True)]
    bias_tensor: Annotated[TensorDesc | None, In("1 1 num_directions 8*hidden_size", constant=True, if_half=ONE_BIAS)] = None
    hidden_init_tensor: Annotated[TensorDesc | None, In("1 num_directions batch_size hidden_size")] = None
    cell_mem_init_tensor: Annotated[TensorDesc | None, In("1 num_directions batch_size hidden_size")] = None
    sequence_lengths_tensor: Annotated[TensorDesc | None, In("1 1 1 batch_size", UINT32, at_most="seq_length")] = None
    peephole_tensor: Annotated[TensorDesc | None, In("1 1 num_directions 3*hidden_size", constant=True)] = None
    output_sequence_tensor: Annotated[TensorDesc | None, Out("seq_length num_directions batch_size hidden_size")] = None
    output_single_tensor: Annotated[TensorDesc | None, Out("1 num_directions batch_size hidden_size")] = None
    output_cell_single_tensor: Annotated[TensorDesc | None, Out("1 num_directions batch_size hidden_size")] = None
    activation_descs: Activations
    direction: Spelled[RecurrentDirection]
    clip_threshold: Float = default(0.0)
    use_clip_threshold: Bool = default(False)
    couple_input_forget: Bool = default(False)


class GRUDesc(RecurrentDesc, dml="GRU"):
    """DML_GRU_OPERATOR_DESC: gated recurrent units, a recurrent layer that replaces its state h as far as the update gate z lets it.

    Along 3H the gates are z (update), r (reset), h (hidden): ONNX's order, not the r, z, n of cuDNN and PyTorch.

    Attributes:
        input_tensor: x, [1, T, B, I].
        weight_tensor: W, [1, D, 3H, I].
        recurrence_tensor: R, [1, D, 3H, H].
        bias_tensor: Wb then Rb of all gates, [1, 1, D, 6H]; absent, zero.
        hidden_init_tensor: h before the first step, [1, D, B, H]; absent, zero.
        sequence_lengths_tensor: steps of each sequence that count, [1, 1, 1, B], UINT32, 0 to T; absent, all.
        output_sequence_tensor: every h[t], stored at its t, [T, D, B, H]; zero past a sequence's end.
        output_single_tensor: h after the last step walked, [1, D, B, H].
        activation_descs: f (gates), g (hidden) of each direction.
        direction: FORWARD, BACKWARD or BIDIRECTIONAL (forward first along D).
        linear_before_reset: whether r multiplies the recurrent product (cuDNN, PyTorch) or h before it (Keras 1, ONNX's default).
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

    input_tensor: Annotated[TensorDesc, In("1 seq_length batch_size input_size")]
    weight_tensor: Annotated[TensorDesc, In("1 num_directions 3*hidden_size input_size", constant=True)]
    recurrence_tensor: Annotated[TensorDesc, In("1 num_directions 3*hidden_size hidden_size", constant=True)]
    bias_tensor: Annotated[TensorDesc | None, In("1 1 num_directions 6*hidden_size", constant=True, if_half=ONE_BIAS)] = None
    hidden_init_tensor: Annotated[TensorDesc | None, In("1 num_directions batch_size hidden_size")] = None
    sequence_lengths_tensor: Annotated[TensorDesc | None, In("1 1 1 batch_size", UINT32, at_most="seq_length")] = None
    output_sequence_tensor: Annotated[TensorDesc | None, Out("seq_length num_directions batch_size hidden_size")] = None
    output_single_tensor: Annotated[TensorDesc | None, Out("1 num_directions batch_size hidden_size")] = None
    activation_descs: Activations
    direction: Spelled[RecurrentDirection]
    linear_before_reset: Bool = default(False)
