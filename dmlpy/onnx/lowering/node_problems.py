"""What the problems of a node that is not lowered say about it: that it is invalid, that it waits for its inputs, or that it stays so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.messages.problems import Problem

_INEXPRESSIBLE = frozenset(
    {
        "attribute.level",
        "dims.support",
        "flag.owned",
        "level.operator",
        "onnx.attribute",
        "onnx.empty",
        "onnx.input",
        "onnx.kernel",
        "onnx.limit",
        "onnx.output",
        "onnx.sizes",
        "onnx.type",
        "onnx.unforeseen",
        "type.support",
    }
)
"""The problems of nodes that are valid in ONNX, but have no DirectML equivalent. Any other problem means that a node is invalid."""
_WAITING = frozenset({"onnx.dynamic", "onnx.constant_input", "onnx.sequence", "onnx.unroll"})
"""The problems of a node that disappear when all its inputs are available."""
_LASTING = frozenset(
    {"attribute.level", "dims.support", "level.operator", "onnx.attribute", "onnx.kernel", "onnx.output", "onnx.type", "type.support"}
)
"""The problems of a node of known sizes that last when its inputs are available."""


def makes_invalid(problems: Iterable[Problem]) -> bool:
    """Whether these problems make a node invalid in ONNX."""
    return any(problem.code not in _WAITING | _INEXPRESSIBLE for problem in problems)


def disappear_once_known(problems: Iterable[Problem]) -> bool:
    """Whether the node can be compiled once all its inputs are available."""
    return all(problem.code in _WAITING for problem in problems)


def last_once_known(problems: Iterable[Problem]) -> bool:
    """Whether a node of known sizes cannot be compiled even when its inputs are available."""
    return all(problem.code in _LASTING for problem in problems)
