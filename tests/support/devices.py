"""Devices for tests of what happens where a device lacks something."""

from __future__ import annotations

import dmlpy as dml
from dmlpy.devices.numpy.device import NumpyDevice


class DeviceOfNothing(NumpyDevice):
    """A device that runs no operator."""

    def plan(self, desc: dml.OperatorDesc, flags: dml.ExecutionFlags = dml.ExecutionFlags.NONE) -> None:
        return None
