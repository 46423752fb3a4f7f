"""Instances of the element engine's kernel with chains of functors: those that people write, and some random ones."""

from __future__ import annotations

from collections.abc import Iterator

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.functors import Chained
from dmlpy.devices.cuda.kernels import Kernel
from tests.support.chain_graphs import TYPICAL, chain_graph
from tests.support.cuda.plan_kernels import H100, RecordingLibrary


def chain_instances() -> Iterator[Kernel]:
    library = RecordingLibrary(H100)
    device = CudaDevice(library.seam)
    device.library = library
    for graph in (*(build() for build in TYPICAL.values()), *(chain_graph(seed, 10) for seed in range(3))):
        dml.compile(graph, device)
    yield from (kernel for kernel in library.kernels if kernel.file == Chained.file)
