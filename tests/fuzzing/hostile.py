"""Values of hostile callers: objects whose methods raise or lie, numbers at every edge, and whatever else is not a member of a struct."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import dmlpy as dml

OF_SIGNATURES = re.compile(r"(missing|takes|unexpected).* argument|values for argument|takes .* by position, but \d+ values were passed")
"""The messages, Python's and dmlpy's, of the TypeError for a call that does not fit a function's signature."""


class Raises:
    """An object whose methods raise what nobody expects of them."""

    def _raise(self, *arguments: Any, **named: Any) -> Any:
        raise OSError("hostile")

    __len__ = __iter__ = __index__ = __float__ = __int__ = __getitem__ = __eq__ = __bool__ = __array__ = __repr__ = _raise
    __hash__ = None  # type: ignore[assignment]


class RaisingText(str):
    def strip(self, *arguments: Any) -> Any:
        raise OSError("hostile")


class RaisingInteger(int):
    def __index__(self) -> int:
        raise OSError("hostile")

    __int__ = __float__ = __eq__ = __index__  # type: ignore[assignment]
    __hash__ = int.__hash__


class RaisingMapping(dict[str, Any]):
    def items(self) -> Any:
        raise OSError("hostile")

    keys = __iter__ = __len__ = __getitem__ = items  # type: ignore[assignment]


class Lies:
    """An object that is what it is asked for, and is another thing the next time."""

    def __init__(self) -> None:
        self._asked = 0

    def _next(self) -> int:
        self._asked += 1
        return self._asked

    def __len__(self) -> int:
        return self._next() * 1000

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._next() % 3))

    def __index__(self) -> int:
        return self._next()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return self._next()


class OwnTensor(dml.TensorDesc):
    """A caller's tensor class."""

    @property
    def span(self) -> int:
        return -1


class OwnFloat(float):
    """A caller's float class, which equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


def _nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def _endless_list() -> list[Any]:
    found: list[Any] = [1]
    found.append(found)
    return found


INTEGERS = [edge + step for edge in (0, 2**8, 2**16, 2**31, 2**32, 2**63, 2**64, 2**128) for step in (-1, 0, 1)]
INTEGERS += [-(2**31), -(2**63), 10**5000]
FLOATS = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1e39, -3.5e38, 5e-324, 1.5, 65504.0, 65520.0]
TEXTS = ["", "nan", "-INF", "0", "FLOAT32", "DML_TENSOR_DATA_TYPE_INT8", "\0", "\ud800", "a\nb", "é" * 5000, "OWNED_BY_DML", "[1]"]

SHAPES = [(), (0,), (1,), (4,), (2, 2), (1, 0, 3)]
TYPES = ["f4", "i8", "u8", "O", "U3", "V5", "?", "M8[s]"]
SCALARS = [np.float32("nan"), np.longdouble("1e4000"), np.str_("FLOAT32"), np.datetime64("NaT", "s"), np.void(b"x"), np.ma.masked]
STRUCTS = [dml.ActivationReluDesc(), dml.ActivationLinearDesc(alpha=math.nan, beta=-0.0), dml.ScaleBias(scale=1, bias=-0.0)]


MAKERS: list[Callable[[random.Random], Any]] = [
    lambda chance: chance.choice(INTEGERS),
    lambda chance: chance.choice(FLOATS),
    lambda chance: chance.choice(TEXTS),
    lambda chance: chance.choice([None, True, False, ..., NotImplemented, b"", b"\xff\xfe", bytearray(3), memoryview(b"abc"), 1j]),
    lambda chance: chance.choice([np.int8, np.uint8, np.int64, np.uint64, np.float16, np.float64, np.bool_])(chance.randrange(2)),
    lambda chance: chance.choice(SCALARS),
    lambda chance: np.zeros(chance.choice(SHAPES), chance.choice(TYPES)),
    lambda chance: [value(chance) for _ in range(chance.randrange(6))],
    lambda chance: tuple(chance.choice(INTEGERS[:15]) for _ in range(chance.randrange(10))),
    lambda chance: {chance.choice(TEXTS): value(chance) for _ in range(chance.randrange(3))},
    lambda chance: {chance.choice(["DataType", "Sizes", "Type", "Desc", "Strides", "Scale", 1, None]): value(chance) for _ in range(3)},
    lambda chance: set(INTEGERS[: chance.randrange(5)]),
    lambda chance: chance.choice([(item for item in [2, 3]), endless(chance)]),
    lambda chance: chance.choice([_nested(2000), _endless_list(), [Lies()] * 3]),
    lambda chance: chance.choice([Raises, Lies, RaisingText, RaisingInteger, object, OwnFloat])(),
    lambda chance: [chance.choice([Raises, Lies, RaisingText, RaisingInteger])()],
    lambda chance: RaisingMapping(Sizes=[1]),
    lambda chance: chance.choice([int, dml.TensorDesc, dml.ActivationReluDesc, len, lambda: 1, math, Decimal(1), Fraction(1, 3)]),
    lambda chance: chance.choice([*dml.DataType, *dml.TensorFlags, *dml.ReduceFunction]),
    lambda chance: chance.choice([dml.TensorDesc, OwnTensor])(data_type="FLOAT32", sizes=[chance.choice([1, 4, 2**32])]),
    lambda chance: chance.choice(STRUCTS),
]


def endless(chance: random.Random) -> Any:
    """What never ends, or as good as; seldom, as reading as much of it as may be takes a while."""
    if chance.random() > 0.1:
        return iter(())
    return chance.choice([range(10**12), itertools.count(1), itertools.repeat(1), itertools.cycle([1.0]), itertools.repeat(value(chance))])


def value(chance: random.Random) -> Any:
    """A value that no caller in their right mind would give."""
    return chance.choice(MAKERS)(chance)
