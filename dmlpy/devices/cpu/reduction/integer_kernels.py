"""The compiled sums, products and extremes of integers, and extremes of FLOAT64, along rows and of neighbouring columns at once.

Sums and products wrap around. Extremes of FLOAT64 are those of integers in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.memory_kernels import masked_load
from dmlpy.devices.cpu.reduction.kernels import for_each_unit_in_place
from dmlpy.devices.cpu.reduction.plan import COLUMN_VECTORS, GroupParameters
from dmlpy.devices.cpu.simd import ADDRESS, Loop, lanes_below

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody


class Fold:
    """A function of all integers of a group.

    Args:
        function: `sum`, `multiply`, `min` or `max`.
        dtype: the type of the integers.
    """

    def __init__(self, function: str, dtype: np.dtype[Any]) -> None:
        self._function, self._sign = function, "s" if dtype.kind == "i" else "u"
        self.width, self.integer = dtype.itemsize, ir.IntType(8 * dtype.itemsize)
        limits = np.iinfo(dtype)
        self.start = {"sum": 0, "multiply": 1, "min": int(limits.max), "max": int(limits.min)}[function]
        self.absent = self.start
        """The bits of an element that changes nothing."""

    @classmethod
    def of(cls, function: str, kind: str) -> Fold:
        """The fold of a type by NumPy's name: of FLOAT64 `min` and `max` only."""
        return DoubleExtreme(function) if kind == "float64" else cls(function, np.dtype(kind))

    def read(self, builder: Any, bits: Any) -> Any:
        """The integers that are folded, by the bits of elements."""
        return bits

    def written(self, builder: Any, total: Any) -> Any:
        """The bits of the element that a result stands for."""
        return total

    def start_of(self, kind: str) -> int:
        """The bits of the start as a 64-bit integer."""
        return int(np.array(self.start, "int64" if kind == "float64" else kind).astype(np.int64))

    def combined(self, builder: Any, x: Any, y: Any) -> Any:
        if self._function == "sum":
            return builder.add(x, y)
        if self._function == "multiply":
            return builder.mul(x, y)
        compare = builder.icmp_signed if self._sign == "s" else builder.icmp_unsigned
        return builder.select(compare("<" if self._function == "min" else ">", x, y), x, y)

    def of_lanes(self, builder: Any, vector: Any) -> Any:
        name = {"sum": "add", "multiply": "mul"}.get(self._function, self._sign + self._function)
        function = f"llvm.vector.reduce.{name}.v{vector.type.count}i{8 * self.width}"
        return builder.call(declared(builder.module, ir.FunctionType(self.integer, [vector.type]), function), [vector])

    def from_memory(self, builder: Any, begin: Any, step: Any, count: Any, start: Any) -> Any:
        """A start combined with `count` integers or vectors, as it is one, at least one, some bytes apart."""
        loop = Loop(builder, [begin, count, start])
        place, left, total = loop.values
        bits = builder.load(builder.inttoptr(place, start.type.as_pointer()), align=self.width)
        total = self.combined(builder, total, self.read(builder, bits))
        left = builder.sub(left, ADDRESS(1))
        loop.repeat_while(builder.icmp_signed(">", left, ADDRESS(0)), [builder.add(place, step), left, total])
        return total

    def all_of(self, lanes: int) -> Any:
        return ir.Constant(ir.VectorType(self.integer, lanes), [self.start] * lanes)


class DoubleExtreme(Fold):
    """The least or largest double: NaN if there is one, and -0 is less than 0.

    Doubles are in the order of their bits as integers, those of negative ones in the reverse order. NaN is given an end of it.
    """

    def __init__(self, function: str) -> None:
        super().__init__(function, np.dtype(np.int64))
        infinity = np.inf if function == "min" else -np.inf
        self.absent, self._nan = int(np.float64(infinity).view(np.int64)), -(1 << 63) if function == "min" else (1 << 63) - 1
        self.start = self.absent if function == "min" else self.absent ^ ((1 << 63) - 1)

    def read(self, builder: Any, bits: Any) -> Any:
        double: Any = ir.DoubleType()
        value = builder.bitcast(bits, ir.VectorType(double, bits.type.count) if isinstance(bits.type, ir.VectorType) else double)
        is_nan = builder.fcmp_unordered("uno", value, value)
        return builder.select(is_nan, self._repeated(bits.type, self._nan), self.written(builder, bits))

    def written(self, builder: Any, total: Any) -> Any:
        signs = builder.ashr(total, self._repeated(total.type, 63))
        return builder.xor(total, builder.and_(signs, self._repeated(total.type, (1 << 63) - 1)))

    @staticmethod
    def _repeated(kind: Any, value: int) -> Any:
        return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def build_integer_columns(function: str, kind: str, isa: Isa) -> TaskBody:
    """Builds a thread's part of a reduction along columns, to be compiled. The arguments are those of `build_integer_reduction`."""
    fold, lanes, wide = Fold.of(function, kind), isa.lanes, COLUMN_VECTORS * isa.lanes
    width, (of_one, of_vector, of_vectors) = fold.width, (_of_columns(fold, count) for count in (1, lanes, wide))

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        outer, outer_step, entries, step = p.outer_size, p.x_outer, p.entry_size, p.x_entry
        if left >= wide:
            of_vectors(x, outer_step, outer, step, entries, y)
        else:
            while left >= lanes:
                of_vector(x, outer_step, outer, step, entries, y)
                x, y, left = x + lanes * width, y + lanes * width, left - lanes
            for lane in range(left):
                of_one(x + lane * width, outer_step, outer, step, entries, y + lane * width)

    return for_each_unit_in_place(unit, width, isa, COLUMN_VECTORS)


def _of_columns(fold: Fold, lanes: int) -> Any:
    """The intrinsic `of_columns(x, outer_step, outer, step, entries, y)` of neighbouring columns, whose entries have two axes."""

    @intrinsic
    def of_columns(x: Any, outer_step: Any, outer: Any, step: Any, entries: Any, y: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            x, outer_step, outer, step, entries, y = arguments
            loop = Loop(builder, [x, outer, fold.all_of(lanes)])
            begin, left, total = loop.values
            total = fold.from_memory(builder, begin, step, entries, total)
            left = builder.sub(left, ADDRESS(1))
            loop.repeat_while(builder.icmp_signed(">", left, ADDRESS(0)), [builder.add(begin, outer_step), left, total])
            total = fold.written(builder, total)
            builder.store(total, builder.inttoptr(y, total.type.as_pointer()), align=fold.width)

        return types.void(*[types.int64] * 6), generate

    return of_columns


def build_integer_reduction(function: str, kind: str, isa: Isa) -> TaskBody:
    """Builds a thread's part of a reduction of integers or doubles along rows, to be compiled.

    Args:
        function: `sum`, `multiply`, `min` or `max`.
        kind: NumPy's name of the elements' type.
        isa: the instruction set that it is compiled for.
    """
    fold, lanes = Fold.of(function, kind), isa.lanes
    width, of_some, of_vectors = fold.width, of_some_lanes(fold, lanes), of_whole_vectors(fold, lanes)
    set_one = _result(fold)
    start = fold.start_of(kind)

    @jit
    def fold_row(p: GroupParameters, x: Any, y: Any) -> None:
        whole, total = p.entry_size // lanes, start
        for outer in range(p.outer_size):
            row = x + outer * p.x_outer
            if whole > 0:
                total = of_vectors(row, whole, total)
            if whole * lanes < p.entry_size:
                total = of_some(row + whole * lanes * width, p.entry_size - whole * lanes, total)
        set_one(y, total)

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        if p.outer_size == 1 and p.entry_size <= lanes:
            set_one(y, of_some(x, p.entry_size, start))
        else:
            fold_row(p, x, y)

    return for_each_unit_in_place(unit, width, isa)


def _result(fold: Fold) -> Any:
    """The intrinsic `set_one(address, total)`, which writes a result that is a 64-bit integer."""

    @intrinsic
    def set_one(address: Any, total: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            address, total = arguments
            narrow = builder.trunc(total, fold.integer) if fold.integer.width < ADDRESS.width else total
            builder.store(fold.written(builder, narrow), builder.inttoptr(address, fold.integer.as_pointer()), align=1)

        return types.void(types.int64, types.int64), generate

    return set_one


def _through_long(fold: Fold, generate: Callable[[Any, list[Any], Any], Any]) -> Callable[[Any, Any], Any]:
    """Code whose last argument and result are integers of the fold's type, with 64-bit ones in their place."""

    def through(builder: Any, arguments: Any) -> Any:
        *others, start = arguments
        narrows = fold.integer.width < ADDRESS.width
        result = generate(builder, others, builder.trunc(start, fold.integer) if narrows else start)
        return builder.sext(result, ADDRESS) if narrows else result

    return through


def of_some_lanes(fold: Fold, lanes: int) -> Any:
    """The intrinsic `of_some(address, count, start)` of the first lanes of a vector."""

    def fold_all(builder: Any, others: list[Any], start: Any) -> Any:
        address, count = others
        kind = ir.VectorType(fold.integer, lanes)
        none = ir.Constant(kind, [fold.absent] * lanes)
        pointer = builder.inttoptr(address, kind.as_pointer())
        values = fold.read(builder, masked_load(builder, pointer, fold.width, lanes_below(builder, count, lanes), none))
        return fold.combined(builder, start, fold.of_lanes(builder, values))

    @intrinsic
    def of_some(address: Any, count: Any, start: Any) -> Any:
        return types.int64(*[types.int64] * 3), _through_long(fold, fold_all)

    return of_some


def of_whole_vectors(fold: Fold, lanes: int) -> Any:
    """The intrinsic `of_vectors(address, count, start)` of all lanes of vectors, one after the other."""

    def fold_all(builder: Any, others: list[Any], start: Any) -> Any:
        address, count = others
        vector = fold.from_memory(builder, address, ADDRESS(lanes * fold.width), count, fold.all_of(lanes))
        return fold.combined(builder, start, fold.of_lanes(builder, vector))

    @intrinsic
    def of_vectors(address: Any, count: Any, start: Any) -> Any:
        return types.int64(*[types.int64] * 3), _through_long(fold, fold_all)

    return of_vectors
