"""The device `cpu`: NumPy's plans, and compiled plans if llvmlite is installed and they support the desc. Imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.device import DEVICE_KINDS

if TYPE_CHECKING:
    from dmlpy.devices.cpu.device import CpuDevice


def _device(index: int) -> CpuDevice | str:
    from dmlpy.devices.cpu.device import cpu_device

    return cpu_device(index)


DEVICE_KINDS["cpu"] = _device
