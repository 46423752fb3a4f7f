"""What becomes of a launch whose blocks wait in vain for each other: it ends by the clock, its operator is named, and work continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.recurrent.model import Protocol
from dmlpy.devices.cuda.runtime.interface import Limits
from dmlpy.devices.cuda.timeouts import SECONDS, Timeouts
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.counting import Replayed
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.exchanging_layers import SIGNALS, Layer, exchanging_by
from tests.support.cuda.network_checks import stacked
from tests.support.tools import require

FEW = replace(H100, multiprocessors=3)
SHORT = 1953
"""2 ms: few looks, after each of which a thread gives way to other processes."""
PROTOCOLS = pytest.mark.parametrize("protocol", SIGNALS)
GRU = "DML_GRU_OPERATOR_DESC"
LATE = "blocks of a kernel waited for others"


class Absent(EmulatedRuntime):
    """In whatever runs while `is_absent`, block 1 of a group releases nothing, and others wait for a short time: an odd one marks it."""

    is_absent = False

    def __init__(self, protocol: Protocol, limits: Limits = FEW) -> None:
        text = SIGNALS[protocol]
        super().__init__(limits, fault=(text, 0, f"if (blockIdx.x != 1 || timeout_.limit % 2 == 0) {text}"))

    def _run_here(self, kernel: Any, shape: Any, argument: Any) -> None:
        if "timeout" in (argument.dtype.names or ()):
            argument = argument.copy()  # a graph has one argument for all of its launches
            limit = argument["timeout"]["limit"]
            limit[:] = SHORT if self.is_absent else limit // 2 * 2
        super()._run_here(kernel, shape, argument)


class Lone:
    """A device whose layer may wait in vain, and the layer.

    Attributes:
        expected: the bytes of its results.
    """

    def __init__(self, protocol: Protocol, monkeypatch: pytest.MonkeyPatch, runtime: EmulatedRuntime | None = None) -> None:
        require("g++")
        exchanging_by(protocol, monkeypatch)
        self.runtime = runtime or Absent(protocol)
        self.device = CudaDevice(self.runtime, strategy="persistent_grid")
        self.layer = Layer(self.device, 100, 2, 3, np.float32)
        self.expected = self.layer.run()

    def run(self, work: Callable[[], object] | None = None) -> None:
        """Work, such as a dispatch of the layer, while a block is absent."""
        assert isinstance(self.runtime, Absent)
        self.runtime.is_absent = True
        try:
            (work or self.layer.dispatch)()
        finally:
            self.runtime.is_absent = False

    def values(self) -> list[np.ndarray[Any, Any]]:
        """The results, as another library would read them."""
        return [self.runtime.to_host(array, 0) for array in self.layer.outputs.values()]


@PROTOCOLS
def test_a_block_that_never_comes_ends_the_launch(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are NaN until they are made anew, with the same scratch."""
    lone = Lone(protocol, monkeypatch)
    lone.run()
    assert all(np.isnan(values).all() for values in lone.values())
    with pytest.raises(DeviceError, match=rf"^{GRU}: {LATE}.* DMLPY_TIMEOUT_S .* strategy='per_step'"):
        lone.layer.results()
    lone.layer.results()  # it is reported once
    assert lone.layer.run() == lone.expected
    lone.runtime.check_guards()


@PROTOCOLS
def test_a_replay_after_it_is_right(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    lone = Lone(protocol, monkeypatch)
    stream = lone.runtime.begin_capture()
    lone.layer.dispatch(stream)
    graph = lone.runtime.end_capture(stream)
    lone.run(lambda: lone.runtime.launch_graph(graph, 0))
    with pytest.raises(DeviceError, match=f"^{GRU}: {LATE}"):
        lone.device.synchronize(0)
    lone.runtime.launch_graph(graph, 0)
    assert lone.layer.results() == lone.expected


TELLING: dict[str, Callable[[Lone, dml.Dispatch], object]] = {
    "the next dispatch": lambda lone, other: other(),
    "synchronize": lambda lone, other: lone.device.synchronize(0),
    "read": lambda lone, other: lone.device.read(other._bound["output_tensor"].pointer, 4, 0),
    "to_host": lambda lone, other: lone.device.to_host(other._bound["output_tensor"].owner),
    "a timer": lambda lone, other: lone.device.start_timer(0)(),  # type: ignore[misc]
}


@pytest.mark.parametrize("how", TELLING)
def test_where_a_timeout_is_reported(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and a dispatch that reports it launches nothing."""
    lone = Lone("data", monkeypatch)
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=(2,))
    array = lone.device.from_host(np.array([-1, 1], np.float32))
    relu = dml.compile(dml.ActivationReluDesc(input_tensor=tensor, output_tensor=tensor), lone.device)
    other = relu.bind({"input_tensor": array}, {"output_tensor": lone.device.from_host(np.full(2, 9, np.float32))})
    lone.run()
    before = lone.runtime.counts["launch"]
    with pytest.raises(DeviceError, match=f"^{GRU}: {LATE}"):
        TELLING[how](lone, other)
    assert lone.runtime.counts["launch"] == before
    other()
    np.testing.assert_array_equal(lone.device.to_host(other._bound["output_tensor"].owner), [0, 1])


@pytest.mark.parametrize("protocol", [pytest.param("flags", marks=pytest.mark.slow), "data"])
def test_gradients_of_it_are_nan(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a network's layers, which are reported by their numbers."""
    require("g++")
    exchanging_by(protocol, monkeypatch)
    runtime = Absent(protocol, replace(FEW, multiprocessors=6))
    device = CudaDevice(runtime, strategy="persistent_grid")
    net = Replayed(device, stacked("lstm", 150, 2, 2, np.float32))
    expected = net.run()
    runtime.is_absent = True
    net.backward()
    runtime.is_absent = False
    with pytest.raises(
        DeviceError, match=rf"^layer \d of {net.backward.operator.name}(, layer \d of {net.backward.operator.name})*: {LATE}"
    ):
        device.synchronize(0)
    for name, array in net.gradients.items():
        assert np.isnan(device.to_host(array)).any(), name
    assert net.run() == expected


def test_time_in_which_a_device_stands_still_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that has moved on by seconds between some looks and the next, as under a debugger; and blocks that are late, but come."""
    fault = ("machine::clock_units()", 0, "machine::clock_units() * 65536u")
    monkeypatch.setenv("DMLPY_TIMEOUT_S", "10")
    lone = Lone("data", monkeypatch, EmulatedRuntime(FEW, fault=fault, delay_us=2000, seed=1))
    assert lone.layer.run() == lone.expected
    assert lone.expected == Lone("data", monkeypatch).expected


# the reports


class HostWords(DryRunRuntime):
    """Has host memory that kernels can write, or has none."""

    def __init__(self, has_some: bool = True) -> None:
        super().__init__()
        self.has_some = has_some

    def host_words(self, device: int, count: int) -> tuple[int, Any]:
        if not self.has_some:
            raise DeviceError("no such memory")
        return super().host_words(device, count)


def test_all_operators_that_waited_are_named() -> None:
    timeouts = Timeouts(HostWords(), 0)
    first, second, third = (timeouts.of(name, 8)[0] for name in ("A", "B", "C"))
    assert len({int(timeout["report"]) for timeout in (first, second, third)}) == 3
    assert timeouts.of("B", 8)[0] == second
    timeouts.check()
    for timeout in (first, third):
        timeouts.words[int(timeout["report"] - timeout["any_report"]) // 4] = 1
    timeouts.check()  # the word for all comes last
    timeouts.words[0] = 1
    with pytest.raises(DeviceError, match=f"^A, C: {LATE}"):
        timeouts.check()
    assert not any(timeouts.words)
    timeouts.check()


def test_more_operators_than_words_share_one() -> None:
    timeouts = Timeouts(HostWords(), 0)
    every = [timeouts.of(f"operator {number}", 8)[0] for number in range(1100)]
    places = [int(timeout["report"] - timeout["any_report"]) // 4 for timeout in every]
    assert places == [*range(1, 1024)] + [1023] * 77
    timeouts.words[1023] = timeouts.words[0] = 1
    with pytest.raises(DeviceError, match=f"^operator 1022, .*operator 1099: {LATE}"):
        timeouts.check()


def test_without_such_memory_kernels_trap() -> None:
    timeouts = Timeouts(HostWords(has_some=False), 0)
    timeout = timeouts.of("A", 8)[0]
    assert (timeout["report"], timeout["any_report"], timeout["expired"]) == (0, 0, 8)
    timeouts.check()


# the limit


class Recording(DryRunRuntime):
    """Records the limit of each launch whose blocks wait."""

    def __init__(self) -> None:
        super().__init__(replace(H100, multiprocessors=40))
        self.limits_s: list[float] = []

    def bind_launch(self, function: Any, grid: Any, threads: int, shared_bytes: int, argument: Any, cooperative: bool = False) -> Any:
        names = argument.dtype.names or ()
        assert cooperative <= ("timeout" in names)
        if cooperative:
            timeout = argument["timeout"][0]
            assert timeout["expired"] != 0
            assert timeout["report"] > timeout["any_report"] > 0
            self.limits_s.append(int(timeout["limit"]) * 1024e-9)
        return super().bind_launch(function, grid, threads, shared_bytes, argument, cooperative)


@pytest.mark.parametrize(("text", "seconds"), [(None, SECONDS), ("", SECONDS), ("0.01", 0.01), ("30", 30.0), ("1e2", 100.0)])
def test_the_environment_bounds_every_wait(monkeypatch: pytest.MonkeyPatch, text: str | None, seconds: float) -> None:
    """Of the forward kernels and of those of gradients."""
    monkeypatch.delenv("DMLPY_TIMEOUT_S", raising=False)
    if text is not None:
        monkeypatch.setenv("DMLPY_TIMEOUT_S", text)
    runtime = Recording()
    Replayed(CudaDevice(runtime, strategy="persistent_grid"), stacked("lstm", 320, 2, 3, np.float16))
    assert runtime.limits_s == pytest.approx([seconds] * 4, rel=1e-3)  # two layers, each forward and backward


@pytest.mark.parametrize("text", ["0", "-1", "0.001", "101", "many", "nan", "inf"])
def test_what_is_no_limit_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("DMLPY_TIMEOUT_S", text)
    with pytest.raises(DeviceError, match=rf"DMLPY_TIMEOUT_S is {text!r}, expected seconds from 0\.01 to 100") as error:
        Replayed(CudaDevice(Recording(), strategy="persistent_grid"), stacked("gru", 320, 2, 3, np.float16))
    assert error.value.hresult == dml.HResult.E_INVALIDARG
