"""Batch normalization on the host."""
