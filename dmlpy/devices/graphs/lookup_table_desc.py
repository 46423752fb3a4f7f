"""`LookupTableDesc`: element-wise operators between bytes as one; the tensors between them have no memory. And convolutions with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from dmlpy.description.descs import OperatorDesc, TensorDescs
from dmlpy.description.enums import DataType
from dmlpy.description.markers import In, Out
from dmlpy.description.support import ALL_BUT_4_BITS, SupportRow
from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.devices.flops import flops, flops_of
from dmlpy.devices.plan import with_tensors
from dmlpy.operators.quantized.products import QuantizedLinearConvolutionDesc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_BYTES = frozenset({DataType.UINT8, DataType.INT8})
ENTRIES = 256
"""The entries of a table: one for each byte."""


class LookupTableDesc(OperatorDesc):
    """Operators that together map each byte to another, by a function that is the same for all elements of a channel.

    Another byte may choose the function, such as the factor of a channel. Graphs create it from their nodes; DirectML has no such
    operator.
    """

    c_name = "lookup table of element-wise operators"
    is_extension = True
    support = (SupportRow("1_0", dims=(1, 8)),)
    in_place = True

    input_tensor: Annotated[TensorDesc, In("*sizes", _BYTES)]
    """The bytes that the first operators read."""

    constant_tensors: Annotated[TensorDescs, In("*sizes", ALL_BUT_4_BITS, constant=True)]
    """The tensors that the operators read besides, repeated to the sizes of the output."""

    row_tensor: Annotated[TensorDesc | None, In("*sizes", _BYTES)] = None
    """The bytes that choose a row of the table, repeated to the sizes of the output; None if the table has one row."""

    output_tensor: Annotated[TensorDesc, Out("*sizes", _BYTES)]
    """The output of the last operator."""

    nodes: tuple[Any, ...]
    """The operators as `GroupedOperator`s, each after those that it reads. Value 0 is the input; then come the constants, then the rows."""

    @property
    def table_axes(self) -> tuple[int, ...]:
        """The dimensions along which constants vary, so that each entry has a table of its own."""
        return tuple(axis for axis in range(len(self.output_tensor.sizes)) if any(_varies(each, axis) for each in self.constant_tensors))

    def table_operators(self) -> Sequence[OperatorDesc] | None:
        """The operators on each byte once, along the last dimension, for each table; None if tables differ along that dimension.

        With rows, the bytes that choose one lie along the last dimension along which they vary, and all tables must be the same.
        """
        sizes, axes, rows = self.output_tensor.sizes, self.table_axes, self.row_tensor
        last, row = _last_of(sizes), -1
        if last < 0 or last in axes:
            return None
        if rows is not None:
            row = max((axis for axis in range(last) if _varies(rows, axis)), default=-1)
            if row < 0 or axes or _varies(rows, last):
                return None
        table = _TableSizes(frozenset({row, last}), axes)
        # The sizes of each value, in the order of the numbers: those of constants are their own.
        constants = range(1, 1 + len(self.constant_tensors))
        values = [table.of(1 if axis == row else size for axis, size in enumerate(sizes)), *(() for _ in constants)]
        if rows is not None:
            values.append(table.of(size if axis == row else 1 for axis, size in enumerate(sizes)))
        operators = []
        for node in self.nodes:
            tensors, reads = dict(node.desc.tensors()), dict(node.reads)
            for place, tensor in tensors.items():
                entries, strides = table.of(tensor.sizes), None
                if reads.get(place) in constants:
                    strides = None if tensor.is_packed else tensor.strides
                elif place in reads:
                    strides = _repeating(values[reads[place]], entries)
                else:
                    values.append(entries)
                tensors[place] = tensor.replace(sizes=entries, strides=strides, total_tensor_size_in_bytes=None)
            operators.append(with_tensors(node.desc, tensors))
        return operators


class LookupConvolutionDesc(QuantizedLinearConvolutionDesc):
    """A quantized convolution whose results are looked up in a table, or in one for each output channel.

    Graphs create it from their nodes; DirectML has no such operator. A device without a plan for it runs the nodes separately.
    """

    c_name = "quantized convolution with a lookup table"
    is_extension = True
    formula = "y = table[convolution]"

    constant_tensors: Annotated[TensorDescs, In("batch output_channels *out", ALL_BUT_4_BITS, constant=True)]
    """Those of the table."""

    nodes: tuple[Any, ...]
    """Those of the table, whose input is the convolution's result."""

    @property
    def lookups(self) -> LookupTableDesc:
        """The table alone."""
        assert self.output_tensor is not None  # guaranteed by the check
        of_table: dict[str, Any] = {"constant_tensors": self.constant_tensors, "nodes": self.nodes}
        return LookupTableDesc(input_tensor=self.output_tensor, output_tensor=self.output_tensor, **of_table)

    @property
    def convolution(self) -> QuantizedLinearConvolutionDesc:
        """The convolution alone."""
        return QuantizedLinearConvolutionDesc(**{name: getattr(self, name) for name in QuantizedLinearConvolutionDesc.model_fields})


@dataclass(frozen=True)
class _TableSizes:
    """The sizes of tensors that hold each byte once.

    Attributes:
        of_bytes: the dimensions along which bytes lie.
        own: those along which each entry has a table of its own.
    """

    of_bytes: frozenset[int]
    own: tuple[int, ...]

    def of(self, sizes: Iterable[int]) -> tuple[int, ...]:
        """Those of a tensor in the graph; of one entry it keeps that."""
        return tuple(size if size == 1 or axis in self.own else ENTRIES if axis in self.of_bytes else 1 for axis, size in enumerate(sizes))


def _repeating(written: Sequence[int], sizes: Sequence[int]) -> Sequence[int] | None:
    """The strides of a packed tensor repeated to other sizes; None if these are its own."""
    if list(written) == list(sizes):
        return None
    return [stride if entries > 1 else 0 for entries, stride in zip(written, packed_strides(written), strict=True)]


def repeated(tensor: TensorDesc, sizes: Sequence[int]) -> TensorDesc | None:
    """A constant with its entries repeated to these sizes; None if it has blocks of entries, or other dimensions."""
    if len(tensor.sizes) != len(sizes) or any(count not in (1, size) for count, size in zip(tensor.sizes, sizes, strict=True)):
        return None
    strides = [stride if size > 1 else 0 for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True)]
    return tensor.replace(sizes=sizes, strides=strides, total_tensor_size_in_bytes=None)


def differs_along_last(tensor: TensorDesc, sizes: Sequence[int]) -> bool:
    """Whether a constant of these sizes has several entries along the last dimension, so that there are no tables."""
    last = _last_of(sizes)
    return last >= 0 and _varies(tensor, last)


def _last_of(sizes: Sequence[int]) -> int:
    """The last dimension of more than one entry; -1 without one."""
    return max((axis for axis, size in enumerate(sizes) if size > 1), default=-1)


def _varies(tensor: TensorDesc, axis: int) -> bool:
    return tensor.sizes[axis] > 1 and tensor.element_strides[axis] != 0


@flops(LookupTableDesc)
def table_flops(desc: LookupTableDesc) -> int | None:
    counts = [flops_of(node.desc) for node in desc.nodes]
    return None if None in counts else sum(count or 0 for count in counts)
