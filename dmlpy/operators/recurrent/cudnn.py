"""Stacked recurrent networks with gradients, as TensorFlow's CudnnRNNV3 and CudnnRNNBackpropV3 describe them.

Letters: T steps, B batch, I input size, L layers, D directions, H units, P num_proj, S entries of h: P with a projection, else H.
Layers and units follow from the sizes of the states. `dmlpy.operators.recurrent.params` describes the layout of `params`.

Differences from TensorFlow: FLOAT32 and FLOAT16 only; seeds of 0 are as deterministic as any others; `dropout_offset` is added;
`sequence_lengths` and the upstream gradients may be absent (all T, zero), as may the outputs that are not wanted; what the gradient takes
only for TensorFlow's sake (`output`, `output_h`, `output_c`, `host_reserved`) may be absent and is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from dmlpy.description.coercion import After, Bool, Float, Spelled, Uint, default
from dmlpy.description.descs import SomeOutputDesc
from dmlpy.description.enums import FeatureLevel, RnnDirection, RnnInputMode, RnnMode
from dmlpy.description.markers import In, Out, TensorField, Violation, derived, rule, size
from dmlpy.description.sizes import Sizes, Term, UnboundSymbolError
from dmlpy.description.support import FLOAT32, FLOATS, INT8, INT32, UINT64, SupportRow
from dmlpy.description.tensors import MAX_UINT32, TensorDesc
from dmlpy.messages.naming import Count
from dmlpy.messages.problems import DescError
from dmlpy.operators.recurrent.params import ParamsLayout

RESERVE_ALIGNMENT = 64
"""Elements that every part of a network's reserve begins at a multiple of."""
RESERVE_HEADER = 64
"""Elements at the reserve's beginning; the first two hold the dropout offset's low and high word."""

_TRANSPOSED = frozenset(
    f"{name}{suffix}" for name in ("input", "input_h", "input_c", "output", "output_h", "output_c") for suffix in ("", "_backprop")
)
_CELL_STATES = frozenset(f"{name}{suffix}" for name in ("input_c", "output_c") for suffix in ("", "_backprop"))
_NOT_READ = frozenset(("output", "output_h", "output_c", "host_reserved"))
"""Inputs that the gradient takes only for TensorFlow."""
_OF_STATE = frozenset(f"{name}{suffix}" for name in ("input_h", "output_h") for suffix in ("", "_backprop"))


def aligned(elements: int) -> int:
    """Rounds an element count up to the start of the reserve's next part."""
    return -(-elements // RESERVE_ALIGNMENT) * RESERVE_ALIGNMENT


def reserve_elements(mode: RnnMode, symbols: Mapping[str, int]) -> int:
    """The elements of a network's reserve, by the sizes that `CudnnRNNDesc` names. Sizes may be symbols, as those of torch.compile."""
    saved_input, layers = symbols["seq_length"] * symbols["batch_size"] * symbols["output_size"], symbols["num_layers"]
    return RESERVE_HEADER + layers * aligned(layer_reserve_elements(mode, symbols)) + (layers - 1) * aligned(saved_input)


def layer_reserve_elements(mode: RnnMode, symbols: Mapping[str, int]) -> int:
    """The float32 values that the operator of one layer saves."""
    saved = 4 if mode in (RnnMode.LSTM, RnnMode.GRU) else 1
    memory = symbols["num_units"] if mode is RnnMode.LSTM else 0
    steps = symbols["seq_length"]
    each = steps * saved * symbols["num_units"] + (steps + 1) * (symbols["state_size"] + memory)
    return symbols["num_directions"] * symbols["batch_size"] * each


class CudnnRNNDesc(SomeOutputDesc):
    """The base of the network and its gradient.

    The reserve holds 64 + L * align(layer) + (L - 1) * align(T * B * D * S) float32 values, where align rounds up to a multiple of 64 and
    layer = D * B * (T * K * H + (T + 1) * (S + M)) with K saved values for each unit and step (RNN 1, LSTM 4, GRU 4) and M entries of the
    cell state (H for LSTM, else 0): the reserves of the layers, and the inputs of all but the first.
    """

    accepts_owned = False
    support = (SupportRow("1_0", dims=(1, 3), T=FLOATS),)

    input: Annotated[TensorDesc, In("seq_length batch_size input_size")]
    """The input x of every step. The batch comes first unless time_major."""

    input_h: Annotated[TensorDesc, In("stacked_directions batch_size state_size")]
    """The hidden state h of every layer and direction before the first step. The batch comes first unless time_major."""

    input_c: Annotated[TensorDesc | None, In("stacked_directions batch_size num_units")] = None
    """The cell state c of every layer and direction before the first step, for lstm only. The batch comes first unless time_major."""

    params: Annotated[TensorDesc, In("params_size")]
    """All matrices and biases in one buffer: see `params_layout`."""

    sequence_lengths: Annotated[TensorDesc | None, In("batch_size", INT32, at_most="seq_length")] = None
    """How many steps of each sample count, from 0 to seq_length. If absent, all of them."""

    rnn_mode: Spelled[RnnMode] = default(RnnMode.LSTM)
    """The cell. The reset gate of gru acts after the recurrent product."""

    input_mode: Spelled[RnnInputMode] = default(RnnInputMode.LINEAR_INPUT)
    """The use of the first layer's input: linear_input multiplies it by matrices; skip_input adds it to every gate, which needs
    input_size = num_units; auto_select skips where the sizes allow it.
    """

    direction: Spelled[RnnDirection] = default(RnnDirection.UNIDIRECTIONAL)
    """Whether each layer also has a backward direction."""

    dropout: Float = default(0.0)
    """The share of each layer's output, but the last's, that is set to zero while training. 1 / (1 - dropout) scales the rest."""

    seed: Uint = default(0)
    """The first word of the dropout's key, in its low 32 bits."""

    seed2: Uint = default(0)
    """The second word of the dropout's key, in its low 32 bits."""

    num_proj: Uint = default(0)
    """The entries of the projected hidden state, for lstm only. With 0 there is no projection."""

    time_major: Bool = default(True)
    """Whether time comes before the batch in input, output and states."""

    @size(because="direction")
    def num_directions(self) -> int:
        return self.direction.count

    @size(because="num_proj")
    def projection_size(self) -> int:
        return self.num_proj

    @derived("entries of h: num_proj with a projection, else num_units")
    def state_size(self, symbols: Sizes) -> int:
        return self.num_proj if self.projects else symbols["num_units"]

    @derived("stacked_directions / num_directions")
    def num_layers(self, symbols: Sizes) -> int:
        return max(symbols["stacked_directions"] // symbols["num_directions"], 1)

    @derived("num_directions * state_size")
    def output_size(self, symbols: Sizes) -> int:
        return symbols["num_directions"] * symbols["state_size"]

    @derived("matrices and biases of all layers")
    def params_size(self, symbols: Sizes) -> int:
        try:
            return self._layout(symbols).size
        except DescError:  # the rules report wrong attributes
            raise UnboundSymbolError("params_size") from None

    @derived("64 + L align(D B (T K H + (T + 1) (S + M))) + (L - 1) align(T B D S), where align rounds up to a multiple of 64")
    def reserve_size(self, symbols: Sizes) -> int:
        return reserve_elements(self.rnn_mode, symbols)

    def layer_reserve_size(self, symbols: Sizes) -> int:
        """The number of float32 values that the operator of one layer saves."""
        return layer_reserve_elements(self.rnn_mode, symbols)

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        terms = super().terms(field)
        if field.name in _OF_STATE:
            # Without a projection h has the size of c, so both bind the same symbol.
            terms = (*terms[:-1], Term(1, "projection_size" if self.projects else "num_units"))
        if field.name in _TRANSPOSED and not self.time_major:
            terms = (terms[1], terms[0], terms[2])
        return terms

    def applicable_outputs(self) -> tuple[str, ...]:
        names = super().applicable_outputs()
        return names if self.rnn_mode is RnnMode.LSTM else tuple(name for name in names if name not in _CELL_STATES)

    @property
    def projects(self) -> bool:
        """Whether h is a projection of the cell's output."""
        return self.num_proj != 0 and self.rnn_mode is RnnMode.LSTM

    @property
    def skips_input(self) -> bool:
        """Whether the first layer has no input matrices, with `auto_select` resolved."""
        if self.input_mode is RnnInputMode.AUTO_SELECT:
            symbols = self.sizes()
            return symbols["input_size"] == symbols["num_units"]
        return self.input_mode is RnnInputMode.SKIP_INPUT

    def params_layout(self) -> ParamsLayout:
        """The layout of `params`. The desc must be valid."""
        return self._layout(self.sizes())

    def _layout(self, symbols: Sizes) -> ParamsLayout:
        same = symbols["input_size"] == symbols["num_units"]
        skips = self.input_mode is RnnInputMode.SKIP_INPUT or (self.input_mode is RnnInputMode.AUTO_SELECT and same)
        return ParamsLayout(
            rnn_mode=str(self.rnn_mode),
            num_layers=symbols["num_layers"],
            num_units=symbols["num_units"],
            input_size=symbols["input_size"],
            bidirectional=self.direction is RnnDirection.BIDIRECTIONAL,
            num_proj=self.num_proj,
            skip_input=skips,
        )

    def reserve_configuration(self) -> dict[str, Any]:
        symbols = self.sizes()
        names = ("seq_length", "batch_size", "input_size", "num_layers", "num_units", "state_size")
        return {
            "data_type": self.input.data_type,
            **{name: symbols[name] for name in names},
            **{name: getattr(self, name) for name in ("rnn_mode", "direction", "dropout", "seed", "seed2")},
            "skip_input": self.skips_input,
            "sequence_lengths": self.sequence_lengths is not None,
        }

    @rule("the states hold whole layers")
    def whole_layers(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if symbols["stacked_directions"] % symbols["num_directions"]:
            axis = 0 if self.time_major else 1
            reasons = (symbols.why("num_directions"),)
            yield Violation(f"input_h.sizes[{axis}]", str(symbols["stacked_directions"]), "a multiple of num_directions = 2", reasons)

    @rule("cell states belong to LSTM alone")
    def cell_states(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        names = [
            field.name for field in self.tensor_fields() if field.name in ("input_c", "output_c", "output_c_backprop", "input_c_backprop")
        ]
        if self.rnn_mode is not RnnMode.LSTM:
            for name in names:
                if getattr(self, name) is not None:
                    yield Violation(name, "described", "null", (f"rnn_mode is {self.rnn_mode}: only lstm has a cell state",))
        elif getattr(self, names[0]) is None:
            yield Violation(names[0], "missing", "the cell states before the first step", ("rnn_mode is lstm",))

    @rule("dropout is at least 0 and below 1")
    def dropout_range(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if not 0 <= self.dropout < 1:
            yield Violation("dropout", f"{self.dropout:g}", "a number of at least 0, below 1")

    @rule("skip_input needs as many inputs as units")
    def skip_input_sizes(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if self.input_mode is RnnInputMode.SKIP_INPUT and symbols["input_size"] != symbols["num_units"]:
            reasons = (symbols.why("input_size"), symbols.why("num_units"))
            yield Violation("input_mode", "skip_input", "linear_input or auto_select", reasons, "skip_input needs input_size = num_units")

    @rule("a layer's output is no larger than a tensor may be")
    def layer_output_limit(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        count = symbols["seq_length"] * symbols["batch_size"] * symbols["output_size"]
        if symbols["num_layers"] > 1 and count > MAX_UINT32:
            reasons = (f"{count} = seq_length * batch_size * output_size, whose elements the dropout's 32-bit counters enumerate",)
            yield Violation("input_h", Count(f"{count} elements between two layers"), f"at most {MAX_UINT32}", reasons)

    @rule("num_proj is for LSTM, and below the number of units")
    def num_proj_range(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if self.num_proj and self.rnn_mode is not RnnMode.LSTM:
            yield Violation("num_proj", str(self.num_proj), "0", (f"rnn_mode is {self.rnn_mode}: only lstm is projected",))
        elif self.num_proj < 0 or (self.num_proj and self.num_proj >= symbols["num_units"]):
            reasons = (symbols.why("num_units"),) if "num_units" in symbols else ()
            yield Violation("num_proj", str(self.num_proj), "0, or a number below num_units", reasons)


class CudnnRNNV3Desc(CudnnRNNDesc, extension="CUDNN_RNN_V3"):
    """DMLPY_CUDNN_RNN_V3_OPERATOR_DESC: a network of stacked recurrent layers, for inference and training."""

    formula = """\
rnn:  h[t] = act(W x[t] + bW + R h[t-1] + bR)
lstm: i, f, o = sigmoid(W x[t] + bW + R h[t-1] + bR), g = tanh(...); c[t] = f * c[t-1] + i * g; h[t] = o * tanh(c[t]), projected: P h[t]
gru:  r, z = sigmoid(W x[t] + bW + R h[t-1] + bR); n = tanh(Wn x[t] + bWn + r * (Rn h[t-1] + bRn)); h[t] = (1 - z) * n + z * h[t-1]
a deeper layer's x[t] is the h[t] of both directions of the layer below, after dropout"""

    dropout_offset: Annotated[TensorDesc | None, In("1", UINT64), After("sequence_lengths")] = None
    """The offset of this step's dropout masks, which makes them differ from other steps'. If absent, 0."""

    output: Annotated[TensorDesc | None, Out("seq_length batch_size output_size")] = None
    """The hidden states of the last layer, forward then backward. They are zero past a sample's end. The batch comes first unless
    time_major.
    """

    output_h: Annotated[TensorDesc | None, Out("stacked_directions batch_size state_size")] = None
    """The hidden state of every layer and direction after each sample's last step."""

    output_c: Annotated[TensorDesc | None, Out("stacked_directions batch_size num_units")] = None
    """The cell state of every layer and direction after each sample's last step."""

    reserve_space: Annotated[TensorDesc | None, Out("reserve_size", FLOAT32, reserve=True)] = None
    """The values that the gradient needs, if is_training."""

    host_reserved: Annotated[TensorDesc | None, Out("1", INT8)] = None
    """TensorFlow's place for cuDNN's choice of an algorithm. It is set to 0."""

    is_training: Annotated[Bool, After("num_proj")] = default(True)
    """Whether there are dropout and a reserve."""

    def applicable_outputs(self) -> tuple[str, ...]:
        return tuple(name for name in super().applicable_outputs() if self.is_training or name != "reserve_space")

    @rule("a reserve is for training")
    def reserve_training(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if not self.is_training and self.reserve_space is not None:
            yield Violation("reserve_space", "described", "null", ("is_training is False",))

    def gradient(self, *names: str) -> CudnnRNNBackpropV3Desc:
        """The desc of the gradient, with upstream gradients for the described output, output_h and output_c, packed.

        Args:
            names: gradients to compute, `params_backprop`, ...; none means all.

        Raises:
            DescError: no such gradient.
        """
        kind = CudnnRNNBackpropV3Desc
        members: dict[str, Any] = {
            name: getattr(self, name) for name in kind.model_fields if name in type(self).model_fields and name not in _NOT_READ
        }
        if self.reserve_space is None:
            members["reserve_space"] = self.replace(is_training=True).with_outputs("reserve_space").reserve_space
        for name in ("output", "output_h", "output_c"):
            tensor = getattr(self, name)
            if tensor is not None:
                members[f"{name}_backprop"] = TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes)
        return kind(**members).with_outputs(*names)


class CudnnRNNBackpropV3Desc(CudnnRNNDesc, extension="CUDNN_RNN_BACKPROP_V3"):
    """DMLPY_CUDNN_RNN_BACKPROP_V3_OPERATOR_DESC: the gradient of a network of stacked recurrent layers.

    The dropout masks are made again from the offset that the reserve holds.
    """

    unused = {"dropout_offset": "the reserve holds it", "is_training": "only training has a gradient"}

    output: Annotated[TensorDesc | None, In("seq_length batch_size output_size"), After("sequence_lengths")] = None
    """The output of the network, which is not read."""

    output_h: Annotated[TensorDesc | None, In("stacked_directions batch_size state_size")] = None
    """The output_h of the network, which is not read."""

    output_c: Annotated[TensorDesc | None, In("stacked_directions batch_size num_units")] = None
    """The output_c of the network, which is not read."""

    output_backprop: Annotated[TensorDesc | None, In("seq_length batch_size output_size")] = None
    """The upstream gradient of output. It is ignored past a sample's end. If absent, zeros."""

    output_h_backprop: Annotated[TensorDesc | None, In("stacked_directions batch_size state_size")] = None
    """The upstream gradient of output_h. If absent, zeros."""

    output_c_backprop: Annotated[TensorDesc | None, In("stacked_directions batch_size num_units")] = None
    """The upstream gradient of output_c. If absent, zeros."""

    reserve_space: Annotated[TensorDesc, In("reserve_size", FLOAT32, reserve=True)]
    """The values that the network saved."""

    host_reserved: Annotated[TensorDesc | None, In("1", INT8)] = None
    """The host_reserved of the network, which is not read."""

    input_backprop: Annotated[TensorDesc | None, Out("seq_length batch_size input_size")] = None
    """The gradient of input. It is zero past a sample's end."""

    input_h_backprop: Annotated[TensorDesc | None, Out("stacked_directions batch_size state_size")] = None
    """The gradient of input_h."""

    input_c_backprop: Annotated[TensorDesc | None, Out("stacked_directions batch_size num_units")] = None
    """The gradient of input_c."""

    params_backprop: Annotated[TensorDesc | None, Out("params_size")] = None
    """The gradient of params, in the same layout."""
