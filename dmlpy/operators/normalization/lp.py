"""Lp normalization: each line of elements by its norm."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.markers import In, Limits, Out
from dmlpy.description.structs import Float, Uint, default
from dmlpy.description.support import FLOATS, Since
from dmlpy.description.tensors import TensorDesc


class LPNormalizationDesc(OperatorDesc, dml="LP_NORMALIZATION"):
    """DML_LP_NORMALIZATION_OPERATOR_DESC: divides each line of elements along an axis by its norm.

    Microsoft's page does not tell how epsilon enters. Here it is the least divisor: a line whose norm is larger is divided by that alone.

    Attributes:
        input_tensor: x, of any sizes.
        output_tensor: y, the input's sizes.
        axis: the dimension that a line extends along.
        epsilon: what keeps the division from being by zero; 1e-05 in Python if left out.
        p: which norm: 1 is the sum of absolute values, 2 the root of the sum of squares; 2 in Python if left out.
    """

    formula = "y = x / sum(|x|^p along axis)^(1 / p)"
    support = (Since("1_0", dims=4, T=FLOATS), Since("3_1", dims=(1, 8), T=FLOATS))

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    axis: Annotated[Uint, Limits(axis_of="sizes")]
    epsilon: Float = default(1e-5)
    p: Annotated[Uint, Limits(one_of=(1, 2))] = default(2)
