"""A dispatch is called by one thread at a time: a second call is refused, and whatever ends a call lets the next one in."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices import dispatch as dispatch_module
from dmlpy.devices.dispatch import BoundWork
from tests.support.interruptions import interrupted_everywhere
from tests.support.tensors import tensor

H, B, T = 8, 2, 20


def layer() -> tuple[dml.OperatorDesc, dict[str, Any]]:
    """A layer with scratch, and its inputs."""
    rng = np.random.default_rng(1)
    desc = dml.RNNDesc(
        input_tensor=tensor(1, T, B, H),
        weight_tensor=tensor(1, 1, H, H),
        recurrence_tensor=tensor(1, 1, H, H),
        activation_descs=[dml.ActivationTanhDesc()],
        direction="FORWARD",
    ).with_outputs("output_single_tensor")
    return desc, {slot.place: rng.standard_normal(slot.tensor.sizes, np.float32) for slot in desc.input_slots() if slot.tensor}


def bound(device: dml.Device) -> tuple[BoundWork, Any]:
    """A dispatch and its output."""
    desc, arrays = layer()
    output = device.from_host(np.zeros((1, 1, B, H), np.float32))
    inputs = {name: device.from_host(array) for name, array in arrays.items()}
    return dml.compile(desc, device).bind(inputs, {"output_single_tensor": output}), output


def bound_graph(device: dml.Device) -> tuple[BoundWork, Any]:
    desc, arrays = layer()
    g = dml.GraphBuilder("of one")
    inputs = {name: g.input(name, getattr(desc, name)) for name in arrays}
    members = {name: getattr(desc, name) for name in desc.attribute_names()}
    g.output("y", g.add(dml.RNNDesc, "rnn", **inputs, **members, outputs=["output_single_tensor"]))
    output = device.from_host(np.zeros((1, 1, B, H), np.float32))
    return dml.compile(g.build(), device).bind({name: device.from_host(array) for name, array in arrays.items()}, {"y": output}), output


KINDS = pytest.mark.parametrize("bind", [bound, bound_graph])


def while_in_launch(work: BoundWork, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls the dispatch, and `act` on the same thread while the launch is under way."""
    enqueue = type(work)._enqueue

    def launched(self: Any, stream: int) -> None:
        if self is work:
            act()
        enqueue(self, stream)

    with monkeypatch.context() as patch:
        patch.setattr(type(work), "_enqueue", launched)
        work()


@KINDS
def test_a_second_call_is_refused_and_the_first_one_is_not_disturbed(
    bind: Any, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, output = bind(any_device)
    work()
    expected = any_device.to_host(output).copy()
    refused: list[dml.DispatchError] = []

    def call() -> None:
        try:
            work()
        except dml.DispatchError as error:
            refused.append(error)

    def on_another_thread() -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    for act in (on_another_thread, call):
        while_in_launch(work, act, monkeypatch)
        np.testing.assert_array_equal(any_device.to_host(output), expected)
    assert len(refused) == 2
    assert isinstance(refused[0], dml.DmlError)
    assert isinstance(refused[0], RuntimeError)
    assert "Bind a dispatch for each thread (op.bind)" in str(refused[0])
    work()


def test_many_threads_get_right_results_or_an_error() -> None:
    desc, arrays = layer()
    op = dml.compile(desc, "numpy")
    expected = op(**arrays).output_single_tensor
    output = np.zeros_like(expected)
    shared = op.bind(arrays, {"output_single_tensor": output})
    told, wrong, done = [], [], []
    started = threading.Barrier(8)

    def work() -> None:
        started.wait(10)
        for _ in range(50):
            try:
                shared()
                done.append(1)
            except dml.DispatchError:
                told.append(1)
        own = np.zeros_like(expected)
        mine = op.bind(arrays, {"output_single_tensor": own})
        for _ in range(20):
            own.fill(0)
            mine()
            if not np.array_equal(own, expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(told) + len(done), wrong) == (400, [])
    np.testing.assert_array_equal(output, expected)


def test_threads_that_take_turns_are_let_in() -> None:
    work, _ = bound(dml.device("numpy"))
    for _ in range(20):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        work()


@KINDS
def test_an_error_lets_the_next_call_in(bind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    work, _ = bind(dml.device("numpy"))

    def fails() -> None:
        raise OSError("in the launch")

    for _ in range(2):
        with pytest.raises(OSError, match="in the launch"):
            while_in_launch(work, fails, monkeypatch)
        with pytest.raises(dml.DeviceError, match="stream is -1"):
            work(-1)
        work()


def test_an_interrupt_anywhere_lets_the_next_call_in() -> None:
    class Nothing(BoundWork):
        def _enqueue(self, stream: int) -> None:
            runs.append(stream)

    runs: list[int] = []
    work = Nothing("nothing", dml.device("numpy"))

    def check() -> None:
        before = len(runs)
        work()
        assert len(runs) == before + 1

    assert interrupted_everywhere(dispatch_module, work, check) > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_is_not_kept_out_by_its_parents_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    work, _ = bound(dml.device("numpy"))
    entered, leave, parent = threading.Event(), threading.Event(), os.getpid()

    def wait() -> None:
        if os.getpid() == parent:
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=while_in_launch, args=(work, wait, monkeypatch))
    thread.start()
    assert entered.wait(10)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
