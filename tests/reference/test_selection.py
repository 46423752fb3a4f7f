"""TOP_K where it sorts few candidates of each row, and ERF block by block: the results of a whole sort and of any other block."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.reference import reduction, special
from tests.support.operators.layout_runs import packed, same, tensor

Array = np.ndarray[Any, Any]
TYPES: tuple[Any, ...] = (np.float16, np.float32, np.int8, np.uint8, np.int32, np.int64, np.uint64)


def rows(rng: np.random.Generator, dtype: Any, kind: str) -> Array:
    """Rows of 500 along the second of three dimensions."""
    sizes = (3, 500, 2)
    if np.dtype(dtype).kind != "f":
        limits = np.iinfo(dtype)
        return (
            rng.integers(0, 9, sizes).astype(dtype) if kind == "ties" else rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
        )
    x = rng.integers(-4, 5, sizes) if kind == "ties" else rng.normal(size=sizes)
    share = {"some NaN": 0.01, "much NaN": 0.9}.get(kind, 0.0)
    return np.where(rng.random(sizes) < share, rng.choice([np.nan, np.inf, -np.inf], sizes), x).astype(dtype)


def sort_key(own: float, direction: str) -> tuple[int, float]:
    """Of NaN as the largest."""
    sign = 1 if direction == "INCREASING" else -1
    return (sign, 0) if math.isnan(own) else (0, sign * own)


@pytest.mark.parametrize("kind", ["distinct", "ties", "some NaN", "much NaN"])
@pytest.mark.parametrize("direction", ["INCREASING", "DECREASING"])
def test_top_k_of_long_rows_is_that_of_a_stable_sort(direction: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN is the largest, and equal elements stay in the order of their indices."""
    rng, taken = np.random.default_rng(1), 0
    candidates = reduction._top_candidates

    def noted(*arguments: Any) -> Any:
        nonlocal taken
        found = candidates(*arguments)
        taken += found is not None
        return found

    monkeypatch.setattr(reduction, "_top_candidates", noted)
    for dtype in TYPES:
        x = rows(rng, dtype, kind)
        for k in (1, 7, 60, 400):
            sizes = (3, k, 2)
            desc = dml.TopK1Desc(
                input_tensor=tensor(x),
                output_value_tensor=packed(dtype, *sizes),
                output_index_tensor=packed(np.uint32, *sizes),
                axis=1,
                k=k,
                axis_direction=direction,
            )
            found = dml.compile(desc, "numpy")(input_tensor=x)
            index = found.output_index_tensor.astype(np.int64)
            for row, column in np.ndindex(3, 2):
                keys = [sort_key(own, direction) for own in x[row, :, column].tolist()]
                order = sorted(range(500), key=keys.__getitem__)[:k]
                assert index[row, :, column].tolist() == order, f"{np.dtype(dtype)}, k = {k}"
            same(found.output_value_tensor, np.take_along_axis(x, index, 1), f"{np.dtype(dtype)}, k = {k}")
    # Rows of distinct elements have few candidates unless k is large.
    assert taken == 3 * len(TYPES) or kind != "distinct"


@pytest.mark.each_value
@pytest.mark.parametrize("function", [special.erf, special.normal_tail], ids=lambda own: str(own.__name__))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_change_no_bit(function: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [0.0, -0.0, math.inf, -math.inf, math.nan, 0.46875, 4.0, -5.7]
    x = np.concatenate([ends, np.random.default_rng(2).normal(0, 3, 30_000)]).astype(dtype).reshape(4, -1)
    with np.errstate(all="ignore"):
        whole = function(x)
        monkeypatch.setattr(special, "_BLOCK", 11)
        assert function(x).tobytes() == whole.tobytes()
    assert whole.shape == x.shape
    exact = [math.erf(own) if function is special.erf else math.erfc(abs(own) / math.sqrt(2)) for own in x.reshape(-1).tolist()]
    np.testing.assert_allclose(whole.reshape(-1), exact, 64 * np.finfo(dtype).eps, 1e-30)
