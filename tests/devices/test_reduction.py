"""Reductions on every device, against Python's arithmetic on each group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from operator import mul
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.reduction.top_k import steps
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import (
    Array,
    compute,
    defined,
    failures_in_layouts,
    layouts,
    results_of,
    run,
    run_in_layouts,
    tensor,
)
from tests.support.tolerance import assert_close
from tests.support.tools import require

FLOATS = ("float32", "float16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
WIDE = ("int64", "int32", "uint64", "uint32")
FUNCTIONS: dict[str, tuple[Callable[[list[Any]], Any], tuple[str, ...]]] = {
    "SUM": (sum, FLOATS + WIDE),
    "AVERAGE": (lambda group: sum(group) / len(group), FLOATS),
    "MULTIPLY": (math.prod, FLOATS + WIDE),
    "MIN": (min, FLOATS + INTEGERS),
    "MAX": (max, FLOATS + INTEGERS),
    "L1": (lambda group: sum(map(abs, group)), FLOATS + WIDE),
    "L2": (lambda group: math.hypot(*group), FLOATS),
    "SUM_SQUARE": (lambda group: sum(x * x for x in group), FLOATS + WIDE),
    "LOG_SUM": (lambda group: math.log(sum(group)) if sum(group) > 0 else math.nan, FLOATS),
    "LOG_SUM_EXP": (lambda group: math.log(sum(map(math.exp, group))), FLOATS),
    "ARGMIN": (lambda group: group.index(min(group)), FLOATS + INTEGERS),
    "ARGMAX": (lambda group: group.index(max(group)), FLOATS + INTEGERS),
}
AXES = [
    ((5,), (0,)),
    ((1,), (0,)),
    ((3,), ()),
    ((2, 3), (1, 1)),
    ((3, 4), (1,)),
    ((3, 4), (1, 0)),
    ((2, 3, 1, 4), (1, 3)),
    ((2, 3, 2, 2, 1, 3, 1, 2), (7, 0, 3)),
]


def values(rng: np.random.Generator, sizes: tuple[int, ...], dtype: str) -> Array:
    """Random numbers; of integers, the ends of their range among them."""
    if dtype in FLOATS:
        return rng.normal(size=sizes).astype(dtype)
    limits = np.iinfo(dtype)
    array = rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
    array.reshape(-1)[:2] = [limits.max, limits.min][: array.size]
    return array


def groups(x: Array, axes: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """The elements of each group in the order of their indices, as Python's numbers, each with its place in the output."""
    ranges = [range(1) if axis in axes else range(size) for axis, size in enumerate(x.shape)]
    inner = [range(size) if axis in axes else range(1) for axis, size in enumerate(x.shape)]
    for place in itertools.product(*ranges):
        yield place, [x[tuple(map(sum, zip(place, step, strict=True)))].item() for step in itertools.product(*inner)]


def expected(x: Array, axes: tuple[int, ...], function: Callable[[list[Any]], Any], dtype: Any) -> Array:
    """One number for each group; integers wrap around."""
    found = np.empty([1 if axis in axes else size for axis, size in enumerate(x.shape)], dtype)
    bits = found.itemsize * 8
    for place, group in groups(x, axes):
        value = function(group)
        if found.dtype.kind in "iu":
            value %= 1 << bits
            value -= (1 << bits) * (found.dtype.kind == "i" and value >= 1 << (bits - 1))
        found[place] = value
    return found


CUDA_SLOW = [pytest.param("cuda-emulated", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.gpu)]
FEW_SORTED = ("float16", "uint8", "int64")
EACH = [(name, dtype) for name, (_, types) in FUNCTIONS.items() for dtype in types]
"""Every function with every type that it takes."""
FEW = [(name, types[number % len(types)]) for number, (name, (_, types)) in enumerate(FUNCTIONS.items())]
"""Every function with one type. On CUDA each pair is a kernel, which takes time to compile."""


@pytest.mark.parametrize("any_device", ["cuda-emulated"], indirect=True)
@pytest.mark.parametrize(("name", "dtype"), [pytest.param(*row, marks=[pytest.mark.slow] * (number % 2)) for number, row in enumerate(FEW)])
def test_functions_with_a_type_each(any_device: dml.Device, name: str, dtype: str) -> None:
    check_function(any_device, name, dtype)


@pytest.mark.parametrize("any_device", ["numpy", *CUDA_SLOW], indirect=True)
@pytest.mark.parametrize(("name", "dtype"), EACH)
def test_every_function_and_type(any_device: dml.Device, name: str, dtype: str) -> None:
    check_function(any_device, name, dtype)


def check_function(device: dml.Device, name: str, dtype: str) -> None:
    """With every choice of axes."""
    rng, function = np.random.default_rng(1), FUNCTIONS[name][0]
    for number, (sizes, axes) in enumerate(AXES):
        x = values(rng, sizes, dtype)
        if name == "LOG_SUM":
            x = np.abs(x)
        is_index = name.startswith("ARG")
        output = {"data_type": "UINT32" if number % 2 else "INT64"} if is_index else {"data_type": dtype.upper()}
        shape = [1 if axis in axes else size for axis, size in enumerate(sizes)]
        desc = dml.ReduceDesc(function=name, input_tensor=tensor(x), output_tensor=dml.TensorDesc(sizes=shape, **output), axes=axes)
        result = run_in_layouts(desc, {"input_tensor": x}, device)["output_tensor"]
        what = f"{name} {dtype} {sizes} {axes}"
        if dtype in FLOATS and not is_index:
            assert_close(result, expected(x, axes, function, np.float64), dtype, terms=x.size, what=what)
        else:
            np.testing.assert_array_equal(result, expected(x, axes, function, result.dtype), err_msg=what)


def test_reductions_do_not_overflow_on_the_way_and_keep_what_is_not_finite(any_device: dml.Device) -> None:
    inf, nan = math.inf, math.nan

    def reduced(function: str, *group: float) -> float:
        x = np.array(group, np.float32)
        desc = dml.ReduceDesc(function=function, input_tensor=tensor(x), axes=[0]).with_outputs()
        return float(run_in_layouts(desc, {"input_tensor": x}, any_device)["output_tensor"][0])

    assert math.isclose(reduced("L2", 3e30, 4e30), 5e30, rel_tol=1e-6)
    assert math.isclose(reduced("L2", 3e-30, -4e-30), 5e-30, rel_tol=1e-6)
    assert (reduced("L2", 0, 0), reduced("L2", 1, -inf)) == (0, inf)
    assert math.isnan(reduced("L2", nan, inf))
    assert math.isclose(reduced("LOG_SUM_EXP", 1000, 1000), 1000 + math.log(2), rel_tol=1e-6)
    assert math.isclose(reduced("LOG_SUM_EXP", -1000, -inf), -1000, rel_tol=1e-6)
    assert (reduced("LOG_SUM_EXP", -inf, -inf), reduced("LOG_SUM_EXP", inf, 0)) == (-inf, inf)
    assert reduced("LOG_SUM", 1, -1) == -inf
    assert math.isnan(reduced("LOG_SUM", -1, 0))
    assert math.isnan(reduced("LOG_SUM_EXP", nan, inf))
    assert math.isclose(reduced("L2", *[3e-40] * 16), 1.2e-39, rel_tol=1e-5)
    assert math.isclose(reduced("L2", 3e20, 4e20, 1e-30), 5e20, rel_tol=1e-6)
    for function in ("SUM", "MIN", "MAX", "LOG_SUM_EXP", "AVERAGE", "L1", "L2", "SUM_SQUARE", "LOG_SUM", "MULTIPLY"):
        assert math.isnan(reduced(function, 1, nan, 2)), function


@pytest.mark.parametrize(
    ("any_device", "dtype"),
    [
        *(("numpy", dtype) for dtype in FLOATS + INTEGERS),
        *(
            pytest.param("cuda-emulated", dtype, marks=[] if dtype in ("float32", "uint64") else pytest.mark.slow)
            for dtype in FLOATS + INTEGERS
        ),
        *(pytest.param("cuda", dtype, marks=pytest.mark.gpu) for dtype in FLOATS + INTEGERS),
    ],
    indirect=["any_device"],
)
@pytest.mark.parametrize(("kind", "find"), [(dml.ArgminDesc, min), (dml.ArgmaxDesc, max)])
def test_which_of_equal_elements_an_index_is_of(any_device: dml.Device, kind: Any, find: Any, dtype: str) -> None:
    rng = np.random.default_rng(2)
    for number, (sizes, axes) in enumerate(AXES):
        x = rng.integers(0, 3, sizes).astype(dtype)
        for direction in ("INCREASING", "DECREASING"):

            def index(group: list[Any], last: bool = direction == "DECREASING") -> int:
                return len(group) - 1 - group[::-1].index(find(group)) if last else group.index(find(group))

            desc = kind(input_tensor=tensor(x), axes=axes, axis_direction=direction)
            shape = [1 if axis in axes else size for axis, size in enumerate(sizes)]
            desc = desc.replace(output_tensor=dml.TensorDesc(data_type="UINT64" if number % 2 else "INT32", sizes=shape))
            result = run_in_layouts(desc, {"input_tensor": x}, any_device)["output_tensor"]
            np.testing.assert_array_equal(result, expected(x, axes, index, result.dtype), err_msg=f"{axes} {direction}")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_indices_of_numbers_that_are_not_finite(any_device: dml.Device, order: tuple[int, ...]) -> None:
    """A NaN is ignored, whichever way memory orders the elements of a group."""
    rng = np.random.default_rng(6)
    memory = rng.choice(np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0], np.float32), (4, 5, 6))
    memory[:2] = rng.choice(np.array([-math.inf, math.inf, -1.0], np.float32), (2, 5, 6))
    x = memory.transpose(order)
    for kind, axes in itertools.product((dml.ArgminDesc, dml.ArgmaxDesc), ((0,), (1, 2), (0, 2), (0, 1, 2))):
        for direction in ("INCREASING", "DECREASING"):
            desc = kind(input_tensor=tensor(x), axes=axes, axis_direction=direction)
            desc = desc.replace(
                output_tensor=dml.TensorDesc(data_type="INT32", sizes=[1 if a in axes else n for a, n in enumerate(x.shape)])
            )
            found = run(desc, {"input_tensor": x}, any_device)["output_tensor"]
            np.testing.assert_array_equal(
                found, dml.reference(desc, {"input_tensor": x}).output_tensor, f"{kind.__name__} {axes} {direction}"
            )


@pytest.mark.parametrize(
    ("group", "smallest", "largest"),
    [
        ([2, math.nan, 5], (0, 0), (2, 2)),
        ([math.nan, -math.inf, math.nan, -math.inf], (1, 3), (1, 3)),
        ([math.nan, math.inf, math.inf, math.nan], (1, 2), (1, 2)),
        ([math.nan, 3, 3, -1, -1, math.nan], (3, 4), (1, 2)),
        ([math.nan, math.nan, math.nan], (0, 2), (0, 2)),
    ],
    ids=str,
)
def test_indices_pass_over_nan(any_device: dml.Device, group: list[float], smallest: tuple[int, int], largest: tuple[int, int]) -> None:
    """By what users of DirectML's ARGMAX report (WebNN's issue 811); of NaN alone the first element that counts, a choice."""
    x = np.array(group, np.float32)
    for kind, function, places in ((dml.ArgminDesc, "ARGMIN", smallest), (dml.ArgmaxDesc, "ARGMAX", largest)):
        for direction, place in zip(("INCREASING", "DECREASING"), places, strict=True):
            desc = kind(input_tensor=tensor(x), axes=[0], axis_direction=direction).with_outputs()
            assert run(desc, {"input_tensor": x}, any_device)["output_tensor"].tolist() == [place]
        reduced = dml.ReduceDesc(function=function, input_tensor=tensor(x), axes=[0]).with_outputs()
        assert run(reduced, {"input_tensor": x}, any_device)["output_tensor"].tolist() == [places[0]]


LARGE = [
    ((3, 1003), (1,)),
    ((2, 4096), (1,)),
    ((1003, 3), (0,)),
    ((700, 64), (0,)),
    ((5, 33, 40), (0, 2)),
    ((70_001,), (0,)),
    ((300_000,), (0,)),
    ((40_000, 6), (0,)),
    ((2, 20_000, 4), (1,)),
]
"""Sizes with remainders, of which CUDA splits the last ones among blocks."""


OF_LARGE = [("SUM", "float32"), ("LOG_SUM_EXP", "float32"), ("ARGMIN", "int16"), ("L2", "float16"), ("SUM", "uint64")]


@pytest.mark.parametrize(
    ("any_device", "name", "dtype"),
    [
        *(("numpy", *row) for row in OF_LARGE),
        *(pytest.param("cuda-emulated", *row, marks=[pytest.mark.slow] * (row in OF_LARGE[2:])) for row in OF_LARGE),
        *(pytest.param("cuda", *row, marks=pytest.mark.gpu) for row in OF_LARGE),
    ],
    indirect=["any_device"],
)
def test_large_groups(any_device: dml.Device, name: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    for sizes, axes in LARGE:
        x = rng.uniform(0.5, 2, sizes).astype(dtype) if dtype in FLOATS else values(rng, sizes, dtype)
        desc = dml.ReduceDesc(function=name, input_tensor=tensor(x), axes=axes)
        desc = desc.replace(
            output_tensor=dml.TensorDesc(
                data_type="UINT32" if name == "ARGMIN" else dtype.upper(), sizes=[1 if a in axes else n for a, n in enumerate(sizes)]
            )
        )
        result, wanted = run(desc, {"input_tensor": x}, any_device)["output_tensor"], dml.reference(desc, {"input_tensor": x}).output_tensor
        if dtype in FLOATS:
            assert_close(result, wanted, dtype, terms=x.size // result.size, what=f"{name} {sizes} {axes}")
        else:
            np.testing.assert_array_equal(result, wanted, f"{name} {sizes} {axes}")


@pytest.mark.parametrize(
    ("any_device", "dtype"),
    [
        *(("numpy", dtype) for dtype in FLOATS + WIDE),
        *(pytest.param("cuda-emulated", dtype, marks=[] if dtype in ("float16", "int64") else pytest.mark.slow) for dtype in FLOATS + WIDE),
        *(pytest.param("cuda", dtype, marks=pytest.mark.gpu) for dtype in FLOATS + WIDE),
    ],
    indirect=["any_device"],
)
@pytest.mark.pairwise
@pytest.mark.parametrize("sizes", [(6,), (1, 4), (2, 3, 4), (2, 1, 2, 3, 1, 2, 2, 3), (3, 8)], ids=str)
@pytest.mark.parametrize("direction", ["INCREASING", "DECREASING"])
@pytest.mark.parametrize("exclusive", [False, True], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize(
    ("kind", "option", "function"),
    [(dml.CumulativeSummationDesc, "has_exclusive_sum", sum), (dml.CumulativeProductDesc, "has_exclusive_product", math.prod)],
    ids=["sum", "product"],
)
def test_running_sums_and_products(
    any_device: dml.Device,
    dtype: str,
    sizes: tuple[int, ...],
    direction: str,
    exclusive: bool,
    kind: Any,
    option: str,
    function: Callable[[list[Any]], Any],
) -> None:
    x = values(np.random.default_rng(3), sizes, dtype)
    for axis in {0, len(sizes) - 1}:
        desc = kind(input_tensor=tensor(x), axis=axis, axis_direction=direction, **{option: exclusive}).with_outputs()
        result = run_in_layouts(desc, {"input_tensor": x}, any_device)["output_tensor"]
        wanted = running(x, axis, function, direction == "DECREASING", exclusive)
        if dtype in FLOATS:
            assert_close(result, wanted.astype(np.float64), dtype, terms=8, what=f"axis {axis}")
        else:
            np.testing.assert_array_equal(result, wanted, err_msg=f"axis {axis}")


def running(x: Array, axis: int, function: Callable[[list[Any]], Any], backwards: bool, exclusive: bool) -> Array:
    """Each element from all that come before it, in Python's numbers."""
    found = np.empty(x.shape, object)
    bits = x.itemsize * 8
    for place in np.ndindex(x.shape):
        last = x.shape[axis] - 1
        met = range(place[axis] + exclusive, last + 1) if backwards else range(place[axis] + 1 - exclusive)
        value = function([x[(*place[:axis], index, *place[axis + 1 :])].item() for index in met])
        if x.dtype.kind in "iu":
            value %= 1 << bits
            value -= (1 << bits) * (x.dtype.kind == "i" and value >= 1 << (bits - 1))
        found[place] = value
    return found if x.dtype.kind == "f" else found.astype(x.dtype)


@pytest.mark.parametrize("factors", [1000, 60_000])
def test_products_of_many_factors(any_device: dml.Device, factors: int) -> None:
    """As accurate as one of two factors, and in float32's range though products of some of the factors are not."""
    rng = np.random.default_rng(11)
    halves = rng.uniform(0.5, 2, factors // 2)
    x = rng.permuted(np.concatenate([halves, 1 / halves])).astype(np.float32)
    reduced = dml.ReduceDesc(function="MULTIPLY", input_tensor=tensor(x), axes=[0]).with_outputs()
    found = run(reduced, {"input_tensor": x}, any_device)["output_tensor"]
    assert_close(found, [math.prod(x.tolist())], np.float32, what="REDUCE")
    x = np.where(np.arange(factors) % 2, x, 1 / np.roll(x, 1)).astype(np.float32)  # so that each result is in the range
    for direction in ("INCREASING", "DECREASING"):
        running = dml.CumulativeProductDesc(input_tensor=tensor(x), axis=0, axis_direction=direction, has_exclusive_product=False)
        found = run(running.with_outputs(), {"input_tensor": x}, any_device)["output_tensor"]
        turned = slice(None, None, 1 if direction == "INCREASING" else -1)
        wanted = np.array(list(itertools.accumulate(x.tolist()[turned], mul)))[turned]
        assert_close(found, wanted, np.float32, what=f"CUMULATIVE_PRODUCT {direction}")


LINES = [
    ((3, 1003), 1),
    ((2, 4096), 1),
    ((1003, 3), 0),
    ((300, 64), 0),
    ((5, 330, 4), 1),
    ((70_001,), 0),
    ((40_000, 6), 0),
    ((2, 20_000, 3), 1),
]
"""Sizes with remainders, of which CUDA splits the last ones among blocks."""


@pytest.mark.parametrize(
    ("dtype", "direction"), [("float32", "INCREASING"), ("float32", "DECREASING"), ("uint64", "DECREASING"), ("float16", "INCREASING")]
)
def test_long_lines(any_device: dml.Device, dtype: str, direction: str) -> None:
    rng = np.random.default_rng(9)
    for number, (sizes, axis) in enumerate(LINES):
        if dtype == "float16":
            x = (rng.integers(-1, 2, sizes)).astype(dtype)  # so that sums stay in its range
        else:
            x = rng.uniform(0.5, 2, sizes).astype(dtype) if dtype in FLOATS else values(rng, sizes, dtype)
        desc = dml.CumulativeSummationDesc(input_tensor=tensor(x), axis=axis, axis_direction=direction, has_exclusive_sum=number % 2)
        desc = desc.with_outputs()
        result, wanted = run(desc, {"input_tensor": x}, any_device)["output_tensor"], dml.reference(desc, {"input_tensor": x}).output_tensor
        if dtype in FLOATS:
            assert_close(result, wanted, dtype, terms=sizes[axis], what=f"{sizes} {axis}")
        else:
            np.testing.assert_array_equal(result, wanted, f"{sizes} {axis}")


def test_running_results_keep_what_is_not_finite(any_device: dml.Device) -> None:
    x = np.array([[1, math.inf, 2, -math.inf, 3], [0, math.nan, 1, math.inf, 0], [-1, 2, math.inf, 0, 1]], np.float32)
    for kind in (dml.CumulativeSummationDesc, dml.CumulativeProductDesc):
        for axis, direction in itertools.product((0, 1), ("INCREASING", "DECREASING")):
            desc = kind(input_tensor=tensor(x), axis=axis, axis_direction=direction).with_outputs()
            with np.errstate(invalid="ignore"):
                wanted = dml.reference(desc, {"input_tensor": x}).output_tensor
            np.testing.assert_array_equal(run(desc, {"input_tensor": x}, any_device)["output_tensor"], wanted, f"{desc} {axis} {direction}")


@pytest.mark.parametrize(("sizes", "axis"), [((3, 4), 1), ((5, 3), 0), ((50_000,), 0)])
def test_running_sums_in_place(any_device: dml.Device, sizes: tuple[int, ...], axis: int) -> None:
    x = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes) % 7
    desc = dml.CumulativeSummationDesc(input_tensor=tensor(x), axis=axis, axis_direction="DECREASING").with_outputs()
    wanted = np.flip(np.flip(x, axis).cumsum(axis=axis), axis)
    shared = any_device.from_host(x.copy())
    dml.compile(desc, any_device)(input_tensor=shared, output_tensor=shared)
    np.testing.assert_array_equal(any_device.to_host(shared), wanted)


@pytest.mark.parametrize(
    ("any_device", "dtype"),
    [
        *(("numpy", dtype) for dtype in FLOATS + INTEGERS),
        *(pytest.param("cuda-emulated", dtype, marks=[] if dtype in FEW_SORTED else pytest.mark.slow) for dtype in FLOATS + INTEGERS),
        *(pytest.param("cuda", dtype, marks=pytest.mark.gpu) for dtype in FLOATS + INTEGERS),
    ],
    indirect=["any_device"],
)
def test_top_k_is_a_stable_sort(any_device: dml.Device, dtype: str) -> None:
    rng = np.random.default_rng(4)
    cases = (((7,), 0, 3), ((1,), 0, 1), ((4, 5), 0, 4), ((2, 3, 6), 2, 1), ((2, 1, 3, 2, 1, 2, 2, 2), 2, 2))
    for number, (sizes, axis, k) in enumerate(cases):
        x = values(rng, sizes, dtype)
        if number % 3:
            x = (x.astype(np.float64) % 3).astype(dtype)  # many equal ones
        for direction in (None, "INCREASING", "DECREASING"):
            desc = top_k_desc(x, axis, k, direction, "UINT64" if number % 2 else "UINT32")
            results = run_in_layouts(desc, {"input_tensor": x}, any_device)
            for place in np.ndindex(*sizes[:axis], *sizes[axis + 1 :]):
                line = (*place[:axis], slice(None), *place[axis:])
                own = x[line].tolist()
                order = sorted(range(len(own)), key=own.__getitem__, reverse=direction != "INCREASING")[:k]
                assert results["output_index_tensor"][line].tolist() == order, (dtype, sizes, direction)
                assert results["output_value_tensor"][line].tolist() == [own[index] for index in order]


def top_k_desc(x: Array, axis: int, k: int, direction: str | None, index_type: str = "UINT32") -> dml.TopKDesc:
    """TOP_K, or TOP_K1 in a direction."""
    tensors: dict[str, Any] = {"input_tensor": tensor(x), "axis": axis, "k": k}
    taken = [*x.shape[:axis], k, *x.shape[axis + 1 :]]
    tensors["output_value_tensor"] = dml.TensorDesc(data_type=x.dtype.name.upper(), sizes=taken)
    tensors["output_index_tensor"] = dml.TensorDesc(data_type=index_type, sizes=taken)
    return dml.TopKDesc(**tensors) if direction is None else dml.TopK1Desc(**tensors, axis_direction=direction)


SORTS = [
    ((100, 3), 0, 100),
    ((3, 1024), 1, 1024),
    ((5000,), 0, 10),
    ((2, 2500), 1, 2400),
    ((9000,), 0, 64),
    ((1, 9000), 1, 1100),
    ((20_000, 2), 0, 7),
    ((2, 3, 9000), 2, 600),
]
"""Sizes with remainders: CUDA sorts some in one launch, sorts and merges runs of others, or first selects from segments."""


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_long_lines_are_sorted(any_device: dml.Device, dtype: str) -> None:
    """Many elements are equal, NaN, infinite or a zero of either sign: values bit for bit, and the lower index first."""
    rng = np.random.default_rng(10)
    for number, (sizes, axis, k) in enumerate(SORTS):
        if dtype == "int64":
            x = np.where(rng.random(sizes) < 0.5, values(rng, sizes, dtype), rng.integers(-3, 3, sizes))
        else:
            odd = rng.choice([math.nan, math.inf, -math.inf, 0.0, -0.0], sizes)
            x = np.where(rng.random(sizes) < 0.2, odd, rng.normal(size=sizes).round(2)).astype(dtype)
        desc = top_k_desc(x, axis, k, "INCREASING" if number % 2 else "DECREASING")
        for own in (desc, layouts(desc)[1]):
            found, wanted = run(own, {"input_tensor": x}, any_device), dml.reference(desc, {"input_tensor": x})
            what = f"{sizes} {axis} {k}"
            np.testing.assert_array_equal(found["output_index_tensor"], wanted.output_index_tensor, what)
            taken = np.take_along_axis(x, wanted.output_index_tensor.astype(np.int64), axis)
            np.testing.assert_array_equal(found["output_value_tensor"].view(f"u{x.itemsize}"), taken.view(f"u{x.itemsize}"), what)


def test_how_cuda_sorts() -> None:
    """Long lines of which little is taken are selected from, in segments where lines are few; runs merge to whole lines."""

    def told(*arguments: int) -> list[tuple[str, int, int, int]]:
        return [(step.name, step.count, step.parts, step.left) for step in steps(*arguments)]

    assert told(1024, 1024, 1, 100) == [("sort", 1024, 1, 0)]
    assert told(5000, 10, 1000, 100) == [("select", 5000, 1, 10), ("sort", 10, 1, 0)]
    assert told(10_000_000, 10, 1, 100) == [("select", 10_000_000, 400, 4000), ("select", 4000, 1, 10), ("sort", 10, 1, 0)]
    assert told(3000, 3000, 1, 100) == [("sort", 3000, 3, 3000), ("merge", 3000, 3, 3000), ("merge", 3000, 2, 0)]


@pytest.mark.onnx_reference
def test_reductions_agree_with_onnx() -> None:
    x = np.random.default_rng(5).normal(size=(2, 3, 4)).astype(np.float32) ** 2
    pairs = {"SUM": "ReduceSum", "AVERAGE": "ReduceMean", "L1": "ReduceL1", "L2": "ReduceL2", "LOG_SUM": "ReduceLogSum"}
    pairs |= {"LOG_SUM_EXP": "ReduceLogSumExp", "SUM_SQUARE": "ReduceSumSquare", "MULTIPLY": "ReduceProd"}
    for function, operator in pairs.items():
        desc = dml.ReduceDesc(function=function, input_tensor=tensor(x), axes=[2, 0]).with_outputs()
        (wanted,) = onnx_outputs(operator, [x.astype(np.float64), np.array([0, 2])])
        assert_close(run_in_layouts(desc, {"input_tensor": x})["output_tensor"], wanted, np.float32, terms=8, what=function)


def test_every_valid_desc_computes_in_every_layout() -> None:
    found = failures_in_layouts(*defined("reduction"), sums=True)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["REDUCE", "ARGMIN", "ARGMAX", "CUMULATIVE_SUMMATION", "CUMULATIVE_PRODUCT", "TOP_K", "TOP_K1"])
def test_every_valid_desc_computes_in_every_layout_on_cuda(cuda_device: dml.Device, operator: str) -> None:
    found = failures_in_layouts(operator, sums=True, device=cuda_device)
    assert not found, "\n".join(found)


def reduce_desc(name: str, dtype: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> dml.OperatorDesc:
    x, shape = dml.TensorDesc(data_type=dtype.upper(), sizes=sizes), [1 if axis in axes else size for axis, size in enumerate(sizes)]
    y = dml.TensorDesc(data_type="UINT32" if name.startswith("ARG") else dtype.upper(), sizes=shape)
    return dml.ReduceDesc(function=name, input_tensor=x, axes=axes, output_tensor=y)


def summation_desc(sizes: tuple[int, ...], axis: int) -> dml.OperatorDesc:
    x = dml.TensorDesc(data_type="INT32", sizes=sizes)
    return dml.CumulativeSummationDesc(input_tensor=x, axis=axis, axis_direction="DECREASING", has_exclusive_sum=True).with_outputs()


@pytest.mark.parametrize(
    ("desc", "sanitizers"),
    [
        (reduce_desc("L2", "float16", (3, 72), (1,)), "address,undefined"),
        (reduce_desc("ARGMAX", "int8", (40, 12), (0,)), "address,undefined"),
        (reduce_desc("SUM", "uint64", (20_001,), (0,)), "address,undefined"),
        (reduce_desc("SUM", "float32", (6, 200), (1,)), "thread"),
        (summation_desc((40_001,), 0), "address,undefined"),
        (summation_desc((3, 600), 1), "thread"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.short_name()} of {value.input_tensor.sizes}",
)
def test_the_sanitizers_find_nothing(desc: Any, sanitizers: str) -> None:
    require("g++")
    runtime = EmulatedRuntime(sanitize=sanitizers)
    x = values(np.random.default_rng(8), desc.input_tensor.sizes, desc.input_tensor.data_type.numpy.name)
    result, wanted = compute(desc, device=CudaDevice(runtime), input_tensor=x), dml.reference(desc, {"input_tensor": x}).output_tensor
    if x.dtype.kind == "f":
        assert_close(result, wanted, x.dtype, terms=200)
    else:
        np.testing.assert_array_equal(result, wanted)
    runtime.check_guards()


@pytest.mark.parametrize(
    ("sizes", "k", "sanitizers"), [((3, 40), 5, "thread"), ((2, 1500), 1400, "address,undefined"), ((5000,), 70, "thread")]
)
def test_the_sanitizers_find_nothing_in_a_sort(sizes: tuple[int, ...], k: int, sanitizers: str) -> None:
    require("g++")
    runtime, x = EmulatedRuntime(sanitize=sanitizers), np.random.default_rng(11).integers(-20, 20, sizes).astype(np.int16)
    desc = top_k_desc(x, len(sizes) - 1, k, None)
    found = results_of(desc, {"input_tensor": x}, CudaDevice(runtime))
    np.testing.assert_array_equal(found["output_index_tensor"], dml.reference(desc, {"input_tensor": x}).output_index_tensor)
    runtime.check_guards()


def test_what_cuda_reports_about_its_work(cuda_device: dml.Device) -> None:
    x = dml.TensorDesc(data_type="FLOAT32", sizes=(1 << 20,))
    operator = dml.compile(dml.ReduceDesc(function="SUM", input_tensor=x, axes=[0]).with_outputs(), cuda_device)
    assert "kernels: gather<float, Sum<float>, 4, false>, combine<float, Sum<float>>" in operator.plan
    assert 0 < operator.binding_properties.temporary_resource_size < 1 << 14
    small = dml.ReduceDesc(function="SUM", input_tensor=x.replace(sizes=(64, 64)), axes=[0]).with_outputs()
    assert "kernels: reduce<float, Sum<float>, 4, true>" in dml.compile(small, cuda_device).plan
