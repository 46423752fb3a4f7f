"""Lp pooling: the norm of each window."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.markers import In, Limits, Out
from dmlpy.description.structs import Uint, Uints
from dmlpy.description.support import FLOATS, Since
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.pooling.windows import DilatedPoolingDesc, PoolingDesc


class LPPoolingDesc(PoolingDesc, dml="LP_POOLING"):
    """DML_LP_POOLING_OPERATOR_DESC: the Lp norm of each window's elements, for each batch entry and channel.

    Padding counts as 0. DirectML's page has no absolute value in its formula; it is meant, as in ONNX. A P of 0 is not defined.

    Attributes:
        input_tensor: x, [batch, channels, height, width], or with a depth before the height.
        output_tensor: y, [batch, channels, *out], an element for each position of the window.
        strides: steps from one position of the window to the next, for each spatial dimension, the outermost first.
        window_size: elements of the window, likewise.
        start_padding: elements of padding before the first element of each spatial dimension.
        end_padding: elements of padding after the last one.
        p: P, usually 1 or 2.
    """

    formula = "y[o] = (sum over k of |x[o * strides + k - start_padding]| ** P) ** (1 / P)"
    support = (Since("1_0", dims=(4, 5), T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch channels *spatial")]
    output_tensor: Annotated[TensorDesc | None, Out("batch channels *out", required=True)] = None
    strides: Annotated[Uints, Limits(length="dimension_count", least=1)]
    window_size: Annotated[Uints, Limits(length="dimension_count", least=1)]
    start_padding: Uints
    end_padding: Uints
    p: Uint


class LPPooling1Desc(DilatedPoolingDesc, dml="LP_POOLING1"):
    """DML_LP_POOLING1_OPERATOR_DESC: as LP_POOLING, with a window whose elements may lie apart.

    DirectML's page prints the sizes of the output without dilations; they count here, as in MAX_POOLING2. A P of 0 is not defined.

    Attributes:
        input_tensor: x, [batch, channels, height, width], or with a depth before the height.
        output_tensor: y, [batch, channels, *out], an element for each position of the window.
        strides: steps from one position of the window to the next, for each spatial dimension, the outermost first.
        window_size: elements of the window, likewise.
        start_padding: elements of padding before the first element of each spatial dimension.
        end_padding: elements of padding after the last one.
        dilations: steps from one element of the window to the next, likewise; 1 where they are neighbours.
        p: P, usually 1 or 2.
    """

    formula = "y[o] = (sum over k of |x[o * strides + k * dilations - start_padding]| ** P) ** (1 / P)"
    support = (Since("6_2", dims=(4, 5), T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch channels *spatial")]
    output_tensor: Annotated[TensorDesc | None, Out("batch channels *out", required=True)] = None
    strides: Annotated[Uints, Limits(length="dimension_count", least=1)]
    window_size: Annotated[Uints, Limits(length="dimension_count", least=1)]
    start_padding: Uints
    end_padding: Uints
    dilations: Annotated[Uints, Limits(length="dimension_count", least=1)]
    p: Uint
