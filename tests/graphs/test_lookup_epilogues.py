"""Tables of bytes that are part of the quantized convolution before them: which ones, and that results stay the same bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

import dmlpy as dml
from dmlpy import compiler
from dmlpy.devices.cpu.quantized import products
from dmlpy.devices.cpu.quantized.convolution import ByteConvolutionPlan
from dmlpy.devices.cpu.quantized.plane_tiling import DEPTHWISE_PLANES
from dmlpy.devices.cpu.quantized.products import host_byte_isa
from dmlpy.devices.cpu.quantized.tiling import CONVOLUTION, DEPTHWISE
from dmlpy.graphs import GraphBuilder
from tests.support.operators.layout_runs import Array
from tests.support.tensors import tensor

MOVES_BYTES = pytest.mark.skipif(not host_byte_isa().moves_bytes, reason="this machine moves no bytes within registers of 512 bits")


@dataclass(frozen=True)
class Case:
    """A convolution, and the function of its results.

    Attributes:
        sizes: those of the input.
        filters: those of the filters.
        strides: of the window, along both axes.
        groups: groups of channels.
        zero: the zero point of the filters.
        types: of the input and the results.
        of_channels: whether each channel has a function of its own: a batch normalization, else the product of a number and its sigmoid.
        gap: elements behind each row of the function's results.
        also_read: whether another node reads the convolution's results.
    """

    sizes: tuple[int, ...]
    filters: tuple[int, ...]
    strides: int = 1
    groups: int = 1
    zero: int = 0
    types: tuple[str, str] = ("UINT8", "UINT8")
    of_channels: bool = True
    gap: int = 0
    also_read: bool = False

    def graph(self) -> dml.Graph:
        g, window = GraphBuilder("network"), self.filters[-1]
        (images, *_), pads = self.sizes, (window // 2,) * 2
        out = (images, self.filters[0], *((size - 1) // self.strides + 1 for size in self.sizes[2:]))

        def one(name: str, dtype: str = "FLOAT32", *, repeats: bool = False) -> Any:
            sizes = out if repeats else (1, 1, 1, 1)
            return g.input(name, tensor(*sizes, data_type=dtype, strides=[0] * 4 if repeats else None, flags="OWNED_BY_DML"))

        y = g.add(
            dml.QuantizedLinearConvolutionDesc,
            "convolution",
            input_tensor=g.input("x", tensor(*self.sizes, data_type=self.types[0])),
            input_scale_tensor=one("x_scale"),
            input_zero_point_tensor=one("x_zero", self.types[0]),
            filter_tensor=g.input("w", tensor(*self.filters, data_type="INT8", flags="OWNED_BY_DML")),
            filter_scale_tensor=one("w_scale"),
            filter_zero_point_tensor=one("w_zero", "INT8"),
            output_scale_tensor=one("y_scale"),
            output_zero_point_tensor=one("y_zero", self.types[1]),
            output_tensor=tensor(*out, data_type=self.types[1]),
            strides=[self.strides] * 2,
            dilations=[1, 1],
            start_padding=pads,
            end_padding=pads,
            group_count=self.groups,
        )
        scales = {"scale_tensor": one("scale", repeats=True), "zero_point_tensor": one("zero", self.types[1], repeats=True)}
        number = g.add(dml.ElementWiseDequantizeLinearDesc, "dequantize", input_tensor=y, output_tensor=tensor(*out), **scales)
        if self.of_channels:
            entries = {
                f"{name}_tensor": g.input(name, tensor(1, out[1], 1, 1, flags="OWNED_BY_DML"))
                for name in ("mean", "variance", "scales", "bias")
            }
            entries["scale_tensor"] = entries.pop("scales_tensor")
            found = g.add(dml.BatchNormalizationDesc, "function", input_tensor=number, **entries, epsilon=0.25)
        else:
            found = g.add(dml.ActivationSwishDesc, "function", input_tensor=number, sigmoid_input_scale=1.0, output_tensor=tensor(*out))
        row = out[3] + self.gap
        strides = [out[1] * out[2] * row, out[2] * row, row, 1] if self.gap else None
        result = tensor(*out, data_type=self.types[1], strides=strides)
        g.output("y", g.add(dml.ElementWiseQuantizeLinearDesc, "quantize", input_tensor=found, output_tensor=result, **scales))
        if self.also_read:
            g.output("z", y)
        return g.build()

    def arrays(self, compiled: dml.CompiledGraph) -> dict[str, Array]:
        """Random bytes, and scales that are powers of 2, with which some results of the convolution are ties."""
        rng = np.random.default_rng(7)
        found: dict[str, Array] = {}
        for name, desc in compiled.inputs.items():
            if name in ("x", "w"):
                bytes_of = rng.integers(0, 256, desc.sizes, np.uint8) if name == "x" else rng.integers(0, 6, desc.sizes, np.uint8)
                found[name] = bytes_of.view(desc.data_type.numpy)
            elif desc.data_type.bits == 8:
                found[name] = np.broadcast_to(np.array(self.zero if name == "w_zero" else 3, desc.data_type.numpy), desc.sizes)
            elif desc.sizes[1] > 1 and not name.endswith("scale"):
                found[name] = rng.uniform(0.1, 0.9, desc.sizes).astype(np.float32)
            else:
                value = {"w_scale": 0.5, "y_scale": 4.0 * 2 ** int(np.log2(np.prod(self.filters[1:]))), "scale": 0.05}.get(name, 1.0)
                found[name] = np.broadcast_to(np.float32(value), desc.sizes)
        return found


FUSED: dict[str, tuple[Case, Any]] = {
    "pointwise": (Case((2, 9, 7, 9), (13, 9, 1, 1)), CONVOLUTION),
    "pointwise, one table": (Case((1, 8, 8, 8), (12, 8, 1, 1), of_channels=False), CONVOLUTION),
    "groups": (Case((1, 6, 11, 13), (8, 3, 3, 3), groups=2, types=("INT8", "INT8")), CONVOLUTION),
    "strides": (Case((1, 3, 21, 23), (7, 3, 3, 3), strides=2, types=("UINT8", "INT8")), CONVOLUTION),
    "zero points of filters": (Case((1, 5, 9, 10), (7, 5, 3, 3), zero=2), CONVOLUTION),
    "rows with gaps": (Case((1, 5, 3, 37), (7, 5, 1, 1), gap=3), CONVOLUTION),
    "planes": (Case((2, 5, 9, 10), (5, 1, 3, 3), groups=5), DEPTHWISE_PLANES),
    "planes, one table": (Case((1, 5, 14, 14), (5, 1, 3, 3), strides=2, groups=5, of_channels=False), DEPTHWISE_PLANES),
    "planes, zero points of filters": (Case((1, 5, 9, 10), (5, 1, 3, 3), groups=5, zero=2, types=("INT8", "UINT8")), DEPTHWISE_PLANES),
    "large planes": (Case((1, 2, 300, 303), (2, 1, 3, 3), groups=2), DEPTHWISE),
    "large planes, zero points of filters": (Case((1, 2, 300, 303), (2, 1, 3, 3), groups=2, zero=2, types=("INT8", "INT8")), DEPTHWISE),
}
APART = {
    "another reader": Case((1, 9, 7, 9), (13, 9, 1, 1), also_read=True),
    "windows that take all registers": Case((1, 5, 9, 10), (5, 1, 5, 5), groups=5),
}


def convolutions(compiled: dml.CompiledGraph) -> list[ByteConvolutionPlan]:
    return [plan for step in compiled._program.steps if isinstance(plan := step.operator._plan, ByteConvolutionPlan)]


def same(case: Case, whole: dml.CompiledGraph) -> None:
    """The graph has the results of its nodes, prepared or not."""
    given, apart = case.arrays(whole), dml.compile(case.graph(), "cpu", fuse=False)
    expected = apart(**given).as_dict()
    assert len(np.unique(expected["y"])) > 20
    owned = {name: given[name] for name in whole.prepared_inputs}
    for found in (whole(**given).as_dict(), whole.prepare(**owned)(x=given["x"]).as_dict()):
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name])


@MOVES_BYTES
@pytest.mark.parametrize("name", FUSED)
def test_results_of_convolutions_are_looked_up(name: str) -> None:
    case, kernel = FUSED[name]
    whole = dml.compile(case.graph(), "cpu")
    report = whole.explain_plan()
    assert (report.order, report.chains) == (("convolution",), ())
    assert report.fused == {"convolution": ("dequantize", "function", "quantize")}
    (plan,) = convolutions(whole)
    assert plan._kernel[0] is kernel
    assert f"{'tables' if case.of_channels else '1 table'} of 256 bytes hold all results of" in whole.plan
    same(case, whole)


@MOVES_BYTES
@pytest.mark.parametrize("threads", [1, 2])
def test_threads_look_results_up(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from dmlpy.devices.cpu.quantized import convolution

    monkeypatch.setattr(convolution, "available_threads", lambda: threads)
    monkeypatch.setattr(convolution, "_WORK_OF_A_THREAD", 1)
    case = Case((threads, 9, 19, 21), (13, 9, 1, 1))
    whole = dml.compile(case.graph(), "cpu")
    assert f"on {threads} thread" in whole.plan
    same(case, whole)


@pytest.mark.parametrize("name", APART)
def test_what_is_looked_up_apart(name: str) -> None:
    whole = dml.compile(APART[name].graph(), "cpu")
    assert whole.explain_plan().order == ("convolution", "quantize")
    same(APART[name], whole)


@pytest.fixture
def other_processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that takes no bytes from any places of registers, while no plan of this one is cached."""
    isa = replace(host_byte_isa(), moves_bytes=False)
    monkeypatch.setattr(products, "host_byte_isa", lambda: isa)
    compiler._compile_operator.cache_clear()
    yield
    compiler._compile_operator.cache_clear()


@pytest.mark.usefixtures("other_processor")
def test_other_processors_look_up_apart() -> None:
    case, _ = FUSED["pointwise"]
    whole = dml.compile(case.graph(), "cpu")
    assert whole.explain_plan().order == ("convolution", "quantize")
    same(case, whole)
