"""Convolution, forward and transposed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from dmlpy.description.coercion import After, Spelled, Uint, Uints, default
from dmlpy.description.enums import ConvolutionDirection, ConvolutionMode, FeatureLevel
from dmlpy.description.markers import In, Limits, Out, TensorField, Violation, derived, rule
from dmlpy.description.sizes import MAX_SIZE, Derived, Explained, Sizes, Term, UnboundSymbolError, parse
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.operators.activation import FusedFunction, unfusable_function
from dmlpy.operators.windows import SlidingDesc, channels_first


class ConvolvingDesc(SlidingDesc):
    """The base of convolutions: the filter is the window, and channels are divided into groups that are convolved separately."""

    ranked = ("input_tensor", "filter_tensor", "bias_tensor", "output_tensor")

    if TYPE_CHECKING:
        # Declared by each struct, at its place in the C struct's order.
        @property
        def input_tensor(self) -> TensorDesc: ...
        @property
        def filter_tensor(self) -> TensorDesc: ...
        @property
        def output_tensor(self) -> TensorDesc | None: ...

    dilations: Annotated[Uints, Limits(length="dimension_count", least=1), After("strides")]
    """The steps from one element of the filter to the next along each spatial dimension: 1 where they are neighbours."""

    group_count: Annotated[Uint, Limits(least=1), After("end_padding")] = default(1)
    """The number of groups of channels, convolved separately: as many as input channels for a depth-wise convolution."""

    @property
    def backward(self) -> bool:
        """Whether the convolution is transposed."""
        return False

    def window_lengths(self, symbols: Sizes) -> Sequence[int]:
        if len(self.filter_tensor.sizes) != self.rank:
            raise UnboundSymbolError("window")
        return [symbols[f"window[{axis}]"] for axis in range(self.rank - 2)]

    def window_place(self, axis: int) -> str:
        return f"filter_tensor.sizes[{axis + 2}]"

    @derived("(spatial + start_padding + end_padding - (1 + (window - 1) * dilations)) // strides + 1")
    def out(self, symbols: Sizes) -> Sequence[Derived]:
        return self.positions(symbols)

    @derived("input_channels / group_count")
    def filter_channels(self, symbols: Sizes) -> Explained:
        return self._of_a_group(symbols)

    def _of_a_group(self, symbols: Sizes) -> Explained:
        """The number of input channels in each group."""
        channels, groups = symbols["input_channels"], self.group_count
        if groups < 1 or channels % groups:
            raise UnboundSymbolError("group_count")  # `groups_of_channels` reports it
        if len(self.input_tensor.sizes) > self.rank:
            raise UnboundSymbolError("input_channels")  # which of more dimensions are the channels?
        return Explained(channels // groups, f"input_channels / group_count = {channels} / {groups}")

    @rule("group_count divides the channels of the input and of the output")
    def groups_of_channels(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        are_known = len(self.input_tensor.sizes) <= self.rank  # which of more dimensions are the channels?
        for symbol in ("input_channels", "output_channels") if are_known else ("output_channels",):
            if symbol in symbols and self.group_count >= 1 and symbols[symbol] % self.group_count:
                yield Violation("group_count", str(self.group_count), f"a divisor of {symbol} = {symbols[symbol]}", (symbols.why(symbol),))

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        if field.name == "bias_tensor":
            return self._bias_remedy(symbols)
        remedy = super().size_remedy(field, symbols)
        if remedy is None and field.name == "filter_tensor" and len(self.filter_tensor.sizes) == len(self.input_tensor.sizes) == self.rank:
            return self._filter_remedy(symbols)
        return remedy

    def _bias_remedy(self, symbols: Sizes) -> str | None:
        bias, channels = self._tensor("bias_tensor"), symbols.get("output_channels")
        if bias is None or channels is None or bias.element_count != channels:
            return None
        return f"one bias for each output channel is sizes {[1, channels, *[1] * (self.rank - 2)]}"

    def _filter_remedy(self, symbols: Sizes) -> str | None:
        """A remedy for a filter's channel count: by its group, the input's layout, or its layout."""
        sizes, input_sizes, groups = self.filter_tensor.sizes, self.input_tensor.sizes, max(1, self.group_count)
        channels = input_sizes[1]
        if min(*sizes, *input_sizes) < 1:
            return None
        if self.backward:
            swapped = sizes[1] == channels != sizes[0] and sizes[0] % groups == 0
            moved = [channels, sizes[0] // groups, *sizes[2:]]
            return f"backward, the channels of a filter change places: sizes {moved}" if swapped else None
        wanted = None if self.output_tensor is None or len(self.output_tensor.sizes) < 2 else self.output_tensor.sizes[1]
        of_layout, of_groups = self._filter_layout(sizes, channels, groups, wanted), self._filter_groups(sizes, channels, groups)
        # A filter with the output's channels in the right place has no other layout.
        remedy = of_groups or of_layout if sizes[0] == wanted else of_layout or of_groups
        if remedy is None and input_sizes[-1] == sizes[1] * groups != channels:
            return f"{channels_first('input_tensor', input_sizes)}: strides alone define a layout"
        return remedy

    def _filter_groups(self, sizes: tuple[int, ...], channels: int, groups: int) -> str | None:
        """A remedy for a filter of another number of groups."""
        if channels % sizes[1] or sizes[0] % (channels // sizes[1]) or sizes[1] * groups == channels:
            return None
        fitting = f"group_count {channels // sizes[1]} fits this filter"
        if sizes[1] == channels and channels % groups == 0:
            return f"a filter has the channels of one group, {channels // groups}; or {fitting}"
        return fitting

    def _filter_layout(self, sizes: tuple[int, ...], channels: int, groups: int, wanted: int | None) -> str | None:
        """A remedy for a filter whose channels come last, as in other libraries: HWIO, or OHWI."""
        spatial = range(len(sizes) - 2)
        orders = {
            "the input's channels, then the output's last": (len(sizes) - 1, len(sizes) - 2, *spatial),
            "the input's channels last": (0, len(sizes) - 1, *(axis + 1 for axis in spatial)),
        }
        for name, order in orders.items():
            moved = [sizes[axis] for axis in order]
            if sizes[1] * groups != channels == moved[1] * groups and moved[0] % groups == 0 and wanted in (None, moved[0]):
                strides = packed_strides(sizes)
                return f"if it has {name}, it is sizes {moved}, strides {[strides[axis] for axis in order]}: strides alone define a layout"
        return None

    def _channels_agree(self, slid: int, positioned: int) -> bool:
        filters = self.filter_tensor.sizes
        first, second = (positioned, slid) if not self.backward else (slid, positioned)
        return len(filters) == self.rank and first == filters[0] and second == filters[1] * self.group_count


class ConvolutionDesc(ConvolvingDesc, dml="CONVOLUTION"):
    """DML_CONVOLUTION_OPERATOR_DESC: the convolution of a tensor with filters, forward or transposed.

    Forward, out = (spatial + start_padding + end_padding - (1 + (window - 1) * dilations)) // strides + 1; positions outside the input
    count as 0, and of several groups c are the channels of m's.

    Backward, the transposed convolution, each element of the input is multiplied by the filter and added to the output at i * strides + k *
    dilations - start_padding; out = (spatial - 1) * strides + 1 + (window - 1) * dilations - start_padding - end_padding + output_padding,
    and filters are [input_channels, output_channels / group_count, *window]. The strides are then steps in the output, and the padding is
    cut off of it.

    A dilation of 0 lets all elements of the filter meet the same element of the input, whose window is one long then; one of DirectML's
    authors calls it valid (issue 444 of webmachinelearning/webnn), and ONNX Runtime computes it so.

    DirectML takes the sizes of the output as they are described, and real programs describe others too. Backward, an output of up to
    strides - 1 more elements needs no output_padding. Forward, the gradient of a filter, whose window is a gradient with the forward
    strides as dilations, has fewer elements where those strides left a rest over.
    """

    least_dilation = 0
    formula = "forward: y[n, m, o] = f(sum over c, k of x[n, c, o * strides + k * dilations - start_padding] * w[m, c, k] + bias[m])"
    c_counts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "DimensionCount": ("strides", "dilations", "start_padding", "end_padding", "output_padding")
    }
    support = (SupportRow("1_0", dims=(4, 5), T=FLOATS), SupportRow("4_0", dims=(3, 5), T=FLOATS))

    input_tensor: Annotated[TensorDesc, In("batch input_channels *spatial"), After()]
    """The input x. The spatial dimensions are height and width, a width alone, or depth, height and width."""

    filter_tensor: Annotated[TensorDesc, In("output_channels filter_channels *window", constant=True)]
    """The filters w. Backward, input and output channels change places."""

    bias_tensor: Annotated[TensorDesc | None, In("1 output_channels *ones", constant=True)] = None
    """The bias of each output channel. If absent, nothing is added."""

    output_tensor: Annotated[TensorDesc | None, Out("batch output_channels *out", required=True)] = None
    """The result y."""

    mode: Spelled[ConvolutionMode] = default(ConvolutionMode.CROSS_CORRELATION)
    """Whether the filter is flipped in each spatial dimension: CONVOLUTION flips it; neural networks use CROSS_CORRELATION."""

    direction: Spelled[ConvolutionDirection] = default(ConvolutionDirection.FORWARD)
    """BACKWARD is the transposed convolution."""

    dilations: Annotated[Uints, Limits(length="dimension_count")]
    """The steps from one element of the filter to the next along each spatial dimension: 1 where they are neighbours, 0 where all meet the
    same element of the input.
    """

    output_padding: Annotated[Uints, Limits(length="dimension_count"), After("end_padding")]
    """Backward, the elements added to the output at the end of each spatial dimension; zeros where the output's sizes determine them.
    Forward, zeros.
    """

    fused_activation: Annotated[FusedFunction, After("group_count")] = default(None)
    """The function f of the result, described without tensors. If absent, the result is unchanged."""

    @property
    def backward(self) -> bool:
        return self.direction is ConvolutionDirection.BACKWARD

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        if self.backward and field.name == "filter_tensor":
            return self.spread(parse("input_channels filter_channels *window"))
        return super().terms(field)

    @derived("backward: filter_channels * group_count")
    def output_channels(self, symbols: Sizes) -> Explained:
        if not self.backward or not 1 <= self.group_count <= MAX_SIZE:
            raise UnboundSymbolError("output_channels")
        channels, filters = symbols["filter_channels"], self.filter_tensor.sizes
        if filters[1:2] == (symbols["input_channels"],) != filters[:1]:
            raise UnboundSymbolError("output_channels")  # a filter laid out as in a forward convolution says nothing about the output
        return Explained(channels * self.group_count, f"filter_channels * group_count = {channels} * {self.group_count}")

    @derived("forward: input_channels / group_count")
    def filter_channels(self, symbols: Sizes) -> Explained:
        if self.backward:
            raise UnboundSymbolError("filter_channels")
        return self._of_a_group(symbols)

    @derived("forward: (spatial + start_padding + end_padding - (1 + (window - 1) * dilations)) // strides + 1")
    def out(self, symbols: Sizes) -> Sequence[Derived]:
        return self._transposed(symbols) if self.backward else self._forward(symbols)

    def _forward(self, symbols: Sizes) -> Sequence[Derived]:
        """The positions, or fewer if the output describes fewer.

        TensorFlow describes fewer for the gradient of a filter, which strides that left a rest over make smaller.
        """
        values, described = [*self.positions(symbols)], self.described()
        for axis, window in enumerate(self.windows(symbols)):
            if described is not None and window.dilation > 1 and window.filled_by(described[axis]):
                values[axis] = Explained(described[axis], f"from output_tensor; {self.reason(axis, window)} at most")
        return values

    def _transposed(self, symbols: Sizes) -> Sequence[Derived]:
        values: list[Derived] = []
        # ONNX Runtime and WebNN pass DirectML no output_padding, only the sizes that result from it.
        sizes = self.described()
        described = None if any(self.output_padding) else sizes
        for axis, (value, numbers) in enumerate(self._transposed_sizes(symbols)):
            if value < 1:  # `padding_cuts` reports it, and the other dimensions are compared
                if sizes is None:
                    raise UnboundSymbolError("out")
                values.append(sizes[axis])
                continue
            if described is not None and 0 < described[axis] - value < self.strides[axis]:
                values.append(Explained(described[axis], f"from output_tensor; {numbers}, and up to strides[{axis}] - 1 more"))
                continue
            spread = f"1 + (filter_tensor.sizes[{axis + 2}] - 1) * dilations[{axis}]"
            cut = f"start_padding[{axis}] - end_padding[{axis}] + output_padding[{axis}]"
            values.append(Explained(value, f"(input_tensor.sizes[{axis + 2}] - 1) * strides[{axis}] + {spread} - {cut} = {numbers}"))
        return values

    def _transposed_sizes(self, symbols: Sizes) -> list[tuple[int, str]]:
        """The backward output's size along each spatial dimension, and its formula with the numbers filled in."""
        if any(not 0 <= padding <= MAX_SIZE for padding in self.output_padding):
            raise UnboundSymbolError("output_padding")
        sizes = []
        for window, added in zip(self.windows(symbols), self.output_padding, strict=True):
            value = (window.size - 1) * window.stride + window.extent - window.start - window.end + added
            spread = f"1 + ({window.length} - 1) * {window.dilation}"
            sizes.append((value, f"({window.size} - 1) * {window.stride} + {spread} - {window.start} - {window.end} + {added}"))
        return sizes

    @rule("forward: the window, spread by its dilations, fits into the padded tensor that it slides over")
    def window_fits(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        return () if self.backward else super().window_fits(symbols, level)

    @rule("backward: start_padding and end_padding leave something of the output")
    def padding_cuts(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for axis, (value, numbers) in enumerate(self._transposed_sizes(symbols) if self.backward else ()):
            if value < 1:
                name, other = ("start", "end") if self.start_padding[axis] > self.end_padding[axis] else ("end", "start")
                padding = getattr(self, f"{name}_padding")[axis]
                expected = f"at most {padding + value - 1} beside {other}_padding[{axis}]" if padding + value > 0 else "less"
                why = (f"the output's size would be {value} = {numbers}",)
                yield Violation(f"{name}_padding[{axis}]", str(padding), expected, why)

    def _channels_last(self, symbols: Sizes) -> str | None:
        return None if self.backward else super()._channels_last(symbols)

    def _padding_remedy(self, tensor: TensorDesc, symbols: Sizes) -> str | None:
        if not self.backward:
            return super()._padding_remedy(tensor, symbols)
        added = [
            size - value + output_padding
            for size, (value, _), output_padding in zip(tensor.sizes[2:], self._transposed_sizes(symbols), self.output_padding, strict=True)
        ]
        # A stride or more would need another element of the input.
        if added != [*self.output_padding] and all(0 <= extra < stride for extra, stride in zip(added, self.strides, strict=True)):
            return f"output_padding {added} makes these sizes: with strides, several sizes are those of one forward input"
        return None

    @rule("the fused function is one that DirectML fuses into a convolution: element-wise, from 6_0 on CLIP")
    def fused_function(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        yield from unfusable_function("fused_activation", self.fused_activation, level, {"ELEMENT_WISE_CLIP": "6_0"})
