"""The text of a model file: JSON with comments and trailing commas, followed by anything at all."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dmlpy.dxdispatch.report import Finding, ModelError
from dmlpy.problems import Problem

MAX_BYTES = 256 * 2**20
MAX_COMMENTED_BYTES = 4 * 2**20
"""Files with comments go through a parser that reads some 100 kB a second."""


def read(path: Path) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """The object in a file, and the keys that are given twice in one of its objects (the last one counts).

    Raises:
        ModelError: the file cannot be read or is no JSON object; a syntax error is told with its place and the text around it.
    """
    try:
        if not path.is_file():
            raise _refused(path, "json.file", "no file", "a file to read")
        if (size := path.stat().st_size) > MAX_BYTES:
            raise _refused(path, "json.size", f"{size} bytes", f"at most {MAX_BYTES}; large data belong in files of their own (sourcePath)")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _refused(path, "json.file", f"unreadable: {error.strerror or error}", "a file to read") from None
    except UnicodeDecodeError as error:
        raise _refused(path, "json.encoding", f"not UTF-8 at byte {error.start}", "UTF-8 text") from None
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

    try:
        data = _plain(text, members)
    except RecursionError:
        raise _refused(path, "json.depth", "nested too deeply", "a model") from None
    except ValueError as error:
        # Plain JSON takes the short way; what it refuses may be right with comments and trailing commas.
        twice.clear()
        data = _commented(text, members, path, error)
    if not isinstance(data, dict):
        raise _refused(path, "json.root", f"a JSON {type(data).__name__}", "an object: { ... }")
    return data, tuple(twice)


def _plain(text: str, members: Any) -> Any:
    start = len(text) - len(text.lstrip(" \t\r\n"))
    data, _ = json.JSONDecoder(object_pairs_hook=members).raw_decode(text, start)
    return data


def _commented(text: str, members: Any, path: Path | str, plain_error: ValueError) -> Any:
    if not text.strip():
        raise _refused(path, "json.syntax", "empty", "a JSON object")
    if len(text) > MAX_COMMENTED_BYTES:
        why = f"as plain JSON it fails: {plain_error}"
        expected = f"plain JSON, or at most {MAX_COMMENTED_BYTES} characters with comments and trailing commas"
        raise _refused(path, "json.size", f"{len(text)} characters that are no plain JSON", expected, why)
    import json5

    try:
        data, reason, position = json5.parse(text, object_pairs_hook=members, consume_trailing=False)
    except RecursionError:
        raise _refused(path, "json.depth", "nested too deeply", "a model") from None
    if reason is not None:
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        reason = re.sub(r"^<string>:\d+ | at column \d+$", "", reason)
        around = text[max(0, position - 20) : position + 20]
        found = f"not JSON ({reason[:1].lower()}{reason[1:]})"
        expected = "JSON, with comments and trailing commas if need be"
        where = f"character {position}, in {around!r}"
        problem = Problem("json.syntax", f"line {line}, column {column}", found, expected, (where,))
        raise ModelError(path, [Finding("", (problem,))])
    return data


def _refused(path: Path | str, code: str, found: str, expected: str, *why: str) -> ModelError:
    return ModelError(path, [Finding("", (Problem(code, "file", found, expected, why),))])
