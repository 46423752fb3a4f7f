"""Removes comments and trailing commas from JSON, which people write and Python's `json` refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Every pattern matches strings first, so that nothing inside one is taken for a comment, a comma or a bracket. An unclosed one
# extends to the end, so that a text with many openings is read once, not once for each.
STRING = r'"(?:[^"\\]++|\\.)*+"?'
"""A JSON string, as a regular expression."""
_COMMENT = re.compile(rf"{STRING}|//[^\n]*|/\*.*?(?P<end>\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{STRING}|,(?=[ \t\r\n]*+[\]}}])", re.DOTALL)


def without_comments(text: str) -> str:
    """Replaces comments and trailing commas with blanks, so that all positions stay the same."""
    if "//" in text or "/*" in text:
        # An unclosed comment is left in place, so that the parser reports it.
        text = _blank_out(text, (match for match in _COMMENT.finditer(text) if match[0][0] != '"' and match["end"] != ""))
    if re.search(r",[ \t\r\n]*+[\]}]", text):
        text = _blank_out(text, (match for match in _TRAILING_COMMA.finditer(text) if match[0][0] != '"'))
    return text


def _blank_out(text: str, matches: Iterable[re.Match[str]]) -> str:
    parts, end = [], 0
    for match in matches:
        found = match[0]
        parts += [text[end : match.start()], re.sub(r"[^\n]", " ", found) if "\n" in found else " " * len(found)]
        end = match.end()
    return "".join([*parts, text[end:]])
