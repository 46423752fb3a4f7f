"""The layout of the relations: each wrong desc is a row of its operator's `wrong`, and comments stand between the rows."""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from collections.abc import Iterator
from typing import Any

from dmlpy.messages.json_text import WIDTH

_INDENT = "    "
_WRONG = re.compile(r"^wrong = \[\n(.*?)^\]\n", re.MULTILINE | re.DOTALL)
_COMMENTS = re.compile(r"((?:^ *#.*\n)+)", re.MULTILINE)


def lay_out(text: str) -> str:
    """Lays out the wrong descs of a file of relations anew; the rest stays as it is.

    Raises:
        tomllib.TOMLDecodeError: the wrong descs cannot be read, or a comment stands inside one.
    """
    return _WRONG.sub(lambda match: f"wrong = [\n{''.join(_rows(match[1]))}]\n", text)


def row(wrong: dict[str, Any]) -> str:
    """A wrong desc on a line, or on a few if it is long: TOML lets a table continue on the next line only within an array."""
    line = f"{_INDENT}{_written(wrong)},\n"
    if len(line) - 1 <= WIDTH or "at" not in wrong:
        return line
    before = _written({key: value for key, value in wrong.items() if key != "at"}).removesuffix(" }")
    inner, end = 2 * _INDENT, "] },"
    places = textwrap.fill(", ".join(map(_written, wrong["at"])), WIDTH - len(end), initial_indent=inner, subsequent_indent=inner)
    return f"{_INDENT}{before}, at = [\n{places}{end}\n"


def _rows(text: str) -> Iterator[str]:
    for part in _COMMENTS.split(text):
        if part.lstrip().startswith("#"):
            yield from (f"{_INDENT}{line.strip()}\n" for line in part.splitlines())
        else:
            yield from map(row, tomllib.loads(f"wrong = [\n{part}]")["wrong"])


def _written(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_written(item)}' for key, item in value.items())} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
