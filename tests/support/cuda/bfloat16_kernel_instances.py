"""Instances of the kernels that read and write BFLOAT16 beside the element engine: those of operators of every family."""

from __future__ import annotations

from collections.abc import Iterator

from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import Kernel
from tests.support.bfloat16_cases import OTHERS, USUAL
from tests.support.cuda.plan_kernels import H100, RecordingLibrary


def bfloat16_instances() -> Iterator[Kernel]:
    library = RecordingLibrary(H100)
    device = CudaDevice(library.seam)
    device.library = library
    for desc in (*USUAL.values(), *OTHERS.values()):
        plan = device.plan(desc)
        assert plan is not None
        plan.load()
    yield from library.kernels
