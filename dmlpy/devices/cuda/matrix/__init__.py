"""Matrix products on CUDA."""
