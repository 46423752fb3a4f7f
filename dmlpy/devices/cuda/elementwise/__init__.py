"""The element-wise operators on CUDA."""
