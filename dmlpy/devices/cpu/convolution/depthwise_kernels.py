"""The compiled kernel of row blocks: depthwise convolutions and poolings of planes whose rows are contiguous.

A vector of windows, at neighbouring positions of a row, moves down the rows of a plane, which is read in place. Each row of the
input is loaded once, a vector for each tap, and accumulated in all the windows that read it, whose results so far stay in registers. Lanes
of the columns outside of the image are masked off, so borders need no copy with padding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache, reduce
from math import inf
from typing import TYPE_CHECKING, Any

from llvmlite import binding, ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.convolution.depthwise import OperationName, RowBlockParameters, Window
from dmlpy.devices.cpu.convolution.kernels import EPILOGUE_NUMBERS, finished
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import IrLoadStore, ir_load_store_of
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, INDEX, Loop, field_at, maximum, prefetch, repeated_index, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.thread_pool import TaskBody

_LLVM_WITH_MAXIMUM = 20
"""The first version of LLVM of any llvmlite that computes `llvm.maximum` of vectors on x86; the one before, 15, ends the process there."""


class Operation(ABC):
    """An operation on windows. Its constructor loads values that all rows use.

    Attributes:
        padding: the value outside of the image.

    Args:
        builder: where the code is appended.
        window: the window.
        isa: the instruction set that the code is compiled for.
        parameters: the address of the parameters.
        channel: the plane's number in its image.
        column: the first of the vector's columns of positions.
    """

    padding = 0.0

    def __init__(self, builder: Any, window: Window, isa: Isa, parameters: Any, channel: Any, column: Any) -> None:
        self._builder, self._window, self._simd = builder, window, simd_of(isa)
        self._parameters = parameters
        self._load_constants(channel, column)

    @abstractmethod
    def _load_constants(self, channel: Any, column: Any) -> None:
        """Loads values that all rows use."""

    @abstractmethod
    def prepare_row(self, taps: Sequence[Any]) -> Sequence[Any]:
        """What all windows that read a row use of it, from the vectors of its taps."""

    @abstractmethod
    def accumulate(self, total: Any, row: Sequence[Any], number: int) -> Any:
        """Accumulates row `number` of a window in the result of the rows above, which is None before the first."""

    @abstractmethod
    def result(self, total: Any, y: Any, added: Any) -> Any:
        """The windows' result in row `y` of positions; `added` is what an epilogue adds."""

    def _field(self, name: str) -> Any:
        return field_at(self._builder, RowBlockParameters.dtype, self._parameters, name)

    def _address(self, address: Any, index: Any) -> Any:
        """The address of a float of an array."""
        return self._builder.add(address, self._builder.mul(index, ADDRESS(FLOAT_BYTES)))

    def _broadcast_at(self, address: Any, index: Any) -> Any:
        """A float of an array, in all lanes."""
        pointer = self._builder.inttoptr(self._address(address, index), FLOAT.as_pointer())
        return self._simd.repeated(self._builder, self._builder.load(pointer, align=FLOAT_BYTES))


class Convolution(Operation):
    """A depthwise convolution: sums over the taps in the order of `tile_product`."""

    def _load_constants(self, channel: Any, column: Any) -> None:
        b, taps = self._builder, self._window.height * self._window.width
        weights, coefficients = self._address(self._field("weights"), b.mul(channel, ADDRESS(taps))), self._field("coefficients")
        self._weights = [self._broadcast_at(weights, ADDRESS(tap)) for tap in range(taps)]
        coefficients = self._address(coefficients, b.mul(channel, ADDRESS(3)))
        self._centre, self._factor, self._bias = (self._broadcast_at(coefficients, ADDRESS(number)) for number in range(3))
        self._numbers = [self._simd.repeated(b, self._field(name)) for name in EPILOGUE_NUMBERS]

    def prepare_row(self, taps: Sequence[Any]) -> Sequence[Any]:
        return taps

    def accumulate(self, total: Any, row: Sequence[Any], number: int) -> Any:
        total = self._simd.all(0.0) if total is None else total
        weights = self._weights[number * self._window.width : (number + 1) * self._window.width]
        for tap, weight in zip(row, weights, strict=True):
            total = self._simd.fused(self._builder, tap, weight, total)
        return total

    def result(self, total: Any, y: Any, added: Any) -> Any:
        b = self._builder
        value = self._simd.fused(b, b.fsub(total, self._centre), self._factor, self._bias)
        return finished(b, self._simd, self._window.epilogue, value, added, self._numbers)


class Pooling(Operation):
    """A reduction: the elements of a row are reduced once for all windows that read it."""

    @abstractmethod
    def _combine(self, x: Any, y: Any) -> Any:
        """Combines two vectors of elements."""

    def prepare_row(self, taps: Sequence[Any]) -> Sequence[Any]:
        return [reduce(self._combine, taps)]

    def accumulate(self, total: Any, row: Sequence[Any], number: int) -> Any:
        return row[0] if total is None else self._combine(total, row[0])


class Max(Pooling):
    """The largest element; NaN if there is one."""

    padding = -inf

    def _load_constants(self, channel: Any, column: Any) -> None:
        pass

    def _combine(self, x: Any, y: Any) -> Any:
        if binding.llvm_version_info[0] < _LLVM_WITH_MAXIMUM:
            return maximum(self._builder, x, y)
        kind = ir.FunctionType(x.type, [x.type, y.type])
        function = declared(self._builder.module, kind, f"llvm.maximum.v{self._simd.lanes}f32")
        return self._builder.call(function, [x, y], fastmath=("nsz",))  # ordering -0 and +0 would cost instructions

    def result(self, total: Any, y: Any, added: Any) -> Any:
        return total


class Average(Pooling):
    """The sum divided by a count."""

    def _load_constants(self, channel: Any, column: Any) -> None:
        self._column_counts = self._simd.value_of(self._builder, self._address(self._field("column_counts"), column))
        self._row_counts = self._field("row_counts")

    def _combine(self, x: Any, y: Any) -> Any:
        return self._builder.fadd(x, y)

    def result(self, total: Any, y: Any, added: Any) -> Any:
        return self._builder.fdiv(total, self._builder.fmul(self._broadcast_at(self._row_counts, y), self._column_counts))


OPERATIONS: dict[OperationName, type[Operation]] = {"convolution": Convolution, "max": Max, "average": Average}
"""The operations by their names in `Window`."""


_CACHE_LINE = 64


@cache
def _window_columns(window: Window, stored: Storage, isa: Isa) -> Any:
    """The kernel `compute(parameters, source, output, channel, first_row, rows, column)`.

    It computes `rows` rows of positions from `first_row` on, in a vector of columns of positions from `column` on. `source` and `output`
    are the addresses of the planes of a channel.

    Args:
        window: the window.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """

    @intrinsic
    def compute(parameters: Any, source: Any, output: Any, channel: Any, first_row: Any, rows: Any, column: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            _generate(builder, window, stored, isa, arguments)

        return types.void(parameters, *[types.int64] * 6), generate

    return compute


def _generate(b: Any, window: Window, stored: Storage, isa: Isa, arguments: Sequence[Any]) -> None:
    """Generates `compute`. It begins above the first row of results, with the first row that its windows read."""
    pointer, source, output, channel, first_row, rows, column = arguments
    parameters = b.ptrtoint(pointer, ADDRESS)
    simd, load_store = simd_of(isa), ir_load_store_of(stored, isa)

    def field(name: str) -> Any:
        return field_at(b, RowBlockParameters.dtype, parameters, name)

    operation = OPERATIONS[window.operation](b, window, isa, parameters, channel, column)
    padding = simd.all(operation.padding)
    input_row, output_row, stride_y, height = (field(name) for name in ("input_row", "output_row", "stride_y", "height"))
    x = b.sub(b.mul(column, ADDRESS(window.stride_x)), field("pad_x"))
    loader = _RowLoader(b, window, load_store, isa, x, field("width"), operation.padding)
    count = b.sub(field("out_width"), column)
    is_whole = b.icmp_signed(">=", count, ADDRESS(isa.lanes))

    begin, end, step = b.sub(first_row, ADDRESS(window.windows_above)), b.add(first_row, rows), b.mul(stride_y, input_row)
    first_input_row = b.add(b.sub(b.mul(begin, stride_y), field("pad_y")), ADDRESS(window.height - window.new_rows))
    first_at = b.add(b.add(source, b.mul(first_input_row, input_row)), b.mul(x, ADDRESS(load_store.size)))
    first_target = b.add(b.add(output, b.mul(begin, output_row)), b.mul(column, ADDRESS(load_store.size)))

    # The same columns of the row block below are prefetched: processors do not foresee what comes after a row block.
    row_block, lines = b.mul(field("rows"), step), range(0, isa.lanes * load_store.size * window.stride_x, _CACHE_LINE)

    loop = Loop(b, [begin, first_input_row, first_at, first_target, *[padding] * window.windows_above])
    row, input_y, at, target, *carried = loop.values
    totals = [*carried, None]
    for number in range(window.new_rows):
        address_of_row = b.add(at, b.mul(input_row, ADDRESS(number)))

        def prepare_row(address_of_row: Any = address_of_row) -> Sequence[Any]:
            for line in lines:
                prefetch(b, b.add(address_of_row, b.add(row_block, ADDRESS(line))))
            return operation.prepare_row(loader.load_row(address_of_row))

        values = _run_where(b, b.icmp_unsigned("<", b.add(input_y, ADDRESS(number)), height), prepare_row, padding)
        # The first window is that of this row of positions; each further one is a step below.
        for step_above, total in enumerate(totals):
            own_row = window.height - window.new_rows + number - step_above * window.new_rows
            if own_row >= 0:
                totals[step_above] = operation.accumulate(total, values, own_row)
    with b.if_then(b.icmp_signed(">=", row, first_row)):
        added = load_store.load_first(b, b.add(b.sub(target, field("output")), field("added")), count) if window.epilogue.adds else None
        result = operation.result(totals[0], row, added)
        with b.if_else(is_whole) as (whole, rest):
            with whole:
                load_store.store(b, result, target)
            with rest:
                load_store.store_first(b, result, target, count)
    following = [b.add(row, ADDRESS(1)), b.add(input_y, stride_y), b.add(at, step), b.add(target, output_row), *totals[1:]]
    loop.repeat_while(b.icmp_signed("<", following[0], end), following)


def _run_where(b: Any, condition: Any, compute: Callable[[], Sequence[Any]], other: Any) -> list[Any]:
    """The values that code computes where a condition holds; elsewhere all are `other`."""
    outside, inside, after = b.block, b.append_basic_block("inside"), b.append_basic_block("read")
    b.cbranch(condition, inside, after)
    b.position_at_end(inside)
    found = compute()
    b.branch(after)
    b.position_at_end(after)
    values = [b.phi(other.type) for _ in found]
    for value, own in zip(values, found, strict=True):
        value.add_incoming(other, outside)
        value.add_incoming(own, inside)
    return values


class _RowLoader:
    """Loads a row of the input: for each tap of a window's row the vector that it reads for all positions.

    Args:
        builder: where the code is appended.
        window: the window.
        load_store: the loads of the input.
        isa: the instruction set that the code is compiled for.
        x: the column of the image that the first tap reads for the first position.
        width: the columns of the image.
        padding: the value outside of the image.
    """

    def __init__(self, builder: Any, window: Window, load_store: IrLoadStore, isa: Isa, x: Any, width: Any, padding: float) -> None:
        self._builder, self._window, self._load_store, self._padding = builder, window, load_store, padding
        self._lanes, self._indices = isa.lanes, ir.VectorType(INDEX, isa.lanes)
        lanes, limit = isa.lanes, repeated_index(builder, width, isa.lanes)
        # With a stride of 2 the taps read every second column of two vectors and a third one.
        self._columns = list(range(window.width)) if window.stride_x == 1 else [0, lanes, 2 * lanes][: 2 if window.width <= 2 else 3]
        columns = repeated_index(builder, x, lanes)
        self._masks = []
        for first in self._columns:
            own = builder.add(columns, ir.Constant(self._indices, list(range(first, first + lanes))))
            self._masks.append(builder.icmp_unsigned("<", own, limit))  # columns below 0 are beyond the width, too

    def load_row(self, address: Any) -> list[Any]:
        """The vectors of a row; `address` is that of the first tap's element for the first position."""
        b = self._builder
        loaded = []
        for column, mask in zip(self._columns, self._masks, strict=True):
            loaded.append(self._load_store.load_masked(b, b.add(address, ADDRESS(column * self._load_store.size)), mask, self._padding))
        return loaded if self._window.stride_x == 1 else self._deinterleave(loaded)

    def _deinterleave(self, loaded: Sequence[Any]) -> list[Any]:
        lanes, found = self._lanes, list[Any]()
        for tap in range(self._window.width):
            shift, odd = divmod(tap, 2)
            if shift == 0:
                found.append(self._shuffle(loaded[0], loaded[1], [2 * lane + odd for lane in range(lanes)]))
            else:  # the tap reads for a position what the first or the second tap reads for a later position
                lanes_of_both = [*range(shift, lanes), *(lanes + 2 * lane + odd for lane in range(shift))]
                found.append(self._shuffle(found[odd], loaded[2], lanes_of_both))
        return found

    def _shuffle(self, x: Any, y: Any, lanes_of_both: Sequence[int]) -> Any:
        return self._builder.shuffle_vector(x, y, ir.Constant(self._indices, lanes_of_both))


def build_row_blocks(window: Window, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the row blocks, to be compiled.

    Args:
        window: the window.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    compute, lanes = _window_columns(window, stored, isa), isa.lanes

    @jit
    def compute_row_blocks(p: RowBlockParameters, first_block: Any, last_block: Any, own: Any) -> None:
        for block in range(first_block, last_block):
            plane, first_row = block // p.row_blocks_per_plane, block % p.row_blocks_per_plane * p.rows
            image, channel = plane // p.channels, plane % p.channels
            source = p.input + image * p.input_image + channel * p.input_channel
            output = p.output + image * p.output_image + channel * p.output_channel
            rows = min(p.rows, p.out_height - first_row)
            for column in range(0, p.out_width, lanes):
                compute(p, source, output, channel, first_row, rows, column)

    return share_units(RowBlockParameters, compute_row_blocks)
