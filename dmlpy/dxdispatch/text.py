"""The text of a model file: JSON with comments and trailing commas, followed by anything at all."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dmlpy.dxdispatch.report import Finding, ModelError
from dmlpy.positions import Position, Positions, nesting
from dmlpy.problems import Problem

MAX_BYTES = 256 * 2**20
MAX_NESTING = 64
"""Objects and arrays within one another: no model, desc or graph comes near."""

# Strings come first in both, so that nothing inside one is taken for a comment or a comma. What is never closed runs to the end: a text
# of many openings is read once, not once for each.
_STRING = r'"(?:[^"\\]++|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?P<end>\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*+[\]}}])", re.DOTALL)
_NAMES = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


@dataclass(frozen=True)
class Document:
    """A file's object.

    Attributes:
        path: the file, for messages.
        text: its text.
        data: the object; of a key that is given twice the last one counts.
        repeated: the keys that are given twice in one of its objects.
    """

    path: Path
    text: str
    data: dict[str, Any]
    repeated: tuple[Problem, ...] = ()

    @cached_property
    def positions(self) -> Positions:
        """Where the values stand in the text."""
        return Positions(without_comments(self.text))

    def findings(self) -> list[Finding]:
        """What is wrong with the text itself."""
        if not self.repeated:
            return []
        return [Finding("", self.repeated, positions=tuple(self.positions.repeated()))]


def read_bytes(path: Path) -> bytes:
    """A file's bytes.

    Raises:
        ModelError: it cannot be read.
    """
    try:
        if not path.is_file():
            found = "a directory" if path.is_dir() else "no regular file" if path.exists() else "missing"
            raise _refused(path, "file.unreadable", found, "a file")
        if (size := path.stat().st_size) > MAX_BYTES:
            remedy = "large data belong in files of their own (sourcePath)"
            raise _refused(path, "file.size", f"{size} bytes", f"at most {MAX_BYTES}", remedy=remedy)
        return path.read_bytes()
    except OSError as error:
        raise _refused(path, "file.unreadable", f"unreadable: {error.strerror or error}", "a file") from None


def read(path: Path) -> Document:
    """The object in a file.

    Raises:
        ModelError: the file cannot be read or is no JSON object; a syntax error is told with its place and the text around it.
    """
    return decode(read_bytes(path), path)


def decode(data: bytes, path: Path) -> Document:
    """As `read`, of the file's bytes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = ("it begins like UTF-16, which some Windows programs write",) if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ()
        raise _refused(path, "json.encoding", f"not UTF-8 at byte {error.start}", "UTF-8 text", *why) from None
    return parse(text, path)


def parse(text: str, path: Path | str = "text") -> Document:
    """As `read`, of the text itself; `path` is for messages."""
    repeated: list[Problem] = []

    def members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                repeated.append(Problem("json.duplicate", repr(key), "given twice in one object", "each key once"))
            found[key] = value
        return found

    def decoded(text: str) -> Any:
        start = len(text) - len(text.lstrip(" \t\r\n"))
        return json.JSONDecoder(object_pairs_hook=members).raw_decode(text, start)[0]

    try:
        try:
            data = decoded(text)
        except json.JSONDecodeError:
            repeated.clear()
            data = decoded(without_comments(text))
    except RecursionError:
        raise _too_deep(path) from None
    except MemoryError:
        raise _refused(path, "file.size", "too large for the memory that is left", "a smaller file") from None
    except json.JSONDecodeError as error:
        raise _syntax_error(text, path, error) from None
    except ValueError:
        # All that is left: Python converts no integer of so many digits.
        number = max(re.finditer(r"\d+", text), key=lambda match: len(match[0]))
        found, most = f"a number of {len(number[0])} digits", f"at most {sys.get_int_max_str_digits()}"
        raise _refused(path, "json.number", found, most, position=Positions(text).at(number.start())) from None
    if not isinstance(data, dict):
        raise _refused(path, "json.root", f"a JSON {_NAMES[type(data)]}", "an object: { ... }", position=Position(1, 1))
    if nesting(data, MAX_NESTING) > MAX_NESTING:
        raise _too_deep(path)
    return Document(Path(path), text, data, tuple(repeated))


def without_comments(text: str) -> str:
    """The text with blanks in place of comments and trailing commas, so that all else stays where it is."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] == '"' or match["end"] == "" else re.sub(r"[^\n]", " ", found)

    return _TRAILING_COMMA.sub(lambda match: match[0] if match[0][0] == '"' else " ", _COMMENT.sub(blank, text))


def _syntax_error(text: str, path: Path | str, error: json.JSONDecodeError) -> ModelError:
    position = Positions(text).at(error.pos)
    if not text.strip():
        return _refused(path, "json.syntax", "empty", "a JSON object", position=position)
    reason = error.msg[:1].lower() + error.msg[1:].removesuffix(" at").removesuffix(" starting")
    if not text[error.pos :].strip():
        reason = f"the text ends, {reason}"
    where = f"character {error.pos}, in {text[max(0, error.pos - 20) : error.pos + 20]!r}"
    expected = "JSON, with comments and trailing commas if need be"
    return _refused(path, "json.syntax", f"not JSON ({reason})", expected, where, position=position)


def _too_deep(path: Path | str) -> ModelError:
    return _refused(path, "json.depth", "nested too deeply", f"at most {MAX_NESTING} objects and arrays within one another")


def _refused(
    path: Path | str, code: str, found: str, expected: str, *why: str, remedy: str | None = None, position: Position | None = None
) -> ModelError:
    positions = () if position is None else (position,)
    return ModelError(path, [Finding("", (Problem(code, "file", found, expected, why, remedy),), positions=positions)])
