"""The movement operators on CUDA."""
