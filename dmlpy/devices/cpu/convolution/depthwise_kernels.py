"""The compiled kernel of row blocks: depthwise convolutions and poolings of planes whose rows are contiguous.

A vector of windows, at neighbouring positions of a row, moves down the rows of a plane, which is read in place. Each row of the
input is loaded once, a vector for each tap, and accumulated in all the windows that read it, whose results so far stay in registers. Lanes
of the columns outside of the image are masked off, so borders need no copy with padding. Where rows of positions take half of a vector at
most, a vector has those of two planes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache, reduce
from math import inf
from typing import TYPE_CHECKING, Any

from llvmlite import binding, ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit, phis, unpacked
from dmlpy.devices.cpu.convolution.depthwise import OperationName, RowBlockParameters, Window
from dmlpy.devices.cpu.convolution.kernels import EPILOGUE_NUMBERS, epilogue_result
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
        channels: the planes' numbers in their images.
        column: the first of the vector's columns of positions.
    """

    padding = 0.0

    def __init__(self, builder: Any, window: Window, isa: Isa, parameters: Any, channels: Sequence[Any], column: Any) -> None:
        self._builder, self._window, self._simd = builder, window, simd_of(isa)
        self._parameters, self._channels = parameters, channels
        self._load_constants(column)

    @abstractmethod
    def _load_constants(self, column: Any) -> None:
        """Loads values that all rows use."""

    @abstractmethod
    def prepare_row(self, taps: Sequence[Any]) -> Sequence[Any]:
        """Computes, from the vectors of a row's taps, the values that all windows over the row share."""

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

    def _load_constants(self, column: Any) -> None:
        self._weights = self._of_planes("weights", self._window.height * self._window.width)
        self._centre, self._factor, self._bias = self._of_planes("coefficients", 3)
        self._numbers = [self._simd.repeated(self._builder, self._field(name)) for name in EPILOGUE_NUMBERS]

    def _of_planes(self, name: str, count: int) -> list[Any]:
        """The numbers of each plane, of which an array has `count`, in the lanes of the plane."""
        b, array, lanes = self._builder, self._field(name), _PlaneLanes(self._window, self._simd.lanes)
        addresses = [self._address(array, b.mul(channel, ADDRESS(count))) for channel in self._channels]
        return [lanes.chosen(b, [self._broadcast_at(address, ADDRESS(number)) for address in addresses]) for number in range(count)]

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
        return epilogue_result(b, self._simd, self._window.epilogue, value, added, self._numbers)


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

    def _load_constants(self, column: Any) -> None:
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

    def _load_constants(self, column: Any) -> None:
        counts = self._simd.value_of(self._builder, self._address(self._field("column_counts"), column))
        order = ir.Constant(ir.VectorType(INDEX, self._simd.lanes), _PlaneLanes(self._window, self._simd.lanes).numbers)
        self._column_counts = self._builder.shuffle_vector(counts, counts, order)
        self._row_counts = self._field("row_counts")

    def _combine(self, x: Any, y: Any) -> Any:
        return self._builder.fadd(x, y)

    def result(self, total: Any, y: Any, added: Any) -> Any:
        return self._builder.fdiv(total, self._builder.fmul(self._broadcast_at(self._row_counts, y), self._column_counts))


OPERATIONS: dict[OperationName, type[Operation]] = {"convolution": Convolution, "max": Max, "average": Average}
"""The operations by their names in `Window`."""


_CACHE_LINE = 64


class _PlaneLanes:
    """How the lanes of a vector are divided among planes.

    Attributes:
        numbers: for each lane its number among those of its plane.
        masks: the lanes of each plane.
    """

    def __init__(self, window: Window, lanes: int) -> None:
        lanes_of_plane = lanes // window.planes
        self.numbers = [lane % lanes_of_plane for lane in range(lanes)]
        kind = ir.VectorType(ir.IntType(1), lanes)
        self.masks = [ir.Constant(kind, [lane // lanes_of_plane == plane for lane in range(lanes)]) for plane in range(window.planes)]

    def chosen(self, builder: Any, values: Sequence[Any]) -> Any:
        """A vector of the lanes of each plane, from a vector for each."""
        first, *second = values
        return builder.select(self.masks[0], first, second[0]) if second else first

    def each(self, builder: Any, mask: Any) -> list[Any]:
        """The lanes of a mask that are a plane's, for each plane."""
        return [mask] if len(self.masks) == 1 else [builder.and_(mask, plane_mask) for plane_mask in self.masks]


@cache
def _window_columns(window: Window, stored: Storage, isa: Isa) -> Any:
    """The kernel `compute(parameters, first_row, rows, column, plane, second)`.

    It computes `rows` rows of positions from `first_row` on, in a vector of columns of positions from `column` on. `plane` has the
    addresses of the input's and the output's plane and its channel; `second` has those of the other plane, if vectors have two.

    Args:
        window: the window.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """

    @intrinsic
    def compute(parameters: Any, first_row: Any, rows: Any, column: Any, plane: Any, second: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            *others, plane, second = arguments
            _generate(builder, window, stored, isa, others, [unpacked(builder, each) for each in (plane, second)[: window.planes]])

        return types.void(parameters, *[types.int64] * 3, *[types.UniTuple(types.int64, 3)] * 2), generate

    return compute


def _generate(b: Any, window: Window, stored: Storage, isa: Isa, arguments: Sequence[Any], planes: Sequence[Sequence[Any]]) -> None:
    """Generates `compute`. It begins above the first row of results, with the first row that its windows read."""
    pointer, first_row, rows, column = arguments
    sources, outputs, channels = zip(*planes, strict=True)
    source, output, parameters = sources[0], outputs[0], b.ptrtoint(pointer, ADDRESS)
    simd, load_store = simd_of(isa), ir_load_store_of(stored, isa)

    def field(name: str) -> Any:
        return field_at(b, RowBlockParameters.dtype, parameters, name)

    operation = OPERATIONS[window.operation](b, window, isa, parameters, channels, column)
    padding = simd.all(operation.padding)
    input_row, output_row, stride_y, height = (field(name) for name in ("input_row", "output_row", "stride_y", "height"))
    x = b.sub(b.mul(column, ADDRESS(window.stride_x)), field("pad_x"))
    loader = _RowLoader(b, window, load_store, isa, x, field("width"), operation.padding, _beside(b, window, isa, sources, load_store.size))
    count = b.sub(field("out_width"), column)
    written = _Positions(b, window, load_store, isa, count, _beside(b, window, isa, outputs, load_store.size))

    begin, end, step = b.sub(first_row, ADDRESS(window.windows_above)), b.add(first_row, rows), b.mul(stride_y, input_row)
    first_input_row = b.add(b.sub(b.mul(begin, stride_y), field("pad_y")), ADDRESS(window.height - window.new_rows))
    first_at = b.add(b.add(source, b.mul(first_input_row, input_row)), b.mul(x, ADDRESS(load_store.size)))
    first_target = b.add(b.add(output, b.mul(begin, output_row)), b.mul(column, ADDRESS(load_store.size)))

    # The same columns of the row block below are prefetched: processors do not foresee what comes after a row block.
    row_block = b.mul(field("rows"), b.mul(step, ADDRESS(window.planes)))
    lines = range(0, isa.lanes * load_store.size * window.stride_x, _CACHE_LINE)

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
        added = written.load(b.add(b.sub(target, field("output")), field("added"))) if window.epilogue.adds else None
        written.store(operation.result(totals[0], row, added), target)
    following = [b.add(row, ADDRESS(1)), b.add(input_y, stride_y), b.add(at, step), b.add(target, output_row), *totals[1:]]
    loop.repeat_while(b.icmp_signed("<", following[0], end), following)


def _beside(b: Any, window: Window, isa: Isa, addresses: Sequence[Any], size: int) -> list[Any]:
    """The bytes from where a vector of one plane lies to where a vector whose lanes are each plane's lies for that plane."""
    plane_size = isa.lanes // window.planes * size
    return [b.sub(b.sub(address, addresses[0]), ADDRESS(plane * plane_size)) for plane, address in enumerate(addresses)]


class _Positions:
    """The positions of a vector in the output, and in what is added to it.

    Args:
        builder: where the code is appended.
        window: the window.
        load_store: the loads and stores of the output.
        isa: the instruction set that the code is compiled for.
        count: how many positions are left in a row.
        beside: for each plane, where the vector lies for it (see `_beside`).
    """

    def __init__(self, builder: Any, window: Window, load_store: IrLoadStore, isa: Isa, count: Any, beside: Sequence[Any]) -> None:
        self._builder, self._load_store, self._count, self._beside = builder, load_store, count, beside
        self._is_whole = builder.icmp_signed(">=", count, ADDRESS(isa.lanes))
        self._lanes = _PlaneLanes(window, isa.lanes)
        numbers = ir.Constant(ir.VectorType(INDEX, isa.lanes), self._lanes.numbers)
        left = builder.icmp_signed("<", numbers, repeated_index(builder, count, isa.lanes))
        self._masks = self._lanes.each(builder, left)

    def load(self, address: Any) -> Any:
        b = self._builder
        masked_steps = zip(self._beside, self._masks, strict=True)
        return self._lanes.chosen(b, [self._load_store.load_masked(b, b.add(address, step), mask, 0.0) for step, mask in masked_steps])

    def store(self, value: Any, address: Any) -> None:
        b = self._builder
        if len(self._masks) > 1:
            for step, mask in zip(self._beside, self._masks, strict=True):
                self._load_store.store_masked(b, value, b.add(address, step), mask)
            return
        with b.if_else(self._is_whole) as (whole, rest):
            with whole:
                self._load_store.store(b, value, address)
            with rest:
                self._load_store.store_first(b, value, address, self._count)


def _run_where(b: Any, condition: Any, compute: Callable[[], Sequence[Any]], other: Any) -> list[Any]:
    """The values that code computes where a condition holds; elsewhere all are `other`."""
    outside, inside, after = b.block, b.append_basic_block("inside"), b.append_basic_block("read")
    b.cbranch(condition, inside, after)
    b.position_at_end(inside)
    computed = compute()
    b.branch(after)
    b.position_at_end(after)
    return phis(b, (outside, [other] * len(computed)), (inside, computed))


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
        beside: for each plane, where a vector lies for it (see `_beside`).
    """

    def __init__(
        self,
        builder: Any,
        window: Window,
        load_store: IrLoadStore,
        isa: Isa,
        x: Any,
        width: Any,
        padding: float,
        beside: Sequence[Any],
    ) -> None:
        self._builder, self._window, self._load_store, self._padding = builder, window, load_store, padding
        self._beside, self._plane_lanes = beside, _PlaneLanes(window, isa.lanes)
        self._lanes, self._indices = isa.lanes, ir.VectorType(INDEX, isa.lanes)
        lanes, limit = isa.lanes, repeated_index(builder, width, isa.lanes)
        # With a stride of 2 the taps read every second column of two vectors and a third one.
        self._columns = list(range(window.width)) if window.stride_x == 1 else [0, lanes, 2 * lanes][: 2 if window.width <= 2 else 3]
        columns = repeated_index(builder, x, lanes)
        self._masks = []
        for first in self._columns:
            positions = builder.add(columns, ir.Constant(self._indices, [first + number for number in self._plane_lanes.numbers]))
            inside = builder.icmp_unsigned("<", positions, limit)  # columns below 0 are beyond the width, too
            self._masks.append(self._plane_lanes.each(builder, inside))

    def load_row(self, address: Any) -> list[Any]:
        """The vectors of a row; `address` is that of the first tap's element for the first position."""
        b = self._builder
        loaded = []
        for column, masks in zip(self._columns, self._masks, strict=True):
            at = b.add(address, ADDRESS(column * self._load_store.size))
            of_planes = zip(self._beside, masks, strict=True)
            values = [self._load_store.load_masked(b, b.add(at, step), mask, self._padding) for step, mask in of_planes]
            loaded.append(self._plane_lanes.chosen(b, values))
        return loaded if self._window.stride_x == 1 else self._deinterleave(loaded)

    def _deinterleave(self, loaded: Sequence[Any]) -> list[Any]:
        lanes, by_tap = self._lanes, list[Any]()
        for tap in range(self._window.width):
            shift, odd = divmod(tap, 2)
            if shift == 0:
                by_tap.append(self._shuffle(loaded[0], loaded[1], [2 * lane + odd for lane in range(lanes)]))
            else:  # the tap reads for a position what the first or the second tap reads for a later position
                lanes_of_both = [*range(shift, lanes), *(lanes + 2 * lane + odd for lane in range(shift))]
                by_tap.append(self._shuffle(by_tap[odd], loaded[2], lanes_of_both))
        return by_tap

    def _shuffle(self, x: Any, y: Any, lanes_of_both: Sequence[int]) -> Any:
        return self._builder.shuffle_vector(x, y, ir.Constant(self._indices, lanes_of_both))


def build_row_blocks(window: Window, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the row blocks, to be compiled.

    Args:
        window: the window.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    compute, lanes, planes = _window_columns(window, stored, isa), isa.lanes, window.planes

    @jit
    def place(p: RowBlockParameters, plane: Any) -> Any:
        """A plane of the input and of the output, and its number in its image."""
        image, channel = plane // p.channels, plane % p.channels
        source = p.input + image * p.input_image + channel * p.input_channel
        return source, p.output + image * p.output_image + channel * p.output_channel, channel

    @jit
    def compute_row_blocks(p: RowBlockParameters, first_block: Any, last_block: Any, state: Any) -> None:
        for block in range(first_block, last_block):
            number, first_row = block // p.row_blocks_per_plane * planes, block % p.row_blocks_per_plane * p.rows
            rows = min(p.rows, p.out_height - first_row)
            source, output, channel = place(p, number)
            # The last plane may be alone: it is then both.
            source1, output1, channel1 = place(p, min(number + planes, p.planes) - 1)
            for column in range(0, p.out_width, lanes):
                compute(p, first_row, rows, column, (source, output, channel), (source1, output1, channel1))

    return share_units(RowBlockParameters, compute_row_blocks)
