# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.matrix`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import floating

from dmlpy.description.enums import MatrixTransform
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one

if TYPE_CHECKING:
    from dmlpy.description.descs import FusableDesc


@refuse_others
def gemm(
    a: Expression | Array,
    b: Expression | Array,
    c: Expression | Array | None = None,
    *,
    trans_a: MatrixTransform | str | int = MatrixTransform.NONE,
    trans_b: MatrixTransform | str | int = MatrixTransform.NONE,
    alpha: float | str | floating[Any] = 1.0,
    beta: float | str | floating[Any] = 1.0,
    fused_activation: FusableDesc | None = None,
) -> Expression:
    """GEMM: the product of two matrices, for each entry of a batch.

    A beta of 0 multiplies C like any other: what is not finite there gives NaN. A fused SOFTMAX is that of each row of
    the result.

    DirectML was seen to refuse more than 65,535 in a dimension of the batch (its issue 650). Its documentation has no
    such limit, and neither has dmlpy.

    ::

        output = f(alpha * A B + beta * C)

    Args:
        a: `[*batch, m, k]`. The matrix A. With trans_a TRANSPOSE it has k rows and m columns.
        b: `[*batch, k, n]`. The matrix B. With trans_b TRANSPOSE it has n rows and k columns.
        c: `[*batch, m, n]`. The matrix C that is added to the product. Strides of 0 repeat a row or a column. If
            absent, nothing is added.
        trans_a: Whether A is transposed first.
        trans_b: Whether B is transposed first.
        alpha: The factor of the product.
        beta: The factor of C.
        fused_activation: The function f of the result, described without tensors. If absent, the result is unchanged.

    Returns:
        `[*batch, m, n]`. The result.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "GEMM",
        a_tensor=a,
        b_tensor=b,
        c_tensor=c,
        trans_a=trans_a,
        trans_b=trans_b,
        alpha=alpha,
        beta=beta,
        fused_activation=fused_activation,
    )

