"""The definitions of the quantized operators."""
