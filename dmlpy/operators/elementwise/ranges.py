"""Element-wise limits and rounding: CLIP and its gradients, THRESHOLD, ROUND."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.coercion import After, Float, Scalar, Spelled, SpelledType, default
from dmlpy.description.descs import FusableDesc
from dmlpy.description.enums import RoundingMode
from dmlpy.description.markers import In, Limits, Out
from dmlpy.description.support import FLOATS, FLOATS_INTEGERS_TO_32, FLOATS_INTEGERS_TO_64, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.elementwise.common import (
    INTEGERS_TO_32_FROM_2_1,
    INTEGERS_TO_64_FROM_5_0,
    ElementWiseDesc,
    ScaledDesc,
    ScaledInputDesc,
    UnaryDesc,
)


class ElementWiseClipDesc(ScaledInputDesc, ElementWiseDesc, FusableDesc, dml="ELEMENT_WISE_CLIP"):
    """DML_ELEMENT_WISE_CLIP_OPERATOR_DESC: each element clamped to a range. Where min is above max, max wins.

    From feature level 6_0 on CONVOLUTION and GEMM, and only they, fuse it; its tensors are null then.
    """

    formula = "y = x, but min where x < min, then max where that > max"
    in_place = True
    support = INTEGERS_TO_64_FROM_5_0

    input_tensor: Annotated[TensorDesc | None, In("*sizes", null_when_fused=True), After()] = None
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", null_when_fused=True)] = None
    """The result y."""

    min: Annotated[Float, After("scale_bias")]
    """The least result. How DirectML makes integers of it and of max is not documented: here they are rounded toward zero and held within
    the range of the type.
    """

    max: Float
    """The greatest result."""


class ElementWiseClip1Desc(ScaledDesc, dml="ELEMENT_WISE_CLIP1"):
    """DML_ELEMENT_WISE_CLIP1_OPERATOR_DESC: each element clamped to a range that is given in the tensors' type.

    Where min is above max, min wins: the result is min everywhere.
    """

    formula = "y = x, but max where x > max, then min where that < min"
    support = (SupportRow("5_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),)
    scalars = {"min": "input_tensor", "max": "input_tensor"}

    min_max_data_type: Annotated[SpelledType, Limits(type_of="output_tensor", or_unknown=True)]
    """The type of min and max, which is the tensors'. DirectML does not need it: ONNX Runtime's casts to bool leave it UNKNOWN."""

    min: Scalar
    """The least result."""

    max: Scalar
    """The greatest result."""


class ClipGradientDesc(ElementWiseDesc):
    """dx = dy strictly inside the range, else 0."""

    formula = "dx = 0 where x <= min or x >= max, else dy"
    in_place = True

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x of the forward operator."""

    input_gradient_tensor: Annotated[TensorDesc, In("*sizes")]
    """The upstream gradient dy."""

    output_gradient_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The gradient dx of the input. It may have the memory of input_tensor."""


class ElementWiseClipGradDesc(ClipGradientDesc, dml="ELEMENT_WISE_CLIP_GRAD"):
    """DML_ELEMENT_WISE_CLIP_GRAD_OPERATOR_DESC: the gradient of CLIP. At the limits themselves it is 0."""

    support = (
        SupportRow("3_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("5_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),
    )

    min: Float
    """The least result of CLIP."""

    max: Float
    """The greatest result of CLIP."""


class ElementWiseClipGrad1Desc(ClipGradientDesc, dml="ELEMENT_WISE_CLIP_GRAD1"):
    """DML_ELEMENT_WISE_CLIP_GRAD1_OPERATOR_DESC: the gradient of CLIP1. At the limits themselves it is 0."""

    support = (SupportRow("5_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),)
    scalars = {"min": "min_max_data_type", "max": "min_max_data_type"}

    min_max_data_type: Annotated[SpelledType, Limits(type_of="output_gradient_tensor")]
    """The type of min and max."""

    min: Scalar
    """The least result of CLIP1."""

    max: Scalar
    """The greatest result of CLIP1."""


class ElementWiseRoundDesc(UnaryDesc, dml="ELEMENT_WISE_ROUND"):
    """DML_ELEMENT_WISE_ROUND_OPERATOR_DESC: rounds to whole numbers, which remain floating-point numbers.

    HALVES_TO_NEAREST_EVEN: to the nearest, halves to the even neighbour. TOWARD_ZERO: the fraction is dropped. TOWARD_INFINITY: to the
    nearest, halves away from zero, despite its name.
    """

    formula = "y = x rounded as rounding_mode says"
    support = (SupportRow("2_1", dims=4, T=FLOATS), SupportRow("3_0", dims=(1, 8), T=FLOATS))

    rounding_mode: Spelled[RoundingMode] = default(RoundingMode.HALVES_TO_NEAREST_EVEN)
    """How numbers are rounded."""


class ElementWiseThresholdDesc(ScaledDesc, dml="ELEMENT_WISE_THRESHOLD"):
    """DML_ELEMENT_WISE_THRESHOLD_OPERATOR_DESC: each element, or the threshold if the element is below it."""

    formula = "y = max(x, min)"
    support = INTEGERS_TO_32_FROM_2_1

    min: Float
    """The threshold, the least result. How DirectML makes an integer of it is not documented: here it is rounded toward zero and held
    within the range of the type.
    """
