"""Chains of element-wise operators that read and write bytes: which nodes they have, and that results stay the same bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

import dmlpy as dml
from dmlpy import onnx
from dmlpy.graphs import GraphBuilder
from tests.support.onnx.models import model
from tests.support.tensors import tensor

SIZES = (2, 5, 7, 33)
LINES = (0, 1, 0, 0)
"""The strides of one element for each channel."""
BYTES = ("UINT8", "INT8")


class Chain:
    """A graph of a chain.

    Args:
        dtype: the type of bytes.
    """

    def __init__(self, dtype: str) -> None:
        self.g, self.dtype, self.count = GraphBuilder("chain"), dtype, 0

    def given(self, name: str, strides: Sequence[int] | None = None, dtype: str = "") -> Any:
        return self.g.input(name, tensor(*SIZES, data_type=dtype or self.dtype, strides=strides))

    def node(self, kind: Any, *values: Any, strides: Sequence[int] | None = None, dtype: str = "FLOAT32", **members: Any) -> Any:
        self.count += 1
        names = ["input_tensor"] if len(values) == 1 else ["a_tensor", "b_tensor"]
        output = tensor(*SIZES, data_type=dtype, strides=strides)
        return self.g.add(kind, f"node{self.count}", **dict(zip(names, values, strict=True)), output_tensor=output, **members)

    def number(self, x: Any) -> Any:
        return self.node(dml.CastDesc, x)

    def scaled(self, x: Any, scale: float, bias: float) -> Any:
        return self.node(dml.ElementWiseIdentityDesc, x, scale_bias=dml.ScaleBias(scale=scale, bias=bias))

    def rounded(self, x: Any, strides: Sequence[int] | None = None, bounds: tuple[float, float] | None = None) -> Any:
        """The numbers as the nearest bytes; within the type without other bounds."""
        low, high = bounds or dml.DataType[self.dtype].limits
        whole = self.node(dml.ElementWiseRoundDesc, x, rounding_mode="HALVES_TO_NEAREST_EVEN")
        held = self.node(dml.ElementWiseClipDesc, whole, min=low, max=high)
        return self.node(dml.CastDesc, held, dtype=self.dtype, strides=strides)


def product(c: Chain, of_y: Sequence[int] | None = None, of_result: Sequence[int] | None = None) -> Any:
    """As quantized products are lowered: zero points, the product, scaled twice, and rounded."""
    x, y = (c.number(c.given(name, strides)) for name, strides in (("x", None), ("y", of_y)))
    found = c.node(dml.ElementWiseMultiplyDesc, c.scaled(x, 1.0, -7.0), y)
    return c.rounded(c.scaled(c.scaled(found, 0.013, -0.0), 1.0, 31.0), of_result)


def total(c: Chain) -> Any:
    """With halves between two bytes."""
    x, y = c.scaled(c.number(c.given("x")), 0.5, 3.0), c.scaled(c.number(c.given("y", LINES)), 0.25, -0.0)
    return c.rounded(c.node(dml.ElementWiseAddDesc, x, y))


def bounded(c: Chain) -> Any:
    found = c.node(dml.ElementWiseAddDesc, c.scaled(c.number(c.given("x")), 0.7, 0.0), c.number(c.given("y")))
    return c.rounded(found, bounds=(3.0, 90.0))


def copied(c: Chain) -> Any:
    """A copy of a result that becomes part of the instruction behind the copy."""
    return c.rounded(c.node(dml.ElementWiseIdentityDesc, c.scaled(c.given("x", dtype="FLOAT32"), 0.7, 3.0)))


def sum_of_lines(c: Chain) -> Any:
    return c.rounded(c.node(dml.ElementWiseAddDesc, c.number(c.given("x")), c.given("y", LINES, "FLOAT32")))


def from_numbers(c: Chain) -> Any:
    """Fractions are dropped; what is beyond the type becomes its ends."""
    return c.node(dml.CastDesc, c.scaled(c.given("x", dtype="FLOAT32"), 1.0, 0.25), dtype=c.dtype)


def to_numbers(c: Chain) -> Any:
    return c.node(dml.ElementWiseExpDesc, c.scaled(c.number(c.given("x")), 0.01, 0.5))


def through_bytes(c: Chain) -> Any:
    """A value that is converted to bytes and back, and read twice."""
    held = c.number(c.node(dml.CastDesc, c.scaled(c.given("x", dtype="FLOAT32"), 3.0, 0.0), dtype=c.dtype))
    return c.node(dml.ElementWiseMultiplyDesc, held, c.node(dml.ElementWiseAbsDesc, held))


def signs(c: Chain) -> Any:
    """Operators that on halves need no floats."""
    held = c.node(dml.CastDesc, c.node(dml.ElementWiseAddDesc, c.number(c.given("x")), c.number(c.given("y"))), dtype=c.dtype)
    return c.node(dml.CastDesc, c.node(dml.ElementWiseAbsDesc, c.number(held)), dtype=c.dtype)


def functions(c: Chain) -> Any:
    """Operators that the kernel of bytes has on floats alone; bytes that they read are converted once, and others read them as they are."""
    x, y = c.number(c.given("x")), c.number(c.given("y"))
    root = c.node(dml.ElementWiseSqrtDesc, c.node(dml.ElementWiseMaxDesc, x, y))
    return c.node(dml.CastDesc, c.node(dml.ElementWiseMaxDesc, c.node(dml.ElementWiseAddDesc, root, x), y), dtype=c.dtype)


CHAINS: dict[str, tuple[Callable[[Chain], Any], int]] = {
    "product": (product, 3),
    "product with a number for each channel": (lambda c: product(c, LINES), 3),
    "product with a number for each column": (lambda c: product(c, (0, 0, 0, 1)), 3),
    "product of transposed bytes": (lambda c: product(c, (1155, 1, 5, 35)), 3),
    "product with gaps": (lambda c: product(c, None, (3000, 500, 40, 1)), 3),
    "sum": (total, 3),
    "sum of a number for each channel": (sum_of_lines, 1),
    "bounds within the type": (bounded, 3),
    "copies between": (copied, 1),
    "from numbers": (from_numbers, 1),
    "to numbers": (to_numbers, 2),
    "through bytes": (through_bytes, 3),
    "signs": (signs, 2),
    "functions": (functions, 7),
}
"""The chains, each with its instructions."""


def arrays(compiled: dml.CompiledGraph) -> dict[str, Any]:
    """Bytes with every value; numbers with halves, NaN, infinities and such as are beyond bytes."""
    rng, found = np.random.default_rng(7), {}
    for name, desc in compiled.inputs.items():
        dtype, count = desc.data_type.numpy, max(desc.span, 256)
        if desc.data_type.bits == 8:
            values = rng.permuted(np.resize(np.arange(256, dtype=np.uint8), count)).view(dtype)
        else:
            values = (rng.integers(-600, 600, count) / 2).astype(dtype)
            values[:10] = np.nan, np.inf, -np.inf, -0.0, 6e4, -6e4, 255.5, -128.5, 127.5, 0.4
        strides = [stride * dtype.itemsize for stride in desc.element_strides]
        found[name] = np.lib.stride_tricks.as_strided(values, desc.sizes, strides)
    return found


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_bytes(name: str, dtype: str) -> None:
    build, instructions = CHAINS[name]
    chain = Chain(dtype)
    chain.g.output("result", build(chain))
    graph = chain.g.build()
    whole, apart = (dml.compile(graph, "cpu", fuse=fuse) for fuse in (True, False))
    [nodes] = whole.explain_plan().chains
    assert len(nodes) == chain.count
    assert f"{instructions} instruction{'s' * (instructions > 1)} on" in whole.plan
    given = arrays(whole)
    found, expected = (np.asarray(compiled(**given)["result"]) for compiled in (whole, apart))
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 20


@pytest.mark.parametrize("second", ["INT8", "FLOAT16"])
def test_chains_have_one_type_besides_floats(second: str) -> None:
    """Others are converted before, and what is left is one chain."""
    chain = Chain("UINT8")
    x = chain.scaled(chain.number(chain.given("x")), 0.5, 1.0)
    y = chain.scaled(chain.number(chain.given("y", dtype=second)), 0.5, 1.0)
    chain.g.output("result", chain.node(dml.ElementWiseMultiplyDesc, x, y))
    whole, apart = (dml.compile(chain.g.build(), "cpu", fuse=fuse) for fuse in (True, False))
    [nodes] = whole.explain_plan().chains
    assert set(nodes) == {"node2", "node4", "node5", *(["node1"] if second == "FLOAT16" else [])}
    given = arrays(whole)
    np.testing.assert_array_equal(whole(**given)["result"], apart(**given)["result"])


SCALES = {"s": np.float32(0.02), "z": np.uint8(3), "t": np.float32(1 / 256), "o": np.uint8(0), "w": np.uint8([[[90]], [[7]], [[255]]])}


@pytest.mark.parametrize(
    ("nodes", "kinds"),
    [
        ([("QLinearMul", "x s z other t o s z")], ["chain of element-wise operators"]),
        ([("QLinearAdd", "x s z other t o s z")], ["chain of element-wise operators"]),
        ([("QLinearMul", "x s z w t o s z")], ["lookup table of element-wise operators"]),
        ([("QLinearAdd", "w t o x s z s z")], ["lookup table of element-wise operators"]),
        ([("QLinearSigmoid", "x s z t o"), ("QLinearMul", "x s z 0 t o s z")], ["lookup table of element-wise operators"]),
    ],
    ids=["product", "sum with an odd zero point", "product with known numbers", "sum with known numbers", "product with its sigmoid"],
)
@pytest.mark.parametrize("sizes", [[1, 3, 9, 40], [3, 9, 40]])
def test_quantized_operators_are_one_kernel(sizes: list[int], nodes: list[tuple[str, str]], kinds: list[str]) -> None:
    """Of ONNX models, with the bits of the nodes one by one; of any number of dimensions."""
    made = [make_node(kind, reads.split(), [str(at)], domain="com.microsoft") for at, (kind, reads) in enumerate(nodes)]
    last, inputs = str(len(nodes) - 1), {"x": sizes, **({"other": sizes} if "other" in nodes[0][1] else {})}
    types = dict.fromkeys([*inputs, last], TensorProto.UINT8)
    loaded = onnx.load(model(made, inputs, [last], types=types, constants=SCALES))
    rng = np.random.default_rng(3)
    given = {name: rng.integers(0, 256, sizes, np.uint8) for name in inputs}
    compiled = loaded.compile("cpu")
    assert [node.operator for node in compiled.profile(given, runs=1).nodes] == kinds
    np.testing.assert_array_equal(compiled(given)[last], loaded.compile("numpy")(given)[last])


@pytest.mark.parametrize(
    "reads", ["QLinearMul x s z w t o s z", "QLinearAdd x s z w t o s z", "QLinearSigmoid x s z t o", "QLinearLeakyRelu x s z t o"]
)
def test_results_have_the_dimensions_of_their_inputs(reads: str) -> None:
    """No schema says which: a node behind, whose axis counts from the first one, reads the right entries."""
    kind, *names = reads.split()
    nodes = [make_node(kind, names, ["q"], domain="com.microsoft"), make_node("Gather", ["q", "entry"], ["y"], axis=1)]
    types = {"x": TensorProto.UINT8, "y": TensorProto.UINT8, "q": TensorProto.UINT8}
    loaded = onnx.load(model(nodes, {"x": [3, 9, 40]}, ["y", "q"], types=types, constants=SCALES | {"entry": np.int64(4)}))
    found = loaded.compile("cpu")(x=np.random.default_rng(5).integers(0, 256, (3, 9, 40), np.uint8))
    np.testing.assert_array_equal(found["y"], found["q"][:, 4])
