"""What nodes of com.microsoft give for inputs without elements: ONNX infers nothing of them, and no tensor of DirectML is empty."""

from __future__ import annotations

from operator import and_
from typing import TYPE_CHECKING, TypeAlias

from onnx import TensorProto

from dmlpy.graphs.views import broadcast_sizes
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.nodes.microsoft_sizes import PRODUCTS
from dmlpy.onnx.nodes.ranks import are_known

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.nodes.node import Node

    OutputType: TypeAlias = tuple[int | None, tuple[int, ...] | None]

_LIKE_FIRST: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("BiasAdd", "BiasGelu", "FastGelu", "Gelu", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax"), (0,)),
    **dict.fromkeys(("QuickGelu", "RotaryEmbedding", "SimplifiedLayerNormalization"), (0,)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), (0, 3)),
}
"""The outputs that have the type and the sizes of the first input."""
_SWAPPED = frozenset({"transBatchA", "transBatchB"})


def empty_outputs(node: Node) -> tuple[OutputType, ...]:
    """The types and the sizes of a node's outputs, as far as they are known, if one of its inputs has no elements."""
    given = [value for value in node.inputs if value is not None]
    if node.domain != MICROSOFT or not any(value.is_static and 0 in value.static_sizes for value in given):
        return ()
    if not all(value.is_static for value in given):
        return ()
    if (places := _LIKE_FIRST.get(node.op_type)) is not None:
        like = node.value(0).element, node.sizes(0)
        return tuple(like if index in places else (None, None) for index in range(len(node.proto.output)))
    rule = _RULES.get(node.op_type)
    return () if rule is None else (rule(node),)


def _product(node: Node) -> OutputType:
    """Rows of the first input by columns of the second, each of which may be given transposed."""
    left, right = node.sizes(0), node.sizes(1)
    swapped = [bool(node.attribute(name, 0)) for name in ("transA", "transB")]
    vectors = [len(sizes) < 2 for sizes in (left, right)]
    if not left or not right or any(map(and_, swapped, vectors)) or any(node.attribute(name, 0) for name in _SWAPPED):
        return None, None
    *before, rows, inner = (1, *left) if vectors[0] else _transposed(left) if swapped[0] else left
    *others, second, columns = (*right, 1) if vectors[1] else _transposed(right) if swapped[1] else right
    batches = broadcast_sizes(before, others)
    if inner != second or batches is None:
        return None, None
    kept = [size for size, is_vector in zip((rows, columns), vectors, strict=True) if not is_vector]
    typed = 2 if node.op_type == "MatMulIntegerToFloat" else 0  # the scale has the result's type
    return node.value(typed).element, (*batches, *kept)


def _transposed(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (*sizes[:-2], sizes[-1], sizes[-2])


def _blocks(node: Node) -> OutputType:
    """The rows of the data by the columns that an attribute states."""
    sizes, inner = node.sizes(0), int(node.attribute("K", 0))
    return (node.value(0).element, (*sizes[:-1], int(node.attribute("N", 0)))) if sizes[-1:] == (inner,) else (None, None)


def _pair(node: Node) -> OutputType:
    """The sizes of both operands of a quantized operator, which broadcast; behind each come its scale and zero point."""
    return node.value(0).element, broadcast_sizes(node.sizes(0), node.sizes(3)) if are_known(node, 0, 3) else None


def _pooled(node: Node) -> OutputType:
    """One element along each dimension but the batch and the channels, which are the second or the last one."""
    sizes = node.sizes(0)
    if 0 in (sizes[1:-1] if node.attribute("channels_last", 0) else sizes[2:]) or len(sizes) < 3:
        return None, None
    ones = [1] * (len(sizes) - 2)
    kept = (sizes[0], *ones, sizes[-1]) if node.attribute("channels_last", 0) else (*sizes[:2], *ones)
    return node.value(0).element, kept


def _joined(node: Node) -> OutputType:
    """Operands, each of which has a scale and a zero point, behind those of the result, one after the other along an axis."""
    parts = [node.sizes(index) for index in range(2, len(node.inputs), 3)]
    axis = node.axis(int(node.attribute("axis", 0)), len(parts[0]))
    if len({(*sizes[:axis], *sizes[axis + 1 :]) for sizes in parts}) > 1:
        return None, None
    return node.value(2).element, (*parts[0][:axis], sum(sizes[axis] for sizes in parts), *parts[0][axis + 1 :])


def _dequantized(node: Node) -> OutputType:
    return node.value(1).element, node.sizes(0)


def _quantized(node: Node) -> OutputType:
    return node.value(2).element if node.has(2) else TensorProto.UINT8, node.sizes(0)


_RULES: dict[str, Callable[[Node], OutputType]] = {
    **dict.fromkeys(PRODUCTS, _product),
    **dict.fromkeys(("MatMulBnb4", "MatMulNBits"), _blocks),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _pair),
    "DequantizeLinear": _dequantized,
    "QLinearConcat": _joined,
    "QLinearGlobalAveragePool": _pooled,
    "QuantizeLinear": _quantized,
}
