# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.activation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import floating

from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one



@refuse_others
def activation_celu(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 1.0,
) -> Expression:
    """ACTIVATION_CELU: x, exponential below 0 and smooth at 0 for every alpha.

    ::

        y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1))

    Args:
        input: `[*sizes]`. The input x.
        alpha: Minus the limit of y for negative x. It is not 0.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_CELU",
        input_tensor=input,
        alpha=alpha,
    )


@refuse_others
def activation_elu(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 1.0,
) -> Expression:
    """ACTIVATION_ELU: x, exponential below 0.

    ::

        y = x where x >= 0, else alpha * (exp(x) - 1)

    Args:
        input: `[*sizes]`. The input x.
        alpha: Minus the limit of y for negative x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_ELU",
        input_tensor=input,
        alpha=alpha,
    )


@refuse_others
def activation_gelu(
    input: Expression | Array,
) -> Expression:
    """ACTIVATION_GELU: x times the normal distribution function of x, exact, not approximated by tanh.

    ::

        y = 0.5 * x * (1 + erf(x / sqrt(2)))

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_GELU",
        input_tensor=input,
    )


@refuse_others
def activation_hardmax(
    input: Expression | Array,
) -> Expression:
    """ACTIVATION_HARDMAX: 1 at the largest element of each row, 0 elsewhere.

    ::

        y[i] = 1 where x[i] is the first largest element of the row, else 0

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_HARDMAX",
        input_tensor=input,
    )


@refuse_others
def activation_hardmax1(
    input: Expression | Array,
    *,
    axes: Sequence[int],
) -> Expression:
    """ACTIVATION_HARDMAX1: 1 at the largest element of each group, 0 elsewhere.

    ::

        y[i] = 1 where x[i] is the first largest element of the group, in the order of its indices, else 0

    Args:
        input: `[*sizes]`. The input x.
        axes: The dimensions that a group extends along. With the last one alone, groups are rows. A repeated one counts
            once. A dimension, 0 to len(sizes) - 1.

    Returns:
        `[*sizes]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_HARDMAX1",
        input_tensor=input,
        axes=axes,
    )


@refuse_others
def activation_hard_sigmoid(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 0.2,
    beta: float | str | floating[Any] = 0.5,
) -> Expression:
    """ACTIVATION_HARD_SIGMOID: a straight line clamped between 0 and 1.

    ::

        y = max(0, min(alpha * x + beta, 1))

    Args:
        input: `[*sizes]`. The input x.
        alpha: The slope.
        beta: The value y where x is 0.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_HARD_SIGMOID",
        input_tensor=input,
        alpha=alpha,
        beta=beta,
    )


@refuse_others
def activation_hard_swish(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 0.2,
    beta: float | str | floating[Any] = 0.5,
) -> Expression:
    """ACTIVATION_HARD_SWISH: x times HARD_SIGMOID of it.

    ::

        y = x * max(0, min(alpha * x + beta, 1))

    Args:
        input: `[*sizes]`. The input x.
        alpha: The slope of the factor.
        beta: The factor where x is 0.

    Returns:
        `[*sizes]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_HARD_SWISH",
        input_tensor=input,
        alpha=alpha,
        beta=beta,
    )


@refuse_others
def activation_identity(
    input: Expression | Array,
) -> Expression:
    """ACTIVATION_IDENTITY: a copy of each element.

    ::

        y = x

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_IDENTITY",
        input_tensor=input,
    )


@refuse_others
def activation_leaky_relu(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 0.01,
) -> Expression:
    """ACTIVATION_LEAKY_RELU: x, with another slope below 0.

    ::

        y = x where x >= 0, else alpha * x

    Args:
        input: `[*sizes]`. The input x.
        alpha: The slope below 0.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_LEAKY_RELU",
        input_tensor=input,
        alpha=alpha,
    )


@refuse_others
def activation_linear(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 1.0,
    beta: float | str | floating[Any] = 0.0,
) -> Expression:
    """ACTIVATION_LINEAR: a straight line.

    ::

        y = alpha * x + beta

    Args:
        input: `[*sizes]`. The input x.
        alpha: The slope.
        beta: The value y where x is 0.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_LINEAR",
        input_tensor=input,
        alpha=alpha,
        beta=beta,
    )


@refuse_others
def activation_log_softmax(
    input: Expression | Array,
) -> Expression:
    """ACTIVATION_LOG_SOFTMAX: the natural logarithm of SOFTMAX.

    ::

        y[i] = x[i] - ln(the sum of exp(x[k]) over the row)

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_LOG_SOFTMAX",
        input_tensor=input,
    )


@refuse_others
def activation_log_softmax1(
    input: Expression | Array,
    *,
    axes: Sequence[int],
) -> Expression:
    """ACTIVATION_LOG_SOFTMAX1: the natural logarithm of SOFTMAX1.

    ::

        y[i] = x[i] - ln(the sum of exp(x[k]) over the group)

    Args:
        input: `[*sizes]`. The input x.
        axes: The dimensions that a group extends along. With the last one alone, groups are rows. A repeated one counts
            once. A dimension, 0 to len(sizes) - 1.

    Returns:
        `[*sizes]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_LOG_SOFTMAX1",
        input_tensor=input,
        axes=axes,
    )


@refuse_others
def activation_parameterized_relu(
    input: Expression | Array | float,
    slope: Expression | Array | float,
) -> Expression:
    """ACTIVATION_PARAMETERIZED_RELU: x, with a separate slope for each element below 0.

    Integers are multiplied modulo two to the number of their bits. In place the output has the memory of either input;
    DirectML's page names input_tensor only.

    ::

        y = x where x >= 0, else slope * x

    Args:
        input: `[*sizes]`. The input x.
        slope: `[*sizes]`. The slope below 0. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_PARAMETERIZED_RELU",
        input_tensor=input,
        slope_tensor=slope,
    )


@refuse_others
def activation_parametric_softplus(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 1.0,
    beta: float | str | floating[Any] = 1.0,
) -> Expression:
    """ACTIVATION_PARAMETRIC_SOFTPLUS: a smooth positive part, scaled.

    ::

        y = alpha * ln(1 + exp(beta * x))

    Args:
        input: `[*sizes]`. The input x.
        alpha: The scale of the result.
        beta: The scale of x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_PARAMETRIC_SOFTPLUS",
        input_tensor=input,
        alpha=alpha,
        beta=beta,
    )


@refuse_others
def activation_relu(
    input: Expression | Array,
) -> Expression:
    """ACTIVATION_RELU: the positive part.

    ::

        y = max(0, x)

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_RELU",
        input_tensor=input,
    )


@refuse_others
def activation_relu_grad(
    input: Expression | Array | float,
    input_gradient: Expression | Array | float,
) -> Expression:
    """ACTIVATION_RELU_GRAD: the gradient of RELU. Where x is 0 or NaN it is 0.

    ::

        dx = dy where x > 0, else 0

    Args:
        input: `[*sizes]`. The input x of the forward operator.
        input_gradient: `[*sizes]`. The upstream gradient dy.

    Returns:
        `[*sizes]`. The gradient dx of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_RELU_GRAD",
        input_tensor=input,
        input_gradient_tensor=input_gradient,
    )


@refuse_others
def activation_scaled_elu(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 1.67326319,
    gamma: float | str | floating[Any] = 1.05070102,
) -> Expression:
    """ACTIVATION_SCALED_ELU: x, exponential below 0, and scaled: SELU.

    ::

        y = gamma * x where x > 0, else gamma * (alpha * exp(x) - alpha)

    Args:
        input: `[*sizes]`. The input x.
        alpha: Minus the limit of y / gamma for negative x.
        gamma: The scale of the result.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_SCALED_ELU",
        input_tensor=input,
        alpha=alpha,
        gamma=gamma,
    )


@refuse_others
def activation_scaled_tanh(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 1.0,
    beta: float | str | floating[Any] = 0.5,
) -> Expression:
    """ACTIVATION_SCALED_TANH: the hyperbolic tangent, scaled.

    ::

        y = alpha * tanh(beta * x)

    Args:
        input: `[*sizes]`. The input x.
        alpha: The scale of the result.
        beta: The scale of x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_SCALED_TANH",
        input_tensor=input,
        alpha=alpha,
        beta=beta,
    )


@refuse_others
def activation_shrink(
    input: Expression | Array,
    *,
    bias: float | str | floating[Any] = 0.0,
    threshold: float | str | floating[Any] = 0.5,
) -> Expression:
    """ACTIVATION_SHRINK: x moved towards 0 by a bias, and 0 near 0.

    Integers are computed as 64-bit floats, the result rounded toward zero and held within the type's range; one that a
    NaN as bias makes no number is the smallest of the type.

    ::

        y = x - bias where x > threshold, x + bias where x < -threshold, else 0

    Args:
        input: `[*sizes]`. The input x.
        bias: The number that moves x towards 0.
        threshold: The bound: elements from -threshold to threshold give 0.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_SHRINK",
        input_tensor=input,
        bias=bias,
        threshold=threshold,
    )


@refuse_others
def activation_sigmoid(
    input: Expression | Array,
) -> Expression:
    """ACTIVATION_SIGMOID: the logistic function.

    ::

        y = 1 / (1 + exp(-x))

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_SIGMOID",
        input_tensor=input,
    )


@refuse_others
def activation_softmax(
    input: Expression | Array,
) -> Expression:
    """ACTIVATION_SOFTMAX: the softmax of each row, whose elements sum up to 1.

    ::

        y[i] = exp(x[i]) / (the sum of exp(x[k]) over the row)

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_SOFTMAX",
        input_tensor=input,
    )


@refuse_others
def activation_softmax1(
    input: Expression | Array,
    *,
    axes: Sequence[int],
) -> Expression:
    """ACTIVATION_SOFTMAX1: the softmax of each group, whose elements sum up to 1.

    ::

        y[i] = exp(x[i]) / (the sum of exp(x[k]) over the group)

    Args:
        input: `[*sizes]`. The input x.
        axes: The dimensions that a group extends along. With the last one alone, groups are rows. A repeated one counts
            once. A dimension, 0 to len(sizes) - 1.

    Returns:
        `[*sizes]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_SOFTMAX1",
        input_tensor=input,
        axes=axes,
    )


@refuse_others
def activation_softplus(
    input: Expression | Array,
    *,
    steepness: float | str | floating[Any] = 1.0,
) -> Expression:
    """ACTIVATION_SOFTPLUS: a smooth positive part.

    ::

        y = ln(1 + exp(steepness * x)) / steepness

    Args:
        input: `[*sizes]`. The input x.
        steepness: How close the function is to max(0, x): at least 1, from feature level 6_4 on above 0.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_SOFTPLUS",
        input_tensor=input,
        steepness=steepness,
    )


@refuse_others
def activation_softsign(
    input: Expression | Array,
) -> Expression:
    """ACTIVATION_SOFTSIGN: a sigmoid without an exponential.

    DirectML gives 0 for magnitudes above about 8.5e37, whose reciprocal a GPU flushes to 0, as ONNX Runtime's tests
    record; here the formula holds for all numbers.

    ::

        y = x / (1 + |x|)

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_SOFTSIGN",
        input_tensor=input,
    )


@refuse_others
def activation_swish(
    input: Expression | Array,
    *,
    sigmoid_input_scale: float | str | floating[Any] = 1.0,
) -> Expression:
    """ACTIVATION_SWISH: x times a sigmoid of it.

    ::

        y = x * sigmoid(sigmoid_input_scale * x) = x / (1 + exp(-sigmoid_input_scale * x))

    Args:
        input: `[*sizes]`. The input x.
        sigmoid_input_scale: The scale of x inside the sigmoid.

    Returns:
        `[*sizes]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_SWISH",
        input_tensor=input,
        sigmoid_input_scale=sigmoid_input_scale,
    )


@refuse_others
def activation_tanh(
    input: Expression | Array,
) -> Expression:
    """ACTIVATION_TANH: the hyperbolic tangent.

    ::

        y = tanh(x) = (1 - exp(-2 * x)) / (1 + exp(-2 * x))

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_TANH",
        input_tensor=input,
    )


@refuse_others
def activation_thresholded_relu(
    input: Expression | Array,
    *,
    alpha: float | str | floating[Any] = 1.0,
) -> Expression:
    """ACTIVATION_THRESHOLDED_RELU: x above a threshold.

    An element equal to alpha gives 0, and so does, by the formula, NaN.

    ::

        y = x where x > alpha, else 0

    Args:
        input: `[*sizes]`. The input x.
        alpha: The threshold.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ACTIVATION_THRESHOLDED_RELU",
        input_tensor=input,
        alpha=alpha,
    )

