"""Joins chains of nodes around quantized numbers to one node, before a model is lowered.

`DequantizeLinear - Conv - QuantizeLinear` computes in FLOAT32 between integers; QLinearConv computes the same sums in integers. A result
differs by one step of the quantization at most, where the sum in FLOAT32 is rounded to the other side of a tie. ONNX Runtime joins the
same chains. A joined node has the name of the chain's middle, and its result that of the chain's result. What only moves numbers between
equal quantizations moves their integers, with the same results; so does MaxPool.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from dmlpy.onnx.loading.schemas import MICROSOFT, OWN
from dmlpy.onnx.lowering import subgraphs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from onnx import GraphProto

    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.loading.values import Array

_BYTES = (TensorProto.UINT8, TensorProto.INT8)
_MOVES = frozenset({"Expand", "Flatten", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""The operators whose results are elements of their first input, of any type from opset 10 on."""
_POOLS_BYTES = 12
"""The lowest opset whose MaxPool has 8 bits."""
_BIAS_TOLERANCE = 1e-5
"""How far the scale of a bias may be from the product of the other scales, relatively: both are rounded to FLOAT32."""


def join_chains(model: LoadedModel) -> Sequence[NodeProto]:
    """The nodes of a model's graph, with chains around quantized numbers joined.

    A chain stays as it is if something else reads a value within it, if its scales or zero points are not known, or if no quantized
    operator has its types. Nodes of DequantizeLinear that nothing reads any more are left out.
    """
    return _Chains(model).nodes()


def returns_from_numbers(scale: Array | np.float32) -> bool:
    """Whether the numbers that integers stand for, quantized again, are those integers: neither rounded much nor infinite.

    Args:
        scale: the scale of the whole tensor.
    """
    limits = np.finfo(np.float32)
    return bool(limits.tiny <= np.abs(scale) <= limits.max / 256)


@dataclass(frozen=True)
class _Quantized:
    """A quantized value and what its integers stand for.

    Attributes:
        names: the names of the integers, the scale and the zero point.
        scale: the scales.
        zero_point: the zero points, of the integers' type.
        axis: the axis of several scales, if it is given.
    """

    names: tuple[str, str, str]
    scale: Array
    zero_point: Array
    axis: int

    @property
    def element(self) -> int:
        return int(helper.np_dtype_to_tensor_dtype(self.zero_point.dtype))

    def is_per(self, axis: int, rank: int) -> bool:
        """Whether it has one scale, or one for each entry along an axis."""
        return self.scale.size == 1 or (self.scale.ndim == 1 and self.axis % rank == axis % rank)


@dataclass
class _Chains:
    """Finds chains in the nodes of a model."""

    model: LoadedModel
    _graph: GraphProto = field(init=False)

    def __post_init__(self) -> None:
        self._graph = graph = self.model.proto.graph
        self._makers = {name: node for node in graph.node for name in node.output if name}
        given = {item.name for item in graph.input}
        self._known = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in given}
        self._constants = {node.output[0]: node for node in graph.node if node.op_type == "Constant" and not node.domain}
        self._reads = Counter(name for node in graph.node for name in (*node.input, *subgraphs.captured_names(node)))
        self._reads.update(item.name for item in graph.output)
        self._joined: dict[int, NodeProto] = {}
        self._left_out: set[int] = set()

    def nodes(self) -> Sequence[NodeProto]:
        """See `join_chains`."""
        for node in self._graph.node:
            if node.op_type == "QuantizeLinear" and not node.domain:
                self._join_quantized(node)
            elif node.op_type == "MatMulInteger" and not node.domain:
                self._join_to_float(node)
        if not self._joined:
            return list(self._graph.node)
        kept = [self._joined.get(id(node), node) for node in self._graph.node if id(node) not in self._left_out]
        reads = {name for node in kept for name in (*node.input, *subgraphs.captured_names(node))}
        reads |= {item.name for item in self._graph.output}
        return [node for node in kept if node.op_type != "DequantizeLinear" or node.output[0] in reads]

    # Chains that end in QuantizeLinear

    def _join_quantized(self, last: NodeProto) -> None:
        """Joins the chain that ends in a node of QuantizeLinear, if there is one."""
        result = self._parameters(last)
        core = self._only(last.input[0])
        passed: list[NodeProto] = []
        if result is None or result.scale.size != 1 or result.element not in _BYTES or core is None:
            return
        if core.op_type in ("Relu", "Clip") and self._is_implied(core, result):
            passed, inner = [core], self._only(core.input[0])
            if inner is None:
                return
            core = inner
        join: Callable[[NodeProto, _Quantized], NodeProto | None] | None = {
            **dict.fromkeys(_MOVES, self._move),
            "MaxPool": self._maximum,
            "GlobalAveragePool": self._mean,
            "Conv": self._convolution,
            "MatMul": self._product,
            "Gemm": self._gemm,
            "Add": self._sum,
            "Concat": self._parts,
        }.get(core.op_type)
        joined = None if join is None or core.domain else join(core, result)
        if joined is not None:
            joined.name = core.name
            self._replace(last, joined, [core, *passed])

    def _move(self, core: NodeProto, result: _Quantized) -> NodeProto | None:
        """The node on integers instead of numbers, if quantizing the numbers returns the integers."""
        x = self._operand(core, 0)
        if x is None or x.scale.size != 1 or not returns_from_numbers(x.scale) or x.element != result.element:
            return None
        if x.scale.reshape(-1)[0] != result.scale.reshape(-1)[0] or x.zero_point.reshape(-1)[0] != result.zero_point.reshape(-1)[0]:
            return None
        moved = helper.make_node(core.op_type, [x.names[0], *core.input[1:]], [])
        moved.attribute.extend(core.attribute)
        return moved

    def _maximum(self, core: NodeProto, result: _Quantized) -> NodeProto | None:
        """The pooling of integers, which have the order of the numbers if the scale is positive."""
        x = self._operand(core, 0)
        if x is None or not x.scale.reshape(-1)[0] > 0 or any(core.output[1:]) or self.model.opsets.get("", 0) < _POOLS_BYTES:
            return None
        return self._move(core, result)

    def _mean(self, core: NodeProto, result: _Quantized) -> NodeProto | None:
        """QLinearGlobalAveragePool."""
        x = self._operand(core, 0)
        if x is None or x.scale.size != 1 or x.element != result.element:
            return None
        return helper.make_node("QLinearGlobalAveragePool", [*x.names, *result.names[1:]], [], domain=MICROSOFT)

    def _convolution(self, core: NodeProto, result: _Quantized) -> NodeProto | None:
        """QLinearConv."""
        x, weights, bias = self._operand(core, 0), self._operand(core, 1), self._bias(core)
        if x is None or weights is None or bias is None or x.scale.size != 1 or not (weights.scale.size == 1 or weights.axis == 0):
            return None
        if bias and not self._is_product(core.input[2], x, weights):
            return None
        convolution = helper.make_node("QLinearConv", [*x.names, *weights.names, *result.names[1:], *bias], [])
        convolution.attribute.extend(core.attribute)
        return convolution

    def _product(self, core: NodeProto, result: _Quantized) -> NodeProto | None:
        """QLinearMatMul."""
        a, b = self._operand(core, 0), self._operand(core, 1)
        if a is None or b is None or a.scale.size != 1:
            return None
        sizes = self._sizes_of(b.names[0])
        if b.scale.size != 1 and (sizes is None or not b.is_per(-1, len(sizes))):
            return None
        return helper.make_node("QLinearMatMul", [*a.names, *b.names, *result.names[1:]], [])

    def _gemm(self, core: NodeProto, result: _Quantized) -> NodeProto | None:
        """QGemm."""
        attributes = {item.name: helper.get_attribute_value(item) for item in core.attribute}
        a, b, bias = self._operand(core, 0), self._operand(core, 1), self._bias(core)
        if attributes.get("alpha", 1.0) != 1 or attributes.get("beta", 1.0) != 1 or a is None or b is None or bias is None:
            return None
        columns = 0 if attributes.get("transB", 0) else 1
        if a.scale.size != 1 or not b.is_per(columns, 2) or (bias and not self._is_product(core.input[2], a, b)):
            return None
        inputs = [*a.names, *b.names, *(bias or [""]), *result.names[1:]]
        transpositions = {name: attributes[name] for name in ("transA", "transB") if name in attributes}
        return helper.make_node("QGemm", inputs, [], domain=MICROSOFT, **transpositions)

    def _sum(self, core: NodeProto, result: _Quantized) -> NodeProto | None:
        """QLinearAdd, of one type, which rounds as QuantizeLinear does: before it adds the zero point."""
        a, b = self._operand(core, 0), self._operand(core, 1)
        if a is None or b is None or not a.scale.size == b.scale.size == 1 or not a.element == b.element == result.element:
            return None
        return helper.make_node("QLinearAdd", [*a.names, *b.names, *result.names[1:]], [], domain=OWN)

    def _parts(self, core: NodeProto, result: _Quantized) -> NodeProto | None:
        """QLinearConcat, whose parts are quantized one by one: those of the result's quantization stay as they are."""
        parts = [self._operand(core, index) for index in range(len(core.input))]
        if any(part is None or part.scale.size != 1 for part in parts):
            return None
        inputs = [*result.names[1:], *(name for part in parts if part is not None for name in part.names)]
        concat = helper.make_node("QLinearConcat", inputs, [], domain=MICROSOFT)
        concat.attribute.extend(core.attribute)
        return concat

    def _is_implied(self, node: NodeProto, result: _Quantized) -> bool:
        """Whether Relu or Clip changes no quantized result: its bounds, quantized, are the ends of the type or beyond."""
        bounds = [self._array(name) if name else None for name in node.input[1:3]]
        if node.attribute or any(name and bound is None for name, bound in zip(node.input[1:3], bounds, strict=True)):
            return False  # before opset 11 the bounds are attributes
        least = -np.inf if not bounds or bounds[0] is None else float(bounds[0])
        most = np.inf if len(bounds) < 2 or bounds[1] is None else float(bounds[1])
        least, limits = 0.0 if node.op_type == "Relu" else least, np.iinfo(result.zero_point.dtype)
        first, last = (np.rint(end / result.scale.reshape(())) + int(result.zero_point.reshape(())) for end in (least, most))
        return bool(first <= limits.min and last >= limits.max)

    def _operand(self, node: NodeProto, index: int) -> _Quantized | None:
        """The quantized value that a node's input stands for; None if it is not one of 8 bits."""
        maker = self._makers.get(node.input[index]) if index < len(node.input) else None
        if maker is None or maker.op_type != "DequantizeLinear" or maker.domain:
            return None
        parameters = self._parameters(maker)
        return parameters if parameters is not None and parameters.element in _BYTES else None

    def _bias(self, node: NodeProto) -> list[str] | None:
        """The name of the bias of 32 bits, no name without a bias, or None if it is of another type."""
        if len(node.input) < 3 or not node.input[2]:
            return []
        maker = self._makers.get(node.input[2])
        if maker is None or maker.op_type != "DequantizeLinear" or maker.domain:
            return None
        bias = self._known.get(maker.input[0])
        zero_point = self._array(maker.input[2]) if len(maker.input) > 2 and maker.input[2] else np.zeros(1)
        is_plain = bias is not None and bias.data_type == TensorProto.INT32 and zero_point is not None and not zero_point.any()
        return [maker.input[0]] if is_plain and len(bias.dims) == 1 else None  # type: ignore[union-attr]

    def _is_product(self, name: str, x: _Quantized, weights: _Quantized) -> bool:
        """Whether the scale of a bias is the product of the scales of what it is added to."""
        scale = self._array(self._makers[name].input[1])
        if scale is None:
            return False
        wanted = np.multiply(x.scale.reshape(-1), weights.scale.reshape(-1), dtype=np.float64)
        given = scale.reshape(-1)
        return given.size in (1, wanted.size) and bool(np.allclose(given, wanted, rtol=_BIAS_TOLERANCE, atol=0))

    def _parameters(self, node: NodeProto) -> _Quantized | None:
        """The quantized value of QuantizeLinear or DequantizeLinear, if its FLOAT32 scale and its zero point are known."""
        if len(node.input) < 3 or not node.input[2]:
            return None
        attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        scale, zero_point = self._array(node.input[1]), self._array(node.input[2])
        if scale is None or zero_point is None or scale.dtype != np.float32 or attributes.get("block_size", 0):
            return None
        if zero_point.size != scale.size or set(attributes) - {"axis", "block_size", "saturate"}:
            return None
        source = node.input[0] if node.op_type == "DequantizeLinear" else node.output[0]
        return _Quantized((source, node.input[1], node.input[2]), scale, zero_point, int(attributes.get("axis", 1)))

    # Chains around MatMulInteger

    def _join_to_float(self, first: NodeProto) -> None:
        """Joins MatMulInteger - Cast - Mul by both scales to MatMulIntegerToFloat, as dynamic quantization writes them."""
        cast = self._next(first.output[0])
        if cast is None or cast.op_type != "Cast" or helper.get_attribute_value(cast.attribute[0]) != TensorProto.FLOAT:
            return
        scaled = self._next(cast.output[0])
        if scaled is None or scaled.op_type != "Mul":
            return
        (other,) = [name for name in scaled.input if name != cast.output[0]] or ("",)
        scales = self._makers.get(other)
        quantized = self._makers.get(first.input[0])
        if scales is None or scales.op_type != "Mul" or quantized is None or quantized.op_type != "DynamicQuantizeLinear":
            return
        of_left = quantized.output[1]
        (of_right,) = [name for name in scales.input if name != of_left] or ("",)
        right = self._array(of_right) if of_left in scales.input and of_right else None
        if right is None or right.dtype != np.float32 or right.ndim > 1:
            return
        zeros = [*first.input[2:4], "", ""][:2]
        if not zeros[0] or zeros[0] != quantized.output[2]:
            return
        last, bias = self._added(scaled, self._sizes_of(first.input[1]))
        joined = helper.make_node("MatMulIntegerToFloat", [*first.input[:2], of_left, of_right, *zeros, *bias], [], domain=MICROSOFT)
        joined.name = first.name
        self._replace(last, joined, [first, cast, *([scaled] if bias else [])])
        if self._reads[other] == 1:
            self._left_out.add(id(scales))

    def _added(self, product: NodeProto, sizes: Sequence[int] | None) -> tuple[NodeProto, list[str]]:
        """The node that adds a known number to each column of a product, and their name; without one the product itself."""
        after = self._next(product.output[0])
        if after is None or after.op_type != "Add" or after.domain or sizes is None or len(sizes) < 2:
            return product, []
        (bias,) = [name for name in after.input if name != product.output[0]] or ("",)
        array = self._array(bias) if bias else None
        fits = array is not None and array.dtype == np.float32 and array.shape == (sizes[-1],)
        return (after, [bias]) if fits else (product, [])

    # The graph

    def _replace(self, last: NodeProto, replacement: NodeProto, others: Iterable[NodeProto]) -> None:
        """Puts a node in the place of the last one of a chain."""
        replacement.output.extend(last.output)
        self._joined[id(last)] = replacement
        self._left_out.update(id(node) for node in others)

    def _only(self, name: str) -> NodeProto | None:
        """The node that makes a value of one reader; None if there are more readers."""
        return self._makers.get(name) if self._reads[name] == 1 else None

    def _next(self, name: str) -> NodeProto | None:
        """The only node that reads a value; None if there are more readers."""
        if self._reads[name] != 1:
            return None
        return next((node for node in self._graph.node if name in node.input), None)

    def _array(self, name: str) -> Array | None:
        """The elements of a known value."""
        if name in self._known:
            return self.model.array(self._known[name])
        if name in self._constants:
            stored: Any = next((item.t for item in self._constants[name].attribute if item.name == "value"), None)
            return None if stored is None else self.model.array(stored)
        return None

    def _sizes_of(self, name: str) -> Sequence[int] | None:
        """The sizes of an initializer."""
        return list(self._known[name].dims) if name in self._known else None
