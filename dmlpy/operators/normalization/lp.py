"""Lp normalization, of each line of elements by its norm."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.coercion import Float, Uint, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.markers import In, Limits, Out
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc


class LPNormalizationDesc(OperatorDesc, dml="LP_NORMALIZATION"):
    """DML_LP_NORMALIZATION_OPERATOR_DESC: divides each line of elements along an axis by its norm.

    Microsoft's page does not say how epsilon enters. Here it is the least divisor: a line whose norm is larger is divided by that alone.
    """

    formula = "y = x / sum(|x|^p along axis)^(1 / p)"
    support = (SupportRow("1_0", dims=4, T=FLOATS), SupportRow("3_1", dims=(1, 8), T=FLOATS))

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The normalized result y."""

    axis: Annotated[Uint, Limits(axis_of="sizes")]
    """The dimension that a line extends along."""

    epsilon: Float = default(1e-5)
    """The least divisor, so that nothing is divided by 0. No norm is less than NaN."""

    p: Annotated[Uint, Limits(one_of=(1, 2))] = default(2)
    """The norm: 1 is the sum of absolute values, 2 the root of the sum of squares."""
