"""The text of a model file: JSON with comments and trailing commas, followed by anything at all."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dmlpy.dxdispatch.report import Finding, ModelError
from dmlpy.problems import Problem

MAX_BYTES = 256 * 2**20

# Strings come first in both, so that nothing inside one is taken for a comment or a comma. What is never closed runs to the end: a text
# of many openings is read once, not once for each.
_STRING = r'"(?:[^"\\]++|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?P<end>\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*+[\]}}])", re.DOTALL)
_NAMES = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def read(path: Path) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """The object in a file, and the keys that are given twice in one of its objects (the last one counts).

    Raises:
        ModelError: the file cannot be read or is no JSON object; a syntax error is told with its place and the text around it.
    """
    try:
        if not path.is_file():
            found = "a directory" if path.is_dir() else "no regular file" if path.exists() else "missing"
            raise _refused(path, "json.file", found, "a JSON file")
        if (size := path.stat().st_size) > MAX_BYTES:
            raise _refused(path, "json.size", f"{size} bytes", f"at most {MAX_BYTES}; large data belong in files of their own (sourcePath)")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _refused(path, "json.file", f"unreadable: {error.strerror or error}", "a JSON file") from None
    except UnicodeDecodeError as error:
        why = ("it begins like UTF-16, which some Windows programs write",) if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else ()
        raise _refused(path, "json.encoding", f"not UTF-8 at byte {error.start}", "UTF-8 text", *why) from None
    return parse(text, path)


def parse(text: str, path: Path | str = "text") -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """As `read`, of the text itself; `path` is for messages."""
    twice: list[Problem] = []

    def members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                twice.append(Problem("json.duplicate", repr(key), "given twice in one object", "each key once"))
            found[key] = value
        return found

    def decoded(text: str) -> Any:
        start = len(text) - len(text.lstrip(" \t\r\n"))
        return json.JSONDecoder(object_pairs_hook=members).raw_decode(text, start)[0]

    try:
        try:
            data = decoded(text)
        except json.JSONDecodeError:
            twice.clear()
            data = decoded(without_comments(text))
    except RecursionError:
        raise _refused(path, "json.depth", "nested too deeply", "a model") from None
    except MemoryError:
        raise _refused(path, "json.size", "too large for the memory that is left", "a smaller file") from None
    except json.JSONDecodeError as error:
        raise _syntax_error(text, path, error) from None
    except ValueError:
        # All that is left: Python converts no integer of so many digits.
        number = max(re.finditer(r"\d+", text), key=lambda match: len(match[0]))
        found, most = f"a number of {len(number[0])} digits", f"at most {sys.get_int_max_str_digits()}"
        raise _refused(path, "json.number", found, most, place=_place(text, number.start())) from None
    if not isinstance(data, dict):
        raise _refused(path, "json.root", f"a JSON {_NAMES[type(data)]}", "an object: { ... }")
    return data, tuple(twice)


def without_comments(text: str) -> str:
    """The text with blanks in place of comments and trailing commas, so that all else stays where it is."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] == '"' or match["end"] == "" else re.sub(r"[^\n]", " ", found)

    return _TRAILING_COMMA.sub(lambda match: match[0] if match[0][0] == '"' else " ", _COMMENT.sub(blank, text))


def _syntax_error(text: str, path: Path | str, error: json.JSONDecodeError) -> ModelError:
    if not text.strip():
        return _refused(path, "json.syntax", "empty", "a JSON object")
    reason = error.msg[:1].lower() + error.msg[1:].removesuffix(" at").removesuffix(" starting")
    if not text[error.pos :].strip():
        reason = f"the text ends, {reason}"
    where = f"character {error.pos}, in {text[max(0, error.pos - 20) : error.pos + 20]!r}"
    expected = "JSON, with comments and trailing commas if need be"
    return _refused(path, "json.syntax", f"not JSON ({reason})", expected, where, place=_place(text, error.pos))


def _place(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}, column {position - text.rfind(chr(10), 0, position)}"


def _refused(path: Path | str, code: str, found: str, expected: str, *why: str, place: str = "file") -> ModelError:
    return ModelError(path, [Finding("", (Problem(code, place, found, expected, why),))])
