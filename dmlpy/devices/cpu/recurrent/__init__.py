"""Compiled recurrent layers: kernels, and the plans that run them."""
