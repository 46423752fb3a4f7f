"""The Numba device: recurrent layers on the CPU, by kernels compiled on first use. Numba is an extra and is imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.device import DEVICE_KINDS

if TYPE_CHECKING:
    from dmlpy.devices.numba.device import NumbaDevice


def _device(index: int) -> NumbaDevice | str:
    from importlib.util import find_spec

    if find_spec("numba") is None:
        return "Numba is not installed; install dmlpy[numba]"
    from dmlpy.devices.numba.device import numba_device

    return numba_device(index)


DEVICE_KINDS["numba"] = _device
