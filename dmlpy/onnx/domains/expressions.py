"""Regular expressions of RE2: Python's `re` runs those that it matches alike and in linear time, google-re2 runs all others."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.onnx.nodes.node import Node

_COUNT = r"(?:0|[1-9]\d?)"
"""A repetition count: RE2 takes braces around anything else, such as {01}, literally."""
_OPENING = r"\[\^?+\]?+(?:-(?!-)|)"
"""The opening of a class: a ] or - directly after it is one of its characters."""
_ESCAPED = r"\\[^A-Za-z0-9\x80-\U0010ffff]"
_OF_CLASS = rf"{_ESCAPED}|\\[wds](?!-[^\]])|(?!--|-\\[wds])[^\\\[\]]"
"""A member of a class. A - beside an escape such as \\w is rejected: Python could take it for the - of a range."""
_ATOM = re.compile(rf"({_OPENING}(?:{_OF_CLASS})*\]|\\[wdsWDS]|{_ESCAPED}|[^*+?()\[\]{{}}|^$\\])(\{{{_COUNT}\}}|)")
"""A character or a class, once or with a fixed repetition count."""
_IN_CLASS = re.compile(r"\\.|[&|~]", re.DOTALL)
"""Escapes in a class, and characters that Python reserves for set operations where they are doubled."""
_LAST = re.compile(rf"([+*?]|\{{{_COUNT},(?:{_COUNT})?\}}|)\Z")
"""The quantifier of the last character or class."""
_MOST_CHARACTERS = 1000
"""The most characters of an expression with its counts: that many are compared at each place of a text. RE2 has the same limit."""
_SPACES = r"\t\n\f\r "
"""RE2's white space."""


class Match(Protocol):
    """A part of a text."""

    def span(self) -> tuple[int, int]:
        """The places of its begin and its end."""


class Expression(Protocol):
    """A compiled expression, of Python's `re` or of google-re2."""

    @property
    def pattern(self) -> str:
        """The expression as it was given to the compiler."""

    def fullmatch(self, text: str) -> Match | None:
        """The whole text, if it matches."""

    def finditer(self, text: str) -> Iterable[Match]:
        """The parts that match, from left to right."""


def compile_expression(node: Node, name: str, given: str, *, is_whole: bool = False) -> Expression:
    """Compiles a regular expression that matches in time linear in the length of a text.

    Args:
        node: the node that has it.
        name: its attribute.
        given: the expression, in RE2's syntax.
        is_whole: whether it matches whole texts, which may be empty; else it matches the leftmost-longest parts, which may not.

    Raises:
        NotLowered: RE2 rejects it, or google-re2 is not installed and it has more than characters and classes in sequence.
    """
    if not given and not is_whole:
        raise node.refusal("onnx.invalid", name, "''", "an expression that matches a character or more")
    expression = _sequence(node, name, given)
    if expression is not None and (is_whole or expression.fullmatch("") is None):
        return expression
    if (re2 := _module()) is not None:
        return _compile_re2(re2, node, name, given, is_whole=is_whole)
    expected = "characters and classes such as [a-z] one after the other, of which the last may occur any number of times"
    expected += "" if is_whole else " from 1 on"
    remedy = "install google-re2, which runs all regular expressions of RE2"
    raise node.refusal("onnx.attribute", name, repr(given), expected, remedy=remedy)


def _compile_re2(re2: Any, node: Node, name: str, given: str, *, is_whole: bool) -> Expression:
    options = re2.Options()
    options.log_errors = False
    options.longest_match = not is_whole
    try:
        compiled: Expression = re2.compile(given, options)
    except (re2.error, UnicodeEncodeError) as error:
        text = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise node.refusal("onnx.invalid", name, repr(given), "a regular expression of RE2", text) from None
    return compiled


@cache
def _module() -> Any:
    """google-re2; None if it is not installed. Other packages of a module `re2` fall back to Python's `re`, whose time has no bound."""
    try:
        import re2
    except ImportError:
        return None
    return re2 if hasattr(getattr(re2, "Options", None), "max_mem") else None


def _sequence(node: Node, name: str, given: str) -> re.Pattern[str] | None:
    """An expression that Python matches as RE2 does, in linear time.

    None if it has groups, alternatives, anchors such as a word's end, or a varying count of anything but the last character.

    Raises:
        NotLowered: it has too many characters.
    """
    parts, place, count = [], 0, 0
    while (match := _ATOM.match(given, place)) is not None:
        parts.append(_spelled(match[1]) + match[2])
        place = match.end()
        count += int(match[2][1:-1] or 1)
        if count > _MOST_CHARACTERS:
            raise node.refusal("onnx.limit", name, f"one of more than {_MOST_CHARACTERS} characters", f"at most {_MOST_CHARACTERS}")
    last = _LAST.match(given, place)
    if last is None or (last[1] and (not parts or parts[-1].endswith("}"))):
        return None
    try:
        return re.compile("".join(parts) + last[1], re.ASCII)
    except re.error:
        return None


def _spelled(atom: str) -> str:
    """A character or a class as Python spells it."""
    spelled = {r"\s": f"[{_SPACES}]", r"\S": f"[^{_SPACES}]"}.get(atom) or atom.replace(r"\s", _SPACES)
    return _IN_CLASS.sub(lambda part: part[0] if len(part[0]) > 1 else f"\\{part[0]}", spelled) if spelled.startswith("[") else spelled
