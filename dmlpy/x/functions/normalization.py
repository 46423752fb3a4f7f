# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.normalization`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy import bool_, floating, integer

from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one, several

if TYPE_CHECKING:
    from dmlpy.operators.activation import ActivationDesc


@refuse_others
def batch_normalization(
    input: Expression | Array,
    mean: Expression | Array,
    variance: Expression | Array,
    scale: Expression | Array,
    bias: Expression | Array,
    *,
    spatial: bool | bool_ = True,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
) -> Expression:
    """BATCH_NORMALIZATION: normalizes with given statistics.

    ::

        y = f(scale * (x - mean) / sqrt(variance + epsilon) + bias)

    Args:
        input: `[*sizes]`. The input x, of dimensions of any meaning.
        mean: `[*mean_sizes]`. The mean of each group. The four statistics may differ in size, each size being 1 or the
            input's.
        variance: `[*variance_sizes]`. The variance of each group.
        scale: `[*scale_sizes]`. The factor of the normalized input.
        bias: `[*bias_sizes]`. The number added to the scaled input.
        spatial: Before feature level 4_0, False forbids a mean and a variance that repeat along height and width. From
            4_0 on it has no effect.
        epsilon: The number added to the variance, so that nothing is divided by 0.
        fused_activation: The activation f, an element-wise one described without tensors. If absent, the result is
            unchanged.

    Returns:
        `[*sizes]`. The normalized result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "BATCH_NORMALIZATION",
        input_tensor=input,
        mean_tensor=mean,
        variance_tensor=variance,
        scale_tensor=scale,
        bias_tensor=bias,
        spatial=spatial,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


class BatchNormalizationGradOutputs(NamedTuple):
    """The outputs of `batch_normalization_grad`."""

    gradient: Expression
    """The gradient dx of the input."""
    scale_gradient: Expression
    """The gradient d_scale of the scale."""
    bias_gradient: Expression
    """The gradient d_bias of the bias."""


@refuse_others
def batch_normalization_grad(
    input: Expression | Array,
    input_gradient: Expression | Array,
    mean: Expression | Array,
    variance: Expression | Array,
    scale: Expression | Array,
    *,
    epsilon: float | str | floating[Any] = 1e-05,
) -> BatchNormalizationGradOutputs:
    """BATCH_NORMALIZATION_GRAD: the gradients where mean and variance are constants.

    Sums are over exactly the dimensions in which mean has size 1.

    ::

        dx = dy * scale / sqrt(variance + epsilon)
        d_scale = sum(dy * (x - mean) / sqrt(variance + epsilon)), d_bias = sum(dy)

    Args:
        input: `[*sizes]`. The input x, of dimensions of any meaning.
        input_gradient: `[*sizes]`. The upstream gradient dy. A broadcast one (strides of 0) is read in place.
        mean: `[*statistics]`. The mean that the forward operator was given or computed, each size 1 or the input's.
        variance: `[*statistics]`. The variance that the forward operator was given or computed.
        scale: `[*statistics]`. The scale of the forward operator.
        epsilon: The epsilon of the forward operator.

    Returns:
        The named tuple `BatchNormalizationGradOutputs` of these fields.

        - `gradient`: `[*sizes]`. The gradient dx of the input.
        - `scale_gradient`: `[*statistics]`. The gradient d_scale of the scale.
        - `bias_gradient`: `[*statistics]`. The gradient d_bias of the bias.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return BatchNormalizationGradOutputs(*several(
        "BATCH_NORMALIZATION_GRAD",
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        mean_tensor=mean,
        variance_tensor=variance,
        scale_tensor=scale,
        epsilon=epsilon,
    ))


class BatchNormalizationTrainingOutputs(NamedTuple):
    """The outputs of `batch_normalization_training`."""

    output: Expression
    """The normalized result y."""
    mean: Expression
    """The mean of each group of the batch."""
    variance: Expression
    """The variance of each group of the batch."""


@refuse_others
def batch_normalization_training(
    input: Expression | Array,
    scale: Expression | Array,
    bias: Expression | Array,
    fused_add: Expression | Array | None = None,
    *,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
) -> BatchNormalizationTrainingOutputs:
    """BATCH_NORMALIZATION_TRAINING: normalizes with the batch's statistics.

    They are taken over exactly the dimensions in which scale has size 1, n entries at a time; the variance divides by
    n.

    ::

        mean = sum(x) / n, variance = sum((x - mean)^2) / n
        y = f(scale * (x - mean) / sqrt(variance + epsilon) + bias + fused_add)

    Args:
        input: `[*sizes]`. The input x, of dimensions of any meaning.
        scale: `[*statistics]`. The factor of the normalized input, each size 1 or the input's.
        bias: `[*statistics]`. The number added to the scaled input.
        fused_add: `[*sizes]`. A tensor added to the result before the activation. If absent, nothing is added.
        epsilon: The number added to the variance, so that nothing is divided by 0.
        fused_activation: The activation f, an element-wise one described without tensors. If absent, the result is
            unchanged.

    Returns:
        The named tuple `BatchNormalizationTrainingOutputs` of these fields.

        - `output`: `[*sizes]`. The normalized result y.
        - `mean`: `[*statistics]`. The mean of each group of the batch.
        - `variance`: `[*statistics]`. The variance of each group of the batch.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return BatchNormalizationTrainingOutputs(*several(
        "BATCH_NORMALIZATION_TRAINING",
        input_tensor=input,
        scale_tensor=scale,
        bias_tensor=bias,
        fused_add_tensor=fused_add,
        epsilon=epsilon,
        fused_activation=fused_activation,
    ))


class BatchNormalizationTrainingGradOutputs(NamedTuple):
    """The outputs of `batch_normalization_training_grad`."""

    gradient: Expression
    """The gradient dx of the input."""
    scale_gradient: Expression
    """The gradient d_scale of the scale."""
    bias_gradient: Expression
    """The gradient d_bias of the bias."""


@refuse_others
def batch_normalization_training_grad(
    input: Expression | Array,
    input_gradient: Expression | Array,
    mean: Expression | Array,
    variance: Expression | Array,
    scale: Expression | Array,
    *,
    epsilon: float | str | floating[Any] = 1e-05,
) -> BatchNormalizationTrainingGradOutputs:
    """BATCH_NORMALIZATION_TRAINING_GRAD: the gradients where mean and variance follow from the batch.

    Sums are over exactly the dimensions in which mean has size 1, n entries at a time.

    The input's gradient centres x by the mean of x, as DirectML's page does, the scale's by mean_tensor: so a mean that
    was rounded to FLOAT16 spoils the latter only; one that is not finite makes dx NaN too. x - mean(x) stands for that
    in the formula.

    ::

        centred = x - mean(x), mean(v) = sum(v) / n
        dx = scale / sqrt(variance + epsilon) * (dy - mean(dy) - centred * mean(dy * centred) / (variance + epsilon))
        d_scale = sum(dy * (x - mean) / sqrt(variance + epsilon)), d_bias = sum(dy)

    Args:
        input: `[*sizes]`. The input x, of dimensions of any meaning.
        input_gradient: `[*sizes]`. The upstream gradient dy. A broadcast one (strides of 0) is read in place.
        mean: `[*statistics]`. The mean that the forward operator was given or computed, each size 1 or the input's.
        variance: `[*statistics]`. The variance that the forward operator was given or computed.
        scale: `[*statistics]`. The scale of the forward operator.
        epsilon: The epsilon of the forward operator.

    Returns:
        The named tuple `BatchNormalizationTrainingGradOutputs` of these fields.

        - `gradient`: `[*sizes]`. The gradient dx of the input.
        - `scale_gradient`: `[*statistics]`. The gradient d_scale of the scale.
        - `bias_gradient`: `[*statistics]`. The gradient d_bias of the bias.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return BatchNormalizationTrainingGradOutputs(*several(
        "BATCH_NORMALIZATION_TRAINING_GRAD",
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        mean_tensor=mean,
        variance_tensor=variance,
        scale_tensor=scale,
        epsilon=epsilon,
    ))


@refuse_others
def local_response_normalization(
    input: Expression | Array,
    *,
    cross_channel: bool | bool_,
    local_size: int | integer[Any],
    alpha: float | str | floating[Any] = 0.0001,
    beta: float | str | floating[Any] = 0.75,
    bias: float | str | floating[Any] = 1.0,
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION: divides each element by a power of the squares in a window around it.

    The window is clipped at the borders, the divisor local_size stays. Microsoft's pages contradict each other about
    cross_channel; it is read here as in ONNX and AlexNet. So is the window of an even local_size: it reaches one
    element further after the centre than before.

    ::

        y = x / (bias + alpha / local_size * sum(x^2 over the window))^beta

    Args:
        input: `[batch_count, channel_count, height, width]`. The input x.
        cross_channel: Whether the window is local_size channels. If not, it is local_size by local_size positions in
            height and width.
        local_size: How many elements the window has along each of its dimensions. At least 1.
        alpha: The factor of the sum of squares, which is also divided by local_size.
        beta: The power that the divisor is raised to.
        bias: The number added to the scaled sum of squares.

    Returns:
        `[batch_count, channel_count, height, width]`. The normalized result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "LOCAL_RESPONSE_NORMALIZATION",
        input_tensor=input,
        cross_channel=cross_channel,
        local_size=local_size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )


@refuse_others
def local_response_normalization_grad(
    input: Expression | Array,
    input_gradient: Expression | Array,
    *,
    cross_channel: bool | bool_,
    local_size: int | integer[Any],
    alpha: float | str | floating[Any] = 0.0001,
    beta: float | str | floating[Any] = 0.75,
    bias: float | str | floating[Any] = 1.0,
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION_GRAD: the gradient of LOCAL_RESPONSE_NORMALIZATION for its input.

    ::

        d = bias + alpha / local_size * sum(x^2 over the window)
        dx = dy / d^beta - 2 * alpha * beta / local_size * x * sum(dy * x / d^(beta + 1), over all whose window holds the element)

    Args:
        input: `[batch_count, channel_count, height, width]`. The input x.
        input_gradient: `[batch_count, channel_count, height, width]`. The upstream gradient dy.
        cross_channel: Whether the window is local_size channels. If not, it is local_size by local_size positions in
            height and width.
        local_size: How many elements the window has along each of its dimensions. At least 1.
        alpha: The factor of the sum of squares, which is also divided by local_size.
        beta: The power that the divisor is raised to.
        bias: The number added to the scaled sum of squares.

    Returns:
        `[batch_count, channel_count, height, width]`. The gradient dx of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "LOCAL_RESPONSE_NORMALIZATION_GRAD",
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        cross_channel=cross_channel,
        local_size=local_size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )


@refuse_others
def lp_normalization(
    input: Expression | Array,
    *,
    axis: int | integer[Any],
    epsilon: float | str | floating[Any] = 1e-05,
    p: int | integer[Any] = 2,
) -> Expression:
    """LP_NORMALIZATION: divides each line of elements along an axis by its norm.

    Microsoft's page does not say how epsilon enters. Here it is the least divisor: a line whose norm is larger is
    divided by that alone.

    ::

        y = x / sum(|x|^p along axis)^(1 / p)

    Args:
        input: `[*sizes]`. The input x.
        axis: The dimension that a line extends along. A dimension, 0 to len(sizes) - 1.
        epsilon: The least divisor, so that nothing is divided by 0. No norm is less than NaN.
        p: The norm: 1 is the sum of absolute values, 2 the root of the sum of squares. Only 1 or 2.

    Returns:
        `[*sizes]`. The normalized result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "LP_NORMALIZATION",
        input_tensor=input,
        axis=axis,
        epsilon=epsilon,
        p=p,
    )


@refuse_others
def mean_variance_normalization(
    input: Expression | Array,
    scale: Expression | Array | None = None,
    bias: Expression | Array | None = None,
    *,
    cross_channel: bool | bool_ = False,
    normalize_variance: bool | bool_ = True,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION: normalizes each image by its mean and variance, by channel or as a whole.

    The variance divides by the number of elements.

    ::

        y = f(scale * (x - mean) / sqrt(variance + epsilon) + bias)

    Args:
        input: `[batch_count, channel_count, height, width]`. The images x.
        scale: `[*scale_sizes]`. The factor of the normalized input, each size 1 or the input's. If absent, 1.
        bias: `[*bias_sizes]`. The number added to the scaled input, each size 1 or the input's. If absent, 0.
        cross_channel: Whether mean and variance are taken over channels, height and width. If not, they are taken over
            height and width, for each channel.
        normalize_variance: Whether to divide by the standard deviation. If not, the result is x - mean.
        epsilon: The number added to the variance, so that nothing is divided by 0.
        fused_activation: The activation f, an element-wise one described without tensors. If absent, the result is
            unchanged.

    Returns:
        `[batch_count, channel_count, height, width]`. The normalized images y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "MEAN_VARIANCE_NORMALIZATION",
        input_tensor=input,
        scale_tensor=scale,
        bias_tensor=bias,
        cross_channel=cross_channel,
        normalize_variance=normalize_variance,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


@refuse_others
def mean_variance_normalization1(
    input: Expression | Array,
    scale: Expression | Array | None = None,
    bias: Expression | Array | None = None,
    *,
    axes: Sequence[int],
    normalize_variance: bool | bool_ = True,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION1: normalizes each group of elements by its mean and variance.

    The elements of a group differ only along axes; the variance divides by their number. Axes [2, 3] are
    MEAN_VARIANCE_NORMALIZATION of each channel, axes [1, 2, 3] that across channels, the last axes alone a layer
    normalization.

    ::

        y = f(scale * (x - mean) / sqrt(variance + epsilon) + bias)

    Args:
        input: `[*sizes]`. The input x.
        scale: `[*scale_sizes]`. The factor of the normalized input, each size 1 or the input's. If absent, 1.
        bias: `[*bias_sizes]`. The number added to the scaled input, each size 1 or the input's. If absent, 0.
        axes: The dimensions over which mean and variance are taken. A repeated one counts once. A dimension, 0 to
            len(sizes) - 1.
        normalize_variance: Whether to divide by the standard deviation of the group. If not, the result is x - mean.
        epsilon: The number added to the variance, so that nothing is divided by 0.
        fused_activation: The activation f, an element-wise one described without tensors. If absent, the result is
            unchanged.

    Returns:
        `[*sizes]`. The normalized result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "MEAN_VARIANCE_NORMALIZATION1",
        input_tensor=input,
        scale_tensor=scale,
        bias_tensor=bias,
        axes=axes,
        normalize_variance=normalize_variance,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


@refuse_others
def mean_variance_normalization2(
    input: Expression | Array,
    scale: Expression | Array | None = None,
    bias: Expression | Array | None = None,
    *,
    axes: Sequence[int],
    use_mean: bool | bool_ = True,
    use_variance: bool | bool_ = True,
    epsilon: float | str | floating[Any] = 1e-05,
    fused_activation: ActivationDesc | None = None,
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION2: normalizes each group of elements by its mean, variance or both.

    As MEAN_VARIANCE_NORMALIZATION1, with a mean that may be left out. Microsoft's page does not say whether the
    variance is then still taken about the mean. It is the mean of squares here: an RMS normalization, for which the
    operator is used.

    ::

        y = f(scale * (x - m) / d + bias), m = mean if use_mean else 0, d = sqrt(variance + epsilon) if use_variance else 1

    Args:
        input: `[*sizes]`. The input x.
        scale: `[*scale_sizes]`. The factor of the normalized input, each size 1 or the input's. If absent, 1.
        bias: `[*bias_sizes]`. The number added to the scaled input, each size 1 or the input's. If absent, 0.
        axes: The dimensions over which mean and variance are taken. A repeated one counts once. A dimension, 0 to
            len(sizes) - 1.
        use_mean: Whether to subtract the mean.
        use_variance: Whether to divide by the standard deviation.
        epsilon: The number added to the variance, so that nothing is divided by 0.
        fused_activation: The activation f, an element-wise one described without tensors. If absent, the result is
            unchanged.

    Returns:
        `[*sizes]`. The normalized result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "MEAN_VARIANCE_NORMALIZATION2",
        input_tensor=input,
        scale_tensor=scale,
        bias_tensor=bias,
        axes=axes,
        use_mean=use_mean,
        use_variance=use_variance,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )

