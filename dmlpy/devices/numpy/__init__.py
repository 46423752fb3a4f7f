"""The NumPy device: runs everything where there is no GPU, and defines the arithmetic. Imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.device import DEVICE_KINDS

if TYPE_CHECKING:
    from dmlpy.devices.numpy.device import NumpyDevice


def _device(index: int) -> NumpyDevice | str:
    from dmlpy.devices.numpy.device import numpy_device

    return numpy_device(index)


DEVICE_KINDS["numpy"] = _device
