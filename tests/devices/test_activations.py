"""The element-wise activation operators, unfused, on every device: values, limits, types, layouts, and what a plan promises."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.numpy.activation import elements
from dmlpy.devices.numpy.activation.elements import ElementsPlan
from tests.support.operators.activation_cases import label
from tests.support.operators.activation_runs import (
    ACTIVATIONS,
    DTYPES,
    EACH,
    LAYOUTS,
    SAMPLE,
    SIZES,
    Array,
    Arrays,
    described,
    in_order,
    inputs,
    laid_out,
    oracle,
    output_of,
    random_values,
    run,
)
from tests.support.recurrent.layer_runs import GUARD, Placed
from tests.support.tables import table
from tests.support.tolerance import assert_close
from tests.support.tools import require

INF, NAN = float("inf"), float("nan")


def rounded(desc: dml.ActivationDesc) -> dml.ActivationDesc:
    """The operator with attributes as its struct holds them: float32."""
    return desc.replace(**{name: float(np.float32(getattr(desc, name))) for name in desc.attribute_names()})


def defined(desc: dml.ActivationDesc, arrays: Arrays) -> Array:
    """The output by `dml.reference`."""
    (output,) = dml.reference(desc, arrays).as_dict().values()
    return np.asarray(output)


# values


@DTYPES
@table("desc", ACTIVATIONS, ids=label)
def test_random_values(any_device: dml.Device, desc: dml.ActivationDesc, dtype: Any) -> None:
    """Near zero, where most functions bend, and further out; 203 elements leave some over after any pack."""
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(0.0, 1.0, 150), rng.uniform(-12.0, 12.0, 53)]).reshape(7, 29).astype(dtype)
    arrays = inputs(desc, x, rng.normal(0.0, 2.0, x.shape).astype(dtype))
    found = run(any_device, desc, arrays)
    assert found.dtype == dtype
    assert_close(found, oracle(rounded(desc), arrays), dtype)
    np.testing.assert_allclose(defined(described(desc, arrays), arrays), oracle(rounded(desc), arrays), rtol=1e-12, atol=1e-14)


def special_values(dtype: Any) -> Array:
    limits = np.finfo(dtype)
    positive = [0.0, limits.smallest_subnormal, limits.tiny, 0.5, 1.0, 20.0, 85.0, float(limits.max) / 2, limits.max, INF]
    return np.array([*positive, *(-value for value in positive), NAN], dtype)


@DTYPES
@table("desc", ACTIVATIONS, ids=label)
def test_special_values(any_device: dml.Device, desc: dml.ActivationDesc, dtype: Any) -> None:
    """Zeros, infinities, NaN, the largest and smallest numbers; a result that the type does not hold is infinite."""
    values = special_values(dtype)
    each_with_each = values.repeat(values.size), np.tile(values, values.size)
    arrays = inputs(desc, *(each_with_each if len(desc.inputs()) == 2 else (values,)))
    with np.errstate(all="ignore"):
        expected = oracle(rounded(desc), arrays).astype(dtype)
    limits = np.finfo(dtype)
    found = run(any_device, desc, arrays)
    # A rounded exponent is off by as much as the result is relatively.
    close = {"rtol": 2e-3 if dtype == np.float16 else 1e-5, "atol": 4 * float(limits.smallest_subnormal)}
    wrong = ~np.isclose(found.astype(np.float64), expected.astype(np.float64), **close, equal_nan=True)
    assert not wrong.any(), [(*(array[at] for array in arrays.values()), found[at], expected[at]) for at in np.flatnonzero(wrong)[:5]]


@DTYPES
@pytest.mark.parametrize(
    "desc",
    [
        dml.ActivationEluDesc(alpha=1e6),
        dml.ActivationEluDesc(alpha=-1e-6),
        dml.ActivationCeluDesc(alpha=-1e-3),
        dml.ActivationCeluDesc(alpha=-50.0),
        dml.ActivationCeluDesc(alpha=1e-38),
        dml.ActivationCeluDesc(alpha=1e4),
        dml.ActivationScaledEluDesc(alpha=1e30, gamma=-1e-30),
        dml.ActivationSoftplusDesc(steepness=3e38),
        dml.ActivationParametricSoftplusDesc(alpha=2.0, beta=-3e38),
        dml.ActivationParametricSoftplusDesc(alpha=-1e38, beta=1.0),
    ],
    ids=label,
)
def test_attributes_of_any_size(any_device: dml.Device, desc: dml.ActivationDesc, dtype: Any) -> None:
    """Arguments of both signs where e^x - 1 turns from a series to a power, and where powers are nearly the smallest numbers."""
    steps = np.linspace(0.0, 1.2, 49)
    x = np.concatenate([steps, -steps, np.linspace(-88.0, -80.0, 17), [-1e-3, -6e-4, -20.0, -200.0]]).astype(dtype)
    arrays = inputs(desc, x)
    with np.errstate(over="ignore"):
        expected = oracle(rounded(desc), arrays).astype(dtype)
    smallest = float(np.finfo(dtype).smallest_subnormal)
    np.testing.assert_allclose(run(any_device, desc, arrays), expected, rtol=2e-3 if dtype == np.float16 else 2e-5, atol=4 * smallest)


def test_small_results_of_swish(any_device: dml.Device) -> None:
    """Where 1 + e^x has long been 1, and down to the smallest numbers."""
    x = np.linspace(-86.0, -10.0, 101, dtype=np.float32)
    arrays = inputs(dml.ActivationSwishDesc(), x)
    np.testing.assert_allclose(run(any_device, dml.ActivationSwishDesc(), arrays), oracle(dml.ActivationSwishDesc(), arrays), rtol=1e-5)


def test_digits_of_swish_do_not_depend_on_neighbours(every_device: dml.Device) -> None:
    """Those of which the sigmoid has no digits take another way."""
    x = np.linspace(-3.0, 3.0, 101, dtype=np.float32)
    beside = np.where(np.arange(101) % 8, x, np.float32(-90.0))
    found, wanted = (run(every_device, dml.ActivationSwishDesc(), inputs(dml.ActivationSwishDesc(), each)) for each in (beside, x))
    np.testing.assert_array_equal(found[beside == x], wanted[beside == x])


def test_every_float16(any_device: dml.Device) -> None:
    """RELU and its gradient round nothing: all 65536 numbers, NaN of either sign among them, come out as float32 has them."""
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    wide, other = x.astype(np.float32), np.roll(x, 12345)
    relu = run(any_device, dml.ActivationReluDesc(), inputs(dml.ActivationReluDesc(), x))
    np.testing.assert_array_equal(relu, np.maximum(wide, 0))
    gradient = run(any_device, dml.ActivationReluGradDesc(), inputs(dml.ActivationReluGradDesc(), x, other))
    np.testing.assert_array_equal(gradient, np.where(wide > 0, other, np.float16(0)))


# integers

SIGNED, UNSIGNED = (np.int32, np.int16, np.int8), (np.uint32, np.uint16, np.uint8)
SHRINKS = [
    dml.ActivationShrinkDesc(),
    dml.ActivationShrinkDesc(bias=90.7, threshold=2.0),
    dml.ActivationShrinkDesc(bias=-90.7, threshold=-3.5),
    dml.ActivationShrinkDesc(bias=3e9, threshold=0.0),
    dml.ActivationShrinkDesc(bias=-3e9, threshold=0.0),
    dml.ActivationShrinkDesc(bias=INF, threshold=1.0),
    dml.ActivationShrinkDesc(bias=0.1, threshold=1.1),
    dml.ActivationShrinkDesc(bias=2.0**24 + 1.0, threshold=3.0),  # not between two 32-bit floats
]


def integers(dtype: Any, count: int, seed: int) -> Array:
    """The extremes of a type, what is around zero and around 16 bits, and random numbers."""
    limits, rng = np.iinfo(dtype), np.random.default_rng(seed)
    corners = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2, 3, 90, 91, 92]
    corners += [value for value in (-1, -2, -3, -91, 2**15 - 1, 2**15, 2**16 + 1) if limits.min <= value <= limits.max]
    random = rng.integers(limits.min, limits.max, count - len(corners), dtype, endpoint=True)
    return rng.permutation(np.concatenate([np.array(corners, dtype), random]))


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("kind", [dml.ActivationReluDesc, dml.ActivationParameterizedReluDesc, dml.ActivationReluGradDesc])
def test_integers(any_device: dml.Device, kind: type[dml.ActivationDesc], dtype: Any) -> None:
    """Exact; a product keeps its lowest bits."""
    desc, bits = kind(), 8 * np.dtype(dtype).itemsize
    arrays = inputs(desc, integers(dtype, 301, 2), integers(dtype, 301, 3))
    x, other = ([int(value) for value in array] for array in (*arrays.values(), next(iter(arrays.values())))[:2])
    half, pairs = 2 ** (bits - 1), list(zip(x, other, strict=True))
    expected = {
        "Relu": [max(0, a) for a in x],
        "ParameterizedRelu": [a if a >= 0 else (a * b + half) % (2 * half) - half for a, b in pairs],
        "ReluGrad": [b if a > 0 else 0 for a, b in pairs],
    }[label(desc)]
    found = run(any_device, desc, arrays)
    np.testing.assert_array_equal(found, np.array(expected, dtype))
    np.testing.assert_array_equal(defined(described(desc, arrays), arrays), found)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integers_shrunk(any_device: dml.Device, dtype: Any) -> None:
    """Computed in float64, rounded toward zero, held within the type's range; NaN gives the smallest, as Python's max does."""
    limits = np.iinfo(dtype)
    for desc in (*SHRINKS, dml.ActivationShrinkDesc(bias=NAN), dml.ActivationShrinkDesc(bias=1.0, threshold=NAN)):
        arrays, expected = inputs(desc, integers(dtype, 211, 4)), []
        bias, threshold = float(np.float32(desc.bias)), float(np.float32(desc.threshold))
        for value in map(int, arrays["input_tensor"]):
            exact = value - bias if value > threshold else value + bias if value < -threshold else 0.0
            expected.append(int(max(limits.min, min(exact, limits.max))))
        found = run(any_device, desc, arrays)
        np.testing.assert_array_equal(found, np.array(expected, dtype), err_msg=repr(desc))
        np.testing.assert_array_equal(defined(described(desc, arrays), arrays), found)


LEVELS: list[tuple[dml.ActivationDesc, Any, str]] = [
    (desc, dtype, "5_1")
    for desc, dtypes in (
        (dml.ActivationReluDesc(), SIGNED),
        (dml.ActivationParameterizedReluDesc(), SIGNED),
        (dml.ActivationReluGradDesc(), SIGNED),
        (dml.ActivationShrinkDesc(), SIGNED + UNSIGNED),
    )
    for dtype in dtypes
] + [(desc, np.float16, "6_2") for desc in (dml.ActivationSwishDesc(), dml.ActivationHardSwishDesc())]


@table(("desc", "dtype", "level"), LEVELS, ids=lambda value: value if isinstance(value, str) else None)
def test_feature_levels(desc: dml.ActivationDesc, dtype: Any, level: str) -> None:
    """What came with a level compiles there and not before."""
    operator = described(desc, inputs(desc, np.ones((2, 3), dtype)))
    assert dml.compile(operator, device="numpy", feature_level=level).feature_level == dml.FeatureLevel.parse(level)
    before = {"5_1": "5_0", "6_2": "6_1"}[level]
    with pytest.raises(dml.CompileError):
        dml.compile(operator, device="numpy", feature_level=before)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_no_unsigned_integers_but_for_shrink(dtype: Any) -> None:
    for desc in EACH:
        if not isinstance(desc, dml.ActivationShrinkDesc):
            with pytest.raises(dml.CompileError):
                dml.compile(described(desc, inputs(desc, np.ones(3, dtype))), device="numpy")


# layouts


def run_placed(device: dml.Device, desc: dml.ActivationDesc, tensors: Mapping[str, Placed]) -> Array:
    """Runs over memory that is laid out like the host's, byte by byte, and copies it back; nothing but the output's elements changes."""
    operator = desc.replace(**{name: placed.desc for name, placed in tensors.items()})
    stream, output = device.current_stream(), output_of(desc)
    memory = {name: device.upload(placed.memory, stream) for name, placed in tensors.items()}
    starts = {name: placed.pointer - placed.memory.ctypes.data for name, placed in tensors.items()}
    buffers = {name: dml.Buffer(memory[name].pointer + start, memory[name].size - start) for name, start in starts.items()}
    bound = {name: buffer for name, buffer in buffers.items() if name != output}
    dml.compile(operator, device=device).bind(bound, {output: buffers[output]})()
    for name, placed in tensors.items():
        after = np.frombuffer(device.read(memory[name].pointer, placed.memory.size, stream), np.uint8)
        if name != output:
            np.testing.assert_array_equal(after, placed.memory, err_msg=f"{name} was written to")
        placed.memory[...] = after
    assert (tensors[output].gaps() == GUARD).all(), "memory beside the output's elements was written"
    return tensors[output].elements


def poison(sizes: tuple[int, ...], dtype: Any) -> Array:
    return np.full(sizes, np.nan if np.dtype(dtype).kind == "f" else 85, dtype)


SAMPLES = pytest.mark.parametrize(("desc", "dtype"), SAMPLE, ids=[f"{label(desc)} {np.dtype(dtype)}" for desc, dtype in SAMPLE])


@SAMPLES
def test_layouts_give_the_same_bits(any_device: dml.Device, desc: dml.ActivationDesc, dtype: Any) -> None:
    """Each layout of the first input with each of two of the output, and the other way round."""
    rng = np.random.default_rng(5)
    arrays = inputs(desc, random_values(rng, SIZES, dtype), random_values(rng, SIZES, dtype))
    expected = run(any_device, desc, arrays)
    pairs = [(first, other) for first in LAYOUTS for other in ("packed", "channels innermost")]
    for number, (first, other) in enumerate(pairs + [(other, first) for first, other in pairs]):
        tensors = {name: laid_out(array, *LAYOUTS[first if at == 0 else other]) for at, (name, array) in enumerate(arrays.items())}
        tensors[output_of(desc)] = laid_out(poison(SIZES, dtype), *LAYOUTS[other if number % 2 or len(arrays) == 1 else first])
        found = run_placed(any_device, desc, tensors)
        np.testing.assert_array_equal(found, expected, err_msg=f"{first} and {other}")


@pytest.mark.pairwise
@SAMPLES
@pytest.mark.parametrize("sizes", [SIZES, (2, 3, 5, 7)], ids=str)
def test_broadcast_inputs(any_device: dml.Device, sizes: tuple[int, ...], desc: dml.ActivationDesc, dtype: Any) -> None:
    """Strides of zero along any of the dimensions: a slope for all, for each channel, for each place."""
    rng = np.random.default_rng(6)
    for axes in ((0,), (1,), (3,), (0, 1), (2, 3), (0, 2, 3), (0, 1, 2, 3)):
        for repeated_input in range(len(desc.inputs())):
            arrays = inputs(desc, random_values(rng, sizes, dtype), random_values(rng, sizes, dtype))
            name = list(arrays)[repeated_input]
            few = arrays[name][tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(4))]
            arrays[name] = np.broadcast_to(few, sizes)
            strides = [0 if axis in axes else stride for axis, stride in enumerate(in_order(few.shape, range(4)))]
            tensors = {own: laid_out(array, strides if own == name else in_order(sizes, range(4))) for own, array in arrays.items()}
            tensors[output_of(desc)] = laid_out(poison(sizes, dtype), in_order(sizes, range(4)))
            found = run_placed(any_device, desc, tensors)
            np.testing.assert_array_equal(found, run(any_device, desc, arrays), err_msg=f"{name} repeats along {axes}")


SHAPES: list[tuple[int, ...]] = [(1,), (2,), (3,), (17,), (1, 1, 1, 1, 1, 1, 1, 1), (2, 1, 3, 2, 1, 2, 3, 2), (7, 1, 13), (1, 31, 1)]


@pytest.mark.pairwise
@SAMPLES
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_sizes(any_device: dml.Device, desc: dml.ActivationDesc, dtype: Any, sizes: tuple[int, ...]) -> None:
    """One element, 1 to 8 dimensions, sizes that no pack divides; packed, and with separate strides for each tensor."""
    rng = np.random.default_rng(7)
    arrays = inputs(desc, random_values(rng, sizes, dtype), random_values(rng, sizes, dtype))
    expected = oracle(desc, arrays) if np.dtype(dtype).kind == "f" else run(any_device, desc, arrays)
    for gap in (0, 1):
        strides = in_order(sizes, rng.permutation(len(sizes)), gap)
        tensors = {name: laid_out(array, strides, 1) for name, array in arrays.items()}
        tensors[output_of(desc)] = laid_out(poison(sizes, dtype), in_order(sizes, range(len(sizes)), gap), gap)
        found = run_placed(any_device, desc, tensors)
        if np.dtype(dtype).kind == "f":
            assert_close(found, expected, dtype)
        else:
            np.testing.assert_array_equal(found, expected)


@DTYPES
@table("desc", EACH, ids=label)
def test_every_operator_reads_and_writes_strides(desc: dml.ActivationDesc, dtype: Any) -> None:
    """On the host, where each has separate formulas: the same bits as packed, whatever the place of an element in a row."""
    device, sizes, rng = dml.device("numpy"), (9, 5, 31), np.random.default_rng(17)
    arrays = inputs(desc, random_values(rng, sizes, dtype))
    tensors = {name: laid_out(array, in_order(sizes, (2, 0, 1), gap), 1) for gap, (name, array) in enumerate(arrays.items())}
    tensors[output_of(desc)] = laid_out(poison(sizes, dtype), in_order(sizes, (1, 0, 2), gap=1))
    np.testing.assert_array_equal(run_placed(device, desc, tensors), run(device, desc, arrays))


class RecordingRuntime(EmulatedRuntime):
    """Records the name of each kernel that is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        self.loaded.append(symbol)
        return super().load(device, image, symbol, shared_bytes)


@pytest.mark.parametrize("start", range(8))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_addresses_that_are_multiples_of_the_element_only(dtype: Any, start: int) -> None:
    """The widest packs that both addresses are multiples of; 8 elements more would be a pack of 16 bytes, but for INT8."""
    require("g++")
    runtime, x = RecordingRuntime(), random_values(np.random.default_rng(8), (67,), dtype)
    tensors = {"input_tensor": laid_out(x, [1], start), "output_tensor": laid_out(poison((67,), dtype), [1], 8 - start)}
    np.testing.assert_array_equal(run_placed(CudaDevice(runtime), dml.ActivationReluDesc(), tensors), np.maximum(x, 0))
    widest = 16 // x.itemsize
    width = next(width for width in (16, 8, 4, 2, 1) if width <= widest and start % width == 0 and (8 - start) % width == 0)
    assert [int(entry.split(", ")[1]) for entry in runtime.loaded] == [widest, *([width] if width < widest else [])]


@pytest.mark.parametrize("block", [1, 2, 5, 16])
@pytest.mark.parametrize("seed", range(8))
def test_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch, seed: int, block: int) -> None:
    """The host's loop over blocks, over random layouts of random sizes, in place too."""
    monkeypatch.setattr(elements, "BLOCK", block)
    rng, numpy = np.random.default_rng(seed), dml.device("numpy")
    for desc, dtype in SAMPLE:
        sizes = tuple(int(size) for size in rng.integers(1, 5, rng.integers(1, 6)))
        arrays = inputs(desc, random_values(rng, sizes, dtype), random_values(rng, sizes, dtype))
        own = described(desc, arrays)
        expected = defined(own, arrays)
        tensors = {
            name: laid_out(array, in_order(sizes, rng.permutation(len(sizes)), int(rng.integers(3))))
            for name, array in (arrays | {output_of(desc): poison(sizes, dtype)}).items()
        }
        found = run_placed(numpy, desc, tensors)
        if np.dtype(dtype).kind == "f":
            assert_close(found, expected, dtype)
        else:
            np.testing.assert_array_equal(found, expected)


# what a plan promises


@table("desc", EACH, ids=label)
def test_there_is_nothing_to_prepare(any_device: dml.Device, desc: dml.ActivationDesc) -> None:
    arrays = inputs(desc, np.linspace(-3.0, 3.0, 11, dtype=np.float32))
    operator = dml.compile(described(desc, arrays), device=any_device)
    assert operator.binding_properties.persistent_resource_size == 0
    given = {name: any_device.from_host(array) for name, array in arrays.items()}
    np.testing.assert_array_equal(any_device.to_host(next(iter(operator.prepare()(**given)))), run(any_device, desc, arrays))


@pytest.mark.parametrize("layout", ["packed", "transposed", "FLOAT16"])
@pytest.mark.parametrize("desc", EACH, ids=label)
def test_a_launch_on_the_host_allocates_nothing(desc: dml.ActivationDesc, layout: str) -> None:
    """Nothing that grows with the arrays: NumPy itself buffers 8192 elements where types differ."""
    sizes, dtype = ((700, 900), np.float16) if layout == "FLOAT16" else ((600, 600), np.float32)
    x = np.random.default_rng(12).standard_normal(sizes).astype(dtype)
    arrays = inputs(desc, x)
    if layout == "transposed":
        arrays = {name: np.asfortranarray(array) for name, array in arrays.items()}
    operator = desc.replace(**{name: dml.TensorDesc.of(array) for name, array in arrays.items()}).with_outputs()
    plan, result = ElementsPlan(operator), np.empty_like(x)
    scratch = np.empty(plan.temporary_size, np.uint8)
    assert scratch.size < x.nbytes
    launch = plan.bind_arrays({**arrays, output_of(desc): result}, scratch.ctypes.data)
    launch(0)
    tracemalloc.start()
    try:
        launch(0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300_000, f"{peak} bytes"
    assert_close(result, defined(operator, arrays), x.dtype)


@pytest.mark.parametrize("desc", EACH, ids=label)
def test_one_launch_whatever_the_order_of_threads(desc: dml.ActivationDesc) -> None:
    require("g++")
    arrays, found = inputs(desc, np.linspace(-9.0, 9.0, 37, dtype=np.float32)), []
    for seed in (1, 2):
        runtime = EmulatedRuntime(seed=seed)
        found.append(run(CudaDevice(runtime), desc, arrays))
        assert (runtime.counts["launch"], runtime.counts["gemm"], runtime.counts["memset"]) == (1, 0, 0)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("count", [16 * 256 * 4 * 2 + 7, 16 * 256 + 1])
def test_more_elements_than_the_grid_has_threads(count: int) -> None:
    require("g++")
    device = CudaDevice(EmulatedRuntime(replace(H100, multiprocessors=1)))
    x = random_values(np.random.default_rng(13), (count,), np.float32)
    np.testing.assert_array_equal(run(device, dml.ActivationReluDesc(), {"input_tensor": x}), np.maximum(x, 0))
    tensors = {"input_tensor": laid_out(x, [1], 1), "output_tensor": laid_out(poison(x.shape, x.dtype), [2])}
    np.testing.assert_array_equal(run_placed(device, dml.ActivationReluDesc(), tensors), np.maximum(x, 0))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
@SAMPLES
def test_sanitizers_find_nothing(desc: dml.ActivationDesc, dtype: Any, sanitizers: str) -> None:
    require("g++")
    runtime, rng = EmulatedRuntime(sanitize=sanitizers), np.random.default_rng(14)
    arrays = inputs(desc, random_values(rng, (3, 37), dtype), random_values(rng, (3, 37), dtype))
    np.testing.assert_array_equal(run(CudaDevice(runtime), desc, arrays), run(CudaDevice(EmulatedRuntime()), desc, arrays))
    runtime.check_guards()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integers_never_leave_their_range_unnoticed(dtype: Any) -> None:
    """Conversions and products that C++ leaves undefined do not occur."""
    require("g++")
    device = CudaDevice(EmulatedRuntime(sanitize="address,undefined"))
    kinds: list[dml.ActivationDesc] = [*SHRINKS, dml.ActivationShrinkDesc(bias=NAN)]
    for desc in kinds + ([dml.ActivationParameterizedReluDesc()] if dtype in SIGNED else []):
        arrays = inputs(desc, integers(dtype, 57, 15), integers(dtype, 57, 16))
        np.testing.assert_array_equal(run(device, desc, arrays), run(dml.device("numpy"), desc, arrays))


def test_the_plan_on_the_host_says_what_is_copied() -> None:
    def told(dtype: str, strides: list[int] | None = None, desc: Any = None) -> str:
        x = dml.TensorDesc(data_type=dtype, sizes=(4, 6), strides=strides)
        operator = (desc or dml.ActivationTanhDesc()).replace(input_tensor=x).with_outputs()
        return dml.compile(operator, device="numpy").plan

    assert "float32 arithmetic; 24 elements" in told("FLOAT32")
    assert "rows" not in told("FLOAT32")
    strided = told("FLOAT32", [1, 4])
    assert "input_tensor: through packed float32 rows" in strided
    assert "output_tensor" not in strided
    assert {line.split(":")[0] for line in told("FLOAT16").splitlines()[1:]} == {"input_tensor", "output_tensor"}
    assert "int8 arithmetic" in told("INT8", desc=dml.ActivationReluDesc())
    assert "float64 arithmetic" in told("INT8", desc=dml.ActivationShrinkDesc())


def test_the_plan_on_cuda_says_which_kernel_runs() -> None:
    require("g++")
    device = CudaDevice(EmulatedRuntime())
    rows: list[tuple[str, tuple[int, ...], list[int] | None, str]] = [
        ("FLOAT32", (4, 6), None, "elements<Tanh, 4, int, 8, float, float>: 24 elements in a row, 4 at once"),
        ("FLOAT16", (4, 6), None, "elements<Tanh, 8, int, 8, machine::half, machine::half>: 24 elements in a row, 8 at once"),
        ("FLOAT32", (3,), None, "elements<Tanh, 1, int, 8, float, float>: 3 elements in a row, one by one"),
        ("FLOAT32", (4, 6), [8, 1], "elements<Tanh, 2, int, 8, float, float>: 24 elements along 2 axes, 2 at once"),
        ("FLOAT32", (4, 6), [1, 4], "elements<Tanh, 1, int, 8, float, float>: 24 elements along 2 axes, one by one"),
    ]
    for dtype, sizes, strides, start in rows:
        desc = dml.ActivationTanhDesc(input_tensor=dml.TensorDesc(data_type=dtype, sizes=sizes, strides=strides)).with_outputs()
        assert dml.compile(desc, device=device).plan.startswith(start)
