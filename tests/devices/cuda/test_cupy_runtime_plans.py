"""Whole plans through `CupyRuntime`: what they ask of CUDA, over a CuPy that obeys its rules and needs no GPU."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.runtime import cupy_pool
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from tests.support.cuda.fakes.captures import CUDARuntimeError
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.cuda.fakes.runtime_over_fake_cupy import in_a_fresh_thread
from tests.support.operators.dispatch_cases import CASES
from tests.support.recurrent.small_rnn import inputs, rnn
from tests.support.tensors import tensor


class Counted:
    """A part of CuPy; counts the calls of its functions."""

    def __init__(self, part: Any, calls: Counter[str]) -> None:
        self.part, self.calls = part, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.part, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            return found(*arguments)

        return call


@pytest.mark.parametrize("name", CASES)
def test_a_dispatch_asks_cuda_for_nothing_but_launches(name: str, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    """Limits, occupancies and addresses are found out when memory is bound."""
    calls: Counter[str] = Counter()
    cuda = sys.modules["cupy"].cuda
    cuda.runtime, cuda.driver = Counted(cuda.runtime, calls), Counted(cuda.driver, calls)
    dispatch = CASES[name].bound(runtime, "FLOAT32")
    stream = cuda.Stream(non_blocking=True)
    calls.clear()
    assert cuda.get_current_stream().ptr == 0, "where its memory was allocated"
    for _ in range(2):
        calls.clear()
        dispatch(0)
        assert (calls.pop("getDevice"), calls.pop("setDevice")) == (1, 1)
        if dispatch.operator._plan.capturable:
            assert calls == {"graphLaunch": 1}
        else:
            assert calls.keys() <= {"launchKernel", "launchCooperativeKernel", "memsetAsync"}
            assert 1 <= calls.total() <= 8
        in_own_stream = calls.copy()
    calls.clear()
    dispatch(stream)
    # Another stream leaves an event behind for each block of dmlpy's memory: scratch, packed constants.
    held = calls["eventRecord"]
    assert held <= 2
    assert calls - in_own_stream == Counter(
        {"getDevice": 1 + held, "setDevice": 1 + held, "eventRecord": held, "streamIsCapturing": held + dispatch.operator._plan.capturable}
    )


def test_a_call_does_not_ask_for_the_free_memory(runtime: CupyRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much it needs: the allocator knows best."""
    gpu = CudaDevice(runtime)
    given = {name: gpu.from_host(array) for name, array in inputs(rnn()).items()}
    monkeypatch.setattr(CupyRuntime, "workspace_size", lambda runtime, device: 80 << 20)
    op = dml.compile(rnn(), gpu)
    assert op.binding_properties.temporary_resource_size > 80 << 20
    monkeypatch.delattr(type(sys.modules["cupy"].cuda.runtime), "memGetInfo")
    op(**given)


def test_memory_that_only_the_allocator_knows_of_is_there(runtime: CupyRuntime, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's, RMM's and stream-ordered allocators cache freed memory, which CUDA counts as used."""
    monkeypatch.setattr(CupyRuntime, "workspace_size", lambda runtime, device: 80 << 20)
    gpu = CudaDevice(runtime)
    given = {name: gpu.from_host(array) for name, array in inputs(rnn()).items()}
    op = dml.compile(rnn(), gpu)
    gpus.held_elsewhere = gpus.memory
    assert runtime.free_memory(0) == 0
    op(**given)
    op.prepare(**{name: given[name] for name in op.prepared_inputs})


class TorchOutOfMemoryError(RuntimeError):
    """As PyTorch's, which is no MemoryError."""


TorchOutOfMemoryError.__name__ = "OutOfMemoryError"


@pytest.mark.parametrize("error", [None, TorchOutOfMemoryError], ids=["CuPy's", "PyTorch's"])
@pytest.mark.parametrize("what", ["outputs", "scratch", "scratch of bind", "packed constants", "outputs of a graph", "scratch of a graph"])
def test_missing_memory_is_reported_with_the_sizes(
    what: str, error: type[Exception] | None, runtime: CupyRuntime, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = CudaDevice(runtime)
    given = {name: gpu.from_host(array) for name, array in inputs(rnn()).items()}
    op = dml.compile(rnn(), gpu)
    graph, arrays = layer_and_relu(gpu)
    outputs = {name: gpu.empty(op.desc.tensors()[name], 0) for name in ("output_sequence_tensor", "output_single_tensor")}
    y = gpu.empty(graph.outputs["y"], 0)
    attempts: dict[str, tuple[Callable[[], object], str]] = {
        "outputs": (lambda: op(**given), "DML_RNN_OPERATOR_DESC with its outputs and scratch"),
        "scratch": (lambda: op(**given, **outputs), "scratch of DML_RNN_OPERATOR_DESC"),
        "scratch of bind": (lambda: op.bind(given, outputs), "scratch of DML_RNN_OPERATOR_DESC"),
        "packed constants": (
            lambda: op.prepare(**{name: given[name] for name in op.prepared_inputs}),
            "packed constants of DML_RNN_OPERATOR_DESC",
        ),
        "outputs of a graph": (lambda: graph(**arrays), "outputs of graph"),
        "scratch of a graph": (lambda: graph(**arrays, y=y), "the tensors and scratch of graph"),
    }
    if error is not None:
        gpus.out_of_memory = error
    gpus.memory = 0
    attempt, purpose = attempts[what]
    sizes = r"needs [0-9.]+ \w+; 0 bytes are available on cuda:0"
    with pytest.raises(dml.DeviceError, match=rf"^{purpose} {sizes} \(\w+: Out of memory allocating") as told:
        attempt()
    assert told.value.hresult == dml.HResult.E_OUTOFMEMORY


def test_a_failure_that_is_no_lack_of_memory_stays_what_it_is(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    gpu = CudaDevice(runtime)
    given = {name: gpu.from_host(array) for name, array in inputs(rnn()).items()}
    op = dml.compile(rnn(), gpu)
    gpus.broken = CUDARuntimeError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered")
    with pytest.raises(dml.DeviceError, match="cudaErrorIllegalAddress") as told:
        op(**given)
    assert told.value.hresult != dml.HResult.E_OUTOFMEMORY


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("strategy", ["persistent_block", "per_step"])
def test_whole_plans_keep_cudas_rules(device: int, strategy: str, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    desc = rnn()
    gpu = CudaDevice(runtime, device, strategy=strategy)
    op = dml.compile(desc, gpu)
    given = {name: gpu.from_host(array) for name, array in inputs(desc).items()}
    stream = sys.modules["cupy"].cuda.Stream
    with runtime.use(device):
        other = stream(non_blocking=True)
    in_a_fresh_thread(lambda: op(**given, stream=other))
    assert {run[:2] for run in gpus.launches} == {(other.ptr, device)}
    constants = {name: given[name] for name in op._plan.constants}
    prepared = op.prepare(**constants)
    rest = {name: array for name, array in given.items() if name not in constants}
    outputs = {field.name: gpu.empty(desc.tensors()[field.name], 0) for field in desc.outputs() if field.name in desc.tensors()}
    dispatch = prepared.bind(rest, outputs)
    gpus.launches.clear()
    in_a_fresh_thread(dispatch)
    once = len(gpus.launches)
    assert once >= 1
    with runtime.use(device):
        capturing = stream(non_blocking=True)
    capturing.begin_capture()
    in_a_fresh_thread(lambda: dispatch(capturing))
    graph = capturing.end_capture()
    assert len(gpus.launches) == once, "a capture runs nothing"
    graph.launch(other)
    assert len(gpus.launches) == 2 * once
    assert gpus.device() == 0


def call_prepared(gpu: CudaDevice, stream: int) -> None:
    given = {name: gpu.from_host(array) for name, array in inputs(rnn()).items()}
    op = dml.compile(rnn(), gpu)
    prepared = op.prepare(**{name: given.pop(name) for name in op._plan.constants})
    prepared(**given, stream=stream)


def call_bound(gpu: CudaDevice, stream: int) -> None:
    CASES["per_step, LSTM, prepared"].bound(gpu.runtime, "FLOAT32")(stream)


def layer_and_relu(gpu: CudaDevice) -> tuple[dml.CompiledGraph, dict[str, Any]]:
    """A graph of two nodes, whose scratch and what flows between them share one block, and its inputs."""
    layer = rnn()
    sizes = {name: tensor for name, tensor in layer.tensors().items() if name in ("input_tensor", "weight_tensor", "recurrence_tensor")}
    builder = dml.GraphBuilder()
    members: dict[str, Any] = {name: builder.input(name, tensor) for name, tensor in sizes.items()}
    members |= {"activation_descs": [dml.ActivationTanhDesc()], "direction": "FORWARD"}
    hidden = builder.add(dml.RNNDesc, "layer", outputs=["output_sequence_tensor"], **members)
    builder.output("y", builder.add(dml.ActivationReluDesc, "relu", input_tensor=hidden))
    arrays = {name: gpu.empty(tensor, 0) for name, tensor in sizes.items()}
    return dml.compile(builder.build(), gpu), arrays


def call_bound_graph(gpu: CudaDevice, stream: int) -> None:
    graph, arrays = layer_and_relu(gpu)
    graph.bind(arrays, {name: gpu.empty(tensor, 0) for name, tensor in graph.outputs.items()})(stream)


def call_bound_graph_with_constant(gpu: CudaDevice, stream: int) -> None:
    """Of the blocks one is the graph's constant, which a node reads as it is."""
    builder = dml.GraphBuilder()
    sizes = tensor(4, 5, 6)
    constant = builder.constant("c", np.ones(sizes.sizes, np.float32))
    builder.output("y", builder.add(dml.ElementWiseAdd1Desc, a_tensor=builder.input("x", sizes), b_tensor=constant))
    graph = dml.compile(builder.build(), gpu)
    graph.bind({"x": gpu.empty(sizes, 0)}, {"y": gpu.empty(sizes, 0)})(stream)


def test_a_called_graph_has_memory_of_the_stream_that_it_runs_on(runtime: CupyRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on the current stream may still use what the pool would give for that one."""
    streams: list[int] = []
    allocate = CudaDevice._allocate

    def noted(device: CudaDevice, size: int, stream: int) -> Any:
        streams.append(stream)
        return allocate(device, size, stream)

    graph, arrays = layer_and_relu(CudaDevice(runtime))
    monkeypatch.setattr(CudaDevice, "_allocate", noted)
    stream = sys.modules["cupy"].cuda.Stream(non_blocking=True)
    graph(**arrays, stream=stream)
    assert streams == [stream.ptr]


@pytest.mark.parametrize(
    ("run", "blocks"),
    [
        pytest.param(call_prepared, 1, id="constants"),
        pytest.param(call_bound, 2, id="constants and scratch"),
        pytest.param(call_bound_graph, 1, id="scratch, and what flows between nodes"),
        pytest.param(call_bound_graph_with_constant, 1, id="constants of a graph"),
    ],
)
def test_what_is_dropped_while_it_runs_keeps_its_memory(
    run: Callable[[CudaDevice, int], None], blocks: int, runtime: CupyRuntime, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work in another stream than the one that `blocks` blocks of memory were allocated for."""
    given: list[tuple[int, int]] = []

    def noting(method: Any) -> Any:
        def noted(device: CudaDevice, what: Any, stream: int) -> Any:
            memory = method(device, what, stream)
            if stream == 0 and (memory.pointer, memory.size) not in given:
                given.append((memory.pointer, memory.size))
            return memory

        return noted

    monkeypatch.setattr(cupy_pool, "MOST_RETURNING", 0)
    stream = sys.modules["cupy"].cuda.Stream(non_blocking=True)
    gpus.busy.add(stream.ptr)
    for method in ("_allocate", "upload"):
        monkeypatch.setattr(CudaDevice, method, noting(getattr(CudaDevice, method)))
    run(CudaDevice(runtime), stream.ptr)
    gc.collect()
    assert len(given) == blocks

    def given_again() -> int:
        held = [runtime.allocate(0, size, 0) for _, size in given for _ in range(3)]
        return len({memory.pointer for memory in held} & {pointer for pointer, _ in given})

    assert given_again() == 0
    gpus.busy.clear()
    assert given_again() == blocks
