"""SOFTMAX, LOG_SOFTMAX and HARDMAX in NumPy.

A launch processes the groups in blocks that stay in cache. It copies a block into packed scratch of the compute type: a group is a
row there, or a column if neighbours in memory belong to different groups or groups are short. A group that is longer than a block is
read three times, for its largest, its sum and its results; the sums of its parts are added in float64. FLOAT16 is rounded once on
writing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from dmlpy.description.arrays import array_at
from dmlpy.devices.axes import element_count, merged, numbers_in_group
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers
from dmlpy.operators.activation import (
    AxesActivationDesc,
    RowActivationDesc,
)

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
GroupsDesc = RowActivationDesc | AxesActivationDesc
Slices = tuple[slice, ...]

_ALIGNMENT = 64
_BLOCK = 1 << 15
"""Elements of a block."""
_FEWEST_COLUMNS = 64
"""The fewest groups of a block if neighbours in memory belong to different ones: whole cache lines are read, however long the groups are.
"""
_SHORT = 32
"""The most entries of a group for which columns are faster than rows: NumPy has an overhead for each row."""


def slices(sizes: Sequence[int], most: int) -> Iterator[Slices]:
    """Cuts an array of these sizes, in row-major order, into parts of at most `most` elements: inner axes whole, outer ones split."""
    steps: list[int] = []
    for size in reversed(sizes):
        steps.insert(0, max(1, min(size, most)))
        most = most // size if steps[0] == size else 1
    for starts in product(*(range(0, size, step) for size, step in zip(sizes, steps, strict=True))):
        yield tuple(slice(start, min(start + step, size)) for start, step, size in zip(starts, steps, sizes, strict=True))


class Block:
    """Some of the groups; one part of their entries at a time is in scratch.

    Attributes:
        count: the number of groups.

    Args:
        x: and `y`: the tensors, the axes of the groups before the others, or with `columns` after them.
        memory: scratch for the elements of a part.
        groups: which entries of the first, or with `columns` of the last axes.
        columns: whether a group is a column in scratch.
    """

    def __init__(self, x: Array, y: Array, memory: Array, groups: Slices, columns: bool) -> None:
        self._x, self._y, self._memory, self._groups, self._columns = x, y, memory, groups, columns
        self._group_sizes = tuple(part.stop - part.start for part in groups)
        self.count = prod(self._group_sizes)

    def load(self, part: Slices) -> Array:
        """Copies a part of the entries to scratch: [groups, entries], or with `columns` [entries, groups]."""
        source = self._x[self._index(part)]
        flat = self._memory[: source.size]
        flat.reshape(source.shape)[...] = source
        return flat.reshape((-1, self.count) if self._columns else (self.count, -1))

    def target(self, part: Slices) -> Array:
        """The array for a part's results, with the axes in memory order."""
        target: Array = self._y[self._index(part)]
        return target

    def per_group(self, array: Array) -> Array:
        """The first entries of a packed array, one per group, shaped to broadcast over the result of `load`."""
        return array[: self.count].reshape((1, -1) if self._columns else (-1, 1))

    def beside_target(self, array: Array) -> Array:
        """The first entries of a packed array, one per group, shaped to broadcast over the result of `target`."""
        ones = (1,) * (self._x.ndim - len(self._groups))
        return array[: self.count].reshape((*ones, *self._group_sizes) if self._columns else (*self._group_sizes, *ones))

    def _index(self, part: Slices) -> tuple[Any, ...]:
        # the ellipsis gives an array even without axes
        return (*part, *self._groups, ...) if self._columns else (*self._groups, *part, ...)


class GroupsPlan(PlanWithoutConstants):
    """The base of the functions' plans: the groups' layout, in memory and in blocks.

    Args:
        desc: a checked desc.
    """

    ordered = False
    """Whether the entries of a group keep the order of the desc's dimensions, in rows."""

    def __init__(self, desc: GroupsDesc) -> None:
        tensors = desc.tensors()
        x, y = tensors["input_tensor"], tensors["output_tensor"]
        reduced = set(desc.axes) if isinstance(desc, AxesActivationDesc) else {x.dimension_count - 1}
        numbers = numbers_in_group(x.sizes, reduced if self.ordered else ())
        axes = merged(x.sizes, (x.element_strides, y.element_strides, numbers), reduced)
        # without entry numbers the order is that of memory
        entry_axes = sorted((axis for axis in axes if axis.reduced), key=lambda axis: axis.strides[2], reverse=True)
        group_axes = [axis for axis in axes if not axis.reduced]
        across = bool(axes) and not axes[-1].reduced

        self._data_type = x.data_type.numpy
        self._groups, self._entries = element_count(group_axes), element_count(entry_axes)
        self._columns = not self.ordered and (across or self._entries <= _SHORT)
        self._block_groups = min(self._groups, max(_FEWEST_COLUMNS if across else 1, _BLOCK // self._entries))
        self._block_entries = min(self._entries, max(1, _BLOCK // self._block_groups))
        self._axes = [*entry_axes, *group_axes] if self._columns else [*group_axes, *entry_axes]
        self._entry_sizes = [axis.size for axis in entry_axes]
        self._group_sizes = [axis.size for axis in group_axes]
        self._in_parts = self._block_entries < self._entries
        self._scratch = Layout(self._scratch_arrays(self._block_groups, self._block_entries), _ALIGNMENT)
        self.temporary_size = self._scratch.size

    @abstractmethod
    def _scratch_arrays(self, groups: int, entries: int) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The packed arrays of a launch, among them `values` for a part's elements; the most groups and entries that a part has."""

    @abstractmethod
    def _run(self, block: Block, scratch: Arrays) -> None:
        """Computes the results of a block."""

    def _parts(self) -> Iterator[Slices]:
        return slices(self._entry_sizes, self._block_entries)

    def describe(self) -> str:
        arranged = f"blocks of {self._block_groups} {'columns' if self._columns else 'rows'} of {self._block_entries} entries"
        parts = "; longer groups are read once for each step" if self._in_parts else ""
        return f"NumPy, {COMPUTE} arithmetic; {self._groups} groups of {self._entries} entries\n{arranged}{parts}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        x, y = (
            array_at(tensors[name], [axis.size for axis in self._axes], self._data_type, [axis.strides[at] for axis in self._axes])
            for at, name in enumerate(("input_tensor", "output_tensor"))
        )
        scratch = self._scratch.arrays_at(temporary)

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                for groups in slices(self._group_sizes, self._block_groups):
                    self._run(Block(x, y, scratch["values"], groups, self._columns), scratch)

        return launch


class SoftmaxPlan(GroupsPlan):
    """Computes exp(x - largest) / sum(exp(x - largest))."""

    def _scratch_arrays(self, groups: int, entries: int) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        size = groups * entries
        wide = np.dtype(np.float64)
        return [
            ("values", (size,), COMPUTE),
            ("work", (self._work_size(size),), COMPUTE),
            ("largest", (groups,), COMPUTE),
            ("sum", (groups,), COMPUTE),
            ("total", (groups,), wide),
        ]

    def _work_size(self, size: int) -> int:
        """The number of elements of `work` for a part of this many."""
        return size // 2

    def _run(self, block: Block, scratch: Arrays) -> None:
        # Infinities need no special case: infinity minus infinity is NaN, and so is every result of the group.
        work, total = scratch["work"], block.per_group(scratch["total"])
        largest, sums = (block.per_group(scratch[name]) for name in ("largest", "sum"))
        largest.fill(-np.inf)
        for part in self._parts():
            values = block.load(part)
            self._reduce(np.maximum, values, work, sums)
            np.maximum(largest, sums, out=largest)
        total.fill(0.0)
        for part in self._parts():
            values = block.load(part) if self._in_parts else values
            np.subtract(values, largest, values)
            self._reduce(np.add, self._powers(values, work), work, sums)
            np.add(total, sums, total)
        sums[...] = total
        self._finish(block, scratch, values)

    def _powers(self, values: Array, work: Array) -> Array:
        """Computes exp(values) in place."""
        np.exp(values, values)
        return values

    def _reduce(self, function: np.ufunc, values: Array, work: Array, out: Array) -> None:
        """Reduces to one result per group. Columns are halved repeatedly: this is fast, and as accurate as NumPy's sums over rows."""
        if not self._columns:
            function.reduce(values, axis=1, out=out, keepdims=True)
            return
        rows, groups = values.shape
        while rows > 1:
            half = rows // 2
            halves = work[: half * groups].reshape(half, groups)
            function(values[:half], values[half : 2 * half], out=halves)
            if rows % 2:
                function(halves[0], values[rows - 1], out=halves[0])
            values, rows = halves, half
        out[...] = values

    def _finish(self, block: Block, scratch: Arrays, values: Array) -> None:
        """Writes the results, from `largest` and `sum` and, if groups are not in parts, from the powers."""
        largest, sums = block.per_group(scratch["largest"]), block.beside_target(scratch["sum"])
        for part in self._parts():
            if self._in_parts:
                values = block.load(part)
                np.subtract(values, largest, values)
                np.exp(values, values)
            target = block.target(part)
            np.divide(values.reshape(target.shape), sums, target)


class LogSoftmaxPlan(SoftmaxPlan):
    """Computes x - largest - ln(sum(exp(x - largest)))."""

    def _work_size(self, size: int) -> int:
        return size

    def _powers(self, values: Array, work: Array) -> Array:
        """Computes exp(values) in `work`."""
        powers = work[: values.size].reshape(values.shape)
        np.exp(values, powers)
        return powers

    def _finish(self, block: Block, scratch: Arrays, values: Array) -> None:
        """Writes the results, from `largest` and `sum` and, if groups are not in parts, from the differences to the largest."""
        largest, sums = block.per_group(scratch["largest"]), block.beside_target(scratch["sum"])
        np.log(sums, sums)
        for part in self._parts():
            if self._in_parts:
                values = block.load(part)
                np.subtract(values, largest, values)
            target = block.target(part)
            np.subtract(values.reshape(target.shape), sums, target)


class HardmaxPlan(GroupsPlan):
    """Writes 1 at the first largest entry and 0 elsewhere; NaN counts as larger than any number."""

    ordered = True

    def __init__(self, desc: GroupsDesc) -> None:
        super().__init__(desc)
        self._numbers = np.arange(max(self._block_groups, self._block_entries), dtype=np.intp)

    def _scratch_arrays(self, groups: int, entries: int) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        size, index, flag = groups * entries, np.dtype(np.intp), np.dtype(np.bool_)
        return [
            ("values", (size,), COMPUTE),
            ("is_winner", (size,), flag),
            *((name, (groups,), COMPUTE) for name in ("largest", "picked")),
            *((name, (groups,), flag) for name in ("is_larger", "is_number")),
            *((name, (groups,), index) for name in ("winner", "first", "place")),
        ]

    def _run(self, block: Block, scratch: Arrays) -> None:
        largest, picked, is_larger, is_number, winner, first, place = (
            scratch[name][: block.count] for name in ("largest", "picked", "is_larger", "is_number", "winner", "first", "place")
        )
        largest.fill(-np.inf)
        winner.fill(0)
        before = 0
        for part in self._parts():
            values = block.load(part)
            entries = values.shape[1]
            np.argmax(values, axis=1, out=first)
            np.multiply(self._numbers[: block.count], entries, place)
            np.add(place, first, place)
            np.take(values.reshape(-1), place, out=picked, mode="clip")
            np.less_equal(picked, largest, is_larger)
            np.logical_not(is_larger, is_larger)
            np.equal(largest, largest, is_number)
            np.logical_and(is_larger, is_number, is_larger)
            np.add(first, before, first)
            np.copyto(winner, first, where=is_larger)
            np.copyto(largest, picked, where=is_larger)
            before += entries
        for part in self._parts():
            target = block.target(part)
            flags = scratch["is_winner"][: target.size]
            entries = target.size // block.count
            np.equal(self._numbers[:entries], block.per_group(winner), flags.reshape(block.count, entries))
            target[...] = flags.reshape(target.shape)
            np.subtract(winner, entries, winner)
