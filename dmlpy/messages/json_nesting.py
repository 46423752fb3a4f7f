"""The nesting depth of JSON, which is limited here: how deep Python's json reads depends on Python's version and on the thread's stack."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from dmlpy.messages.json_text import STRING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_NESTING = 64
"""The deepest nesting of objects and arrays: no model, desc or graph comes near."""
_NO_BRACKETS = re.compile(rf"{STRING}|[^\"\[\]{{}}]++", re.DOTALL)
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


class NestingError(ValueError):
    """JSON is nested deeper than the limit."""


def decoded(text: str, limit: int = MAX_NESTING, decode: Callable[[str], Any] = json.loads) -> Any:
    """Decodes a JSON text of limited nesting; a text that is not JSON is too deep if what comes before its first error is.

    Args:
        text: the text.
        limit: the deepest nesting.
        decode: the decoder, which raises what `json.loads` does.

    Raises:
        NestingError: the text is nested deeper.
        ValueError: it is not JSON.
    """
    try:
        data = decode(text)
    except RecursionError:
        raise NestingError(f"nested deeper than {limit} objects and arrays") from None
    except ValueError as error:
        if _nesting_of_text(text[: getattr(error, "pos", None)]) > limit:
            raise NestingError(f"nested deeper than {limit} objects and arrays") from None
        raise
    if nesting(data, limit) > limit:
        raise NestingError(f"nested deeper than {limit} objects and arrays")
    return data


def nesting(data: Any, limit: int) -> int:
    """The nesting depth of JSON data: 0 for a number, 1 for an array of numbers. Depths beyond `limit` are not examined."""
    depth, parts = 0, [data] if isinstance(data, dict | list) else []
    while parts and depth <= limit:
        depth += 1
        parts = [item for part in parts for item in items(part) if isinstance(item, dict | list)]
    return depth


def items(part: Any) -> Iterable[Any]:
    """The values of an object or array."""
    return part.values() if isinstance(part, dict) else part


def _nesting_of_text(text: str) -> int:
    """The deepest nesting in a text; brackets in strings do not count."""
    return max(accumulate(map(_STEPS.__getitem__, _NO_BRACKETS.sub("", text))), default=0)
