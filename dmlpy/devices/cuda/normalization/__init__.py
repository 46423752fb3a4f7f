"""Batch normalization on CUDA."""
