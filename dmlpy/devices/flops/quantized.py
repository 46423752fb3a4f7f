"""The operations of quantization and of quantized products."""

from __future__ import annotations

from math import prod
from typing import Any

from dmlpy.devices.flops import elements, flops, of_products
from dmlpy.operators.quantized.linear import (
    DequantizeDesc,
    DynamicQuantizeLinearDesc,
    ElementWiseDequantizeLinearDesc,
    ElementWiseQuantizedLinearAddDesc,
    ElementWiseQuantizeLinearDesc,
    QuantizeDesc,
)
from dmlpy.operators.quantized.products import QuantizedLinearAveragePoolingDesc, QuantizedProductDesc

_QUANTIZE = 4
"""A quotient, its rounding, and two comparisons with the ends of the type; a zero point is added."""


def _zero_point(desc: Any, name: str = "zero_point_tensor") -> int:
    return int(getattr(desc, name) is not None)


@flops(ElementWiseQuantizeLinearDesc)
def quantize_linear(desc: Any) -> int:
    return elements(desc) * (_QUANTIZE + _zero_point(desc))


@flops(ElementWiseDequantizeLinearDesc)
def dequantize_linear(desc: Any) -> int:
    return elements(desc) * (1 + _zero_point(desc))


@flops(QuantizeDesc)
def quantize(desc: Any) -> int:
    return elements(desc) * (_QUANTIZE + len(desc.quantization_tensors) - 1)


@flops(DequantizeDesc)
def dequantize(desc: Any) -> int:
    return elements(desc) * len(desc.quantization_tensors)


@flops(ElementWiseQuantizedLinearAddDesc)
def add(desc: Any) -> int:
    zero_points = sum(_zero_point(desc, f"{name}_zero_point_tensor") for name in ("a", "b", "output"))
    return elements(desc) * (2 + 1 + _QUANTIZE + zero_points)


@flops(DynamicQuantizeLinearDesc)
def dynamic_quantize(desc: Any) -> int:
    """Two comparisons find the range."""
    return elements(desc) * (2 + _QUANTIZE + 1)


@flops(QuantizedProductDesc)
@of_products
def product(desc: Any) -> int:
    return 2 * elements(desc) * int(desc.a_tensor.sizes[-1])


@flops(QuantizedLinearAveragePoolingDesc)
def average(desc: Any) -> int:
    """n - 1 additions, a division and a scale for a window of n."""
    zero_points = sum(_zero_point(desc, f"{name}_zero_point_tensor") for name in ("input", "output"))
    return elements(desc) * (int(prod(desc.window_size)) + 1 + _QUANTIZE + zero_points)
