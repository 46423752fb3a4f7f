"""The NumPy device: runs everything where there is no GPU, and defines the arithmetic."""

from dmlpy.devices.numpy.device import NumpyDevice

__all__ = ["NumpyDevice"]
