"""The sizes of what com.microsoft's nodes give, for any number of dimensions: ONNX infers none, so that a rule alone determines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from dmlpy import onnx
from dmlpy.messages.problems import CompileError
from dmlpy.onnx.lowering import rules
from tests.support.onnx.models import Array, model

RNG = np.random.default_rng(21)
SIZES: tuple[tuple[int, ...], ...] = ((), (8,), (3, 8), (2, 3, 8), (2, 3, 4, 8), (2, 1, 3, 2, 8))
"""By number of dimensions. ONNX Runtime, where it has an operator, gives results of the sizes below."""
S, Z = np.float32(0.02), np.uint8(3)


def f(*sizes: int) -> Array:
    return RNG.standard_normal(sizes).astype(np.float32)


def q(*sizes: int) -> Array:
    return RNG.integers(0, 256, sizes, np.uint8)


Made = tuple[list[Any], dict[str, Any], Sequence[int]]
# the fewest and the most dimensions; the inputs, attributes and sizes of the result for the sizes of an input
NODES: dict[str, tuple[int, int, Callable[[tuple[int, ...]], Made]]] = {
    "Gelu": (0, 5, lambda s: ([f(*s)], {}, s)),
    "QuickGelu": (0, 5, lambda s: ([f(*s)], {"alpha": 1.5}, s)),
    "BiasGelu": (1, 5, lambda s: ([f(*s), f(8)], {}, s)),
    "FastGelu": (1, 5, lambda s: ([f(*s), f(8)], {}, s)),
    "BiasAdd": (3, 3, lambda s: ([f(*s), f(8), f(*s)], {}, s)),
    "BiasSplitGelu": (3, 3, lambda s: ([f(*s), f(8)], {}, (*s[:-1], 4))),
    "QuantizeLinear": (0, 5, lambda s: ([f(*s), S, Z], {}, s)),
    "DequantizeLinear": (0, 5, lambda s: ([q(*s), S, Z], {}, s)),
    "QLinearSigmoid": (0, 5, lambda s: ([q(*s), S, Z, S, Z], {}, s)),
    "QLinearLeakyRelu": (0, 5, lambda s: ([q(*s), S, Z, S, Z], {}, s)),
    "QLinearSoftmax": (1, 5, lambda s: ([q(*s), S, Z, S, Z], {"axis": -1, "opset": 13}, s)),
    "QLinearSoftmax, opset 12": (1, 5, lambda s: ([q(*s), S, Z, S, Z], {"axis": 0, "opset": 12}, s)),
    "QLinearAdd": (0, 5, lambda s: ([q(*s), S, Z, q(*s), S, Z, S, Z], {}, s)),
    "QLinearAdd of a scalar": (0, 5, lambda s: ([q(), S, Z, q(*s), S, Z, S, Z], {}, s)),
    "QLinearMul": (1, 5, lambda s: ([q(*s), S, Z, q(8), S, Z, S, Z], {}, s)),
    "QLinearWhere": (0, 5, lambda s: ([q(*s) < 9, q(*s), S, Z, q(*s), S, Z, S, Z], {}, s)),
    "QLinearConcat": (1, 5, lambda s: ([S, Z, q(*s), S, Z, q(*s), S, Z], {"axis": -1}, (*s[:-1], 16))),
    "QLinearReduceMean": (1, 5, lambda s: ([q(*s), S, Z, S, Z], {"axes": [-1]}, (*s[:-1], 1))),
    "QLinearReduceMean without dimensions": (1, 5, lambda s: ([q(*s), S, Z, S, Z], {"axes": [0], "keepdims": 0}, s[1:])),
    "QLinearReduceMean of all": (1, 5, lambda s: ([q(*s), S, Z, S, Z], {"keepdims": 0}, ())),
    "QLinearGlobalAveragePool": (3, 5, lambda s: ([q(*s), S, Z, S, Z], {}, (*s[:2], *[1] * (len(s) - 2)))),
    "QLinearAveragePool": (
        *(3, 5),
        lambda s: ([q(*s), S, Z, S, Z], {"kernel_shape": [2] * len(s[2:])}, (*s[:2], *(size - 1 for size in s[2:]))),
    ),
    "FusedConv": (3, 5, lambda s: ([f(*s), f(5, s[1], *[1] * len(s[2:]))], {"activation": "Relu"}, (s[0], 5, *s[2:]))),
    "FusedMatMul": (1, 5, lambda s: ([f(*s), f(8, 5)], {}, (*s[:-1], 5))),
    "FusedMatMul with a vector": (1, 5, lambda s: ([f(*s), f(8)], {}, s[:-1])),
    "TransposeMatMul": (1, 5, lambda s: ([f(*s), f(8, 5)], {}, (*s[:-1], 5))),
    "MatMulIntegerToFloat": (1, 5, lambda s: ([q(*s), q(8, 5), S, S, Z, Z], {}, (*s[:-1], 5))),
    "DynamicQuantizeMatMul": (1, 5, lambda s: ([f(*s), q(8, 5), S, Z], {}, (*s[:-1], 5))),
    "MatMulNBits": (1, 5, lambda s: ([f(*s[:-1], 32), q(5, 1, 16), f(5)], {"K": 32, "N": 5, "bits": 4, "block_size": 32}, (*s[:-1], 5))),
    "QGemm": (2, 2, lambda s: ([q(*s), S, Z, q(8, 5), S, Z, np.zeros(5, np.int32), S, Z], {}, (*s[:-1], 5))),
    "FusedGemm": (2, 2, lambda s: ([f(*s), f(8, 5), f(5)], {"activation": "Relu"}, (*s[:-1], 5))),
    "SkipLayerNormalization": (2, 3, lambda s: ([f(*s), f(*s), f(8)], {}, s)),
    "SkipSimplifiedLayerNormalization": (2, 3, lambda s: ([f(*s), f(*s), f(8)], {}, s)),
}
"""Nodes whose results no schema has sizes for; kinds with fixed dimensions, such as attention, are among the stored nodes."""

EMPTY = frozenset(
    {
        *("BiasAdd", "BiasGelu", "DequantizeLinear", "DynamicQuantizeMatMul", "FastGelu", "FusedMatMul", "Gelu", "MatMulIntegerToFloat"),
        *(
            "MatMulNBits",
            "QLinearAdd",
            "QLinearConcat",
            "QLinearLeakyRelu",
            "QLinearMul",
            "QLinearSigmoid",
            "QLinearSoftmax",
            "QuantizeLinear",
        ),
        *("QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "TransposeMatMul"),
    }
)
"""Those that take inputs without elements."""


def loaded(name: str, made: Made, given: Sequence[int]) -> tuple[onnx.Model, dict[str, Array]]:
    """A model of a node, some of whose inputs are given and others known; the types of outputs are those of the schemas."""
    (arrays, attributes, _), kind = made, name.split()[0].strip(",")
    named = {f"x{at}": np.asarray(array) for at, array in enumerate(arrays)}
    node = helper.make_node(kind, [*named], ["y"], domain="com.microsoft", **attributes)
    typed = {"MatMulIntegerToFloat": "x2", "DequantizeLinear": "x1", "QuantizeLinear": "x2", "QLinearWhere": "x1", "QLinearConcat": "x1"}
    types = {own: helper.np_dtype_to_tensor_dtype(array.dtype) for own, array in named.items()}
    types["y"] = types[typed.get(kind, "x0")]
    arguments = {f"x{at}": named[f"x{at}"] for at in given}
    constants = {own: array for own, array in named.items() if own not in arguments}
    sizes = {own: array.shape for own, array in arguments.items()}
    proto = model([node], sizes, ["y"], opset=17, types=types, constants=constants, domains={"com.microsoft": 1})
    return onnx.load(proto), arguments


@pytest.mark.parametrize("name", NODES)
def test_results_have_the_sizes_of_the_operator(name: str) -> None:
    """All inputs with dimensions are given, or the first or the last one alone: what is known is lowered to other operators."""
    least, most, make = NODES[name]
    for sizes in SIZES[least : most + 1]:
        made = make(sizes)
        tensors = [at for at, array in enumerate(made[0]) if np.ndim(array)] or [0]
        for given in {(tuple(tensors)), (tensors[0],), (tensors[-1],)}:
            found, arguments = loaded(name, made, given)
            assert found.compile("numpy")(arguments)["y"].shape == tuple(made[2]), (sizes, given)


@pytest.mark.parametrize("name", [name for name in NODES if name.split()[0] in EMPTY])
def test_results_of_nothing_have_no_elements(name: str) -> None:
    """As in ONNX Runtime: a batch may be empty, or a text without words."""
    least, most, make = NODES[name]
    for sizes in ((0, 8), (2, 0, 8), (0, 3, 4, 8))[max(least - 2, 0) : most - 1]:
        made = make(sizes)
        found, arguments = loaded(name, made, [at for at, array in enumerate(made[0]) if np.ndim(array)])
        assert found.compile("numpy")(arguments)["y"].shape == tuple(made[2]), sizes


@pytest.mark.parametrize(("sizes", "last", "expected"), [((0, 3, 5, 6), 0, (0, 3, 1, 1)), ((0, 5, 6, 3), 1, (0, 1, 1, 3))])
def test_means_of_an_empty_batch(sizes: tuple[int, ...], last: int, expected: tuple[int, ...]) -> None:
    made = [q(*sizes), S, Z, S, Z], {"channels_last": last}, expected
    found, arguments = loaded("QLinearGlobalAveragePool", made, (0,))
    assert found.compile("numpy")(arguments)["y"].shape == expected


@pytest.mark.parametrize(
    ("given", "attributes", "expected"),
    [
        ([f(3, 0, 4, 5), f(3, 0, 5, 6)], {}, (3, 0, 4, 6)),
        ([f(0, 4, 5), f(0, 4, 6)], {"transA": 1}, (0, 5, 6)),
        ([f(0, 4), f(5, 4)], {"transB": 1}, (0, 5)),
    ],
)
def test_products_of_nothing_may_be_transposed(given: list[Array], attributes: dict[str, Any], expected: tuple[int, ...]) -> None:
    found, arguments = loaded("FusedMatMul", (given, attributes, expected), (0, 1))
    assert found.compile("numpy")(arguments)["y"].shape == expected


def test_a_rule_that_adds_dimensions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than that a node behind reads another axis."""
    rule = rules.find_rule("Gelu", 1, "com.microsoft")
    assert rule is not None
    found, arguments = loaded("Gelu", ([f(3, 8)], {}, ()), (0,))
    monkeypatch.setitem(rules._LOWERINGS["com.microsoft", "Gelu"], 1, lambda node: rule(node).with_leading_ones(4))  # type: ignore[union-attr]
    with pytest.raises(CompileError, match="sizes that follow from those of the inputs"):
        found.compile("numpy")(arguments)
