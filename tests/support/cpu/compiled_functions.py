"""Functions that the CPU device's compiler translates: for its tests, which run them as Python, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import ExternalFunction, called, intrinsic, jit
from dmlpy.devices.cpu.simd import float_at, set_float, set_integer, struct_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LIMIT = 100
FIELDS = np.dtype([("count", np.int64), ("scale", np.float32), ("total", np.float64), ("small", np.int32)])


def arithmetic(x: Any, y: Any) -> Any:
    return (x + 3) * y - (x & 12) + (y | 5) - (x ^ y) + (x << 2) - (y >> 1) + -x


def quotients(x: Any, y: Any) -> Any:
    """Rounded down, of divisors of both signs; those that are known, too."""
    return x // (y * 2 + 1) * 1000 + x % (y * 2 + 1) + x // 7 + x % 7 * 31 + x // -3 + x % -4


def comparisons(x: Any, y: Any) -> Any:
    found = 0
    if x < y:
        found += 1
    if x <= y:
        found += 2
    if x == y or x == -y:
        found += 4
    if not (x != y and y > 0):
        found += 8
    if -10 <= x < 10 and y in (1, 2, x):
        found += 16
    return found + (32 if x >= y else 64)


def mixed_numbers(x: Any, y: Any) -> Any:
    """Integers and floats of 64 bits."""
    half = x / 2 + float(y) * 0.25
    return int(half * 4) + int(math.sqrt(abs(x) * 1.0) * 8) + int(np.rint(half)) + int(min(half, 3) + max(x, 2.5))


def extremes(x: Any, y: Any) -> Any:
    return min(x, y, 7) * 100 + max(x, y, -7) + abs(x - y)


def extremes_of_truths(x: Any, y: Any) -> Any:
    return int(min(x > 0, y > 0)) + 2 * int(max(x > 0, y > 0)) + 4 * int((x > 0) < (y > 0))


def nested_loops(x: Any, y: Any) -> Any:
    total = 0
    for outer in range(x % 5):
        for inner in range(outer, 20, 3):
            if inner == y % 8:
                continue
            if inner > 15:
                break
            total += outer * inner
    for down in range(y % 6, -2, -1):
        total = total * 2 + down
    return total


def loops_of_any_step(x: Any, y: Any) -> Any:
    total, step = 0, x if x != 0 else 1
    for number in range(-y, y, step):
        total = (total * 3 + number) & 0xFFFF
    return total


def a_loop_without_end(x: Any, y: Any) -> Any:
    while True:
        if x > _LIMIT:
            return x
        x += abs(y) + 1


def tuples(x: Any, y: Any) -> Any:
    pair, (first, second) = (x, y), (y, x)
    first, second = second, first + 1
    chosen = pair if x > y else (first, second)
    total = 0
    for number, value in enumerate((*chosen, 5)):
        total += value * (number + 1)
    return total + pair[1]


@jit
def _ordered(x: Any, y: Any) -> Any:
    if x < y:
        return x, y
    return y, x


@called
def _difference(x: Any, y: Any) -> Any:
    low, high = _ordered(x, y)
    return high - low


def calls(x: Any, y: Any) -> Any:
    low, _ = _ordered(x, 3)
    return _difference(x, y) * 7 + _difference(1, low)


def variables_of_several_types(x: Any, y: Any) -> Any:
    """A name stands for another variable where it gets a value of another type."""
    value = x
    value = value * 0.5
    if x > y:
        part = 1.5
        total = int(part + value)
    else:
        part = 2
        total = part + y
    return total


FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    arithmetic,
    quotients,
    comparisons,
    mixed_numbers,
    extremes,
    extremes_of_truths,
    nested_loops,
    loops_of_any_step,
    a_loop_without_end,
    tuples,
    calls,
    variables_of_several_types,
]
"""Functions of two integers, which compiled return what Python returns."""


def build(name: str) -> Callable[..., Any]:
    return {function.__name__: function for function in FUNCTIONS}[name]


def build_writer(name: str) -> Callable[..., None]:
    """A kernel that writes the result of a function to an address."""
    function = jit(build(name))

    def write(place: Any, x: Any, y: Any) -> None:
        set_integer(place, function(x, y))

    return write


def build_known(scaled: bool, factor: int) -> Callable[..., None]:
    """What is decided when the kernel is compiled: the other branch need not make sense."""
    nothing: Any = None

    def known(place: Any, x: Any) -> None:
        if scaled and factor > 1:
            set_integer(place, x * factor if nothing is None else nothing(x))
        else:
            set_integer(place, nothing(x) if scaled else -x)

    return known


def build_fields() -> Callable[..., None]:
    """Reads and writes the fields of a struct."""
    fields_at = struct_view(FIELDS)

    def write(address: Any) -> None:
        p = fields_at(address)
        p.count += p.small * p.small + p.small
        p.scale = p.scale * p.count
        p.total = p.scale + p.total
        p.small = 5

    return write


def build_promotions() -> Callable[..., None]:
    """Products of FLOAT32: with one of its type rounded at once, with integers and other floats in 64 bits."""
    tenth = np.float32(0.1)

    def write(source: Any, target: Any, factor: Any) -> None:
        x = float_at(source)
        set_float(target, x * tenth * tenth)
        set_float(target + 4, np.float32(x * 0.1 * 0.1))
        set_float(target + 8, np.float32(x * factor * tenth))
        set_float(target + 12, -x if x > 0 else x + 1)

    return write


def promotions(x: np.float32, factor: int) -> NDArray[np.float32]:
    """What it writes."""
    tenth, wide = np.float32(0.1), np.float64(x)
    return np.array([x * tenth * tenth, wide * 0.1 * 0.1, wide * factor * tenth, -wide if x > 0 else wide + 1], np.float32)


def build_divisions() -> Callable[..., None]:
    """A quotient and a remainder by any number."""

    def write(place: Any, x: Any, y: Any) -> None:
        set_integer(place, x // y)
        set_integer(place + 8, x % y)

    return write


def build_external() -> Callable[..., None]:
    """A call of a C function."""
    magnitude = ExternalFunction("labs", types.int64(types.int64))

    def write(place: Any, x: Any) -> None:
        set_integer(place, magnitude(x))

    return write


# Functions that cannot be compiled


def _of_two_types(x: Any) -> None:
    total = x
    for _ in range(x):
        total = total * 0.5


def _returns_two_types(x: Any) -> Any:
    if x > 0:
        return 1
    return 0.5


def _returns_sometimes(x: Any) -> Any:
    if x > 0:
        return 1


def _remainder_of_floats(x: Any) -> Any:
    return int(x * 0.5 % 2.0)


def _among_others(x: Any) -> Any:
    return x not in (1, 2)


def _beyond(x: Any) -> Any:
    return (x, 1)[2]  # type: ignore[misc]


def _ambiguous(x: Any) -> Any:
    value = x * 0.5 if x > 3 else 1.5
    if x > 0:
        other = value
    else:
        other = x
        other += 1
    return other + x


def _lists(x: Any) -> Any:
    return [x]


def _calls_python(x: Any) -> Any:
    return print(x)


def _nameless(x: Any) -> Any:
    return nowhere + x  # type: ignore[name-defined]  # noqa: F821  (an unknown name is the case)


def _by_name(x: Any) -> Any:
    return _ordered(x=x, y=x)


def _with_statement(x: Any) -> None:
    with x:
        pass


def _no_field(x: Any) -> Any:
    return struct_view_of_fields(x).nothing


def _element(x: Any) -> Any:
    return (x, 1)[x]


struct_view_of_fields = struct_view(FIELDS)
REFUSED: list[tuple[Callable[..., Any], str]] = [
    (_of_two_types, r"total = total \* 0\.5: the variable is of type int64, the value of type float64"),
    (_returns_two_types, r"return 0\.5: the function returns values of several types"),
    (_returns_sometimes, r"_returns_sometimes returns a value, but not always"),
    (_remainder_of_floats, r"return int\(x \* 0\.5 % 2\.0\): floats of kernels have no operator Mod"),
    (_among_others, r"return x not in \(1, 2\): values of kernels have no comparison Not"),
    (_beyond, r"return \(x, 1\)\[2\]: tuple index out of range"),
    (_ambiguous, r"return other \+ x: a variable has values of several types"),
    (_lists, r"return \[x\]: kernels have no expressions such as \[x\]"),
    (_calls_python, r"return print\(x\): kernels cannot call print"),
    (_nameless, r"return nowhere \+ x: .*nowhere has no value here"),
    (_by_name, r"arguments of kernels' functions are given in order"),
    (_with_statement, r"with x:: kernels have no such statement"),
    (_no_field, r"return struct_view_of_fields\(x\)\.nothing: .*nothing"),
    (_element, r"return \(x, 1\)\[x\]: only tuples have elements, at places that are known"),
]
"""Functions that cannot be compiled, and what the message says after the file and the line."""


@intrinsic
def _two_numbers(pair: Any, factor: Any) -> Any:
    def generate(builder: Any, arguments: Any) -> Any:
        packed, factor = arguments
        first, second = (builder.extract_value(packed, place) for place in range(2))
        return builder.add(builder.mul(first, factor), second)

    return types.int64(types.UniTuple(types.int64, 2), types.int64), generate


def build_intrinsic() -> Callable[..., None]:
    """An intrinsic of a tuple: booleans and known numbers are converted to what it takes."""

    def write(place: Any, x: Any) -> None:
        set_integer(place, _two_numbers((x, x > 2), 10))

    return write
