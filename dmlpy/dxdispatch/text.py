"""The text of a model file: JSON with comments and trailing commas; trailing text is ignored."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dmlpy.dxdispatch.report import Finding, ModelError
from dmlpy.messages import json_nesting
from dmlpy.messages.json_nesting import MAX_NESTING, NestingError
from dmlpy.messages.json_positions import Position, Positions
from dmlpy.messages.json_text import STRING, without_comments
from dmlpy.messages.naming import Count
from dmlpy.messages.problems import MAX_REPORTED, Problem, and_more
from dmlpy.system import files
from dmlpy.system.other_formats import BEGINNING, foreign_format

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_BYTES = 256 * 2**20
EXPECTED = "a model, a desc or a graph in JSON, a serialized graph, or a model of ONNX (.onnx)"
"""The files that the commands read."""
MAX_PARTS = 300_000
"""The most objects and arrays in total: each takes some 200 bytes of memory for as few as two characters."""
MAX_DESC_PARTS = 60_000
"""Objects and arrays of all descs, nodes or edges of a file: some 10,000 operators, or one that joins 30,000 tensors. Checking them takes
far longer than reading them."""
MAX_KEY = 1000
"""The most characters of a key: messages quote keys."""

_PART = re.compile(rf"{STRING}|[{{\[]", re.DOTALL)
_NAMES = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


@dataclass(frozen=True)
class Document:
    """The object in a file.

    Attributes:
        path: the file, for messages.
        text: its text, with blanks in place of comments and trailing commas.
        data: the object; for repeated keys the last one counts.
        repeats: whether one of its objects has a key twice.
    """

    path: Path
    text: str
    data: dict[str, Any]
    repeats: bool = False

    @cached_property
    def positions(self) -> Positions:
        """The positions of the values in the text."""
        return Positions(self.text)

    def findings(self) -> list[Finding]:
        """The problems of the text itself."""
        if not self.repeats:
            return []
        repeated = list(islice(self.positions.repeated_keys(), MAX_REPORTED + 1))
        problems = [Problem("json.duplicate", repr(key), "given twice in one object", "each key once") for key, _ in repeated]
        if len(repeated) > MAX_REPORTED:
            problems[-1] = and_more(problems[-1])
        return [Finding("", tuple(problems), positions=tuple(position for _, position in repeated))]


def read_bytes(path: Path) -> bytes:
    """Reads a file's bytes.

    Raises:
        ModelError: it cannot be read.
    """
    try:
        if isinstance(size := files.size(path), str):
            raise _refuse(path, "file.unreadable", size, "a file")
        if size > MAX_BYTES:
            _refuse_foreign(_beginning(path), path)
            raise _refuse_size(path, f"{size} bytes", MAX_BYTES)
        return files.read(path, MAX_BYTES)
    except OSError as error:
        raise _refuse(path, "file.unreadable", f"unreadable: {error.strerror or error}", "a file") from None


def read_stream(stream: BinaryIO, path: Path, most: int | None = None) -> bytes:
    """Reads a stream to its end.

    Args:
        stream: the stream.
        path: what stands for it in messages.
        most: the most bytes that it may have; None for those of a file.

    Raises:
        ModelError: it is too long, or cannot be read.
    """
    allowed = MAX_BYTES if most is None else most
    try:
        data = stream.read(allowed + 1)
        if not isinstance(data, bytes | bytearray):
            raise TypeError("it gives text, not bytes: open it with 'rb'")
    except (AttributeError, OSError, TypeError, ValueError) as error:  # no stream at all; a closed stream is a ValueError
        raise _refuse(path, "file.unreadable", f"unreadable: {getattr(error, 'strerror', None) or error}", "a stream of bytes") from None
    if len(data) > allowed:
        raise _refuse_size(path, "longer", allowed)
    return data


def _refuse_size(path: Path, found: str, most: int) -> ModelError:
    remedy = "put large data into separate files (sourcePath)" if most == MAX_BYTES else None
    return _refuse(path, "file.size", found, f"at most {most} bytes", remedy=remedy)


def _beginning(path: Path) -> bytes:
    """The first bytes of a file; none of one that is not read, such as one of holes alone."""
    try:
        with files.opened(path) as file:
            return file.read(BEGINNING)
    except OSError:
        return b""


def read(path: Path) -> Document:
    """Reads the object in a file.

    Raises:
        ModelError: the file cannot be read or is not a JSON object; a syntax error is reported with its place and context.
    """
    return decode(read_bytes(path), path)


def too_many_parts(count: int) -> Problem | None:
    """The problem of a file whose descs have too many objects and arrays; None if they can be checked."""
    if count <= MAX_DESC_PARTS:
        return None
    actual, expected = Count(f"descs of {count} objects and arrays"), f"at most {MAX_DESC_PARTS}"
    return Problem("file.parts", "file", actual, expected, remedy="check its descs in separate files")


def decode(data: bytes, path: Path) -> Document:
    """Decodes and parses the file's bytes; see `read`."""
    _refuse_foreign(data, path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf_16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        why = ("it begins like UTF-16, which some Windows programs write",) if utf_16 else ()
        remedy = "save it as UTF-8" if utf_16 else None
        raise _refuse(path, "json.encoding", f"not UTF-8 at byte {error.start}", "UTF-8 text", *why, remedy=remedy) from None
    return parse(text, path)


def _refuse_foreign(data: bytes, path: Path) -> None:
    """Raises ModelError for a file of a format that is known and not JSON."""
    if (foreign := foreign_format(data)) is not None:
        raise _refuse(path, "file.format", foreign[0], EXPECTED, remedy=foreign[1])


def parse(text: str, path: Path | str = "text") -> Document:
    """Parses the text; see `read`. `path` is for messages."""
    repeats = False
    longest = 0

    def members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeats, longest
        unique = dict(pairs)
        repeats = repeats or len(unique) < len(pairs)
        longest = max(longest, max(map(len, unique), default=0))
        return unique

    def decoded(text: str) -> Any:
        start = len(text) - len(text.lstrip(" \t\r\n"))
        decoder = json.JSONDecoder(object_pairs_hook=members)
        return json_nesting.decoded(text, decode=lambda text: decoder.raw_decode(text, start)[0])

    try:
        if _has_more_parts(text, MAX_PARTS):
            raise _refuse(path, "json.parts", Count(f"more than {MAX_PARTS} objects and arrays"), f"at most {MAX_PARTS}")
        try:
            data = decoded(text)
        except json.JSONDecodeError:
            repeats, longest = False, 0
            text = without_comments(text)
            data = decoded(text)
    except NestingError:
        expected = f"at most {MAX_NESTING} nested objects and arrays"
        raise _refuse(path, "json.depth", "nested too deeply", expected) from None
    except MemoryError:
        raise _refuse(path, "file.size", "too large for the memory that is left", "a smaller file") from None
    except json.JSONDecodeError as error:
        raise _syntax_error(text, path, error) from None
    except ValueError:
        # All that is left: Python converts no integer of this many digits.
        most = sys.get_int_max_str_digits()
        number = re.search(rf"(?<!\d)\d{{{most + 1},}}+", text)
        actual = Count("a number of too many digits" if number is None else f"a number of {len(number[0])} digits")
        position = None if number is None else Positions(text).at(number.start())
        raise _refuse(path, "json.number", actual, f"at most {most}", position=position) from None
    if not isinstance(data, dict):
        raise _refuse(path, "json.root", f"a JSON {_NAMES[type(data)]}", "an object: { ... }", position=Position(1, 1))
    if longest > MAX_KEY:
        raise _refuse(path, "json.key", Count(f"a key of {longest} characters"), f"at most {MAX_KEY}")
    return Document(Path(path), text, data, repeats)


def _has_more_parts(text: str, most: int) -> bool:
    """Returns whether a text has more objects and arrays than a limit; brackets in strings do not count."""
    if text.count("{") + text.count("[") <= most:
        return False
    parts = (match for match in _PART.finditer(text) if match[0][0] != '"')
    return next(islice(parts, most, None), None) is not None


def _syntax_error(text: str, path: Path | str, error: json.JSONDecodeError) -> ModelError:
    position = Positions(text).at(error.pos)
    if not text.strip():
        return _refuse(path, "json.syntax", "empty", "a JSON object", position=position)
    reason = error.msg[:1].lower() + error.msg[1:].removesuffix(" at").removesuffix(" starting")
    if not text[error.pos :].strip():
        reason = f"the text ends, {reason}"
    where = f"character {error.pos}, in {text[max(0, error.pos - 20) : error.pos + 20]!r}"
    expected = "JSON, with comments and trailing commas if need be"
    return _refuse(path, "json.syntax", f"not JSON ({reason})", expected, where, position=position)


def _refuse(
    path: Path | str, code: str, actual: str, expected: str, *why: str, remedy: str | None = None, position: Position | None = None
) -> ModelError:
    positions = () if position is None else (position,)
    return ModelError(path, [Finding("", (Problem(code, "file", actual, expected, why, remedy),), positions=positions)])
