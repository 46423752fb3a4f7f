"""Variants that the model cannot rank are measured by `prepare`, with a clock of which the answers are known, and the choice is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.attention import division
from dmlpy.devices.cuda.convolution import plan, tiles
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.performance.autotuning import GAIN, VARIABLE, TunablePlan
from dmlpy.devices.cuda.plans import Target
from dmlpy.messages.hresult import HResult
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.gpu_models import H200
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close
from tests.support.tools import require

HALF: np.dtype[Any] = np.dtype(np.float16)
SMALL, LARGE = "Halves 64x64", "ManyHalves 128x128"


class Clocked(DryRunRuntime):
    """A GPU whose kernels take as long as told, in milliseconds: nothing is executed.

    Attributes:
        of_kernels: by a part of the entry's name.
        measured: launches between two events.
    """

    def __init__(self, of_kernels: dict[str, float]) -> None:
        super().__init__(H200)
        self.of_kernels, self.now, self.measured = of_kernels, 0.0, 0
        self.capturing = False

    def bind_launch(self, function: Any, *arguments: Any, **options: Any) -> Callable[[int], None]:
        def launch(stream: int) -> None:
            self.now += next((ms for part, ms in self.of_kernels.items() if f", {part}>" in function), 0.0)

        return launch

    def record_event(self, stream: int) -> Any:
        self.measured += 1
        return self.now

    def elapsed_ms(self, start: Any, end: Any) -> float:
        return float(end - start)

    def is_capturing(self, stream: int) -> bool:
        return self.capturing


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "1")
    for module in (tiles, division):  # whatever the estimates are
        monkeypatch.setattr(module, "unsure", lambda estimates: sorted(range(len(estimates)), key=estimates.__getitem__))


def convolution(channels: int = 256, pixels: int = 28, images: int = 32) -> dml.ConvolutionDesc:
    """Channels last, so that nothing is copied."""
    members: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "output_padding": (0, 0)}
    sizes = {"input": (images, 64, pixels, pixels), "filter": (channels, 64, 1, 1)}
    tensors = {}
    for name, (n, c, h, w) in sizes.items():
        tensors[f"{name}_tensor"] = dml.TensorDesc(data_type="FLOAT16", sizes=(n, c, h, w), strides=(c * h * w, 1, c * w, c))
    return dml.ConvolutionDesc(**tensors, start_padding=(0, 0), end_padding=(0, 0), **members).with_outputs()


def prepared(device: dml.Device, desc: dml.OperatorDesc | None = None, **constants: Any) -> Any:
    return dml.compile(desc or convolution(), device).prepare(**constants)


@pytest.mark.parametrize(
    ("of_kernels", "chosen"),
    [
        ({"Halves": 0.5, "ManyHalves": 0.3}, LARGE),
        ({"Halves": 0.2, "ManyHalves": 0.3}, SMALL),
        ({"Halves": 0.3 * (1 - GAIN / 2), "ManyHalves": 0.3}, LARGE),  # too little to leave the model's choice
    ],
)
def test_the_fastest_is_kept_unless_it_gains_little(of_kernels: dict[str, float], chosen: str) -> None:
    runtime = Clocked(of_kernels)
    found = prepared(CudaDevice(runtime))
    other = {SMALL: LARGE, LARGE: SMALL}[chosen]
    assert found.plan.startswith(f"strategy: {chosen}, faster than {other} when it was measured\n")
    assert f", {chosen.partition(' ')[0]}>: " in found.plan
    assert runtime.measured > 20  # 5 rounds of 2 variants, with 2 events each
    measured = runtime.measured
    prepared(CudaDevice(runtime))  # another process: it reads what was stored
    assert prepared(CudaDevice(Clocked({}))).plan == found.plan
    assert runtime.measured == measured


def test_the_nodes_of_a_graph_are_measured_when_it_is_compiled() -> None:
    """They take what operators have stored, and the graph's scratch is that of the variants."""
    runtime = Clocked({"Halves": 0.2, "ManyHalves": 0.3})
    device, desc = CudaDevice(runtime), convolution()
    builder = dml.GraphBuilder()
    members = {name: builder.input(name, getattr(desc, name)) for name in ("input_tensor", "filter_tensor")}
    attributes = {name: getattr(desc, name) for name in ("strides", "dilations", "start_padding", "end_padding", "output_padding")}
    builder.output("y", builder.add(dml.ConvolutionDesc, "convolution", output_tensor=desc.output_tensor, **members, **attributes))
    compiled = dml.compile(builder.build(), device)
    assert f"strategy: {SMALL}, faster than {LARGE} when it was measured" in compiled.plan
    measured = runtime.measured
    assert measured > 20
    assert prepared(device).plan.startswith(f"strategy: {SMALL}, ")
    assert runtime.measured == measured


@pytest.mark.parametrize("what", ["off", "wrong", "sure", "captured", "memory"])
def test_nothing_is_measured_where_it_cannot_or_need_not(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Clocked({"Halves": 0.1, "ManyHalves": 0.3})
    desc = convolution()
    if what == "wrong":
        monkeypatch.setenv(VARIABLE, "yes")
        with pytest.raises(dml.DeviceError, match="DMLPY_AUTOTUNE is 'yes', expected 0 or 1"):
            CudaDevice(runtime)
        return
    if what == "off":
        monkeypatch.delenv(VARIABLE)
    if what == "sure":
        monkeypatch.setattr(tiles, "unsure", lambda estimates: [int(np.argmin(estimates))])
    device = CudaDevice(runtime)
    if what == "memory":

        def allocate(size: int, stream: int) -> Any:
            raise dml.DeviceError("no memory", hresult=HResult.E_OUTOFMEMORY)

        monkeypatch.setattr(device, "_allocate", allocate)
        assert device.tuned(desc, own_plan(desc, device), 0).describe() == own_plan(desc, device).describe()
    else:
        runtime.capturing = what == "captured"
        assert "strategy" not in prepared(device, desc).plan
    assert runtime.measured == 0


def own_plan(desc: dml.ConvolutionDesc, device: CudaDevice) -> plan.ConvolutionPlan:
    return plan.convolution_plan(desc, Target(device.library))


def test_a_launch_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Clocked({})

    def fail(start: Any, end: Any) -> float:
        raise dml.DeviceError("an illegal address")

    monkeypatch.setattr(runtime, "elapsed_ms", fail)
    with pytest.raises(dml.DeviceError, match="an illegal address"):
        prepared(CudaDevice(runtime))


def test_every_variant_gives_the_results() -> None:
    """The parts of an attention's keys, on the emulated device, whichever is the fastest there."""
    require("g++")
    device, rng = CudaDevice(EmulatedRuntime()), np.random.default_rng(3)
    sizes = {"query": (1, 2, 32), "key": (1, 600, 32), "value": (1, 600, 32)}
    given = {f"{name}_tensor": rng.normal(size=size).astype(np.float16) for name, size in sizes.items()}
    members: dict[str, Any] = {"head_count": 1, "scale": 0.2, "mask_filter_value": -1e4, "mask_type": "NONE"}
    tensors = {name: tensor(*array.shape, data_type="FLOAT16") for name, array in given.items()}
    attention = dml.MultiheadAttentionDesc(**tensors, **members).with_outputs()
    operator = dml.compile(attention, device)
    assert isinstance(operator._plan, TunablePlan)
    variants = operator._plan.variants()
    assert len(variants) > 1
    tuned = operator.prepare()
    assert "of the keys, faster than" in tuned.plan.splitlines()[0]
    assert tuned.plan.splitlines()[0].startswith("strategy: ")
    wanted = dml.compile(attention, "numpy")(**given).output_tensor
    runs: list[Any] = [tuned, *(replace(operator, _plan=make()) for make in variants.values())]
    for run in runs:
        assert_close(device.to_host(run(copy=True, **given).output_tensor), wanted.astype(np.float64), HALF, terms=200)
