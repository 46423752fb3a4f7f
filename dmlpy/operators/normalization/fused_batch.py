"""Batch normalization of images and volumes, as TensorFlow's FusedBatchNormV3 and FusedBatchNormGradV3 describe it.

The input is FLOAT32 or FLOAT16, statistics are FLOAT32. `data_format` is the order of sizes: which dimension holds the channels; memory
has any layout, by strides. A group is a channel, of n entries. Its degenerate cases are those of `dmlpy.operators.normalization.batch`.

Differences from TensorFlow: outputs that are not wanted may be absent; the placeholders `reserve_space_3` (of the forward operator) and
`reserve_space_4`, `reserve_space_5` (of the gradient) do not exist; a variance reserve is the variance on every device; a batch of no
samples is refused, of which TensorFlow gives an empty y, and statistics of NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After, Bool, Float, Spelled, default
from dmlpy.description.descs import SomeOutputDesc
from dmlpy.description.enums import DataFormat, FeatureLevel
from dmlpy.description.markers import In, Out, TensorField, Violation, rule
from dmlpy.description.sizes import Sizes, Term, parse
from dmlpy.description.support import FLOAT32, FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.normalization.geometry import NormalizationGeometry, operand

_IMAGES = "batch height width channels"
_VOLUMES = "batch depth height width channels"
_ORDERS = {
    DataFormat.NHWC: _IMAGES,
    DataFormat.NCHW: "batch channels height width",
    DataFormat.NDHWC: _VOLUMES,
    DataFormat.NCDHW: "batch channels depth height width",
}
_NO_PLACEHOLDERS = {f"reserve_space_{number}": "TensorFlow's is an empty placeholder, and nothing is kept there" for number in (3, 4, 5)}


class FusedBatchNormDesc(SomeOutputDesc):
    """The base of FusedBatchNormV3 and its gradient."""

    support = (SupportRow("1_0", dims=(1, 5), T=FLOATS),)
    unused = _NO_PLACEHOLDERS

    roles: ClassVar[Mapping[str, str]] = {}
    """The role of each tensor: see `NormalizationGeometry`."""

    x: Annotated[TensorDesc, In(_IMAGES)]
    """The images or volumes, in the order of data_format."""

    scale: Annotated[TensorDesc, In("channels", FLOAT32)]
    """The factor of the normalized input."""

    epsilon: Float = default(1e-4)
    """The number added to the variance, so that nothing is divided by 0."""

    data_format: Spelled[DataFormat] = default(DataFormat.NHWC)
    """The order of x's sizes."""

    is_training: Bool = default(True)
    """Whether the statistics are computed from the batch. If not, they are given."""

    @cached_property
    def geometry(self) -> NormalizationGeometry:
        """A valid desc in the form that devices use."""
        sizes, tensors, channels = self.x.sizes, self.tensors(), self.channel_axis
        operands = {
            role: operand(name, tensors[name], len(sizes), channels if tensors[name].dimension_count == 1 else None)
            for role, name in self.roles.items()
            if name in tensors
        }
        return NormalizationGeometry(
            sizes=sizes,
            reduced=tuple(axis for axis in range(len(sizes)) if axis != channels),
            operands=operands,
            training=self.is_training,
            epsilon=self.epsilon,
            average_factor=getattr(self, "exponential_avg_factor", 1.0),
        )

    @property
    def channel_axis(self) -> int:
        """The dimension that holds the channels."""
        return _ORDERS[self.data_format].split().index("channels")

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        terms = super().terms(field)
        return parse(_ORDERS[self.data_format]) if len(terms) > 1 else terms

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        tensor: TensorDesc = getattr(self, field.name)
        if len(field.marker.terms) == 1 or "channels" not in symbols:
            return None
        places = {order: pattern.split().index("channels") for order, pattern in _ORDERS.items()}
        fitting = [
            f"{order} has the channels in dimension {axis}"
            for order, axis in places.items()
            if len(_ORDERS[order].split()) == len(tensor.sizes) and tensor.sizes[axis] == symbols["channels"]
        ]
        return f"data_format {' and '.join(fitting)}" if fitting and self._is_misread(tensor, symbols) else None

    def _is_misread(self, tensor: TensorDesc, symbols: Sizes) -> bool:
        """Returns whether another data_format would find the channels where they are."""
        terms = _ORDERS[self.data_format].split()
        return len(terms) != len(tensor.sizes) or tensor.sizes[self.channel_axis] != symbols["channels"]


class FusedBatchNormV3Desc(FusedBatchNormDesc, extension="FUSED_BATCH_NORM_V3"):
    """DMLPY_FUSED_BATCH_NORM_V3_OPERATOR_DESC: normalizes each channel, with the batch's statistics or with given ones.

    Sums are over the n entries of a channel.
    """

    formula = """\
training:  m = sum(x) / n, v = sum((x - m)^2) / n, v_unbiased = v * n / max(n - 1, 1)
           batch_mean = (1 - f) * mean + f * m, batch_variance = (1 - f) * variance + f * v_unbiased
inference: m = mean, v = variance
y = scale * (x - m) / sqrt(v + epsilon) + offset"""

    roles = {
        "x": "x",
        "scale": "scale",
        "bias": "offset",
        "mean": "mean",
        "variance": "variance",
        "y": "y",
        "running_mean": "batch_mean",
        "running_variance": "batch_variance",
        "batch_mean": "reserve_space_1",
        "batch_variance": "reserve_space_2",
    }

    offset: Annotated[TensorDesc, In("channels", FLOAT32), After("scale")]
    """The number added to the scaled input."""

    mean: Annotated[TensorDesc | None, In("channels", FLOAT32)] = None
    """The mean, for inference. For training, the running mean before this batch, which is not read if exponential_avg_factor is 1."""

    variance: Annotated[TensorDesc | None, In("channels", FLOAT32)] = None
    """The variance, for inference. For training, the running variance before this batch, which is not read if exponential_avg_factor is 1.
    """

    y: Annotated[TensorDesc | None, Out(_IMAGES)] = None
    """The normalized result."""

    batch_mean: Annotated[TensorDesc | None, Out("channels", FLOAT32)] = None
    """The new running mean, for training. For inference, mean."""

    batch_variance: Annotated[TensorDesc | None, Out("channels", FLOAT32)] = None
    """The new running variance, for training: of the batch's unbiased variance. For inference, variance."""

    reserve_space_1: Annotated[TensorDesc | None, Out("channels", FLOAT32)] = None
    """The batch's mean, for the gradient of training. For inference, mean."""

    reserve_space_2: Annotated[TensorDesc | None, Out("channels", FLOAT32)] = None
    """The batch's biased variance, for the gradient of training. For inference, variance."""

    exponential_avg_factor: Annotated[Float, After("epsilon")] = default(1.0)
    """The weight f of this batch in the running statistics."""

    @property
    def reads_statistics(self) -> bool:
        """Whether mean and variance are read."""
        return not self.is_training or self.exponential_avg_factor != 1

    @rule("mean and variance are described where they are read")
    def given_statistics(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for name in ("mean", "variance") if self.reads_statistics else ():
            if getattr(self, name) is None:
                averages = f"exponential_avg_factor is {self.exponential_avg_factor:g}, and not 1"
                why = averages if self.is_training else "is_training is False"
                yield Violation(name, "missing", f"a tensor [channels = {symbols['channels']}] of FLOAT32", (why,))

    def gradient(self, *outputs: str) -> FusedBatchNormGradV3Desc:
        """The operator of the gradients, with these outputs; all of them if none is named.

        The upstream gradient is packed; `replace` gives it other strides.
        """
        return FusedBatchNormGradV3Desc(
            y_backprop=TensorDesc(data_type=self.x.data_type, sizes=self.x.sizes),
            x=self.x,
            scale=self.scale,
            reserve_space_1=self.reserve_space_1 or TensorDesc(data_type="FLOAT32", sizes=self.scale.sizes),
            reserve_space_2=self.reserve_space_2 or TensorDesc(data_type="FLOAT32", sizes=self.scale.sizes),
            epsilon=self.epsilon,
            data_format=self.data_format,
            is_training=self.is_training,
        ).with_outputs(*outputs)


class FusedBatchNormGradV3Desc(FusedBatchNormDesc, extension="FUSED_BATCH_NORM_GRAD_V3"):
    """DMLPY_FUSED_BATCH_NORM_GRAD_V3_OPERATOR_DESC: the gradients of x, scale and offset.

    Sums are over the n entries of a channel.
    """

    formula = """\
normalized = (x - m) / sqrt(v + epsilon)
training:  x_backprop = scale / sqrt(v + epsilon) * (dy - sum(dy) / n - normalized * sum(dy * normalized) / n)
inference: x_backprop = scale / sqrt(v + epsilon) * dy
scale_backprop = sum(dy * normalized), offset_backprop = sum(dy)"""

    roles = {
        "dy": "y_backprop",
        "x": "x",
        "scale": "scale",
        "mean": "reserve_space_1",
        "variance": "reserve_space_2",
        "dx": "x_backprop",
        "d_scale": "scale_backprop",
        "d_bias": "offset_backprop",
    }

    y_backprop: Annotated[TensorDesc, In(_IMAGES), After()]
    """The upstream gradient of y. A broadcast one (strides of 0) is read in place."""

    reserve_space_1: Annotated[TensorDesc, In("channels", FLOAT32), After("scale")]
    """The mean m that the forward operator left."""

    reserve_space_2: Annotated[TensorDesc, In("channels", FLOAT32)]
    """The variance v that the forward operator left."""

    x_backprop: Annotated[TensorDesc | None, Out(_IMAGES)] = None
    """The gradient of x."""

    scale_backprop: Annotated[TensorDesc | None, Out("channels", FLOAT32)] = None
    """The gradient of scale."""

    offset_backprop: Annotated[TensorDesc | None, Out("channels", FLOAT32)] = None
    """The gradient of offset."""
