"""`SymbolicSize`: a size that is not known yet. What is computed with it is recorded, and computed again for other sizes.

Code that takes sizes runs with symbolic ones as with integers: they have the value of one example. Arithmetic gives further symbolic sizes,
and each comparison is recorded with its outcome. What the code makes is valid for all sizes with the same outcomes. Where the value itself
is needed, as by NumPy or a protobuf, it is recorded as one that must not change: nothing leaves the record unnoticed.
"""

from __future__ import annotations

import math
import operator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")

_Operation = tuple[Any, int, int]
"""A function of two values, by their places in the record."""

_Line = tuple[Any, int, int]
"""An operation, or None in place of the function, and a number."""

_NEVER_EQUAL = (str, bytes, tuple, list, dict)
"""Kinds of objects that no integer is compared with."""

_READING_NUMBERS = (*_NEVER_EQUAL, np.ndarray, np.generic, complex)
"""Kinds of objects whose arithmetic needs numbers; others may know symbolic sizes."""

_RECORD: ContextVar[SizeRecord | None] = ContextVar("size record", default=None)


class NoTemplateError(Exception):
    """Raised for an object that depends on the numbers, or may hold sizes and is of no kind that is known."""


class SizeRecord:
    """What was computed with symbolic sizes, in order, and how comparisons came out.

    Args:
        example: a value for each symbol.

    Attributes:
        symbols: the symbolic sizes.
        is_fixed: whether the value of one was needed, so that nothing follows for other sizes.
    """

    def __init__(self, example: Sequence[int]) -> None:
        self._values: list[Any] = [*example]
        self._operations: list[_Operation | None] = [None] * len(example)
        self._constants: dict[int | str, int] = {}
        self._places: dict[_Operation, int] = {}
        self._outcomes: dict[int, bool] = {}
        self._count = len(example)
        self.is_fixed = False
        self.symbols = [SymbolicSize(self, place) for place in range(len(example))]

    def constant(self, value: float) -> int:
        """The place of a number that is the same for all sizes."""
        key = value.hex() if isinstance(value, float) else value
        if key not in self._constants:
            self._constants[key] = len(self._values)
            self._values.append(value)
            self._operations.append(None)
        return self._constants[key]

    def place_of(self, function: Callable[[Any, Any], Any], left: int, right: int) -> int:
        """The place of a function's value."""
        key = function, left, right
        found = self._places.get(key)
        if found is None:
            value = function(self._values[left], self._values[right])
            found = self._places[key] = len(self._values)
            self._values.append(value)
            self._operations.append(key)
        return found

    def compare(self, function: Callable[[Any, Any], Any], left: int, right: int) -> bool:
        """The outcome of a comparison, which is recorded."""
        place = self.place_of(function, left, right)
        outcome = self._outcomes[place] = bool(self._values[place])
        return outcome

    def value(self, place: int) -> int:
        """The example's value."""
        found: int = self._values[place]
        return found

    def end_stage(self) -> Formulas | None:
        """What was computed and compared since the last stage ended; None if the value of a size was needed."""
        found = None if self.is_fixed else Formulas(self, len(self._values), self._outcomes)
        self._outcomes, self.is_fixed = {}, False
        return found

    def line(self, place: int) -> _Line:
        """How the value of a place is computed."""
        operation = self._operations[place]
        return (None, self._values[place], 0) if operation is None else operation

    @contextmanager
    def active(self) -> Iterator[None]:
        """Marks the code that runs with the record's symbols: caches of results do not know symbolic sizes."""
        token = _RECORD.set(self)
        try:
            yield
        finally:
            _RECORD.reset(token)


class Formulas:
    """The formulas of a stage of a record, with the outcomes of its comparisons.

    Args:
        record: the record.
        end: the place behind the stage's last one.
        outcomes: the outcomes of its comparisons, by place; those of earlier stages are theirs.
    """

    def __init__(self, record: SizeRecord, end: int, outcomes: dict[int, bool]) -> None:
        self._record, self._end, self._outcomes = record, end, outcomes
        self._computed: frozenset[int] = frozenset()
        self._constants: list[Any] = []
        self._lines: list[tuple[int, Any, int, int, bool | None]] | None = None

    def select(self, places: Iterable[int], before: Formulas | None = None) -> None:
        """Leaves out what nothing depends on.

        Args:
            places: the places whose values are asked for; others may be anything.
            before: the formulas whose values are given, if this is not the first stage.
        """
        count = len(self._record.symbols)
        given = frozenset(range(count)) if before is None else before._computed
        needed, lines = {*self._outcomes, *places} - given, list[tuple[int, Any, int, int, bool | None]]()
        for at in reversed(range(count, self._end)):
            function, left, right = self._record.line(at)
            if at in needed and function is not None:
                lines.append((at, function, left, right, self._outcomes.get(at)))
                needed.update({left, right} - given)
        self._computed = given | {line[0] for line in lines}
        operations = map(self._record.line, range(count if before is None else before._end, self._end))
        self._constants = [value if function is None else 0 for function, value, _ in operations]
        self._lines = lines[::-1]

    def values(self, before: Sequence[int]) -> list[int] | None:
        """The values up to the stage's end by place; None where a comparison comes out differently.

        Args:
            before: the sizes of the symbols for the first stage, for others the values of the first stage.
        """
        if self._lines is None:
            self.select(range(self._end))
        assert self._lines is not None  # they were just found
        values: list[int] = [*before, *self._constants]
        try:
            for at, function, left, right, expected in self._lines:
                found = values[at] = function(values[left], values[right])
                if expected is not None and found is not expected:
                    return None
        except (ArithmeticError, ValueError):  # the latter of rounding NaN
            return None
        return values


def attempted(function: Callable[[], T]) -> T | None:
    """What a function gives in the active record; None, and as if nothing had happened, if it raises or needs the value of a size."""
    record = _RECORD.get()
    assert record is not None, "something is attempted with symbolic sizes"
    outcomes, was_fixed = dict(record._outcomes), record.is_fixed
    record.is_fixed = False
    with suppress(Exception):  # of code that does not take symbolic sizes
        found = function()
        if not record.is_fixed:
            record.is_fixed = was_fixed
            return found
    record._outcomes, record.is_fixed = outcomes, was_fixed
    return None


def are_symbolic() -> bool:
    """Whether sizes may be symbolic here."""
    return _RECORD.get() is not None


def active_examples() -> Sequence[int]:
    """The example's values in the active record, by place."""
    record = _RECORD.get()
    assert record is not None, "symbolic sizes belong to a record that is active"
    return record._values


def fix_all() -> None:
    """Marks that what the active record is about depends on the example's values."""
    record = _RECORD.get()
    if record is not None:
        record.is_fixed = True


def is_symbolic(size: Any) -> TypeGuard[SymbolicSize]:
    """Whether this size is."""
    return type(size) is SymbolicSize


def places_of(numbers: Sequence[Any]) -> list[int] | None:
    """The places of integers in the record of the symbolic sizes among them; None if none is symbolic, or something is not an integer."""
    record = next((number.record for number in numbers if is_symbolic(number)), None)
    if record is None or not all(is_symbolic(number) or type(number) is int for number in numbers):
        return None
    return [number.place if is_symbolic(number) else record.constant(number) for number in numbers]


def example_size(size: int) -> int:
    """A size as a number: of a symbolic one the example's, for what does not depend on it."""
    return size.example if is_symbolic(size) else size


def _arithmetic(function: Callable[[Any, Any], Any]) -> Any:
    def compute(own: SymbolicSize, other: Any) -> Any:
        place = _place_of(own.record, other)
        if place is None:
            return function(own.fix(), other) if isinstance(other, _READING_NUMBERS) else NotImplemented
        return SymbolicSize(own.record, own.record.place_of(function, own.place, place))

    return compute


def _reflected(function: Callable[[Any, Any], Any]) -> Any:
    def compute(own: SymbolicSize, other: Any) -> Any:
        place = _place_of(own.record, other)
        if place is None:
            return function(other, own.fix())
        return SymbolicSize(own.record, own.record.place_of(function, place, own.place))

    return compute


def _comparison(function: Callable[[Any, Any], Any], *, reflexive: bool) -> Any:
    def compare(own: SymbolicSize, other: Any) -> Any:
        place = _place_of(own.record, other)
        if place is None:
            return NotImplemented if other is None or type(other) in _NEVER_EQUAL else function(own.fix(), other)
        return reflexive if place == own.place else own.record.compare(function, own.place, place)

    return compare


def _place_of(record: SizeRecord, number: Any) -> int | None:
    """The place of an integer or of Python's float in a record; None for anything else."""
    if is_symbolic(number):
        assert number.record is record, "symbolic sizes of two records do not meet"
        return number.place
    if type(number) is float:
        return record.constant(number)
    return record.constant(int(number)) if isinstance(number, int | np.integer) else None


def applied(function: Callable[[Any], float], size: Any) -> Any:
    """The value of a function of a size: computed again for each size where that is symbolic."""
    return _applying(function)(size) if is_symbolic(size) else function(size)


def is_close(one: float, other: float, *, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> bool:
    """`math.isclose` of finite numbers, which may be symbolic."""
    difference = abs(one - other)
    return bool(difference <= rel_tol * abs(one) or difference <= rel_tol * abs(other) or difference <= abs_tol)


def _applying(function: Callable[[Any], float]) -> Any:
    def apply(value: Any, _: Any) -> float:
        return function(value)

    return lambda own: SymbolicSize(own.record, own.record.place_of(apply, own.place, own.place))


def _fixed(function: Callable[..., Any]) -> Any:
    def compute(own: SymbolicSize, *others: Any) -> Any:
        return function(own.fix(), *others)

    return compute


def slice_indices(part: slice, size: Any) -> tuple[Any, Any, int]:
    """What `part.indices(size)` gives, also for a symbolic size.

    Raises:
        TypeError: a bound is not an integer.
        ValueError: the step is 0.
    """
    step = slice(None, None, part.step).indices(1)[2]
    least, most = (0, size) if step > 0 else (-1, size - 1)

    def bound(given: Any, default: Any) -> Any:
        if given is None:
            return default
        if not is_symbolic(given):
            given = operator.index(given)
        return max(given + size, least) if given < 0 else min(given, most)

    return bound(part.start, least if step > 0 else most), bound(part.stop, most if step > 0 else least), step


class SymbolicSize:
    """A size that is not known yet, with an example's value. `isinstance` takes it for an integer, as which it is used.

    Quotients of sizes, and what is computed with them, are symbolic floats.

    Attributes:
        record: what is computed with it.
        place: its place there.
    """

    __slots__ = ("place", "record")
    __array_ufunc__ = None  # operators of NumPy's integers leave the arithmetic to this class

    def __init__(self, record: SizeRecord, place: int) -> None:
        self.record = record
        self.place = place

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.example)

    @property
    def example(self) -> int:
        """The example's value, for what does not depend on it."""
        return self.record.value(self.place)

    def fix(self) -> int:
        """The example's value, which then must not change."""
        self.record.is_fixed = True
        return self.record.value(self.place)

    __add__, __radd__ = _arithmetic(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _arithmetic(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _arithmetic(operator.mul), _reflected(operator.mul)
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv), _reflected(operator.floordiv)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv), _reflected(operator.truediv)
    __mod__, __rmod__ = _arithmetic(operator.mod), _reflected(operator.mod)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __neg__(self) -> Any:
        return 0 - self

    def __pos__(self) -> SymbolicSize:
        return self

    __eq__ = _comparison(operator.eq, reflexive=True)
    __ne__ = _comparison(operator.ne, reflexive=False)
    __lt__ = _comparison(operator.lt, reflexive=False)
    __le__ = _comparison(operator.le, reflexive=True)
    __gt__ = _comparison(operator.gt, reflexive=False)
    __ge__ = _comparison(operator.ge, reflexive=True)

    def __bool__(self) -> bool:
        return self.record.compare(operator.ne, self.place, self.record.constant(0))

    def __hash__(self) -> int:
        self.fix()
        raise TypeError("a symbolic size has no hash: caches would take it for its example")

    __index__, __int__ = _fixed(operator.index), _fixed(int)
    __float__ = _fixed(float)
    __and__ = __rand__ = _fixed(operator.and_)
    __or__ = __ror__ = _fixed(operator.or_)
    __xor__ = __rxor__ = _fixed(operator.xor)
    __invert__ = _fixed(operator.invert)
    __pow__ = _fixed(operator.pow)
    __lshift__, __rshift__ = _fixed(operator.lshift), _fixed(operator.rshift)
    __floor__, __ceil__, __abs__ = _applying(math.floor), _applying(math.ceil), _applying(abs)
    __round__ = _fixed(round)
    __trunc__ = _fixed(int)
    bit_length = _fixed(int.bit_length)

    def __rpow__(self, other: Any) -> Any:
        return other ** self.fix()

    def __reduce__(self) -> Any:
        return int, (self.fix(),)

    def __format__(self, spec: str) -> str:
        return format(self.example, spec)  # texts are messages, of which what is valid has none

    def __repr__(self) -> str:
        return str(self.example)
