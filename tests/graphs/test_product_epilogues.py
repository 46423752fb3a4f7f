"""Sums behind matrix products: where they become C, and that results stay the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

RELU, TANH = dml.ActivationReluDesc(), dml.ActivationTanhDesc()


@dataclass(frozen=True)
class Case:
    """A product of matrices, and the sum of its result and another tensor.

    Attributes:
        sizes: of A and of B.
        strides: of the other tensor; None if it is packed.
        dtype: the type of all tensors.
        of_product: members of GEMM.
        of_sum: members of ADD1; ADD if there are none.
        first: whether the result is the sum's first operand.
        fused: whether the sum is computed in the product.
    """

    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    strides: tuple[int, ...] | None = None
    dtype: str = "FLOAT32"
    of_product: tuple[tuple[str, Any], ...] = ()
    of_sum: tuple[tuple[str, Any], ...] = ()
    first: bool = True
    fused: bool = True

    def graph(self, kind: str = "") -> dml.Graph:
        g, dtype = dml.GraphBuilder("network"), self.dtype
        a, b = (g.input(name, dml.TensorDesc(data_type=dtype, sizes=sizes)) for name, sizes in zip("ab", self.sizes, strict=True))
        members: dict[str, Any] = dict(self.of_product)
        if kind == "C":
            columns = self.sizes[1][-1]
            line = dml.TensorDesc(data_type=dtype, sizes=(*self.sizes[0][:-1], columns), strides=(0, 0, 0, 1))
            members["c_tensor"] = g.input("c", line)
        x = g.add(dml.GEMMDesc, "product", a_tensor=a, b_tensor=b, **members)
        other = x if kind == "itself" else g.input("other", dml.TensorDesc(data_type=dtype, sizes=x.tensor.sizes, strides=self.strides))
        operands = (x, other) if self.first else (other, x)
        desc = dml.ElementWiseAdd1Desc if self.of_sum else dml.ElementWiseAddDesc
        g.output("y", g.add(desc, "end", a_tensor=operands[0], b_tensor=operands[1], output_tensor=x.tensor, **dict(self.of_sum)))
        if kind == "read twice":
            g.output("abs", g.add(dml.ElementWiseAbsDesc, "abs", input_tensor=x))
        return g.build()


def arrays(compiled: dml.CompiledGraph) -> dict[str, Any]:
    rng, found = np.random.default_rng(4), dict[str, Any]()
    for name, desc in compiled.inputs.items():
        memory = rng.normal(size=desc.span).astype(desc.data_type.numpy)
        found[name] = np.lib.stride_tricks.as_strided(memory, desc.sizes, desc.numpy_strides())
    return found


ROWS = (1, 1, 7, 19), (1, 1, 19, 37)
BATCH = (2, 3, 5, 17), (2, 3, 17, 18)
CASES = {
    "a bias": Case(ROWS, (0, 0, 0, 1)),
    "a bias, scaled": Case(ROWS, (0, 0, 0, 1), of_product=(("alpha", 0.3), ("beta", 5.0))),
    "a bias that comes first": Case(ROWS, (0, 0, 0, 1), first=False),
    "a value for each row": Case(ROWS, (0, 0, 1, 0)),
    "a residual": Case(ROWS),
    "a residual, clipped": Case(BATCH, of_sum=(("fused_activation", RELU),)),
    "a residual, tanh": Case(ROWS, of_sum=(("fused_activation", TANH),)),
    "strided rows": Case(BATCH, (0, 180, 36, 1)),
    "a small row": Case(((1, 1, 1, 19), (1, 1, 19, 21)), (0, 0, 0, 1)),
    "two dimensions": Case(((7, 19), (19, 37)), (0, 1)),
    "a transposed B": Case(((1, 1, 7, 19), (1, 1, 37, 19)), (0, 0, 0, 1), of_product=(("trans_b", "TRANSPOSE"),)),
    "halves, a bias": Case(ROWS, (0, 0, 0, 1), "FLOAT16"),
    "halves, a residual, clipped": Case(BATCH, None, "FLOAT16", of_sum=(("fused_activation", RELU),)),
    "halves, a row": Case(((1, 1, 1, 19), (1, 1, 19, 37)), (0, 0, 0, 1), "FLOAT16"),
    "halves, tanh": Case(ROWS, (0, 0, 0, 1), "FLOAT16", of_sum=(("fused_activation", TANH),), fused=False),
    "columns": Case(ROWS, (0, 0, 1, 7), fused=False),
    "few columns, which BLAS multiplies": Case(((1, 1, 70, 64), (1, 1, 64, 9)), (0, 0, 0, 1), fused=False),
    "a transposed A": Case(((1, 1, 19, 7), (1, 1, 19, 37)), (0, 0, 0, 1), of_product=(("trans_a", "TRANSPOSE"),), fused=False),
    "an activation between": Case(ROWS, (0, 0, 0, 1), of_product=(("fused_activation", RELU),), fused=False),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_run_with_the_products_before_them(name: str) -> None:
    """Of FLOAT32 they change no bit, also of infinities and NaN. Halves are rounded once, where separate nodes round each result."""
    case = CASES[name]
    whole, plain = (dml.compile(case.graph(), "cpu", fuse=fuse) for fuse in (True, False))
    assert ("end" in whole.explain_plan().fused.get("product", ())) == case.fused
    given = arrays(whole)
    if case.dtype == "FLOAT32" or not case.fused:
        given["other"].flat[:3] = np.inf, -np.inf, np.nan
        np.testing.assert_array_equal(whole(**given).y, plain(**given).y)
        return
    wide = dml.compile(replace(case, dtype="FLOAT32", strides=None).graph(), "numpy")
    expected = wide(**{name: np.ascontiguousarray(array, np.float32) for name, array in given.items()}).y
    assert_close(whole(**given).y, expected.astype(np.float64), np.float16, terms=case.sizes[0][-1] + 1)


@pytest.mark.parametrize("kind", ["C", "itself", "read twice"])
def test_what_prevents_the_fusion(kind: str) -> None:
    graph = Case(ROWS, (0, 0, 0, 1)).graph(kind)
    whole, plain = (dml.compile(graph, "cpu", fuse=fuse) for fuse in (True, False))
    assert whole.explain_plan().fused == {}
    given = arrays(whole)
    np.testing.assert_array_equal(whole(**given).y, plain(**given).y)


def test_devices_that_add_in_another_pass_run_them_separately() -> None:
    assert dml.compile(CASES["a bias"].graph(), "numpy").explain_plan().fused == {}
