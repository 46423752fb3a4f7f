"""`cupy.cuda.runtime` and `cupy.cuda.nvrtc` of `fake_cupy`: functions with the names and parameters of CuPy's."""

from __future__ import annotations

import ctypes
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.support.cuda.fakes.captures import CAPTURED_EVENT, Capture, CUDARuntimeError

if TYPE_CHECKING:
    from tests.support.cuda.fakes.cupy_bindings import FakeGpus

INSUFFICIENT_DRIVER, NO_DEVICE, INVALID_HANDLE, NOT_READY = 35, 100, 400, 600
COOPERATIVE_LAUNCH_TOO_LARGE = 720


class NVRTCError(RuntimeError):
    pass


class Runtime:
    """`cupy.cuda.runtime`."""

    cudaDevAttrClockRate = 13
    cudaDevAttrMultiProcessorCount = 16
    cudaDevAttrCanMapHostMemory = 19
    cudaDevAttrMemoryClockRate = 36
    cudaDevAttrGlobalMemoryBusWidth = 37
    cudaDevAttrL2CacheSize = 38
    cudaDevAttrUnifiedAddressing = 41
    cudaDevAttrCooperativeLaunch = 95
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
    hostAllocPortable, hostAllocMapped = 1, 2
    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3

    def __init__(self, gpus: FakeGpus) -> None:
        self._gpus = gpus
        self.events: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.graphs: dict[int, Capture] = {}

    def getDeviceCount(self) -> int:
        if self._gpus.driver // 1000 < self._gpus.runtime // 1000:
            raise CUDARuntimeError(INSUFFICIENT_DRIVER, "cudaErrorInsufficientDriver: CUDA driver version is insufficient")
        if not self._gpus.devices:
            raise CUDARuntimeError(NO_DEVICE, "cudaErrorNoDevice: no CUDA-capable device is detected")
        return self._gpus.devices

    def getDevice(self) -> int:
        return self._gpus.device()

    def setDevice(self, device: int) -> None:
        if not 0 <= device < self._gpus.devices:
            raise CUDARuntimeError(101, "cudaErrorInvalidDevice: invalid device ordinal")
        self._gpus.local.device = device
        self._gpus.bind_context()

    def getDeviceProperties(self, device: int) -> dict[str, Any]:
        major, minor = divmod(self._gpus.capability, 10)
        return {"name": b"Fake GPU", "major": major, "minor": minor, "totalGlobalMem": self._gpus.memory}

    def deviceGetAttribute(self, attrib: int, device: int) -> int:
        gpus = self._gpus
        of_machine = {19: gpus.maps_host_memory, 75: gpus.capability // 10, 88: int(gpus.pageable), 97: gpus.optin}
        return {13: 1_980_000, 16: 132, 36: 2_619_000, 37: 5120, 38: 50 << 20, 41: 1, 95: 1, **of_machine}[attrib]

    def driverGetVersion(self) -> int:
        return self._gpus.driver

    def runtimeGetVersion(self) -> int:
        return self._gpus.runtime

    def pointerGetAttributes(self, ptr: int) -> Any:
        self._gpus.check()
        self._gpus.bind_context()
        self._gpus.asked.append(ptr)
        device, kind = self._gpus.found(ptr)
        return SimpleNamespace(device=device, type=kind)

    def memGetInfo(self) -> tuple[int, int]:
        self._gpus.check()
        self._gpus.bind_context()
        device = self._gpus.device()
        used = sum(block.nbytes - 512 for owner, block in self._gpus.blocks.values() if owner == device)
        return max(self._gpus.memory - used - self._gpus.held_elsewhere, 0), self._gpus.memory

    def hostAlloc(self, size: int, flags: int) -> int:
        assert flags == self.hostAllocPortable | self.hostAllocMapped
        self._gpus.check()
        self._gpus.unsafe("cudaHostAlloc")
        self._gpus.bind_context()
        self._gpus.pinned.append(np.full(size, 0xFF, np.uint8))
        return int(self._gpus.pinned[-1].ctypes.data)

    def memcpyAsync(self, dst: int, src: int, size: int, kind: int, stream: int) -> None:
        # A copy from pinned memory reads its source when the stream comes to it.
        self._gpus.issue(stream, lambda: ctypes.memmove(dst, src, size), deferred=kind == self.memcpyHostToDevice)

    def memsetAsync(self, ptr: int, value: int, size: int, stream: int) -> None:
        self._gpus.issue(stream, lambda: ctypes.memset(ptr, value, size))

    def streamSynchronize(self, stream: int) -> None:
        self._gpus.not_capturing(stream)
        self._gpus.unsafe("cudaStreamSynchronize")
        self._gpus.drain(stream)
        self._gpus.check()
        self._gpus.synchronized.append(stream)

    def streamIsCapturing(self, stream: int) -> bool:
        self._gpus.legacy_use(stream)
        capture = self._gpus.recordings.get(stream)
        if capture is not None and not capture.is_valid:
            raise RuntimeError("the stream was capturing, but an error has invalidated the capture sequence")
        return capture is not None

    def graphLaunch(self, graphExec: int, stream: int) -> None:
        self._gpus.not_capturing(stream)
        if self._gpus.refuses_graphs:
            raise CUDARuntimeError(
                COOPERATIVE_LAUNCH_TOO_LARGE, "cudaErrorCooperativeLaunchTooLarge: too many blocks in cooperative launch"
            )
        graph = self.graphs[graphExec]
        graph.launched.add(stream)
        self._gpus.issue(stream, lambda: [step() for step in graph.work])

    def graphExecDestroy(self, graphExec: int) -> None:
        self.graphs.pop(graphExec).is_destroyed = True

    def eventRecord(self, event: int, stream: int) -> None:
        found = self.events[event]
        if found.device != self._gpus.device_of(stream):
            raise CUDARuntimeError(INVALID_HANDLE, "cudaErrorInvalidResourceHandle")
        found.stream, found.capture, found.recorded = stream, self._gpus.recordings.get(stream), False
        self._gpus.recorded.append(event)
        self._gpus.issue(stream, lambda: setattr(found, "recorded", True), deferred=self._gpus.has_pending(stream))

    def streamWaitEvent(self, stream: int, event: int, flags: int = 0) -> None:
        assert flags == 0
        found, gpus = self.events[event], self._gpus
        if gpus.join(stream, found.capture):
            gpus.issue(stream, lambda: gpus.reach(found), deferred=True)
        gpus.waits.append(stream)

    def eventQuery(self, event: int) -> int:
        found, status = self.events[event], self._gpus.query()
        if status == 0 and found.capture is not None:
            found.capture.is_valid = False
            return CAPTURED_EVENT
        return status or (NOT_READY if found.stream in self._gpus.busy else 0)


class Nvrtc:
    """`cupy.cuda.nvrtc`; it compiles anything to a text that names it, but refuses configured sources."""

    NVRTCError = NVRTCError

    def __init__(self, gpus: FakeGpus) -> None:
        self._gpus = gpus
        self.refused: dict[str, str] = {}  # instances, and the log's lines on them
        self._programs: dict[int, list[str]] = {}

    def getVersion(self) -> tuple[int, int]:
        return 13, 0

    def getSupportedArchs(self) -> tuple[int, ...]:
        return 75, 80, 90

    def createProgram(self, src: str, name: str, headers: Any, include_names: Any) -> int:
        number = len(self._programs) + 1
        self._programs[number] = []
        return number

    def addNameExpression(self, prog: int, name: str) -> None:
        self._programs[prog].append(name)

    def compileProgram(self, prog: int, options: Any) -> None:
        self._gpus.compiled.append(tuple(options))
        if self.refused.keys() & set(self._programs[prog]):
            raise NVRTCError("NVRTC_ERROR_COMPILATION (6)")

    def getProgramLog(self, prog: int) -> str:
        return "".join(self.refused.get(name, "") for name in self._programs[prog])

    def getCUBIN(self, prog: int) -> bytes:
        return f"cubin of {', '.join(self._programs[prog])}".encode()

    def getPTX(self, prog: int) -> bytes:
        return f"ptx of {', '.join(self._programs[prog])}".encode()

    def getLoweredName(self, prog: int, name: str) -> str:
        assert name in self._programs[prog]
        return f"_Z_{name}"

    def destroyProgram(self, prog: int) -> None:
        del self._programs[prog]
