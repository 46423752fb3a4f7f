"""`CupyPool`: device memory from CuPy's current allocator, which returns to it when no stream and no CUDA graph uses it."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cuda.runtime.captures import CaptureDriver, GraphMemory
from dmlpy.devices.cuda.runtime.cupy_errors import device_error, lacks_memory, translated
from dmlpy.devices.cuda.runtime.streams import LEGACY_STREAMS, arena, identity

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

MOST_RETURNING = 16
"""Blocks that may wait for streams before they are returned. With more, or when memory runs out, the pool queries CUDA about them."""


class Use:
    """Makes a device current for the thread, and restores the previous one afterwards."""

    __slots__ = ("_before", "_cudart", "_device")

    def __init__(self, cudart: Any, device: int) -> None:
        self._cudart, self._device = cudart, device

    def __enter__(self) -> None:
        cudart = self._cudart
        try:
            self._before = cudart.getDevice()
            cudart.setDevice(self._device)  # even if it is current: in a new thread this binds the context that driver calls need
        except Exception as error:
            raise device_error("use", error) from error

    def __exit__(self, *error: object) -> None:
        if self._before != self._device:
            self._cudart.setDevice(self._before)


class _Stream:
    """A stream handle as CuPy's functions take it."""

    __slots__ = ("ptr",)

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr


class CupyMemory:
    """A block of CuPy's memory pool, returned to the pool when this object is deleted.

    CuPy's pool reuses a returned block at once, for the stream that allocated it. If other streams have used it, it has to wait for them
    first: `CupyPool.allocate` checks whether they are done, since the code that drops the object may be in a capture, where CUDA
    must not be queried. A block that captured work uses is held until the CUDA graph is destroyed, even if this object is deleted.

    Attributes:
        pointer: its address.
        size: the size in bytes.
        owner: CuPy's `MemoryPointer`.

    Args:
        pool: the pool that allocated it.
        device: the device's ordinal.
        size: the size in bytes.
        stream: the stream that it was allocated for.
        owner: CuPy's `MemoryPointer`.
        is_node: whether the allocation is a node of a CUDA graph, which then owns the memory.
    """

    def __init__(self, pool: CupyPool, device: int, size: int, stream: int, owner: Any, *, is_node: bool = False) -> None:
        self.pointer = int(owner.ptr)
        self.size = size
        self.owner = owner
        self._pool, self._device, self._stream, self._is_node = pool, device, identity(stream), is_node
        self._own_legacy = LEGACY_STREAMS if stream in LEGACY_STREAMS else ()
        self._last_uses: dict[int, Any] = {}  # by the stream's identity: an event behind the last work that uses the memory

    def used_in(self, stream: int) -> None:
        if stream not in self._own_legacy:  # the common case: nothing to wait for, and no capture
            self._record_use(stream)

    @translated
    def _record_use(self, stream: int) -> None:
        """`used_in` for another stream, or one that is being captured."""
        pool = self._pool
        if pool.is_capturing(stream):
            if not self._is_node:
                pool.graph_memory.hold(stream, self.owner)
        elif (user := identity(stream)) != self._stream:
            self._last_uses[user] = pool.record(self._device, stream, self._last_uses.get(user))

    def __del__(self) -> None:
        if self._last_uses:
            self._pool.returning.append((self.owner, tuple(self._last_uses.values())))


class CupyPool:
    """Memory for streams. Threads may share it.

    Attributes:
        returning: blocks to return to CuPy, each with the events that it waits for.
        graph_memory: blocks that CUDA graphs use.
    """

    def __init__(self, cupy: Any, captures: CaptureDriver) -> None:
        self._cupy, self._cudart, self._captures = cupy, cupy.cuda.runtime, captures
        self.returning: deque[tuple[Any, tuple[Any, ...]]] = deque()
        self.graph_memory = GraphMemory(captures)

    def is_capturing(self, stream: int) -> bool:
        """Whether a stream is being captured."""
        if stream in LEGACY_STREAMS:
            return False
        try:
            return bool(self._cudart.streamIsCapturing(stream))
        except Exception as error:
            raise device_error("is_capturing", error) from error

    def current(self, stream: int) -> AbstractContextManager[Any]:
        """Makes a stream CuPy's current one: its memory pool reuses a freed block for the stream that allocated it."""
        cuda = self._cupy.cuda
        wrap = getattr(cuda.Stream, "from_external", None)
        context: AbstractContextManager[Any] = cuda.ExternalStream(stream) if wrap is None else wrap(_Stream(stream))
        return context

    def allocate(self, device: int, size: int, stream: int) -> CupyMemory:
        """Memory for a stream; if that is being captured, until the CUDA graph is destroyed."""
        cuda, stream = self._cupy.cuda, arena(stream)
        with Use(self._cudart, device), self._captures.relaxed():
            if self.graph_memory or len(self.returning) > MOST_RETURNING:
                self._take_back()
            if cuda.get_current_stream().ptr == stream:
                return self._memory(device, size, stream)
            with self.current(stream):
                return self._memory(device, size, stream)

    def _memory(self, device: int, size: int, stream: int) -> CupyMemory:
        """Memory for the current stream of the current device."""
        alloc = self._cupy.cuda.alloc
        if not self.is_capturing(stream):
            return CupyMemory(self, device, size, stream, self._found(alloc, size))
        _, graph = self._captures.capture(stream)
        nodes = self._captures.node_count(graph)
        owner = self._found(alloc, size)
        # With a stream-ordered allocator the allocation is a node of the graph, and so is the free, which must precede the capture's end.
        is_node = self._captures.node_count(graph) != nodes
        if not is_node:
            self.graph_memory.hold(stream, owner)
        return CupyMemory(self, device, size, stream, owner, is_node=is_node)

    def _found(self, alloc: Callable[[int], Any], size: int) -> Any:
        """Memory that CuPy allocates; if it has none left, waits for all blocks to return."""
        try:
            return alloc(size)
        except Exception as error:
            if not lacks_memory(error) or not self._take_back(everything=True):
                raise
            return alloc(size)

    def _take_back(self, *, everything: bool = False) -> bool:
        """Returns waiting blocks to CuPy; the result says whether there were any.

        Of those that wait for streams it frees the first ones, up to one whose work is not done. Of those in graphs it checks one
        graph, another one each time. With `everything` it waits for all streams, and checks all graphs.
        """
        taken = self.graph_memory.let_go(None if everything else 1)
        for _ in range(len(self.returning)):
            try:
                block, events = self.returning.popleft()
            except IndexError:  # another thread took it
                break
            if self._are_done(events, wait=everything):
                taken = True
                continue
            self.returning.append((block, events))
            if not everything:
                break
        return taken

    def _are_done(self, events: tuple[Any, ...], *, wait: bool) -> bool:
        with suppress(Exception):  # on a failed device, work never ends
            for event in events if wait else ():
                event.synchronize()
            return all(event.done for event in events)
        return False

    def record(self, device: int, stream: int, event: Any = None) -> Any:
        """Records an event, given or new, after all work that is now on the stream."""
        with Use(self._cudart, device):
            if event is None:
                event = self._cupy.cuda.Event(disable_timing=True)
            self._cudart.eventRecord(event.ptr, stream)
        return event
