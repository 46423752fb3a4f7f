"""The resampling operators on CUDA."""
