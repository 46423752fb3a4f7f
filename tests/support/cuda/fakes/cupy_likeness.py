"""Compares a CuPy with what the runtime and the fake CuPy assume.

`python -m tests.support.cuda.fakes.cupy_likeness` does so for the first CuPy on the path.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np

from tests.support.cuda.fakes.captures import GLOBAL, PER_THREAD, RELAXED, THREAD_LOCAL
from tests.support.cuda.fakes.cupy_bindings import MANAGED, ON_DEVICE, REGISTERED, UNREGISTERED, FakeGpus, fake_cupy


def compare(cupy: Any) -> int:
    """How many names were compared. Raises AssertionError where something differs."""
    count = sum(_compare_part(getattr(cupy.cuda, part), getattr(fake_cupy(FakeGpus()).cuda, part)) for part in ("runtime", "nvrtc"))
    for name, ours in vars(fake_cupy(FakeGpus()).cuda.driver).items():
        listed = re.match(rf"{name}\((.*?)\)", getattr(cupy.cuda.driver, name).__doc__)
        assert listed is not None, name
        assert list(inspect.signature(ours).parameters) == [text.split()[-1] for text in listed[1].split(",")], name
        count += 1
    _check_the_rest(cupy)
    return count


def _compare_part(real: Any, fake: Any) -> int:
    """Names, values and parameters of a part that has functions."""
    names = [name for name in dir(type(fake)) if not name.startswith("_")]
    for name in names:
        ours, theirs = getattr(fake, name), getattr(real, name)
        if not callable(ours):
            assert ours == theirs, name
        elif inspect.isroutine(theirs):
            listed = re.match(rf"{name}\((.*?)\)", theirs.__doc__)
            assert listed is not None, name
            parameters = [text.split("=")[0].split()[-1] for text in listed[1].split(",") if text.strip()]
            assert list(inspect.signature(ours).parameters) == parameters, name
    return len(names)


def _check_the_rest(cupy: Any) -> None:
    """What else the runtime uses."""
    stream = cupy.cuda.Stream.__new__(cupy.cuda.Stream)
    stream.ptr, stream.device_id, stream._foreign_stream_ref = 0x7000, 0, object()
    stream.__del__()  # a stream from outside is not destroyed with its wrapper: that would fail here, where no driver is
    stream.ptr = 0
    memory = cupy.cuda.UnownedMemory(0x10000, 4096, None, 0)
    made = cupy.ndarray((2, 3), np.dtype(np.float16), memptr=cupy.cuda.MemoryPointer(memory, 0), strides=(16, 2))
    assert made.strides == (16, 2)
    assert type(made.data.ptr) is int
    assert made.data.device_id == made.device.id == 0
    kinds = {"Unregistered": UNREGISTERED, "Host": REGISTERED, "Device": ON_DEVICE, "Managed": MANAGED}
    for name, kind in kinds.items():
        assert getattr(cupy.cuda.runtime, f"memoryType{name}") == kind, name
    attributes = cupy.cuda.runtime.PointerAttributes(1, 0x10000, 0, MANAGED)
    assert (attributes.device, attributes.type) == (1, MANAGED)
    assert cupy.cuda.runtime.streamPerThread == PER_THREAD
    assert callable(cupy.asnumpy)
    for name in ("Stream", "Event", "alloc", "get_current_stream", "get_elapsed_time"):
        assert callable(getattr(cupy.cuda, name)), name
    assert callable(cupy.cuda.Event.synchronize)
    assert hasattr(cupy.cuda.Event, "done")
    assert hasattr(cupy.cuda.Graph, "graphExec")
    _check_captures(cupy)
    assert cupy.cuda.nvtx.available in (False, True)
    cupy.cuda.nvtx.RangePush("name")
    cupy.cuda.nvtx.RangePop()


def _check_captures(cupy: Any) -> None:
    """What `fake_captures` assumes of CuPy, as far as it shows without a GPU."""
    runtime, event = cupy.cuda.runtime, cupy.cuda.Event.__new__(cupy.cuda.Event)
    event.ptr = 0
    assert runtime.eventQuery(event.ptr) != 0, "without a GPU it fails, and tells so by its status"
    assert event.done is False, "a query that fails is not told"
    assert runtime.streamCaptureModeGlobal == GLOBAL
    assert runtime.streamCaptureModeThreadLocal == THREAD_LOCAL
    assert runtime.streamCaptureModeRelaxed == RELAXED
    assert runtime.streamBeginCapture.__doc__ == "streamBeginCapture(intptr_t stream, int mode=streamCaptureModeRelaxed)"
    assert "Default is :data:`~cupy.cuda.runtime.streamCaptureModeRelaxed`" in " ".join(cupy.cuda.Stream.begin_capture.__doc__.split())
    try:
        cupy.cuda.Stream.null.begin_capture()
    except RuntimeError as error:
        assert str(error) == "cannot capture on the default (legacy) stream"  # noqa: PT017  (this is not a test of pytest's)
    else:
        raise AssertionError("CuPy captures the legacy stream")
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    bound = {name for name in dir(runtime) + dir(cupy.cuda.driver) if "ExchangeStreamCaptureMode" in name or "serObject" in name}
    assert not bound, "what `dmlpy.devices.cuda.runtime.captures` calls by itself is in CuPy now"


if __name__ == "__main__":
    import cupy

    print(cupy.__version__, compare(cupy))
