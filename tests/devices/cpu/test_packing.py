"""The compiled packing of matrices in blocks of units, against NumPy's copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.launches import fuse_launches
from dmlpy.devices.cpu.recurrent import packing
from dmlpy.devices.cpu.recurrent.packing import PackedMatrix, bind_packing, is_packable

Array = np.ndarray[Any, np.dtype[Any]]

# units, terms: whole tiles, parts of a tile either way, and single ones
SIZES = [(64, 32), (35, 21), (3, 5), (1, 1), (16, 1)]


def packed(source: Array, lanes: int) -> Array:
    """[gates, units, terms] as [blocks, terms, gates, lanes]."""
    gates, units, terms = source.shape
    blocks = -(-units // lanes)
    whole = np.zeros((gates, blocks * lanes, terms), np.float32)
    whole[:, :units] = source
    return whole.reshape(gates, blocks, lanes, terms).transpose(1, 3, 0, 2)


@pytest.mark.parametrize(("units", "terms"), SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_matrices_in_blocks_of_units(units: int, terms: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several at once, transposed and straight, of more and fewer units, from rows with NaN between them; nothing else is touched."""
    monkeypatch.setattr(packing, "_FLOATS_OF_A_THREAD", 1)
    monkeypatch.setattr(packing, "available_threads", lambda: threads)
    isa, rng = host_isa(), np.random.default_rng(1)
    blocks = -(-units // isa.lanes)
    gates = np.full((3, units, terms + 2), np.nan, np.float32)[:, :, :terms]
    straight = np.full((terms, units + 3), np.nan, np.float32)[:, :units]
    for source in (gates, straight):
        source[...] = rng.normal(size=source.shape)
    target = np.full((blocks, terms, 3, isa.lanes), np.nan, np.float32)
    room = np.full((blocks, terms + 4, isa.lanes), np.nan, np.float32)
    other = rng.normal(size=(2, 2 * units + 1, terms)).astype(np.float32)
    pairs = np.full((-(-blocks // 2), terms, 2 * isa.lanes), np.nan, np.float32)  # blocks of two vectors
    more = np.full((-(-other.shape[1] // isa.lanes), terms, 2, isa.lanes), np.nan, np.float32)
    given = [PackedMatrix(gates, target), PackedMatrix(other, more), PackedMatrix(straight, room[:, 1 : 1 + terms])]
    given.append(PackedMatrix(straight, pairs))
    (pack,) = fuse_launches([bind_packing(given, isa)])
    for _ in range(2):  # again, as later launches do
        pack()
        np.testing.assert_array_equal(target, packed(gates, isa.lanes))
        np.testing.assert_array_equal(more, packed(other, isa.lanes))
        np.testing.assert_array_equal(room[:, 1 : 1 + terms], packed(straight.T[None], isa.lanes)[:, :, 0])
        np.testing.assert_array_equal(pairs, packed(straight.T[None], 2 * isa.lanes)[:, :, 0])
        assert np.isnan(room[:, 0]).all()
        assert np.isnan(room[:, 1 + terms :]).all()
        gates[...] += 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (np.zeros((2, 3, 4), np.float32), True),
        (np.zeros((2, 3, 4), np.float32)[:, ::2], True),
        (np.zeros((2, 3, 4), np.float32)[..., ::2], False),
        (np.zeros((2, 3, 4), np.float32)[..., 1:2], True),
        (np.zeros((2, 3, 4), np.float16), False),
    ],
    ids=["dense", "rows apart", "entries apart", "single entries", "FLOAT16"],
)
def test_only_rows_of_float32_are_packed_by_compiled_code(source: Array, expected: bool) -> None:
    assert is_packable(source) is expected
