"""Kernels, plans and thread pools for tests of the device `cpu`."""
