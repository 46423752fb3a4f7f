"""Compiled normalization: of batches, with the kernels of this folder; by mean and variance, and by norms, with those of `reduction`."""
