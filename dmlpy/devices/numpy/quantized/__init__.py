"""The quantized operators on the host."""
