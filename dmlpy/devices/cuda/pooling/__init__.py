"""The pooling operators on CUDA."""
