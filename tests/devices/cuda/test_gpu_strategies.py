"""Each strategy of recurrent kernels on a GPU against float64, and blocks that come late at random; a little of both on the CPU."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.plans import STRATEGIES
from dmlpy.devices.cuda.recurrent.model import Protocol
from tests.support.cuda.changed_waits import DELAY, STORES, delays, with_delays
from tests.support.cuda.counting import Replayed
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.exchanging_layers import SIGNALS, Layer, exchanging_by
from tests.support.cuda.instances.kernels import instances
from tests.support.cuda.network_checks import check_network, check_resetting_gru, resetting_gru, stacked
from tests.support.pairwise import first_few
from tests.support.recurrent.networks import Mode, Network
from tests.support.tools import require

ON_GPU = pytest.mark.gpu
BETWEEN_BLOCKS = tuple(strategy for strategy in STRATEGIES if strategy == "persistent_grid")
"""The strategies whose blocks wait for each other."""


def gpu_for(strategy: str, *descs: dml.OperatorDesc) -> CudaDevice:
    """The first GPU with one strategy of kernels. Skips the test where that cannot take the descs: R may be too large for this GPU."""
    found = dml.device("cuda")
    assert isinstance(found, CudaDevice)
    device = CudaDevice(found.runtime, strategy=strategy)
    try:
        for desc in descs:
            dml.compile(desc, device)
    except dml.DeviceError as error:
        if "cannot take" in str(error):
            pytest.skip(str(error))
        raise
    return device


def descs_of(net: Network) -> tuple[dml.OperatorDesc, dml.OperatorDesc]:
    """A network and its gradient."""
    return net.desc, net.desc.gradient()


# every strategy


DATA_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])


@ON_GPU
@DATA_TYPES
@pytest.mark.parametrize(
    ("mode", "units", "batch", "steps"), [("lstm", 48, 3, 9), ("gru", 100, 17, 12), ("rnn_tanh", 320, 1, 30), ("lstm", 512, 64, 6)]
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_network_in_every_strategy(strategy: str, mode: Mode, units: int, batch: int, steps: int, dtype: Any) -> None:
    net = stacked(mode, units, batch, steps, dtype)
    check_network(gpu_for(strategy, *descs_of(net)), net)


@ON_GPU
@DATA_TYPES
@pytest.mark.parametrize(("hidden", "batch", "steps"), [(64, 5, 9), (300, 33, 7)])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_gru_that_resets_first_in_every_strategy(strategy: str, hidden: int, batch: int, steps: int, dtype: Any) -> None:
    desc, _ = resetting_gru(hidden, batch, steps, dtype)
    check_resetting_gru(gpu_for(strategy, desc), hidden, batch, steps, dtype)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_checks_pass_on_the_cpu(strategy: str) -> None:
    require("g++")
    device = CudaDevice(EmulatedRuntime(), strategy=strategy)
    check_network(device, stacked("gru", 6, 3, 5, np.float32))
    check_resetting_gru(device, 6, 3, 5, np.float32)


@ON_GPU
@pytest.mark.parametrize(
    ("strategy", "units"), [("persistent_block", 96), *((strategy, units) for strategy in BETWEEN_BLOCKS for units in (96, 512))]
)
def test_kernels_that_keep_weights_on_chip_use_no_local_memory(strategy: str, units: int) -> None:
    modes: tuple[tuple[Mode, Any], ...] = (("lstm", np.float16), ("gru", np.float32))
    for mode, dtype in modes:
        descs = descs_of(stacked(mode, units, 16, 4, dtype))
        device = gpu_for(strategy, *descs)
        for desc in descs:
            for layer in dml.compile(desc, device)._plan._plans:  # type: ignore[attr-defined]
                for kernel in layer.kernels():
                    found = device.runtime.attributes(device.library.function(kernel))
                    assert found.local_bytes == 0 or strategy not in kernel.entry, kernel.entry


# blocks that come late


def soak(plain: Layer | Replayed, late: Layer | Replayed, times: int) -> None:
    """The same bits each time, whoever comes late."""
    expected = plain.run()
    for time in range(times):
        assert late.run() == expected, f"dispatch {time}"


PROTOCOLS = pytest.mark.parametrize("protocol", ["flags", "data"])
FEW = replace(H100, name="a small H100 on the CPU", multiprocessors=6)


@PROTOCOLS
@pytest.mark.parametrize("strategy", BETWEEN_BLOCKS)
def test_late_blocks_change_nothing(strategy: str, protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    require("g++")
    exchanging_by(protocol, monkeypatch)
    plain, late = (CudaDevice(EmulatedRuntime(FEW, delay_us=delay_us, seed=delay_us), strategy=strategy) for delay_us in (0, 50))
    assert f"cooperative launch, exchanging by {protocol}" in dml.compile(resetting_gru(300, 2, 4, np.float32)[0], plain).plan
    soak(Layer(plain, 300, 2, 4, np.float32), Layer(late, 300, 2, 4, np.float32), 2)


@PROTOCOLS
@pytest.mark.parametrize("strategy", BETWEEN_BLOCKS)
def test_blocks_that_wait_are_captured(strategy: str, protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the memset of what they wait for: a replay that found it there would let blocks pass too early."""
    require("g++")
    exchanging_by(protocol, monkeypatch)
    runtime = EmulatedRuntime(FEW, delay_us=50)
    layer = Layer(CudaDevice(runtime, strategy=strategy), 300, 2, 4, np.float32)
    stream = runtime.begin_capture()
    before = runtime.counts.copy()
    layer.dispatch(stream)
    assert (runtime.counts - before)["memset"] == 1
    graph = runtime.end_capture(stream)
    runtime.launch_graph(graph, 0)
    first = layer.results()
    runtime.launch_graph(graph, 0)
    assert layer.results() == first == layer.run()


def test_delays_are_in_every_kernel_whose_blocks_wait() -> None:
    files = [path.relative_to(sources.directory()).as_posix() for path in sources.directory().rglob("*.cu")]
    waiting = [file for file in files if "BlockExchange<" in sources.read(file)]
    assert waiting
    assert all(with_delays(sources.read(file)).count(DELAY) == len(STORES) for file in waiting)


def with_an_absent_block(text: str, protocol: Protocol) -> str:
    """A kernel's source in which block 1 of a group releases nothing."""
    assert text.count(SIGNALS[protocol]) <= 1
    return text.replace(SIGNALS[protocol], f"if (blockIdx.x != 1) {SIGNALS[protocol]}")


@ON_GPU
@PROTOCOLS
@pytest.mark.parametrize("strategy", BETWEEN_BLOCKS)
def test_a_block_that_never_comes_leaves_the_context_alive(strategy: str, protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    exchanging_by(protocol, monkeypatch)
    monkeypatch.setenv("DMLPY_TIMEOUT_S", "0.2")
    desc, _ = resetting_gru(300, 2, 4, np.float32)
    read = sources.read
    with monkeypatch.context() as patch:
        patch.setattr(sources, "read", lambda file: with_an_absent_block(read(file), protocol))
        waiting = Layer(gpu_for(strategy, desc), 300, 2, 4, np.float32)
    waiting.dispatch()
    told = ""
    try:
        waiting.results()
    except dml.DeviceError as error:
        told = str(error)
    assert told.startswith(f"{desc.c_name}: blocks of a kernel waited for others")
    assert all(np.isnan(np.frombuffer(data, np.float32)).all() for data in waiting.results().values())
    plain = Layer(gpu_for(strategy, desc), 300, 2, 4, np.float32)
    expected = plain.run()
    assert plain.run() == expected
    assert not any(np.isnan(np.frombuffer(data, np.float32)).any() for data in expected.values())


@pytest.mark.parametrize("protocol", first_few(list(SIGNALS), 1))
def test_a_kernel_whose_block_never_comes_compiles(protocol: Protocol) -> None:
    require("nvrtc")
    from tests.support.cuda.binaries.nvrtc import compile_instance

    kernel = next(kernel for kernel in instances() if kernel.entry.startswith("persistent_grid<") and f"::{protocol}" in kernel.entry)
    text = with_an_absent_block(sources.read(kernel.file), protocol)
    assert text != sources.read(kernel.file)
    assert not compile_instance(text, kernel.entry, 90).warnings


SOAKED: dict[Protocol, tuple[int, int]] = {"flags": (2000, 50), "data": (250, 400)}
"""Steps, and how often they are taken: what is exchanged as data has to stay in the L2 cache, all steps of it."""
SHARE = "DMLPY_TEST_SOAKED"
"""The variable that selects the share of them to take; by default all."""


def soaked(protocol: Protocol, dtype: Any) -> tuple[dml.OperatorDesc, Network]:
    """A layer with 512 units, and a network with as many."""
    steps, _ = SOAKED[protocol]
    return resetting_gru(512, 2, steps, dtype)[0], stacked("lstm", 512, 2, steps, dtype)


@pytest.mark.parametrize(
    ("protocol", "dtype"),
    [
        pytest.param(protocol, dtype, marks=[pytest.mark.slow] * (protocol != "data" or dtype is not np.float16))
        for protocol in SOAKED
        for dtype in (np.float32, np.float16)
    ],
)
@pytest.mark.parametrize("strategy", BETWEEN_BLOCKS)
def test_kernels_with_delays_compile(strategy: str, protocol: Protocol, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the soak takes on a large GPU."""
    require("nvrtc")
    from tests.support.cuda.binaries.nvrtc import compile_instance

    exchanging_by(protocol, monkeypatch)
    layer, net = soaked(protocol, dtype)
    device = CudaDevice(DryRunRuntime(H100), strategy=strategy)
    plans = [dml.compile(layer, device)._plan, *(plan for desc in descs_of(net) for plan in dml.compile(desc, device)._plan._plans)]  # type: ignore[attr-defined]
    kernels = dict.fromkeys(kernel for plan in plans for kernel in plan.kernels() if kernel.entry.startswith(f"{strategy}<"))
    assert {kernel.file for kernel in kernels} == {"recurrent/persistent_grid.cu", "recurrent/persistent_grid_gradient.cu"}
    for kernel in kernels:
        assert f"Protocol::{protocol}" in kernel.entry
        assert not compile_instance(with_delays(sources.read(kernel.file)), kernel.entry, 90).warnings


@ON_GPU
@DATA_TYPES
@PROTOCOLS
@pytest.mark.parametrize("strategy", BETWEEN_BLOCKS)
def test_a_hundred_thousand_steps_with_late_blocks(strategy: str, protocol: Protocol, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a layer, and of a network and its gradient. `SHARE` makes them fewer."""
    exchanging_by(protocol, monkeypatch)
    steps, times = SOAKED[protocol]
    times = max(1, round(times * float(os.environ.get(SHARE, "1"))))
    layer, net = soaked(protocol, dtype)

    def both() -> tuple[Layer, Replayed]:
        device = gpu_for(strategy, layer, *descs_of(net))
        return Layer(device, 512, 2, steps, dtype), Replayed(device, net)

    plain = both()
    with delays(monkeypatch):
        late = both()
    for one, other in zip(plain, late, strict=True):
        soak(one, other, times)
