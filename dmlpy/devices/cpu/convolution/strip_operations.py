"""What strips make of a window's elements: LLVM code for a vector of positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import cgutils

from dmlpy.devices.cpu.convolution.strip_parameters import PARAMETERS, OperationName, Strip
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, field_at, simd_of

if TYPE_CHECKING:
    from collections.abc import Sequence


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
        return field_at(self._builder, PARAMETERS, self._parameters, name)

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
