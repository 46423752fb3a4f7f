"""Devices, plans, kernels and layers for tests of the device `cuda`."""
