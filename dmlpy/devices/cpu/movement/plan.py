"""The plans of movement: strided elements, copies of their blocks, conversions and reversals, and the parameters of their kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.sized_arrays import SizedArray
from dmlpy.description.symbolic_sizes import is_symbolic, slice_indices
from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cpu.elementwise.plan import Blocks
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, Flag, KernelStruct, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import BoundAddress, Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    from dmlpy.description.tensors import TensorDesc

    Index = int | slice | EllipsisType | None
    from collections.abc import Mapping

    from dmlpy.devices.cpu.jit import Function
    from dmlpy.operators.movement.copy import ReverseSubsequencesDesc


@dataclass(frozen=True)
class Elements:
    """Some of the elements of a tensor, or a constant that is repeated.

    Attributes:
        base: the place of the tensor, or the constant.
        dtype: the type of the elements.
        shape: how many there are along each axis.
        strides: the bytes from one to the next; 0 repeats an element.
        offset: the bytes from the tensor's first element to theirs.
    """

    base: str | FixedArray
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def of(cls, place: str, tensor: TensorDesc) -> Elements:
        """All elements of a tensor."""
        kind = tensor.data_type.numpy
        return cls(place, kind, tensor.sizes, tuple([step * kind.itemsize for step in tensor.element_strides]))

    @classmethod
    def repeating(cls, value: Any, dtype: np.dtype[Any], shape: Sequence[int]) -> Elements:
        """A number that is repeated, which may be a symbolic size."""
        numbers: list[Any] = [value]
        array = SizedArray.of(numbers, (), dtype) if is_symbolic(value) else np.array(value, dtype)
        return cls(FixedArray(array), dtype, tuple(shape), (0,) * len(shape))

    @property
    def size(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Elements:
        indices = list(index) if isinstance(index, tuple) else [index]
        left = len(self.shape) - sum(each is not None and each is not ... for each in indices)
        at = indices.index(...) if ... in indices else len(indices)
        indices[at : at + 1] = [slice(None)] * left
        rows = iter(zip(self.shape, self.strides, strict=True))
        shape, strides, offset = list[int](), list[int](), self.offset
        for each in indices:
            if each is None:
                shape.append(1)
                strides.append(0)
                continue
            size, stride = next(rows)
            if isinstance(each, slice):
                if each == slice(None):
                    shape.append(size)
                    strides.append(stride)
                    continue
                first, last, step = slice_indices(each, size)
                count = max(-((first - last) // step), 0)
                offset += first * stride if count else 0
                shape.append(count)
                strides.append(stride * step)
            else:
                offset += each * stride  # type: ignore[operator]  # `...` was replaced
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=offset)

    def transpose(self, *axes: int) -> Elements:
        """The elements with their axes in another order."""
        return replace(self, shape=tuple([self.shape[axis] for axis in axes]), strides=tuple([self.strides[axis] for axis in axes]))

    def repeated(self, shape: Sequence[int]) -> Elements:
        """The elements, repeated to these sizes along axes of size 1 and outer ones, as by `numpy.broadcast_to`."""
        missing = len(shape) - len(self.shape)
        rows = zip(shape[missing:], self.shape, self.strides, strict=True)
        strides = [0 if existing == 1 and size != 1 else stride for size, existing, stride in rows]
        return replace(self, shape=tuple(shape), strides=(*(0,) * missing, *strides))

    def split_axis(self, axis: int, sizes: Sequence[int]) -> Elements:
        """The elements with an axis divided into several, whose product is its size."""
        step, shape, strides = self.strides[axis], list(self.shape), list(self.strides)
        shape[axis : axis + 1] = sizes
        strides[axis : axis + 1] = [step * prod(sizes[at + 1 :]) for at in range(len(sizes))]
        return replace(self, shape=tuple(shape), strides=tuple(strides))


Array = np.ndarray[Any, np.dtype[Any]]

COPIES = Kernel("dmlpy.devices.cpu.movement.kernels:build_copies", 5)
"""Copies of elements as they are: the instruction set."""
CONVERSIONS = Kernel("dmlpy.devices.cpu.movement.kernels:build_conversions", 5)
"""Conversions between FLOAT16 and FLOAT32: the instruction set."""
CLASSES = Kernel("dmlpy.devices.cpu.movement.kernels:build_classes", 5)
"""Masks of elements that are not finite: whether of FLOAT16, and the instruction set."""
CASTS = Kernel("dmlpy.devices.cpu.movement.cast_kernels:build_casts", 5)
"""Conversions between other types: the names of NumPy's types of source and target, and the instruction set."""
SMALL_CASTS = Kernel("dmlpy.devices.cpu.movement.cast_kernels:build_small_casts", 5)
"""Conversions between all types of few elements."""
CAST_TYPES = ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
"""NumPy's names of the types of `SMALL_CASTS`, where the kernel has their places."""
BFLOAT16_CONVERSIONS = Kernel("dmlpy.devices.cpu.movement.kernels:build_bfloat16_conversions", 5)
"""Conversions between BFLOAT16 and FLOAT32: the instruction set."""

NOT_A_NUMBER, POSITIVE, NEGATIVE = 1, 2, 4
"""The classes of elements that are not finite, as bits: NaN and the infinities."""

_BLOCK = 1 << 14
"""Elements of a block, at most."""
_TRANSPOSED_ROWS = 32
"""Rows of a block, at least, where rows of the source are columns of the target."""
_SHORTEST = 8
"""Rows of a block, at least, where there is a choice."""
_BYTES_OF_A_THREAD = 1 << 20
"""Bytes that are worth waking another thread for."""
_FEWEST_CAST = 1 << 8
"""The elements of a conversion that are worth a kernel of their types."""
_REVERSED_COST = 4
"""Bytes that are copied in the time of one that is reversed."""


class CopiesParameters(UnitParameters):
    """The parameters of the copies. A tile is some of the blocks of all copies."""

    width: Bytes = field("bytes of an element of the targets")
    copies: Count = field("copies")
    table: Address = field("the copies, `EncodedCopy`s")
    bases: Address = field("the addresses of each copy's first target and source, int64 [copies, 2]")
    classes: Count = field("of CLASSES, the sum of the classes whose elements give 1; the others give 0")
    source_type: Count = field("of SMALL_CASTS, the place of the sources' type in `CAST_TYPES`")
    target_type: Count = field("likewise of the targets' type")
    axes: Address = field(
        "the axes of the blocks of all copies, each copy's innermost first, int64 [axes, 3]: "
        "blocks, and the bytes from one to the next in target and source"
    )


class EncodedCopy(KernelStruct):
    """One copy."""

    first_block: Count = field("the blocks of the copies before it")
    blocks: Count = field("its blocks")
    first_axis: Count = field("the axes of the copies before it")
    axes: Count = field("its axes")
    rows: Count = field("elements of a block along the outer of its two axes")
    columns: Count = field("elements of a block along the inner one")
    splits_rows: Flag = field("whether blocks divide the outer axis; else they divide the inner one")
    split_size: Count = field("elements along the axis that blocks divide: the last block may have fewer than the others")
    to_row: Bytes = field("from a row of the target to the next")
    to_column: Bytes = field("from a column of the target to the next")
    of_row: Bytes = field("from a row of the source to the next")
    of_column: Bytes = field("from a column of the source to the next")


@dataclass(frozen=True)
class Copy:
    """A copy of elements: target and source have the same sizes.

    Attributes:
        target: where they are written.
        source: where they are read; strides of 0 repeat elements.
    """

    target: Elements
    source: Elements


class CopyPlan(PlanWithoutConstants):
    """Copies of elements, each of which is written once or by later copies again.

    Args:
        copies: the copies, in order. The elements of all targets have one size, and those of all sources.
        kernel: what copies them: `COPIES`, `CONVERSIONS` or `BFLOAT16_CONVERSIONS`.
    """

    temporary_size = 0
    _choices: Mapping[str, int] = {}
    """The kernel's parameters of what it computes."""

    def __init__(self, copies: Sequence[Copy], kernel: Kernel = COPIES) -> None:
        made, self._kind = [copy for copy in copies if copy.target.size], kernel
        self._width = copies[0].target.dtype.itemsize
        self._elements = sum(copy.target.size for copy in made)
        rows: list[tuple[int, ...]] = []
        axes: list[tuple[int, int, int]] = []
        self._blocks = 0
        for copy in made:
            blocks = _blocks_of(copy)
            sizes = copy.target.dtype.itemsize, copy.source.dtype.itemsize
            count = prod(blocks.sizes)
            steps = [step * size for along in (blocks.row, blocks.column) for step, size in zip(along, sizes, strict=True)]
            to_row, of_row, to_column, of_column = steps
            rows.append(
                (
                    *(self._blocks, count, len(axes), len(blocks.sizes)),
                    *(blocks.rows, blocks.columns, int(blocks.splits_rows), blocks.split_size),
                    *(to_row, to_column, of_row, of_column),
                )
            )
            along_axes = zip(blocks.sizes, *blocks.strides, strict=True)
            axes += [(blocks_along, to * sizes[0], of * sizes[1]) for blocks_along, to, of in along_axes]
            self._blocks += count
        self._table, self._axes = FixedArray.of_rows(rows), FixedArray.of_rows(axes)
        ordered = _overlaps(made)
        work = self._elements * self._width
        threads = Threads() if ordered else Threads.of(available_threads(), work, _BYTES_OF_A_THREAD)
        self._shares = WorkShares(self._blocks, threads)
        self._bases = [(part.base, part.offset) for copy in made for part in (copy.target, copy.source)]
        """Of each copy's target and source the constant or the place of the tensor, and the bytes from there to the first element."""

    def _kernel(self) -> Function:
        return self._kind(host_isa())

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        count = f"{len(self._bases) // 2} cop{'ies' if len(self._bases) > 2 else 'y'}"
        return f"compiled by LLVM on {self._shares}; {count}, {self._elements} elements {self._what()}"

    def _what(self) -> str:
        return "converted" if self._kind is not COPIES else f"of {self._width} byte{'s' * (self._width > 1)}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_addresses([_first_address(base, offset, tensors) for base, offset in self._bases])

    def bind_addresses(self, bases: Sequence[int] | Array) -> Launch:
        """Binds the addresses of each copy's first target and source; those of an array are read by each launch."""
        values: Mapping[str, Any] = {
            **self._shares.values,
            "width": self._width,
            "copies": len(self._bases) // 2,
            **self._choices,
            "table": self._table,
            "axes": self._axes,
            "bases": bases,
        }
        return TaskLaunch.of(self._kernel(), CopiesParameters.bound(values), self._shares.threads, self._bases)


class ClassesPlan(CopyPlan):
    """A byte for each element, 1 for those of some classes.

    Args:
        copy: from elements of FLOAT32 or FLOAT16 to bytes.
        classes: the sum of the classes.
    """

    def __init__(self, copy: Copy, classes: int) -> None:
        super().__init__([copy])
        self._choices, self._halves = {"classes": classes}, copy.source.dtype.itemsize == FLOAT_BYTES // 2

    def _what(self) -> str:
        return "tested"

    def _kernel(self) -> Function:
        return CLASSES(self._halves, host_isa())


class CastPlan(CopyPlan):
    """A conversion between types of numbers, at least one of them of integers or of FLOAT64.

    Args:
        copy: from the elements of one type to those of the other.
    """

    def __init__(self, copy: Copy) -> None:
        super().__init__([copy])
        self._types = copy.source.dtype.name, copy.target.dtype.name
        places = (CAST_TYPES.index(name) for name in self._types)
        self._choices = dict(zip(("source_type", "target_type"), places, strict=True))

    def _what(self) -> str:
        return f"converted from {' to '.join(self._types)}"

    def _kernel(self) -> Function:
        return SMALL_CASTS() if self._elements < _FEWEST_CAST else CASTS(*self._types, host_isa())


def _first_address(base: FixedArray | str, offset: int, tensors: Pointers) -> int:
    """The address of the first element of a constant, or of some of a tensor's, given the addresses of the tensors."""
    if isinstance(base, FixedArray):
        return BoundAddress(base.address, None)
    return tensors[base] + offset if offset else tensors[base]


def _overlaps(copies: Sequence[Copy]) -> bool:
    """Whether copies write elements again, so that their order matters: the first is then of a constant."""
    return len(copies) > 1 and isinstance(copies[0].source.base, FixedArray)


def _blocks_of(copy: Copy) -> Blocks:
    strides = [[step // part.dtype.itemsize for step in part.strides] for part in (copy.target, copy.source)]
    blocks = Blocks.of(copy.target.shape, strides, host_isa().lanes, _BLOCK, _SHORTEST)
    turned = max((size for size, step in zip(copy.target.shape, strides[1], strict=True) if step == 1), default=1)
    if blocks.column[1] in (0, 1) or turned < _SHORTEST:
        return blocks
    columns = blocks.columns if blocks.splits_rows else blocks.split_size
    most = max(_BLOCK, min(turned, _TRANSPOSED_ROWS) * columns)
    return Blocks.of(copy.target.shape, strides, host_isa().lanes, most, _SHORTEST)


REVERSAL = Kernel("dmlpy.devices.cpu.movement.kernels:build_reversal", 5)
"""The reversal of the first elements of sequences."""

_PLACES = ("output_tensor", "input_tensor", "sequence_lengths_tensor")


class ReversalParameters(UnitParameters):
    """The parameters of the kernel. A tile is some of the groups: sequences whose elements are contiguous."""

    axes: Count = field("axes of the groups")
    table: Address = field(
        "the axes, innermost first, int64 [axes, 4]: groups, and the bytes from one to the next in output, input and lengths"
    )
    columns: Count = field("sequences of a group")
    length_step: Bytes = field("from the length of a group's sequence to the next")
    length_bytes: Bytes = field("the size of a length: 4 or 8")
    size: Count = field("elements of a sequence")
    width: Bytes = field("the size of an element")
    output: Address = field("the output")
    output_step: Bytes = field("from an element of a sequence of the output to the next")
    input: Address = field("the input")
    input_step: Bytes = field("from an element of a sequence of the input to the next")
    lengths: Address = field("the lengths")


class ReversalPlan(PlanWithoutConstants):
    """A reversal of the first elements of sequences, of any width.

    Args:
        desc: a checked desc of elements of whole bytes.
    """

    temporary_size = 0

    def __init__(self, desc: ReverseSubsequencesDesc) -> None:
        tensors = [desc.tensors()[place] for place in _PLACES]
        self._width, self._length_bytes = tensors[0].data_type.numpy.itemsize, tensors[2].data_type.numpy.itemsize
        self._size, self._steps = tensors[0].sizes[desc.axis], [tensor.element_strides[desc.axis] * self._width for tensor in tensors[:2]]
        sizes, *strides = (
            [value for axis, value in enumerate(values) if axis != desc.axis]
            for values in (tensors[0].sizes, *(tensor.element_strides for tensor in tensors))
        )
        axes = list(merged(sizes, strides))
        none = Axis(1, (1, 1, 0))
        inner = axes.pop() if axes and axes[-1].strides[:2] == (1, 1) else none
        self._columns, self._length_step = inner.size, inner.strides[2] * self._length_bytes
        widths = self._width, self._width, self._length_bytes
        table = [(axis.size, *(step * width for step, width in zip(axis.strides, widths, strict=True))) for axis in reversed(axes)]
        self._table, self._axes, self._groups = FixedArray(np.array(table, np.int64)), len(axes), prod(axis.size for axis in axes)
        moved = tensors[0].element_count * self._width
        self._shares = WorkShares(self._groups, Threads.of(available_threads(), _REVERSED_COST * moved, _BYTES_OF_A_THREAD))

    def load(self) -> None:
        REVERSAL()

    def describe(self) -> str:
        return f"compiled by LLVM on {self._shares}; {self._groups} group(s) of {self._columns} sequence(s) of {self._size} elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        output, source, lengths = (tensors[place] for place in _PLACES)
        values: dict[str, Any] = {
            **self._shares.values,
            "axes": self._axes,
            "table": self._table,
            "columns": self._columns,
            "length_step": self._length_step,
            "length_bytes": self._length_bytes,
            "size": self._size,
            "width": self._width,
            "output": output,
            "output_step": self._steps[0],
            "input": source,
            "input_step": self._steps[1],
            "lengths": lengths,
        }
        return TaskLaunch.of(REVERSAL(), ReversalParameters.bound(values), self._shares.threads)
