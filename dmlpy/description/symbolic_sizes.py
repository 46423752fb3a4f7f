"""`SymbolicSize`: a size that is not known yet. What is computed with it is traced, and computed again for other sizes.

It is what PyTorch's compiler calls a SymInt. Code that takes sizes runs with symbolic ones as with integers: they have the value of one
example. Arithmetic yields further symbolic sizes, and each comparison adds a guard to the trace: the comparison with its outcome. The
result of the code is valid for all sizes with which every guard has the same outcome. Where the value itself is needed, as by NumPy or a
protobuf, the trace is specialized: its results are those of the example alone.
"""

from __future__ import annotations

import math
import operator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_Operation = tuple[Any, int, int]
"""A function of two values, by their places in the trace."""

_Line = tuple[Any, int, int]
"""An operation, or None in place of the function, and a number."""

_Lines = tuple[tuple[Any, ...], ...]
"""The places, functions, left and right operands, and expected outcomes of many operations: a tuple for each would burden the collector."""

_NEVER_EQUAL = (str, bytes, tuple, list, dict)
"""Kinds of objects that no integer is compared with."""

_READING_NUMBERS = (*_NEVER_EQUAL, np.ndarray, np.generic, complex)
"""Kinds of objects whose arithmetic needs numbers; others may know symbolic sizes."""

_TRACE: ContextVar[SizeTrace | None] = ContextVar("size trace", default=None)


class NoTemplateError(Exception):
    """Raised for an object that depends on the numbers, or may hold sizes and is of no kind that is known."""


class SizeTrace:
    """The computations with symbolic sizes, in order, with guards: the outcomes of comparisons.

    Args:
        example: a value for each symbol.

    Attributes:
        symbols: the symbolic sizes.
        is_specialized: whether the value of one was needed, so that the results hold for the example's sizes only.
    """

    def __init__(self, example: Sequence[int]) -> None:
        self._values: list[Any] = [*example]
        self._operations: list[_Operation | None] = [None] * len(example)
        self._constants: dict[int | str, int] = {}
        self._places: dict[_Operation, int] = {}
        self._guards: dict[int, bool] = {}
        self._count = len(example)
        self.is_specialized = False
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
        place = self._places.get(key)
        if place is None:
            value = function(self._values[left], self._values[right])
            place = self._places[key] = len(self._values)
            self._values.append(value)
            self._operations.append(key)
        return place

    def compare(self, function: Callable[[Any, Any], Any], left: int, right: int) -> bool:
        """The outcome of a comparison, which becomes a guard."""
        place = self.place_of(function, left, right)
        outcome = self._guards[place] = bool(self._values[place])
        return outcome

    def value(self, place: int) -> int:
        """The example's value."""
        value: int = self._values[place]
        return value

    def end_stage(self, before: Formulas | None = None) -> Formulas | None:
        """The formulas and guards since the last stage ended; None if that stage was specialized.

        Args:
            before: the formulas of the stage that this one continues; None for the first stage.
        """
        formulas = None if self.is_specialized else Formulas(self, len(self._values), self._guards, before)
        self._guards, self.is_specialized = {}, False
        return formulas

    def set_example(self, sizes: Sequence[int]) -> None:
        """Gives the symbols other values, and all that was computed with them: later stages are for this example."""
        if self._values[: self._count] == [*sizes]:
            return
        values = self._values = [*sizes, *self._values[self._count :]]  # another list: arrays are kept with that of their values
        for at in range(self._count, len(values)):
            if (operation := self._operations[at]) is None:
                continue
            function, left, right = operation
            values[at] = None
            if values[left] is not None and values[right] is not None:
                with suppress(ArithmeticError, ValueError):
                    values[at] = function(values[left], values[right])
            if values[at] is None:
                self._places.pop(operation, None)  # where it is needed, it is computed again and raises

    def line(self, place: int) -> _Line:
        """How the value of a place is computed."""
        operation = self._operations[place]
        return (None, self._values[place], 0) if operation is None else operation

    @contextmanager
    def active(self) -> Iterator[None]:
        """Marks the code that runs with the trace's symbols: caches of results do not know symbolic sizes."""
        token = _TRACE.set(self)
        try:
            yield
        finally:
            _TRACE.reset(token)


class Formulas:
    """The formulas of a stage of a trace, and its guards.

    Args:
        trace: the trace.
        end: the place behind the stage's last one.
        guards: the outcome of each of its comparisons, by place, without those of earlier stages.
        before: the formulas of the stage that this one continues; None for the first stage.
    """

    def __init__(self, trace: SizeTrace, end: int, guards: dict[int, bool], before: Formulas | None = None) -> None:
        self._trace, self._end, self._guards, self._before = trace, end, guards, before
        self._constants: list[tuple[int, Any]] = []
        self._lines: _Lines | None = None

    def select(self, places: Iterable[int]) -> None:
        """Leaves out values that neither a guard nor one of the places depends on.

        Args:
            places: the places whose values are needed; those of others are undefined.
        """
        count, given = len(self._trace.symbols), set[int]() if self._before is None else self._before.computed
        waiting, seen = [*self._guards, *places], set[int]()
        constants, lines = [], list[tuple[int, Any, int, int, bool | None]]()
        while waiting:
            at = waiting.pop()
            if at < count or at in given or at in seen:
                continue
            seen.add(at)
            function, left, right = self._trace.line(at)
            if function is None:
                constants.append((at, left))
            else:
                lines.append((at, function, left, right, self._guards.get(at)))
                waiting += left, right
        lines.sort(key=itemgetter(0))
        self._constants, self._lines = constants, tuple(zip(*lines, strict=True))
        self._end = max(seen, default=count - 1) + 1

    @cached_property
    def computed(self) -> set[int]:
        """The places whose values are known after this stage."""
        own = {at for at, _ in self._constants}.union(*(self._lines or ())[:1])
        return own if self._before is None else own | self._before.computed

    def values(self, sizes: Sequence[int]) -> list[int] | None:
        """The values up to the first stage's end by place; None if a guard fails.

        Args:
            sizes: the sizes of the symbols.
        """
        values = [*sizes]
        return values if self.add_to(values) else None

    def add_to(self, values: list[int]) -> bool:
        """Computes the stage's values in a list of those of the stages before, by place; returns whether all guards hold."""
        if self._lines is None:
            self.select(range(self._end))
        assert self._lines is not None  # they were just found
        if len(values) < self._end:
            values += [0] * (self._end - len(values))
        for at, constant in self._constants:
            values[at] = constant
        try:
            for at, function, left, right, expected in zip(*self._lines, strict=True):
                value = values[at] = function(values[left], values[right])
                if expected is not None and value is not expected:
                    return False
        except (ArithmeticError, ValueError):  # the latter of rounding NaN
            return False
        return True


def are_symbolic() -> bool:
    """Whether sizes may be symbolic here."""
    return _TRACE.get() is not None


def active_examples() -> Sequence[int]:
    """The example's values in the active trace, by place."""
    trace = _TRACE.get()
    assert trace is not None, "symbolic sizes belong to a trace that is active"
    return trace._values


def specialize_all() -> None:
    """Specializes the active trace: its results depend on the example's values."""
    trace = _TRACE.get()
    if trace is not None:
        trace.is_specialized = True


def refuse_specialized() -> None:
    """Ends work on a template that would be for the example's sizes alone.

    Raises:
        NoTemplateError: the active trace is specialized.
    """
    trace = _TRACE.get()
    if trace is not None and trace.is_specialized:
        raise NoTemplateError


def is_symbolic(size: Any) -> TypeGuard[SymbolicSize]:
    """Whether a size is symbolic."""
    return type(size) is SymbolicSize


def places_of(numbers: Sequence[Any]) -> list[int] | None:
    """The places of integers in the trace of the symbolic sizes among them; None if none is symbolic, or something is not an integer."""
    trace = next((number.trace for number in numbers if is_symbolic(number)), None)
    if trace is None or not all(is_symbolic(number) or type(number) is int for number in numbers):
        return None
    return [number.place if is_symbolic(number) else trace.constant(number) for number in numbers]


def example_size(size: int) -> int:
    """A size as a number: of a symbolic one the example's, for what does not depend on it."""
    return size.example if is_symbolic(size) else size


def _arithmetic(function: Callable[[Any, Any], Any]) -> Any:
    def compute(size: SymbolicSize, other: Any) -> Any:
        place = _place_of(size.trace, other)
        if place is None:
            return function(size.specialize(), other) if isinstance(other, _READING_NUMBERS) else NotImplemented
        return SymbolicSize(size.trace, size.trace.place_of(function, size.place, place))

    return compute


def _reflected(function: Callable[[Any, Any], Any]) -> Any:
    def compute(size: SymbolicSize, other: Any) -> Any:
        place = _place_of(size.trace, other)
        if place is None:
            return function(other, size.specialize())
        return SymbolicSize(size.trace, size.trace.place_of(function, place, size.place))

    return compute


def _comparison(function: Callable[[Any, Any], Any], *, reflexive: bool) -> Any:
    def compare(size: SymbolicSize, other: Any) -> Any:
        place = _place_of(size.trace, other)
        if place is None:
            return NotImplemented if other is None or type(other) in _NEVER_EQUAL else function(size.specialize(), other)
        return reflexive if place == size.place else size.trace.compare(function, size.place, place)

    return compare


def _place_of(trace: SizeTrace, number: Any) -> int | None:
    """The place of an integer or of Python's float in a trace; None for anything else."""
    if is_symbolic(number):
        assert number.trace is trace, "symbolic sizes of two traces do not meet"
        return number.place
    if type(number) is float:
        return trace.constant(number)
    return trace.constant(int(number)) if isinstance(number, int | np.integer) else None


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

    return lambda size: SymbolicSize(size.trace, size.trace.place_of(apply, size.place, size.place))


def _specializing(function: Callable[..., Any]) -> Any:
    def compute(size: SymbolicSize, *others: Any) -> Any:
        return function(size.specialize(), *others)

    return compute


def slice_indices(part: slice, size: Any) -> tuple[Any, Any, int]:
    """The result of `part.indices(size)`, also for a symbolic size.

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
    """A size that is not known yet, with an example's value. To `isinstance` it is an integer.

    Quotients of sizes, and what is computed with them, are symbolic floats.

    Attributes:
        trace: the trace of what is computed with it.
        place: its place there.
    """

    __slots__ = ("place", "trace")
    __array_ufunc__ = None  # operators of NumPy's integers leave the arithmetic to this class

    def __init__(self, trace: SizeTrace, place: int) -> None:
        self.trace = trace
        self.place = place

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.example)

    @property
    def example(self) -> int:
        """The example's value, for what does not depend on it."""
        return self.trace.value(self.place)

    def specialize(self) -> int:
        """The example's value; the trace is specialized to it."""
        self.trace.is_specialized = True
        return self.trace.value(self.place)

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
        return self.trace.compare(operator.ne, self.place, self.trace.constant(0))

    def __hash__(self) -> int:
        self.specialize()
        raise TypeError("a symbolic size has no hash: caches would take it for its example")

    __index__, __int__ = _specializing(operator.index), _specializing(int)
    __float__ = _specializing(float)
    __and__ = __rand__ = _specializing(operator.and_)
    __or__ = __ror__ = _specializing(operator.or_)
    __xor__ = __rxor__ = _specializing(operator.xor)
    __invert__ = _specializing(operator.invert)
    __pow__ = _specializing(operator.pow)
    __lshift__, __rshift__ = _specializing(operator.lshift), _specializing(operator.rshift)
    __floor__, __ceil__, __abs__ = _applying(math.floor), _applying(math.ceil), _applying(abs)
    __round__ = _specializing(round)
    __trunc__ = _specializing(int)
    bit_length = _specializing(int.bit_length)

    def __rpow__(self, other: Any) -> Any:
        return other ** self.specialize()

    def __reduce__(self) -> Any:
        return int, (self.specialize(),)

    def __format__(self, spec: str) -> str:
        return format(self.example, spec)  # texts are messages, of which what is valid has none

    def __repr__(self) -> str:
        return str(self.example)
