"""Products whose factors ALLOW_HALF_PRECISION_COMPUTATION rounds to BFLOAT16: those of the rounded factors, with float32 sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import Array, tensor
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu import isa
from dmlpy.devices.cpu.matrix import plan
from dmlpy.devices.cpu.matrix.plans import pair_plan as plan_of

FLAG = "ALLOW_HALF_PRECISION_COMPUTATION"
needs_instructions = pytest.mark.skipif(not isa.multiplies_bfloat16(), reason="this processor has no AVX512-BF16")


def rounded(x: Array) -> Array:
    """The nearest numbers of BFLOAT16, even ones where two are as near."""
    bits = x.view(np.uint32).astype(np.uint64)
    kept = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32)
    return kept.view(np.float32)


def strided(rng: np.random.Generator, sizes: tuple[int, ...], memory: tuple[int, ...]) -> Array:
    """Numbers with gaps: the first of each dimension of some memory."""
    whole = rng.normal(size=memory).astype(np.float32)
    return whole[tuple(slice(0, size) for size in sizes)]


# sizes of A, B and C as they lie in memory, and other members
ROWS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None, dict[str, Any]]] = {
    "one matrix": ((40, 64), (64, 96), None, {}),
    "odd sizes": ((37, 33), (33, 45), None, {}),
    "several groups of panels": ((5, 33), (33, 320), None, {}),
    "B transposed": ((13, 51), (70, 51), None, {"trans_b": "TRANSPOSE"}),
    "C, scaled": ((9, 40), (40, 33), (9, 33), {"alpha": 0.5, "beta": -2.0}),
    "a row of C, RELU": ((9, 40), (40, 33), (1, 33), {"fused_activation": dml.ActivationReluDesc()}),
    "batches, GELU": ((2, 3, 9, 17), (2, 3, 17, 20), None, {"fused_activation": dml.ActivationGeluDesc()}),
    "one B for all": ((2, 3, 9, 17), (1, 1, 17, 20), None, {}),
    "one B for an inner batch": ((2, 3, 9, 17), (2, 1, 17, 20), None, {}),
}


def desc_of(arrays: dict[str, Array], members: dict[str, Any]) -> dml.GEMMDesc:
    *batch, rows, _ = arrays["a_tensor"].shape
    columns = arrays["b_tensor"].shape[-2 if "trans_b" in members else -1]
    tensors = {}
    for place, array in arrays.items():
        sizes = (*batch, rows, columns) if place == "c_tensor" else (*batch, *array.shape[-2:])
        tensors[place] = tensor(np.broadcast_to(array, sizes))
    return dml.GEMMDesc(**tensors, **members).with_outputs()


def run(found: Any, desc: Any, arrays: dict[str, Array], *, prepared: bool) -> Array:
    """The result over poisoned memory."""
    memory = np.full((2, max(found.temporary_size, found.persistent_size) + 128), 0xA5, np.uint8)
    temporary, persistent = (row.ctypes.data + -row.ctypes.data % 64 for row in memory)
    output: Array = np.full(desc.output_tensor.sizes, np.nan, np.float32)
    pointers = {place: array.ctypes.data for place, array in arrays.items()} | {"output_tensor": output.ctypes.data}
    if prepared:
        found.pack({"b_tensor": pointers.pop("b_tensor")}, persistent)(0)
    found.bind(pointers, temporary, persistent if prepared else None)(0)
    for row, first, size in zip(memory, (temporary, persistent), (found.temporary_size, found.persistent_size), strict=True):
        assert (row[first - row.ctypes.data + size :] == 0xA5).all()
    return output


@needs_instructions
@pytest.mark.parametrize("name", ROWS)
def test_rounded_factors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of_a, of_b, of_c, members = ROWS[name]
    rng = np.random.default_rng(8)
    arrays = {"a_tensor": strided(rng, of_a, (*of_a[:-1], of_a[-1] + 3)), "b_tensor": strided(rng, of_b, (*of_b[:-1], of_b[-1] + 5))}
    if of_c is not None:
        arrays["c_tensor"] = rng.normal(size=of_c).astype(np.float32)
    desc = desc_of(arrays, members)
    factors = {place: rounded(np.ascontiguousarray(array)) if place != "c_tensor" else array for place, array in arrays.items()}
    whole = {place: np.broadcast_to(own, desc.tensors()[place].sizes) for place, own in factors.items()}
    exact = dml.reference(desc_of(factors, members), whole)
    results = []
    for threads in (1, 2):
        monkeypatch.setattr(plan, "available_threads", lambda threads=threads: threads)
        monkeypatch.setattr(plan, "_WORK_OF_A_THREAD", 1)
        monkeypatch.setattr(plan, "_FLOATS_OF_A_THREAD", 1)
        found = plan_of(desc)
        assert found is not None
        assert "BFLOAT16" in found.describe()
        results += [run(found, desc, arrays, prepared=prepared) for prepared in (False, True)]
    assert_close(results[0], np.asarray(exact.output_tensor), np.float32, terms=of_a[-1])
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@needs_instructions
def test_how_factors_are_rounded() -> None:
    """A times the identity is A, rounded: ties, numbers that round up to the next power of two or to infinity, NaN.

    Numbers below 2^-126 count as 0, also those that would be rounded up to it.
    """
    bits = np.random.default_rng(9).integers(0x3F000000, 0x47000000, (16, 32), np.uint32)
    bits[0, :8] = 0x3F808000, 0x3F818000, 0x3F807FFF, 0x3FFFFFFF, 0x3F808001, 0x3F818001, 0xBF808000, 0xBF818000
    a = bits.view(np.float32)
    desc = desc_of({"a_tensor": a, "b_tensor": np.eye(32, dtype=np.float32)}, {})
    found = dml.compile(desc, "cpu", flags=FLAG)
    np.testing.assert_array_equal(found(a_tensor=a, b_tensor=np.eye(32, dtype=np.float32)).output_tensor, rounded(a))
    special = np.ones((4, 32), np.float32)
    special[0, 3], special[1, 4], special[2, 5] = np.nan, np.inf, 3.4e38
    given = {"a_tensor": special, "b_tensor": np.ones((32, 16), np.float32)}
    sums = np.asarray(dml.compile(desc_of(given, {}), "cpu", flags=FLAG)(**given).output_tensor)
    np.testing.assert_array_equal(np.isnan(sums[:, 0]), [True, False, False, False])
    np.testing.assert_array_equal(np.isposinf(sums[:, 0]), [False, True, True, False])
    least = np.float32(2.0**-126)
    given["a_tensor"] = np.zeros((4, 32), np.float32)
    given["a_tensor"][:3, 0] = least, np.nextafter(least, np.float32(0.0)), least / 2
    sums = np.asarray(dml.compile(desc_of(given, {}), "cpu", flags=FLAG)(**given).output_tensor)
    np.testing.assert_array_equal(sums[:, 0], [least, 0.0, 0.0, 0.0])


@needs_instructions
@pytest.mark.parametrize(
    ("b", "members", "packed"),
    [
        ((64, 96), {}, False),
        ((63, 32), {}, False),
        ((64, 97), {}, True),
        ((96, 64), {"trans_b": "TRANSPOSE"}, True),
        ((2, 64, 96), {}, True),
    ],
)
def test_whole_panels_are_not_packed_as_floats(b: tuple[int, ...], members: dict[str, Any], packed: bool) -> None:
    terms = b[-1] if members else b[-2]
    desc = desc_of({"a_tensor": np.zeros((1, *b[:-2], 5, terms)[-4:], np.float32), "b_tensor": np.zeros(b, np.float32)}, members)
    found = plan_of(desc)
    assert isinstance(found, plan.PairProductPlan)
    floats = found.temporary_size - found.prepared_temporary_size - found.persistent_size
    assert (floats >= 4 * terms * 32) == packed == (floats > 0)


@needs_instructions
def test_only_the_flag_rounds() -> None:
    desc = desc_of({"a_tensor": np.ones((8, 16), np.float32), "b_tensor": np.ones((16, 32), np.float32)}, {})
    usual, allowed = dml.compile(desc, "cpu"), dml.compile(desc, "cpu", flags=FLAG)
    assert "BFLOAT16" not in usual.plan
    assert f"flags: {FLAG}" in allowed.plan
    assert "no effect" not in allowed.plan


def test_what_stays_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    def product(rows: int, terms: int, dtype: Any = np.float32) -> dml.GEMMDesc:
        return desc_of({"a_tensor": np.ones((rows, terms), dtype), "b_tensor": np.ones((terms, 32), dtype)}, {})

    monkeypatch.setattr(isa, "multiplies_bfloat16", lambda: True)
    assert plan_of(product(8, 15)) is None  # few terms
    assert plan_of(product(3, 64)) is None  # few rows
    assert plan_of(product(8, 64, np.float16)) is None
    monkeypatch.setattr(isa, "multiplies_bfloat16", lambda: False)
    assert plan_of(product(8, 64)) is None
