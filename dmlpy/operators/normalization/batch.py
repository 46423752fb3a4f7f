"""Batch normalization, with given statistics and with those of the batch, and the gradients of both.

The input has 1 to 8 dimensions of any meaning. A statistic (mean, variance, scale, bias) has as many, each of them 1 or the input's: it
repeats along those of size 1. Entries of the input that share an entry of the statistics are a group, of n entries: for the usual sizes
[N, C, H, W] and [1, C, 1, 1] a channel, n = N H W. A layout (NCHW, NHWC, a slice of something larger) is a matter of strides alone.

Sums, statistics and arithmetic are float32, for FLOAT16 too. What is not a number stays so: a NaN or an infinity among a group's
entries makes the group's mean, variance and results NaN. So do entries so far apart that the squares of their deviations from the mean
add up to more than the largest FLOAT32 number, 3.4e38, in whatever layout they come; however large they are otherwise, all is finite. A
given variance that is infinite makes the result the bias. In a group of one entry, or of equal ones, the variance is exactly 0: the
result is the bias, or NaN if epsilon is 0 too, as 0 / 0 is. A negative variance + epsilon gives NaN. Sums of a gradient, whose terms have
both signs, are not that certain: where those of dy or dy * x may overflow on their way, the group's gradients are finite, infinite or NaN
as the order of the terms has it, so other layouts may give other ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

from dmlpy.description.coercion import After, Bool, Float, default
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import In, Out, Violation, rule
from dmlpy.description.sizes import Sizes
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.normalization.common import FusingDesc, StatisticsDesc
from dmlpy.operators.normalization.geometry import NormalizationGeometry, operand


class NormalizationDesc(StatisticsDesc):
    """The base of the operators of batch normalization."""

    roles: ClassVar[Mapping[str, str]] = {}
    """The role of each tensor: see `NormalizationGeometry`."""

    training: ClassVar[bool] = False
    """Whether the statistics are computed from the batch."""

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x, of dimensions of any meaning."""

    if TYPE_CHECKING:
        # Declared by each struct, at its place in the C struct's order.
        @property
        def epsilon(self) -> float: ...

    @cached_property
    def geometry(self) -> NormalizationGeometry:
        """A valid desc in the form that devices use."""
        sizes, tensors = self.input_tensor.sizes, self.tensors()
        statistics = [tensors[name].sizes for name in self.statistics]
        return NormalizationGeometry(
            sizes=sizes,
            reduced=tuple(axis for axis in range(len(sizes)) if all(statistic_sizes[axis] == 1 for statistic_sizes in statistics)),
            operands={role: operand(name, tensors[name], len(sizes)) for role, name in self.roles.items() if name in tensors},
            training=self.training,
            epsilon=self.epsilon,
            activation=getattr(self, "fused_activation", None),
            centres_anew=self.training,
        )


class BatchNormalizationDesc(FusingDesc, NormalizationDesc, dml="BATCH_NORMALIZATION"):
    """DML_BATCH_NORMALIZATION_OPERATOR_DESC: normalizes with given statistics."""

    formula = "y = f(scale * (x - mean) / sqrt(variance + epsilon) + bias)"
    support = (SupportRow("1_0", dims=4, T=FLOATS), SupportRow("3_1", dims=(1, 8), T=FLOATS))
    statistics = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
    roles = {
        "x": "input_tensor",
        "mean": "mean_tensor",
        "variance": "variance_tensor",
        "scale": "scale_tensor",
        "bias": "bias_tensor",
        "y": "output_tensor",
    }

    mean_tensor: Annotated[TensorDesc, In("*mean_sizes"), After("input_tensor")]
    """The mean of each group. The four statistics may differ in size, each size being 1 or the input's."""

    variance_tensor: Annotated[TensorDesc, In("*variance_sizes")]
    """The variance of each group."""

    scale_tensor: Annotated[TensorDesc, In("*scale_sizes")]
    """The factor of the normalized input."""

    bias_tensor: Annotated[TensorDesc, In("*bias_sizes")]
    """The number added to the scaled input."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The normalized result y."""

    spatial: Bool = default(True)
    """Before feature level 4_0, False forbids a mean and a variance that repeat along height and width. From 4_0 on it has no effect."""

    @rule("before feature level 4_0 mean and variance repeat along height and width only if spatial")
    def spatial_statistics(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        dims = symbols["len(sizes)"]
        for name in () if self.spatial or level >= FeatureLevel.FL_4_0 else ("mean_tensor", "variance_tensor"):
            sizes = getattr(self, name).sizes
            for axis in range(max(dims - 2, 0), dims) if len(sizes) == dims else ():
                of_input = symbols[f"sizes[{axis}]"]
                if sizes[axis] == 1 != of_input:
                    why = (f"spatial is False, and the last two dimensions are height and width at feature level {level}",)
                    remedy = "spatial=True; feature level 4_0 ignores the member"
                    yield Violation(f"{name}.sizes[{axis}]", "1", f"sizes[{axis}] = {of_input}", why, remedy)

    def gradient(self) -> BatchNormalizationGradDesc:
        """The operator of the gradients of input, scale and bias, mean and variance being constants.

        Raises:
            DescError: there is a fused activation, of which DirectML has no gradient.
        """
        _refuse_activation(self)
        names = ("input_tensor", "mean_tensor", "variance_tensor", "scale_tensor", "epsilon")
        members = {name: getattr(self, name) for name in names}
        return BatchNormalizationGradDesc(input_gradient_tensor=_pack_desc(self.input_tensor), **members).with_outputs()


class BatchNormalizationTrainingDesc(FusingDesc, NormalizationDesc, dml="BATCH_NORMALIZATION_TRAINING"):
    """DML_BATCH_NORMALIZATION_TRAINING_OPERATOR_DESC: normalizes with the batch's statistics.

    They are taken over exactly the dimensions in which scale has size 1, n entries at a time; the variance divides by n.
    """

    formula = """\
mean = sum(x) / n, variance = sum((x - mean)^2) / n
y = f(scale * (x - mean) / sqrt(variance + epsilon) + bias + fused_add)"""
    support = (SupportRow("4_1", dims=(1, 8), T=FLOATS),)
    statistics = ("scale_tensor", "bias_tensor", "output_mean_tensor", "output_variance_tensor")
    training = True
    roles = {
        "x": "input_tensor",
        "scale": "scale_tensor",
        "bias": "bias_tensor",
        "add": "fused_add_tensor",
        "y": "output_tensor",
        "batch_mean": "output_mean_tensor",
        "batch_variance": "output_variance_tensor",
    }

    scale_tensor: Annotated[TensorDesc, In("*statistics"), After("input_tensor")]
    """The factor of the normalized input, each size 1 or the input's."""

    bias_tensor: Annotated[TensorDesc, In("*statistics")]
    """The number added to the scaled input."""

    fused_add_tensor: Annotated[TensorDesc | None, In("*sizes")] = None
    """A tensor added to the result before the activation. If absent, nothing is added."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The normalized result y."""

    output_mean_tensor: Annotated[TensorDesc | None, Out("*statistics", required=True)] = None
    """The mean of each group of the batch."""

    output_variance_tensor: Annotated[TensorDesc | None, Out("*statistics", required=True)] = None
    """The variance of each group of the batch."""

    def gradient(self) -> BatchNormalizationTrainingGradDesc:
        """The operator of the gradients of input, scale and bias. The gradient of fused_add equals the upstream gradient.

        Raises:
            DescError: there is a fused activation, of which DirectML has no gradient.
        """
        _refuse_activation(self)
        return BatchNormalizationTrainingGradDesc(
            input_tensor=self.input_tensor,
            input_gradient_tensor=_pack_desc(self.input_tensor),
            mean_tensor=self.output_mean_tensor or _pack_desc(self.scale_tensor),
            variance_tensor=self.output_variance_tensor or _pack_desc(self.scale_tensor),
            scale_tensor=self.scale_tensor,
            epsilon=self.epsilon,
        ).with_outputs()


class NormalizationGradDesc(NormalizationDesc):
    """The gradients of batch normalization."""

    statistics = ("mean_tensor", "variance_tensor", "scale_tensor", "output_scale_gradient_tensor", "output_bias_gradient_tensor")
    roles = {
        "x": "input_tensor",
        "dy": "input_gradient_tensor",
        "mean": "mean_tensor",
        "variance": "variance_tensor",
        "scale": "scale_tensor",
        "dx": "output_gradient_tensor",
        "d_scale": "output_scale_gradient_tensor",
        "d_bias": "output_bias_gradient_tensor",
    }

    input_gradient_tensor: Annotated[TensorDesc, In("*sizes")]
    """The upstream gradient dy. A broadcast one (strides of 0) is read in place."""

    mean_tensor: Annotated[TensorDesc, In("*statistics")]
    """The mean that the forward operator was given or computed, each size 1 or the input's."""

    variance_tensor: Annotated[TensorDesc, In("*statistics")]
    """The variance that the forward operator was given or computed."""

    scale_tensor: Annotated[TensorDesc, In("*statistics")]
    """The scale of the forward operator."""

    output_gradient_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The gradient dx of the input."""

    output_scale_gradient_tensor: Annotated[TensorDesc | None, Out("*statistics", required=True)] = None
    """The gradient d_scale of the scale."""

    output_bias_gradient_tensor: Annotated[TensorDesc | None, Out("*statistics", required=True)] = None
    """The gradient d_bias of the bias."""

    epsilon: Float = default(1e-5)
    """The epsilon of the forward operator."""


class BatchNormalizationGradDesc(NormalizationGradDesc, dml="BATCH_NORMALIZATION_GRAD"):
    """DML_BATCH_NORMALIZATION_GRAD_OPERATOR_DESC: the gradients where mean and variance are constants.

    Sums are over exactly the dimensions in which mean has size 1.
    """

    formula = """\
dx = dy * scale / sqrt(variance + epsilon)
d_scale = sum(dy * (x - mean) / sqrt(variance + epsilon)), d_bias = sum(dy)"""
    support = (SupportRow("3_1", dims=(1, 8), T=FLOATS),)


class BatchNormalizationTrainingGradDesc(NormalizationGradDesc, dml="BATCH_NORMALIZATION_TRAINING_GRAD"):
    """DML_BATCH_NORMALIZATION_TRAINING_GRAD_OPERATOR_DESC: the gradients where mean and variance follow from the batch.

    Sums are over exactly the dimensions in which mean has size 1, n entries at a time.

    The input's gradient centres x by the mean of x, as DirectML's page does, the scale's by mean_tensor: so a mean that was
    rounded to FLOAT16 spoils the latter only; one that is not finite makes dx NaN too. x - mean(x) stands for that in the
    formula.
    """

    formula = """\
centred = x - mean(x), mean(v) = sum(v) / n
dx = scale / sqrt(variance + epsilon) * (dy - mean(dy) - centred * mean(dy * centred) / (variance + epsilon))
d_scale = sum(dy * (x - mean) / sqrt(variance + epsilon)), d_bias = sum(dy)"""
    training = True
    support = (SupportRow("4_1", dims=(1, 8), T=FLOATS),)


def _pack_desc(desc: TensorDesc) -> TensorDesc:
    return TensorDesc(data_type=desc.data_type, sizes=desc.sizes)


def _refuse_activation(desc: BatchNormalizationDesc | BatchNormalizationTrainingDesc) -> None:
    if (activation := desc.fused_activation) is not None:
        remedy = "run the activation, and its gradient, as separate operators"
        problem = Problem("gradient.activation", "fused_activation", activation.type_name, "no fused activation", remedy=remedy)
        raise DescError(f"{desc.c_name}.gradient", [problem])
