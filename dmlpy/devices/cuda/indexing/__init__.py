"""The indexing operators on CUDA."""
