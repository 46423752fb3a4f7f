"""The reductions on CUDA."""
