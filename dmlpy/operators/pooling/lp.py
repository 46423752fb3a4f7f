"""Lp pooling: the norm of each window."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.coercion import Uint
from dmlpy.description.markers import Limits
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.operators.pooling.windows import DilatedPoolingDesc, ForwardPoolingDesc


class NormPoolingDesc(ForwardPoolingDesc):
    """The base of the Lp poolings."""

    p: Annotated[Uint, Limits(least=1)]
    """The order P of the norm, usually 1 or 2."""


class LPPoolingDesc(NormPoolingDesc, dml="LP_POOLING"):
    """DML_LP_POOLING_OPERATOR_DESC: the Lp norm of each window's elements, for each batch entry and channel.

    Padding counts as 0. DirectML's page has no absolute value in its formula; it is meant, as in ONNX. P is not 0.
    """

    formula = "y[o] = (sum over k of |x[o * strides + k - start_padding]| ** P) ** (1 / P)"
    support = (SupportRow("1_0", dims=(4, 5), T=FLOATS),)


class LPPooling1Desc(NormPoolingDesc, DilatedPoolingDesc, dml="LP_POOLING1"):
    """DML_LP_POOLING1_OPERATOR_DESC: as LP_POOLING, with a window whose elements may be dilated.

    DirectML's page prints the sizes of the output without dilations; they count here, as in MAX_POOLING2. P is not 0.
    """

    formula = "y[o] = (sum over k of |x[o * strides + k * dilations - start_padding]| ** P) ** (1 / P)"
    support = (SupportRow("6_2", dims=(4, 5), T=FLOATS),)
