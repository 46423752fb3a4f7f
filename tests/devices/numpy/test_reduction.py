"""Reductions on whole arrays, against Python's own arithmetic on each group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.layout_runs import Array, defined, failures_in_layouts, run_in_layouts, tensor
from tests.support.onnx_reference import onnx_outputs
from tests.support.tolerance import assert_close

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


def test_every_function_type_and_choice_of_axes() -> None:
    rng, count = np.random.default_rng(1), 0
    for name, (function, types) in FUNCTIONS.items():
        for dtype in types:
            for sizes, axes in AXES:
                x = values(rng, sizes, dtype)
                if name == "LOG_SUM":
                    x = np.abs(x)
                is_index = name.startswith("ARG")
                output = {"data_type": "UINT32" if count % 2 else "INT64"} if is_index else {"data_type": dtype.upper()}
                reduced = [1 if axis in axes else size for axis, size in enumerate(sizes)]
                desc = dml.ReduceDesc(
                    function=name, input_tensor=tensor(x), output_tensor=dml.TensorDesc(sizes=reduced, **output), axes=axes
                )
                result = run_in_layouts(desc, {"input_tensor": x})["output_tensor"]
                what, count = f"{name} {dtype} {sizes} {axes}", count + 1
                if dtype in FLOATS and not is_index:
                    assert_close(result, expected(x, axes, function, np.float64), dtype, terms=x.size, what=what)
                else:
                    np.testing.assert_array_equal(result, expected(x, axes, function, result.dtype), err_msg=what)
    assert count == sum(len(types) for _, types in FUNCTIONS.values()) * len(AXES)


def reduced(function: str, *group: float) -> float:
    x = np.array(group, np.float32)
    desc = dml.ReduceDesc(function=function, input_tensor=tensor(x), axes=[0]).with_outputs()
    return float(run_in_layouts(desc, {"input_tensor": x})["output_tensor"][0])


def test_reductions_do_not_overflow_on_the_way_and_keep_what_is_not_finite() -> None:
    inf, nan = math.inf, math.nan
    assert math.isclose(reduced("L2", 3e30, 4e30), 5e30, rel_tol=1e-6)
    assert math.isclose(reduced("L2", 3e-30, -4e-30), 5e-30, rel_tol=1e-6)
    assert (reduced("L2", 0, 0), reduced("L2", 1, -inf)) == (0, inf)
    assert math.isnan(reduced("L2", nan, inf))
    assert math.isclose(reduced("LOG_SUM_EXP", 1000, 1000), 1000 + math.log(2), rel_tol=1e-6)
    assert math.isclose(reduced("LOG_SUM_EXP", -1000, -inf), -1000, rel_tol=1e-6)
    assert (reduced("LOG_SUM_EXP", -inf, -inf), reduced("LOG_SUM_EXP", inf, 0)) == (-inf, inf)
    assert reduced("LOG_SUM", 1, -1) == -inf
    assert math.isnan(reduced("LOG_SUM", -1, 0))
    for function in ("SUM", "MIN", "MAX", "LOG_SUM_EXP", "AVERAGE"):
        assert math.isnan(reduced(function, 1, nan, 2)), function


def test_which_of_equal_elements_an_index_is_of() -> None:
    rng, count = np.random.default_rng(2), 0
    for kind, find in ((dml.ArgminDesc, min), (dml.ArgmaxDesc, max)):
        for dtype in FLOATS + INTEGERS:
            for sizes, axes in AXES:
                x = rng.integers(0, 3, sizes).astype(dtype)
                for direction in ("INCREASING", "DECREASING"):

                    def index(group: list[Any], find: Any = find, last: bool = direction == "DECREASING") -> int:
                        return len(group) - 1 - group[::-1].index(find(group)) if last else group.index(find(group))

                    desc = kind(input_tensor=tensor(x), axes=axes, axis_direction=direction)
                    shape = [1 if axis in axes else size for axis, size in enumerate(sizes)]
                    desc = desc.replace(output_tensor=dml.TensorDesc(data_type="UINT64" if count % 2 else "INT32", sizes=shape))
                    result = run_in_layouts(desc, {"input_tensor": x})["output_tensor"]
                    np.testing.assert_array_equal(result, expected(x, axes, index, result.dtype), err_msg=f"{kind.__name__} {dtype} {axes}")
                    count += 1
    assert count == 2 * 10 * len(AXES) * 2


def test_running_sums_and_products() -> None:
    rng, count = np.random.default_rng(3), 0
    for dtype in FLOATS + WIDE:
        for sizes in ((6,), (1, 4), (2, 3, 4), (2, 1, 2, 3, 1, 2, 2, 3)):
            for axis in {0, len(sizes) - 1}:
                x = values(rng, sizes, dtype)
                for direction, exclusive in itertools.product(("INCREASING", "DECREASING"), (False, True)):
                    common: dict[str, Any] = {"input_tensor": tensor(x), "axis": axis, "axis_direction": direction}
                    summed = dml.CumulativeSummationDesc(**common, has_exclusive_sum=exclusive).with_outputs()
                    multiplied = dml.CumulativeProductDesc(**common, has_exclusive_product=exclusive).with_outputs()
                    for desc, function in ((summed, sum), (multiplied, math.prod)):
                        result = run_in_layouts(desc, {"input_tensor": x})["output_tensor"]
                        wanted = running(x, axis, function, direction == "DECREASING", exclusive)
                        what, count = f"{desc.short_name()} {dtype} {sizes} {axis} {direction} {exclusive}", count + 1
                        if dtype in FLOATS:
                            assert_close(result, wanted.astype(np.float64), dtype, terms=8, what=what)
                        else:
                            np.testing.assert_array_equal(result, wanted, err_msg=what)
    assert count > 300


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


def test_running_sums_in_place() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    desc = dml.CumulativeSummationDesc(input_tensor=tensor(x), axis=1, axis_direction="DECREASING").with_outputs()
    wanted = x[:, ::-1].cumsum(axis=1)[:, ::-1]
    dml.compile(desc, "numpy")(input_tensor=x, output_tensor=x)
    np.testing.assert_array_equal(x, wanted)


def test_top_k_is_a_stable_sort() -> None:
    rng, count = np.random.default_rng(4), 0
    for dtype in FLOATS + INTEGERS:
        for sizes, axis, k in (((7,), 0, 3), ((1,), 0, 1), ((4, 5), 0, 4), ((2, 3, 6), 2, 1), ((2, 1, 3, 2, 1, 2, 2, 2), 2, 2)):
            x = values(rng, sizes, dtype)
            if count % 3:
                x = (x.astype(np.float64) % 3).astype(dtype)  # many equal ones
            for direction in (None, "INCREASING", "DECREASING"):
                tensors: dict[str, Any] = {"input_tensor": tensor(x), "axis": axis, "k": k}
                taken = [*sizes[:axis], k, *sizes[axis + 1 :]]
                tensors["output_value_tensor"] = tensor(x).replace(sizes=taken)
                tensors["output_index_tensor"] = dml.TensorDesc(data_type="UINT64" if count % 2 else "UINT32", sizes=taken)
                desc = dml.TopKDesc(**tensors) if direction is None else dml.TopK1Desc(**tensors, axis_direction=direction)
                results = run_in_layouts(desc, {"input_tensor": x})
                for place in np.ndindex(*sizes[:axis], *sizes[axis + 1 :]):
                    line = (*place[:axis], slice(None), *place[axis:])
                    own = x[line].tolist()
                    order = sorted(range(len(own)), key=own.__getitem__, reverse=direction != "INCREASING")[:k]
                    assert results["output_index_tensor"][line].tolist() == order, (dtype, sizes, direction)
                    assert results["output_value_tensor"][line].tolist() == [own[index] for index in order]
                count += 1
    assert count == 10 * 5 * 3


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
