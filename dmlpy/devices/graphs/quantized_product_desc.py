"""`QuantizedElementProductDesc`: dequantized factors, their product and its quantization as one operator."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType
from dmlpy.description.markers import In, Out
from dmlpy.description.support import SupportRow
from dmlpy.description.tensors import TensorDesc  # noqa: TC001  (pydantic reads it)
from dmlpy.devices.flops import flops

_FLOAT = frozenset({DataType.FLOAT32})
_BYTES = frozenset({DataType.UINT8, DataType.INT8})


class QuantizedElementProductDesc(OperatorDesc):
    """The product of the elements of two quantized tensors, quantized again, with the roundings of its four operators.

    Graphs create it from their nodes; DirectML has no such operator. A device without a plan for it runs the nodes separately.
    """

    c_name = "quantized product of elements"
    is_extension = True
    support = (SupportRow("1_0", dims=(1, 8)),)
    formula = """\
v = ((a - a_zero_point) * a_scale) * ((b - b_zero_point) * b_scale)
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
    """The quantized product y."""


@flops(QuantizedElementProductDesc)
def quantized_product_flops(desc: QuantizedElementProductDesc) -> int:
    return desc.output_tensor.element_count * 7
