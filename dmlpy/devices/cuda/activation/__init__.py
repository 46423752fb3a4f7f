"""The activation operators on CUDA."""
