"""Functions of the CUDA driver for streams that are being captured, which CuPy does not bind.

CuPy links the CUDA runtime statically, so there is no runtime library to call. The driver is one library for the process, and
what the runtime asks of it here, it can be asked directly.
"""

from __future__ import annotations

import ctypes
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable

_INT, _POINTER, _UNSIGNED = ctypes.c_int, ctypes.c_void_p, ctypes.c_uint
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuThreadExchangeStreamCaptureMode": (_POINTER,),
    # stream, status, id, graph, dependencies, their number
    "cuStreamGetCaptureInfo_v2": (_POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER),
    "cuGraphGetNodes": (_POINTER, _POINTER, _POINTER),
    # object, pointer, destructor, references, flags
    "cuUserObjectCreate": (_POINTER, _POINTER, _POINTER, _UNSIGNED, _UNSIGNED),
    "cuUserObjectRelease": (_POINTER, _UNSIGNED),
    "cuGraphRetainUserObject": (_POINTER, _POINTER, _UNSIGNED, _UNSIGNED),
}
RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED of cuda.h."""
_NO_DESTRUCTOR_SYNC, _MOVE = 1, 1
"""CU_USER_OBJECT_NO_DESTRUCTOR_SYNC and CU_GRAPH_USER_OBJECT_MOVE."""
_NOW = 0
"""NOWAIT_LOCK of pythread.h."""


class CaptureDriver:
    """The driver's functions. Threads may share it.

    Attributes:
        exchange_mode: cuThreadExchangeStreamCaptureMode.

    Args:
        library: the loaded driver; None finds the one that CuPy uses.

    Raises:
        DeviceError: there is no driver.
    """

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._library = _load() if library is None else library
        for name, types in _SIGNATURES.items():
            getattr(self._library, name).argtypes = types
        self.exchange_mode: Callable[[Any], int] = self._library.cuThreadExchangeStreamCaptureMode

    def relaxed(self) -> Relaxed:
        """Allows the calling thread, within a `with` statement, calls that CUDA otherwise forbids while streams are captured."""
        return Relaxed(self.exchange_mode)

    def capture(self, stream: int) -> tuple[int, int]:
        """The id of a stream's capture, unique in this process, and the graph that is being captured.

        Raises:
            DeviceError: the stream is not being captured, or an error has invalidated the capture.
        """
        status, number, graph = _INT(), ctypes.c_uint64(), _POINTER()
        self._call("cuStreamGetCaptureInfo_v2", stream, ctypes.byref(status), ctypes.byref(number), ctypes.byref(graph), None, None)
        if status.value != 1 or graph.value is None:  # CU_STREAM_CAPTURE_STATUS_ACTIVE
            raise DeviceError(f"stream {stream:#x} is not being captured")
        return number.value, graph.value

    def node_count(self, graph: int) -> int:
        """The current number of nodes of a graph."""
        count = ctypes.c_size_t()
        self._call("cuGraphGetNodes", graph, None, ctypes.byref(count))
        return count.value

    def watch(self, graph: int) -> GraphEnd:
        """Detects that a graph, and all that was instantiated and cloned from it, is destroyed and has run for the last time."""
        end, user_object = GraphEnd(), _POINTER()
        self._call("cuUserObjectCreate", ctypes.byref(user_object), end.lock, GraphEnd.destructor, 1, _NO_DESTRUCTOR_SYNC)
        try:
            self._call("cuGraphRetainUserObject", graph, user_object, 1, _MOVE)
        except DeviceError:
            self._library.cuUserObjectRelease(user_object, 1)
            raise
        return end

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise _failure(name, status)


class Relaxed:
    """Sets the calling thread's capture mode to `RELAXED`, and back afterwards.

    In the default mode a thread must not allocate, query events and the like while another thread captures in the mode `global`,
    PyTorch's default: the call fails, and CUDA invalidates the other thread's capture.
    """

    __slots__ = ("_exchange", "_mode")

    def __init__(self, exchange: Callable[[Any], int]) -> None:
        self._exchange = exchange
        self._mode = ctypes.byref(_INT(RELAXED))

    def __enter__(self) -> None:
        status = self._exchange(self._mode)  # it now holds the previous mode
        if status:
            raise _failure("cuThreadExchangeStreamCaptureMode", status)

    def __exit__(self, *error: object) -> None:
        self._exchange(self._mode)


class GraphEnd:
    """Whether CUDA has called the destructor of a graph's user object.

    A CUDA thread calls it, at any time. No Python code may run there: it would wait for the GIL, and after the interpreter's end
    forever. So the destructor is a C function of Python that needs no GIL: it releases a lock, and `come` tries to acquire that lock.
    """

    __slots__ = ("_come", "lock")

    destructor = ctypes.cast(ctypes.pythonapi.PyThread_release_lock, _POINTER).value
    _allocate = ctypes.PYFUNCTYPE(_POINTER)(("PyThread_allocate_lock", ctypes.pythonapi))
    _acquire = ctypes.PYFUNCTYPE(_INT, _POINTER, _INT)(("PyThread_acquire_lock", ctypes.pythonapi))
    _free = ctypes.PYFUNCTYPE(None, _POINTER)(("PyThread_free_lock", ctypes.pythonapi))

    def __init__(self) -> None:
        self._come = False
        self.lock = self._allocate()
        if not self.lock or not self._acquire(self.lock, _NOW):
            raise MemoryError("there is no memory for a lock")

    def come(self) -> bool:
        """Whether it was called; the lock is freed only then, since until then CUDA has its address."""
        if not self._come and self._acquire(self.lock, _NOW):
            self._come = True
            self._free(self.lock)
        return self._come


class GraphMemory:
    """Memory that captured work uses, held until the CUDA graph of it is destroyed. Threads may share it.

    A graph stores addresses only, and the caller that captures a call has no object that owns its scratch. So the memory is held here, and
    a user object in the graph signals its end. While this object holds memory it stays alive, even if its runtime is deleted.
    """

    _holding: ClassVar[set[GraphMemory]] = set()

    def __init__(self, driver: CaptureDriver) -> None:
        self._driver = driver
        self._lock = forks.lock()
        self._retained: dict[int, tuple[GraphEnd, dict[int, Any]]] = {}
        """By the capture's id: the end of its graph, and blocks by identity, since a graph may use a block several times."""

    def __bool__(self) -> bool:
        return bool(self._retained)

    def hold(self, stream: int, block: Any) -> None:
        """Holds a block for the graph that a stream is being captured in.

        Raises:
            DeviceError: CUDA refuses.
        """
        capture, graph = self._driver.capture(stream)
        with self._lock:
            retained = self._retained.get(capture)
            if retained is None:
                retained = self._retained[capture] = self._driver.watch(graph), {}
            retained[1][id(block)] = block
            self._holding.add(self)

    def let_go(self, most: int | None = None) -> bool:
        """Releases the memory of graphs that have ended, checking at most this many graphs, and returns whether there were any.

        Repeated calls cycle through all graphs.
        """
        ended = []
        with self._lock:
            for capture in list(islice(self._retained, most)):
                retained = self._retained.pop(capture)
                if retained[0].come():
                    ended.append(retained)
                else:
                    self._retained[capture] = retained
            if not self._retained:
                self._holding.discard(self)
        return bool(ended)  # the blocks are deleted here, without the lock


def _failure(name: str, status: int) -> DeviceError:
    return DeviceError(f"{name} failed with CUresult {status}")


def _load() -> ctypes.CDLL:
    """Loads the driver, under the name by which the CUDA runtime finds it."""
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"NVIDIA's driver cannot be loaded: {error}") from error
