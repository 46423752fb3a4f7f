"""The quantized operators."""
