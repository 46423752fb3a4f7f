"""The remedies for values of members that cannot be read: the nearest name, the number meant, a list around it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import as_float, as_uint, brief
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OTHER_VALUES = {
    "FLOAT": "FLOAT32",
    "SINGLE": "FLOAT32",
    "FP32": "FLOAT32",
    "F32": "FLOAT32",
    "HALF": "FLOAT16",
    "FP16": "FLOAT16",
    "F16": "FLOAT16",
    "BF16": "BFLOAT16",
    "DOUBLE": "FLOAT64",
    "FP64": "FLOAT64",
    "INT": "INT32",
    "LONG": "INT64",
    "BYTE": "UINT8",
    "BOOL": "UINT8",
    "ADD": "SUM",
    "MEAN": "AVERAGE",
    "AVG": "AVERAGE",
    "PROD": "MULTIPLY",
    "PRODUCT": "MULTIPLY",
    "MUL": "MULTIPLY",
    "CONV": "CONVOLUTION",
    "BILINEAR": "LINEAR",
    "NEAREST": "NEAREST_NEIGHBOR",
    "ZEROS": "CONSTANT",
    "REFLECT": "REFLECTION",
    "REPLICATE": "EDGE",
    "CIRCULAR": "WRAP",
    "T": "TRANSPOSE",
    "N": "NONE",
    "REVERSE": "BACKWARD",
    "BOTH": "BIDIRECTIONAL",
    "ASCENDING": "INCREASING",
    "DESCENDING": "DECREASING",
    "SMALLEST": "INCREASING",
    "LARGEST": "DECREASING",
}
"""Values of enumerations by the names that other libraries have for them."""

_READERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a sequence of integers": (as_uint, "an integer"),
    "a sequence of numbers": (as_float, "a number"),
}
"""Arrays by what is expected of them, each with the reader of an entry and what is expected of that."""

_LISTED = re.compile(r"\s*[\[(]?\s*(\d+(?:\s*,\s*\d+)+)\s*,?\s*[\])]?\s*")
"""A list of integers as a text."""
_LONGEST = 64
"""The most characters of a text, and the most entries, that a remedy repeats."""


def spelling_remedy(given: Any, expected: str, prefix: str = "") -> str | None:
    """The nearest of the names that `one of A, B, C` lists; None if no names are listed or none is close.

    Args:
        given: the value found; only a string can be mistyped, and a `torch.dtype` is meant by its name.
        expected: the expectation.
        prefix: an optional prefix of each name, as in directml.h.
    """
    if (type(given).__module__, type(given).__name__) == ("torch", "dtype"):
        given = str(given).removeprefix("torch.")
    if not expected.startswith("one of ") or not isinstance(given, str):
        return None
    in_c = prefix != "" and given.upper().startswith(prefix)
    names = expected.removeprefix("one of ").split(", ")
    if (other := _OTHER_VALUES.get(given.upper())) in names:
        return f"did you mean {other}?"
    return did_you_mean(given[len(prefix) :] if in_c else given, names, prefix.__add__ if in_c else str)


def form_problems(path: str, given: Any, expected: str, prefix: str = "") -> Iterator[Problem]:
    """The problems of a value that a member cannot hold: of an array's entries, if some can be held and others cannot.

    Args:
        path: the member.
        given: the value found.
        expected: the expectation.
        prefix: an optional prefix of each name of an enumeration, as in directml.h.
    """
    if expected in _READERS and type(given) in (list, tuple) and len(given) <= _LONGEST:
        read, of_entry = _READERS[expected]
        for index, entry in enumerate(given):
            if not _reads(read, entry):
                yield Problem("field.form", f"{path}[{index}]", brief(entry), of_entry, remedy=_number_remedy(entry, read))
        return
    remedy = spelling_remedy(given, expected, prefix) or _choice_remedy(given, expected) or _list_remedy(path, given, expected)
    if remedy is None and expected.startswith(("an integer", "a number")):
        remedy = _number_remedy(given, as_uint if expected.startswith("an integer") else as_float)
    yield Problem("field.form", path, brief(given), expected, remedy=remedy)


def _reads(read: Callable[[Any], Any], value: Any) -> bool:
    try:
        read(value)
    except Exception:  # ValueError, or whatever the methods of the caller's type raise
        return False
    return True


def _choice_remedy(given: Any, expected: str) -> str | None:
    """The remedy for a bool in place of a choice."""
    choices = expected.removeprefix("one of ").split(", ")
    return f"write {choices[given]!r}" if isinstance(given, bool) and len(choices) == 2 and choices[0] == "NONE" else None


def _list_remedy(path: str, given: Any, expected: str) -> str | None:
    """The remedy for a number, a set, a text or an array in place of a list; none for a number that no member could hold."""
    if not expected.startswith("a sequence of "):
        return None
    if isinstance(given, set | frozenset):
        return "write it in brackets: braces make a set, which has no order and holds no value twice"
    if isinstance(given, np.generic):
        given = given.item()
    if type(given) in (int, float) and abs(given) < 2**64:
        return f"write [{given}]" if path == "axes" else f"write an entry for each dimension, like [{given}, {given}]"
    if isinstance(given, str) and len(given) <= _LONGEST and (listed := _LISTED.fullmatch(given)):
        return f"write [{', '.join(re.findall(r'[0-9]+', listed[1]))}]"
    if isinstance(given, np.ndarray) and given.dtype.kind in "iuf" and 0 < given.size <= _LONGEST:
        whole = [int(entry) for entry in given.ravel().tolist() if abs(entry) < 2**64 and entry == int(entry)]
        return f"write {whole}" if len(whole) == given.size else None
    return None


def _number_remedy(given: Any, read: Callable[[Any], Any]) -> str | None:
    """The remedy for a number as a text, within an array, or with a decimal point where an integer is expected."""
    if isinstance(given, np.ndarray) and given.size == 1 and given.dtype.kind in "iuf":
        return f"write {given.item()}"
    if (isinstance(given, str) and len(given) > _LONGEST) or isinstance(given, bool):
        return None
    try:
        number = float(given)
        whole = int(number) if number.is_integer() and abs(number) < 2**64 else number
        read(whole)
        return f"write {whole}"
    except Exception:  # it is not a number, or none that the member can hold
        return None
