"""The operators that make tensors on CUDA."""
