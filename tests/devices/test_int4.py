"""Tensors of 4-bit elements on every device: what is bound for them, and what operators make of them byte by byte."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.operators.layout_runs import results_of, run
from tests.support.pairwise import first_few
from tests.support.tables import table
from tests.support.tools import require

ml_dtypes = pytest.importorskip("ml_dtypes")

Array = np.ndarray[Any, Any]
LIMITS = {"INT4": (-8, 7), "UINT4": (0, 15), "INT8": (-128, 127), "UINT8": (0, 255)}
NUMBERS = {"INT4": np.int8, "UINT4": np.uint8, "INT8": np.int8, "UINT8": np.uint8}


def tensor(data_type: str, *sizes: int, **members: Any) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, **members)


def quantize(x: dml.TensorDesc, scale: dml.TensorDesc, zero_point: dml.TensorDesc) -> dml.QuantizeDesc:
    kind = "SCALE_ZERO_POINT"
    return dml.QuantizeDesc(input_tensor=x, quantization_type=kind, quantization_tensors=[scale, zero_point]).with_outputs()


def dequantize(x: dml.TensorDesc, scale: dml.TensorDesc, zero_point: dml.TensorDesc) -> dml.DequantizeDesc:
    kind = "SCALE_ZERO_POINT"
    return dml.DequantizeDesc(input_tensor=x, quantization_type=kind, quantization_tensors=[scale, zero_point]).with_outputs()


def by_place(x: Array, scale: Array, zero_point: Array) -> dict[str, Array]:
    return {"input_tensor": x, "quantization_tensors[0]": scale, "quantization_tensors[1]": zero_point}


def numbers(data_type: str, *sizes: int, seed: int = 0) -> Array:
    least, most = LIMITS[data_type]
    return np.random.default_rng(seed).integers(least, most + 1, sizes).astype(NUMBERS[data_type])


def blocked(array: Array, sizes: tuple[int, ...]) -> Array:
    for axis, size in enumerate(sizes):
        array = array.repeat(size // array.shape[axis], axis)
    return array


SIZES = [((1,), (1,)), ((2,), (1,)), ((3,), (1,)), ((64,), (1,)), ((67,), (1,)), ((5, 7), (5, 1)), ((4, 6), (4, 2)), ((3, 3, 3), (3, 1, 3))]
"""Of the numbers and of their blocks: rows with rests, and blocks of odd sizes, whose neighbours share a byte."""


@pytest.mark.each_value
@pytest.mark.parametrize("data_type", LIMITS)
@pytest.mark.parametrize(("sizes", "blocks"), SIZES, ids=str)
def test_there_and_back(any_device: dml.Device, sizes: tuple[int, ...], blocks: tuple[int, ...], data_type: str) -> None:
    """Powers of two as scales: multiples of them come back, held within the range; in memory full of other bytes, with guards."""
    integers, zero_point = numbers(data_type, *sizes), numbers(data_type, *blocks, seed=1)
    scale = (2.0 ** np.random.default_rng(2).integers(-3, 4, blocks)).astype(np.float32)
    wide = integers.astype(np.int64) - blocked(zero_point, sizes)
    x = (wide * blocked(scale, sizes)).astype(np.float32)
    described = tensor("FLOAT32", *blocks), tensor(data_type, *blocks)
    back = run(dequantize(tensor(data_type, *sizes), *described), by_place(integers, scale, zero_point), any_device)["output_tensor"]
    np.testing.assert_array_equal(back, x)
    found = run(quantize(tensor("FLOAT32", *sizes), *described), by_place(x, scale, zero_point), any_device)["output_tensor"]
    np.testing.assert_array_equal(found, integers)
    least, most = LIMITS[data_type]
    held = run(quantize(tensor("FLOAT32", *sizes), *described), by_place(3 * x, scale, zero_point), any_device)["output_tensor"]
    np.testing.assert_array_equal(held, np.clip(3 * wide + blocked(zero_point, sizes), least, most))


@pytest.mark.parametrize("cut", [0, 1, 2])
@pytest.mark.parametrize("count", [16, 33])
def test_bytes_at_any_address(any_device: dml.Device, cut: int, count: int) -> None:
    """A tensor may begin at any byte, so the accesses become narrower; behind an odd last element there is 0, and no other byte changes."""
    stream, x = any_device.current_stream(), np.arange(count, dtype=np.float32) % 15
    nbytes = (count + 1) // 2
    x_memory = any_device.upload(x.view(np.uint8), stream)
    scale = any_device.upload(np.ones(1, np.float32).view(np.uint8), stream)
    zero = any_device.upload(np.zeros(4, np.uint8), stream)
    out = any_device.upload(np.full(nbytes + 8, 0xA5, np.uint8), stream)
    desc = quantize(tensor("FLOAT32", count), tensor("FLOAT32", 1), tensor("UINT4", 1))
    given = [dml.Buffer(memory.pointer, memory.size) for memory in (x_memory, scale, zero)]
    dml.compile(desc, any_device).bind(given, [dml.Buffer(out.pointer + cut, nbytes)])()
    expected = np.full(nbytes + 8, 0xA5, np.uint8)
    expected[cut : cut + nbytes] = dml.pack_int4(x.astype(np.uint8))
    assert any_device.read(out.pointer, nbytes + 8, stream) == expected.tobytes()
    again = dml.Buffer(out.pointer + cut, nbytes)
    y = any_device.upload(np.zeros(4 * count, np.uint8), stream)
    back = dequantize(tensor("UINT4", count), tensor("FLOAT32", 1), tensor("UINT4", 1))
    dml.compile(back, any_device).bind([again, *given[1:]], [dml.Buffer(y.pointer, y.size)])()
    assert any_device.read(y.pointer, y.size, stream) == x.tobytes()


def test_strided_and_repeated_inputs(any_device: dml.Device) -> None:
    """Elements that begin at either half of a byte; the zero points repeat along two axes."""
    x = numbers("INT4", 3, 4, 5)
    zero_point = np.broadcast_to(numbers("INT4", 4, 1), (3, 4, 5))
    desc = dequantize(tensor("INT4", 3, 4, 5, strides=[1, 15, 3]), tensor("FLOAT16", 3, 4, 5), tensor("INT4", 3, 4, 5, strides=[0, 3, 0]))
    found = run(desc, by_place(x, np.full((3, 4, 5), 0.5, np.float16), zero_point), any_device)["output_tensor"]
    np.testing.assert_array_equal(found, (x - zero_point) * np.float16(0.5))


BLOCKS = [
    ((4, 1), (1, 3)),
    ((1, 1), (4, 6)),
    ((4, 6), (1, 1)),
    ((2, 6), (2, 1)),
    ((2, 6), (4, 3)),  # blocks within blocks
    ((1, 2), (1, 3)),  # blocks that cross each other
    ((4, 3), (2, 2)),
    ((12, 10), (9, 4)),
    ((9, 1), (4, 15)),
]


@table("data_type", ["INT4", "UINT8"])
@table("strided", [False, True], ids=["packed", "strided"])
@table(("scales", "zeros"), BLOCKS, ids=str)
def test_scales_and_zero_points_of_other_blocks(
    any_device: dml.Device, scales: tuple[int, ...], zeros: tuple[int, ...], strided: bool, data_type: str
) -> None:
    """Each holds for blocks of its own: no element of the other's number is read."""
    sizes = tuple(max(math.lcm(*counts), least) for counts, least in zip(zip(scales, zeros, strict=True), (4, 6), strict=True))
    x, zero_point = numbers(data_type, *sizes), numbers(data_type, *zeros, seed=1)
    scale = (2.0 ** np.random.default_rng(2).integers(-3, 4, scales)).astype(np.float32)
    described = tensor("FLOAT32", *scales), tensor(data_type, *zeros, strides=[1, zeros[0] + 1] if strided else None)
    expected = ((x.astype(np.int64) - blocked(zero_point, sizes)) * blocked(scale, sizes)).astype(np.float32)
    found = run(dequantize(tensor(data_type, *sizes), *described), by_place(x, scale, zero_point), any_device)["output_tensor"]
    np.testing.assert_array_equal(found, expected)
    back = run(quantize(tensor("FLOAT32", *sizes), *described), by_place(expected, scale, zero_point), any_device)["output_tensor"]
    np.testing.assert_array_equal(back, x)


def test_blocks_that_cross_each_other_along_all_dimensions(any_device: dml.Device) -> None:
    """Three parts of each of eight dimensions, more than any other step of the element engine has."""
    sizes, scales, zeros = (6, 6, 6, 6, 6, 6, 1, 1), (2, 3, 2, 2, 3, 3, 1, 1), (3, 2, 3, 3, 2, 2, 1, 1)
    x, zero_point = numbers("INT8", *sizes), numbers("INT8", *zeros, seed=1)
    scale = (2.0 ** np.random.default_rng(2).integers(-3, 4, scales)).astype(np.float16)
    strides = [math.prod(scales[:axis]) for axis in range(len(scales))]
    desc = dequantize(tensor("INT8", *sizes), tensor("FLOAT16", *scales, strides=strides), tensor("INT8", *zeros))
    found = run(desc, by_place(x, scale, zero_point), any_device)["output_tensor"]
    expected = ((x.astype(np.int64) - blocked(zero_point, sizes)) * blocked(scale, sizes)).astype(np.float16)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("scales", "zeros", "size"), first_few([((2,), (3,), 6), ((1,), (1,), 33), ((3,), (3,), 15)], 1), ids=str)
def test_the_sanitizers_find_nothing(scales: tuple[int, ...], zeros: tuple[int, ...], size: int) -> None:
    """Packs with an odd rest, neighbours of different blocks that share a byte, and zero points repeated in scratch."""
    require("g++")
    runtime = EmulatedRuntime(sanitize="address,undefined")
    described = tensor("FLOAT32", *scales), tensor("UINT4", *zeros)
    x, zero_point = numbers("UINT4", size), numbers("UINT4", *zeros, seed=1)
    scale = np.full(scales, 0.5, np.float32)
    wide = (x.astype(np.int64) - blocked(zero_point, (size,))).astype(np.float32) * np.float32(0.5)
    given = {"input_tensor": dml.pack_int4(x), "quantization_tensors": [scale, dml.pack_int4(zero_point)]}
    found = results_of(dequantize(tensor("UINT4", size), *described), given, CudaDevice(runtime))["output_tensor"]
    np.testing.assert_array_equal(found, wide)
    back = results_of(quantize(tensor("FLOAT32", size), *described), given | {"input_tensor": wide}, CudaDevice(runtime))["output_tensor"]
    np.testing.assert_array_equal(back, dml.pack_int4(x))
    runtime.check_guards()


# what is bound

X = np.linspace(-5, 5, 15, dtype=np.float32).reshape(3, 5)
SCALE, ZERO = np.full((3, 1), 0.5, np.float32), np.array([[1], [2], [-3]], np.int8)
DESC = quantize(tensor("FLOAT32", 3, 5), tensor("FLOAT32", 3, 1), tensor("INT4", 3, 1))
EXPECTED = np.clip(np.rint(X / SCALE) + ZERO, -8, 7).astype(np.int8)


def called(device: dml.Device, zero_point: Any, **outputs: Any) -> Any:
    """The output of a call, of arrays on the host."""
    given = {"input_tensor": X, "quantization_tensors": [SCALE, zero_point], **outputs}
    return dml.compile(DESC, device)(**given, copy=True).output_tensor


@pytest.mark.parametrize("zero_point", [dml.pack_int4(ZERO), ZERO.astype(ml_dtypes.int4)], ids=["bytes", "ml_dtypes"])
def test_a_call_takes_bytes_and_arrays_of_ml_dtypes(any_device: dml.Device, zero_point: Array) -> None:
    found = any_device.to_host(called(any_device, zero_point))
    assert (found.dtype, found.shape) == (np.uint8, (8,))
    np.testing.assert_array_equal(dml.unpack_int4(found, "INT4", (3, 5)), EXPECTED)
    for own in (np.full((3, 5), -1, ml_dtypes.int4), np.full((5, 3), -1, ml_dtypes.int4).T):
        assert called(any_device, zero_point, output_tensor=own) is own
        np.testing.assert_array_equal(own.astype(np.int8), EXPECTED)
    packed = np.zeros(8, np.uint8)
    called(any_device, zero_point, output_tensor=packed)
    np.testing.assert_array_equal(packed, found)
    np.testing.assert_array_equal(dml.reference(DESC, [X, SCALE, zero_point]).output_tensor, found)


def test_numpy_needs_no_copy_of_ml_dtypes() -> None:
    own = np.zeros((3, 5), ml_dtypes.int4)
    dml.compile(DESC, "numpy")(input_tensor=X, quantization_tensors=[SCALE, ZERO.astype(ml_dtypes.int4)], output_tensor=own)
    np.testing.assert_array_equal(own.astype(np.int8), EXPECTED)


PACKED = dml.pack_int4(ZERO)
WRONG: dict[str, tuple[Any, str, str | None]] = {
    "a byte each": (ZERO, "array.type", "pack them: dmlpy.pack_int4(array)"),
    "another type of 4 bits": (ZERO.astype(ml_dtypes.uint4), "array.type", None),
    "floating point": (ZERO.astype(np.float32), "array.type", None),
    "too few bytes": (PACKED[:1], "array.shape", None),
    "too many bytes": (np.zeros(3, np.uint8), "array.shape", None),
    "bytes in rows": (PACKED[:, None], "array.shape", "only dimensions of size 1 differ: array.reshape(2)"),
    "bytes apart": (np.zeros(4, np.uint8)[::2], "array.strides", "pass a packed copy (numpy.ascontiguousarray)"),
    "other sizes of ml_dtypes": (ZERO[:2].astype(ml_dtypes.int4), "array.shape", None),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit(name: str) -> None:
    value, code, remedy = WRONG[name]
    calls: dict[str, Any] = {
        "call": lambda: dml.compile(DESC, "numpy")(input_tensor=X, quantization_tensors=[SCALE, value]),
        "bind": lambda: dml.compile(DESC, "numpy").bind([X, SCALE, value], [np.zeros(8, np.uint8)]),
    }
    if name != "bytes apart":  # of those the reference reads the values
        calls["reference"] = lambda: dml.reference(DESC, [X, SCALE, value])
    for what, call in calls.items():
        with pytest.raises(dml.BindError) as caught:
            call()
        (problem,) = caught.value.problems
        assert problem.path == "quantization_tensors[1]"
        if what == "bind" and name == "other sizes of ml_dtypes":
            assert problem.code == "array.type"
            continue
        assert problem.code == code, what
        assert remedy is None or (problem.remedy or "").startswith(remedy), (what, problem.remedy)
        assert "[2]" in problem.expected or name in ("bytes apart", "other sizes of ml_dtypes")


def test_what_is_bound_for_many_dispatches_is_bytes(any_device: dml.Device) -> None:
    """The values of other arrays would be copied once, when they are bound."""
    move = any_device.from_host
    with pytest.raises(dml.BindError) as caught:
        dml.compile(DESC, any_device).bind([move(X), move(SCALE), ZERO.astype(ml_dtypes.int4)], [np.zeros((3, 5), ml_dtypes.int4)])
    told = {(problem.path, problem.code, problem.remedy) for problem in caught.value.problems}
    assert ("quantization_tensors[1]", "array.type", "pack them: dmlpy.pack_int4(array)") in told
    assert ("output_tensor", "array.type", None) in told
    zero_point, out = move(PACKED), move(np.zeros(8, np.uint8))
    dml.compile(DESC, any_device).bind([move(X), move(SCALE), zero_point], [out])()
    np.testing.assert_array_equal(dml.unpack_int4(any_device.to_host(out), "INT4", (3, 5)), EXPECTED)


def test_an_output_that_is_read_only_is_refused() -> None:
    for own in (np.zeros(8, np.uint8), np.zeros((3, 5), ml_dtypes.int4)):
        own.flags.writeable = False
        with pytest.raises(dml.BindError, match="a read-only array"):
            dml.compile(DESC, "numpy")(input_tensor=X, quantization_tensors=[SCALE, PACKED], output_tensor=own)


def test_owned_inputs(any_device: dml.Device) -> None:
    """`prepare` copies the bytes, of which two elements share each."""
    owned = DESC.replace(quantization_tensors=[DESC.quantization_tensors[0], DESC.quantization_tensors[1].replace(flags="OWNED_BY_DML")])
    move = any_device.from_host
    zero_point = move(PACKED.copy())
    prepared = dml.compile(owned, any_device).prepare(**{"quantization_tensors[1]": zero_point})
    found = prepared(input_tensor=move(X), **{"quantization_tensors[0]": move(SCALE)}).output_tensor
    np.testing.assert_array_equal(dml.unpack_int4(any_device.to_host(found), "INT4", (3, 5)), EXPECTED)


def test_in_a_graph(any_device: dml.Device) -> None:
    """Bytes between nodes, in a constant and as an output."""
    builder = dml.GraphBuilder("four bits")
    scale, zero_point = builder.constant("scale", SCALE), builder.constant("zero point", PACKED, DESC.quantization_tensors[1])
    x = builder.input("x", tensor("FLOAT32", 3, 5))
    common = {"quantization_type": "SCALE_ZERO_POINT", "quantization_tensors": [scale, zero_point]}
    q = builder.add(dml.QuantizeDesc, "q", input_tensor=x, **common)
    builder.output("y", builder.add(dml.DequantizeDesc, "y", input_tensor=q, **common))
    builder.output("q", q)
    found = dml.compile(builder.build(), any_device)(x=any_device.from_host(X))
    np.testing.assert_array_equal(dml.unpack_int4(any_device.to_host(found.q), "INT4", (3, 5)), EXPECTED)
    np.testing.assert_array_equal(any_device.to_host(found.y), (EXPECTED.astype(np.float32) - ZERO) * SCALE)


def test_outputs_of_4_bits_are_written_by_whole_bytes(cuda_device: dml.Device) -> None:
    """Wide accesses where memory allows them, else two elements by each thread."""
    assert isinstance(cuda_device, CudaDevice)
    row = quantize(tensor("FLOAT16", 64), tensor("FLOAT16", 1), tensor("INT4", 1))
    assert ", 8, int, 8, Int4, " in dml.compile(row, cuda_device).plan
    odd = quantize(tensor("FLOAT16", 5, 7), tensor("FLOAT16", 5, 1), tensor("INT4", 5, 1))
    assert ", 1, int, 8, Int4, " in dml.compile(odd, cuda_device).plan
