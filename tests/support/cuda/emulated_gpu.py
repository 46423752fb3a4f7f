"""The emulated first GPU in a dry run of what needs one: `DMLPY_TEST_GPU=cpu`, or `null`, or `"null A100"` for another GPU.

Over `cpu` kernels are executed by the CPU, so that tests marked `gpu` have to pass. Over `null` nothing is executed: results are wrong by
construction, and what is shown is that everything up to the launches works. Tests whose results are wrong are reported as expected failures
there (see `conftest`); any other failure is one.
"""

from __future__ import annotations

import os

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.offline_device import limits_of
from dmlpy.devices.device import DEVICE_KINDS
from tests.support.cuda.dry_run import DryRunRuntime

VARIABLE = "DMLPY_TEST_GPU"
RUNTIMES: dict[str, type[EmulatedRuntime]] = {"cpu": EmulatedRuntime, "null": DryRunRuntime}


def chosen() -> str | None:
    """The requested emulated device.

    Raises:
        ValueError: there is none of this name.
    """
    name = (os.environ.get(VARIABLE) or "").partition(" ")[0] or None
    if name is not None and name not in RUNTIMES:
        raise ValueError(f"{VARIABLE} is {name!r}, expected one of {', '.join(RUNTIMES)}")
    return name


def install() -> CudaDevice | None:
    """Replaces `dml.device("cuda")` by the requested emulated device; None where none is requested."""
    name = chosen()
    if name is None:
        return None
    gpu = os.environ[VARIABLE].partition(" ")[2]
    device = CudaDevice(RUNTIMES[name](limits_of(gpu)) if gpu else RUNTIMES[name]())

    def kind(index: int) -> dml.Device | str:
        return device if index == 0 else "there is 1 emulated GPU"

    DEVICE_KINDS["cuda"] = kind
    return device
