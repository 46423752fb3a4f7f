"""What only a GPU can show: graphs, streams, threads and other libraries' arrays around whole dispatches."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from tests.support.recurrent.small_rnn import EACH_STRATEGY, I, bind, inputs, on, rnn
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

pytestmark = pytest.mark.gpu

MANY = 520
"""Hidden units whose R no block holds alone."""


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Any:
    """The first GPU, by default with the strategy `persistent_block`."""
    found = dml.device("cuda")
    assert isinstance(found, CudaDevice)
    return CudaDevice(found.runtime, strategy=getattr(request, "param", "persistent_block"))


def described(device: CudaDevice) -> dml.RNNDesc:
    """A small layer; in `persistent_grid` one whose blocks exchange their states."""
    if device.strategy != "persistent_grid":
        return rnn()
    desc = rnn(weight_tensor=tensor(1, 1, MANY, I), recurrence_tensor=tensor(1, 1, MANY, MANY))
    assert "in a cooperative launch" in dml.compile(desc, device).plan
    return desc


def arrays_of(desc: dml.RecurrentDesc, number: int = 0) -> dict[str, Any]:
    """Inputs that differ from number to number; weights for which rounding errors do not grow from step to step."""
    arrays = inputs(desc, number)
    for name in ("weight_tensor", "recurrence_tensor"):
        arrays[name] *= np.float32(arrays[name].shape[-1] ** -0.5)
    return arrays


def bound(device: Any, desc: dml.RecurrentDesc, prepared: bool) -> tuple[dml.Dispatch, dict[str, Any], dict[str, Any]]:
    """A dispatch, its inputs, and its outputs filled with NaN."""
    return bind(device, desc, arrays_of(desc), prepared)


def check(desc: dml.RecurrentDesc, arrays: dict[str, Any], outputs: dict[str, Any]) -> None:
    for name, wanted in dml.reference(desc, arrays).as_dict().items():
        assert_close(dml.device("cuda").to_host(outputs[name]), wanted, np.float32, terms=desc.geometry.hidden_size, what=name)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.cupy
@EACH_STRATEGY
def test_a_dispatch_repeats(device: Any, prepared: bool) -> None:
    import cupy

    desc = described(device)
    dispatch, arrays, outputs = bound(device, desc, prepared)
    found = []
    for _ in range(3):
        for output in outputs.values():
            output.fill(cupy.nan)
        dispatch()
        check(desc, arrays, outputs)
        found.append({name: device.to_host(output).tobytes() for name, output in outputs.items()})
    assert found[0] == found[1] == found[2]


@pytest.mark.cupy
@EACH_STRATEGY
def test_a_dispatch_can_be_captured_by_its_caller(device: Any) -> None:
    import cupy

    desc = described(device)
    dispatch, arrays, outputs = bound(device, desc, prepared=False)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    stream.begin_capture()
    dispatch(stream)
    graph = stream.end_capture()
    for _ in range(2):
        with stream:
            for output in outputs.values():
                output.fill(cupy.nan)
        graph.launch(stream)
        stream.synchronize()
        check(desc, arrays, outputs)


@pytest.mark.cupy
@EACH_STRATEGY
def test_a_call_can_be_captured_by_its_caller(device: Any) -> None:
    """Its scratch is the graph's: what is allocated and written after the capture does not disturb the replays."""
    import cupy

    desc = described(device)
    op, arrays = dml.compile(desc, device), arrays_of(desc)
    given = on(device, arrays)
    stream = cupy.cuda.Stream(non_blocking=True)
    op(**given, stream=stream)  # the pool has scratch for the next call
    cupy.cuda.Device().synchronize()
    held = device.runtime.pool.graph_memory
    assert not held
    stream.begin_capture()
    results = op(**given, stream=stream).as_dict()
    graph = stream.end_capture()
    assert held
    with stream:
        others = [cupy.full(op.binding_properties.temporary_resource_size // 4, cupy.nan, cupy.float32) for _ in range(3)]
        for output in results.values():
            output.fill(cupy.nan)
    for _ in range(2):
        graph.launch(stream)
        stream.synchronize()
        check(desc, arrays, results)
    assert all(bool(cupy.isnan(other).all()) for other in others)
    del graph
    for _ in range(100):  # a thread of the driver signals the end
        if held.let_go():
            break
        time.sleep(0.05)
    assert not held


@pytest.mark.cupy
def test_work_during_a_capture_of_another_thread(device: Any) -> None:
    """PyTorch captures in the global mode, in which CUDA lets no other thread allocate or query events unless that is relaxed."""
    import cupy

    desc = described(device)
    op, arrays = dml.compile(desc, device), arrays_of(desc)
    stream, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    value = cupy.zeros(4)
    value += 1  # compiles it
    cupy.cuda.Device().synchronize()

    def work() -> dict[str, Any]:
        memory = device.runtime.allocate(0, 1 << 20, 0)
        memory.used_in(other.ptr)
        found: dict[str, Any] = op(**on(device, arrays), stream=other).as_dict()
        del memory
        device.runtime.pool._take_back(everything=True)
        device.runtime.synchronize(other.ptr)
        return found

    with ThreadPoolExecutor(1) as threads, stream:
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        value += 1
        found = threads.submit(work).result()
        graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    assert cupy.asnumpy(value).tolist() == [2] * 4
    check(desc, arrays, found)


@pytest.mark.cupy
@EACH_STRATEGY
def test_scratch_that_is_freed_early_is_not_used_by_others(device: Any) -> None:
    """Calls one after the other into two streams, their scratch freed while they run."""
    import cupy

    desc = described(device)
    op = dml.compile(desc, device)
    given = [on(device, arrays_of(desc, number)) for number in range(8)]
    cupy.cuda.Device().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    results = [op(**arrays, stream=streams[number % 2]) for number, arrays in enumerate(given)]
    cupy.cuda.Device().synchronize()
    for number, result in enumerate(results):
        check(desc, arrays_of(desc, number), result.as_dict())


@pytest.mark.cupy
@EACH_STRATEGY
def test_threads_share_an_operator(device: Any) -> None:
    desc = described(device)
    op = dml.compile(desc, device)

    def work(number: int) -> dict[str, np.ndarray[Any, Any]]:
        import cupy

        with cupy.cuda.Stream(non_blocking=True) as stream:
            results = [op(**on(device, arrays_of(desc, number))) for _ in range(5)]
            stream.synchronize()
            return {name: device.to_host(value) for name, value in results[-1].as_dict().items()}

    with ThreadPoolExecutor(4) as threads:
        for number, found in enumerate(threads.map(work, range(8))):
            check(desc, arrays_of(desc, number), found)


@pytest.mark.cupy
def test_cuda_reports_where_memory_lies(device: Any) -> None:
    import cupy

    pool, managed, pinned = cupy.empty(4096, np.uint8), cupy.cuda.malloc_managed(4096), cupy.cuda.alloc_pinned_memory(4096)
    host = np.zeros(4096, np.uint8)
    assert [device.runtime.place_of(0, pointer) for pointer in (pool.data.ptr, pool.data.ptr + 4095, managed.ptr, pinned.ptr)] == [None] * 4
    reaches_all = cupy.cuda.runtime.deviceGetAttribute(88, 0)  # cudaDevAttrPageableMemoryAccess
    assert device.runtime.place_of(0, host.ctypes.data) == (None if reaches_all else "cpu")
    if cupy.cuda.runtime.getDeviceCount() > 1:
        assert device.runtime.place_of(1, pool.data.ptr) == "cuda:0"


@pytest.mark.cupy
@pytest.mark.parametrize("bound", [False, True])
def test_work_waits_for_the_stream_that_an_array_names(bound: bool, device: Any) -> None:
    import cupy

    class Produced:
        """An array whose producer is still at work."""

        def __init__(self, array: Any, stream: Any) -> None:
            self.array = array
            self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": stream.ptr}

    sizes = tensor(1, 1, 512, 512)
    op = dml.compile(dml.ActivationReluDesc(input_tensor=sizes, output_tensor=sizes), device)
    array, output = cupy.zeros(sizes.sizes, np.float32), cupy.zeros(sizes.sizes, np.float32)
    product = cupy.ones((8192, 8192), np.float32)
    producer, consumer = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    cupy.cuda.Device().synchronize()
    with producer:
        for _ in range(4):  # some milliseconds
            product = product @ product / 8192
        array[...] = product[:512, :512]
    given = Produced(array, producer)
    if bound:
        op.bind([given], [output])(consumer)
    else:
        op(input_tensor=given, output_tensor=output, stream=consumer)
    consumer.synchronize()
    assert (device.to_host(output) == 1).all()


def test_timer(device: Any) -> None:
    stream = device.current_stream()
    stop = device.start_timer(stream)
    dml.compile(rnn(), device)(**on(device, arrays_of(rnn())))
    assert 0 < stop() < 10_000


def test_kernels_use_no_local_memory(device: Any) -> None:
    plan = dml.compile(rnn(), device)._plan
    for kernel in plan.kernels():  # type: ignore[attr-defined]
        found = device.runtime.attributes(device.library.function(kernel))
        assert found.local_bytes == 0 or "persistent_block" not in kernel.entry, kernel.entry
        assert device.runtime.occupancy(device.library.function(kernel), 128, 0) >= 1


@pytest.mark.cupy
def test_torch_tensors(device: Any) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    desc = rnn(sequence_lengths_tensor=None)
    arrays = arrays_of(desc)
    given = {name: torch.as_tensor(array).to("cuda") for name, array in arrays.items()}
    torch.cuda.synchronize()
    check(desc, arrays, dml.compile(desc, device)(**given).as_dict())
    with pytest.raises(dml.BindError, match="detach"):
        dml.compile(desc, device)(**given | {"weight_tensor": given["weight_tensor"].requires_grad_()})
