"""The quantized operators on CUDA."""
