"""The device `cpu`: NumPy's plans, and compiled ones where Numba is installed and knows the work. It is imported when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.device import DEVICE_KINDS

if TYPE_CHECKING:
    from dmlpy.devices.cpu.device import CpuDevice


def _device(index: int) -> CpuDevice | str:
    from dmlpy.devices.cpu.device import cpu_device

    return cpu_device(index)


DEVICE_KINDS["cpu"] = _device
