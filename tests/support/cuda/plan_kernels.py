"""The kernels that plans name: of the shapes that `dmlpy bench` measures, for a GPU of each architecture, in each strategy.

How much of R a thread has in registers, how many samples a pass has and so on follow from sizes and from a device's limits, so no list made
by hand has all of these instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import dmlpy as dml
from dmlpy.bench.shapes import SHAPES, DataType, Pass, Shape
from dmlpy.description.enums import ExecutionFlags
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary
from dmlpy.devices.cuda.offline_device import GPUS
from dmlpy.devices.cuda.plans import STRATEGIES
from dmlpy.devices.cuda.runtime.interface import Limits
from tests.support.cuda.dry_run import DryRunRuntime

T4, A100, H100, B200, GEFORCE_5090 = (GPUS[name] for name in ("T4", "A100", "H100", "B200", "RTX5090"))
DEVICES = (T4, A100, H100, B200, GEFORCE_5090)
"""One of each architecture that kernels are compiled for."""


class RecordingLibrary(KernelLibrary):
    """Notes what plans ask for.

    Attributes:
        kernels: in the order in which they were first asked for.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__(DryRunRuntime(limits), 0)
        self.kernels: dict[Kernel, None] = {}

    def functions(self, kernels: Iterable[Kernel]) -> list[Any]:
        wanted = list(kernels)
        self.kernels |= dict.fromkeys(wanted)
        return super().functions(wanted)


@dataclass(frozen=True)
class Case:
    """One pass of a shape on a device, whose recurrent layers take a strategy, or what the model chooses."""

    limits: Limits
    strategy: str | None
    shape: Shape
    which: Pass
    dtype: DataType
    tf32: bool

    def kernels(self) -> Iterator[Kernel]:
        """That its plans name; none where the strategy cannot take it."""
        library = RecordingLibrary(self.limits)
        device = CudaDevice(library.runtime, strategy=self.strategy)
        device.library = library
        flags = ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION if self.tf32 else ExecutionFlags.NONE
        for desc in self.shape.descs(self.which, self.dtype):
            try:
                dml.compile(desc, device, flags=flags)
            except dml.DeviceError as error:
                if "cannot take" not in str(error):
                    raise
        yield from library.kernels


def cases() -> list[Case]:
    """All of them."""
    found = []
    for limits, strategy, shape in product(DEVICES, (None, *STRATEGIES), SHAPES.values()):
        for which, dtype in product(shape.passes, shape.dtypes):
            for tf32 in (False, True) if dtype == "FLOAT32" and limits.compute_capability >= 80 else (False,):
                found.append(Case(limits, strategy, shape, which, dtype, tf32))
    return found


def kernels_of(chosen: Iterable[Case]) -> list[Kernel]:
    """What these name, each once."""
    return list(dict.fromkeys(kernel for case in chosen for kernel in case.kernels()))
