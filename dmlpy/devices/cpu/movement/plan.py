"""The plan of copies between tensors: their blocks, and the parameters of their kernels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.elementwise.blocks import Blocks
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, Flag, KernelStruct, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import BoundAddress, Launch, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.cpu.jit import Function
    from dmlpy.devices.cpu.movement.elements import Elements

Array = np.ndarray[Any, np.dtype[Any]]

COPIES = Kernel("dmlpy.devices.cpu.movement.kernels:build_copies", 5)
"""Copies of elements as they are: the instruction set."""
CONVERSIONS = Kernel("dmlpy.devices.cpu.movement.kernels:build_conversions", 5)
"""Conversions between FLOAT16 and FLOAT32: the instruction set."""
CLASSES = Kernel("dmlpy.devices.cpu.movement.class_kernels:build_classes", 5)
"""Which elements are not finite: whether of FLOAT16, and the instruction set."""
CASTS = Kernel("dmlpy.devices.cpu.movement.cast_kernels:build_casts", 5)
"""Conversions between other types: the names of NumPy's types of source and target, and the instruction set."""
BFLOAT16_CONVERSIONS = Kernel("dmlpy.devices.cpu.movement.kernels:build_bfloat16_conversions", 5)
"""Conversions between BFLOAT16 and FLOAT32: the instruction set."""

NOT_A_NUMBER, POSITIVE, NEGATIVE = 1, 2, 4
"""The classes of elements that are not finite, as bits: NaN and the infinities."""

_BLOCK = 1 << 14
"""Elements of a block, at most."""
_SHORTEST = 8
"""Rows of a block, at least, where there is a choice."""
_BYTES_OF_A_THREAD = 1 << 20
"""Bytes that are worth waking another thread for."""
_TILES_PER_THREAD = 4
"""Tiles for each thread."""


class CopiesParameters(UnitParameters):
    """The parameters of the copies. A tile is some of the blocks of all copies."""

    width: Bytes = field("bytes of an element of the targets")
    copies: Count = field("copies")
    table: Address = field("the copies, `EncodedCopy`s")
    bases: Address = field("the addresses of each copy's first target and source, int64 [copies, 2]")
    classes: Count = field("of CLASSES, the sum of the classes whose elements give 1; the others give 0")
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
    _classes = 0

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
        self._threads = 1 if ordered else max(1, min(available_threads(), work // _BYTES_OF_A_THREAD, self._blocks))
        self._bases = [(part.base, part.offset) for copy in made for part in (copy.target, copy.source)]
        """Of each copy's target and source the constant or the place of the tensor, and the bytes from there to the first element."""

    def _kernel(self) -> Function:
        return self._kind(host_isa())

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        count = f"{len(self._bases) // 2} cop{'ies' if len(self._bases) > 2 else 'y'}"
        return f"compiled by LLVM on {threads}; {count}, {self._elements} elements {self._what()}"

    def _what(self) -> str:
        return "converted" if self._kind is not COPIES else f"of {self._width} byte{'s' * (self._width > 1)}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_addresses([_first_address(base, offset, tensors) for base, offset in self._bases])

    def bind_addresses(self, bases: Sequence[int] | Array) -> Launch:
        """Binds the addresses of each copy's first target and source; those of an array are read by each launch."""
        values: Mapping[str, Any] = {
            "tiles": min(self._blocks, _TILES_PER_THREAD * self._threads) if self._threads > 1 else 1,
            "width": self._width,
            "units": self._blocks,
            "copies": len(self._bases) // 2,
            "classes": self._classes,
            "table": self._table,
            "axes": self._axes,
            "bases": bases,
        }
        return TaskLaunch.of(self._kernel(), CopiesParameters.bound(values), self._threads, self._bases)


class ClassesPlan(CopyPlan):
    """A byte for each element, 1 for those of some classes.

    Args:
        copy: from elements of FLOAT32 or FLOAT16 to bytes.
        classes: the sum of the classes.
    """

    def __init__(self, copy: Copy, classes: int) -> None:
        super().__init__([copy])
        self._classes, self._halves = classes, copy.source.dtype.itemsize == FLOAT_BYTES // 2

    def _what(self) -> str:
        return "tested"

    def _kernel(self) -> Function:
        return CLASSES(self._halves, host_isa())


class CastPlan(CopyPlan):
    """A conversion between types of numbers, at least one of them of integers.

    Args:
        copy: from the elements of one type to those of the other.
    """

    def __init__(self, copy: Copy) -> None:
        super().__init__([copy])
        self._types = copy.source.dtype.name, copy.target.dtype.name

    def _what(self) -> str:
        return f"converted from {' to '.join(self._types)}"

    def _kernel(self) -> Function:
        return CASTS(*self._types, host_isa())


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
    return Blocks.of(copy.target.shape, strides, host_isa().lanes, _BLOCK, _SHORTEST)
