"""Element-wise operators of two dequantized values are one node on the CPU, with the bits of the nodes one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

import dmlpy as dml
from dmlpy.description.tensors import packed_strides
from dmlpy.graphs import GraphBuilder
from tests.support.operators.layout_runs import Array
from tests.support.tensors import tensor

SIZES = (3, 5, 7, 11)
FUSED = ("a_number", "b_number", "both", "y")
OPERATORS = {
    "add": dml.ElementWiseAddDesc,
    "subtract": dml.ElementWiseSubtractDesc,
    "multiply": dml.ElementWiseMultiplyDesc,
    "divide": dml.ElementWiseDivideDesc,
    "max": dml.ElementWiseMaxDesc,
    "min": dml.ElementWiseMinDesc,
}
TYPES = [("UINT8", "UINT8", "UINT8"), ("INT8", "INT8", "INT8"), ("UINT8", "INT8", "UINT8"), ("INT8", "UINT8", "INT8")]


def graph_of(
    sizes: tuple[int, ...] = SIZES,
    types: tuple[str, str, str] = TYPES[0],
    repeats: tuple[int, ...] = (),
    also: str = "",
    operator: str = "multiply",
    repeated: str = "b",
    *,
    own: bool = False,
    varies: bool = False,
) -> dml.Graph:
    """An operator of two quantized tensors.

    Args:
        sizes: those of all values.
        types: of both operands and the result.
        repeats: dimensions along which an operand is repeated.
        also: a value that is an output, too.
        operator: the operator.
        repeated: which operand is repeated.
        own: whether the second operand is the first one.
        varies: whether scales have an entry for each channel.
    """
    g, numbers = GraphBuilder("net"), {}

    def constants(name: str, dtype: str) -> dict[str, Any]:
        steps = [int(varies and axis == 1) for axis in range(len(sizes))]
        return {
            "scale_tensor": g.input(f"{name}_scale", tensor(*sizes, strides=steps)),
            "zero_point_tensor": g.input(f"{name}_zero", tensor(*sizes, data_type=dtype, strides=steps)),
        }

    for name, dtype in zip("ab", types, strict=False):
        written = [1 if name == repeated and axis in repeats else size for axis, size in enumerate(sizes)]
        strides = [step if size > 1 else 0 for size, step in zip(written, packed_strides(written), strict=True)]
        x = g.input(name, tensor(*sizes, data_type=dtype, strides=strides if name == repeated and repeats else None))
        members = {"input_tensor": x, **constants(name, dtype), "output_tensor": tensor(*sizes)}
        numbers[name] = g.add(dml.ElementWiseDequantizeLinearDesc, f"{name}_number", **members)
    operands = {"a_tensor": numbers["a"], "b_tensor": numbers["a" if own else "b"]}
    numbers["both"] = g.add(OPERATORS[operator], "both", **operands, output_tensor=tensor(*sizes))
    output = tensor(*sizes, data_type=types[2])
    members = {"input_tensor": numbers["both"], **constants("y", types[2]), "output_tensor": output}
    g.output("y", g.add(dml.ElementWiseQuantizeLinearDesc, "y", **members))
    if own:
        g.output("b_number", numbers["b"])
    if also:
        g.output("also", numbers[also])
    return g.build()


def arrays(compiled: dml.CompiledGraph, scales: tuple[float, float, float] = (0.03, 0.05, 0.4)) -> dict[str, Array]:
    """Bytes with every value, zero points, and scales about those given."""
    rng, given, of = np.random.default_rng(6), {}, dict(zip("aby", scales, strict=True))
    for name, desc in compiled.inputs.items():
        entries = [size if stride else 1 for size, stride in zip(desc.sizes, desc.element_strides, strict=True)]
        if desc.data_type.bits == 8:
            values = rng.integers(*(0, 256) if len(name) == 1 else (90, 120), entries).astype(np.uint8).view(desc.data_type.numpy)
        else:
            values = (of[name[0]] * rng.uniform(0.5, 2, entries)).astype(np.float32)
        given[name] = np.broadcast_to(values, desc.sizes)
    return given


def check_same(graph: dml.Graph, scales: tuple[float, float, float] = (0.03, 0.05, 0.4)) -> dml.CompiledGraph:
    whole, apart = dml.compile(graph, "cpu"), dml.compile(graph, "numpy")
    given = arrays(whole, scales)
    with np.errstate(all="ignore"):
        found, expected = whole(**given).as_dict(), apart(**given).as_dict()
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])
    return whole


REPEATED = [("b", (), TYPES[0]), ("b", (2, 3), TYPES[1]), ("a", (2, 3), TYPES[2]), ("a", (0, 3), TYPES[3]), ("b", (0, 1, 2), TYPES[0])]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("repeated", "repeats", "types"), REPEATED, ids=str)
def test_quantized_operators_are_one_node(operator: str, repeated: str, repeats: tuple[int, ...], types: tuple[str, str, str]) -> None:
    whole = check_same(graph_of(types=types, repeats=repeats, operator=operator, repeated=repeated))
    assert whole.explain_plan().chains == (FUSED,)
    assert len(whole._program.steps) == 1


@pytest.mark.parametrize("sizes", [(1,), (15,), (2, 64), (1, 2, 3, 130)], ids=str)
@pytest.mark.parametrize("operator", ["multiply", "divide"])
def test_all_lengths(sizes: tuple[int, ...], operator: str) -> None:
    assert check_same(graph_of(sizes, operator=operator)).explain_plan().chains == (FUSED,)


@pytest.mark.parametrize(
    "scales",
    [
        (0.5, 0.5, 0.5),  # many ties
        (-0.03, 0.05, 0.4),
        (0.03, 0.05, -0.4),
        (1e-30, 1e-20, 1e-35),
        (1e30, 1e30, 1.0),
        (2.0**59, 2.0**59, 2.0**60),
        (0.03, float("inf"), 0.4),
        (0.03, float("nan"), 0.4),
        (0.03, 0.05, 0.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("operator", OPERATORS)
def test_any_scales(scales: tuple[float, float, float], operator: str) -> None:
    """Quotients that float32 computes in another order, or not at all."""
    check_same(graph_of((2, 3, 41, 5), operator=operator), scales)


def test_scales_of_channels() -> None:
    for operator in OPERATORS:
        check_same(graph_of(varies=True, operator=operator))


def test_quotients_by_zero() -> None:
    """Infinite ones are the least and the largest bytes, and 0 / 0, which is NaN, counts as 0."""
    compiled = dml.compile(graph_of((1, 1, 1, 64), operator="divide"), "cpu")
    given = arrays(compiled)
    given["a"] = np.array([6, 7, 8, 9] * 16, np.uint8).reshape(1, 1, 1, 64)
    given["b"] = np.full((1, 1, 1, 64), 9, np.uint8)
    zeros = {name: np.broadcast_to(np.uint8(value), given[name].shape) for name, value in (("a_zero", 7), ("b_zero", 9), ("y_zero", 100))}
    y = np.asarray(compiled(**given | zeros)["y"])
    np.testing.assert_array_equal(y.ravel(), [0, 100, 255, 255] * 16)
    assert compiled.explain_plan().chains == (FUSED,)


@pytest.mark.parametrize("also", ["a", "b", "both"])
def test_values_that_others_read_are_written(also: str) -> None:
    assert check_same(graph_of(also=also)).explain_plan().chains == ()


def test_squares_are_no_products_of_two_values() -> None:
    assert check_same(graph_of(own=True)).explain_plan().chains == ()
