"""`GraphCalls`: single runs of a graph in host memory, which reuse the launches of earlier ones."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dmlpy.devices.dispatch import check_value_bounds
from dmlpy.devices.graphs.launches import SCRATCH, GraphLaunches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.plan import Launch

_MOST_KEPT = 4
"""The most launches that wait for the next call: as many threads can call the graph without binding it anew."""
_MOST_SCRATCH = 1 << 20
"""The most bytes of scratch that are kept with them. With more, launches that are not relocated are bound again in each call."""


class GraphCalls:
    """Single runs of a graph. What they keep refers to no input and no output. Threads may share it.

    Args:
        device: the device, which has host memory.
        name: the graph's name in messages.
        size: the bytes of scratch.
        make: makes launches of the graph.
        allocate: allocates scratch of a number of bytes.
    """

    def __init__(self, device: Device, name: str, size: int, make: Callable[[], GraphLaunches], allocate: Callable[[int], Memory]) -> None:
        self._device, self._name, self._size, self._make, self._allocate = device, name, size, make, allocate
        self._waiting: deque[_Kept] = deque(maxlen=_MOST_KEPT)

    def run(self, addresses: Mapping[str, int], scratch: Memory | None, stream: int) -> None:
        """Runs the graph once.

        Args:
            addresses: those of inputs and outputs, by name.
            scratch: memory to use; None uses memory of its own.
            stream: the stream.
        """
        try:
            kept = self._waiting.pop()
        except IndexError:
            kept = _Kept(self._make())
        memory = scratch or kept.scratch or self._allocate(self._size)
        everything = {SCRATCH: memory.pointer, **addresses}
        if bounded := kept.launches.bounded_values(everything):
            check_value_bounds(self._name, bounded)
        launch = kept.launches.at(everything)
        if launch is not kept.launch:
            kept.launch, kept.dispatched = launch, self._device.dispatched(launch, self._name)
        assert kept.dispatched is not None
        kept.dispatched(stream)
        kept.scratch = memory if scratch is None and self._size <= _MOST_SCRATCH else None
        self._waiting.append(kept)


class _Kept:
    """Launches, what they were made of last, and their scratch."""

    def __init__(self, launches: GraphLaunches) -> None:
        self.launches = launches
        self.launch: Launch | None = None
        self.dispatched: Launch | None = None
        self.scratch: Memory | None = None
