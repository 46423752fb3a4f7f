"""The operators that ONNX Runtime's DirectML provider creates for some nodes, which may be invalid although dmlpy's lowering is valid.

What dmlpy's checks reject, DirectML rejects with 80070057 when the session is created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.tensors import TensorDesc
from dmlpy.onnx.loading.elements import data_type_of
from dmlpy.operators.matrix import GEMMDesc
from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalization1Desc, MeanVarianceNormalizationDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.onnx.nodes.node import Node


def desc_of(node: Node) -> OperatorDesc | None:
    """The operator that the provider creates for a node; None if dmlpy's lowering is equivalent.

    Args:
        node: a node whose inputs are tensors of known sizes.
    """
    maker = _MAKERS.get((node.domain, node.op_type))
    return maker(node) if maker is not None and _is_expressible(node) else None


def older_desc_of(node: Node) -> tuple[str, OperatorDesc] | None:
    """The operator that ONNX Runtime created before a given release, with that release; None if it was the same."""
    older = _OLDER.get((node.domain, node.op_type))
    if older is None or not _is_expressible(node):
        return None
    desc = older[1](node)
    return None if desc is None else (older[0], desc)


def _is_expressible(node: Node) -> bool:
    return all(value.is_expressible for value in node.inputs if value is not None)


def _tensor(node: Node, sizes: Sequence[int], strides: Sequence[int] | None = None) -> TensorDesc:
    data_type = data_type_of(node.value(0).element or 0)
    assert data_type is not None
    return TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def _repeat(node: Node, given: Sequence[int], sizes: Sequence[int]) -> TensorDesc:
    """A tensor repeated by strides of 0 to other sizes; its dimensions are the last ones."""
    aligned = (*[1] * (len(sizes) - len(given)), *given)
    packed = [int(np.prod(aligned[axis + 1 :], initial=1)) for axis in range(len(aligned))]
    return _tensor(node, sizes, [0 if size == 1 else stride for size, stride in zip(aligned, packed, strict=True)])


def _matmul(node: Node) -> OperatorDesc | None:
    """GEMM with C absent: the sizes before the last two are broadcast by strides, and all of them stay."""
    a, b = node.sizes(0), node.sizes(1)
    if len(a) < 2 or len(b) < 2:
        return None
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        return None
    batch = (*[1] * (2 - len(batch)), *batch)
    first, second = (_repeat(node, given, (*batch, *given[-2:])) for given in (a, b))
    return GEMMDesc(a_tensor=first, b_tensor=second, output_tensor=_tensor(node, (*batch, a[-2], b[-1])))


def _layer_normalization(node: Node) -> OperatorDesc:
    """MEAN_VARIANCE_NORMALIZATION1 over the last axes, with scale and bias repeated to the input's sizes."""
    sizes = node.sizes(0)
    axis = node.axis(node.attribute("axis", -1), len(sizes))
    return MeanVarianceNormalization1Desc(
        input_tensor=_tensor(node, sizes),
        scale_tensor=_repeat(node, node.sizes(1), sizes),
        bias_tensor=_repeat(node, node.sizes(2), sizes) if node.has(2) else None,
        output_tensor=_tensor(node, sizes),
        axes=list(range(axis, len(sizes))),
        normalize_variance=True,
        epsilon=node.attribute("epsilon", 1e-5),
    )


def _older_instance_normalization(node: Node) -> OperatorDesc | None:
    """The scales lay where four dimensions have their channels, also for inputs of three, whose channels lie further back."""
    sizes = node.sizes(0)
    if len(sizes) != 3:
        return None
    input_sizes = (1, *sizes)
    channels = (1, node.sizes(1)[0], 1, 1)
    return MeanVarianceNormalizationDesc(
        input_tensor=_tensor(node, input_sizes),
        scale_tensor=_tensor(node, channels),
        bias_tensor=_tensor(node, channels),
        output_tensor=_tensor(node, input_sizes),
        cross_channel=False,
        normalize_variance=True,
        epsilon=node.attribute("epsilon", 1e-5),
    )


_MAKERS: dict[tuple[str, str], Callable[[Node], OperatorDesc | None]] = {
    ("", "LayerNormalization"): _layer_normalization,
    ("", "MatMul"): _matmul,
}
_OLDER: dict[tuple[str, str], tuple[str, Callable[[Node], OperatorDesc | None]]] = {
    ("", "InstanceNormalization"): ("1.13", _older_instance_normalization),
}
