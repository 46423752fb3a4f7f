"""Tokenizer (com.microsoft): the parts of texts between separators, those that match an expression, or their characters."""

from __future__ import annotations

import re
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
"""The characters that `mark` puts around the tokens of a text."""
_ATOM = re.compile(r"(\[\^?\]?(?:\\[^A-Za-z0-9]|\\[wds]|(?!--)[^\\\[\]])*\]|\\[wdsWDS]|\\[^A-Za-z0-9]|[^*+?()\[\]{}|^$\\])(\{\d{1,2}\}|)")
"""A character or a class of characters, which occurs once or a number of times."""
_IN_CLASS = re.compile(r"\\.|[&|~]", re.DOTALL)
"""What is escaped in a class, and what Python would read as an operation on sets where it comes twice."""
_LAST = re.compile(r"([+*?]|\{\d{1,2},(?:\d{1,2})?\}|)\Z")
"""How often the last of them occurs."""
_MOST_CHARACTERS = 1000
"""The most characters that an expression counts: each place of a text is compared with as many."""
_SPACES = r"\t\n\f\r "
"""The characters that are spaces to RE2."""


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
    rows = [_tokens(str(text), separators, least) for text in texts.ravel()]
    if not any(rows):
        return [np.empty((*texts.shape, 0), object)]
    if node.attribute("mark", 0):
        rows = [[_START, *row, _END] for row in rows]
    found = np.full((len(rows), max(map(len, rows))), str(node.attribute("pad_value", "")), object)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return [found.reshape(*texts.shape, -1)]


def _tokens(text: str, separators: Sequence[re.Pattern[str]] | re.Pattern[str] | None, least: int) -> list[str]:
    if separators is None:
        return [*text]
    if isinstance(separators, re.Pattern):
        return [token for token in separators.findall(text) if len(token) >= least]
    return _split(text, separators, least)


def _separators(node: Node) -> list[re.Pattern[str]] | re.Pattern[str] | None:
    """The separators in order, or the expression of tokens; None where each character is a token."""
    given, tokens = node.attribute("separators"), node.attribute("tokenexp")
    if (given is None) == (tokens is None):
        expected = "one of both"
        raise node.refusal("onnx.attribute", "separators and tokenexp", "neither" if given is None else "both", expected)
    if tokens == "." or (given is not None and [*given] == [""]):
        return None
    return _expression(node, "tokenexp", str(tokens)) if given is None else [_expression(node, "separators", str(text)) for text in given]


def _expression(node: Node, name: str, given: str) -> re.Pattern[str]:
    """A regular expression that Python matches as RE2 does, in a time that grows with the text alone.

    Raises:
        NotLowered: it has groups, alternatives, places such as a word's end, or a varying number of anything but the last character.
    """
    parts, place, count = [], 0, 0
    while (found := _ATOM.match(given, place)) is not None:
        parts.append(_spelled(found[1]) + found[2])
        place = found.end()
        count += int(found[2][1:-1] or 1)
        if count > _MOST_CHARACTERS:
            raise node.refusal("onnx.limit", name, f"one of more than {_MOST_CHARACTERS} characters", f"at most {_MOST_CHARACTERS}")
    last = _LAST.match(given, place)
    may_lack_last = last is not None and (last[1] in ("*", "?") or last[1].startswith("{0"))
    may_be_empty = all(part.endswith(("{0}", "{00}")) for part in parts[: -1 if may_lack_last else None])
    if parts and last is not None and not may_be_empty and not (last[1] and parts[-1].endswith("}")):
        try:
            return re.compile("".join(parts) + last[1], re.ASCII)
        except re.error:
            pass
    expected = "characters and classes such as [a-z] one after the other, of which the last may occur any number of times from 1 on"
    raise node.refusal("onnx.attribute", name, repr(given), expected, "other regular expressions of RE2 are not supported")


def _spelled(atom: str) -> str:
    """A character or a class as Python spells it."""
    found = {r"\s": f"[{_SPACES}]", r"\S": f"[^{_SPACES}]"}.get(atom) or atom.replace(r"\s", _SPACES)
    return _IN_CLASS.sub(lambda part: part[0] if len(part[0]) > 1 else f"\\{part[0]}", found) if found.startswith("[") else found


def _split(text: str, separators: Sequence[re.Pattern[str]], least: int) -> list[str]:
    """The parts of a text, split by one separator after the other."""
    parts = [text]
    for separator in dict.fromkeys(separators):
        if separator.search(text) is not None:  # else no part of it has one
            parts = [own for part in parts for own in separator.split(part)]
    return [part for part in parts if len(part) >= least]
