"""Convolution on the host, by tiles that stay in a core's second-level cache."""
