"""Convolutions with what graphs compute of their results, which have no memory: a batch normalization, or an epilogue."""

from __future__ import annotations

from typing import Annotated, Any

from dmlpy.description.coercion import Float, default
from dmlpy.description.markers import In
from dmlpy.description.tensors import TensorDesc  # noqa: TC001  (pydantic reads it)
from dmlpy.operators.convolution import ConvolutionDesc


class NormalizedConvolutionDesc(ConvolutionDesc):
    """A convolution whose result is normalized with statistics of each channel that are known when a graph is prepared.

    Graphs create it from their nodes; DirectML has no such operator. A device without a plan for it runs the nodes separately.
    """

    c_name = "convolution with batch normalization"
    is_extension = True
    formula = "y = f(scale * (convolution - mean) / sqrt(variance + epsilon) + offset)"

    mean_tensor: Annotated[TensorDesc, In("1 output_channels *ones", constant=True)]
    """The mean of each channel."""

    variance_tensor: Annotated[TensorDesc, In("1 output_channels *ones", constant=True)]
    """The variance of each channel."""

    scale_tensor: Annotated[TensorDesc, In("1 output_channels *ones", constant=True)]
    """The factor of the normalized result."""

    offset_tensor: Annotated[TensorDesc, In("1 output_channels *ones", constant=True)]
    """The number added to the scaled result: BATCH_NORMALIZATION's bias."""

    epsilon: Float = default(1e-5)
    """The number added to the variance."""


class EpilogueConvolutionDesc(ConvolutionDesc):
    """A convolution to whose result a tensor is added, and which is then multiplied by a sigmoid or a clipped line of itself.

    Graphs create it from their nodes; DirectML fuses neither. A device without a plan for it runs the nodes separately.
    """

    c_name = "convolution with an epilogue"
    is_extension = True
    formula = "y = f(g(convolution + added)), with g(x) = x * sigmoid(x) or x * max(0, min(alpha * x + beta, 1))"

    added_tensor: Annotated[TensorDesc | None, In("batch output_channels *out")] = None
    """The addend; None adds nothing."""

    gate: Any = default(None)
    """The function g: `silu` and `hard_silu`, the products of x and its factor; `swish`, which keeps its digits where the sigmoid has none;
    `hard_swish`, which is 0 where the factor is; None for x itself.
    """

    alpha: Float = default(0.0)
    """The slope of the line of `hard_silu` and `hard_swish`."""

    beta: Float = default(0.0)
    """The line where x is 0."""


class NormalizedEpilogueConvolutionDesc(EpilogueConvolutionDesc, NormalizedConvolutionDesc):
    """A convolution whose result is first normalized, as that of `NormalizedConvolutionDesc`, and then has an epilogue.

    Graphs create it from their nodes; DirectML has no such operator. A device without a plan for it runs the nodes separately.
    """

    c_name = "convolution with batch normalization and an epilogue"
    is_extension = True
    formula = f"{EpilogueConvolutionDesc.formula} of the normalized convolution"
