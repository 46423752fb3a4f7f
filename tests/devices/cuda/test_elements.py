"""The operators that run by the element engine on CUDA, in every layout and type, and the engine itself."""

from __future__ import annotations

import mmap
from math import prod
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.arrays import array_at
from dmlpy.devices.axes import Axis
from dmlpy.devices.cuda.common import element_engine, element_tiles
from dmlpy.devices.cuda.common.axes import axes_value
from dmlpy.devices.cuda.common.element_engine import Elementwise, View, numbers
from dmlpy.devices.cuda.common.functors import Functor
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.movement.copies import COPY, FILE
from dmlpy.inspection.samples import sample
from tests.conftest import CUDA_DEVICES, cuda_on_cpu
from tests.support.cuda.instances.elementwise import engine_operators
from tests.support.operators.layout_runs import (
    by_definition,
    check_layouts,
    failures_in_layouts,
    layouts,
    random_values,
    repeated,
    run,
    same,
)
from tests.support.operators.operator_types import of_all_types
from tests.support.tolerance import assert_close
from tests.support.tools import require

KINDS = {kind.short_name(): kind for kind in engine_operators() if "ACTIVATION" not in kind.short_name()}
"""The activations have tests of their own: tests/devices/test_activations.py."""

Array = np.ndarray[Any, Any]


def in_spread_memory(desc: dml.OperatorDesc, device: dml.Device, seed: int = 0) -> None:
    """Fails unless tensors with gaps and axes in the opposite order equal the definition: bit for bit except for floating point."""
    rng = np.random.default_rng(seed)
    _, spread = layouts(desc)
    slots = [slot for slot in spread.input_slots() if slot.tensor is not None]
    arrays = {slot.place: repeated(random_values(rng, slot.tensor), slot.tensor) for slot in slots}
    found, exact = run(spread, arrays, device), by_definition(spread, arrays)
    for place, result in found.items():
        with np.errstate(over="ignore"):
            wanted = np.broadcast_to(exact[place], result.shape).astype(result.dtype)
        if result.dtype.kind == "f":
            assert_close(result, wanted, result.dtype, what=place)
        else:
            same(result, wanted, place)


@pytest.mark.parametrize("cuda_device", CUDA_DEVICES, indirect=True)
@pytest.mark.parametrize("name", KINDS)
def test_one_type(cuda_device: dml.Device, name: str) -> None:
    in_spread_memory(sample(KINDS[name]), cuda_device)


@pytest.mark.slow
@pytest.mark.parametrize("cuda_device", CUDA_DEVICES, indirect=True)
@pytest.mark.parametrize("name", KINDS)
def test_layouts(cuda_device: dml.Device, name: str) -> None:
    assert failures_in_layouts(name, device=cuda_device) == []


@pytest.mark.slow
@pytest.mark.parametrize("cuda_device", CUDA_DEVICES, indirect=True)
@pytest.mark.parametrize("name", KINDS)
def test_all_types(cuda_device: dml.Device, name: str) -> None:
    descs = list(of_all_types(KINDS[name]))
    assert descs
    for desc in descs:
        check_layouts(desc, np.random.default_rng(1), sums=False, device=cuda_device)


WIDE = [("FLOAT32", 4), ("FLOAT16", 8), ("UINT8", 16), ("INT64", 2)]


@pytest.mark.parametrize("cuda_device", CUDA_DEVICES, indirect=True)
@pytest.mark.parametrize(("data_type", "width"), WIDE)
@pytest.mark.parametrize("rest", [0, 1])
def test_a_row_and_its_rest(cuda_device: dml.Device, data_type: str, width: int, rest: int) -> None:
    """As many elements at once as 16 bytes have, the last ones one by one; b is one element that repeats."""
    count = 5 * width + rest
    x = dml.TensorDesc(data_type=data_type, sizes=[count])
    desc = dml.ElementWiseAddDesc(a_tensor=x, b_tensor=x.replace(strides=[0]), output_tensor=x)
    plan = dml.compile(desc, cuda_device).plan
    assert f"<element_wise::Add, {width}, " in plan
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 100, count).astype(x.data_type.numpy) for _ in range(2))
    arrays = {"a_tensor": a, "b_tensor": np.broadcast_to(b[:1], (count,))}
    same(run(desc, arrays, cuda_device)["output_tensor"], a + b[0], data_type)


def integers(count: int) -> Array:
    limits = np.iinfo(np.int64)
    ends = [limits.min, limits.min + 1, -(2**53) - 1, -1, 0, 1, 2**53 + 1, limits.max - 1, limits.max]
    return np.array([*ends, *np.random.default_rng(1).integers(limits.min, limits.max, count - len(ends))], np.int64)


SCALES = [(1.0, 0.0), (-1.0, 0.0), (3.0, -7.0), (-(2.0**40), 2.0**62), (0.0, -(2.0**62)), (1.0, 2.0**62)]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8"])
@pytest.mark.parametrize(("scale", "bias"), SCALES)
def test_whole_scales_of_integers_are_exact(any_device: dml.Device, dtype: str, scale: float, bias: float) -> None:
    """2^53 + 1 stays what it is, and what the type cannot hold becomes its nearest number."""
    x = integers(41).astype(dtype)
    limits = np.iinfo(x.dtype)
    desc = dml.ElementWiseIdentityDesc(input_tensor=dml.TensorDesc.of(x), scale_bias={"Scale": scale, "Bias": bias}).with_outputs()
    expected = [min(max(value * int(scale) + int(bias), limits.min), limits.max) for value in x.tolist()]
    assert run(desc, {"input_tensor": x}, any_device)["output_tensor"].tolist() == expected
    assert dml.reference(desc, {"input_tensor": x}).as_dict()["output_tensor"].tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("exponent", [0.5, 2.0, -3.0, 0.25, -0.125, 5.0, -1.5])
def test_powers_of_what_is_negative(any_device: dml.Device, exponent: float, dtype: Any) -> None:
    """NaN unless the exponent is whole, that of minus infinity too."""
    x = np.array([-np.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan], dtype)
    desc = dml.ElementWiseConstantPowDesc(input_tensor=dml.TensorDesc.of(x), exponent=exponent).with_outputs()
    found = run(desc, {"input_tensor": x}, any_device)["output_tensor"]
    whole = exponent == int(exponent)
    with np.errstate(divide="ignore"):
        expected = [float(np.power(np.float64(value), exponent)) if whole or not value < 0 else np.nan for value in x]
    assert_close(found, np.array(expected), dtype)


def test_more_than_eight_axes(any_device: dml.Device) -> None:
    """TILE runs along repetitions and sizes in turns: 16 axes of a tensor of 8."""
    x = np.arange(2**8, dtype=np.uint8).reshape((2,) * 8)
    desc = dml.TileDesc(input_tensor=dml.TensorDesc.of(x), repeats=[2] * 8).with_outputs()
    same(run(desc, {"input_tensor": x}, any_device)["output_tensor"], np.tile(x, (2,) * 8), "tiled")


@settings(suppress_health_check=[HealthCheck.too_slow])  # a machine may be busy
@given(st.integers(1, 2**32 - 1), st.lists(st.integers(0, 2**32 - 1), max_size=5))
def test_divisors_divide_exactly(size: int, dividends: list[int]) -> None:
    """By the arithmetic of `Divisor::quotient`, in 32 bits."""
    divisor, multiplier, first, second = axes_value([Axis(size, (1,))], 1)["sizes"][0].tolist()
    for number in {*dividends, 0, size - 1, size, 2 * size - 1, 2**32 - 1, (2**32 - 1) // size * size, (2**32 - 1) // size * size - 1}:
        if number < 2**32:
            high = number * multiplier >> 32
            assert (high + ((number - high) >> first)) >> second == number // divisor


def test_parts_of_work_for_which_one_launch_is_too_small(cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of few packs each, as of more than 2^32 of them, number and place all elements."""
    sizes = (7, 5, 3)
    x = np.random.default_rng(0).integers(0, 2**31, sizes).astype(np.uint32)
    monkeypatch.setattr(element_engine, "_MOST_NUMBERS", 40)
    tensor = dml.TensorDesc.of(x)
    desc = dml.ElementWiseBitNotDesc(input_tensor=tensor.replace(strides=[1, 21, 7]), output_tensor=tensor)
    runtime = cuda_device.runtime  # type: ignore[attr-defined]
    counts = runtime.counts if isinstance(runtime, EmulatedRuntime) else None  # a GPU counts none
    if counts is not None:
        counts.clear()
    same(run(desc, {"input_tensor": x}, cuda_device)["output_tensor"], ~x, "not")
    assert counts is None or counts["launch"] + counts["bind_launch"] >= 4
    filled = dml.FillValueSequenceDesc(output_tensor=tensor, value_data_type="UINT32", value_start=5, value_delta=3)
    same(run(filled, {}, cuda_device)["output_tensor"], (5 + 3 * np.arange(prod(sizes), dtype=np.uint32)).reshape(sizes), "sequence")


PERMUTATIONS = [
    ((40, 50), (1, 0)),
    ((32, 32), (1, 0)),
    ((33, 16), (1, 0)),
    ((3, 17, 65), (0, 2, 1)),
    ((17, 3, 33), (2, 1, 0)),
    ((2, 35, 5, 31), (0, 3, 1, 2)),
    ((2, 35, 5, 31), (3, 0, 2, 1)),
]


@pytest.mark.parametrize("data_type", ["UINT8", "FLOAT16", "FLOAT32", "INT64"])
@pytest.mark.parametrize(("sizes", "order"), PERMUTATIONS, ids=str)
def test_an_input_that_lies_across_the_output(
    cuda_device: dml.Device, sizes: tuple[int, ...], order: tuple[int, ...], data_type: str
) -> None:
    """It goes through shared memory by tiles, some of them cut off."""
    rng, output = np.random.default_rng(0), dml.TensorDesc(data_type=data_type, sizes=sizes)
    strides = [prod(sizes[axis] for axis in order[order.index(at) + 1 :]) for at in range(len(sizes))]
    across = output.replace(strides=strides)
    desc = dml.ElementWiseIdentityDesc(input_tensor=across, output_tensor=output)
    assert "crossed_elements<" in dml.compile(desc, cuda_device).plan
    x = rng.integers(0, 100, sizes).astype(output.data_type.numpy)
    same(run(desc, {"input_tensor": x}, cuda_device)["output_tensor"], x, "copied")
    one = dml.TensorDesc(data_type=data_type, sizes=sizes, strides=[0] * len(sizes))
    others = {"in order": output, "across too": across, "one element": one}
    for name, other in others.items():
        summed = dml.ElementWiseAddDesc(a_tensor=other, b_tensor=across, output_tensor=output)
        assert "crossed_elements<" in dml.compile(summed, cuda_device).plan
        y = repeated(rng.integers(0, 100, sizes).astype(x.dtype), other)
        same(run(summed, {"a_tensor": y, "b_tensor": x}, cuda_device)["output_tensor"], x + y, name)


def test_numbered_elements_with_an_input_that_lies_across(cuda_device: dml.Device) -> None:
    x = np.random.default_rng(0).standard_normal((2, 40, 50)).astype(np.float32)
    output = dml.TensorDesc.of(x)
    across = output.replace(strides=[2000, 1, 40])
    members = {"value_data_type": "FLOAT32", "value": 2.0, "diagonal_fill_begin": -1, "diagonal_fill_end": 2}
    desc = dml.DiagonalMatrix1Desc(input_tensor=across, output_tensor=output, **members)
    assert "crossed_elements<" in dml.compile(desc, cuda_device).plan
    rows, columns = np.indices((40, 50))
    diagonals = (columns - rows >= -1) & (columns - rows < 2)
    same(run(desc, {"input_tensor": x}, cuda_device)["output_tensor"], np.where(diagonals, np.float32(2), x), "diagonals")


def copied_across(runtime: EmulatedRuntime) -> None:
    """A block takes several tiles one after the other, the last of them cut off."""
    require("g++")
    x = np.random.default_rng(0).integers(0, 2**16, (33, 17)).astype(np.uint16)
    output = dml.TensorDesc.of(x)
    desc = dml.ElementWiseIdentityDesc(input_tensor=output.replace(strides=[1, 33]), output_tensor=output)
    with patch.object(element_tiles, "_MOST_BLOCKS", 1):
        same(run(desc, {"input_tensor": x}, CudaDevice(runtime))["output_tensor"], x, "copied")
    runtime.check_guards()


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_the_sanitizers_find_nothing_in_tiles(sanitizers: str) -> None:
    copied_across(EmulatedRuntime(sanitize=sanitizers))


@pytest.mark.parametrize("place", [0, 1])
def test_the_thread_sanitizer_misses_every_barrier_of_tiles(place: int) -> None:
    with pytest.raises(dml.DeviceError, match="data race"):
        copied_across(EmulatedRuntime(sanitize="thread", fault=("__syncthreads();", place)))


def test_what_tiles_do_not_pay_for(cuda_device: dml.Device) -> None:
    """Few elements along one of the axes, neighbours that share a byte, an output with gaps."""
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[50, 3])
    outputs = [(tensor, [1, 50]), (tensor.replace(sizes=[50, 40], strides=[80, 2]), [1, 50])]
    for output, strides in outputs:
        desc = dml.ElementWiseIdentityDesc(input_tensor=output.replace(strides=strides), output_tensor=output)
        assert "crossed" not in dml.compile(desc, cuda_device).plan
    nibbles = dml.TensorDesc(data_type="INT4", sizes=[40, 50], strides=[1, 40])
    desc4 = dml.DequantizeDesc(
        input_tensor=nibbles, quantization_type="SCALE", quantization_tensors=[tensor.replace(sizes=[1, 1])]
    ).with_outputs()
    assert "crossed" not in dml.compile(desc4, cuda_device).plan


@pytest.mark.parametrize("step", [2**31 - 1, 2**31, 2**33 + 5])
def test_places_beyond_32_bits(step: int) -> None:
    """Elements at distances that an int cannot hold, in address space of which only the pages of these elements have memory."""
    device = cuda_on_cpu()
    assert isinstance(device, CudaDevice)
    with mmap.mmap(-1, step + 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000) as memory:  # MAP_NORESERVE
        whole = np.frombuffer(memory, np.uint8)
        start = whole.ctypes.data
        x, y = array_at(start, (2,), np.dtype(np.uint8), (step,)), np.zeros(2, np.uint8)
        x[...] = 3, 200
        copy = Elementwise(COPY, (2,), View("y", "unsigned char", (1,)), [View("x", "unsigned char", (step,))])
        assert ("int," in copy.kernel().entry.partition("long long")[0]) == (step < 2**31)
        for launch in copy.bind(device.library, {"x": start, "y": y.ctypes.data}):
            launch(0)
        assert y.tolist() == [3, 200]
        del x, whole


def test_numbers_beyond_32_bits() -> None:
    """The number of an element counts in 64 bits where its strides reach that far."""
    device = cuda_on_cpu()
    assert isinstance(device, CudaDevice)
    functor = Functor(FILE, "movement::Sequence<long long>", (("start", "int64", 0), ("delta", "int64", 1)))
    y = np.zeros(3, np.int64)
    far = View(None, "Place", (2**40,))
    for launch in Elementwise(functor, (3,), View("y", "long long", (1,)), [far]).bind(device.library, {"y": y.ctypes.data}):
        launch(0)
    assert y.tolist() == [0, 2**40, 2**41]
    assert numbers((2, 3, 4)).strides == (12, 4, 1)
