"""Texts and regular expressions: Tokenizer (com.microsoft), and RegexFullMatch of ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.expressions import compile_expression
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.expressions import Expression
    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_START, _END = "\x02", "\x03"
"""The characters that `mark` puts around the tokens of a text."""
_PLACES = frozenset("^$\\")
"""The characters of expressions that match at some places of a text alone: a part of it has others."""


def _describe_outputs(node: Node) -> Sequence[OutputType]:
    sizes = node.value(0).sizes
    return [(TensorProto.STRING, None if sizes is None else (*sizes, None))]


def _expression(node: Node) -> Expression:
    """The expression that whole texts have to match."""
    return compile_expression(node, "pattern", str(node.required("pattern")), is_whole=True)


def _expressions(node: Node) -> list[Expression] | None:
    """The separators in order, or the expression of tokens; None where each character is a token."""
    given, tokens = node.attribute("separators"), node.attribute("tokenexp")
    if (given is None) == (tokens is None):
        expected = "one of both"
        raise node.refusal("onnx.attribute", "separators and tokenexp", "neither" if given is None else "both", expected)
    if tokens == "." or (given is not None and [*given] == [""]):
        return None
    if given is None:
        return [compile_expression(node, "tokenexp", str(tokens))]
    return [compile_expression(node, "separators", str(text)) for text in dict.fromkeys(given)]


@register_host_operator("RegexFullMatch", lambda node: [(TensorProto.BOOL, node.value(0).sizes)], domain="", checks=_expression)
def match_texts(node: Node) -> Sequence[Array]:
    """Whether each text as a whole matches an expression of RE2."""
    texts, expression = node.array(0), _expression(node)
    matches = [expression.fullmatch(str(text)) is not None for text in texts.ravel()]
    return [np.array(matches, np.bool_).reshape(texts.shape)]


@register_host_operator("Tokenizer", _describe_outputs, checks=_expressions)
def tokenize(node: Node) -> Sequence[Array]:
    """The tokens [*sizes, most tokens]; shorter rows are filled. Nothing where no text has a token.

    They are the parts between separators, those that match an expression, or characters.
    """
    texts, least = node.array(0), node.count("mincharnum", 1)
    if texts.dtype.kind not in "OU":
        raise node.refusal("onnx.type", node.input_label(0), texts.dtype.name, "texts")
    if texts.ndim not in (1, 2):
        raise node.refusal("onnx.sizes", node.input_label(0), listed(texts.shape), "one or two dimensions")
    separators = _expressions(node)
    if separators is None and least > 1:
        raise node.refusal("onnx.attribute", "mincharnum", str(least), "1 where tokens are characters")
    rows = [_tokens(node, str(text), separators, least) for text in texts.ravel()]
    if not any(rows):
        return [np.empty((*texts.shape, 0), object)]
    if node.attribute("mark", 0):
        rows = [[_START, *row, _END] for row in rows]
    tokens = np.full((len(rows), max(map(len, rows))), str(node.attribute("pad_value", "")), object)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = row
    return [tokens.reshape(*texts.shape, -1)]


def _tokens(node: Node, text: str, separators: Sequence[Expression] | None, least: int) -> list[str]:
    if separators is None:
        return [*text]
    parts = _split(node, text, separators) if node.attribute("tokenexp") is None else _found(text, separators[0])
    return [part for part in parts if len(part) >= least]


def _found(text: str, expression: Expression) -> list[str]:
    """The parts of a text that match an expression."""
    return [text[begin:end] for begin, end in (match.span() for match in expression.finditer(text))]


def _split(node: Node, text: str, separators: Sequence[Expression]) -> list[str]:
    """The parts of a text, split by one separator after the other."""
    parts = [text]
    for separator in separators:
        if _PLACES.isdisjoint(separator.pattern) and next(iter(separator.finditer(text)), None) is None:
            continue  # no part of it has one
        parts = [piece for part in parts for piece in _between(node, part, separator)]
    return parts


def _between(node: Node, text: str, separator: Expression) -> list[str]:
    """The parts of a text between the matches of a separator."""
    parts, last = [], 0
    for begin, end in (match.span() for match in separator.finditer(text)):
        if begin == end:
            expected = "one that matches a character or more: ONNX Runtime loses what is beside an empty separator"
            raise node.refusal("onnx.attribute", "separators", f"{separator.pattern!r}, which matches no characters", expected)
        parts.append(text[last:begin])
        last = end
    return [*parts, text[last:]]
