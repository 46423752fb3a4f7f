"""The operators that create tensors on CUDA."""
