"""Tokenizer (com.microsoft): the parts of texts between separators, or their characters."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_START, _END = "\x02", "\x03"
"""What `mark` puts around the tokens of a text."""
_SPECIAL = re.compile(r"[.*+?()\[\]{}|^$\\]")
_ESCAPED = re.compile(r"\\([^A-Za-z0-9])")


def _describe_outputs(node: Node) -> Sequence[OutputType]:
    sizes = node.value(0).sizes
    return [(TensorProto.STRING, None if sizes is None else (*sizes, None))]


@register_host_operator("Tokenizer", _describe_outputs)
def tokenize(node: Node) -> Sequence[Array]:
    """The tokens [*sizes, most tokens]; shorter rows are filled. Nothing where no text has a token."""
    texts, least = node.array(0), node.count("mincharnum", 1)
    if texts.dtype.kind not in "OU":
        raise node.refusal("onnx.type", node.input_label(0), texts.dtype.name, "texts")
    if texts.ndim not in (1, 2):
        raise node.refusal("onnx.sizes", node.input_label(0), listed(texts.shape), "one or two dimensions")
    separators = _separators(node)
    if separators is None and least > 1:
        raise node.refusal("onnx.attribute", "mincharnum", str(least), "1 where tokens are characters")
    rows = [[*str(text)] if separators is None else _split(str(text), separators, least) for text in texts.ravel()]
    if not any(rows):
        return [np.empty((*texts.shape, 0), object)]
    if node.attribute("mark", 0):
        rows = [[_START, *row, _END] for row in rows]
    found = np.full((len(rows), max(map(len, rows))), str(node.attribute("pad_value", "")), object)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return [found.reshape(*texts.shape, -1)]


def _separators(node: Node) -> list[str] | None:
    """The separators in order; None where each character is a token.

    Raises:
        NotLowered: regular expressions, which Python matches otherwise than RE2, and in unpredictable time.
    """
    given, tokens = node.attribute("separators"), node.attribute("tokenexp")
    if (given is None) == (tokens is None):
        expected = "one of both"
        raise node.refusal("onnx.attribute", "separators and tokenexp", "neither" if given is None else "both", expected)
    if tokens is not None and tokens != ".":
        raise _refuse_expression(node, "tokenexp", str(tokens), "'.', which makes each character a token")
    if tokens is not None or [*given] == [""]:
        return None
    found = []
    for separator in given:
        literal = _ESCAPED.sub("", separator)
        if not separator or _SPECIAL.search(literal):
            raise _refuse_expression(
                node, "separators", str(separator), "texts without special characters, or with a backslash before them"
            )
        found.append(_ESCAPED.sub(r"\1", separator))
    return found


def _refuse_expression(node: Node, name: str, given: str, expected: str) -> Exception:
    return node.refusal("onnx.attribute", name, repr(given), expected, "regular expressions of RE2 are not supported")


def _split(text: str, separators: Sequence[str], least: int) -> list[str]:
    """The parts of a text, split by one separator after the other: each becomes a character that none of them has."""
    used = {*text}.union(*separators)
    cut = next(character for character in map(chr, range(sys.maxunicode + 1)) if character not in used)
    for separator in separators:
        text = text.replace(separator, cut)
    return [part for part in text.split(cut) if len(part) >= least]
