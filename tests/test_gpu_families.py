"""Each family of recurrent kernels on a GPU against float64, and blocks that come late at random; a little of both on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.recurrent.families import FAMILIES
from dmlpy.devices.numpy.recurrent.layer import reference as layer_reference
from tests.cpu_seam import H100, CpuSeam, NullSeam
from tests.networks import Mode, Network, check, gradients, network, poisoned, reference, upstream
from tests.test_dispatch import Replayed
from tests.tolerance import assert_close
from tests.tools import require

ON_GPU = pytest.mark.gpu
BETWEEN_BLOCKS = tuple(family for family in FAMILIES if family == "grid")
"""The families whose blocks wait for each other."""


def gpu_for(family: str, *descs: dml.OperatorDesc) -> CudaDevice:
    """The first GPU with one family of kernels. Skips the test where that cannot take the descs: R may be too large for this GPU."""
    found = dml.device("cuda")
    assert isinstance(found, CudaDevice)
    device = CudaDevice(found.seam, family=family)
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


# every family


def stacked(mode: Mode, units: int, batch: int, steps: int, dtype: Any) -> Network:
    """A network for which rounding errors do not grow from step to step: of both directions, lengths from 0 to all steps."""
    rng = np.random.default_rng(units + batch)
    lengths = [steps, 0, *rng.integers(1, steps + 1, batch)][:batch]
    net = network(rng, mode, layers=2, steps=steps, batch=batch, inputs=units, units=units, lengths=lengths, dtype=dtype)
    return net.of(params=(net.arrays["params"] * units**-0.5).astype(dtype))


def check_network(device: CudaDevice, net: Network) -> None:
    """Results and gradients are those of float64."""
    given = upstream(np.random.default_rng(1), net.desc.gradient())
    check(gradients(device, net, given), reference(net, given), net.layout, net.arrays["input"].dtype)


def resetting_gru(hidden: int, batch: int, steps: int, dtype: Any) -> tuple[dml.GRUDesc, dict[str, Any]]:
    """The one cell with a second product in each step, which stacked networks do not have; and its inputs."""
    rng, rows = np.random.default_rng(hidden), 3 * hidden
    sizes = {"input": (1, steps, batch, 8), "weight": (1, 1, rows, 8), "recurrence": (1, 1, rows, hidden), "bias": (1, 1, 1, 2 * rows)}
    arrays = {f"{name}_tensor": (rng.standard_normal(size) * size[-1] ** -0.5).astype(dtype) for name, size in sizes.items()}
    described: Any = {name: dml.TensorDesc.of(array) for name, array in arrays.items()}
    return dml.GRUDesc(
        **described, activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()], direction="FORWARD"
    ).with_outputs(), arrays


def check_resetting_gru(device: CudaDevice, hidden: int, batch: int, steps: int, dtype: Any) -> None:
    """Results are those of float64."""
    desc, arrays = resetting_gru(hidden, batch, steps, dtype)
    results = dml.compile(desc, device)(**{name: device.from_host(array) for name, array in arrays.items()})
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    for name, wanted in layer_reference(desc, wide).items():
        assert_close(device.to_host(results.as_dict()[name]), wanted, dtype, terms=2 * hidden, what=name)


DATA_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])


@ON_GPU
@DATA_TYPES
@pytest.mark.parametrize(
    ("mode", "units", "batch", "steps"), [("lstm", 48, 3, 9), ("gru", 100, 17, 12), ("rnn_tanh", 320, 1, 30), ("lstm", 512, 64, 6)]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_network_in_every_family(family: str, mode: Mode, units: int, batch: int, steps: int, dtype: Any) -> None:
    net = stacked(mode, units, batch, steps, dtype)
    check_network(gpu_for(family, *descs_of(net)), net)


@ON_GPU
@DATA_TYPES
@pytest.mark.parametrize(("hidden", "batch", "steps"), [(64, 5, 9), (300, 33, 7)])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_gru_that_resets_first_in_every_family(family: str, hidden: int, batch: int, steps: int, dtype: Any) -> None:
    desc, _ = resetting_gru(hidden, batch, steps, dtype)
    check_resetting_gru(gpu_for(family, desc), hidden, batch, steps, dtype)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_checks_pass_on_the_cpu(family: str) -> None:
    require("g++")
    device = CudaDevice(CpuSeam(), family=family)
    check_network(device, stacked("gru", 6, 3, 5, np.float32))
    check_resetting_gru(device, 6, 3, 5, np.float32)


@ON_GPU
@pytest.mark.parametrize(("family", "units"), [("walk", 96), *((family, units) for family in BETWEEN_BLOCKS for units in (96, 512))])
def test_kernels_that_keep_weights_on_chip_use_no_local_memory(family: str, units: int) -> None:
    modes: tuple[tuple[Mode, Any], ...] = (("lstm", np.float16), ("gru", np.float32))
    for mode, dtype in modes:
        descs = descs_of(stacked(mode, units, 16, 4, dtype))
        device = gpu_for(family, *descs)
        for desc in descs:
            for layer in dml.compile(desc, device)._plan._plans:  # type: ignore[attr-defined]
                for kernel in layer.kernels():
                    found = device.seam.attributes(device.library.function(kernel))
                    assert found.local_bytes == 0 or family not in kernel.entry, kernel.entry


# blocks that come late


RELEASE = 'asm volatile("st.release.gpu.global.u32'
DELAY = """\
unsigned const late = (static_cast<unsigned>(clock()) ^ blockIdx.x * 0x9E3779B9u) * 0x85EBCA6Bu >> 18;
    if (late % 2 != 0) {
        __nanosleep(late);
    }
    """
"""Half of the times nothing, else up to 16 microseconds."""


def with_delays(text: str) -> str:
    """A kernel's source that may sleep before each release, in which a block tells others that its values are there."""
    assert text.count(RELEASE) <= 1
    return text.replace(RELEASE, DELAY + RELEASE)


@contextmanager
def delays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is compiled meanwhile has them."""
    read = sources.read
    with monkeypatch.context() as patch:
        patch.setattr(sources, "read", lambda file: with_delays(read(file)))
        yield


class Layer:
    """A GRU that resets first, bound: its blocks hand each other two things a step.

    Attributes:
        dispatch: what was bound.
    """

    def __init__(self, device: CudaDevice, hidden: int, batch: int, steps: int, dtype: Any) -> None:
        desc, arrays = resetting_gru(hidden, batch, steps, dtype)
        self._device = device
        self._outputs = {slot.place: poisoned(device, slot.tensor) for slot in desc.output_slots() if slot.tensor is not None}
        given = {name: device.from_host(array) for name, array in arrays.items()}
        self.dispatch = dml.compile(desc, device).bind(given, self._outputs)

    def run(self) -> dict[str, bytes]:
        """The bytes of all results."""
        self.dispatch()
        return self.results()

    def results(self) -> dict[str, bytes]:
        return {name: self._device.to_host(array).tobytes() for name, array in self._outputs.items()}


def soak(plain: Layer | Replayed, late: Layer | Replayed, times: int) -> None:
    """The same bits each time, whoever comes late."""
    expected = plain.run()
    for time in range(times):
        assert late.run() == expected, f"dispatch {time}"


FEW = replace(H100, name="a small H100 on the CPU", multiprocessors=6)


@pytest.mark.parametrize("family", BETWEEN_BLOCKS)
def test_late_blocks_change_nothing(family: str) -> None:
    require("g++")
    plain, late = (CudaDevice(CpuSeam(FEW, delay_us=delay_us, seed=delay_us), family=family) for delay_us in (0, 50))
    assert "cooperative" in dml.compile(resetting_gru(300, 2, 4, np.float32)[0], plain).plan
    soak(Layer(plain, 300, 2, 4, np.float32), Layer(late, 300, 2, 4, np.float32), 2)


@pytest.mark.parametrize("family", BETWEEN_BLOCKS)
def test_blocks_that_wait_are_captured(family: str) -> None:
    """With the memset of their flags: a replay that found them raised would let blocks pass too early."""
    require("g++")
    seam = CpuSeam(FEW, delay_us=50)
    layer = Layer(CudaDevice(seam, family=family), 300, 2, 4, np.float32)
    stream = seam.begin_capture()
    before = seam.counts.copy()
    layer.dispatch(stream)
    assert (seam.counts - before)["memset"] == 1
    graph = seam.end_capture(stream)
    seam.launch_graph(graph, 0)
    first = layer.results()
    seam.launch_graph(graph, 0)
    assert layer.results() == first == layer.run()


def test_delays_are_in_every_kernel_whose_blocks_wait() -> None:
    files = [path.relative_to(sources.directory()).as_posix() for path in sources.directory().rglob("*.cu")]
    assert all(RELEASE in sources.read(file) for file in files if "store_release(" in sources.read(file))
    delayed = {file for file in files if with_delays(sources.read(file)) != sources.read(file)}
    assert {file for file in files if "Exchange<" in sources.read(file)} <= delayed


@pytest.mark.parametrize("family", BETWEEN_BLOCKS)
def test_a_kernel_with_delays_compiles(family: str) -> None:
    require("nvrtc")
    from tests.nvrtc import compile_instance

    plan = dml.compile(resetting_gru(300, 2, 4, np.float16)[0], CudaDevice(NullSeam(), family=family))._plan
    kernel = next(kernel for kernel in plan.kernels() if kernel.entry.startswith(f"{family}<"))  # type: ignore[attr-defined]
    text = with_delays(sources.read(kernel.file))
    assert text != sources.read(kernel.file)
    assert not compile_instance(text, kernel.entry, 90).warnings


@ON_GPU
@DATA_TYPES
@pytest.mark.parametrize("family", BETWEEN_BLOCKS)
def test_a_hundred_thousand_steps_with_late_blocks(family: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a layer, and of a network and its gradient."""
    steps, times = 2000, 50
    desc, _ = resetting_gru(512, 2, steps, dtype)
    net = stacked("lstm", 512, 2, steps, dtype)

    def both() -> tuple[Layer, Replayed]:
        device = gpu_for(family, desc, *descs_of(net))
        return Layer(device, 512, 2, steps, dtype), Replayed(device, net)

    plain = both()
    with delays(monkeypatch):
        late = both()
    for one, other in zip(plain, late, strict=True):
        soak(one, other, times)
