"""Optimizers on CUDA."""
