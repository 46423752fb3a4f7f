"""Resampling of tensors to other sizes by interpolation, its gradients, and scaling of images' values.

Scales and offsets, one of each per dimension, map an output element to its place in the input. Places outside the input are
those of its edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After, Bool, Float, Floats, Spelled, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import AxisDirection, FeatureLevel, InterpolationMode
from dmlpy.description.markers import In, Limits, Out, TensorField, Violation, derived, rule
from dmlpy.description.sizes import MAX_SIZE, Explained, Sizes, UnboundSymbolError
from dmlpy.description.support import FLOATS, FLOATS_BYTES, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import Size2DValue
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import Problem


class AnySizesDesc(OperatorDesc):
    """An operator whose output has the input's dimension count and any sizes: the scales alone place the elements."""

    interpolation_mode: Spelled[InterpolationMode]
    """How values between elements are found: NEAREST_NEIGHBOR takes the nearest element, LINEAR weighs the two on both sides, in each
    dimension. Integers are rounded then, halves to the even one.
    """

    scales: Annotated[Floats, Limits(length="len(sizes)")]
    """The factor of each dimension: how much larger the result is."""

    def _bound_sizes(self) -> Sizes:
        """The symbols of the size patterns, with the output's dimension count from the input."""
        symbols, source = super()._bound_sizes(), self.inputs()[0].name
        if "len(sizes)" in symbols:
            symbols.fix("len(output_sizes)", symbols["len(sizes)"], f"as many dimensions as {source} has")
        return symbols

    def undetermined_sizes(self, output: TensorField) -> Iterator[Problem]:
        source = getattr(self, self.inputs()[0].name)
        yield Problem("size.unknown", output.name, "not determined", f"a tensor of {plural(len(source.sizes), 'dimension')}", (_FREE,))


_FREE = "its sizes are free: scales tell where its elements lie in the input, not how many there are"
_FROM_5_1 = (SupportRow("5_1", dims=(1, 4), T=FLOATS), SupportRow("6_2", dims=(1, 4), T=FLOATS_BYTES))


class PixelOffsetsDesc(AnySizesDesc):
    """A resampling whose coordinates may be shifted within the pixels."""

    c_counts: ClassVar[Mapping[str, str | tuple[str, ...]]] = {"DimensionCount": ("scales", "input_pixel_offsets", "output_pixel_offsets")}

    input_pixel_offsets: Annotated[Floats, Limits(length="len(sizes)")]
    """The offset added to an input coordinate before scaling: 0.5 for the centres of pixels, as RESAMPLE has it."""

    output_pixel_offsets: Annotated[Floats, Limits(length="len(sizes)")]
    """The offset added to the scaled coordinate: -0.5 for the centres of pixels."""


class RoundingDirectionDesc(PixelOffsetsDesc):
    """A resampling with a rounding direction for halves between two neighbours."""

    rounding_direction: Annotated[Spelled[AxisDirection], After("interpolation_mode")] = default(AxisDirection.INCREASING)
    """The element that NEAREST_NEIGHBOR takes: INCREASING rounds its coordinate up, DECREASING down."""


class ForwardResampleDesc(AnySizesDesc):
    """A forward resampling, as opposed to a gradient."""

    input_tensor: Annotated[TensorDesc, In("*sizes"), After()]
    """The samples."""

    output_tensor: Annotated[TensorDesc | None, Out("*output_sizes", required=True)] = None
    """The samples at the other places."""


class ResampleGradientDesc(PixelOffsetsDesc):
    """The gradient of a resampling for its input."""

    input_gradient_tensor: Annotated[TensorDesc, In("*sizes"), After()]
    """The upstream gradient of the forward output, usually with its sizes."""

    output_gradient_tensor: Annotated[TensorDesc | None, Out("*output_sizes", required=True)] = None
    """The gradient of the forward input, usually with its sizes."""


class ResampleDesc(ForwardResampleDesc, dml="RESAMPLE"):
    """DML_RESAMPLE_OPERATOR_DESC: resamples a tensor by the centres of its pixels.

    Of two elements that are equally near, NEAREST_NEIGHBOR takes the later one. The output may have any sizes: one larger than the scaled
    input repeats the input's edge, a smaller one crops.
    """

    formula = "output[o] = input at (o + 0.5) / scale - 0.5, for each dimension"
    c_counts: ClassVar[Mapping[str, str]] = {"ScaleCount": "scales"}
    support = (SupportRow("2_0", dims=4, T=FLOATS), *_FROM_5_1)


class Resample1Desc(ForwardResampleDesc, PixelOffsetsDesc, dml="RESAMPLE1"):
    """DML_RESAMPLE1_OPERATOR_DESC: resamples a tensor.

    Of two elements that are equally near, NEAREST_NEIGHBOR takes the later one. The output may have any sizes: one larger than the scaled
    input repeats the input's edge, a smaller one crops.
    """

    formula = "output[o] = input at (o - output_pixel_offset) / scale - input_pixel_offset, for each dimension"
    support = (SupportRow("2_1", dims=4, T=FLOATS), *_FROM_5_1)


class Resample2Desc(ForwardResampleDesc, RoundingDirectionDesc, dml="RESAMPLE2"):
    """DML_RESAMPLE2_OPERATOR_DESC: resamples a tensor, with a given rounding direction for the nearest neighbour.

    The output may have any sizes: one larger than the scaled input repeats the input's edge, a smaller one crops.
    """

    formula = "output[o] = input at (o - output_pixel_offset) / scale - input_pixel_offset, for each dimension"
    support: ClassVar[tuple[SupportRow, ...]] = _FROM_5_1


class Resample3Desc(Resample2Desc, dml="RESAMPLE3"):
    """DML_RESAMPLE3_OPERATOR_DESC: resamples a tensor, optionally without the artefacts of shrinking.

    The output may have any sizes: one larger than the scaled input repeats the input's edge, a smaller one crops.
    """

    support = (SupportRow("6_4", dims=(1, 4), T=FLOATS_BYTES),)

    antialiased: Bool = default(False)
    """Whether LINEAR weighs every input element that an output one covers, where it shrinks. Microsoft's page says below half the size in
    one place, and any shrinking in another; here it is any, as in ONNX.
    """


class ResampleGradDesc(ResampleGradientDesc, dml="RESAMPLE_GRAD"):
    """DML_RESAMPLE_GRAD_OPERATOR_DESC: the gradient of RESAMPLE1 for its input.

    Each incoming gradient is added to those of the elements that its output was computed from, by their weights; others get 0.
    """

    formula = "output_gradient[i] = sum(weight of input i in output o * input_gradient[o])"
    support = (SupportRow("3_0", dims=4, T=FLOATS), SupportRow("5_1", dims=(1, 4), T=FLOATS))


class ResampleGrad1Desc(ResampleGradientDesc, RoundingDirectionDesc, dml="RESAMPLE_GRAD1"):
    """DML_RESAMPLE_GRAD1_OPERATOR_DESC: the gradient of RESAMPLE2 for its input.

    Each incoming gradient is added to those of the elements that its output was computed from, by their weights; others get 0.
    """

    formula = "output_gradient[i] = sum(weight of input i in output o * input_gradient[o])"
    support = (SupportRow("5_1", dims=(1, 4), T=FLOATS),)


class Upsample2DDesc(OperatorDesc, dml="UPSAMPLE_2D"):
    """DML_UPSAMPLE_2D_OPERATOR_DESC: enlarges images, or volumes slice by slice, by whole factors."""

    formula = "output[o] = input at (o + 0.5) / scale - 0.5, for height and width"
    support = (SupportRow("1_0", dims=(4, 5), T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch_count channel_count *depth input_height input_width")]
    """The images or volumes."""

    output_tensor: Annotated[TensorDesc | None, Out("batch_count channel_count *depth output_height output_width", required=True)] = None
    """The larger images. A depth stays as it is."""

    scale_size: Size2DValue
    """The factors of width and height, at least 1."""

    interpolation_mode: Spelled[InterpolationMode]
    """NEAREST_NEIGHBOR repeats elements, LINEAR weighs the two on both sides in height and in width."""

    @derived("input_height * scale_size.height")
    def output_height(self, symbols: Sizes) -> Explained:
        return self._scaled(symbols["input_height"], "input_height", self.scale_size.height, "scale_size.height")

    @derived("input_width * scale_size.width")
    def output_width(self, symbols: Sizes) -> Explained:
        return self._scaled(symbols["input_width"], "input_width", self.scale_size.width, "scale_size.width")

    @staticmethod
    def _scaled(size: int, symbol: str, factor: int, name: str) -> Explained:
        if not 1 <= factor <= MAX_SIZE // size:
            raise UnboundSymbolError(name)
        return Explained(size * factor, f"{symbol} * {name} = {size} * {factor}")

    @rule("a factor is at least 1, and the scaled size at most 4294967295")
    def upsample_limit(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for name in ("width", "height"):
            factor, symbol = getattr(self.scale_size, name), f"input_{name}"
            if factor == 0:
                yield Violation(f"scale_size.{name}", "0", "at least 1")
            elif symbol in symbols and MAX_SIZE // symbols[symbol] < factor <= MAX_SIZE:  # a larger one exceeds UINT, which is reported too
                most = MAX_SIZE // symbols[symbol]
                yield Violation(f"scale_size.{name}", str(factor), f"at most {most} = {MAX_SIZE} // {symbol}", (symbols.why(symbol),))


class ValueScale2DDesc(OperatorDesc, dml="VALUE_SCALE_2D"):
    """DML_VALUE_SCALE_2D_OPERATOR_DESC: multiplies the values of images by a factor and adds a number for each channel."""

    formula = "output[n, c, h, w] = scale * input[n, c, h, w] + bias[c]"
    c_counts: ClassVar[Mapping[str, str]] = {"ChannelCount": "bias"}
    support = (SupportRow("1_0", dims=4, T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch_count channel_count height width")]
    """The images, of 1 or 3 channels."""

    output_tensor: Annotated[TensorDesc | None, Out("batch_count channel_count height width", required=True)] = None
    """The scaled images."""

    scale: Float
    """The factor of every value."""

    bias: Floats
    """The number added to each channel's values."""

    @rule("there are 1 or 3 channels, and as many biases")
    def image_channels(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        channels, biases = symbols.get("channel_count"), len(self.bias)
        possible = channels in (1, 3)
        if channels is not None and not possible:
            yield Violation("input_tensor.sizes[1]", str(channels), "1 or 3 channels", (symbols.why("channel_count"),))
        if possible and biases != channels:
            yield Violation("bias", plural(biases, "number"), f"channel_count = {channels}", (symbols.why("channel_count"),))
        elif not possible and biases not in (1, 3):
            yield Violation("bias", plural(biases, "number"), "one for each of 1 or 3 channels")
