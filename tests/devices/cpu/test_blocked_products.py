"""Compiled products of matrices in place, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.matrix import blocked

Array = np.ndarray[Any, np.dtype[Any]]

# rows, terms, columns: several parts of rows and panels, what is left over of groups, vectors and blocks of terms, and single ones
SIZES = [(300, 260, 170), (37, 129, 33), (8, 128, 32), (1, 1, 1), (5, 3, 16)]


def of(sizes: tuple[int, int, int], *, transposed: bool) -> tuple[Array, Array, Array]:
    """A, B and an output, each with gaps between its rows."""
    rng, (rows, terms, columns) = np.random.default_rng(5), sizes
    shapes = ((terms, rows) if transposed else (rows, terms)), (terms, columns), (rows, columns)
    whole = [np.full((height, width + 3), np.nan, np.float32) for height, width in shapes]
    a, b, output = (array[:, :width] for array, (_, width) in zip(whole, shapes, strict=True))
    a[...], b[...] = rng.normal(size=a.shape), rng.normal(size=b.shape)
    return a, b, output


def scratch_for(threads: int) -> Array:
    return np.full(blocked.scratch_bytes(threads), 0xA5, np.uint8)


@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "x".join(map(str, sizes)))
def test_products_of_matrices_in_place(sizes: tuple[int, int, int], transposed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written, then added; two threads change no bit, and nothing between the output's rows is touched."""
    monkeypatch.setattr(blocked, "_WORK_OF_A_THREAD", 1)
    rows, terms, _ = sizes
    results = []
    for threads in (1, 2):
        a, b, output = of(sizes, transposed=transposed)
        totals = np.full(rows, np.nan, np.float32)
        given = (a, b, output, scratch_for(threads), threads)
        options: dict[str, Any] = {"transposed": transposed, "totals": totals if transposed else None}
        left = np.float64(a.T if transposed else a)
        blocked.BlockedProduct(*given, **options)()
        assert_close(output, left @ b, np.float32, terms=terms)
        blocked.BlockedProduct(*given, **options, adds=True)()
        assert_close(output, 2 * (left @ b), np.float32, terms=terms)
        if transposed:
            assert_close(totals, 2 * left.sum(1), np.float32, terms=terms)
        assert output.base is not None
        assert np.isnan(output.base[:, sizes[2] :]).all()
        results.append(output.copy())
    np.testing.assert_array_equal(*results)


def test_fewer_terms_and_rows_than_bound() -> None:
    """The first of them; none leave zeros, or what was there where they are added."""
    a, b, output = of((20, 150, 40), transposed=True)
    multiply, add = (blocked.BlockedProduct(a, b, output, scratch_for(1), 1, transposed=True, adds=adds) for adds in (False, True))
    multiply.limit(131)
    multiply()
    assert_close(output, np.float64(a[:131].T) @ b[:131], np.float32, terms=131)
    before = output.copy()
    add.limit(0)
    add()
    np.testing.assert_array_equal(output, before)
    multiply.limit(0)
    multiply()
    np.testing.assert_array_equal(output, 0.0)
    a, b, output = of((20, 150, 40), transposed=False)
    multiply = blocked.BlockedProduct(a, b, output, scratch_for(1), 1)
    multiply.limit(13)
    multiply()
    assert_close(output[:13], np.float64(a[:13]) @ b, np.float32, terms=150)
    assert np.isnan(output[13:]).all()


def test_a_row_does_not_depend_on_the_number_of_others() -> None:
    """Also where one row is left over of groups."""
    a, b, output = of((40, 150, 40), transposed=False)
    multiply = blocked.BlockedProduct(a, b, output, scratch_for(1), 1)
    multiply()
    whole = output.copy()
    for rows in range(2, 40):
        multiply.limit(rows)
        output[...] = np.nan
        multiply()
        np.testing.assert_array_equal(output[:rows], whole[:rows])


def test_totals_alone() -> None:
    a, _, _ = of((70, 300, 1), transposed=True)
    totals = np.full(70, np.nan, np.float32)
    blocked.BlockedProduct(a, None, None, scratch_for(1), 1, transposed=True, totals=totals)()
    assert_close(totals, np.float64(a).sum(0), np.float32, terms=300)


@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "x".join(map(str, sizes)))
def test_rows_are_multiplied_by_those_of_their_samples(
    sizes: tuple[int, int, int], transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of B where A is transposed, else those of the product before it is added; on any number of threads."""
    monkeypatch.setattr(blocked, "_WORK_OF_A_THREAD", 1)
    rows, terms, columns = sizes
    rng, results = np.random.default_rng(6), []
    values = np.full((3, blocked.padded_columns(columns)), np.nan, np.float32)
    values[:, :columns] = rng.normal(size=(3, columns))
    samples = rng.integers(0, 3, terms if transposed else rows)
    for threads in (1, 2):
        a, b, output = of(sizes, transposed=transposed)
        totals = np.full(rows, np.nan, np.float32) if transposed else None
        multipliers = blocked.RowMultipliers(values, samples)
        given = (a, b, output, scratch_for(threads), threads)
        options: dict[str, Any] = {"transposed": transposed, "totals": totals, "multipliers": multipliers}
        of_rows = np.float64(values[samples, :columns])
        expected = np.float64(a.T) @ (b * of_rows) if transposed else (np.float64(a) @ b) * of_rows
        for adds in (False, True):
            blocked.BlockedProduct(*given, **options, adds=adds)()
            assert_close(output, (1 + adds) * expected, np.float32, terms=terms)
        if totals is not None:
            assert_close(totals, 2 * np.float64(a).sum(0), np.float32, terms=terms)
        results.append(output.copy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_by_their_addresses(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another order, some twice, and some of other arrays: those of B, and those of the output, where others are not touched."""
    monkeypatch.setattr(blocked, "_WORK_OF_A_THREAD", 1)
    rng, room = np.random.default_rng(9), scratch_for(threads)
    a, b, output = of((37, 150, 40), transposed=True)
    zeros = np.zeros(40, np.float32)
    chosen = rng.integers(0, len(b), len(b))
    addresses = b.ctypes.data + chosen * b.strides[0]
    addresses[::7] = zeros.ctypes.data
    blocked.BlockedProduct(a, b[:1], output, room, threads, transposed=True, b_rows=addresses)()
    rows: Array = b[chosen].astype(np.float64)
    rows[::7] = 0.0
    assert_close(output, np.float64(a).T @ rows, np.float32, terms=150)

    a, b, output = of((37, 150, 40), transposed=False)
    wide = np.full((100, 40), np.nan, np.float32)
    places = rng.permutation(100)[:37]
    expected = np.float64(a) @ b
    for adds in (False, True):
        addresses = wide.ctypes.data + places * wide.strides[0]
        blocked.BlockedProduct(a, b, wide[:1], room, threads, output_rows=addresses, adds=adds)()
        assert_close(wide[places], (1 + adds) * expected, np.float32, terms=150)
    assert np.isnan(np.delete(wide, places, 0)).all()


@pytest.mark.parametrize(
    ("groups", "panels", "threads", "splits"),
    [(171, 16, 1, (11, 1)), (171, 16, 2, (11, 2)), (3, 40, 1, (1, 3)), (2, 3, 16, (2, 3)), (40, 0, 2, (12, 1)), (200, 8, 2, (14, 1))],
)
def test_tiles_have_about_as_many_groups_as_panels(groups: int, panels: int, threads: int, splits: tuple[int, int]) -> None:
    """No part is larger than the memory for it, there are enough unless there is less work, and each thread gets as many."""
    assert blocked._split(groups, panels, threads) == splits
