"""The compiled sums and extremes of integers along rows, and running sums, also of neighbouring columns at once. Sums wrap around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.memory_kernels import set_long, set_word
from dmlpy.devices.cpu.reduction.plan import GroupParameters, Layout
from dmlpy.devices.cpu.simd import ADDRESS, Loop
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_running_integer_sum(layout: Layout, width: int, isa: Isa) -> TaskBody:
    """Builds a thread's part of running sums of integers, to be compiled.

    Args:
        layout: the layout of the entries, which have one axis.
        width: bytes of an element.
        isa: the instruction set that it is compiled for.
    """
    lanes, sum_one, sum_vector = isa.lanes, _running_sum(width, 1), _running_sum(width, isa.lanes)
    is_row = layout == "rows"

    @jit
    def run_units(p: GroupParameters, first: Any, last: Any, own: Any) -> None:
        # In variables: what is written might be the parameters, for all that LLVM knows.
        count, exclusive, x_step, y_step = p.entry_size, p.exclusive, width if is_row else p.x_entry, width if is_row else p.y_entry
        x_first, y_first = 0, 0
        if p.backward != 0:
            x_first, y_first = (count - 1) * x_step, (count - 1) * y_step
            x_step, y_step = -x_step, -y_step
        for number in range(first, last):
            group, column = number // p.columns, number % p.columns
            group, group1 = group // p.group_size, group % p.group_size
            x = p.x + group * p.x_group + group1 * p.x_group1 + column * lanes * width + x_first
            y = p.y + group * p.y_group + group1 * p.y_group1 + column * lanes * width + y_first
            left = p.inner - column * lanes
            if is_row:
                sum_one(x, x_step, y, y_step, count, exclusive)
            elif left >= lanes:
                sum_vector(x, x_step, y, y_step, count, exclusive)
            else:
                for lane in range(left):
                    sum_one(x + lane * width, x_step, y + lane * width, y_step, count, exclusive)

    return share_units(GroupParameters, run_units)


def _running_sum(width: int, lanes: int) -> Any:
    """The intrinsic `running_sum(x, x_step, y, y_step, count, exclusive)` of vectors of integers, at least one, some bytes apart."""

    @intrinsic
    def running_sum(x: Any, x_step: Any, y: Any, y_step: Any, count: Any, exclusive: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            x, x_step, y, y_step, count, exclusive = arguments
            kind = ir.VectorType(ir.IntType(8 * width), lanes)
            excludes = builder.icmp_signed("!=", exclusive, ADDRESS(0))
            loop = Loop(builder, [x, y, count, ir.Constant(kind, [0] * lanes)])
            source, target, left, total = loop.values
            following = builder.add(total, builder.load(builder.inttoptr(source, kind.as_pointer()), align=width))
            found = builder.select(excludes, total, following)
            builder.store(found, builder.inttoptr(target, kind.as_pointer()), align=width)
            left = builder.sub(left, ADDRESS(1))
            another = [builder.add(source, x_step), builder.add(target, y_step), left, following]
            loop.repeat_while(builder.icmp_signed(">", left, ADDRESS(0)), another)

        return types.void(*[types.int64] * 6), generate

    return running_sum


class _Fold:
    """A function of all integers of a group.

    Args:
        function: `sum`, `min` or `max`.
        dtype: the type of the integers.
    """

    def __init__(self, function: str, dtype: np.dtype[Any]) -> None:
        self._function, self._sign = function, "s" if dtype.kind == "i" else "u"
        self.width, self.integer = dtype.itemsize, ir.IntType(8 * dtype.itemsize)
        limits = np.iinfo(dtype)
        self.start = {"sum": 0, "min": int(limits.max), "max": int(limits.min)}[function]

    def combined(self, builder: Any, x: Any, y: Any) -> Any:
        if self._function == "sum":
            return builder.add(x, y)
        compare = builder.icmp_signed if self._sign == "s" else builder.icmp_unsigned
        return builder.select(compare("<" if self._function == "min" else ">", x, y), x, y)

    def of_lanes(self, builder: Any, vector: Any) -> Any:
        name = "add" if self._function == "sum" else self._sign + self._function
        function = f"llvm.vector.reduce.{name}.v{vector.type.count}i{8 * self.width}"
        return builder.call(declared(builder.module, ir.FunctionType(self.integer, [vector.type]), function), [vector])

    def from_memory(self, builder: Any, begin: Any, step: Any, count: Any, start: Any) -> Any:
        """A start combined with `count` integers or vectors, as it is one, at least one, some bytes apart."""
        loop = Loop(builder, [begin, count, start])
        place, left, total = loop.values
        total = self.combined(builder, total, builder.load(builder.inttoptr(place, start.type.as_pointer()), align=self.width))
        left = builder.sub(left, ADDRESS(1))
        loop.repeat_while(builder.icmp_signed(">", left, ADDRESS(0)), [builder.add(place, step), left, total])
        return total

    def all_of(self, lanes: int) -> Any:
        return ir.Constant(ir.VectorType(self.integer, lanes), [self.start] * lanes)


def build_integer_reduction(function: str, kind: str, isa: Isa) -> TaskBody:
    """Builds a thread's part of a reduction of integers along rows, to be compiled.

    Args:
        function: `sum`, `min` or `max`.
        kind: NumPy's name of the integers' type.
        isa: the instruction set that it is compiled for.
    """
    fold, lanes = _Fold(function, np.dtype(kind)), isa.lanes
    width, of_some, of_vectors = fold.width, _of_some(fold), _of_vectors(fold, lanes)
    set_one = set_long if fold.width == ADDRESS.width // 8 else set_word
    start = int(np.array(fold.start, kind).astype(np.int64))  # the same bits, of 64-bit integers

    @jit
    def run_row(p: GroupParameters, x: Any, y: Any) -> None:
        whole, total = p.entry_size // lanes, start
        for outer in range(p.outer_size):
            row = x + outer * p.x_outer
            if whole > 0:
                total = of_vectors(row, whole, total)
            if whole * lanes < p.entry_size:
                total = of_some(row + whole * lanes * width, width, p.entry_size - whole * lanes, total)
        set_one(y, total)

    @jit
    def run_units(p: GroupParameters, first: Any, last: Any, own: Any) -> None:
        for number in range(first, last):
            group, group1 = number // p.group_size, number % p.group_size
            run_row(p, p.x + group * p.x_group + group1 * p.x_group1, p.y + group * p.y_group + group1 * p.y_group1)

    return share_units(GroupParameters, run_units)


def _through_long(fold: _Fold, generate: Callable[[Any, list[Any], Any], Any]) -> Callable[[Any, Any], Any]:
    """Code whose last argument and result are integers of the fold's type, with 64-bit ones in their place."""

    def through(builder: Any, arguments: Any) -> Any:
        *others, start = arguments
        narrows = fold.integer.width < ADDRESS.width
        found = generate(builder, others, builder.trunc(start, fold.integer) if narrows else start)
        return builder.sext(found, ADDRESS) if narrows else found

    return through


def _of_some(fold: _Fold) -> Any:
    """The intrinsic `of_some(address, step, count, start)`."""

    def fold_all(builder: Any, others: list[Any], start: Any) -> Any:
        address, step, count = others
        return fold.from_memory(builder, address, step, count, start)

    @intrinsic
    def of_some(address: Any, step: Any, count: Any, start: Any) -> Any:
        return types.int64(*[types.int64] * 4), _through_long(fold, fold_all)

    return of_some


def _of_vectors(fold: _Fold, lanes: int) -> Any:
    """The intrinsic `of_vectors(address, count, start)` of all lanes of vectors, one after the other."""

    def fold_all(builder: Any, others: list[Any], start: Any) -> Any:
        address, count = others
        vector = fold.from_memory(builder, address, ADDRESS(lanes * fold.width), count, fold.all_of(lanes))
        return fold.combined(builder, start, fold.of_lanes(builder, vector))

    @intrinsic
    def of_vectors(address: Any, count: Any, start: Any) -> Any:
        return types.int64(*[types.int64] * 3), _through_long(fold, fold_all)

    return of_vectors
