"""The launch overhead of a GPU: the part of a time that no kernel can change."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = {
    "launch": "a launch after another",
    "captured launch": "a launch in a graph",
    "empty graph": "an empty graph",
    "dispatch": "a dispatch by Python",
}
"""The measured quantities: the first three by the GPU's clock, the last by the host's, while the GPU is busy."""
LAUNCHES = 200
"""Fewer launches than a stream queues before the caller blocks."""
ROUNDS = 7


def launches(device_name: str) -> dict[str, float]:
    """The microseconds of each of `NAMES`, the least of several rounds."""
    device = dml.device(device_name)
    assert isinstance(device, CudaDevice), "a processor launches nothing"
    stream, runtime = device.current_stream(), device.runtime
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=(1,))
    operator = dml.compile(dml.ActivationReluDesc(input_tensor=tensor).with_outputs(), device)
    one = device.from_host(np.ones(1, np.float32))
    dispatch = operator.bind({"input_tensor": one}, {"output_tensor": device.empty(tensor, stream)})

    def issue(stream: int) -> None:
        for _ in range(LAUNCHES):
            dispatch(stream)

    issue(stream)
    device.synchronize(stream)
    graph, empty = runtime.capture(device.ordinal, issue), runtime.capture(device.ordinal, lambda stream: None)

    def launch_empty() -> None:
        for _ in range(LAUNCHES):
            runtime.launch_graph(empty, stream)

    measured = {
        "launch": _least_us(device, lambda: issue(stream)),
        "captured launch": _least_us(device, lambda: runtime.launch_graph(graph, stream)),
        "empty graph": _least_us(device, launch_empty),
        "dispatch": _least_host_us(device, lambda: issue(stream)),
    }
    return {name: us / LAUNCHES for name, us in measured.items()}


def _least_us(device: CudaDevice, work: Callable[[], object]) -> float:
    """The microseconds of some work by the GPU's clock."""
    stream = device.current_stream()
    times = []
    for _ in range(ROUNDS):
        stop = device.start_timer(stream)
        work()
        assert stop is not None, "a GPU has a clock"
        times.append(1e3 * stop())
    return min(times)


def _least_host_us(device: CudaDevice, work: Callable[[], object]) -> float:
    """The microseconds until the call of some work returns."""
    times = []
    for _ in range(ROUNDS):
        device.synchronize(device.current_stream())
        start = time.perf_counter()
        work()
        times.append(1e6 * (time.perf_counter() - start))
    return min(times)
