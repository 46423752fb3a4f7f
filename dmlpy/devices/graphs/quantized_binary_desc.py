"""`QuantizedBinaryDesc`: two dequantized operands, an element-wise operator of both and its quantization as one operator."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType
from dmlpy.description.markers import In, Out
from dmlpy.description.support import SupportRow
from dmlpy.description.tensors import TensorDesc  # noqa: TC001  (pydantic reads it)
from dmlpy.devices.flops import flops

_FLOAT = frozenset({DataType.FLOAT32})
_BYTES = frozenset({DataType.UINT8, DataType.INT8})


class BinaryOperator(StrEnum):
    """An element-wise operator of two operands."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    MAX = "max"
    MIN = "min"


class QuantizedBinaryDesc(OperatorDesc):
    """An element-wise operator of two quantized tensors, quantized again, with the roundings of its four operators.

    Graphs create it from their nodes; DirectML has no such operator. A device without a plan for it runs the nodes separately.
    """

    c_name = "quantized element-wise operator"
    is_extension = True
    support = (SupportRow("1_0", dims=(1, 8)),)
    formula = """\
v = operator((a - a_zero_point) * a_scale, (b - b_zero_point) * b_scale)
y = clamp(round(v / output_scale) + output_zero_point, the range of the output's type)"""

    a_tensor: Annotated[TensorDesc, In("*sizes", _BYTES)]
    """The quantized tensor a."""

    a_scale_tensor: Annotated[TensorDesc, In("*sizes", _FLOAT)]
    """The scale of a."""

    a_zero_point_tensor: Annotated[TensorDesc, In("*sizes", _BYTES)]
    """The zero point of a."""

    b_tensor: Annotated[TensorDesc, In("*sizes", _BYTES)]
    """The quantized tensor b."""

    b_scale_tensor: Annotated[TensorDesc, In("*sizes", _FLOAT)]
    """The scale of b."""

    b_zero_point_tensor: Annotated[TensorDesc, In("*sizes", _BYTES)]
    """The zero point of b."""

    output_scale_tensor: Annotated[TensorDesc, In("*sizes", _FLOAT)]
    """The scale of the output."""

    output_zero_point_tensor: Annotated[TensorDesc, In("*sizes", _BYTES)]
    """The zero point of the output."""

    output_tensor: Annotated[TensorDesc, Out("*sizes", _BYTES)]
    """The quantized result y."""

    operator: BinaryOperator
    """The operator between what a and b stand for, as ELEMENT_WISE_ADD to ELEMENT_WISE_MIN compute it."""


@flops(QuantizedBinaryDesc)
def quantized_binary_flops(desc: QuantizedBinaryDesc) -> int:
    return desc.output_tensor.element_count * 7
