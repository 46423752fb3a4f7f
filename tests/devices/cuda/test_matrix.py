"""Matrix products on CUDA: by the library and by the own kernel, tiles with remainders, far offsets, what plans describe, sanitizers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.common.tile_products import Order
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.matrix import product as matrix_product
from dmlpy.devices.cuda.matrix import tiles
from dmlpy.devices.cuda.plans import Target, plan_of
from dmlpy.devices.cuda.runtime.interface import Limits
from tests.conftest import cuda_on_cpu
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.far_memory import STEP, run_far
from tests.support.cuda.gpu_models import A100, H200, T4
from tests.support.operators.layout_runs import (
    Array,
    by_definition,
    check_layouts,
    compute,
    packed,
    repeated,
    run,
    run_in_layouts,
    same,
    tensor,
)
from tests.support.tolerance import assert_close
from tests.support.tools import require

CLIP = dml.ElementWiseClipDesc(min=-8.0, max=9.0)
FUNCTIONS = {"none": None, "clip": CLIP, "tanh": dml.ActivationTanhDesc(), "softmax": dml.ActivationSoftmaxDesc()}


@pytest.fixture
def by_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of any size go to the library if it takes them."""
    monkeypatch.setattr(matrix_product, "LEAST_LIBRARY_MULTIPLICATIONS", 0)


def gemm_desc(dtype: str, batch: tuple[int, ...], sizes: tuple[int, int, int], **members: Any) -> dml.GEMMDesc:
    m, k, n = sizes
    a = (k, m) if members.get("trans_a") == "TRANSPOSE" else (m, k)
    b = (n, k) if members.get("trans_b") == "TRANSPOSE" else (k, n)
    added = {"c_tensor": packed(dtype, *batch, m, n)} if members.pop("added", False) else {}
    return dml.GEMMDesc(a_tensor=packed(dtype, *batch, *a), b_tensor=packed(dtype, *batch, *b), **added, **members).with_outputs()


def random_inputs(desc: dml.OperatorDesc, seed: int = 0) -> dict[str, Array]:
    """Normal numbers for every input."""
    rng = np.random.default_rng(seed)
    slots = [slot for slot in desc.input_slots() if slot.tensor is not None]
    return {slot.place: rng.normal(size=slot.tensor.sizes).astype(slot.tensor.data_type.numpy) for slot in slots if slot.tensor}


def check(desc: dml.GEMMDesc, device: dml.Device, *, spread: bool = False) -> None:
    """Fails unless the result is that of the definition."""
    given = random_inputs(desc)
    found = (run_in_layouts if spread else run)(desc, given, device)["output_tensor"]
    assert_close(found, by_definition(desc, given)["output_tensor"], found.dtype, terms=max(64, desc.a_tensor.sizes[-1]))


def described(desc: dml.OperatorDesc, device: dml.Device) -> str:
    assert isinstance(device, CudaDevice)
    plan = plan_of(desc, Target(device.library))
    assert plan is not None
    return plan.describe()


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for dtype, added, (name, function) in product(("float32", "float16"), (False, True), FUNCTIONS.items()):
        yield f"{dtype} {name}{' added' if added else ''}", {"dtype": dtype, "added": added, "fused_activation": function}


@pytest.mark.parametrize("members", [pytest.param(members, id=name) for name, members in cases()])
def test_products_by_the_library(by_library: None, cuda_device: dml.Device, members: dict[str, Any]) -> None:
    """In spread memory, which the library does not take, by the own kernel, with equal results."""
    transposes = iter(product(("NONE", "TRANSPOSE"), repeat=2))
    for batch, sizes in (((), (3, 5, 4)), ((2,), (1, 6, 3)), ((2, 2), (4, 1, 2)), ((), (5, 3, 1))):
        trans_a, trans_b = next(transposes)
        desc = gemm_desc(batch=batch, sizes=sizes, trans_a=trans_a, trans_b=trans_b, alpha=1.0, beta=0.5, **members)
        assert "cuBLAS" in described(desc, cuda_device)
        check(desc, cuda_device, spread=True)
        scaled = desc.replace(alpha=-0.75)
        check(scaled, cuda_device)


# strides of a [4, 6] A: rows, columns
TAKEN = {"packed": (6, 1), "rows with gaps": (9, 1), "columns": (1, 4), "columns with gaps": (1, 7)}
REFUSED = {"gaps between elements": (12, 2), "repeated rows": (0, 1), "overlapping rows": (3, 1), "repeated elements": (1, 0)}


@pytest.mark.parametrize("layout", [*TAKEN, *REFUSED])
def test_the_library_takes_matrices_whose_rows_or_columns_are_packed(by_library: None, cuda_device: dml.Device, layout: str) -> None:
    strides = (TAKEN | REFUSED)[layout]
    a = dml.TensorDesc(data_type="FLOAT32", sizes=(4, 6), strides=strides)
    desc = dml.GEMMDesc(a_tensor=a, b_tensor=packed("float32", 6, 5), alpha=2.0).with_outputs()
    assert ("cuBLAS" in described(desc, cuda_device)) == (layout in TAKEN)
    given = random_inputs(desc)
    where = np.zeros(64, np.float32)
    where[:] = np.random.default_rng(1).normal(size=64)
    given["a_tensor"] = np.lib.stride_tricks.as_strided(where, (4, 6), tuple(4 * stride for stride in strides))
    found = run(desc, given, cuda_device)["output_tensor"]
    assert_close(found, by_definition(desc, given)["output_tensor"], np.float32, terms=64)


def test_small_products_and_large_batches_are_the_own_kernel_s(cuda_device: dml.Device) -> None:
    for batch, side, library in (((), 64, False), ((), 512, True), ((17,), 512, True), ((3, 17), 512, True), ((17,), 64, False)):
        assert ("cuBLAS" in described(gemm_desc("float16", batch, (side, side, side)), cuda_device)) == library
    tensors = {name: dml.TensorDesc(data_type="FLOAT16", sizes=(17, 17, 512, 512)) for name in ("a_tensor", "b_tensor", "output_tensor")}
    apart = tensors["a_tensor"].replace(strides=(512 * 512 * 18, 512 * 512, 512, 1))  # no stride leads to all, and 17 calls are too many
    assert "cuBLAS" not in described(dml.GEMMDesc(**tensors | {"a_tensor": apart}), cuda_device)


# strides of the batches of [2, 3, 4, 6] A, of [2, 3, 6, 5] B, of a [2, 3, 4, 5] output; the calls
BATCHES = {
    "packed": ((72, 24), (90, 30), (60, 20), 1),
    "B repeats in all, A has a gap": ((80, 24), (0, 0), (60, 20), 1),
    "B repeats in the inner ones, A has a gap": ((80, 25), (30, 0), (60, 20), 2),
    "an output with gaps": ((72, 24), (90, 30), (70, 22), 2),
    "outer and inner exchanged": ((24, 48), (30, 60), (20, 40), 2),
}


@pytest.mark.parametrize("row", BATCHES)
def test_a_call_of_the_library_multiplies_a_batch(monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    """As many entries as one stride leads to in each tensor."""
    monkeypatch.setattr(matrix_product, "LEAST_LIBRARY_MULTIPLICATIONS", 0)
    a, b, y, calls = BATCHES[row]
    strides = {"a_tensor": (*a, 6, 1), "b_tensor": (*b, 5, 1), "output_tensor": (*y, 5, 1)}
    sizes = {"a_tensor": (2, 3, 4, 6), "b_tensor": (2, 3, 6, 5), "output_tensor": (2, 3, 4, 5)}
    tensors = {name: dml.TensorDesc(data_type="FLOAT32", sizes=sizes[name], strides=strides[name]) for name in sizes}
    desc, runtime = dml.GEMMDesc(**tensors), EmulatedRuntime()
    given = {place: repeated(array, tensors[place]) for place, array in random_inputs(desc).items()}
    found = run(desc, given, CudaDevice(runtime))["output_tensor"]
    assert_close(found, by_definition(desc, given)["output_tensor"], np.float32)
    assert runtime.counts["gemm"] == calls


# strides of [2, 3, 4, 6] A, of the batch of B, of a [2, 3, 4, 5] output; the products that remain, and their rows
FOLDED = {
    "all": ((72, 24, 6, 1), (0, 0), (60, 20, 5, 1), 1, 24),
    "with gaps between rows": ((96, 32, 8, 1), (0, 0), (60, 20, 5, 1), 1, 24),
    "the inner ones, as B repeats there": ((72, 24, 6, 1), (30, 0), (60, 20, 5, 1), 2, 12),
    "the inner ones, as A has a gap": ((80, 24, 6, 1), (0, 0), (60, 20, 5, 1), 2, 12),
    "the inner ones, as the output has a gap": ((72, 24, 6, 1), (0, 0), (70, 20, 5, 1), 2, 12),
    "none, as B differs": ((72, 24, 6, 1), (90, 30), (60, 20, 5, 1), 6, 4),
    "none, as A has columns": ((72, 24, 1, 4), (0, 0), (60, 20, 5, 1), 6, 4),
}


@pytest.mark.parametrize("row", FOLDED)
@pytest.mark.parametrize("library", [True, False])
def test_matrices_that_meet_the_same_b_are_one(cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch, row: str, library: bool) -> None:
    monkeypatch.setattr(matrix_product, "LEAST_LIBRARY_MULTIPLICATIONS", 0 if library else 2**62)
    a, of_b, y, count, rows = FOLDED[row]
    strides = {"a_tensor": a, "b_tensor": (*of_b, 5, 1), "output_tensor": y}
    sizes = {"a_tensor": (2, 3, 4, 6), "b_tensor": (2, 3, 6, 5), "output_tensor": (2, 3, 4, 5)}
    tensors = {name: dml.TensorDesc(data_type="FLOAT32", sizes=sizes[name], strides=strides[name]) for name in sizes}
    desc = dml.GEMMDesc(**tensors)
    told = described(desc, cuda_device)
    wanted = f"{count} products of [{rows}, 6]" if count > 1 else f"a product of [{rows}, 6]"
    assert wanted in told if library else f"{count} tiles" in told
    given = {place: repeated(array, tensors[place]) for place, array in random_inputs(desc).items()}
    found = run(desc, given, cuda_device)["output_tensor"]
    assert_close(found, by_definition(desc, given)["output_tensor"], np.float32)


@pytest.mark.parametrize("sizes", [(64, 16, 64), (65, 17, 63), (1, 130, 129), (130, 1, 1), (63, 40, 66)], ids=str)
def test_tiles_with_remainders(cuda_device: dml.Device, sizes: tuple[int, int, int]) -> None:
    for dtype, trans_a, trans_b in (("float32", "NONE", "TRANSPOSE"), ("float16", "TRANSPOSE", "NONE")):
        check(gemm_desc(dtype, (2,), sizes, trans_a=trans_a, trans_b=trans_b, added=True, beta=-1.0), cuda_device)


ALONG = {
    (False, "NONE"): Order.WIDE_LINES,
    (False, "TRANSPOSE"): Order.WIDE_TERMS,
    (True, "NONE"): Order.LINES,
    (True, "TRANSPOSE"): Order.TERMS,
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("gaps", "trans_b"), ALONG, ids=str)
def test_operands_come_16_bytes_at_a_time_where_memory_allows(
    cuda_device: dml.Device, dtype: str, gaps: bool, trans_b: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A's order is the other way round than B's. Sums have one order: elements one by one give the same bits."""
    desc = gemm_desc(dtype, (2,), (72, 48, 132 if dtype == "float32" else 136), trans_a=trans_b, trans_b=trans_b, added=True, beta=-1.0)
    given = random_inputs(desc)
    if gaps:
        tensors = {name: getattr(desc, name) for name in ("a_tensor", "b_tensor")}
        pitches = {name: packed.sizes[2] + 3 for name, packed in tensors.items()}
        spread = {name: packed.replace(strides=(packed.sizes[1] * pitches[name], pitches[name], 1)) for name, packed in tensors.items()}
        desc = desc.replace(**spread)
    chosen: list[Order] = []

    def of(*arguments: Any) -> Order:
        chosen.append(order_of(*arguments))
        return chosen[-1]

    order_of = Order.of
    monkeypatch.setattr(Order, "of", of)
    found = run(desc, given, cuda_device)["output_tensor"]
    of_a = {"NONE": "TRANSPOSE", "TRANSPOSE": "NONE"}[trans_b]
    assert chosen == [ALONG[gaps, of_a], ALONG[gaps, trans_b]]
    assert_close(found, by_definition(desc, given)["output_tensor"], found.dtype, terms=64)
    by_elements = {Order.WIDE_TERMS: Order.TERMS, Order.WIDE_LINES: Order.LINES}
    monkeypatch.setattr(Order, "of", lambda *arguments: by_elements.get(order := order_of(*arguments), order))
    same(run(desc, given, cuda_device)["output_tensor"], found, "one by one")


# counts, strides, others, bytes of an element, address
ORDERS: list[tuple[Order, Any]] = [
    (Order.WIDE_TERMS, ((64, 24), (24, 1), [1536], 2, 4096)),
    (Order.TERMS, ((64, 24), (24, 1), [1540], 2, 4096)),
    (Order.TERMS, ((64, 24), (24, 1), [1536], 2, 4104)),
    (Order.TERMS, ((64, 20), (24, 1), [], 2, 4096)),
    (Order.TERMS, ((64, 24), (28, 1), [], 2, 4096)),
    (Order.TERMS, ((64, 24), (48, 2), [], 2, 4096)),
    (Order.TERMS, ((64, 24), (24, 1), [], 1, 4096)),
    (Order.WIDE_LINES, ((64, 25), (1, 64), [], 2, 4096)),
    (Order.LINES, ((60, 25), (1, 64), [], 2, 4096)),
    (Order.LINES, ((64, 25), (1, 68), [], 2, 4096)),
    (Order.WIDE_LINES, ((4, 25), (1, 4), [], 4, 16)),
]


@pytest.mark.parametrize(("order", "given"), ORDERS, ids=str)
def test_threads_bring_16_bytes_where_all_begins_at_a_multiple(order: Order, given: Any) -> None:
    assert Order.of(*given) is order


MULTIPLICATIONS = [(T4, "m16n8k8", "m8n8k16"), (A100, "m16n8k16", "m16n8k32"), (H200, "m16n8k16", "m16n8k32")]


@pytest.mark.parametrize(("machine", "halves", "of_bytes"), MULTIPLICATIONS, ids=lambda item: str(item))
def test_plans_describe_how_they_multiply(machine: Limits, halves: str, of_bytes: str) -> None:
    device = CudaDevice(DryRunRuntime(machine))
    assert f"on tensor cores, by mma {halves} of halves" in dml.compile(gemm_desc("float16", (), (64, 64, 64)), device).plan
    sums = dml.MatrixMultiplyIntegerDesc(a_tensor=packed("int8", 64, 64), b_tensor=packed("uint8", 64, 64)).with_outputs()
    assert f"on tensor cores, by mma {of_bytes} of bytes" in dml.compile(sums, device).plan
    assert "products multiplied and added in float32" in dml.compile(gemm_desc("float32", (), (64, 64, 64)), device).plan


def test_blocks_stride_over_more_tiles_than_the_grid_has(cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "_MOST_BLOCKS", 2)
    check(gemm_desc("float32", (2, 2), (65, 3, 66)), cuda_device)
    desc = dml.MatrixMultiplyIntegerDesc(a_tensor=packed("int8", 2, 65, 3), b_tensor=packed("uint8", 2, 3, 66)).with_outputs()
    check_layouts(desc, np.random.default_rng(0), sums=False, device=cuda_device)


def test_results_repeat_bit_for_bit_whatever_the_batch(cuda_device: dml.Device) -> None:
    desc = gemm_desc("float32", (3,), (5, 300, 7))
    given = random_inputs(desc)
    whole = run(desc, given, cuda_device)["output_tensor"]
    for entry in range(3):
        single = {place: array[entry : entry + 1] for place, array in given.items()}
        same(run(gemm_desc("float32", (1,), (5, 300, 7)), single, cuda_device)["output_tensor"][0], whole[entry], f"entry {entry}")


def test_long_sums_stay_accurate(cuda_device: dml.Device) -> None:
    """One float that adds up 20,000 products of the same rounding is off by more than is allowed."""
    terms = 20_000
    a, b = np.full((1, terms), 1.1, np.float32), np.full((terms, 1), 0.7, np.float32)
    desc = dml.GEMMDesc(a_tensor=tensor(a), b_tensor=tensor(b)).with_outputs()
    found = compute(desc, device=cuda_device, a_tensor=a, b_tensor=b)
    assert_close(found, a.astype(np.float64) @ b.astype(np.float64), np.float32, terms=terms)


LONG = [("none", (5, 2048, 7), "float32"), ("softmax", (1, 5000, 70), "float16"), ("tanh", (66, 4097, 3), "float16")]


@pytest.mark.parametrize(("name", "sizes", "dtype"), LONG, ids=str)
def test_long_sums_of_few_results_are_shared_by_blocks(cuda_device: dml.Device, name: str, sizes: tuple[int, int, int], dtype: str) -> None:
    """Parts of the terms are summed by blocks of their own, and added in order with the epilogue."""
    members: dict[str, Any] = {"added": True, "beta": -1.0, "alpha": 0.5, "fused_activation": FUNCTIONS[name]}
    desc = gemm_desc(dtype, (2,), sizes, trans_b="TRANSPOSE", **members)
    plan = described(desc, cuda_device)
    assert "combine_products<" in plan
    assert "splits" in plan
    check(desc, cuda_device, spread=True)


@pytest.mark.parametrize("repeats", [False, True])
def test_what_blocks_share_does_not_depend_on_the_batch(cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch, repeats: bool) -> None:
    """Nor on whether the entries of the batch are the rows of one product, where B repeats."""
    monkeypatch.setattr(matrix_product, "LEAST_LIBRARY_MULTIPLICATIONS", 2**62)
    sizes = (40, 3000, 9)
    desc = gemm_desc("float32", (5,), sizes)
    if repeats:
        desc = desc.replace(b_tensor=desc.b_tensor.replace(strides=[0, 9, 1]))
    given = {place: repeated(array, desc.tensors()[place]) for place, array in random_inputs(desc).items()}
    whole = run(desc, given, cuda_device)["output_tensor"]
    for entry in (0, 4):
        single = {place: array[entry : entry + 1].copy() for place, array in given.items()}
        same(run(gemm_desc("float32", (1,), sizes), single, cuda_device)["output_tensor"][0], whole[entry], f"entry {entry}")


SPLITS = [((8, 2047, 8), 1), ((8, 2048, 8), 2), ((300, 3000, 260), 1), ((64, 2**21, 64), 131)]


@pytest.mark.parametrize(("sizes", "splits"), SPLITS, ids=str)
def test_how_many_blocks_share_a_tile(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int], splits: int) -> None:
    """Scratch stays below the operands."""
    monkeypatch.setattr(matrix_product, "LEAST_LIBRARY_MULTIPLICATIONS", 2**62)
    desc = gemm_desc("float32", (), sizes)
    compiled = dml.compile(desc, CudaDevice(DryRunRuntime()))
    assert (f" in {splits} splits" in compiled.plan) == (splits > 1)
    needed = compiled.binding_properties.temporary_resource_size
    assert (needed > 0) == (splits > 1)
    assert needed < desc.a_tensor.size_in_bytes + desc.b_tensor.size_in_bytes


def test_what_is_not_finite_reaches_its_row_and_column_alone(cuda_device: dml.Device) -> None:
    """Also around the remainders of tiles, which are filled with zeros."""
    desc = gemm_desc("float32", (), (66, 18, 67), added=True, beta=0.0)
    given = {place: np.ones_like(array) for place, array in random_inputs(desc).items()}
    given["a_tensor"][65, 17], given["b_tensor"][3, 66], given["c_tensor"][1, 2] = np.inf, np.nan, np.inf
    found = run(desc, given, cuda_device)["output_tensor"]
    wanted = np.full((66, 67), 18, np.float32)
    wanted[65], wanted[:, 66], wanted[1, 2] = np.inf, np.nan, np.nan
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("operator", ["GEMM", "MATRIX_MULTIPLY_INTEGER"])
def test_elements_beyond_32_bits(operator: str) -> None:
    """Rows and entries of the batch at distances beyond an int, in address space of which only their pages have memory."""
    device = cuda_on_cpu()
    assert isinstance(device, CudaDevice)
    dtype = np.dtype(np.float16 if operator == "GEMM" else np.int8)
    a, b = np.arange(8).reshape(2, 2, 2).astype(dtype), np.array([[[1, 2], [3, 4]]] * 2, dtype)
    far = dml.TensorDesc(data_type=dtype.name.upper(), sizes=a.shape, strides=(2 * STEP, STEP, 1))
    kind: Any = dml.GEMMDesc if operator == "GEMM" else dml.MatrixMultiplyIntegerDesc
    desc = kind(a_tensor=far, b_tensor=tensor(b)).with_outputs()
    found = run_far(desc, {"a_tensor": a, "b_tensor": b}, device)["output_tensor"]
    np.testing.assert_array_equal(found, np.matmul(a, b))


def test_a_softmax_of_halves_takes_sums_in_float(cuda_device: dml.Device) -> None:
    """In FLOAT16 neighbours of 100 differ by 0.0625: both sums would be equal."""
    a, b = np.array([[10, 1]], np.float16), np.array([[10, 10], [0, 0.03]], np.float16)
    desc = dml.GEMMDesc(a_tensor=tensor(a), b_tensor=tensor(b), fused_activation=dml.ActivationSoftmaxDesc()).with_outputs()
    given = {"a_tensor": a, "b_tensor": b}
    found = run_in_layouts(desc, given, cuda_device)["output_tensor"]
    assert_close(found, by_definition(desc, given)["output_tensor"], np.float16)


def test_tf32_only_where_it_is_allowed(by_library: None, cuda_device: dml.Device) -> None:
    desc = gemm_desc("float32", (), (4, 8, 4))
    flags = dml.ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION
    exact, rounded = dml.compile(desc, cuda_device), dml.compile(desc, cuda_device, flags=flags)
    assert "TF32" not in str(exact.plan)
    assert "TF32" in str(rounded.plan)
    given = random_inputs(desc)
    inputs = {place: cuda_device.from_host(array) for place, array in given.items()}
    wanted = by_definition(desc, given)["output_tensor"]
    assert_close(cuda_device.to_host(exact(**inputs).output_tensor), wanted, np.float32)
    assert_close(cuda_device.to_host(rounded(**inputs).output_tensor), wanted, np.float32, tf32=True)


SANITIZED = {
    "float32": gemm_desc("float32", (2,), (66, 17, 3), added=True, fused_activation=dml.ActivationReluDesc()),
    "softmax of halves": gemm_desc("float16", (), (3, 18, 65), fused_activation=dml.ActivationSoftmaxDesc()),
    "integers": dml.MatrixMultiplyIntegerDesc(
        a_tensor=packed("int8", 3, 18),
        a_zero_point_tensor=packed("int8", 3, 1),
        b_tensor=packed("uint8", 18, 66),
        output_tensor=packed("int32", 3, 66),
    ),
}


@pytest.mark.parametrize("desc", [pytest.param(desc, id=name) for name, desc in SANITIZED.items()])
def test_the_sanitizers_are_silent(desc: dml.OperatorDesc) -> None:
    require("g++")
    runtime = EmulatedRuntime(sanitize="address,undefined")
    check_layouts(desc, np.random.default_rng(5), sums=True, device=CudaDevice(runtime))
    runtime.check_guards()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_thread_sanitizer_is_silent(dtype: str) -> None:
    require("g++")
    runtime, desc = EmulatedRuntime(sanitize="thread"), gemm_desc(dtype, (2,), (65, 70, 66))
    run(desc, random_inputs(desc), CudaDevice(runtime))
    runtime.check_guards()
