"""Calls in streams that are being captured, over a CuPy that obeys CUDA's rules."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.runtime.captures import RELAXED
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.devices.graphs import GraphDispatch
from tests.support.cuda.fakes.captures import GLOBAL, PER_THREAD, THREAD_LOCAL
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.onnx.models import model
from tests.support.recurrent.small_rnn import inputs, rnn
from tests.support.tensors import tensor

SIZE = 4096
pytestmark = pytest.mark.usefixtures("small_workspaces")


def block(runtime: CupyRuntime, stream: Any, size: int = SIZE) -> int:
    """The address of memory that is dropped at once."""
    return runtime.allocate(0, size, stream.ptr).pointer


# memory of captured work


def test_memory_allocated_in_a_capture_is_the_graphs(runtime: CupyRuntime, gpus: FakeGpus, stream: Any) -> None:
    """It comes from what other work has left, and goes back when the graph is destroyed and has run."""
    warm = block(runtime, stream)
    stream.begin_capture()
    assert block(runtime, stream) == warm
    graph = stream.end_capture()
    others = [runtime.allocate(0, SIZE, stream.ptr) for _ in range(3)]
    assert warm not in {other.pointer for other in others}
    graph.launch(stream)
    gpus.busy.add(stream.ptr)
    del graph
    gc.collect()
    assert block(runtime, stream) != warm, "its last launch runs yet"
    gpus.busy.clear()
    assert warm in {runtime.allocate(0, SIZE, stream.ptr).pointer, runtime.allocate(0, SIZE, stream.ptr).pointer}


def test_a_capture_that_fails_lets_go_of_its_memory(runtime: CupyRuntime, gpus: FakeGpus, stream: Any) -> None:
    stream.begin_capture()
    taken = block(runtime, stream)
    with pytest.raises(RuntimeError, match="StreamCaptureUnsupported"):
        sys.modules["cupy"].cuda.runtime.streamSynchronize(stream.ptr)
    with pytest.raises(RuntimeError, match="StreamCaptureInvalidated"):
        stream.end_capture()
    assert block(runtime, stream) == taken


def test_missing_memory_is_taken_from_every_graph_that_has_ended(runtime: CupyRuntime, gpus: FakeGpus, stream: Any) -> None:
    gpus.memory = 1 << 20
    graphs = []
    for _ in range(4):
        stream.begin_capture()
        block(runtime, stream, gpus.memory // 5)
        graphs.append(stream.end_capture())
    with pytest.raises(dml.DeviceError, match="Out of memory") as error:
        runtime.allocate(0, gpus.memory // 2, 0)
    assert error.value.hresult == dml.HResult.E_OUTOFMEMORY
    graphs.clear()
    gc.collect()
    assert runtime.allocate(0, gpus.memory - SIZE, 0).size


def test_a_stream_ordered_allocator_has_its_memory_back_within_the_capture(runtime: CupyRuntime, gpus: FakeGpus, stream: Any) -> None:
    """There allocations are nodes of the graph, and a graph whose memory was not freed within it cannot be launched twice."""
    gpus.stream_ordered = True
    before = runtime.allocate(0, SIZE, 0)
    stream.begin_capture()
    memory = runtime.allocate(0, SIZE, stream.ptr)
    memory.used_in(stream.ptr)
    assert len(gpus.recordings[stream.ptr].work) == 1
    del memory
    assert len(gpus.recordings[stream.ptr].work) == 2, "its end is a node, too"
    assert not runtime.pool.graph_memory
    before.used_in(stream.ptr)
    assert runtime.pool.graph_memory, "memory of before is kept"
    stream.end_capture()


@pytest.mark.parametrize("allocated_for", ["its stream", "another"])
def test_memory_that_captured_work_uses_is_kept(allocated_for: str, runtime: CupyRuntime, stream: Any) -> None:
    owner = stream.ptr if allocated_for == "its stream" else 0
    memory = runtime.allocate(0, SIZE, owner)
    pointer = memory.pointer
    stream.begin_capture()
    for _ in range(2):
        memory.used_in(stream.ptr)
    graph = stream.end_capture()
    del memory
    assert pointer not in {runtime.allocate(0, SIZE, owner).pointer for _ in range(2)}
    del graph
    gc.collect()
    assert pointer in [held.pointer for held in [runtime.allocate(0, SIZE, owner) for _ in range(3)]]


def test_memory_of_a_threads_default_stream_is_kept_by_its_captures(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    """Though it is the stream that the memory was allocated for, and CUDA has one handle for that of every thread."""
    memory = runtime.allocate(0, SIZE, PER_THREAD)
    gpus.begin_capture(PER_THREAD, RELAXED, is_blocking=True)
    memory.used_in(PER_THREAD)
    assert runtime.pool.graph_memory
    gpus.end_capture(PER_THREAD)


# whole calls

HALF = tensor(1, 1, 256, 256, data_type="FLOAT16")


def product(gpu: CudaDevice) -> tuple[dml.CompiledOperator, dict[str, Any]]:
    """A product with scratch, and its inputs."""
    desc = dml.GEMMDesc(a_tensor=HALF, b_tensor=HALF, output_tensor=HALF, fused_activation=dml.ActivationReluDesc())
    op = dml.compile(desc, gpu)
    assert op.binding_properties.temporary_resource_size
    return op, {name: gpu.empty(HALF, 0) for name in ("a_tensor", "b_tensor")}


def layer(gpu: CudaDevice) -> tuple[dml.CompiledOperator, dict[str, Any]]:
    return dml.compile(rnn(), gpu), {name: gpu.from_host(array) for name, array in inputs(rnn()).items()}


def graph_with_constants(gpu: CudaDevice) -> tuple[dml.CompiledGraph, dict[str, Any]]:
    """A graph with scratch, which packs its constants, and its input."""
    builder, values = dml.GraphBuilder(), inputs(rnn())
    members: dict[str, Any] = {"input_tensor": builder.input("x", dml.TensorDesc.of(values["input_tensor"]))}
    members |= {name: builder.constant(name, values[name]) for name in ("weight_tensor", "recurrence_tensor")}
    members |= {"activation_descs": [dml.ActivationTanhDesc()], "direction": "FORWARD"}
    hidden = builder.add(dml.RNNDesc, "layer", outputs=["output_sequence_tensor"], **members)
    builder.output("y", builder.add(dml.ActivationReluDesc, "relu", input_tensor=hidden))
    graph = dml.compile(builder.build(), gpu)
    assert graph.binding_properties.persistent_resource_size
    return graph, {"x": gpu.from_host(values["input_tensor"])}


def call_operator(gpu: CudaDevice) -> Callable[[Any], object]:
    op, given = product(gpu)
    return lambda stream: op(**given, stream=stream)


def prepare(gpu: CudaDevice) -> Callable[[Any], object]:
    op, given = layer(gpu)
    constants = {name: given.pop(name) for name in op.prepared_inputs}
    return lambda stream: op.prepare(**constants, stream=stream)(**given, stream=stream)


def call_graph(gpu: CudaDevice) -> Callable[[Any], object]:
    op, given = graph_with_constants(gpu)
    return lambda stream: op(**given, stream=stream)


def call_dispatch(gpu: CudaDevice) -> Callable[[Any], object]:
    """A dispatch that is dropped as soon as it is captured."""
    op, given = product(gpu)
    output = gpu.empty(HALF, 0)
    return lambda stream: op.bind(given, {"output_tensor": output})(stream)


def call_model(gpu: CudaDevice) -> Callable[[Any], object]:
    """A graph of an ONNX model, which caches dispatches for further runs."""
    nodes = [make_node("Softmax", ["x"], ["a"]), make_node("MatMul", ["a", "w"], ["y"])]
    run = onnx.load(model(nodes, {"x": [4, 3]}, ["y"], constants={"w": np.ones((3, 5), np.float32)})).compile(gpu)
    x = gpu.from_host(np.ones((4, 3), np.float32))

    def call(stream: Any) -> object:
        with nullcontext() if stream is None else stream:
            return run.run({"x": x}, outputs="device")

    return call


class Noted:
    """Notes the memory that a runtime gives while it is captured: addresses and sizes."""

    def __init__(self, runtime: CupyRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks: list[tuple[int, int]] = []
        allocate = runtime.pool.allocate

        def noted(device: int, size: int, stream: int) -> Any:
            memory = allocate(device, size, stream)
            self.blocks.append((memory.pointer, size))
            return memory

        monkeypatch.setattr(runtime.pool, "allocate", noted)


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("prepare_call", "is_current"),
    [
        *((call, False) for call in (call_operator, prepare, call_graph, call_dispatch, call_model)),
        *((call, True) for call in (call_operator, call_model)),
        *(pytest.param(call, True, marks=pytest.mark.slow) for call in (prepare, call_graph, call_dispatch)),
    ],
)
def test_a_captured_call_keeps_its_memory(
    prepare_call: Callable[[CudaDevice], Callable[[Any], object]],
    is_current: bool,
    runtime: CupyRuntime,
    gpus: FakeGpus,
    stream: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scratch, packed constants, outputs: the graph writes into them when it is launched, whether the caller still has them or not."""
    gpu = CudaDevice(runtime)
    call = prepare_call(gpu)

    def run() -> None:
        if is_current:
            with stream:
                call(None)
        else:
            call(stream)

    run()  # a warm pool gives what the first call has left
    gc.collect()
    noted = Noted(runtime, monkeypatch)
    stream.begin_capture()
    run()
    captured, noted.blocks = noted.blocks, []
    graph = stream.end_capture()
    gc.collect()
    assert captured
    others = [runtime.allocate(0, size, owner) for _, size in captured for owner in (0, stream.ptr) for _ in range(3)]
    assert not {pointer for pointer, _ in captured} & {other.pointer for other in others}
    graph.launch(stream)
    del graph, others
    gc.collect()
    runtime.pool._take_back(everything=True)
    given = [runtime.allocate(0, size, owner) for _, size in captured for owner in (0, stream.ptr) for _ in range(6)]
    assert {pointer for pointer, _ in captured} <= {other.pointer for other in given}, "after the graph they are given again"


def test_no_other_run_of_a_model_has_the_scratch_of_a_captured_one(
    runtime: CupyRuntime, stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the captured one have that of a run which may be under way when the graph is launched."""
    used: list[tuple[int, int]] = []
    call = GraphDispatch.__call__

    def noted(dispatch: GraphDispatch, stream: int) -> None:
        used.append(dispatch._areas["temporary"])
        call(dispatch, stream)

    monkeypatch.setattr(GraphDispatch, "__call__", noted)
    run = call_model(CudaDevice(runtime))
    run(stream)
    stream.begin_capture()
    run(stream)
    graph = stream.end_capture()
    run(stream)
    before, captured, after = used
    assert before == after, "a dispatch is kept for further runs"
    assert captured[1] <= before[0] or before[1] <= captured[0]
    del graph


def test_a_call_with_memory_of_the_callers_allocates_nothing(runtime: CupyRuntime, stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = CudaDevice(runtime)
    op, given = product(gpu)
    output, size = gpu.empty(HALF, 0), op.binding_properties.temporary_resource_size
    temporary = runtime.empty(0, (size,), (1,), np.dtype(np.uint8), 0)
    noted = Noted(runtime, monkeypatch)
    stream.begin_capture()
    op(**given, output_tensor=output, temporary=temporary, stream=stream)
    stream.end_capture()
    assert not noted.blocks
    assert not runtime.pool.graph_memory


def copying(gpu: CudaDevice) -> Callable[[Any], object]:
    op, given = product(gpu)
    return lambda stream: op(**given | {"b_tensor": np.ones(HALF.sizes, np.float16)}, copy=True, stream=stream)


def copying_back(gpu: CudaDevice) -> Callable[[Any], object]:
    op, given = product(gpu)
    return lambda stream: op(**given, output_tensor=np.ones(HALF.sizes, np.float16), copy=True, stream=stream)


def validating(gpu: CudaDevice) -> Callable[[Any], object]:
    op, given = layer(gpu)
    return lambda stream: op(**given, validate=True, stream=stream)


def portable(gpu: CudaDevice) -> Callable[[Any], object]:
    op, given = layer(gpu)
    return lambda stream: op.prepare(**{name: given[name] for name in op.prepared_inputs}, portable=True, stream=stream)


def portable_graph(gpu: CudaDevice) -> Callable[[Any], object]:
    builder = dml.GraphBuilder()
    owned = builder.input("b", dml.TensorDesc(data_type="FLOAT32", sizes=[3], flags="OWNED_BY_DML"))
    builder.output("y", builder.add(dml.ActivationReluDesc, input_tensor=owned))
    graph, b = dml.compile(builder.build(), gpu), gpu.from_host(np.ones(3, np.float32))
    return lambda stream: graph.prepare(b=b, portable=True, stream=stream)


def from_host(gpu: CudaDevice) -> Callable[[Any], object]:
    return lambda stream: gpu.from_host(np.ones(3, np.float32), stream.ptr)


def to_host(gpu: CudaDevice) -> Callable[[Any], object]:
    array = gpu.from_host(np.ones(3, np.float32))
    return lambda stream: gpu.to_host(array, stream.ptr)


def upload(gpu: CudaDevice) -> Callable[[Any], object]:
    return lambda stream: gpu.upload(np.ones(3, np.float32), stream.ptr)


@pytest.mark.parametrize("prepare_call", [portable, portable_graph])
def test_what_cannot_be_kept_in_host_memory_is_not_packed(
    prepare_call: Callable[[CudaDevice], Callable[[Any], object]], runtime: CupyRuntime, gpus: FakeGpus, stream: Any
) -> None:
    """The capture is as it was."""
    call = prepare_call(CudaDevice(runtime))
    stream.begin_capture()
    with pytest.raises(dml.DeviceError, match="is being captured"):
        call(stream)
    assert gpus.recordings[stream.ptr].work == []
    stream.end_capture()


@pytest.mark.parametrize("prepare_call", [copying, copying_back, validating, portable, portable_graph, from_host, to_host, upload])
def test_what_waits_for_the_stream_is_refused_and_the_capture_continues(
    prepare_call: Callable[[CudaDevice], Callable[[Any], object]], runtime: CupyRuntime, stream: Any
) -> None:
    call = prepare_call(CudaDevice(runtime))
    call(stream)
    stream.begin_capture()
    with pytest.raises(dml.DeviceError, match=rf"stream {stream.ptr:#x} is being captured in a CUDA graph: copy before the capture begins"):
        call(stream)
    assert runtime.is_capturing(stream.ptr)
    stream.end_capture()


@pytest.mark.parametrize("prepare_call", [copying, from_host, upload, portable, portable_graph])
def test_a_refused_copy_allocates_nothing(
    prepare_call: Callable[[CudaDevice], Callable[[Any], object]], runtime: CupyRuntime, stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capture would keep it alive."""
    call = prepare_call(CudaDevice(runtime))
    noted = Noted(runtime, monkeypatch)
    stream.begin_capture()
    with pytest.raises(dml.DeviceError, match="is being captured"):
        call(stream)
    stream.end_capture()
    assert not noted.blocks


def test_a_graph_packs_its_constants_before_it_is_captured(runtime: CupyRuntime, gpus: FakeGpus, stream: Any) -> None:
    """Which is done once, in the first call: with the capturing stream as the current one there is none to do it in."""
    op, given = graph_with_constants(CudaDevice(runtime))
    stream.begin_capture()
    with stream, pytest.raises(dml.DeviceError, match="copy before the capture begins"):
        op(**given)
    stream.end_capture()
    with stream:
        op(**given)
        stream.begin_capture()
        op(**given)
        assert len(gpus.recordings[stream.ptr].work) >= 2
        stream.end_capture()


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL], ids=["global", "thread-local"])
def test_a_thread_that_captures_itself_may_call_what_allocates(mode: int, runtime: CupyRuntime, stream: Any) -> None:
    op, given = product(CudaDevice(runtime))
    stream.begin_capture(mode)
    op(**given, stream=stream)
    stream.end_capture()
