"""Coercion of struct members: the values that a constructor accepts, the stored value, and how a wrong value is shown."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, cast, overload

import numpy as np
from pydantic import BeforeValidator, Field, PlainValidator

from dmlpy.description.enums import DataType, DmlEnum
from dmlpy.description.symbolic_sizes import SymbolicSize
from dmlpy.messages.problems import DescError, Problem

_MAX_INDENT = 80


def brief(value: Any) -> str:
    """Formats any value for a message: one line, at most 80 characters."""
    try:
        if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type | np.generic):
            return f"an array of {value.dtype} {list(value.shape)}"
        text = " ".join(_shortened_repr(value).split())
    except Exception:  # a value of any library, or an integer too long for Python to print
        return f"{type(value).__name__} object"
    return text if len(text) <= 80 else text[:77] + "..."


def is_whole(value: Any, most: int) -> bool:
    """Whether a value is an integer from 0 to `most`; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(0 <= value <= most)


def to_json_text(data: Any, indent: Any, subject: str) -> str:
    """The text of JSON data.

    Raises:
        DescError: `indent` is neither None nor a number of spaces.
    """
    if indent is not None and not is_whole(indent, _MAX_INDENT):
        raise DescError(subject, [Problem("field.form", "indent", brief(indent), f"a number from 0 to {_MAX_INDENT}, or None")])
    return json.dumps(data, indent=None if indent is None else int(indent), allow_nan=False)


def read_problems(problems: Any, subject: str) -> list[Problem]:
    """The problems that a report is to mark.

    Raises:
        DescError: they are not what `check` returns.
    """
    try:
        given = list(problems)
    except Exception:  # whatever the caller's type raises
        given = [None]
    if not all(isinstance(problem, Problem) for problem in given):
        raise DescError(subject, [Problem("field.form", "problems", brief(problems), "a list of problems, as check returns it")])
    return given


def _shortened_repr(value: Any) -> str:
    """The first characters of a value's repr, at least 80 of them, without evaluating the rest."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > 200:
            break
    return text


def _pieces(value: Any) -> Iterator[str]:
    kind = type(value)
    if kind is str or kind is bytes:
        yield repr(value[:200])
    elif kind is dict:
        for index, (key, item) in enumerate(value.items()):
            yield ", " if index else "{"
            yield from _pieces(key)
            yield ": "
            yield from _pieces(item)
        yield "}" if value else "{}"
    elif kind is list or kind is tuple:
        yield "[" if kind is list else "("
        for index, item in enumerate(value):
            yield ", " if index else ""
            yield from _pieces(item)
        yield "]" if kind is list else ",)" if len(value) == 1 else ")"
    else:
        yield repr(value)


MAX_BITS = 128
"""The most bits of an integer that a member stores."""


def as_uint(value: Any) -> int:
    """An integer of Python or NumPy as an int.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(value, bool | np.bool_):
        raise ValueError("an integer")
    if type(value) is SymbolicSize and isinstance(value, int):
        return cast("int", value)
    try:
        number = operator.index(value)
    except Exception:  # TypeError for what is not an integer, or whatever the methods of the caller's type raise
        raise ValueError("an integer") from None
    # `check` decides which integers the C member can hold. This bound only excludes numbers that Python refuses to print.
    if number.bit_length() > MAX_BITS:
        raise ValueError(f"an integer of at most {MAX_BITS} bits")
    return number


def given_path(function: str, name: str, value: Any) -> Path:
    """The path that a function's argument names.

    Raises:
        DescError: it is neither a str nor a path.
    """
    try:
        return Path(fspath(value))
    except Exception:  # TypeError for what is not a path, or whatever the methods of the caller's type raise
        problem = Problem("field.form", name, brief(value), "the name of a file: a str or a Path")
        raise DescError(function, [problem]) from None


def is_among(value: Any, choices: Container[str]) -> bool:
    """Whether a value is one of some texts. Arrays, whose comparison has no truth, are none."""
    return isinstance(value, str) and value in choices


Reader = Callable[[Any], Any]
"""Converts a caller's value to the form that the member stores."""

MAX_ENTRIES = 2**20
"""The most entries of an array: an iterator may never end."""


def has_entries(value: Any) -> bool:
    """Whether a value has entries in an order: no text, no object, and no set, which C++'s braces are in Python."""
    if type(value) in (tuple, list):
        return True
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | set | frozenset)


def entries(value: Iterable[Any], read: Reader = lambda item: item) -> tuple[Any, ...]:
    """Converts each entry of an array.

    Raises:
        ValueError: there are more than an array may have, or it is a set.
    """
    if isinstance(value, set | frozenset):
        raise ValueError("a sequence, which has an order: in brackets")
    items = tuple(map(read, islice(value, MAX_ENTRIES + 1)))
    if len(items) > MAX_ENTRIES:
        raise ValueError(f"at most {MAX_ENTRIES} of them")
    return items


def _as_uints(value: Any) -> tuple[int, ...]:
    if not has_entries(value):
        raise ValueError("a sequence of integers")
    try:
        return entries(value, as_uint)
    except ValueError as error:
        text = str(error)
        raise ValueError("a sequence of integers" + (text.removeprefix("an integer") if text.startswith("an") else f", {text}")) from None


def _as_floats(value: Any) -> tuple[float, ...]:
    if not has_entries(value):
        raise ValueError("a sequence of numbers")
    try:
        return entries(value, as_float)
    except ValueError as error:
        text = str(error)
        raise ValueError(f"a sequence of numbers, {'each ' if text.startswith('a number') else ''}{text}") from None


SCALAR_MEMBERS = ("Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float32", "Float64")
"""The members of DML_SCALAR_UNION that hold a number."""


def half_of_bits(bits: int) -> float:
    """Decodes a half-precision number from its 16 bits."""
    return float(np.array(bits, np.uint16).view(np.float16))


def _as_scalar(value: Any) -> int | float:
    if isinstance(value, Mapping):
        if len(value) != 1 or not set(value) <= set(SCALAR_MEMBERS):
            raise ValueError(f"a number, or an object with one of {', '.join(SCALAR_MEMBERS)}")
        value = next(iter(value.values()))
    try:
        return as_uint(value)
    except ValueError:
        return as_float(value)


def as_float(value: Any) -> float:
    """A number of Python or NumPy, or the name of one that is not finite, as a float.

    Raises:
        ValueError: it is something else.
    """
    if type(value) is SymbolicSize:
        return cast("float", value * 1.0 if isinstance(value, int) else value)
    if isinstance(value, str) and value.strip().lower() in ("inf", "-inf", "nan"):
        value = float(value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError("a number, or one of 'inf', '-inf', 'nan'")
    try:
        value = float(value)
    except OverflowError:
        raise ValueError("a number that a float holds") from None
    # One NaN object: structs that hold NaN are equal and share a compiled operator.
    return math.nan if math.isnan(value) else value


def is_flag(value: Any) -> bool:
    """Whether a value is True or False, or 1 or 0, as in C."""
    return isinstance(value, bool | np.bool_ | int | np.integer) and int(value) in (0, 1)


def _as_bool(value: Any) -> bool:
    if is_flag(value):
        return bool(value)
    raise ValueError("True or False")


def read_by(read: Reader, *, optional: bool = False, is_whole: bool = False) -> BeforeValidator | PlainValidator:
    """Reads a member's value with a reader. Any exception from a caller's object means that it cannot be read.

    Args:
        read: gives the member's form; raises ValueError or DescError.
        optional: whether None stays None.
        is_whole: whether pydantic, which would read the number of a symbolic one, has nothing to do any more.
    """

    def reader(value: Any) -> Any:
        if value is None and optional:
            return None
        try:
            return read(value)
        except (ValueError, AssertionError):  # DescError too
            raise
        except Exception as error:
            raise unreadable(error) from None

    return PlainValidator(reader) if is_whole else BeforeValidator(reader)


def unreadable(error: Exception) -> ValueError:
    """The error for a member whose value raises when it is read."""
    return ValueError(f"a value that can be read: reading it raises {type(error).__name__}")


class Signed:
    """Marks a member that is an INT in the header: it may be negative."""


SIGNED = Signed()


class After:
    """Marks a member that follows an inherited one in the C struct.

    Without the mark the first member that a class adds comes after all inherited ones, and each of the others after the one above it.
    A member that is declared again keeps its place.

    Args:
        name: the member before it; without a name, the member comes first.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name


ReadT = TypeVar("ReadT", covariant=True)
WriteT = TypeVar("WriteT", contravariant=True)
EnumT = TypeVar("EnumT", bound=DmlEnum)

if TYPE_CHECKING:
    # Type checkers infer a member's constructor argument from `__set__` and its value from `__get__`, so that a
    # list is accepted where a tuple is stored, and a name where an enumeration is.
    class Member(Generic[ReadT, WriteT]):
        """A member that returns `ReadT` and accepts `WriteT`."""

        @overload
        def __get__(self, owner: None, kind: Any) -> ReadT: ...
        @overload
        def __get__(self, owner: object, kind: Any) -> ReadT: ...
        def __get__(self, owner: Any, kind: Any = None) -> ReadT: ...
        def __set__(self, owner: Any, value: WriteT) -> None: ...

    class Spelled(Member[EnumT, EnumT | str | int], Generic[EnumT]):
        """A member of an enumeration, accepted in every spelling."""

    SpelledType = Member[DataType, DataType | str | int | np.dtype[Any] | type[np.generic]]

    Uint = Member[int, int | np.integer[Any]]
    OptionalUint = Member[int | None, int | np.integer[Any] | None]
    Uints = Member[tuple[int, ...], Sequence[int]]
    OptionalUints = Member[tuple[int, ...] | None, Sequence[int] | None]
    Int = Uint
    Ints = Uints
    Float = Member[float, float | str | np.floating[Any]]
    Floats = Member[tuple[float, ...], Sequence[float]]
    Scalar = Member[int | float, int | float | str | Mapping[str, Any] | np.number[Any]]
    Bool = Member[bool, bool | np.bool_]
else:

    class Spelled:
        """A member of an enumeration, accepted in every spelling: `Spelled[DataType]`."""

        def __class_getitem__(cls, kind: type[DmlEnum]) -> Any:
            return Annotated[kind, read_by(kind.parse)]

    SpelledType = Spelled[DataType]
    Uint = Annotated[int, read_by(as_uint, is_whole=True)]
    OptionalUint = Annotated[int | None, read_by(as_uint, optional=True, is_whole=True)]
    Uints = Annotated[tuple[int, ...], read_by(_as_uints, is_whole=True)]
    OptionalUints = Annotated[tuple[int, ...] | None, read_by(_as_uints, optional=True, is_whole=True)]
    Int = Annotated[int, read_by(as_uint, is_whole=True), SIGNED]
    Ints = Annotated[tuple[int, ...], read_by(_as_uints, is_whole=True), SIGNED]
    Float = Annotated[float, read_by(as_float, is_whole=True)]
    Floats = Annotated[tuple[float, ...], read_by(_as_floats, is_whole=True)]
    Scalar = Annotated[int | float, read_by(_as_scalar, is_whole=True)]
    Bool = Annotated[bool, read_by(_as_bool)]


def default(value: Any) -> Any:
    """The value of a member that is left out in Python."""
    return Field(default=value)
