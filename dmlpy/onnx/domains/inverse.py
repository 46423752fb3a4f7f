"""Inverse (com.microsoft)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node


def _like_input(node: Node) -> Sequence[OutputType]:
    return [(node.value(0).element, node.value(0).sizes)]


@register_host_operator("Inverse", _like_input)
def inverse(node: Node) -> Sequence[Array]:
    """The inverse of each matrix `[*batch, n, n]`; FLOAT16 is computed in FLOAT32."""
    data, sizes = node.array(0), node.sizes(0)
    if len(sizes) < 2 or sizes[-1] != sizes[-2]:
        raise node.refusal("onnx.invalid", "input 0 'X'", listed(sizes), "square matrices: the last two sizes alike")
    wide = data.astype(np.float32) if data.dtype == np.float16 else data
    try:
        return [np.linalg.inv(wide).astype(data.dtype)]
    except np.linalg.LinAlgError:
        return [_one_by_one(wide).astype(data.dtype)]


def _one_by_one(matrices: Array) -> Array:
    """The inverses if some matrices are singular: theirs are NaN."""
    inverses = np.full_like(matrices, np.nan)
    for place in np.ndindex(*matrices.shape[:-2]):
        try:
            inverses[place] = np.linalg.inv(matrices[place])
        except np.linalg.LinAlgError:
            continue
    return inverses
