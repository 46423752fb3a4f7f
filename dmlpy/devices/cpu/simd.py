"""Vectors of floats for compiled kernels: a type, its operations as LLVM instructions, and the product of a matrix with columns.

Memory is addressed by integers, as plans get it. Every operation is one LLVM instruction on as many lanes as the processor's registers
have, so a kernel's instructions follow from its source and not from a compiler's vectorizer.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.structs import KernelStruct

S = TypeVar("S", bound="KernelStruct")

FLOAT, ADDRESS, INDEX = ir.FloatType(), ir.IntType(64), ir.IntType(32)


def each_count(builder: Any, count: Any, most: int) -> Iterator[int]:
    """Yields the numbers from 1 to `most`, with the builder in the branch for `count` equal to the number; other counts reach no branch."""
    end = builder.append_basic_block("counted")
    choice = builder.switch(count, end)
    for number in range(1, most + 1):
        block = builder.append_basic_block(f"count{number}")
        choice.add_case(ADDRESS(number), block)
        builder.position_at_end(block)
        yield number
        builder.branch(end)
    builder.position_at_end(end)


def each_below(builder: Any, values: Sequence[Any], count: Any) -> Iterator[Any]:
    """Yields the values one after the other, with the builder in code that is reached for the first `count` only."""
    end = builder.append_basic_block("reached")
    for number, value in enumerate(values):
        block = builder.append_basic_block(f"value{number}")
        builder.cbranch(builder.icmp_signed(">", count, ADDRESS(number)), block, end)
        builder.position_at_end(block)
        yield value
    builder.branch(end)
    builder.position_at_end(end)


def repeated(builder: Any, value: Any, lanes: int) -> Any:
    """A splat: a number of any type in all lanes."""
    none = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(none, value, INDEX(0))
    return builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(INDEX, lanes), [0] * lanes))


def repeated_index(builder: Any, value: Any, lanes: int) -> Any:
    """A splat of the low 32 bits of an integer."""
    return repeated(builder, builder.trunc(value, INDEX), lanes)


def lanes_below(builder: Any, count: Any, lanes: int) -> Any:
    """The mask of the first lanes."""
    numbers = ir.Constant(ir.VectorType(INDEX, lanes), list(range(lanes)))
    return builder.icmp_signed("<", numbers, repeated_index(builder, count, lanes))


def zeros_of(builder: Any, name: str, bits: Any) -> Any:
    """The number of zeros at one end of an integer that is not 0: `ctlz` or `cttz`."""
    kind = ir.FunctionType(ADDRESS, [ADDRESS, ir.IntType(1)])
    return builder.call(declared(builder.module, kind, f"llvm.{name}.i64"), [bits, ir.IntType(1)(1)])


@intrinsic
def first_bit(bits: Any) -> Any:
    """The number of the lowest bit that is set."""
    return types.int64(types.int64), lambda builder, arguments: zeros_of(builder, "cttz", arguments[0])


class VectorType(types.Type):
    """A register of floats."""

    def __init__(self, lanes: int) -> None:
        super().__init__(f"Vector({lanes})", ir.VectorType(FLOAT, lanes))


@overload
def struct_view(kind: type[S]) -> Callable[[Any], S]: ...
@overload
def struct_view(kind: np.dtype[np.void]) -> Any: ...
def struct_view(kind: Any) -> Any:
    """Views the memory at an address as a `KernelStruct`, or as one element of a structured type."""
    return _struct_view(kind if isinstance(kind, np.dtype) else kind.dtype)


@cache
def _struct_view(kind: np.dtype[np.void]) -> Any:
    struct = types.struct_pointer(kind)

    @intrinsic
    def view(address: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], struct.llvm)

        return struct(types.int64), generate

    return view


def maximum(builder: Any, x: Any, y: Any) -> Any:
    """The larger number of each lane of two vectors, the first of equal ones, or NaN if there is one."""
    larger = builder.select(builder.fcmp_ordered(">", y, x), y, x)
    return builder.select(builder.fcmp_unordered("uno", y, y), y, larger)


def prefetch(builder: Any, address: Any, *, writes: bool = False, caches: int = 3) -> None:
    """Prefetches the cache line at an address, which may be invalid, in LLVM code.

    Args:
        builder: where the code is appended.
        address: the address.
        writes: whether it is written, not read.
        caches: 3 for a copy in all caches, 2 for none in the first-level cache.
    """
    pointer = builder.inttoptr(address, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, INDEX, INDEX, INDEX])
    data = INDEX(1)
    builder.call(declared(builder.module, kind, "llvm.prefetch.p0"), [pointer, INDEX(int(writes)), INDEX(caches), data])


@intrinsic
def prefetch_to_read(address: Any) -> Any:
    """Prefetches the cache line at an address, which may be invalid."""
    return types.void(types.int64), lambda builder, arguments: prefetch(builder, arguments[0])


@intrinsic
def prefetch_to_write(address: Any) -> Any:
    """Prefetches the cache line at an address, which may be invalid, for a store."""
    return types.void(types.int64), lambda builder, arguments: prefetch(builder, arguments[0], writes=True)


def field_at(builder: Any, kind: np.dtype[np.void], address: Any, name: str) -> Any:
    """Loads a field of the structured element at an address, a 64-bit integer or a float, in LLVM code."""
    fields = kind.fields
    assert fields is not None, "the type is structured"
    field, offset, *_ = fields[name]
    llvm_type = ADDRESS if field.kind == "i" else FLOAT
    return builder.load(builder.inttoptr(builder.add(address, ADDRESS(offset)), llvm_type.as_pointer()))


@intrinsic
def integer_at(address: Any) -> Any:
    """Loads the 64-bit integer at an address with acquire ordering."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(arguments[0], ADDRESS.as_pointer()), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def set_integer(address: Any, value: Any) -> Any:
    """Stores a 64-bit integer with release ordering."""

    def generate(builder: Any, arguments: Any) -> None:
        builder.store_atomic(arguments[1], builder.inttoptr(arguments[0], ADDRESS.as_pointer()), "release", 8)

    return types.void(types.int64, types.int64), generate


@intrinsic
def float_at(address: Any) -> Any:
    """Loads a float."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], FLOAT.as_pointer()), align=FLOAT_BYTES)

    return types.float32(types.int64), generate


@intrinsic
def copy_float(target: Any, source: Any) -> Any:
    """Copies one float."""

    def generate(builder: Any, arguments: Any) -> None:
        to, of = (builder.inttoptr(address, FLOAT.as_pointer()) for address in arguments)
        builder.store(builder.load(of, align=FLOAT_BYTES), to, align=FLOAT_BYTES)

    return types.void(types.int64, types.int64), generate


@intrinsic
def set_float(target: Any, value: Any) -> Any:
    """Writes a float."""

    def generate(builder: Any, arguments: Any) -> None:
        builder.store(arguments[1], builder.inttoptr(arguments[0], FLOAT.as_pointer()), align=FLOAT_BYTES)

    return types.void(types.int64, types.float32), generate


class Simd:
    """Operations on vectors of a number of lanes, each an intrinsic for use in kernels.

    Attributes:
        kind: the type of a vector in kernels.
        size: bytes of a vector.
    """

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.lanes = isa.lanes
        self.kind = VectorType(self.lanes)
        self.size = FLOAT_BYTES * self.lanes
        self.load, self.store, self.all_of = self._load(), self._store(), self._all_of()
        self.load_some, self.store_some = self._load_some(), self._store_some()
        self.lane, self.with_lane = self._lane(), self._with_lane()
        self.where_within, self.where_above = self._where_within(), self._where_above()
        self.add, self.subtract, self.multiply, self.divide = (self._binary(name) for name in ("fadd", "fsub", "fmul", "fdiv"))
        self.at_most, self.at_least = self._bound(">="), self._bound("<=")
        self.running_maximum = self._bound("<")
        self.multiply_add = self._multiply_add()

    def value_of(self, builder: Any, address: Any, offset: int = 0) -> Any:
        """Loads the vector at an address that is aligned to its elements only."""
        return builder.load(self._pointer(builder, address, offset), align=FLOAT_BYTES)

    def write(self, builder: Any, value: Any, address: Any, offset: int = 0) -> None:
        """Stores a vector."""
        builder.store(value, self._pointer(builder, address, offset), align=FLOAT_BYTES)

    def all(self, value: float) -> Any:
        """A splat of a constant."""
        return ir.Constant(self.llvm_type, [value] * self.lanes)

    def repeated(self, builder: Any, value: Any) -> Any:
        """A splat of a float."""
        return repeated(builder, value, self.lanes)

    def repeated_at(self, builder: Any, address: Any) -> Any:
        """A splat of the float at an address."""
        return self.repeated(builder, builder.load(builder.inttoptr(address, FLOAT.as_pointer()), align=FLOAT_BYTES))

    def clipped(self, builder: Any, value: Any, low: Any, high: Any) -> Any:
        """The limit where a lane is not inside of it, so that a zero has the limit's sign: first the lower one. NaN stays NaN."""
        value = builder.select(builder.fcmp_ordered("<=", value, low), low, value)
        return builder.select(builder.fcmp_ordered(">=", value, high), high, value)

    def fused(self, builder: Any, x: Any, y: Any, z: Any) -> Any:
        """Computes x * y + z, rounded once where the processor supports it."""
        kind = ir.FunctionType(self.llvm_type, [self.llvm_type] * 3)
        return builder.call(declared(builder.module, kind, f"llvm.fmuladd.v{self.lanes}f32"), [x, y, z])

    @property
    def llvm_type(self) -> Any:
        """LLVM's type of a vector."""
        return ir.VectorType(FLOAT, self.lanes)

    def _pointer(self, builder: Any, address: Any, offset: int) -> Any:
        return builder.inttoptr(builder.add(address, ADDRESS(offset)), self.llvm_type.as_pointer())

    def _load(self) -> Any:
        @intrinsic
        def load(address: Any) -> Any:
            return self.kind(types.int64), lambda builder, arguments: self.value_of(builder, arguments[0])

        return load

    def _store(self) -> Any:
        @intrinsic
        def store(address: Any, value: Any) -> Any:
            def generate(builder: Any, arguments: Any) -> None:
                self.write(builder, arguments[1], arguments[0])

            return types.void(types.int64, self.kind), generate

        return store

    def first_of(self, builder: Any, address: Any, count: Any) -> Any:
        """Loads the first `count` lanes; the others are 0."""
        return self.chosen_of(builder, address, lanes_below(builder, count, self.lanes), 0.0)

    def chosen_of(self, builder: Any, address: Any, chosen: Any, other: float) -> Any:
        """Loads the lanes that a mask chooses; the others are not read and get `other`."""
        pointer = self._pointer(builder, address, 0)
        kind = ir.FunctionType(self.llvm_type, [pointer.type, INDEX, chosen.type, self.llvm_type])
        function = declared(builder.module, kind, f"llvm.masked.load.v{self.lanes}f32.p0")
        return builder.call(function, [pointer, INDEX(FLOAT_BYTES), chosen, self.all(other)])

    def write_first(self, builder: Any, value: Any, address: Any, count: Any) -> None:
        """Stores the first `count` lanes."""
        self.write_chosen(builder, value, address, lanes_below(builder, count, self.lanes))

    def write_chosen(self, builder: Any, value: Any, address: Any, chosen: Any) -> None:
        """Stores the lanes of a mask."""
        pointer = self._pointer(builder, address, 0)
        kind = ir.FunctionType(ir.VoidType(), [self.llvm_type, pointer.type, INDEX, chosen.type])
        function = declared(builder.module, kind, f"llvm.masked.store.v{self.lanes}f32.p0")
        builder.call(function, [value, pointer, INDEX(FLOAT_BYTES), chosen])

    def _load_some(self) -> Any:
        @intrinsic
        def load_some(address: Any, count: Any) -> Any:
            """Loads the first `count` lanes; the others are 0."""
            return self.kind(types.int64, types.int64), lambda builder, arguments: self.first_of(builder, *arguments)

        return load_some

    def _store_some(self) -> Any:
        @intrinsic
        def store_some(address: Any, value: Any, count: Any) -> Any:
            """Stores the first `count` lanes."""

            def generate(builder: Any, arguments: Any) -> None:
                address, value, count = arguments
                self.write_first(builder, value, address, count)

            return types.void(types.int64, self.kind, types.int64), generate

        return store_some

    def _lane(self) -> Any:
        @intrinsic
        def lane(x: Any, index: Any) -> Any:
            """One lane's float."""
            return types.float32(self.kind, types.int64), lambda builder, arguments: builder.extract_element(*arguments)

        return lane

    def _with_lane(self) -> Any:
        @intrinsic
        def with_lane(x: Any, index: Any, value: Any) -> Any:
            """The vector with another value in one lane."""

            def generate(builder: Any, arguments: Any) -> Any:
                x, index, value = arguments
                return builder.insert_element(x, value, index)

            return self.kind(self.kind, types.int64, types.float32), generate

        return with_lane

    def _where_within(self) -> Any:
        @intrinsic
        def where_within(x: Any, low: Any, high: Any, value: Any) -> Any:
            """The value where x is from low to high or NaN, 0 elsewhere."""

            def generate(builder: Any, arguments: Any) -> Any:
                x, low, high, value = arguments
                zeros = self.all(0.0)
                inside = builder.and_(builder.fcmp_unordered(">=", x, low), builder.fcmp_unordered("<=", x, high))
                return builder.select(inside, value, zeros)

            return self.kind(*[self.kind] * 4), generate

        return where_within

    def _where_above(self) -> Any:
        @intrinsic
        def where_above(x: Any, limit: Any, value: Any) -> Any:
            """The value where x is above the limit, NaN where x is, 0 elsewhere."""

            def generate(builder: Any, arguments: Any) -> Any:
                x, limit, value = arguments
                zeros = self.all(0.0)
                chosen = builder.select(builder.fcmp_ordered(">", x, limit), value, zeros)
                return builder.select(builder.fcmp_unordered("uno", x, x), x, chosen)

            return self.kind(*[self.kind] * 3), generate

        return where_above

    def _all_of(self) -> Any:
        @intrinsic
        def all_of(value: Any) -> Any:
            return self.kind(types.float32), lambda builder, arguments: self.repeated(builder, arguments[0])

        return all_of

    def _binary(self, instruction: str) -> Any:
        @intrinsic
        def operation(x: Any, y: Any) -> Any:
            return self.kind(self.kind, self.kind), lambda builder, arguments: getattr(builder, instruction)(*arguments)

        return operation

    def _bound(self, beyond: str) -> Any:
        @intrinsic
        def bound(x: Any, limit: Any) -> Any:
            """Clips x at the limit: the limit where x is beyond it, else x. NaN stays NaN.

            With "<=" or ">=" a zero has the limit's sign; without the equality processors have one instruction for it.
            """

            def generate(builder: Any, arguments: Any) -> Any:
                x, limit = arguments
                return builder.select(builder.fcmp_ordered(beyond, x, limit), limit, x)

            return self.kind(self.kind, self.kind), generate

        return bound

    def _multiply_add(self) -> Any:
        @intrinsic
        def multiply_add(x: Any, y: Any, z: Any) -> Any:
            return self.kind(self.kind, self.kind, self.kind), lambda builder, arguments: self.fused(builder, *arguments)

        return multiply_add

    def every_second(self) -> Any:
        """The kernel of two vectors that returns the lanes 0, 2, 4 and so on of both."""

        @intrinsic
        def every_second(x: Any, y: Any) -> Any:
            chosen = ir.Constant(ir.VectorType(INDEX, self.lanes), [2 * lane for lane in range(self.lanes)])
            return self.kind(self.kind, self.kind), lambda builder, arguments: builder.shuffle_vector(*arguments, chosen)

        return every_second

    def product(self, vectors: int, *, by_terms: bool = False) -> Any:
        """The kernel `multiply(columns, matrix, terms, factors, row, start, start_row, sums)`.

        sums[column][vector] = start[column][vector] + matrix[term][vector] * factors[column][term], summed over the terms in order (for one
        column, where the sums would wait for each other, in several parts). The matrix is packed [terms][vectors][lanes]; `columns` is 1 to
        `isa.columns(vectors)`; rows lie `row` and `start_row` bytes from each other.

        Args:
            vectors: the number of vectors.
            by_terms: whether the factors are [term][column], a row for each term.
        """
        multiply, size = self._product(vectors, by_terms), vectors * self.size

        @jit
        def of_packed(columns: Any, matrix: Any, terms: Any, factors: Any, row: Any, start: Any, start_row: Any, sums: Any) -> None:
            multiply(columns, matrix, size, terms, factors, row, start, start_row, sums, size)

        return of_packed

    def product_in_place(self, vectors: int, add_product: Callable[[Any, Any, Any, Any], Any] | None = None) -> Any:
        """The kernel `multiply(columns, matrix, matrix_row, terms, factors, row, start, start_row, sums)`.

        As `product`, for a matrix whose terms lie `matrix_row` bytes from each other.

        Args:
            vectors: the number of vectors.
            add_product: add_product(builder, x, y, z) is what adds the product of two vectors to sums z, in place of `fused`.
        """
        multiply, size = self._product(vectors, False, add_product), vectors * self.size

        @jit
        def in_place(
            columns: Any, matrix: Any, matrix_row: Any, terms: Any, factors: Any, row: Any, start: Any, start_row: Any, sums: Any
        ) -> None:
            multiply(columns, matrix, matrix_row, terms, factors, row, start, start_row, sums, size)

        return in_place

    def strided_product(self, vectors: int) -> Any:
        """The kernel `multiply(columns, matrix, terms, factors, row, start, start_row, sums, sums_row)`.

        As `product`, for sums whose columns lie `sums_row` bytes from each other.
        """
        multiply, size = self._product(vectors, False), vectors * self.size

        @jit
        def strided(
            columns: Any, matrix: Any, terms: Any, factors: Any, row: Any, start: Any, start_row: Any, sums: Any, sums_row: Any
        ) -> None:
            multiply(columns, matrix, size, terms, factors, row, start, start_row, sums, sums_row)

        return strided

    def _product(self, vectors: int, by_terms: bool, add_product: Callable[[Any, Any, Any, Any], Any] | None = None) -> Any:
        """The kernel `multiply(columns, matrix, matrix_row, terms, factors, row, start, start_row, sums, sums_row)`."""

        @intrinsic
        def multiply(
            columns: Any,
            matrix: Any,
            matrix_row: Any,
            terms: Any,
            factors: Any,
            row: Any,
            start: Any,
            start_row: Any,
            sums: Any,
            sums_row: Any,
        ) -> Any:
            def generate(builder: Any, arguments: Any) -> None:
                columns, *others = arguments
                for count in each_count(builder, columns, self.isa.columns(vectors)):
                    self._product_of(builder, vectors, count, others, by_terms, add_product or self.fused)

            return types.void(*[types.int64] * 10), generate

        return multiply

    def _product_of(
        self,
        builder: Any,
        vectors: int,
        columns: int,
        arguments: Sequence[Any],
        by_terms: bool,
        add_product: Callable[[Any, Any, Any, Any], Any],
    ) -> None:
        """The code of a product for a number of columns."""
        matrix, matrix_row, terms, factors, row, start, start_row, sums, sums_row = arguments
        count = columns * vectors
        unrolled = 8 if count <= 4 else 4 if count <= 8 else 2
        # An addition has a latency of about four cycles, so at least that many independent sums are needed.
        parts = 1 if columns > 1 else max(1, 8 // vectors)
        column_step, term_step = (ADDRESS(FLOAT_BYTES), row) if by_terms else (row, ADDRESS(FLOAT_BYTES))
        factor_rows = [builder.add(factors, builder.mul(column_step, ADDRESS(column))) for column in range(columns)]
        totals = []
        for column in range(columns):
            begin = builder.add(start, builder.mul(start_row, ADDRESS(column)))
            totals += [self.value_of(builder, begin, vector * self.size) for vector in range(vectors)]
        totals += [self.all(0.0)] * (count * (parts - 1))

        def add_term(term: Any, totals: list[Any], part: int) -> None:
            block = builder.add(matrix, builder.mul(term, matrix_row))
            values = [self.value_of(builder, block, vector * self.size) for vector in range(vectors)]
            offset = builder.mul(term, term_step)
            for column in range(columns):
                factor = self.repeated_at(builder, builder.add(factor_rows[column], offset))
                for vector in range(vectors):
                    place = part * count + column * vectors + vector
                    totals[place] = add_product(builder, values[vector], factor, totals[place])

        def loop(begin: Any, end: Any, step: int, totals: list[Any]) -> list[Any]:
            """Adds the terms from `begin` to `end`, `step` at a time."""
            before, head, body, after = builder.block, *(builder.append_basic_block(name) for name in ("head", "body", "after"))
            builder.branch(head)
            builder.position_at_end(head)
            term, carried = builder.phi(ADDRESS), [builder.phi(self.llvm_type) for _ in totals]
            builder.cbranch(builder.icmp_signed("<", term, end), body, after)
            builder.position_at_end(body)
            summed = list(carried)
            for offset in range(step):
                add_term(builder.add(term, ADDRESS(offset)), summed, offset % parts)
            following = builder.add(term, ADDRESS(step))
            builder.branch(head)
            for phi, first, next_value in zip([term, *carried], [begin, *totals], [following, *summed], strict=True):
                phi.add_incoming(first, before)
                phi.add_incoming(next_value, body)
            builder.position_at_end(after)
            return carried

        whole = builder.and_(terms, ADDRESS(-unrolled))
        totals = loop(whole, terms, 1, loop(ADDRESS(0), whole, unrolled, totals))
        # Each vector's partial sums, in order.
        of_vectors = [totals[place::count] for place in range(count)]
        for column in range(columns):
            of_column = builder.add(sums, builder.mul(sums_row, ADDRESS(column)))
            for vector in range(vectors):
                self.write(builder, reduce(builder.fadd, of_vectors[column * vectors + vector]), of_column, vector * self.size)


@cache
def simd_of(isa: Isa) -> Simd:
    """The operations of an instruction set. The object is shared, so that code compiled with it is compiled once."""
    return Simd(isa)


class Loop:
    """A loop of generated code, which runs at least once. Code generated after the constructor is its body.

    Attributes:
        values: the values at the start of an iteration.

    Args:
        builder: where the code is appended.
        first: the values of the first iteration.
    """

    def __init__(self, builder: Any, first: Sequence[Any]) -> None:
        self._builder, self._first, self._before, self._body = builder, first, builder.block, builder.append_basic_block("loop")
        builder.branch(self._body)
        builder.position_at_end(self._body)
        self.values = [builder.phi(value.type) for value in first]

    def repeat_while(self, condition: Any, following: Sequence[Any]) -> None:
        """Ends the body: while a condition holds, another iteration begins with the `following` values."""
        last, after = self._builder.block, self._builder.append_basic_block("after")
        self._builder.cbranch(condition, self._body, after)
        for value, first, next_value in zip(self.values, self._first, following, strict=True):
            value.add_incoming(first, self._before)
            value.add_incoming(next_value, last)
        self._builder.position_at_end(after)
