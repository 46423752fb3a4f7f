"""Instances of the element engine's kernel with chains of functors: those that people write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import dmlpy as dml
from dmlpy.devices.cuda.common.functors import Chained
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.graphs import Graph
from tests.support.cuda.plan_kernels import H100, RecordingLibrary
from tests.support.graphs.chains import TYPICAL


def chain_instances() -> Iterator[Kernel]:
    yield from chain_kernels(build() for build in TYPICAL.values())


def chain_kernels(graphs: Iterable[Graph]) -> Iterator[Kernel]:
    """The kernels of chains that the plans of some graphs name."""
    library = RecordingLibrary(H100)
    device = CudaDevice(library.runtime)
    device.library = library
    for graph in graphs:
        dml.compile(graph, device)
    yield from (kernel for kernel in library.kernels if kernel.file == Chained.file)
