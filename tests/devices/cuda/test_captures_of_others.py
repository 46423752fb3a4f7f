"""Work during captures of other threads, and of streams that the same thread captures, over a CuPy that obeys CUDA's rules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda.runtime import cupy_pool
from dmlpy.devices.cuda.runtime.captures import RELAXED
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.devices.cuda.runtime.interface import Matrix, MatrixProduct
from tests.support.cuda.fakes.captures import GLOBAL, THREAD_LOCAL
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.cuda.fakes.runtime_over_fake_cupy import in_a_fresh_thread

SIZE = 4096
pytestmark = pytest.mark.usefixtures("small_workspaces")


@contextmanager
def captured_by_another(mode: int) -> Iterator[Any]:
    """While another thread captures a stream. Raises RuntimeError at the end if the capture was invalidated."""
    stream = sys.modules["cupy"].cuda.Stream(non_blocking=True)
    gpus = sys.modules["cupy"].cuda.runtime._gpus
    in_a_fresh_thread(lambda: stream.begin_capture(mode))
    yield stream
    gpus.recordings[stream.ptr].mode = RELAXED  # so that it may be ended here
    stream.end_capture()


def new_memory(runtime: CupyRuntime, waiting: list[Any]) -> None:
    runtime.allocate(0, 3 << 20, 0)


def memory_that_waits(runtime: CupyRuntime, waiting: list[Any]) -> None:
    waiting.clear()
    runtime.allocate(0, 512, 0)


def copies(runtime: CupyRuntime, waiting: list[Any]) -> None:
    made = runtime.to_device(0, np.ones(3, np.float32), 0)
    runtime.to_host(made, 0)
    runtime.read(made.data.ptr, 4, 0)
    runtime.synchronize(0)


def kernels(runtime: CupyRuntime, waiting: list[Any]) -> None:
    runtime.load(0, b"image", "symbol", 0)


def products(runtime: CupyRuntime, waiting: list[Any], stream: int = 0) -> None:
    one = Matrix(512, 1, 1, 1, np.dtype(np.float32))
    with runtime.use(0):
        runtime.gemm(0, MatrixProduct(one, one, one), stream)


def own_captures(runtime: CupyRuntime, waiting: list[Any]) -> None:
    runtime.capture(0, lambda stream: None)


def waits(runtime: CupyRuntime, waiting: list[Any]) -> None:
    """For a stream of the same GPU, by an event, and for one of another GPU, by the host."""
    for device in (0, 1):
        with runtime.use(device):
            producer = sys.modules["cupy"].cuda.Stream(non_blocking=True)
        assert runtime.wait_for(0, producer.ptr)(0)


def timers(runtime: CupyRuntime, waiting: list[Any]) -> None:
    with runtime.use(0):
        runtime.elapsed_ms(runtime.record_event(0), runtime.record_event(0))


def words_of_the_host(runtime: CupyRuntime, waiting: list[Any]) -> None:
    runtime.host_words(0, 2)


@pytest.mark.parametrize("work", [new_memory, memory_that_waits, copies, kernels, products, own_captures, waits, timers, words_of_the_host])
@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED], ids=["global", "thread-local", "relaxed"])
def test_captures_of_other_threads_go_on(
    mode: int, work: Callable[[CupyRuntime, list[Any]], None], runtime: CupyRuntime, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch captures in the global mode: whoever allocates or asks about an event meanwhile spoils the capture, unless relaxed."""
    monkeypatch.setattr(cupy_pool, "MOST_RETURNING", 0)
    memory, other = runtime.allocate(0, SIZE, 0), sys.modules["cupy"].cuda.Stream(non_blocking=True)
    memory.used_in(other.ptr)
    waiting = [memory]
    del memory
    with captured_by_another(mode):
        work(runtime, waiting)
        assert not hasattr(gpus.local, "mode") or gpus.local.mode == GLOBAL, "the thread's mode is as before"


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED], ids=["global", "thread-local", "relaxed"])
@pytest.mark.parametrize("is_current", [False, True], ids=["named stream", "current stream"])
def test_cublas_may_be_started_while_its_stream_is_captured(
    is_current: bool, mode: int, runtime: CupyRuntime, gpus: FakeGpus, stream: Any
) -> None:
    """Whoever plans a product starts it. If that is in a capture, its memory is not a node of the graph."""
    assert not runtime._cublas
    stream.begin_capture(mode)
    with stream if is_current else nullcontext():
        products(runtime, [], stream.ptr)
    assert len(gpus.recordings[stream.ptr].work) == 1
    stream.end_capture()


def query(cuda: Any) -> None:
    event = cuda.Event()
    assert not event.done, "CuPy hides that CUDA has refused"


def allocate(cuda: Any) -> None:
    with pytest.raises(RuntimeError, match="StreamCaptureUnsupported"):
        cuda.alloc(1 << 20)


@pytest.mark.parametrize("attempt", [query, allocate])
def test_the_fake_cupy_invalidates_captures_of_others(attempt: Callable[[Any], None], runtime: CupyRuntime) -> None:
    """As CUDA does where a thread is not in the relaxed mode."""
    cuda = sys.modules["cupy"].cuda

    def capture_meanwhile() -> None:
        with captured_by_another(GLOBAL) as stream:
            attempt(cuda)
            with pytest.raises(RuntimeError, match="an error has invalidated the capture sequence"):
                cuda.runtime.streamIsCapturing(stream.ptr)

    with pytest.raises(RuntimeError, match="StreamCaptureInvalidated"):
        capture_meanwhile()


def recorded_in(cuda: Any, stream: Any) -> Any:
    event = cuda.Event()
    cuda.runtime.eventRecord(event.ptr, stream.ptr)
    return event


def test_the_fake_cupy_separates_captures(runtime: CupyRuntime, stream: Any) -> None:
    cuda = sys.modules["cupy"].cuda
    outside = recorded_in(cuda, cuda.Stream(non_blocking=True))
    stream.begin_capture()
    with pytest.raises(RuntimeError, match="StreamCaptureIsolation"):
        cuda.runtime.streamWaitEvent(stream.ptr, outside.ptr)
    with pytest.raises(RuntimeError, match="StreamCaptureInvalidated"):
        stream.end_capture()


def test_in_the_fake_cupy_streams_join_captures(runtime: CupyRuntime, stream: Any) -> None:
    cuda = sys.modules["cupy"].cuda
    other = cuda.Stream(non_blocking=True)
    stream.begin_capture()
    inside = recorded_in(cuda, stream)
    cuda.runtime.streamWaitEvent(other.ptr, inside.ptr)
    assert runtime.is_capturing(other.ptr)
    stream.end_capture()
    assert not runtime.is_capturing(other.ptr)
    with pytest.raises(RuntimeError, match="CapturedEvent"):
        cuda.runtime.streamWaitEvent(other.ptr, inside.ptr)
