"""Work waits for the streams that fill its memory: `stream` of `__cuda_array_interface__`, and DLPack's producers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from tests.support.cuda.fakes.cupy_bindings import MANAGED, FakeGpus, MemoryPointer, one_handle
from tests.support.cuda.fakes.runtime_over_fake_cupy import in_a_fresh_thread
from tests.support.recurrent.small_rnn import inputs, rnn
from tests.support.tensors import tensor

SIZES = (2, 3, 4)
RELU = dml.ActivationReluDesc(input_tensor=tensor(*SIZES), output_tensor=tensor(*SIZES))


class Produced:
    """An array that a stream is still filling, and that names the stream."""

    def __init__(self, array: Any, stream: Any, version: int = 3) -> None:
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": stream, "version": version}


class Machinery:
    """What the tests have at hand: an operator, a prepared one, a graph, and streams."""

    def __init__(self, runtime: CupyRuntime, gpus: FakeGpus) -> None:
        self.gpu, self.gpus = CudaDevice(runtime), gpus
        self.relu = dml.compile(RELU, self.gpu)
        self.rnn = dml.compile(rnn(), self.gpu)
        builder = dml.GraphBuilder()
        owned = builder.input("b", tensor(*SIZES, flags="OWNED_BY_DML"))
        builder.output("y", builder.add(dml.ElementWiseAdd1Desc, a_tensor=builder.input("a", tensor(*SIZES)), b_tensor=owned))
        self.graph = dml.compile(builder.build(), self.gpu)
        builder = dml.GraphBuilder()
        first = builder.add(dml.ActivationSoftmax1Desc, input_tensor=builder.input("x", tensor(*SIZES)), axes=[2])
        builder.output("y", builder.add(dml.ActivationSoftmax1Desc, input_tensor=first, axes=[1]))
        self.chain = dml.compile(builder.build(), self.gpu)
        self.stream, self.producer = self.new_stream(), self.new_stream()

    def new_stream(self) -> Any:
        return sys.modules["cupy"].cuda.Stream(non_blocking=True)

    def array(self, *sizes: int) -> Any:
        return self.gpu.from_host(np.ones(sizes or SIZES, np.float32))

    def produced(self, stream: int, array: Any = None) -> Produced:
        """An array, and work on a stream that fills it: it is done when something waits for it."""
        self.gpus.pending[one_handle(stream)].append(lambda: None)
        return Produced(self.array() if array is None else array, stream)

    def is_done(self, stream: int) -> bool:
        return not self.gpus.pending[one_handle(stream)]

    def given(self) -> dict[str, Any]:
        return {name: self.gpu.from_host(array) for name, array in inputs(rnn()).items()}

    def packed(self) -> dict[str, Any]:
        return {name: array for name, array in self.given().items() if name in self.rnn.prepared_inputs}

    def scratch(self) -> Any:
        return self.gpu.empty(tensor(self.rnn.binding_properties.temporary_resource_size // 4 + 1), 0)

    def bound_in(self, stream: int, work: Any, inputs: dict[str, Any]) -> Any:
        """A dispatch with scratch of a stream that has not come to the end of its work, which may use it still."""
        assert work.binding_properties.temporary_resource_size
        described = work.outputs if work is self.chain else {field.name: getattr(work.desc, field.name) for field in work.desc.outputs()}
        outputs = {name: self.gpu.empty(desc, 0) for name, desc in described.items() if desc is not None}
        self.gpus.pending[one_handle(stream)].append(lambda: None)
        with self.gpu.runtime.pool.current(stream):  # type: ignore[attr-defined]
            return work.bind(inputs, outputs)

    def graph_dispatch(self, given: Any, **memory: Any) -> Any:
        return self.graph.prepare(b=self.array()).bind({"a": given}, {"y": self.array()}, **memory)


@pytest.fixture
def at(runtime: CupyRuntime, gpus: FakeGpus) -> Machinery:
    return Machinery(runtime, gpus)


def rebound(dispatch: Any, **tensors: Any) -> Any:
    dispatch.rebind(**tensors)
    return dispatch


def rnn_dispatch(at: Machinery, **memory: Any) -> Any:
    packed = at.rnn.prepared_inputs if "persistent" in memory else ()
    given = {name: at.gpu.from_host(array) for name, array in inputs(rnn()).items() if name not in packed}
    return at.rnn.bind(given, {field.name: at.gpu.empty(rnn().tensors()[field.name], 0) for field in rnn().outputs()}, **memory)


USES: dict[str, Callable[[Machinery, int], object]] = {
    "call, input": lambda at, stream: at.relu(input_tensor=at.produced(stream), stream=at.stream),
    "call, output": lambda at, stream: at.relu(input_tensor=at.array(), output_tensor=at.produced(stream), stream=at.stream),
    "call, scratch": lambda at, stream: at.rnn(**at.given(), temporary=at.produced(stream, at.scratch()), stream=at.stream),
    "bind": lambda at, stream: at.relu.bind([at.produced(stream)], [at.array()])(at.stream),
    "rebind": lambda at, stream: rebound(at.relu.bind([at.array()], [at.array()]), input_tensor=at.produced(stream))(at.stream),
    "bind, scratch": lambda at, stream: rnn_dispatch(at, temporary=at.produced(stream, at.scratch()))(at.stream),
    "bind, constants": lambda at, stream: rnn_dispatch(at, persistent=at.produced(stream, at.scratch()))(at.stream),
    "prepare": lambda at, stream: at.rnn.prepare(
        **at.packed() | {"weight_tensor": at.produced(stream, at.packed()["weight_tensor"])}, stream=at.stream
    ),
    "prepare, constants": lambda at, stream: at.rnn.prepare(**at.packed(), persistent=at.produced(stream, at.scratch()), stream=at.stream),
    "graph, call": lambda at, stream: at.graph(a=at.produced(stream), b=at.array(), stream=at.stream),
    "graph, call, scratch": lambda at, stream: at.graph(
        a=at.array(), b=at.array(), temporary=at.produced(stream, at.scratch()), stream=at.stream
    ),
    "graph, owned input": lambda at, stream: at.graph(a=at.array(), b=at.produced(stream), stream=at.stream),
    "graph, prepare": lambda at, stream: at.graph.prepare(b=at.produced(stream), stream=at.stream),
    "graph, bind": lambda at, stream: at.graph_dispatch(at.produced(stream))(at.stream),
    "graph, rebind": lambda at, stream: rebound(at.graph_dispatch(at.array()), a=at.produced(stream))(at.stream),
    "graph, scratch": lambda at, stream: at.graph_dispatch(at.array(), temporary=at.produced(stream, at.scratch()))(at.stream),
    "bind, own scratch": lambda at, stream: at.bound_in(stream, at.rnn, at.given())(at.stream),
    "graph, own scratch": lambda at, stream: at.bound_in(stream, at.chain, {"x": at.array()})(at.stream),
    "initializer, scratch": lambda at, stream: dml.OperatorInitializer([at.rnn])(
        [at.packed()], temporary=at.produced(stream, at.scratch()), stream=at.stream
    ),
}


@pytest.mark.each_value
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("producer", ["a stream", "the legacy default stream", "the thread's default stream"])
def test_work_waits_for_the_producer(use: str, producer: str, at: Machinery) -> None:
    own = at.new_stream()
    handle = {"a stream": own.ptr, "the legacy default stream": 1, "the thread's default stream": 2}[producer]
    done: list[bool] = []
    issue = at.gpus.issue

    def noted(stream: int, work: Callable[[], object], *, deferred: bool = False) -> None:
        """Whether what is on the producer's stream is done whenever the work's stream comes to something else than a wait."""
        issue(stream, work, deferred=deferred)
        if stream == at.stream.ptr and not deferred:
            done.append(at.is_done(handle))

    at.gpus.issue = noted  # type: ignore[method-assign]
    with at.new_stream():  # what else is made goes there, and does not end the producer's work
        USES[use](at, handle)
    assert done
    assert all(done)
    assert own.ptr not in at.gpus.synchronized, "the host does not wait"


@pytest.mark.parametrize(("producer", "consumer"), [(1, 0), (0x7000, 0x7000), (2, 2)])
def test_a_stream_does_not_wait_for_itself(producer: int, consumer: int, at: Machinery) -> None:
    at.relu(input_tensor=at.array(), stream=consumer if consumer != 0x7000 else at.stream)
    at.gpus.recorded.clear()
    stream = at.stream.ptr if producer == 0x7000 else producer
    at.relu(input_tensor=Produced(at.array(), stream), stream=at.stream if producer == 0x7000 else consumer)
    assert not at.gpus.recorded


def test_a_dispatch_in_the_stream_that_it_was_bound_in_waits_for_nothing(at: Machinery) -> None:
    dispatch = at.bound_in(0, at.rnn, at.given())
    dispatch(1)
    assert not at.gpus.recorded


def test_binding_leaves_the_legacy_stream_alone(at: Machinery) -> None:
    """An event in it would spoil the captures of other threads."""
    stream = sys.modules["cupy"].cuda.Stream()
    given = at.given()
    stream.begin_capture()
    at.bound_in(0, at.rnn, given)
    stream.end_capture()


def test_the_default_streams_of_two_threads_wait_for_each_other(at: Machinery) -> None:
    dispatch = in_a_fresh_thread(lambda: at.relu.bind([Produced(at.array(), 2)], [at.array()]))
    dispatch(2)
    assert at.gpus.waits == [2]


@pytest.mark.parametrize(
    ("stream", "version"), [pytest.param(None, 3, id="nothing to wait for"), pytest.param(0x9999, 2, id="version 2 has no streams")]
)
def test_without_a_stream_nothing_waits(stream: int | None, version: int, at: Machinery) -> None:
    at.relu(input_tensor=Produced(at.array(), stream, version), stream=at.stream)
    assert not at.gpus.recorded


@pytest.mark.parametrize(
    ("stream", "said"), [(0, "is 0, expected None, 1 "), (-1, "is -1, expected"), (1 << 70, "more than 64 bits"), ("1", "'str' object")]
)
def test_what_is_no_stream_is_refused(stream: Any, said: str, at: Machinery) -> None:
    for use in (lambda value: at.relu(input_tensor=value), lambda value: at.relu.bind([value], [at.array()])):
        with pytest.raises(dml.BindError, match=said) as error:
            use(Produced(at.array(), stream))
        assert [problem.code for problem in error.value.problems] == ["array.kind"]
    assert not at.gpus.launches


def test_cupys_variable_turns_the_waits_off(runtime: CupyRuntime, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_CUDA_ARRAY_INTERFACE_SYNC", "0")
    at = Machinery(runtime, gpus)
    at.relu(input_tensor=Produced(at.array(), at.producer.ptr), stream=at.stream)
    assert not gpus.recorded


def test_one_call_waits_for_what_was_bound(at: Machinery) -> None:
    dispatch = at.relu.bind([Produced(at.array(), at.producer.ptr)], [at.array()])
    for _ in range(3):
        dispatch(at.stream)
    assert len(at.gpus.waits) == 1


def test_memory_that_was_replaced_is_not_waited_for(at: Machinery) -> None:
    dispatch = at.relu.bind([Produced(at.array(), at.producer.ptr)], [at.array()])
    dispatch.rebind(input_tensor=at.array())
    dispatch(at.stream)
    assert not at.gpus.waits


@pytest.mark.parametrize("bound", [False, True])
def test_a_capture_does_not_wait_for_what_is_outside(bound: bool, at: Machinery) -> None:
    """A wait would end the capture; whoever replays the graph orders it. What is bound waits in the next call outside of a capture."""
    given, output, other = Produced(at.array(), at.producer.ptr), at.array(), at.new_stream()
    dispatch = at.relu.bind([given], [output])
    at.stream.begin_capture()
    if bound:
        dispatch(at.stream)
    else:
        at.relu(input_tensor=given, output_tensor=output, stream=at.stream)
    at.stream.end_capture()
    assert not at.gpus.waits
    dispatch(other)
    assert len(at.gpus.waits) == 1


def test_work_outside_does_not_join_the_capture_of_its_producer(at: Machinery) -> None:
    given, output = Produced(at.array(), at.producer.ptr), at.array()
    at.producer.begin_capture()
    at.relu(input_tensor=given, output_tensor=output, stream=at.stream)
    assert at.stream.ptr not in at.gpus.recordings
    at.producer.end_capture()


def test_both_in_one_capture_are_ordered(at: Machinery) -> None:
    given, output = Produced(at.array(), at.producer.ptr), at.array()
    runtime, fork = sys.modules["cupy"].cuda.runtime, sys.modules["cupy"].cuda.Event()
    at.producer.begin_capture()
    runtime.eventRecord(fork.ptr, at.producer.ptr)
    runtime.streamWaitEvent(at.stream.ptr, fork.ptr)
    at.gpus.waits.clear()
    at.relu(input_tensor=given, output_tensor=output, stream=at.stream)
    assert at.gpus.waits == [at.stream.ptr]
    at.producer.end_capture()


def test_the_legacy_stream_is_left_alone_in_a_capture_that_it_would_wait_for(at: Machinery) -> None:
    """Even to record an event in it spoils the capture, and there can be no wait."""
    stream = sys.modules["cupy"].cuda.Stream()
    given, output = Produced(at.array(), 1), at.array()
    stream.begin_capture()
    at.relu(input_tensor=given, output_tensor=output, stream=stream)
    stream.end_capture()


def test_the_host_waits_for_the_stream_of_another_gpu(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    """Managed memory may be filled by any: no event joins streams of two GPUs from the consumer's side alone."""
    at = Machinery(runtime, gpus)
    with runtime.use(1):
        producer = at.new_stream()
    array = sys.modules["cupy"].ndarray(SIZES, np.float32, MemoryPointer(gpus.new_memory(MANAGED), 0))
    at.relu(input_tensor=Produced(array, producer.ptr), stream=at.stream)
    assert producer.ptr in gpus.synchronized


@pytest.mark.parametrize("bound", [False, True])
def test_nobody_waits_for_a_captured_stream_of_another_gpu(bound: bool, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    at = Machinery(runtime, gpus)
    with runtime.use(1):
        producer = at.new_stream()
    given = Produced(sys.modules["cupy"].ndarray(SIZES, np.float32, MemoryPointer(gpus.new_memory(MANAGED), 0)), producer.ptr)
    producer.begin_capture()
    if bound:
        at.relu.bind([given], [at.array()])(at.stream)
    else:
        at.relu(input_tensor=given, stream=at.stream)
    producer.end_capture()
    assert producer.ptr not in gpus.synchronized
    assert not gpus.waits


class ByDlpack:
    """Offers DLPack alone; notes which stream it is ordered before."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: int) -> Any:
        self.streams.append(stream)
        return self.array


@pytest.mark.parametrize("bound", [False, True])
def test_work_on_another_stream_waits_for_dlpacks_producer_too(bound: bool, at: Machinery) -> None:
    """The producer orders its work before CuPy's current stream, and the work's stream waits for that."""
    with at.new_stream() as current:
        given = ByDlpack(at.array())
        if bound:
            at.relu.bind([given], [at.array()])(at.stream)
        else:
            at.relu(input_tensor=given, stream=at.stream)
        assert given.streams == [current.ptr]
        assert at.gpus.waits == [at.stream.ptr]
