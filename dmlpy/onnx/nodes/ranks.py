"""How many dimensions inputs have: what ONNX's inference asks for, and what its text means where ONNX Runtime asks for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.nodes.node import Node

_EXACT = {"Gemm": ((0, 2), (1, 2)), "EyeLike": ((0, 2),)}
"""Inputs of operators that have so many dimensions, by index."""
_LEAST = {
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "InstanceNormalization"), 3),
    **dict.fromkeys(("GroupNormalization", "Trilu"), 2),
    **dict.fromkeys(("BatchNormalization", "Compress", "OneHot"), 1),
}
"""The fewest dimensions of the first input."""


def rank_problems(node: Node) -> Iterator[Problem]:
    """Inputs of another number of dimensions."""
    for index, rank in _EXACT.get(node.op_type, ()):
        yield from _problems(node, index, rank, rank)
    if (least := _LEAST.get(node.op_type)) is not None:
        yield from _problems(node, 0, least, None)


def _problems(node: Node, index: int, least: int, most: int | None) -> Iterator[Problem]:
    if not node.has(index) or (sizes := node.value(index).sizes) is None:
        return
    if len(sizes) < least or (most is not None and len(sizes) > most):
        expected = plural(least, "dimension") if most == least else f"at least {plural(least, 'dimension')}"
        yield Problem("onnx.invalid", node.input_label(index), listed(["?" if size is None else size for size in sizes]), expected)
