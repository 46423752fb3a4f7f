"""Fuzzes expressions of `dmlpy.x`: long ones of functions and operands that nobody would write together.

    python -m tests.fuzzing.expressions --seconds 60 --seed 1

Promises: each call gives an expression or an error of dmlpy's own. `tests.fuzzing.graphs` checks its graph.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy import x
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from dmlpy.x.signatures import function_name
from tests.fuzzing import graphs, hostile
from tests.fuzzing.tally import FuzzRun, run
from tests.support.descs.expression_calls import call_of

MAX_ELEMENTS = 2**40
"""Of an expression that another one is made of."""
BINARY: list[Callable[[Any, Any], Any]] = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.mod, operator.pow, operator.matmul),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, operator.getitem),
]
UNARY: list[Callable[[Any], Any]] = [operator.neg, operator.pos, abs, repr]
WAYS = {
    "binary": lambda fuzz, operands: _binary(fuzz, operands),
    "view": lambda fuzz, operands: _view(fuzz, operands),
    "function": lambda fuzz, operands: _function(fuzz, operands),
    "sample": lambda fuzz, operands: _sample(fuzz),
}


def expressions(fuzz: FuzzRun) -> str:
    """Some calls of which each takes what those before it gave, or anything; then the graph of the last ones."""
    chance = fuzz.chance
    operands: list[Any] = [x.input("x", [2, 3]), x.input("y", [2, 3]), *_inputs(fuzz)]
    told: list[str] = []
    for _ in range(chance.choice([1, 2, 4, 8])):
        made = WAYS[chance.choice(list(WAYS))]
        with fuzz.answers(told):
            try:
                operands += _expressions(made(fuzz, operands))
            except TypeError as error:
                if not hostile.OF_SIGNATURES.search(str(error)):
                    raise
    built: list[dml.Graph] = []
    with fuzz.answers(told):
        last = operands[-chance.choice([1, 1, 2, 3]) :]
        built.append(x.graph(chance.choice([last[0], last, dict(zip("abc", last, strict=False))])))
    return graphs.used(fuzz, built[0]) if built else told[-1]


def _expressions(given: Any) -> list[Any]:
    """The expressions in what a call gave, but for those that would make all behind them too large."""
    found = given if isinstance(given, tuple | list) else [given]
    return [item for item in found if isinstance(item, x.Expression) and np.prod(item.sizes, dtype=float) < MAX_ELEMENTS]


def _inputs(fuzz: FuzzRun) -> list[Any]:
    """An input of any type and sizes, unless these are refused."""
    chance = fuzz.chance
    sizes = chance.choice([[2, 3], [1], [1, 2, 3, 4], [3, 1], [1] * 8, [2**16, 1, 2], [2**31, 2]])
    found: list[Any] = []
    with fuzz.answers([]):
        found.append(x.input("z", sizes, chance.choice(list(dml.DataType)), owned_by_dml=chance.random() < 0.2))
    return found


def _operand(fuzz: FuzzRun, operands: Sequence[Any]) -> Any:
    chance = fuzz.chance
    way = chance.random()
    if way < 0.7:
        return chance.choice(operands)
    if way < 0.85:
        return chance.choice([0, 1, -1, 2.5, 2**31, np.ones((2, 3), np.float32), np.arange(3), -0.0, 1e39, True])
    return hostile.value(chance)


def _binary(fuzz: FuzzRun, operands: Sequence[Any]) -> Any:
    chance = fuzz.chance
    if chance.random() < 0.2:
        return chance.choice(UNARY)(chance.choice(operands))
    call, one, other = chance.choice(BINARY), chance.choice(operands), _operand(fuzz, operands)
    if call is operator.getitem:
        return one[_key(fuzz)]
    return call(other, one) if isinstance(other, int | float) and chance.random() < 0.5 else call(one, other)


def _key(fuzz: FuzzRun) -> Any:
    chance = fuzz.chance
    ends = [None, 0, 1, -1, 2, -5, 2**32, -(2**64)]
    parts: list[Any] = [0, 1, -1, -3, 2**32, ..., None, slice(None), slice(chance.choice(ends), chance.choice(ends), chance.choice(ends))]
    key = tuple(chance.choice(parts) for _ in range(chance.choice([1, 1, 2, 3, 9])))
    return hostile.value(chance) if chance.random() < 0.1 else key if len(key) > 1 else key[0]


def _numbers(fuzz: FuzzRun) -> list[Any]:
    chance = fuzz.chance
    return [chance.choice([0, 1, 1, 2, 3, -1, -1, 6, 2**31, 2**32 - 1, 2**64]) for _ in range(chance.choice([0, 1, 2, 2, 3, 4, 9]))]


def _view(fuzz: FuzzRun, operands: Sequence[Any]) -> Any:
    chance = fuzz.chance
    given = chance.choice(operands)
    name = chance.choice(["reshape", "transpose", "broadcast", "with_leading_ones", "slice", "packed", "viewed"])
    if name == "packed":
        return given.packed()
    if name == "viewed":
        return given.viewed(dml.TensorDesc(data_type=chance.choice(list(dml.DataType)), sizes=[chance.choice([1, 2, 6, 24])]))
    if name == "slice":
        return given.slice(*(_numbers(fuzz) for _ in range(chance.choice([2, 3]))))
    if name == "with_leading_ones":
        return given.with_leading_ones(chance.choice([0, 1, 2, 4, 8, 9, 2**32, -1]))
    if name == "transpose" and chance.random() < 0.6:
        return given.transpose(*chance.sample(range(len(given.sizes)), len(given.sizes)))
    return getattr(given, name)(*_numbers(fuzz))


@cache
def _functions() -> dict[str, list[str]]:
    """The parameters of each function of expressions."""
    found: dict[str, Any] = {name: getattr(x, name) for name in dir(x) if not name.startswith("_")}
    return {
        name: list(inspect.signature(function).parameters)
        for name, function in found.items()
        if callable(function) and not inspect.isclass(function) and name not in ("input", "graph", "compile", "constant", "operator")
    }


def _function(fuzz: FuzzRun, operands: Sequence[Any]) -> Any:
    """A function of some operands, with an argument of any kind now and then."""
    chance = fuzz.chance
    name = chance.choice(list(_functions()))
    parameters = _functions()[name]
    count = min(chance.choice([1, 1, 2, 3]), max(len(parameters), 1))
    others = {chance.choice(parameters): _argument(fuzz) for _ in range(chance.choice([0, 0, 1, 2]))} if parameters else {}
    return getattr(x, name)(*(_operand(fuzz, operands) for _ in range(count)), **others)


def _argument(fuzz: FuzzRun) -> Any:
    return hostile.value(fuzz.chance) if fuzz.chance.random() < 0.5 else _numbers(fuzz)


def _sample(fuzz: FuzzRun) -> Any:
    """The function of an operator as in its sample, with another argument."""
    chance = fuzz.chance
    desc = sample(OPERATORS[chance.choice(list(OPERATORS))])
    if not desc.inputs() or not hasattr(x, function_name(type(desc))):
        return None
    function, operands, others = call_of(desc)
    if others and chance.random() < 0.7:
        others[chance.choice(list(others))] = _argument(fuzz)
    return function(*operands, **others)


KINDS = {"expressions": expressions}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the fuzzer; the status of the process."""
    return run(arguments, __doc__, KINDS)


if __name__ == "__main__":
    sys.exit(main())
