"""The NumPy device's recurrences divided among threads, products taken some rows at a time, and sigmoid gates as reciprocals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.numpy.recurrent import products
from dmlpy.devices.numpy.recurrent.division import Division, division_of, undivided
from dmlpy.devices.numpy.recurrent.layer import RecurrentPlan
from dmlpy.operators.recurrent.layer import RecurrentGeometry
from tests.support.operators.exact import exact
from tests.support.recurrent.layer_runs import FLAGS, build
from tests.support.tables import table

Array = np.ndarray[Any, np.dtype[Any]]

PARTS = (slice(0, 3), slice(3, 5))


def recurrences(directions: int, *samples: slice) -> tuple[tuple[int, slice], ...]:
    return tuple((direction, some) for direction in range(directions) for some in samples)


DIVISIONS = {
    "BLAS's threads": lambda directions: undivided(directions, 5),
    "this thread": lambda directions: Division(True, 1, recurrences(directions, *PARTS)),
    "two threads": lambda directions: Division(True, 2, recurrences(directions, *PARTS)),
    "a thread without work": lambda directions: Division(True, 5, recurrences(directions, *PARTS)),
}


@pytest.fixture(params=list(DIVISIONS.values()), ids=list(DIVISIONS))
def division(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan for five samples is divided so, and takes products of more than some multiplications in pieces."""
    monkeypatch.setattr(
        "dmlpy.devices.numpy.recurrent.layer.division_of", lambda sizes, gates, threads: request.param(sizes.num_directions)
    )
    monkeypatch.setattr(products, "_SMALL", 60)


@pytest.mark.usefixtures("division")
@table("ragged", [False, True], ids=["full", "ragged"])
@table("direction", ["BACKWARD", "BIDIRECTIONAL"])
@table(("cell", "flags"), [(cell, flags) for cell, table in FLAGS.items() for flags in table[::3]])
def test_divided_recurrences(cell: str, flags: dict[str, Any], direction: str, ragged: bool) -> None:
    lengths = [2, 0, 4, 1, 3] if ragged else None
    for dtype, prepared in ((np.float32, True), (np.float16, False)):
        run = build(cell, np.random.default_rng(3), b=5, direction=direction, lengths=lengths, dtype=dtype, **flags)
        run.launch(RecurrentPlan(run.desc), prepared=prepared)
        run.check(exact(run.desc, run.arrays))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
@pytest.mark.parametrize("last", [False, True])
def test_gates_at_extreme_sums(cell: str, last: bool, batch: int) -> None:
    """Gates whose sums overflow exp, saturate, are infinite or NaN."""
    values = np.array([0.0, 20.0, 87.0, 89.0, 104.0, 3e38, np.inf], np.float32)
    values = np.concatenate([values, -values, [np.nan]])
    flags = {"linear_before_reset": last} if cell == "GRU" else {"optional": ("hidden_init_tensor", "cell_mem_init_tensor")}
    run = build(cell, np.random.default_rng(5), t=2, b=batch, i=1, h=len(values), **flags)
    run.inputs["input_tensor"].elements[...] = 1.0
    run.inputs["recurrence_tensor"].elements[...] = 0.0
    by_gate = run.inputs["weight_tensor"].elements.reshape(-1, len(values))
    for gate in range(len(by_gate)):
        by_gate[gate] = np.roll(values, 3 * gate)
    run.launch(RecurrentPlan(run.desc))
    with np.errstate(all="ignore"):
        expected = exact(run.desc, run.arrays)
    for name, placed in run.outputs.items():
        np.testing.assert_allclose(placed.elements, expected[name], rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("rows", [1, 7, 8, 12])
@pytest.mark.parametrize("leading", [(), (2,)])
def test_direct_products(rows: int, leading: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    operand = rng.standard_normal((*leading, 5, 3))
    for matrix in (rng.standard_normal((rows, 5)), rng.standard_normal((*leading, rows, 5))):
        for small in (1, 15, 70, 1000):  # no row at once, one, four, all
            monkeypatch.setattr(products, "_SMALL", small)
            padded = np.full((*leading, rows, 4), np.nan)
            products.direct_product(matrix, operand, padded[..., :3])()
            np.testing.assert_allclose(padded[..., :3], matrix @ operand, rtol=1e-14, atol=1e-14)
            assert np.isnan(padded[..., 3]).all()


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_sample_has_one_recurrence(threads: int, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "small_products_are_direct", lambda: direct)
    for hidden, batch, directions in itertools.product([16, 256, 5000], [1, 2, 8, 20, 64, 200], [1, 2]):
        division = division_of(RecurrentGeometry(10, directions, batch, 64, hidden, 4, hidden), 4, threads)
        taken = np.zeros((directions, batch), np.intp)
        for direction, samples in division.recurrences:
            taken[direction, samples] += 1
        assert (taken == 1).all()
        assert 1 <= division.threads <= min(threads, len(division.recurrences))
        assert division.direct <= direct
        if division.threads == 1 and threads > 1:
            assert len(division.recurrences) == directions
        if direct and hidden == 256 and batch == 200:
            assert division.threads > threads // 2
