"""Mean-variance normalization, of each group of elements by its mean and variance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After, Bool, Uints, default
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import In, Limits, Out, TensorField, Violation, rule
from dmlpy.description.sizes import Sizes
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.normalization.common import FusingDesc, StatisticsDesc


class ScaledDesc(FusingDesc, StatisticsDesc):
    """A normalization whose result may be scaled and shifted by tensors that repeat along dimensions of the input."""

    statistics = ("scale_tensor", "bias_tensor")

    scale_tensor: Annotated[TensorDesc | None, In("*scale_sizes"), After()] = None
    """The factor of the normalized input, each size 1 or the input's. If absent, 1."""

    bias_tensor: Annotated[TensorDesc | None, In("*bias_sizes")] = None
    """The number added to the scaled input, each size 1 or the input's. If absent, 0."""

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        tensor = getattr(self, field.name)
        return self.fitting(tensor.sizes, symbols) if field.name in self.statistics and tensor is not None else None


class AxesScaledDesc(ScaledDesc):
    """A normalization over any axes of a tensor with any number of dimensions."""

    c_counts: ClassVar[Mapping[str, str]] = {"AxisCount": "axes"}

    input_tensor: Annotated[TensorDesc, In("*sizes"), After()]
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True), After("bias_tensor")] = None
    """The normalized result y."""

    axes: Annotated[Uints, Limits(axis_of="sizes")]
    """The dimensions over which mean and variance are taken. A repeated one counts once."""


class PairedScaleDesc(ScaledDesc):
    """A normalization that older levels accept only with both scale and bias, or with neither."""

    @rule("before feature level 5_2 scale and bias are both given or both absent")
    def scale_with_bias(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        absent = [name for name in self.statistics if getattr(self, name) is None]
        if len(absent) == 1 and level < FeatureLevel.FL_5_2:
            other = next(name for name in self.statistics if name not in absent)
            neutral = "a bias of zeros" if absent == ["bias_tensor"] else "a scale of ones"
            remedy = f"{neutral} changes nothing; feature level 5_2 takes {other} alone"
            yield Violation(absent[0], "missing", f"a tensor: {other} is given", (f"feature level {level}",), remedy)


class MeanVarianceNormalizationDesc(PairedScaleDesc, dml="MEAN_VARIANCE_NORMALIZATION"):
    """DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC: normalizes each image by its mean and variance, by channel or as a whole.

    The variance divides by the number of elements.
    """

    formula = "y = f(scale * (x - mean) / sqrt(variance + epsilon) + bias)"
    support = (SupportRow("1_0", dims=4, T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch_count channel_count height width"), After()]
    """The images x."""

    output_tensor: Annotated[TensorDesc | None, Out("batch_count channel_count height width", required=True), After("bias_tensor")] = None
    """The normalized images y."""

    cross_channel: Bool = default(False)
    """Whether mean and variance are taken over channels, height and width. If not, they are taken over height and width, for each channel.
    """

    normalize_variance: Bool = default(True)
    """Whether to divide by the standard deviation. If not, the result is x - mean."""


class MeanVarianceNormalization1Desc(PairedScaleDesc, AxesScaledDesc, dml="MEAN_VARIANCE_NORMALIZATION1"):
    """DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC: normalizes each group of elements by its mean and variance.

    The elements of a group differ only along axes; the variance divides by their number. Axes [2, 3] are MEAN_VARIANCE_NORMALIZATION of
    each channel, axes [1, 2, 3] that across channels, the last axes alone a layer normalization.
    """

    formula = "y = f(scale * (x - mean) / sqrt(variance + epsilon) + bias)"
    support = (SupportRow("2_1", dims=4, T=FLOATS), SupportRow("3_1", dims=(1, 8), T=FLOATS))

    normalize_variance: Annotated[Bool, After("axes")] = default(True)
    """Whether to divide by the standard deviation of the group. If not, the result is x - mean."""

    @rule("before feature level 4_0 scale and bias do not repeat along the channels, dimension 1")
    def scale_channels(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for name in self.statistics if level < FeatureLevel.FL_4_0 else ():
            tensor = getattr(self, name)
            # A size other than 1 does not depend on levels: statistics_sizes reports it.
            if tensor is not None and len(tensor.sizes) == symbols["len(sizes)"] > 1 and tensor.sizes[1] == 1 != symbols["sizes[1]"]:
                why = (f"feature level {level}", symbols.why("sizes[1]"))
                yield Violation(f"{name}.sizes[1]", "1", f"sizes[1] = {symbols['sizes[1]']}", why, "feature level 4_0 takes 1")


class MeanVarianceNormalization2Desc(AxesScaledDesc, dml="MEAN_VARIANCE_NORMALIZATION2"):
    """DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC: normalizes each group of elements by its mean, variance or both.

    As MEAN_VARIANCE_NORMALIZATION1, with a mean that may be left out. Microsoft's page does not say whether the variance is then still
    taken about the mean. It is the mean of squares here: an RMS normalization, for which the operator is used.
    """

    formula = "y = f(scale * (x - m) / d + bias), m = mean if use_mean else 0, d = sqrt(variance + epsilon) if use_variance else 1"
    support = (SupportRow("6_3", dims=(1, 8), T=FLOATS),)

    use_mean: Annotated[Bool, After("axes")] = default(True)
    """Whether to subtract the mean."""

    use_variance: Bool = default(True)
    """Whether to divide by the standard deviation."""
