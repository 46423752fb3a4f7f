"""JSON text as people write and read it: with comments and trailing commas, and laid out to be reviewed line by line."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WIDTH = 140
"""The most characters of a line of `lay_out`, except rows of tables and what cannot be broken."""
_INDENT = "  "

# Every pattern matches strings first, so that nothing inside one is taken for a comment, a comma or a bracket. An unclosed one
# extends to the end, so that a text with many openings is read once, not once for each.
STRING = r'"(?:[^"\\]++|\\.)*+"?'
"""A JSON string, as a regular expression."""
_COMMENT = re.compile(rf"{STRING}|//[^\n]*|/\*.*?(?P<end>\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{STRING}|,(?=[ \t\r\n]*+[\]}}])", re.DOTALL)


def without_comments(text: str) -> str:
    """Replaces comments and trailing commas with blanks, so that all positions stay the same: Python's `json` refuses them."""
    if "//" in text or "/*" in text:
        # An unclosed comment is left in place, so that the parser reports it.
        text = _blank_out(text, (match for match in _COMMENT.finditer(text) if match[0][0] != '"' and match["end"] != ""))
    if re.search(r",[ \t\r\n]*+[\]}]", text):
        text = _blank_out(text, (match for match in _TRAILING_COMMA.finditer(text) if match[0][0] != '"'))
    return text


def _blank_out(text: str, matches: Iterable[re.Match[str]]) -> str:
    parts, end = [], 0
    for match in matches:
        comment = match[0]
        parts += [text[end : match.start()], re.sub(r"[^\n]", " ", comment) if "\n" in comment else " " * len(comment)]
        end = match.end()
    return "".join([*parts, text[end:]])


def lay_out(value: Any, *, row_depth: int | None = None) -> str:
    """Formats a file of JSON: what fits on a line is on one, so that a change is a line in a diff.

    Of what does not fit, each member or item begins a line, and numbers fill their lines. An array, an object with `sizes` and flat
    `values`, has a line for each row of its last dimension.

    Args:
        value: what `json.dumps` takes. Infinities and NaN are written as Python reads them, which JSON does not have.
        row_depth: how deep a table's rows lie, 2 for the items of `{"cases": [...]}`. A row is one line, however long.
    """
    return _laid_out(value, 0, 0, row_depth) + "\n"


def _laid_out(value: Any, depth: int, column: int, row_depth: int | None) -> str:
    text = _dumped(value)
    # A comma may follow.
    if not isinstance(value, dict | list) or not value or column + len(text) < WIDTH or depth == row_depth:
        return text
    start = len(_INDENT) * (depth + 1)
    if isinstance(value, dict):
        lines = []
        for key, item in value.items():
            name = f"{_dumped(key)}: "
            in_rows = key == "values" and _has_rows(value)
            text = _rows(item, depth + 1, value["sizes"][-1]) if in_rows else _laid_out(item, depth + 1, start + len(name), row_depth)
            lines.append(name + text)
        return _enclosed("{}", lines, depth)
    if all(isinstance(item, int | float) for item in value):
        return _enclosed("[]", _filled(value, start), depth)
    return _enclosed("[]", (_laid_out(item, depth + 1, start, row_depth) for item in value), depth)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _enclosed(brackets: str, lines: Iterable[str], depth: int) -> str:
    inner = "\n" + _INDENT * (depth + 1)
    return brackets[0] + inner + f",{inner}".join(lines) + "\n" + _INDENT * depth + brackets[1]


def _has_rows(array: dict[str, Any]) -> bool:
    sizes, values = array.get("sizes"), array.get("values")
    return isinstance(sizes, list) and isinstance(values, list) and bool(sizes) and math.prod(sizes) == len(values) > sizes[-1]


def _rows(values: list[Any], depth: int, length: int) -> str:
    """The numbers of an array, a line for each row of so many; longer rows continue on further lines."""
    rows = [values[start : start + length] for start in range(0, len(values), length)]
    return _enclosed("[]", (line for row in rows for line in _filled(row, len(_INDENT) * (depth + 1))), depth)


def _filled(values: list[Any], column: int) -> Iterator[str]:
    """Lines of as many numbers as fit."""
    line = ""
    for item in map(_dumped, values):
        longer = f"{line}, {item}" if line else item
        if line and column + len(longer) >= WIDTH:
            yield line
            longer = item
        line = longer
    yield line
