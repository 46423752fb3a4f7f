"""Chains around quantized numbers become one operator, within one step of what the chain computes; others stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto
from onnx.helper import make_node

from dmlpy import onnx
from tests.support.onnx.models import Array, model

RNG = np.random.default_rng(3)
_START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """The numbers of a test do not depend on which ones a process runs before it."""
    RNG.bit_generator.state = _START


SCALES = {"a": np.float32(0.03), "b": np.float32(0.05), "y": np.float32(0.4)}


class Chain:
    """A model of a chain: quantized inputs, the nodes in between, and the quantized result."""

    def __init__(self, opset: int = 13) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.inputs: dict[str, Sequence[int]] = {}
        self.types: dict[str, int] = {}

    def of_input(self, name: str, sizes: Sequence[int], dtype: str = "uint8", scale: float = 0.03) -> str:
        self.inputs[name], self.types[name] = sizes, {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}[dtype]
        return self.dequantized(name, np.float32(scale), np.array(7, dtype))

    def of_weights(self, name: str, dtype: str, *sizes: int, axis: int | None = None) -> str:
        limits, count = np.iinfo(dtype), 1 if axis is None else sizes[axis]
        self.constants[name] = RNG.integers(limits.min, limits.max + 1, sizes).astype(dtype)
        scale = RNG.uniform(0.01, 0.02, () if axis is None else count).astype(np.float32)
        return self.dequantized(name, scale, np.zeros(scale.shape, dtype), **({} if axis is None else {"axis": axis}))

    def of_bias(self, name: str, count: int, scale: Any) -> str:
        self.constants[name] = RNG.integers(-500, 500, count).astype(np.int32)
        scale = np.asarray(scale, np.float32)
        return self.dequantized(name, scale, np.zeros(scale.shape, np.int32), **({"axis": 0} if scale.ndim else {}))

    def dequantized(self, name: str, scale: Any, zero_point: Array, **attributes: Any) -> str:
        self.constants |= {f"{name}_scale": np.asarray(scale), f"{name}_zero": zero_point}
        self.nodes.append(make_node("DequantizeLinear", [name, f"{name}_scale", f"{name}_zero"], [f"{name}_number"], **attributes))
        return f"{name}_number"

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        result = f"{kind}_result"
        self.nodes.append(make_node(kind, inputs, [result], name=kind, **attributes))
        return result

    def quantized(self, number: str, dtype: str = "uint8", zero_point: int = 100, scale: float = 0.4) -> Chain:
        self.constants |= {"y_scale": np.float32(scale), "y_zero": np.array(zero_point, dtype)}
        self.nodes.append(make_node("QuantizeLinear", [number, "y_scale", "y_zero"], ["y"]))
        self.types["y"] = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}[dtype]
        return self

    def with_scale(self, scale: float) -> Chain:
        """The chain with another scale of the result."""
        self.constants["y_scale"] = np.asarray(scale, np.float32)
        return self

    def load(self, outputs: Sequence[str] = ("y",), *, join: bool = True) -> onnx.Model:
        found = model(self.nodes, self.inputs, list(outputs), types=self.types, constants=self.constants, opset=self.opset)
        return onnx.load(found, join_quantized=join)

    def kinds(self, level: str = "6_4", **options: Any) -> list[str]:
        """The operators of the nodes that are computed."""
        return [record.op_type for record in self.load(**options).interpretation(level).records if record.where != "folded"]


def convolution(dtype: str = "int8", axis: int | None = 0, opset: int = 13, weights: str = "int8", **attributes: Any) -> Chain:
    chain = Chain(opset)
    x, w = chain.of_input("a", [2, 3, 7, 6], dtype), chain.of_weights("w", weights, 4, 3, 3, 3, axis=axis)
    bias = chain.of_bias("bias", 4, chain.constants["a_scale"] * chain.constants["w_scale"])
    return chain.quantized(chain.node("Conv", x, w, bias, **attributes))


def product(batch: Sequence[int] = (), axis: int | None = None) -> Chain:
    chain = Chain()
    return chain.quantized(chain.node("MatMul", chain.of_input("a", [*batch, 5, 8]), chain.of_weights("w", "int8", 8, 6, axis=axis)))


def both_inputs() -> Chain:
    chain = Chain()
    return chain.quantized(chain.node("MatMul", chain.of_input("a", [3, 5, 8]), chain.of_input("b", [3, 8, 4], "int8")), "int8", -3)


def gemm(axis: int | None, **attributes: Any) -> Chain:
    chain = Chain()
    x, w = chain.of_input("a", [5, 8]), chain.of_weights("w", "int8", 6, 8, axis=axis)
    bias = chain.of_bias("bias", 6, chain.constants["a_scale"] * chain.constants["w_scale"])
    return chain.quantized(chain.node("Gemm", x, w, bias, transB=1, **attributes))


def total(second: str = "uint8") -> Chain:
    chain = Chain()
    return chain.quantized(chain.node("Add", chain.of_input("a", [2, 5]), chain.of_input("b", [2, 5], second, 0.05)), scale=0.1)


def averaged(dtype: str = "uint8", of_result: str = "uint8") -> Chain:
    chain = Chain()
    return chain.quantized(chain.node("GlobalAveragePool", chain.of_input("a", [5, 9, 4, 5], dtype)), of_result, scale=0.05)


def concatenated(axis: int, *scales: float) -> Chain:
    """Parts of several quantizations; that of the result has a zero point of 7."""
    chain = Chain()
    parts = [chain.of_input(f"part{at}", [2, 3 + at, 5], scale=scale) for at, scale in enumerate(scales)]
    return chain.quantized(chain.node("Concat", *parts, axis=axis), zero_point=7, scale=0.03)


def activated(kind: str, zero_point: int, *bounds: str, dtype: str = "uint8") -> Chain:
    chain = Chain()
    number = chain.node("Conv", chain.of_input("a", [1, 3, 5, 5]), chain.of_weights("w", "int8", 4, 3, 3, 3))
    chain.constants |= {"least": np.float32(0), "six": np.float32(6)}
    return chain.quantized(chain.node(kind, number, *bounds), dtype, zero_point, 6 / 255)


def moved(kind: str, *constants: Any, scale: float = 0.4, zero_point: int = 7, opset: int = 13, **attributes: Any) -> Chain:
    """A node that moves numbers; the quantizations are equal if the zero point is 7."""
    chain = Chain(opset)
    number = chain.of_input("a", [2, 1, 3, 5], scale=scale)
    names = [f"constant{at}" for at in range(len(constants))]
    chain.constants |= {name: np.asarray(constant, np.int64) for name, constant in zip(names, constants, strict=True)}
    return chain.quantized(chain.node(kind, number, *names, **attributes), zero_point=zero_point, scale=scale)


MOVED: dict[str, Callable[[], Chain]] = {
    "Transpose": lambda: moved("Transpose", perm=[3, 0, 2, 1]),
    "Reshape": lambda: moved("Reshape", [5, -1]),
    "Reshape, opset 10": lambda: moved("Reshape", [5, -1], opset=10),
    "Flatten": lambda: moved("Flatten", axis=2),
    "Squeeze": lambda: moved("Squeeze", [1]),
    "Unsqueeze": lambda: moved("Unsqueeze", [0, 2]),
    "Slice": lambda: moved("Slice", [1], [4], [3], [2]),
    "Expand": lambda: moved("Expand", [2, 4, 3, 5]),
    "Gather": lambda: moved("Gather", [[2, 0], [1, 1]], axis=2),
    "MaxPool": lambda: moved("MaxPool", kernel_shape=[2, 2], pads=[1, 0, 0, 1]),
    "MaxPool, dilated": lambda: moved("MaxPool", kernel_shape=[2, 2], dilations=[1, 3]),
    "a tiny scale": lambda: moved("Transpose", scale=2e-38),
    "a huge scale": lambda: moved("Transpose", scale=1e36),
}


JOINED: dict[str, tuple[Callable[[], Chain], str]] = {
    "Conv": (convolution, "QLinearConv"),
    "Conv, one scale, UINT8": (lambda: convolution("uint8", None, weights="uint8", pads=[1, 0, 1, 2], strides=[2, 1]), "QLinearConv"),
    "Conv, opset 10": (lambda: convolution(axis=None, opset=10), "QLinearConv"),
    "Conv, opset 21": (lambda: convolution(opset=21), "QLinearConv"),
    "MatMul": (product, "QLinearMatMul"),
    "MatMul, a scale for each column": (lambda: product((2, 2), 1), "QLinearMatMul"),
    "MatMul of two inputs": (both_inputs, "QLinearMatMul"),
    "Gemm": (lambda: gemm(None), "QGemm"),
    "Gemm, a scale for each column": (lambda: gemm(0), "QGemm"),
    "Add": (total, "QLinearAdd"),
    "GlobalAveragePool": (averaged, "QLinearGlobalAveragePool"),
    "GlobalAveragePool of INT8": (lambda: averaged("int8", "int8"), "QLinearGlobalAveragePool"),
    "Concat": (lambda: concatenated(1, 0.03, 0.05, 0.01), "QLinearConcat"),
    "Concat, an axis from the end": (lambda: concatenated(-2, 0.05, 0.03), "QLinearConcat"),
    "Relu": (lambda: activated("Relu", 0), "QLinearConv"),
    "Clip": (lambda: activated("Clip", 0, "least", "six"), "QLinearConv"),
    "Relu of INT8": (lambda: activated("Relu", -128, dtype="int8"), "QLinearConv"),
}


@pytest.mark.parametrize("name", JOINED)
def test_chains_are_joined(name: str) -> None:
    make, kind = JOINED[name]
    chain = make()
    assert chain.kinds() == [kind]
    limits = {1: np.iinfo("uint8"), 0: np.iinfo("int8")}
    inputs = {
        field: RNG.integers((own := limits[chain.types[field] == TensorProto.UINT8]).min, own.max + 1, sizes).astype(own.dtype)
        for field, sizes in chain.inputs.items()
    }
    found, plain = (chain.load(join=join).compile("numpy")(inputs)["y"] for join in (True, False))
    assert found.dtype == plain.dtype
    off = np.abs(found.astype(int) - plain.astype(int))
    assert off.max() <= 1
    assert np.count_nonzero(off) <= max(1, 0.02 * off.size)
    assert (plain != plain.reshape(-1)[0]).mean() > 0.1


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("zero_point", [100, 101])
def test_joined_sums_round_as_the_chain_does(zero_point: int, device: str) -> None:
    """Every second sum is a tie, which QuantizeLinear rounds before it adds the zero point; one operator computes any of them."""
    chain = Chain()
    both = [chain.of_input(name, [2, 50], scale=0.5) for name in "ab"]
    loaded = chain.quantized(chain.node("Add", *both), zero_point=zero_point, scale=1.0).load()
    inputs = {name: RNG.integers(0, 256, sizes, np.uint8) for name, sizes in chain.inputs.items()}
    sums = sum(0.5 * (inputs[name].astype(np.float64) - 7) for name in "ab")
    np.testing.assert_array_equal(loaded.compile(device)(inputs)["y"], np.clip(np.rint(sums) + zero_point, 0, 255).astype(np.uint8))
    assert [record.operators for record in loaded.interpretation("6_4").records] == [("ELEMENT_WISE_QUANTIZED_LINEAR_ADD",)]


def test_parts_of_the_result_s_quantization_stay() -> None:
    """Others are quantized anew, each by a table, with the bits of the chain."""
    chain = concatenated(1, 0.03, 0.05, 0.01)
    inputs = {name: RNG.integers(0, 256, sizes, np.uint8) for name, sizes in chain.inputs.items()}
    compiled = chain.load().compile("cpu")
    kinds = [node.operator for node in compiled.profile(inputs, runs=1).nodes]
    assert kinds.count("lookup table of element-wise operators") == 2
    assert not any("QUANTIZE" in kind for kind in kinds)
    np.testing.assert_array_equal(compiled(inputs)["y"], chain.load(join=False).compile("numpy")(inputs)["y"])


def with_reader() -> Chain:
    chain = convolution()
    chain.nodes.append(make_node("Relu", ["Conv_result"], ["other"]))
    return chain


def with_scale_of_input() -> Chain:
    chain = convolution(axis=None)
    del chain.constants["a_scale"]
    chain.inputs["a_scale"] = []
    return chain


def with_other_bias() -> Chain:
    chain = convolution(axis=None)
    chain.constants["bias_scale"] = chain.constants["bias_scale"] * np.float32(1.5)
    return chain


def of_16_bits() -> Chain:
    chain = convolution(axis=None, opset=21)
    chain.constants["y_zero"] = np.array(100, np.uint16)
    chain.types["y"] = TensorProto.UINT16
    return chain


APART: dict[str, tuple[Callable[[], Chain], dict[str, Any]]] = {
    "something reads the sum": (with_reader, {"outputs": ["y", "other"]}),
    "the sum is an output": (convolution, {"outputs": ["y", "Conv_result"]}),
    "the scale is an input": (with_scale_of_input, {}),
    "the bias has another scale": (with_other_bias, {}),
    "16 bits": (of_16_bits, {}),
    "a low level": (lambda: convolution(axis=None), {"level": "6_1"}),
    "sums of two types": (lambda: total("int8"), {}),
    "Relu above the least result": (lambda: activated("Relu", 5), {}),
    "Clip within the results": (lambda: activated("Clip", 0, "", "least"), {}),
    "Gemm with a factor": (lambda: gemm(None, alpha=0.5), {}),
    "moved to another scale": (lambda: moved("Transpose").with_scale(0.5), {}),
    "moved to another zero point": (lambda: moved("Transpose", zero_point=8), {}),
    "a mean in another type": (lambda: averaged("uint8", "int8"), {}),
    "the largest of another scale": (lambda: moved("MaxPool", kernel_shape=[2, 2]).with_scale(0.5), {}),
    "the largest of falling numbers": (lambda: moved("MaxPool", kernel_shape=[2, 2], scale=-0.4), {}),
    "the largest before opset 12": (lambda: moved("MaxPool", kernel_shape=[2, 2], opset=11), {}),
    "moved, too small to return": (lambda: moved("Transpose", scale=1e-40), {}),
    "moved, too large to return": (lambda: moved("Transpose", scale=1e37), {}),
    "not asked for": (convolution, {"join": False}),
}


@pytest.mark.parametrize("name", APART)
def test_other_chains_stay(name: str) -> None:
    make, options = APART[name]
    kinds = make().kinds(**options)
    assert "QuantizeLinear" in kinds
    assert not any(kind.startswith("QLinear") or kind == "QGemm" for kind in kinds)


def test_numbers_that_others_read_are_dequantized() -> None:
    """The chain is joined; its input's numbers are computed for their other reader."""
    chain = convolution()
    chain.nodes.append(make_node("Relu", ["a_number"], ["other"]))
    assert sorted(chain.kinds(outputs=["y", "other"])) == ["DequantizeLinear", "QLinearConv", "Relu"]


def dynamic(*, keeps_scale: bool = False, bias: Array | None = None, join: bool = True) -> onnx.Model:
    """What ONNX Runtime's dynamic quantization writes for a product with constant weights."""
    nodes = [
        make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        make_node("MatMulInteger", ["q", "w", "z", "w_zero"], ["sums"]),
        make_node("Cast", ["sums"], ["cast"], to=TensorProto.FLOAT),
        make_node("Mul", ["s", "w_scale"], ["scale"]),
        make_node("Mul", ["cast", "scale"], ["y"]),
    ]
    weights = np.random.default_rng(12).integers(-127, 127, (8, 6)).astype(np.int8)
    constants = {"w": weights, "w_zero": np.zeros((), np.int8), "w_scale": np.float32(0.02)}
    if bias is not None:
        nodes.append(make_node("Add", ["bias", "y"], ["total"]))
        constants["bias"] = bias
    outputs = ["total" if bias is not None else "y", *(["scale"] if keeps_scale else [])]
    return onnx.load(model(nodes, {"x": [2, 5, 8]}, outputs, constants=constants), join_quantized=join)


def test_dynamic_quantization() -> None:
    def kinds(**options: bool) -> list[str]:
        return [record.op_type for record in dynamic(**options).interpretation().records]

    assert kinds() == ["DynamicQuantizeLinear", "MatMulIntegerToFloat"]
    assert kinds(keeps_scale=True) == ["DynamicQuantizeLinear", "Mul", "MatMulIntegerToFloat"]
    assert kinds(bias=np.ones(6, np.float32)) == ["DynamicQuantizeLinear", "MatMulIntegerToFloat"]
    for other in (np.ones(1), np.ones((5, 6)), np.ones((1, 1, 1, 6))):
        assert kinds(bias=other.astype(np.float32)) == ["DynamicQuantizeLinear", "MatMulIntegerToFloat", "Add"]
    x = RNG.standard_normal((2, 5, 8)).astype(np.float32)
    for bias in (None, np.arange(6, dtype=np.float32)):
        found, plain = (next(iter(dynamic(bias=bias, join=join).compile("numpy")({"x": x}).values())) for join in (True, False))
        np.testing.assert_allclose(found, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("opset", [10, 13, 17, 19, 21])
@pytest.mark.parametrize("sizes", [(), (1,)])
def test_known_weights_are_folded(opset: int, sizes: tuple[int, ...]) -> None:
    """At every opset: known DequantizeLinear runs once, before the model does; a vector of one scale has no axis."""
    chain = convolution(axis=None, opset=opset)
    chain.constants["bias_scale"] = chain.constants["bias_scale"].reshape(sizes)
    records = chain.load(join=False).interpretation().records
    folded = [record.outputs[0].name for record in records if record.where == "folded"]
    assert {"w_number", "bias_number"} <= set(folded)


@pytest.mark.parametrize("name", MOVED)
def test_bytes_are_moved_instead_of_numbers(name: str) -> None:
    """Without their quantizations, and with the same bits."""
    chain = MOVED[name]()
    kind = chain.nodes[1].op_type
    assert chain.kinds() == [kind]
    a = np.random.default_rng(13).permuted(np.arange(30, dtype=np.uint8) * 8 + 7).reshape(2, 1, 3, 5)
    found, plain = (chain.load(join=join).compile("numpy")({"a": a})["y"] for join in (True, False))
    assert found.dtype == plain.dtype
    np.testing.assert_array_equal(found, plain)
    assert len(np.unique(found)) > 5


def test_moves_in_turn_are_of_bytes() -> None:
    """Each with a quantization after it, as quantizers write them, up to a product."""
    chain = Chain()
    number = chain.of_input("a", [2, 12])
    for at, (kind, members) in enumerate((("Reshape", {}), ("Transpose", {"perm": [0, 2, 1]}))):
        chain.constants["sizes"] = np.array([2, 3, 4])
        number = chain.node(kind, number, *(["sizes"] if kind == "Reshape" else []), **members)
        chain.nodes.append(make_node("QuantizeLinear", [number, "a_scale", "a_zero"], [f"moved{at}"]))
        number = f"numbers{at}"
        chain.nodes.append(make_node("DequantizeLinear", [f"moved{at}", "a_scale", "a_zero"], [number]))
    chain.quantized(chain.node("MatMul", number, chain.of_weights("w", "int8", 3, 5)))
    assert chain.kinds() == ["Reshape", "Transpose", "QLinearMatMul"]
