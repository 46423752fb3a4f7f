"""What engines rely on: a dispatch on CUDA only launches, replays a graph, and can be captured in the caller's graph."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.conftest import cuda_on_cpu
from tests.support.recurrent.small_rnn import EACH_STRATEGY, B, H, T, bind, inputs, on, rnn
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

LAUNCHES = {"launch", "gemm", "copy", "memset", "launch_graph"}
"""The runtime's functions that only enqueue work."""


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Any:
    """A device, by default of the strategy `persistent_block`."""
    from dmlpy.devices.cuda.emulation.runtime import T4

    device = cuda_on_cpu(limits=T4, strategy=getattr(request, "param", "persistent_block"))
    yield device
    device.runtime.check_guards()  # type: ignore[attr-defined]


def bound(device: Any, desc: dml.RecurrentDesc, prepared: bool) -> tuple[dml.Dispatch, dict[str, Any], dict[str, Any]]:
    return bind(device, desc, inputs(desc), prepared)


def check(device: Any, desc: dml.RecurrentDesc, arrays: dict[str, Any], outputs: dict[str, Any]) -> None:
    for name, wanted in dml.reference(desc, arrays).as_dict().items():
        assert_close(device.to_host(outputs[name]), wanted, np.float32, terms=H)


@pytest.mark.parametrize("prepared", [False, True])
@EACH_STRATEGY
def test_a_dispatch_only_launches(device: Any, prepared: bool) -> None:
    dispatch, arrays, outputs = bound(device, rnn(), prepared)
    dispatch()
    before = device.runtime.counts.copy()
    dispatch()
    assert set(device.runtime.counts - before) <= LAUNCHES
    check(device, rnn(), arrays, outputs)


@pytest.mark.parametrize("device", ["per_step"], indirect=True)
def test_many_launches_are_one_graph(device: Any) -> None:
    dispatch, arrays, outputs = bound(device, rnn(), prepared=True)
    assert np.isnan(device.to_host(outputs["output_sequence_tensor"])).all(), "binding runs nothing"
    before = device.runtime.counts.copy()
    dispatch()
    assert dict(device.runtime.counts - before) == {"launch_graph": 1}
    check(device, rnn(), arrays, outputs)


@EACH_STRATEGY
def test_a_dispatch_can_be_captured_by_its_caller(device: Any) -> None:
    dispatch, arrays, outputs = bound(device, rnn(), prepared=False)
    runtime = device.runtime
    stream = runtime.begin_capture()
    before = runtime.counts.copy()
    dispatch(stream)
    dispatch(stream)
    graph = runtime.end_capture(stream)
    assert runtime.counts["launch_graph"] == before["launch_graph"], "a graph cannot be launched into a capturing stream"
    assert "allocation in a graph" not in runtime.counts
    assert np.isnan(device.to_host(outputs["output_sequence_tensor"])).all(), "a capture runs nothing"
    for _ in range(2):
        runtime.launch_graph(graph, 0)
        check(device, rnn(), arrays, outputs)


@pytest.mark.parametrize("value", [2.5, np.float32(2.5), [1, 2]], ids=repr)
def test_numbers_and_lists_stay_in_host_memory(device: Any, value: Any) -> None:
    before = device.runtime.counts.copy()
    found = device.to_host(value)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, value)
    assert device.runtime.counts == before


def called(device: Any) -> tuple[Any, dict[str, Any]]:
    """An operator that needs scratch, and its inputs."""
    op = dml.compile(rnn(), device)
    assert op.binding_properties.temporary_resource_size
    return op, on(device, inputs(rnn()))


def called_prepared(device: Any) -> tuple[Any, dict[str, Any]]:
    """The packed constants are dropped with the operator."""
    op, given = called(device)
    return op.prepare(**{name: given.pop(name) for name in ("weight_tensor", "recurrence_tensor")}), given


def called_graph(device: Any) -> tuple[Any, dict[str, Any]]:
    """A layer whose constants the graph packs, and a tensor between it and its last node."""
    builder, arrays = dml.GraphBuilder(), inputs(rnn())
    members: dict[str, Any] = {"activation_descs": [dml.ActivationTanhDesc()], "direction": "FORWARD"}
    members |= {name: builder.constant(name, arrays.pop(name)) for name in ("weight_tensor", "recurrence_tensor")}
    members |= {name: builder.input(name, dml.TensorDesc.of(array)) for name, array in arrays.items()}
    hidden = builder.add(dml.RNNDesc, "layer", outputs=["output_sequence_tensor"], **members)
    builder.output("output_sequence_tensor", builder.add(dml.ElementWiseIdentityDesc, "copy", input_tensor=hidden))
    return dml.compile(builder.build(), device), on(device, arrays)


@pytest.mark.each_value
@pytest.mark.parametrize("make", [called, called_prepared, called_graph])
@EACH_STRATEGY
def test_a_call_can_be_captured_by_its_caller(device: Any, make: Callable[[Any], tuple[Any, dict[str, Any]]]) -> None:
    """Its memory lives as long as the graph: a launch that reads or writes memory that was freed fails here."""
    runtime, arrays = device.runtime, inputs(rnn())
    op, given = make(device)
    op(**given)
    stream = runtime.begin_capture()
    found = op(**given, stream=stream).as_dict()
    graph = runtime.end_capture(stream)
    del op
    gc.collect()
    results = {name: array for name, array in found.items() if name == "output_sequence_tensor"}
    for _ in range(2):
        for array in results.values():
            array.set(np.full(array.shape, np.nan, np.float32))
        runtime.launch_graph(graph, 0)
        wanted = dml.reference(rnn(), arrays).output_sequence_tensor
        assert_close(device.to_host(results["output_sequence_tensor"]), wanted, np.float32, terms=H)


def test_work_goes_to_the_given_stream(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch, _, _ = bound(device, rnn(), prepared=False)
    seen = set()
    launch = device.runtime.launch

    def spy(*arguments: Any, **options: Any) -> None:
        seen.add(options.get("stream", arguments[5] if len(arguments) > 5 else None))
        launch(*arguments, **options)

    monkeypatch.setattr(device.runtime, "launch", spy)
    stream = device.runtime.new_stream()
    dispatch(stream)
    assert seen == {stream}


def test_kernels_are_compiled_once_for_all_threads(device: Any) -> None:
    desc = rnn()
    arrays = inputs(desc)
    given = on(device, arrays)
    op = dml.compile(desc, device)
    op(**given)
    compiled = device.runtime.counts["compile"]
    results: list[Any] = []

    def work() -> None:
        results.append(dml.compile(desc.replace(), device)(**given))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert device.runtime.counts["compile"] == compiled
    assert len(results) == 4
    for result in results:
        check(device, desc, arrays, result.as_dict())


def test_dlpack_arrays_in_gpu_memory(device: Any) -> None:
    from dmlpy.devices.cuda.emulation.memory import DlpackArray

    desc = rnn()
    arrays = inputs(desc)
    given = {name: DlpackArray(array) for name, array in on(device, arrays).items()}
    check(device, desc, arrays, dml.compile(desc, device)(**given).as_dict())


def test_an_array_that_refuses_its_memory_is_reported_as_a_wrong_array(device: Any) -> None:
    class NeedsGradient:
        """As PyTorch's tensors answer: not with an AttributeError."""

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise RuntimeError("use tensor.detach()")

    class OnAnotherMachine:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 10, 0  # kDLROCM

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError

    given = on(device, inputs(rnn()))
    for value, said in ((NeedsGradient(), r"use tensor\.detach"), (OnAnotherMachine(), "DLPack device of type 10")):
        with pytest.raises(dml.BindError, match=said) as error:
            dml.compile(rnn(), device)(**given | {"input_tensor": value})
        assert [problem.code for problem in error.value.problems] == ["array.kind"]


@pytest.mark.parametrize("device", ["per_step"], indirect=True)
def test_out_of_gpu_memory_is_refused_with_sizes(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    many = 4096
    desc = rnn(
        input_tensor=tensor(1, T, B, many),
        weight_tensor=tensor(1, 1, many, many),
        recurrence_tensor=tensor(1, 1, many, many),
        sequence_lengths_tensor=None,
    )
    op = dml.compile(desc, device)
    monkeypatch.setattr(device.runtime, "free_memory", lambda ordinal: 1_000_000)
    buffer = dml.Buffer(1 << 20, 1 << 30)
    with pytest.raises(dml.DeviceError, match=r"1\.0 MB are available on cuda:0") as error:
        op.prepare(weight_tensor=buffer, recurrence_tensor=buffer)
    assert error.value.hresult == dml.HResult.E_OUTOFMEMORY


@EACH_STRATEGY
def test_the_plan_says_what_runs_and_why(device: Any) -> None:
    assert f"strategy {device.strategy}: as asked for" in dml.compile(rnn(), device).plan


def test_a_strategy_that_is_none_is_refused() -> None:
    with pytest.raises(dml.DeviceError, match="strategy is 'warp', expected one of persistent_block, "):
        cuda_on_cpu(strategy="warp")
