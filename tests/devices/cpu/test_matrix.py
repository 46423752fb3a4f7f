"""Compiled matrix products, against the definition in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import Array, by_definition, run, tensor
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")


from dmlpy.devices.cpu.matrix import plan as product_plan
from dmlpy.devices.cpu.matrix.plans import with_joined_rows
from dmlpy.devices.cpu.plans import compiled_plan
from tests.support.cpu.compiled_plans import run_on

RELU, GELU, SOFTMAX = dml.ActivationReluDesc(), dml.ActivationGeluDesc(), dml.ActivationSoftmaxDesc()

# batch, rows, terms, columns, other members; those whose name ends with FLOAT16 are of that type
CASES: dict[str, tuple[Any, ...]] = {
    "rows and columns left over": ((), 21, 300, 71, {"fused_activation": RELU}),
    "whole panels": ((1, 1), 16, 40, 64, {"alpha": 0.5, "fused_activation": dml.ElementWiseClipDesc(min=-1.0, max=2.0)}),
    "batch": ((2, 3), 9, 20, 33, {"beta": 2.0, "fused_activation": GELU}),
    "B transposed": ((1, 2), 9, 20, 50, {"trans_b": "TRANSPOSE", "alpha": 2.0}),
    "one term": ((), 5, 1, 40, {}),
    "B read in place": ((2,), 7, 20, 64, {"beta": 0.5}),
    "one row, FLOAT16": ((), 1, 20, 40, {"beta": 0.5, "fused_activation": RELU}),
    "FLOAT16": ((2,), 19, 37, 71, {"alpha": 0.5, "fused_activation": dml.ElementWiseClipDesc(min=-1.0, max=2.0)}),
    "rows copied in several parts, FLOAT16": ((), 73, 2080, 40, {"alpha": 0.5}),
    "B transposed, FLOAT16": ((), 9, 37, 71, {"trans_b": "TRANSPOSE"}),
}


def case_of(name: str) -> tuple[dml.GEMMDesc, dict[str, Array]]:
    batch, rows, terms, columns, members = CASES[name]
    rng, kind = np.random.default_rng(3), np.float16 if name.endswith("FLOAT16") else np.float32
    b = (columns, terms) if "trans_b" in members else (terms, columns)
    shapes = {"a_tensor": (*batch, rows, terms), "b_tensor": (*batch, *b), "c_tensor": (*batch, rows, columns)}
    given = {place: rng.normal(size=shape).astype(kind) for place, shape in shapes.items()}
    if name.startswith("B transposed"):
        del given["c_tensor"]
    sized = {place: tensor(array) for place, array in given.items()}
    if not batch:
        sized = {place: own.replace(sizes=(1, 1, *own.sizes)) for place, own in sized.items()}
        given = {place: array[np.newaxis, np.newaxis] for place, array in given.items()}
    return dml.GEMMDesc(**sized, **members).with_outputs(), given


@pytest.mark.parametrize("name", CASES)
def test_panels_and_remainders(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads, which change no bit; prepared, which changes none either."""
    monkeypatch.setattr(product_plan, "_FLOATS_OF_A_THREAD", 1)
    desc, given = case_of(name)
    result = run_on(2, product_plan, desc, given, monkeypatch)
    assert_close(result, dml.reference(desc, given).output_tensor, result.dtype, terms=CASES[name][2])
    np.testing.assert_array_equal(run_on(1, product_plan, desc, given, monkeypatch), result)
    prepared = dml.compile(desc, "cpu").prepare(b_tensor=given["b_tensor"])
    np.testing.assert_array_equal(prepared(**{place: given[place] for place in given if place != "b_tensor"}).output_tensor, result)


# batch, rows, terms, columns, whether B is transposed, other members; those whose name ends with FLOAT16 are of that type
SMALL: dict[str, tuple[tuple[int, ...], int, int, int, bool, dict[str, Any]]] = {
    "one row": ((1, 1), 1, 20, 50, False, {"alpha": 0.5, "beta": 2.0, "fused_activation": RELU}),
    "few rows, whole vectors": ((2, 3), 3, 5, 64, False, {"fused_activation": GELU}),
    "few columns": ((1, 2), 9, 37, 7, False, {}),
    "one row each, B transposed, many columns": ((3, 4), 1, 67, 85, True, {"alpha": 0.5, "fused_activation": RELU}),
    "many columns": ((3, 2), 2, 33, 150, False, {"alpha": 0.5, "beta": 2.0}),
    "one row each, B transposed, FLOAT16": ((2, 1), 1, 67, 85, True, {"beta": 0.5, "fused_activation": RELU}),
    "few columns, FLOAT16": ((1, 2), 9, 37, 7, False, {"alpha": 0.5}),
    "one column, B transposed": ((2, 3), 37, 5, 1, True, {"alpha": 0.5, "beta": 2.0}),
    "one column of one term, FLOAT16": ((3, 1), 70, 1, 1, False, {"beta": 0.5}),
    "many small matrices": ((3, 150), 4, 4, 4, False, {"fused_activation": RELU}),
    "B transposed": ((2, 1), 2, 37, 7, True, {"beta": 0.5, "fused_activation": dml.ElementWiseClipDesc(min=-1.0, max=2.0)}),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With C by rows, with one row, column and element of C for all, and with the rows of all tensors apart."""
    batch, rows, terms, columns, transposed, members = SMALL[name]
    rng, of_b = np.random.default_rng(6), (columns, terms) if transposed else (terms, columns)
    kind = np.dtype(np.float16 if name.endswith("FLOAT16") else np.float32)
    for c_strides in (None, (0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 0, 0)):
        memory = {place: rng.normal(size=(*batch, sizes[0], sizes[1] + 3)).astype(kind) for place, sizes in
                  {"a_tensor": (rows, terms), "b_tensor": of_b, "c_tensor": (rows, columns)}.items()}  # fmt: skip
        given = {place: array[..., :-3] for place, array in memory.items()}
        described = {place: dml.TensorDesc.of(array) for place, array in given.items()}
        if c_strides is not None:
            described["c_tensor"] = described["c_tensor"].replace(strides=c_strides)
            given["c_tensor"] = np.lib.stride_tricks.as_strided(
                memory["c_tensor"], (*batch, rows, columns), [kind.itemsize * step for step in c_strides]
            )
        desc = dml.GEMMDesc(**described, trans_b="TRANSPOSE" if transposed else "NONE", **members).with_outputs()
        assert isinstance(compiled_plan(desc), product_plan.SmallProductPlan)
        found = run_on(1, product_plan, desc, given, monkeypatch)
        assert_close(found, dml.reference(desc, given).output_tensor, kind, terms=terms)


def test_what_is_broadcast_by_strides_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """One matrix B for a batch, a row of C, and a column of C."""
    rng = np.random.default_rng(4)
    given = {"a_tensor": rng.normal(size=(2, 3, 10, 30)), "b_tensor": rng.normal(size=(30, 50)), "c_tensor": rng.normal(size=50)}
    given = {place: array.astype(np.float32) for place, array in given.items()}
    a = tensor(given["a_tensor"])
    b = dml.TensorDesc(data_type="FLOAT32", sizes=(2, 3, 30, 50), strides=(0, 0, 50, 1))
    for strides in ((0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 0, 0)):
        c = dml.TensorDesc(data_type="FLOAT32", sizes=(2, 3, 10, 50), strides=strides)
        desc = dml.GEMMDesc(a_tensor=a, b_tensor=b, c_tensor=c).with_outputs()
        added = np.lib.stride_tricks.as_strided(given["c_tensor"], (2, 3, 10, 50), [4 * stride for stride in strides])
        expected = given["a_tensor"].astype(np.float64) @ given["b_tensor"] + added
        assert_close(run_on(2, product_plan, desc, given, monkeypatch), expected, np.float32, terms=30)


# batch, rows, the axes along which B is the same, elements between rows and between matrices of A, members, and the joined sizes
JOINED: dict[str, tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, int], dict[str, Any], tuple[int, ...]]] = {
    "steps of one row": ((1, 37), 1, (0, 1), (0, 0), {}, (1, 1, 37, 50)),
    "steps of one row, apart, FLOAT16": ((1, 37), 1, (1,), (0, 5), {"fused_activation": RELU}, (1, 1, 37, 50)),
    "all of the batch": ((5, 3), 2, (0, 1), (0, 0), {"fused_activation": GELU}, (1, 1, 30, 50)),
    "all of the batch, until there are many rows": ((2, 33), 1, (0, 1), (0, 0), {}, (2, 1, 33, 50)),
    "rows apart": ((4, 3), 2, (0, 1), (3, 0), {"trans_b": "TRANSPOSE"}, (1, 1, 24, 50)),
    "matrices apart, of one row": ((4, 3), 1, (0, 1), (0, 7), {"beta": 0.5}, (4, 1, 3, 50)),
    "matrices apart, of several rows": ((2, 3), 5, (0, 1), (0, 7), {}, (2, 3, 5, 50)),
    "the outer axis, if the inner one is 1": ((9, 1), 1, (0,), (0, 4), {}, (1, 1, 9, 50)),
    "B is another one along the inner axis": ((4, 3), 1, (0,), (0, 0), {}, (4, 3, 1, 50)),
    "B is another one along the outer axis": ((4, 3), 1, (1,), (0, 0), {}, (4, 1, 3, 50)),
    "many rows": ((1, 3), 33, (0, 1), (0, 0), {}, (1, 3, 33, 50)),
}


@pytest.mark.parametrize("name", JOINED)
def test_rows_of_matrices_that_share_b_are_joined(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a C of as many rows, with one row of C for all, and without."""
    batch, rows, shared, gaps, members, joined = JOINED[name]
    rng, kind, terms = np.random.default_rng(7), np.dtype(np.float16 if name.endswith("FLOAT16") else np.float32), 41
    of_b = (50, terms) if "trans_b" in members else (terms, 50)
    row = terms + gaps[0]
    steps = (batch[1] * (rows * row + gaps[1]), rows * row + gaps[1], row, 1)
    if gaps[1]:
        steps = (steps[0] + 3, *steps[1:])
    memory = rng.normal(size=batch[0] * steps[0]).astype(kind)
    a = np.lib.stride_tricks.as_strided(memory, (*batch, rows, terms), [kind.itemsize * step for step in steps])
    b = rng.normal(size=(*(1 if axis in shared else size for axis, size in enumerate(batch)), *of_b)).astype(kind)
    b = np.broadcast_to(b, (*batch, *of_b))
    c = rng.normal(size=(*batch, rows, 50)).astype(kind)
    for added in (c, np.broadcast_to(c[0, 0, 0], c.shape), None):
        given = {"a_tensor": a, "b_tensor": b, **({} if added is None else {"c_tensor": added})}
        desc = dml.GEMMDesc(**{place: dml.TensorDesc.of(array) for place, array in given.items()}, **members).with_outputs()
        found = with_joined_rows(desc)
        assert found.output_tensor is not None
        assert found.output_tensor.sizes == joined
        assert dml.check(found) == []
        assert isinstance(compiled_plan(desc), product_plan.ProductPlan) == (joined[-2] > 3)
        result = run_on(1, product_plan, desc, given, monkeypatch)
        assert_close(result, dml.reference(desc, given).output_tensor, kind, terms=terms)


@pytest.mark.parametrize(("rows", "terms", "columns"), [(21, 300, 71), (4, 1, 16), (130, 300, 110)])
def test_a_transposed(rows: int, terms: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices are read in place; the number of threads changes no bit."""
    rng = np.random.default_rng(5)
    memory = rng.normal(size=(terms, rows + 3)).astype(np.float32)
    b = rng.normal(size=(terms, columns)).astype(np.float32)
    desc = dml.GEMMDesc(a_tensor=dml.TensorDesc.of(memory[:, :rows]), b_tensor=dml.TensorDesc.of(b), trans_a="TRANSPOSE").with_outputs()
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(product_plan, "available_threads", lambda threads=threads: threads)
        plan = compiled_plan(desc)
        assert not isinstance(plan, str)
        result, scratch = np.full((rows, columns), np.nan, np.float32), np.full(plan.temporary_size, 0xA5, np.uint8)
        pointers = {"a_tensor": memory.ctypes.data, "b_tensor": b.ctypes.data, "output_tensor": result.ctypes.data}
        plan.bind(pointers, scratch.ctypes.data, None)(0)
        found.append(result)
    assert_close(found[0], memory[:, :rows].T.astype(np.float64) @ b, np.float32, terms=terms)
    np.testing.assert_array_equal(*found)


# what a product of [1, 1, 20, 30] and [1, 1, 30, 40] is, and a part of the reason why NumPy runs it
ELSEWHERE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "halves, softmax": ({"data_type": "FLOAT16"}, {"fused_activation": SOFTMAX}, "ACTIVATION_SOFTMAX has no compiled form"),
    "few rows": ({"a": (3, 2000), "b": (2000, 400)}, {}, "fewer than 4 rows"),
    "one row": ({"a": (1, 300), "b": (300, 60)}, {}, "fewer than 4 rows"),
    "few columns": ({"a": (20, 200), "b": (200, 7)}, {}, "16 columns"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_numpy_runs_says_why(name: str) -> None:
    given, members, reason = ELSEWHERE[name]
    kind = given.get("data_type", "FLOAT32")
    a, b = (dml.TensorDesc(data_type=kind, sizes=(1, 1, *given.get(place, usual))) for place, usual in (("a", (20, 30)), ("b", (30, 40))))
    plan = dml.compile(dml.GEMMDesc(a_tensor=a, b_tensor=b, **members).with_outputs(), "cpu").plan
    assert plan.startswith("strategy: numpy")
    assert reason in plan


# tensors of a product of [2, 20, 30] and [2, 30, 40] by their sizes and strides, members, and the tensors that are copied
TRANSPOSED_A, TRANSPOSED_B = {"trans_a": "TRANSPOSE"}, {"trans_b": "TRANSPOSE"}
COPIED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "A transposed": ({"a": ((2, 30, 20), None)}, TRANSPOSED_A, "a_tensor"),
    "A transposed, scaled": ({"a": ((2, 30, 20), None), "c": ((2, 20, 40), None)}, {**TRANSPOSED_A, "alpha": 2.0, "beta": 0.5}, "a_tensor"),
    "both transposed": ({"a": ((2, 30, 20), None), "b": ((2, 40, 30), None)}, TRANSPOSED_A | TRANSPOSED_B, "a_tensor"),
    "few rows, A transposed": ({"a": ((2, 30, 3), None), "output": ((2, 3, 40), None)}, TRANSPOSED_A, "a_tensor"),
    "elements of A apart": ({"a": ((2, 20, 30), (1300, 64, 2))}, {}, "a_tensor"),
    "elements of B apart": ({"b": ((2, 30, 40), (2500, 83, 2))}, {}, "b_tensor"),
    "elements of the result apart": ({"output": ((2, 20, 40), (2000, 90, 2))}, {"fused_activation": RELU}, "output_tensor"),
    "a transposed result": ({"output": ((2, 20, 40), (800, 1, 20))}, {}, "output_tensor"),
    "elements of C apart": ({"c": ((2, 20, 40), (2000, 90, 2))}, {}, "c_tensor"),
}


@pytest.mark.parametrize("kind", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", COPIED)
def test_what_kernels_do_not_read_is_copied(name: str, kind: str) -> None:
    given, members, copied = COPIED[name]
    layouts = {"a": ((2, 20, 30), None), "b": ((2, 30, 40), None), "output": ((2, 20, 40), None)} | given
    tensors = {f"{place}_tensor": dml.TensorDesc(data_type=kind, sizes=own[0], strides=own[1]) for place, own in layouts.items()}
    desc, rng = dml.GEMMDesc(**tensors, **members), np.random.default_rng(6)
    plan = compiled_plan(desc)
    assert not isinstance(plan, str)
    assert plan.describe().endswith(f"copied to another layout: {copied}")
    arrays = {place: rng.normal(size=own.sizes).astype(kind.lower()) for place, own in tensors.items() if place != "output_tensor"}
    found, expected = run(desc, arrays, "cpu")["output_tensor"], by_definition(desc, arrays)["output_tensor"]
    assert_close(found, expected, found.dtype, terms=30)


def test_an_a_whose_terms_are_contiguous_is_not_transposed() -> None:
    """It is read by rows where it lies, as one of a single term is."""
    for sizes, strides in (((30, 20), (1, 30)), ((1, 20), None)):
        a, b = dml.TensorDesc(data_type="FLOAT32", sizes=sizes, strides=strides), dml.TensorDesc(data_type="FLOAT32", sizes=(sizes[0], 40))
        plan = compiled_plan(dml.GEMMDesc(a_tensor=a, b_tensor=b, trans_a="TRANSPOSE", trans_b="NONE").with_outputs())
        assert type(plan) is product_plan.ProductPlan
