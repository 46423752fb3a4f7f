"""What the quantized operators compute, on whole arrays."""

from __future__ import annotations

from collections.abc import Mapping

from dmlpy.devices.numpy.quantized.linear import LINEAR
from dmlpy.devices.numpy.quantized.products import PRODUCTS
from dmlpy.devices.numpy.whole import Function

FUNCTIONS: Mapping[str, Function] = {**LINEAR, **PRODUCTS}
"""The functions by the operators' short names."""
