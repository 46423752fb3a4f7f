"""`LookupTableDesc`: element-wise operators between bytes as one; the tensors between them have no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from dmlpy.description.descs import OperatorDesc, TensorDescs
from dmlpy.description.enums import DataType
from dmlpy.description.markers import In, Out
from dmlpy.description.support import ALL_BUT_4_BITS, SupportRow
from dmlpy.description.tensors import TensorDesc  # noqa: TC001  pydantic reads it
from dmlpy.devices.flops import flops, flops_of
from dmlpy.devices.plan import with_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence


_BYTES = frozenset({DataType.UINT8, DataType.INT8})
ENTRIES = 256
"""The entries of a table: one for each byte."""


class LookupTableDesc(OperatorDesc):
    """Operators that together map each byte to another, by a function that is the same for all elements of a channel.

    Graphs create it from their nodes; DirectML has no such operator.
    """

    c_name = "lookup table of element-wise operators"
    is_extension = True
    support = (SupportRow("1_0", dims=(1, 8)),)
    in_place = True

    input_tensor: Annotated[TensorDesc, In("*sizes", _BYTES)]
    """The bytes that the first operators read."""

    constant_tensors: Annotated[TensorDescs, In("*sizes", ALL_BUT_4_BITS, constant=True)]
    """The tensors that the operators read besides, repeated to the sizes of the output."""

    output_tensor: Annotated[TensorDesc, Out("*sizes", _BYTES)]
    """The output of the last operator."""

    nodes: tuple[Any, ...]
    """The operators as `GroupedOperator`s, each after those that it reads. Value 0 is the input; then come the constants."""

    @property
    def table_axes(self) -> tuple[int, ...]:
        """The dimensions along which constants vary, so that each entry has a table of its own."""
        return tuple(axis for axis in range(len(self.output_tensor.sizes)) if any(_varies(each, axis) for each in self.constant_tensors))

    def table_operators(self) -> Sequence[OperatorDesc] | None:
        """The operators on each byte once, along the last dimension, for each table; None if tables differ along that dimension."""
        sizes, own = self.output_tensor.sizes, self.table_axes
        last = _last_of(sizes)
        if last < 0 or last in own:
            return None
        constants = range(1, 1 + len(self.constant_tensors))
        operators = []
        for node in self.nodes:
            fixed = {place for place, number in node.reads if number in constants}
            tensors = {place: _of_tables(tensor, last, own, is_fixed=place in fixed) for place, tensor in node.desc.tensors().items()}
            operators.append(with_tensors(node.desc, tensors))
        return operators


def repeated(tensor: TensorDesc, sizes: Sequence[int]) -> TensorDesc | None:
    """A constant with its entries repeated to these sizes; None if it has blocks of entries, or other dimensions."""
    if len(tensor.sizes) != len(sizes) or any(own not in (1, size) for own, size in zip(tensor.sizes, sizes, strict=True)):
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


def _of_tables(tensor: TensorDesc, last: int, own: Sequence[int], *, is_fixed: bool) -> TensorDesc:
    """A tensor with an entry for each byte along the last dimension; of one entry it keeps that."""
    sizes = [size if size == 1 or axis in own else ENTRIES if axis == last else 1 for axis, size in enumerate(tensor.sizes)]
    strides = tensor.strides if is_fixed and not tensor.is_packed else None
    return tensor.replace(sizes=sizes, strides=strides, total_tensor_size_in_bytes=None)


@flops(LookupTableDesc)
def table_flops(desc: LookupTableDesc) -> int | None:
    counts = [flops_of(node.desc) for node in desc.nodes]
    return None if None in counts else sum(count or 0 for count in counts)
