"""What the quantized operators compute."""

from dmlpy.reference.quantized import linear, products

__all__ = ["linear", "products"]
