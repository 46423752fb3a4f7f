"""Kernels as LLVM code, translated from their syntax trees: `Translation`, the module of a kernel and of all functions that it calls.

A kernel is a Python function whose arguments and variables are numbers, vectors, struct pointers, and tuples of them. It may use:

- assignments, also of tuples and fields; `if`, `while`, `for` over `range`, a tuple or its `enumerate`, `break`, `continue` and `return`;
- operators, comparisons, `and`, `or`, `not`, conditional expressions, `min`, `max`, `abs`, `int`, `float`, NumPy's scalar types,
  `math.log`, `math.sqrt` and `np.rint`;
- fields of structs; functions and operations of `compiler.functions`;
- objects of the functions around it and of its module, which are constants. What they decide is decided when it is compiled.

A variable keeps the type of its first value. Numbers are promoted as NumPy promotes those of arrays. Integers have 64 bits; a quotient
or remainder by 0 is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from llvmlite import ir

from dmlpy.devices.cpu.compiler.functions import allocated
from dmlpy.devices.cpu.compiler.statements import Body
from dmlpy.devices.cpu.compiler.types import Value, int64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dmlpy.devices.cpu.compiler.functions import Function
    from dmlpy.devices.cpu.compiler.types import Term, Type

_ADDRESS, _PLACE = ir.IntType(8).as_pointer(), ir.IntType(32)


class _Compiled(NamedTuple):
    """A function for some types of arguments.

    Attributes:
        function: the LLVM function, whose first argument is the address of memory for its results.
        results: their types.
        returns_tuple: whether they are a tuple.
        terms: the arguments that it was compiled for. Known ones are distinguished by their identity, which is unique while they are held.
    """

    function: Any
    results: Sequence[Type]
    returns_tuple: bool
    terms: Sequence[Term]


class Translation:
    """The LLVM module of a kernel.

    Attributes:
        module: the module.
    """

    def __init__(self) -> None:
        self.module = ir.Module("kernel")
        self._functions: dict[tuple[object, ...], _Compiled] = {}

    def add_kernel(self, function: Callable[..., object], arguments: int, *, returns: bool, symbol: str) -> None:
        """Adds a function of 64-bit integers that Python and other kernels can call.

        Args:
            function: the Python function.
            arguments: how many it takes.
            returns: whether its result is an integer; if not, it returns 0.
            symbol: its name in the machine code.

        Raises:
            KernelError: it cannot be compiled.
        """
        kind = ir.FunctionType(int64.llvm, [int64.llvm] * arguments)
        entry = ir.Function(self.module, kind, symbol)
        body = Body(self._call, entry, function, [Value(int64, argument) for argument in entry.args])
        result = body.translate()
        body.builder.ret(body.arithmetic.converted(result if returns else 0, int64))

    def _call(self, builder: Any, function: Function, terms: Sequence[Term]) -> Term:
        """Appends a call of a function, which is compiled for these types of arguments if it has not been; returns its result."""
        shape, values = _flattened(terms)
        key = (function, *shape)
        if key not in self._functions:
            self._functions[key] = self._compiled(function, terms, values)
        callee, types, returns_tuple, _ = self._functions[key]
        if not types:
            builder.call(callee, [_ADDRESS(None), *(value.llvm for value in values)])
            return None
        room = allocated(builder, ir.LiteralStructType([kind.llvm for kind in types]))
        builder.call(callee, [builder.bitcast(room, _ADDRESS), *(value.llvm for value in values)])
        results = [Value(kind, builder.load(_member(builder, room, place))) for place, kind in enumerate(types)]
        return tuple(results) if returns_tuple else results[0]

    def _compiled(self, function: Function, terms: Sequence[Term], values: Sequence[Value]) -> _Compiled:
        name = f"{function.python.__qualname__}.{len(self._functions)}"
        kind = ir.FunctionType(ir.VoidType(), [_ADDRESS, *(value.type.llvm for value in values)])
        callee = ir.Function(self.module, kind, name)
        callee.linkage = "internal"
        callee.attributes.add("alwaysinline" if function.inlines else "noinline")
        callee.attributes.add("nounwind")
        room, *others = callee.args
        arguments = iter(others)
        body = Body(self._call, callee, function.python, [_with_arguments(term, arguments) for term in terms])
        result = body.translate()
        results = [] if result is None else list(result) if isinstance(result, tuple) else [result]
        types = [each.type for each in results]
        if results:
            typed = body.builder.bitcast(room, ir.LiteralStructType([kind.llvm for kind in types]).as_pointer())
            for place, each in enumerate(results):
                body.builder.store(each.llvm, _member(body.builder, typed, place))
        body.builder.ret_void()
        return _Compiled(callee, types, isinstance(result, tuple), terms)


def _flattened(terms: Sequence[Term]) -> tuple[list[object], list[Value]]:
    """The key of a function's compiled form by its arguments, and the arguments that are passed when it runs."""
    shape: list[object] = []
    values: list[Value] = []
    for term in terms:
        if isinstance(term, Value):
            shape.append(term.type)
            values.append(term)
        elif isinstance(term, tuple):
            inner_shape, some = _flattened(term)
            shape.append(tuple(inner_shape))
            values += some
        else:
            shape.append(("known", id(term)))
    return shape, values


def _with_arguments(term: Term, arguments: Iterator[Any]) -> Term:
    """A term with a function's arguments as its values."""
    if isinstance(term, Value):
        return Value(term.type, next(arguments))
    return tuple(_with_arguments(each, arguments) for each in term) if isinstance(term, tuple) else term


def _member(builder: Any, room: Any, place: int) -> Any:
    return builder.gep(room, [_PLACE(0), _PLACE(place)], inbounds=True)
