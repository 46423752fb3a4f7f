"""SOFTMAX, LOG_SOFTMAX and HARDMAX and their forms over axes, on every device, against plain float64 loops."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.activation import groups
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.numpy.activation import groups as groups_on_host
from dmlpy.devices.numpy.activation.groups import slices
from dmlpy.devices.numpy.plans import plan_of
from dmlpy.operators.activation import RowActivationDesc
from tests.support.descs.facts_reader import operators
from tests.support.operators.softmax_runs import OVER_AXES, ROWS, Array, GroupsDesc, check_accuracy, check_each, described, expected, run
from tests.support.recurrent.layer_runs import GUARD, Layout, Placed, place
from tests.support.tolerance import assert_close
from tests.support.tools import require

OF_ROWS: dict[str, type[RowActivationDesc]] = {
    "softmax": dml.ActivationSoftmaxDesc,
    "log_softmax": dml.ActivationLogSoftmaxDesc,
    "hardmax": dml.ActivationHardmaxDesc,
}
FUNCTIONS = pytest.mark.parametrize("function", OVER_AXES)
DATA_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
NAN, INF, LARGEST = np.nan, np.inf, float(np.finfo(np.float32).max)


# runs


def run_placed(device: dml.Device, desc: GroupsDesc, x: Placed, y: Placed) -> None:
    """Runs over memory that is laid out like the host's, byte by byte, and copies it back."""
    stream = device.current_stream()
    memory = {name: device.upload(placed.memory, stream) for name, placed in (("input_tensor", x), ("output_tensor", y))}
    buffers = {}
    for name, placed in (("input_tensor", x), ("output_tensor", y)):
        start = placed.pointer - placed.memory.ctypes.data
        buffers[name] = dml.Buffer(memory[name].pointer + start, memory[name].size - start)
    dml.compile(desc, device=device).bind({"input_tensor": buffers["input_tensor"]}, {"output_tensor": buffers["output_tensor"]})()
    after = {name: np.frombuffer(device.read(kept.pointer, kept.size, stream), np.uint8) for name, kept in memory.items()}
    np.testing.assert_array_equal(after["input_tensor"][: x.memory.size], x.memory, err_msg="the input was written to")
    y.memory[...] = after["output_tensor"][: y.memory.size]


def values(rng: np.random.Generator, sizes: Sequence[int], dtype: Any, scale: float = 2.0) -> Array:
    return (scale * rng.standard_normal(sizes)).astype(dtype)


# sizes


SIZES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1,), (0,)),
    ((7,), ()),
    ((5, 1), (1,)),
    ((1, 9), (1,)),
    ((3, 4), (1,)),
    ((4, 3), (0,)),
    ((37, 32), (1,)),
    ((33, 64), (1,)),
    ((5, 100), (1,)),
    ((3, 1000), (1,)),
    ((2, 1026), (1,)),
    ((2, 5001), (1,)),
    ((300, 3), (1,)),
    ((3, 300), (0,)),
    ((70, 64), (0,)),
    ((501, 10), (0,)),
    ((5001, 2), (0,)),
    ((2, 3, 5, 7), (1,)),
    ((2, 3, 5, 8), (1, 3)),
    ((2, 3, 5, 7), (0, 2)),
    ((4, 6, 8), (0, 1, 2)),
    ((2, 1, 3, 1, 2, 1, 2, 3), (0, 4, 7)),
]


@pytest.mark.parametrize(
    ("any_device", "function", "dtype"),
    [
        pytest.param(device, function, dtype, id=f"{device}, {function}, {dtype.__name__}", marks=marks)
        for number, function in enumerate(OVER_AXES)
        for place, dtype in enumerate((np.float32, np.float16))
        # On CUDA each row has kernels to compile.
        for device, marks in [
            ("numpy", []),
            ("cuda-emulated", [pytest.mark.slow] * (number % 2 != place)),
            ("cuda", [pytest.mark.gpu]),
        ]
    ],
    indirect=["any_device"],
)
def test_sizes(any_device: dml.Device, function: str, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    for sizes, axes in SIZES if dtype == np.float32 else SIZES[::2]:
        x = values(rng, sizes, dtype)
        what = f"{function} of {sizes} over {axes}"
        assert_close(run(any_device, described(function, x, axes), x), expected(function, x, axes), dtype, what=what)


@FUNCTIONS
def test_any_order_of_axes(any_device: dml.Device, function: str) -> None:
    """Their order and repetition count for nothing."""
    x = values(np.random.default_rng(2), (3, 4, 5), np.float32)
    usual = run(any_device, described(function, x, (0, 2)), x)
    for axes in ((2, 0), (0, 2, 0), (2, 2, 0, 0)):
        np.testing.assert_array_equal(run(any_device, described(function, x, axes), x), usual, err_msg=str(axes))


@pytest.mark.parametrize("sizes", [(7,), (4, 5), (1, 6), (1, 1, 3, 5), (1, 1, 1, 8), (1, 3, 1), (1, 1, 1, 1, 2, 9)])
@FUNCTIONS
def test_rows(any_device: dml.Device, function: str, sizes: tuple[int, ...]) -> None:
    """The forms without axes are those over the last dimension."""
    x = values(np.random.default_rng(3), sizes, np.float32)
    desc = OF_ROWS[function](input_tensor=dml.TensorDesc.of(x)).with_outputs()
    found = run(any_device, desc, x)
    assert_close(found, expected(function, x, (len(sizes) - 1,)), np.float32)
    np.testing.assert_array_equal(found, run(any_device, described(function, x, (len(sizes) - 1,)), x))


@pytest.mark.parametrize(("sizes", "axes"), [((2, 100_000), (1,)), ((100_000, 3), (0,)), ((2, 300, 250, 2), (1, 2))])
@FUNCTIONS
def test_long_groups(any_device: dml.Device, function: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = values(np.random.default_rng(4), sizes, np.float32)
    check_each(any_device, function, run(any_device, described(function, x, axes), x), x, axes)


@pytest.mark.parametrize(("sizes", "axes"), [((3_000_000,), (0,)), ((1_000_001, 2), (0,)), ((150_001, 3, 4), (0, 2))])
@FUNCTIONS
def test_longer_groups_on_the_host(function: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = values(np.random.default_rng(5), sizes, np.float32)
    check_each(dml.device("numpy"), function, run(dml.device("numpy"), described(function, x, axes), x), x, axes)


@pytest.mark.parametrize(("sizes", "axes"), [((1, 200_000), (1,)), ((200_000, 1, 2), (0,))])
def test_many_parts_on_the_host(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Their sums are added without rounding them to FLOAT32 again and again."""
    monkeypatch.setattr(groups_on_host, "_BLOCK", 16)
    x = np.random.default_rng(6).uniform(-0.1, 0.0, sizes).astype(np.float32)
    found = run(dml.device("numpy"), described("softmax", x, axes), x)
    np.testing.assert_allclose(found, expected("softmax", x, axes), rtol=3e-7)


# accuracy


@pytest.mark.pairwise
@pytest.mark.parametrize("across", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_accuracy(any_device: dml.Device, function: str, row: str, across: bool) -> None:
    check_accuracy(any_device, function, row, across)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_accuracy_of_one_thread(monkeypatch: pytest.MonkeyPatch, function: str, row: str) -> None:
    """On a GPU that so few groups fill already, a thread goes through a whole group: its own sum is as accurate as a merged one."""
    require("g++")
    monkeypatch.setattr(groups, "_RESIDENT_THREADS", 1)
    device = CudaDevice(EmulatedRuntime(replace(H100, multiprocessors=1)))
    x = ROWS[row](np.random.default_rng(6), np.arange(100_000)).astype(np.float32)
    x = np.stack([x, x + np.float32(0.5)], axis=1)
    desc = described(function, x, (0,))
    assert "1 to a thread group" in dml.compile(desc, device=device).plan
    check_each(device, function, run(device, desc, x), x, (0,))


# numbers that are not finite, and the largest


SPECIAL: list[list[float]] = [
    [1, NAN, 2, 3],
    [NAN, NAN, 1, INF],
    [1, INF, 2, 3],
    [INF, 1, -INF, INF],
    [-INF, -INF, -INF, -INF],
    [-INF, 1, -INF, 2],
    [-INF, -LARGEST, -INF, -INF],
    [LARGEST, LARGEST, 0, -LARGEST],
    [-LARGEST, -LARGEST, -LARGEST, -LARGEST],
    [-LARGEST, LARGEST, -INF, 1],
    [-0.0, 0.0, -0.0, 0.0],
    [-1, -0.0, 0.0, -1],
    [1e-45, 0, -1e-45, 1e-45],
    [3, 3, 3, 3],
    [0, 100, 1, 2],
]


@pytest.mark.pairwise
@pytest.mark.parametrize("across", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("repeats", [1, 3, 40, 700])
@DATA_TYPES
@FUNCTIONS
def test_special_values(any_device: dml.Device, function: str, dtype: Any, repeats: int, across: bool) -> None:
    """Groups of them stand among others; an odd one leaves its neighbours alone. Repeated, they reach every part of a long group."""
    x = np.tile(SPECIAL, repeats)
    x = np.where(np.abs(x) == LARGEST, np.copysign(np.finfo(dtype).max, x), x).astype(dtype)
    if across:
        x = np.ascontiguousarray(x.T)
    axes = (int(not across),)
    found = run(any_device, described(function, x, axes), x)
    with np.errstate(over="ignore"):
        wanted = expected(function, x, axes).astype(dtype)  # the difference of the largest and the smallest number is beyond the type
    for group in range(len(SPECIAL)):
        index = (slice(None), group) if across else group
        assert_close(found[index], wanted[index], dtype, terms=repeats, what=f"{function} of {SPECIAL[group]}")


def test_a_group_of_one(any_device: dml.Device) -> None:
    x = np.array([0, -0.0, 5, -1e30, LARGEST, INF, -INF, NAN], np.float32)
    odd = ~np.isfinite(x)
    for axes, given in (((1,), x[:, None]), ((), x)):
        for function, value in (("softmax", 1), ("log_softmax", 0)):
            found = run(any_device, described(function, given, axes), given).reshape(-1)
            np.testing.assert_array_equal(found, np.where(odd, np.nan, value))
        np.testing.assert_array_equal(run(any_device, described("hardmax", given, axes), given), np.ones_like(given))


@DATA_TYPES
def test_the_first_of_equal_entries_wins(any_device: dml.Device, dtype: Any) -> None:
    """First by the desc's dimensions, however memory orders them."""
    rng = np.random.default_rng(7)
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3, 1)):
        sizes = (4, 5, 6, 7)
        memory = np.ascontiguousarray(rng.integers(0, 3, sizes).astype(dtype).transpose(order))
        x = memory.transpose(np.argsort(order))
        assert x.shape == sizes
        for axes in ((0,), (3,), (0, 1), (1, 3), (0, 2, 3), (0, 1, 2, 3)):
            desc = dml.ActivationHardmax1Desc(input_tensor=dml.TensorDesc.of(x), axes=axes).with_outputs()
            placed = place(np.full(sizes, np.nan, dtype), "packed", rng)
            given = Placed(dml.TensorDesc.of(x), memory.reshape(-1).view(np.uint8), x)
            run_placed(any_device, desc.replace(output_tensor=placed.desc), given, placed)
            np.testing.assert_array_equal(placed.elements, expected("hardmax", x, axes), err_msg=f"{order}, over {axes}")


EXAMPLES = operators()["DML_OPERATOR_ACTIVATION_HARDMAX1"]["examples"]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_published_examples(any_device: dml.Device, number: int) -> None:
    example = EXAMPLES[number]
    given, wanted = (
        np.array(tensor["values"], np.float32).reshape(tensor["sizes"])
        for tensor in (example["inputs"]["InputTensor"], example["outputs"]["OutputTensor"])
    )
    found = run(any_device, described("hardmax", given, example["attributes"]["Axes"]), given)
    np.testing.assert_array_equal(found, wanted)


# layouts


@pytest.mark.pairwise
@DATA_TYPES
@FUNCTIONS
@pytest.mark.parametrize("seed", range(16))
def test_random_layouts(any_device: dml.Device, function: str, dtype: Any, seed: int) -> None:
    """1 to 8 dimensions, any axes, any strides, entries that repeat; no byte outside the elements is touched."""
    rng = np.random.default_rng(seed)
    rank = 1 + seed % 8
    sizes = tuple(int(size) for size in rng.choice([1, 2, 3, 4] if rank > 3 else [1, 2, 3, 8, 17, 24], rank))
    axes = [int(axis) for axis in rng.choice(rank, rng.integers(0, rank + 2))]
    read: list[Layout] = ["packed", "padded", "permuted", "broadcast"]
    x = place(values(rng, sizes, dtype), read[rng.integers(4)], rng)
    y = place(np.full(sizes, np.nan, dtype), read[rng.integers(3)], rng)
    run_placed(any_device, OVER_AXES[function](input_tensor=x.desc, output_tensor=y.desc, axes=axes), x, y)
    what = f"{function} of {sizes} over {axes}, strides {x.desc.strides} to {y.desc.strides}"
    assert_close(y.elements, expected(function, x.elements, axes), dtype, what=what)
    assert (y.gaps() == GUARD).all(), f"{what}: memory beside the elements was written"


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 1, 0, 2), (2, 3, 1, 0)])
@FUNCTIONS
def test_the_order_of_dimensions_changes_no_bit(any_device: dml.Device, function: str, order: tuple[int, ...]) -> None:
    """Dimensions that are listed in another order, strides with them, describe the same work."""
    x, found = values(np.random.default_rng(8), (3, 4, 5, 8), np.float32), []
    for listed in ((0, 1, 2, 3), order):
        y = np.full_like(x, np.nan)
        given, taken = (
            Placed(dml.TensorDesc.of(array.transpose(listed)), array.reshape(-1).view(np.uint8), array.transpose(listed))
            for array in (x, y)
        )
        desc = OVER_AXES[function](input_tensor=given.desc, output_tensor=taken.desc, axes=(listed.index(1),))
        run_placed(any_device, desc, given, taken)
        found.append(y)
    np.testing.assert_array_equal(found[0], found[1])
    assert_close(found[0], expected(function, x, (1,)), np.float32)


# what a plan promises


@FUNCTIONS
def test_never_in_place(any_device: dml.Device, function: str) -> None:
    x = any_device.from_host(values(np.random.default_rng(10), (3, 4), np.float32))
    for desc in (
        described(function, np.empty((3, 4), np.float32), (1,)),
        OF_ROWS[function](input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(3, 4))).with_outputs(),
    ):
        operator = dml.compile(desc, device=any_device)
        with pytest.raises(dml.BindError, match="in place"):
            operator(input_tensor=x, output_tensor=x)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (1, 2, 3, 4), (2, 1, 4)])
@FUNCTIONS
def test_rows_are_of_a_matrix(function: str, sizes: tuple[int, ...]) -> None:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=sizes)
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(OF_ROWS[function](input_tensor=tensor, output_tensor=tensor), device="numpy")
    assert [problem.path for problem in caught.value.problems] == ["input_tensor.sizes"]


@FUNCTIONS
def test_wrong_axes(function: str) -> None:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=(3, 4))
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(OVER_AXES[function](input_tensor=tensor, output_tensor=tensor, axes=(0, 2)), device="numpy")
    assert [problem.path for problem in caught.value.problems] == ["axes[1]"]


@pytest.mark.parametrize(
    ("sizes", "axes"), [((1000, 1000), (1,)), ((1000, 1000), (0,)), ((1_000_000,), (0,)), ((100_000, 10), (1,)), ((1_000_000, 1), (1,))]
)
@FUNCTIONS
def test_a_launch_on_the_host_allocates_nothing(function: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Nothing that grows with the arrays."""
    x = values(np.random.default_rng(11), sizes, np.float32)
    y = np.empty_like(x)
    plan = plan_of(described(function, x, axes))
    assert plan is not None
    scratch = np.empty(plan.temporary_size, np.uint8)
    assert plan.temporary_size < 1 << 21
    launch = plan.bind({"input_tensor": x.ctypes.data, "output_tensor": y.ctypes.data}, scratch.ctypes.data, None)
    launch(0)
    tracemalloc.start()
    try:
        launch(0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 18, f"{peak} bytes"


@pytest.mark.parametrize("most", [1, 2, 5, 6, 24, 60, 1000])
@pytest.mark.parametrize("sizes", [(), (1,), (60,), (3, 4, 5), (5, 1, 12)])
def test_parts_cover_an_array_in_order(sizes: tuple[int, ...], most: int) -> None:
    numbers = np.arange(np.prod(sizes, dtype=int)).reshape(sizes)
    parts = [numbers[part].reshape(-1) for part in slices(sizes, most)]
    assert max(part.size for part in parts) <= most
    np.testing.assert_array_equal(np.concatenate(parts), numbers.reshape(-1))


@pytest.mark.parametrize(("sizes", "axes"), [((6, 1000), (1,)), ((1000, 6), (0,)), ((40, 8, 3), (1,)), ((3, 2048), (1,))])
@FUNCTIONS
def test_work_on_cuda(function: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """One launch; the order of threads counts for nothing."""
    require("g++")
    x, found = values(np.random.default_rng(12), sizes, np.float32), []
    for seed in (1, 2):
        runtime = EmulatedRuntime(seed=seed)
        found.append(run(CudaDevice(runtime), described(function, x, axes), x))
        assert runtime.counts["launch"] == 1
        runtime.check_guards()
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
@pytest.mark.parametrize(("sizes", "axes"), [((3, 72), (1,)), ((72, 6), (0,)), ((5, 7), (1,))])
@DATA_TYPES
@FUNCTIONS
def test_sanitizers_find_nothing(function: str, dtype: Any, sizes: tuple[int, ...], axes: tuple[int, ...], sanitizers: str) -> None:
    require("g++")
    x = values(np.random.default_rng(13), sizes, dtype)
    desc, runtime = described(function, x, axes), EmulatedRuntime(sanitize=sanitizers)
    assert_close(run(CudaDevice(runtime), desc, x), expected(function, x, axes), dtype)
    runtime.check_guards()


def test_plans_describe_their_work(any_device: dml.Device) -> None:
    x = np.zeros((100_000, 8), np.float32)
    plans = [dml.compile(described(function, x, (1,)), device=any_device).plan for function in OVER_AXES]
    plans.append(dml.compile(described("softmax", x, (0,)), device=any_device).plan)
    if any_device.name == "numpy":
        assert "blocks of 4096 columns of 8 entries" in plans[0]
        assert "blocks of 4096 rows of 8 entries" in plans[2]
        assert "longer groups are read once for each step" in plans[3]
        return
    kernels = [f"groups<float, {name}, 4, false, true>" for name in ("Softmax", "LogSoftmax", "Hardmax")]
    for plan, kernel in zip(plans, [*kernels, "groups<float, Softmax, 4, true, false>"], strict=True):
        assert kernel in plan
    assert "100000 groups of 8 entries, accesses of 16 bytes" in plans[0]


def test_accesses_are_as_wide_as_the_layout_allows(cuda_device: dml.Device) -> None:
    """Sizes, strides, types and addresses that do not allow 16 bytes."""

    def kernel(dtype: Any, sizes: tuple[int, ...], strides: tuple[int, ...] | None = None) -> str:
        x = dml.TensorDesc(data_type=np.dtype(dtype).name.upper(), sizes=sizes, strides=strides)
        y = dml.TensorDesc(data_type=x.data_type, sizes=sizes)
        return dml.compile(dml.ActivationSoftmax1Desc(input_tensor=x, output_tensor=y, axes=(1,)), device=cuda_device).plan.splitlines()[-1]

    assert "4, false" in kernel(np.float32, (5, 100))
    assert "2, false" in kernel(np.float32, (5, 6))
    assert "1, false" in kernel(np.float32, (5, 7))
    assert "1, false" in kernel(np.float32, (5, 100), (101, 1))
    assert "4, false" in kernel(np.float32, (5, 100), (104, 1))
    assert "1, false" in kernel(np.float32, (5, 100), (1, 0))
    assert "8, false" in kernel(np.float16, (5, 80))
    assert "4, true" in kernel(np.float16, (5, 7, 4))


def test_the_reference_is_exact_to_float64() -> None:
    x = np.random.default_rng(14).standard_normal((3, 5, 4))
    for function in OVER_AXES:
        found = dml.reference(described(function, x.astype(np.float32), (0, 2)), input_tensor=x).output_tensor
        np.testing.assert_allclose(found, expected(function, x, (0, 2)), rtol=1e-14, atol=0)
