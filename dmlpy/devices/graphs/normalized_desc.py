"""`NormalizedConvolutionDesc`: a convolution with the batch normalization of its result, which has no memory."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.coercion import Float, default
from dmlpy.description.markers import In
from dmlpy.description.tensors import TensorDesc  # noqa: TC001  pydantic reads it
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
