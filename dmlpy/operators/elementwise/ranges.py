"""Element-wise limits and rounding: CLIP and its gradients, THRESHOLD, ROUND."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.descs import FusableDesc
from dmlpy.description.enums import RoundingMode
from dmlpy.description.markers import In, Limits, Out
from dmlpy.description.structs import Float, Scalar, Spelled, SpelledType, default
from dmlpy.description.support import FLOATS, FLOATS_INTEGERS_TO_32, FLOATS_INTEGERS_TO_64, Since
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import OptionalScaleBias
from dmlpy.operators.elementwise.common import (
    INTEGERS_TO_32_FROM_2_1,
    INTEGERS_TO_64_FROM_5_0,
    ElementWiseDesc,
    ScaledDesc,
    UnaryDesc,
)


class ElementWiseClipDesc(ElementWiseDesc, FusableDesc, dml="ELEMENT_WISE_CLIP"):
    """DML_ELEMENT_WISE_CLIP_OPERATOR_DESC: each element moved into a range. Where min is above max, max wins.

    From feature level 6_0 on CONVOLUTION and GEMM, and only they, fuse it; its tensors are null then.

    Attributes:
        input_tensor: x; null inside another struct.
        output_tensor: y, the input's sizes and type; it may have the input's memory. Null inside another struct.
        scale_bias: x is replaced by x * scale + bias first; absent, it stays as it is. How integers are rounded then is not documented;
            here the result is, toward zero, and moved into the range of its type.
        min: the least result. How it and max are made integers is not documented; here toward zero, moved into the range of the type.
        max: the greatest result.
    """

    formula = "y = x, but min where x < min, then max where that > max"
    in_place = True
    support = INTEGERS_TO_64_FROM_5_0

    input_tensor: Annotated[TensorDesc | None, In("*sizes", null_when_fused=True)] = None
    output_tensor: Annotated[TensorDesc | None, Out("*sizes", null_when_fused=True)] = None
    scale_bias: OptionalScaleBias = default(None)
    min: Float
    max: Float


class ElementWiseClip1Desc(ScaledDesc, dml="ELEMENT_WISE_CLIP1"):
    """DML_ELEMENT_WISE_CLIP1_OPERATOR_DESC: each element moved into a range given in the tensors' own type.

    Where min is above max, min wins: the result is min everywhere.

    Attributes:
        input_tensor: x.
        output_tensor: y, the input's sizes and type; it may have the input's memory.
        scale_bias: x is replaced by x * scale + bias first; absent, it stays as it is. How integers are rounded then is not documented;
            here the result is, toward zero, and moved into the range of its type.
        min_max_data_type: the type that min and max are read as, which is that of the output.
        min: the least result.
        max: the greatest result.
    """

    formula = "y = x, but max where x > max, then min where that < min"
    support = (Since("5_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),)
    scalars = {"min": "min_max_data_type", "max": "min_max_data_type"}

    min_max_data_type: Annotated[SpelledType, Limits(type_of="output_tensor")]
    min: Scalar
    max: Scalar


class ClipGradientDesc(ElementWiseDesc):
    """dx = dy strictly inside the range, else 0."""

    formula = "dx = 0 where x <= min or x >= max, else dy"
    in_place = True

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    input_gradient_tensor: Annotated[TensorDesc, In("*sizes")]
    output_gradient_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None


class ElementWiseClipGradDesc(ClipGradientDesc, dml="ELEMENT_WISE_CLIP_GRAD"):
    """DML_ELEMENT_WISE_CLIP_GRAD_OPERATOR_DESC: the gradient of CLIP. At the limits themselves it is 0.

    Attributes:
        input_tensor: x as the forward operator had it.
        input_gradient_tensor: dy, the upstream gradient, the input's sizes and type.
        output_gradient_tensor: dx, the input's sizes and type; it may have the memory of input_tensor.
        min: as the forward operator had it.
        max: as the forward operator had it.
    """

    support = (
        Since("3_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        Since("5_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),
    )

    min: Float
    max: Float


class ElementWiseClipGrad1Desc(ClipGradientDesc, dml="ELEMENT_WISE_CLIP_GRAD1"):
    """DML_ELEMENT_WISE_CLIP_GRAD1_OPERATOR_DESC: the gradient of CLIP1. At the limits themselves it is 0.

    Attributes:
        input_tensor: x as the forward operator had it.
        input_gradient_tensor: dy, the upstream gradient, the input's sizes and type.
        output_gradient_tensor: dx, the input's sizes and type; it may have the memory of input_tensor.
        min_max_data_type: the type that min and max are read as, which is that of the output.
        min: as the forward operator had it.
        max: as the forward operator had it.
    """

    support = (Since("5_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),)
    scalars = {"min": "min_max_data_type", "max": "min_max_data_type"}

    min_max_data_type: Annotated[SpelledType, Limits(type_of="output_gradient_tensor")]
    min: Scalar
    max: Scalar


class ElementWiseRoundDesc(UnaryDesc, dml="ELEMENT_WISE_ROUND"):
    """DML_ELEMENT_WISE_ROUND_OPERATOR_DESC: rounds to whole numbers, which stay floating-point numbers.

    HALVES_TO_NEAREST_EVEN: to the nearest, halves to the even neighbour. TOWARD_ZERO: the fraction is dropped. TOWARD_INFINITY: to the
    nearest, halves away from zero, despite its name.

    Attributes:
        input_tensor: x.
        output_tensor: y, the input's sizes and type; it may have the input's memory.
        rounding_mode: how; HALVES_TO_NEAREST_EVEN in Python if left out.
    """

    formula = "y = x rounded as rounding_mode says"
    support = (Since("2_1", dims=4, T=FLOATS), Since("3_0", dims=(1, 8), T=FLOATS))

    rounding_mode: Spelled[RoundingMode] = default(RoundingMode.HALVES_TO_NEAREST_EVEN)


class ElementWiseThresholdDesc(ScaledDesc, dml="ELEMENT_WISE_THRESHOLD"):
    """DML_ELEMENT_WISE_THRESHOLD_OPERATOR_DESC: what lies below a threshold becomes the threshold.

    Attributes:
        input_tensor: x.
        output_tensor: y, the input's sizes and type; it may have the input's memory.
        scale_bias: x is replaced by x * scale + bias first; absent, it stays as it is. How integers are rounded then is not documented;
            here the result is, toward zero, and moved into the range of its type.
        min: the threshold, the least result. How it is made an integer is not documented; here toward zero, moved into the range of the
            type.
    """

    formula = "y = max(x, min)"
    support = INTEGERS_TO_32_FROM_2_1

    min: Float
