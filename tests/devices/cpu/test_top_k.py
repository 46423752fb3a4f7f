"""The compiled TOP_K and TOP_K1 against their definition."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import dmlpy as dml

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.reduction import top_k_plan
from dmlpy.devices.cpu.reduction.top_k_plan import TopKPlan
from tests.support.operators.layout_runs import Array, run

TYPES = ("FLOAT32", "FLOAT16", "BFLOAT16", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64")
# sizes, axis and k: rows shorter and longer than vectors, and of many; along each dimension; all elements, and one
# bytes are counted where many are taken, and others sorted by digits where many of long rows are
SIZES = (
    ((5, 301), 1, 9),
    ((3, 50), 1, 25),
    ((2, 2111), 1, 3),
    ((3, 40, 5), 1, 7),
    ((2, 3, 60), 2, 60),
    ((2, 333), 1, 1),
    ((90, 4), 0, 3),
    ((1,), 0, 1),
    ((3, 301), 1, 150),
    ((2, 500), 1, 17),
    ((2, 290, 3), 1, 290),
)
FEW = 5
"""Bytes of these rows that a heap finds; where more are taken, they are counted."""


def elements(rng: np.random.Generator, dtype: np.dtype[Any], sizes: tuple[int, ...]) -> list[Array]:
    """Different numbers in no order and in both, and few numbers among which are both ends of the type, zeros and NaN."""
    if dtype.kind not in "iu":
        different: Array = rng.normal(size=sizes).astype(dtype)
        few = rng.choice(np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5], dtype), sizes)
    else:
        limits = np.iinfo(dtype)
        different = rng.integers(limits.min, limits.max, sizes, dtype=dtype, endpoint=True)
        few = rng.choice(np.array([limits.min, limits.max, 0, 1], dtype), sizes)
    return [different, np.sort(different, None).reshape(sizes), np.sort(different, None)[::-1].copy().reshape(sizes), few]


def desc_of(x: Any, axis: int, k: int, index_type: str = "UINT32", **members: Any) -> Any:
    """The desc for the desc of an input."""
    sizes = [k if at == axis else size for at, size in enumerate(x.sizes)]
    tensors = {"output_value_tensor": x.data_type, "output_index_tensor": index_type}
    outputs = {name: dml.TensorDesc(data_type=own, sizes=sizes) for name, own in tensors.items()}
    return (dml.TopK1Desc if members else dml.TopKDesc)(input_tensor=x, axis=axis, k=k, **outputs, **members)


@pytest.mark.parametrize("data_type", TYPES)
def test_as_the_definition(data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both directions, with both types of indices, on one thread and on two, also of an input with gaps. Results are bit for bit."""
    monkeypatch.setattr(top_k_plan, "_WORK_OF_A_THREAD", 1)
    rng, dtype = np.random.default_rng(1), dml.DataType[data_type].numpy
    for sizes, axis, k in SIZES:
        for number, values in enumerate(elements(rng, dtype, sizes)):
            members = {"axis_direction": "INCREASING"} if number % 2 else {}
            given = np.stack([values, values], -1)[..., 0] if number == 0 else values
            desc = desc_of(dml.TensorDesc.of(given), axis, k, ("UINT32", "UINT64")[k % 2], **members)
            wanted = dml.reference(desc, {"input_tensor": given}).as_dict()
            monkeypatch.setattr(top_k_plan, "available_threads", lambda number=number: 1 + number % 2)
            plan = compiled_plan(desc)
            assert isinstance(plan, TopKPlan)
            how = "counts" if dtype.itemsize == 1 and k > FEW else "digits" if 32 * k > sizes[axis] > 256 else "heaps"
            assert plan.describe().endswith(f"by {how}")
            for place, found in run(desc, {"input_tensor": given}, "cpu").items():
                assert found.tobytes() == wanted[place].astype(found.dtype).tobytes(), (sizes, number, place)


def test_a_sorted_row_takes_no_longer_than_another() -> None:
    """The best elements last: all would be better than those before, 100 times as many as of a row in no order."""
    given = np.random.default_rng(1).random((1, 200_000), np.float32)
    operator = dml.compile(desc_of(dml.TensorDesc.of(given), 1, 20), "cpu")
    took = []
    for values in (given, np.sort(given)):
        times = []
        for _ in range(5):
            start = time.process_time()
            operator(input_tensor=values)
            times.append(time.process_time() - start)
        took.append(min(times))
    assert took[1] < 10 * took[0]
