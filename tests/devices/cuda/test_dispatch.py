"""What holds for the dispatch of every operator on CUDA: it only launches, as one graph if that pays, and profilers see its name."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.recurrent.strategies import STRATEGIES
from dmlpy.devices.device import Memory
from dmlpy.validation.problems import DeviceError
from tests.support.cuda.cpu_seam import CpuSeam, NullSeam
from tests.support.dispatch_cases import CASES
from tests.support.networks import Network, gradient_inputs, network, poisoned, upstream, values
from tests.support.tools import require

EVERY_CASE = pytest.mark.parametrize("name", CASES)
DATA_TYPES = pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])


class CountingSeam(NullSeam):
    """Counts what a `NullSeam` is asked to enqueue; `fails` lets the next launch fail."""

    fails = False

    def launch(self, *arguments: Any, **named: Any) -> None:
        if self.fails:
            raise DeviceError("launch: no")
        self.counts["launch"] += 1

    def gemm(self, *arguments: Any, **named: Any) -> None:
        assert arguments[-1] > 0, "a product without memory to work in: while a stream is captured the library would allocate some"
        self.counts["gemm"] += 1

    def copy(self, *arguments: Any) -> None:
        self.counts["copy"] += 1

    def memset(self, *arguments: Any) -> None:
        self.counts["memset"] += 1

    def launch_graph(self, graph: Any, stream: int) -> None:
        if self.fails:
            raise DeviceError("launch_graph: no")
        self.counts["launch_graph"] += 1


@DATA_TYPES
@EVERY_CASE
def test_a_dispatch_only_launches(name: str, data_type: str) -> None:
    """It allocates nothing, waits for nothing and reads nothing back; of a plan that is worth it, it launches one graph."""
    seam = CountingSeam()
    dispatch = CASES[name].bound(seam, data_type)
    found = []
    for _ in range(2):
        before = seam.counts.copy()
        dispatch()
        found.append(seam.counts - before)
    assert found[0] == found[1]
    if dispatch.operator._plan.capturable:
        assert found[0] == {"launch_graph": 1}
    else:
        assert found[0].keys() <= {"launch", "gemm", "memset"}
        assert 1 <= found[0]["launch"] <= 8


# graphs of whole networks


class Replayed:
    """A network of layers and its gradient, bound once each."""

    def __init__(self, device: Any, net: Network) -> None:
        self.device, desc = device, net.desc.gradient()
        given = upstream(np.random.default_rng(1), desc) | gradient_inputs(net, desc)
        self.outputs = {name: poisoned(device, net.desc.tensors()[name]) for name in names(net.desc)}
        self.gradients = {name: poisoned(device, desc.tensors()[name]) for name in names(desc)}
        inputs = {name: device.from_host(array) for name, array in net.arrays.items()}
        self.offset = inputs.get("dropout_offset")
        taken = {name: device.from_host(array) for name, array in given.items()} | {"reserve_space": self.outputs["reserve_space"]}
        self.forward = dml.compile(net.desc, device).bind(inputs, self.outputs)
        self.backward = dml.compile(desc, device).bind(taken, self.gradients)

    def run(self, stream: int = 0) -> dict[str, bytes]:
        """The bytes of all results but the reserve, which has gaps."""
        self.forward(stream)
        self.backward(stream)
        return self.results()

    def results(self) -> dict[str, bytes]:
        return {name: self.device.to_host(array).tobytes() for name, array in values(self.outputs | self.gradients).items()}


def names(desc: dml.OperatorDesc) -> Iterable[str]:
    return (slot.place for slot in desc.output_slots() if slot.tensor is not None)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_training_step_of_a_network_is_two_graphs(strategy: str) -> None:
    """The replays follow the dropout's offset, which the kernels read, and give the bits of launches that are issued one by one."""
    require("g++")
    seam = CpuSeam()
    device = CudaDevice(seam, strategy=strategy)
    net = network(np.random.default_rng(24), "gru", lengths=[5, 2, 0], dropout=0.5, offset=1)
    replayed = Replayed(device, net)
    before = seam.counts.copy()
    first = replayed.run()
    assert {kind: count for kind, count in (seam.counts - before).items() if kind != "to_host"} == {"launch_graph": 2}
    assert replayed.run() == first

    replayed.offset.set(np.array([5], np.uint64))
    other = replayed.run()
    assert other["output"] != first["output"]
    # Into a stream that is being captured a plan issues its launches one by one: a graph cannot be launched there.
    stream = seam.begin_capture()
    before = seam.counts.copy()
    replayed.forward(stream)
    replayed.backward(stream)
    issued = seam.counts - before
    graph = seam.end_capture(stream)
    assert replayed.results() == other, "a capture runs nothing"
    assert issued["launch_graph"] == 0
    assert issued["launch"] > 4
    for array in (*replayed.outputs.values(), *replayed.gradients.values()):
        array.set(np.zeros_like(array.get()))
    seam.launch_graph(graph, 0)
    assert replayed.results() == other
    seam.check_guards()


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
    seam = CountingSeam()
    dispatch = CASES[name].bound(seam, "FLOAT32")
    for fails in (False, True):
        seam.fails = fails
        seam.ranges.clear()
        if fails:
            with pytest.raises(DeviceError, match="no"):
                dispatch()
        else:
            dispatch()
        assert depths(seam.ranges)[0] == (0, dispatch.operator.desc.c_name)
        if dispatch.operator._plan.capturable:
            assert len(seam.ranges) == 2


def test_layers_are_ranges_where_they_are_issued_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise DeviceError("gemm: no")

    seam = NullSeam()
    dispatch = CASES["walk, network"].bound(seam, "FLOAT32")
    outer = (0, "DMLPY_CUDNN_RNN_V3_OPERATOR_DESC")
    layers = [(1, f"layer {number}") for number in range(3)]
    stream = seam.begin_capture()
    seam.ranges.clear()
    dispatch(stream)
    assert depths(seam.ranges) == [outer, *layers]
    seam.end_capture(stream)
    op = dispatch.operator
    given = {name: op.device.from_host(np.zeros(item.sizes, item.data_type.numpy)) for name, item in op.desc.tensors().items()}
    seam.ranges.clear()
    op(**given)
    assert depths(seam.ranges) == [outer, *layers]
    seam.ranges.clear()
    monkeypatch.setattr(seam, "gemm", fail)
    with pytest.raises(DeviceError, match="gemm: no"):
        op(**given)
    assert depths(seam.ranges) == [outer, layers[0]]


def test_packing_is_a_range() -> None:
    seam = NullSeam()
    CASES["walk, LSTM, prepared"].bound(seam, "FLOAT32")
    assert depths(seam.ranges) == [(0, "DML_LSTM_OPERATOR_DESC prepare")]


@pytest.mark.parametrize("error", [None, dml.DeviceError("no"), KeyboardInterrupt()])
def test_memory_of_a_launch_that_fails_waits_for_what_it_has_enqueued(error: BaseException | None) -> None:
    """The device would give it to somebody else while the stream still works on it."""
    used: list[int] = []

    def launch(stream: int) -> None:
        if error is not None:
            raise error

    dispatch = CudaDevice(NullSeam()).dispatched(launch, "a launch", [Memory(1 << 12, 64, None, used.append)])
    with nullcontext() if error is None else pytest.raises(type(error)):
        dispatch(7)
    assert used == [7]
