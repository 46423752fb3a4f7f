"""The compiled kernel of strips: depthwise convolutions and poolings of planes whose rows lie side by side.

A strip is windows at neighbouring positions, a vector of them, that go down the rows of a plane which is read where it lies. Each row of
the input is loaded once, a vector for each tap, and joined to all the windows of the strip that see it; what they have so far stays in
registers. Lanes of the columns outside of the image are masked off, so borders need no copy with padding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache, reduce
from math import inf
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dmlpy.devices.cpu.convolution.depthwise import DEPTHWISE_PARAMETERS, OperationName, Strip
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.load_store import IrLoadStore, ir_load_store_of
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, INDEX, field_at, prefetch, repeated_index, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.thread_pool import TaskBody


class Operation(ABC):
    """An operation on the windows of a strip. What it needs in all rows is loaded when it is made.

    Attributes:
        padding: what lies outside of the image.

    Args:
        builder: where the code is appended.
        strip: the window.
        registers: the registers that the code is compiled for.
        parameters: the address of the parameters.
        channel: the plane's number in its image.
        column: the first of the strip's columns of positions.
    """

    padding = 0.0

    def __init__(self, builder: Any, strip: Strip, isa: Isa, parameters: Any, channel: Any, column: Any) -> None:
        self._builder, self._strip, self._simd = builder, strip, simd_of(isa)
        self._parameters = parameters
        self._begin(channel, column)

    @abstractmethod
    def _begin(self, channel: Any, column: Any) -> None:
        """Loads what is needed in all rows."""

    @abstractmethod
    def of_row(self, taps: Sequence[Any]) -> Sequence[Any]:
        """What all windows that see a row need of it, from the vectors that its taps see."""

    @abstractmethod
    def joined(self, total: Any, row: Sequence[Any], number: int) -> Any:
        """Joins row `number` of a window to what its rows above have given; that is None before the first."""

    @abstractmethod
    def result(self, total: Any, y: Any) -> Any:
        """The windows' result in row `y` of positions."""

    def _field(self, name: str) -> Any:
        return field_at(self._builder, DEPTHWISE_PARAMETERS, self._parameters, name)

    def _at(self, address: Any, index: Any) -> Any:
        """The address of a float of an array."""
        return self._builder.add(address, self._builder.mul(index, ADDRESS(FLOAT_BYTES)))

    def _all_at(self, address: Any, index: Any) -> Any:
        """A float of an array, in all lanes."""
        pointer = self._builder.inttoptr(self._at(address, index), FLOAT.as_pointer())
        return self._simd.repeated(self._builder, self._builder.load(pointer, align=FLOAT_BYTES))


class Convolution(Operation):
    """A depthwise convolution: sums over the taps in their order, which `tile_product` has too."""

    def _begin(self, channel: Any, column: Any) -> None:
        b, taps = self._builder, self._strip.height * self._strip.width
        weights, coefficients = self._at(self._field("weights"), b.mul(channel, ADDRESS(taps))), self._field("coefficients")
        self._weights = [self._all_at(weights, ADDRESS(tap)) for tap in range(taps)]
        coefficients = self._at(coefficients, b.mul(channel, ADDRESS(3)))
        self._centre, self._factor, self._bias = (self._all_at(coefficients, ADDRESS(number)) for number in range(3))
        self._low, self._high = (self._simd.repeated(b, self._field(name)) for name in ("low", "high"))

    def of_row(self, taps: Sequence[Any]) -> Sequence[Any]:
        return taps

    def joined(self, total: Any, row: Sequence[Any], number: int) -> Any:
        total = self._simd.all(0.0) if total is None else total
        weights = self._weights[number * self._strip.width : (number + 1) * self._strip.width]
        for tap, weight in zip(row, weights, strict=True):
            total = self._simd.fused(self._builder, tap, weight, total)
        return total

    def result(self, total: Any, y: Any) -> Any:
        b = self._builder
        value = self._simd.fused(b, b.fsub(total, self._centre), self._factor, self._bias)
        value = b.select(b.fcmp_ordered(">", value, self._high), self._high, value)
        return b.select(b.fcmp_ordered("<", value, self._low), self._low, value)


class Pooling(Operation):
    """An operation that joins elements two by two: those of a row once for all windows that see it."""

    @abstractmethod
    def _both(self, x: Any, y: Any) -> Any:
        """Joins two vectors of elements."""

    def of_row(self, taps: Sequence[Any]) -> Sequence[Any]:
        return [reduce(self._both, taps)]

    def joined(self, total: Any, row: Sequence[Any], number: int) -> Any:
        return row[0] if total is None else self._both(total, row[0])


class Max(Pooling):
    """The largest element; NaN where there is one."""

    padding = -inf

    def _begin(self, channel: Any, column: Any) -> None:
        pass

    def _both(self, x: Any, y: Any) -> Any:
        kind = ir.FunctionType(x.type, [x.type, y.type])
        function = cgutils.get_or_insert_function(self._builder.module, kind, f"llvm.maximum.v{self._simd.lanes}f32")
        return self._builder.call(function, [x, y], fastmath=("nsz",))  # which of two zeros is larger would cost instructions

    def result(self, total: Any, y: Any) -> Any:
        return total


class Average(Pooling):
    """The sum divided by a count."""

    def _begin(self, channel: Any, column: Any) -> None:
        self._column_counts = self._simd.value_of(self._builder, self._at(self._field("column_counts"), column))
        self._row_counts = self._field("row_counts")

    def _both(self, x: Any, y: Any) -> Any:
        return self._builder.fadd(x, y)

    def result(self, total: Any, y: Any) -> Any:
        return self._builder.fdiv(total, self._builder.fmul(self._all_at(self._row_counts, y), self._column_counts))


OPERATIONS: dict[OperationName, type[Operation]] = {"convolution": Convolution, "max": Max, "average": Average}
"""The operations by their names in `Strip`."""


_CACHE_LINE = 64


@cache
def strip_walk(strip: Strip, halves: bool, isa: Isa) -> Any:
    """The kernel `walk(parameters, source, output, channel, first_row, rows, column)`.

    It computes `rows` rows of positions from `first_row` on, in a vector of columns of positions from `column` on. `source` and `output`
    are the addresses of the planes of a channel.

    Args:
        strip: the window.
        halves: whether input and output are of FLOAT16.
        isa: the instruction set that it is compiled for.
    """

    @intrinsic
    def walk(context: Any, parameters: Any, source: Any, output: Any, channel: Any, first_row: Any, rows: Any, column: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _walk(builder, strip, halves, isa, arguments)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), generate

    return walk


def _walk(b: Any, strip: Strip, halves: bool, isa: Isa, arguments: Sequence[Any]) -> None:
    """The code of a walk. It begins above the first row of results, where the rows begin that its windows see."""
    parameters, source, output, channel, first_row, rows, column = arguments
    simd, ir_load_store = simd_of(isa), ir_load_store_of(halves, isa)

    def field(name: str) -> Any:
        return field_at(b, DEPTHWISE_PARAMETERS, parameters, name)

    operation = OPERATIONS[strip.operation](b, strip, isa, parameters, channel, column)
    padding = simd.all(operation.padding)
    input_row, output_row, stride_y, height = (field(name) for name in ("input_row", "output_row", "stride_y", "height"))
    x = b.sub(b.mul(column, ADDRESS(strip.stride_x)), field("pad_x"))
    taps = _Taps(b, strip, ir_load_store, isa, x, field("width"), operation.padding)
    count = b.sub(field("out_width"), column)
    is_whole = b.icmp_signed(">=", count, ADDRESS(isa.lanes))

    begin, end, step = b.sub(first_row, ADDRESS(strip.above)), b.add(first_row, rows), b.mul(stride_y, input_row)
    first_seen = b.add(b.sub(b.mul(begin, stride_y), field("pad_y")), ADDRESS(strip.height - strip.new_rows))
    first_at = b.add(b.add(source, b.mul(first_seen, input_row)), b.mul(x, ADDRESS(ir_load_store.size)))
    first_target = b.add(b.add(output, b.mul(begin, output_row)), b.mul(column, ADDRESS(ir_load_store.size)))

    # Meanwhile the cache is asked for the same columns of the tile below: processors do not foresee what comes after a strip.
    tile, lines = b.mul(field("rows"), step), range(0, isa.lanes * ir_load_store.size * strip.stride_x, _CACHE_LINE)

    before, body, after = b.block, b.append_basic_block("row"), b.append_basic_block("walked")
    b.branch(body)
    b.position_at_end(body)
    row, seen, at, target = (b.phi(ADDRESS) for _ in range(4))
    carried = [b.phi(padding.type) for _ in range(strip.above)]
    totals = [*carried, None]
    for number in range(strip.new_rows):
        place = b.add(at, b.mul(input_row, ADDRESS(number)))

        def of_row(place: Any = place) -> Sequence[Any]:
            for line in lines:
                prefetch(b, b.add(place, b.add(tile, ADDRESS(line))))
            return operation.of_row(taps.at(place))

        values = _where(b, b.icmp_unsigned("<", b.add(seen, ADDRESS(number)), height), of_row, padding)
        # The window of this row of positions is the first; each further one is a step below.
        for window, total in enumerate(totals):
            own_row = strip.height - strip.new_rows + number - window * strip.new_rows
            if own_row >= 0:
                totals[window] = operation.joined(total, values, own_row)
    with b.if_then(b.icmp_signed(">=", row, first_row)):
        result = operation.result(totals[0], row)
        with b.if_else(is_whole) as (whole, part):
            with whole:
                ir_load_store.store(b, result, target)
            with part:
                ir_load_store.store_first(b, result, target, count)
    following = [b.add(row, ADDRESS(1)), b.add(seen, stride_y), b.add(at, step), b.add(target, output_row), *totals[1:]]
    last = b.block
    b.cbranch(b.icmp_signed("<", following[0], end), body, after)
    first = [begin, first_seen, first_at, first_target, *[padding] * strip.above]
    for phi, at_first, next_value in zip([row, seen, at, target, *carried], first, following, strict=True):
        phi.add_incoming(at_first, before)
        phi.add_incoming(next_value, last)
    b.position_at_end(after)


def _where(b: Any, condition: Any, values_of: Callable[[], Sequence[Any]], other: Any) -> list[Any]:
    """The values of code that runs where a condition holds; elsewhere they are another value."""
    outside, inside, after = b.block, b.append_basic_block("inside"), b.append_basic_block("seen")
    b.cbranch(condition, inside, after)
    b.position_at_end(inside)
    found = values_of()
    b.branch(after)
    b.position_at_end(after)
    values = [b.phi(other.type) for _ in found]
    for value, own in zip(values, found, strict=True):
        value.add_incoming(other, outside)
        value.add_incoming(own, inside)
    return values


class _Taps:
    """What the taps of a window's row see from the positions of a strip: a vector for each.

    Args:
        builder: where the code is appended.
        strip: the window.
        ir_load_store: the accesses to the input.
        registers: the registers that the code is compiled for.
        x: the column of the image that the first tap sees from the first position.
        width: the columns of the image.
        padding: what lies outside of it.
    """

    def __init__(self, builder: Any, strip: Strip, ir_load_store: IrLoadStore, isa: Isa, x: Any, width: Any, padding: float) -> None:
        self._builder, self._strip, self._load_store, self._padding = builder, strip, ir_load_store, padding
        self._lanes, self._indices = isa.lanes, ir.VectorType(INDEX, isa.lanes)
        lanes, limit = isa.lanes, repeated_index(builder, width, isa.lanes)
        # Every second column of two vectors and a third is what the taps see with a stride of 2.
        self._columns = list(range(strip.width)) if strip.stride_x == 1 else [0, lanes, 2 * lanes][: 2 if strip.width <= 2 else 3]
        columns = repeated_index(builder, x, lanes)
        self._masks = []
        for first in self._columns:
            own = builder.add(columns, ir.Constant(self._indices, list(range(first, first + lanes))))
            self._masks.append(builder.icmp_unsigned("<", own, limit))  # columns below 0 are beyond the width, too

    def at(self, address: Any) -> list[Any]:
        """The vectors of a row, of which `address` is what the first tap sees from the first position."""
        b = self._builder
        loaded = []
        for column, mask in zip(self._columns, self._masks, strict=True):
            loaded.append(self._load_store.load_masked(b, b.add(address, ADDRESS(column * self._load_store.size)), mask, self._padding))
        return loaded if self._strip.stride_x == 1 else self._every_second(loaded)

    def _every_second(self, loaded: Sequence[Any]) -> list[Any]:
        lanes, found = self._lanes, list[Any]()
        for tap in range(self._strip.width):
            shift, odd = divmod(tap, 2)
            if shift == 0:
                found.append(self._shuffled(loaded[0], loaded[1], [2 * lane + odd for lane in range(lanes)]))
            else:  # the tap sees from a position what the first one, or the second, sees from a position further on
                places = [*range(shift, lanes), *(lanes + 2 * lane + odd for lane in range(shift))]
                found.append(self._shuffled(found[odd], loaded[2], places))
        return found

    def _shuffled(self, x: Any, y: Any, places: Sequence[int]) -> Any:
        return self._builder.shuffle_vector(x, y, ir.Constant(self._indices, places))


def strips_of(strip: Strip, halves: bool, isa: Isa) -> TaskBody:
    """A thread's part of the planes, to be compiled.

    Args:
        strip: the window.
        halves: whether input and output are of FLOAT16.
        isa: the instruction set that it is compiled for.
    """
    walk, lanes, parameters_at = strip_walk(strip, halves, isa), isa.lanes, struct_view(DEPTHWISE_PARAMETERS)

    def share(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        state, finished = parameters, 0
        item = first_tile(state, p.items, thread, threads, sync, epoch)
        while item < p.items:
            for part in range(p.parts * item // p.items, p.parts * (item + 1) // p.items):
                plane, first_row = part // p.tiles, part % p.tiles * p.rows
                image, channel = plane // p.channels, plane % p.channels
                source = p.input + image * p.input_image + channel * p.input_channel
                output = p.output + image * p.output_image + channel * p.output_channel
                rows = min(p.rows, p.out_height - first_row)
                for column in range(0, p.out_width, lanes):
                    walk(parameters, source, output, channel, first_row, rows, column)
            finished += 1
            item = next_tile(state, item, p.items, threads, epoch)
        wait_for_all_tiles(state, finished, p.items, thread, threads)

    return share
