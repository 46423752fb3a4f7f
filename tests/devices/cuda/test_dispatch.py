"""What holds for the dispatch of every operator on CUDA: it only launches, as one graph if that pays, and profilers see its name."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.plans import STRATEGIES
from dmlpy.devices.device import Memory
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.counting import CountingRuntime, Replayed
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.operators.dispatch_cases import CASES
from tests.support.recurrent.networks import network
from tests.support.tools import require

EVERY_CASE = pytest.mark.parametrize("name", CASES)
DATA_TYPES = pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])


@DATA_TYPES
@EVERY_CASE
def test_a_dispatch_only_launches(name: str, data_type: str) -> None:
    """It allocates nothing, waits for nothing and reads nothing back; of a plan that is worth it, it launches one graph."""
    runtime = CountingRuntime()
    dispatch = CASES[name].bound(runtime, data_type)
    found = []
    for _ in range(2):
        before = runtime.counts.copy()
        dispatch()
        found.append(runtime.counts - before)
    assert found[0] == found[1]
    if dispatch.operator._plan.capturable:
        assert found[0] == {"launch_graph": 1}
    else:
        assert found[0].keys() <= {"launch", "gemm", "memset"}
        assert 1 <= found[0]["launch"] <= 8


# graphs of whole networks


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_training_step_of_a_network_is_two_graphs(strategy: str) -> None:
    """The replays follow the dropout's offset, which the kernels read, and give the bits of launches that are issued one by one."""
    require("g++")
    runtime = EmulatedRuntime()
    device = CudaDevice(runtime, strategy=strategy)
    net = network(np.random.default_rng(24), "gru", lengths=[5, 2, 0], dropout=0.5, offset=1)
    replayed = Replayed(device, net)
    before = runtime.counts.copy()
    first = replayed.run()
    assert {kind: count for kind, count in (runtime.counts - before).items() if kind != "to_host"} == {"launch_graph": 2}
    assert replayed.run() == first

    assert replayed.offset is not None
    replayed.offset.set(np.array([5], np.uint64))
    other = replayed.run()
    assert other["output"] != first["output"]
    # Into a stream that is being captured a plan issues its launches one by one: a graph cannot be launched there.
    stream = runtime.begin_capture()
    before = runtime.counts.copy()
    replayed.forward(stream)
    replayed.backward(stream)
    issued = runtime.counts - before
    graph = runtime.end_capture(stream)
    assert replayed.results() == other, "a capture runs nothing"
    assert issued["launch_graph"] == 0
    assert issued["launch"] > 4
    for array in (*replayed.outputs.values(), *replayed.gradients.values()):
        array.set(np.zeros_like(array.get()))
    runtime.launch_graph(graph, 0)
    assert replayed.results() == other
    runtime.check_guards()


# ranges for profilers


def depths(ranges: Iterable[tuple[str, str]]) -> list[tuple[int, str]]:
    """The ranges in the order in which they begin, each with how many are around it. All end."""
    found, depth = [], 0
    for kind, name in ranges:
        if kind == "push":
            found.append((depth, name))
        depth += 1 if kind == "push" else -1
        assert depth >= 0
    assert depth == 0
    return found


@EVERY_CASE
def test_a_dispatch_is_a_range_with_its_struct_s_name(name: str) -> None:
    runtime = CountingRuntime()
    dispatch = CASES[name].bound(runtime, "FLOAT32")
    for fails in (False, True):
        runtime.fails = fails
        runtime.ranges.clear()
        if fails:
            with pytest.raises(DeviceError, match="no"):
                dispatch()
        else:
            dispatch()
        assert depths(runtime.ranges)[0] == (0, dispatch.operator.desc.c_name)
        if dispatch.operator._plan.capturable:
            assert len(runtime.ranges) == 2


def test_layers_are_ranges_where_they_are_issued_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise DeviceError("gemm: no")

    runtime = DryRunRuntime()
    dispatch = CASES["persistent_block, network"].bound(runtime, "FLOAT32")
    outer = (0, "DMLPY_CUDNN_RNN_V3_OPERATOR_DESC")
    layers = [(1, f"layer {number}") for number in range(3)]
    stream = runtime.begin_capture()
    runtime.ranges.clear()
    dispatch(stream)
    assert depths(runtime.ranges) == [outer, *layers]
    runtime.end_capture(stream)
    op = dispatch.operator
    given = {name: op.device.from_host(np.zeros(item.sizes, item.data_type.numpy)) for name, item in op.desc.tensors().items()}
    runtime.ranges.clear()
    op(**given)
    assert depths(runtime.ranges) == [outer, *layers]
    runtime.ranges.clear()
    monkeypatch.setattr(runtime, "gemm", fail)
    with pytest.raises(DeviceError, match="gemm: no"):
        op(**given)
    assert depths(runtime.ranges) == [outer, layers[0]]


def test_packing_is_a_range() -> None:
    runtime = DryRunRuntime()
    CASES["persistent_block, LSTM, prepared"].bound(runtime, "FLOAT32")
    assert depths(runtime.ranges) == [(0, "DML_LSTM_OPERATOR_DESC prepare")]


@pytest.mark.parametrize("error", [None, dml.DeviceError("no"), KeyboardInterrupt()])
def test_memory_of_a_launch_that_fails_waits_for_what_it_has_enqueued(error: BaseException | None) -> None:
    """The device would give it to somebody else while the stream still works on it."""
    used: list[int] = []

    def launch(stream: int) -> None:
        if error is not None:
            raise error

    dispatch = CudaDevice(DryRunRuntime()).dispatched(launch, "a launch", [Memory(1 << 12, 64, None, used.append)])
    with nullcontext() if error is None else pytest.raises(type(error)):
        dispatch(7)
    assert used == [7]
