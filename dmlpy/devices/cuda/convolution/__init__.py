"""Convolution on CUDA."""
