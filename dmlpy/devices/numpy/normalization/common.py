"""The base of the plans of batch normalization: tensors divided into blocks, scratch, and the sums of each group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import array_at
from dmlpy.devices.axes import merged
from dmlpy.devices.host.threads import available_threads, share
from dmlpy.devices.numpy.normalization import blocks
from dmlpy.devices.numpy.normalization.blocks import Block, Blocking
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers
from dmlpy.messages.naming import plural

if TYPE_CHECKING:
    from dmlpy.devices.axes import Axis
    from dmlpy.operators.normalization.geometry import NormalizationGeometry

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

_ALIGNMENT = 64
_ENTRIES_OF_A_THREAD = 1 << 18
"""The entries that are worth waking another thread for."""

_FEW_THREADS, _LARGEST_SCRATCH = 3, 0.1
"""The most scratch of all threads as a fraction of the input, if there are more than a few threads."""

_PIECES = 8
"""The pieces of a row that are added up in the same place. Of `TILE` entries, the sums of one fit in the first-level cache."""

LARGEST_SHARE = 16.0
"""Sums of squares are used directly if they are at most this many times the sum of squares about the mean: less than
two bits are lost then. A group with a larger mean, compared with its deviation, is centred first."""

FOLDED_SHARE = 4.0
"""An offset is folded into the centre while the mean's square is at most this many times the variance: rounding that centre then costs a
result, in units of the scale, no more than rounding it does."""

TENSORS = ("x", "dy", "add", "y", "dx")
"""The roles of the input's sizes; all others are statistics."""


def axes_of(geometry: NormalizationGeometry) -> tuple[list[str], tuple[Axis, ...]]:
    """The roles of the operands, those of the input's sizes first, and the axes that they share, with strides in that order."""
    operands = geometry.operands
    roles = sorted(operands, key=lambda role: TENSORS.index(role) if role in TENSORS else len(TENSORS))
    return roles, merged(geometry.sizes, [operands[role].strides for role in roles], geometry.reduced)


class NormalizationPlan(PlanWithoutConstants):
    """An operator of batch normalization on the host.

    Args:
        geometry: a checked desc's.
    """

    def __init__(self, geometry: NormalizationGeometry) -> None:
        self._geometry = geometry
        self._roles, self._axes = axes_of(geometry)
        arrays = len(self._copied()) + sum(prod(rows) for rows, _ in self._work_arrays().values())
        largest = blocks.BLOCK if arrays <= 1 else blocks.BLOCK // 4  # so that all of them stay in the cache
        self._blocking = blocking = Blocking(self._axes, largest)
        partial = [("sums", *self._partial_sums())] if self._sums() else []
        statistics = [(name, blocking.statistics, dtype) for name, dtype in self._statistics().items()]
        self._shared = Layout([*partial, *statistics], _ALIGNMENT)
        self._thread_layout = Layout(self._thread_scratch(), _ALIGNMENT)
        self._threads = self._count_threads()
        self.temporary_size = self._shared.size + self._threads * self._thread_layout.size

    def _count_threads(self) -> int:
        """The threads that share the blocks."""
        entries = prod(self._geometry.sizes)
        size = entries * self._geometry.operands[self._roles[0]].data_type.numpy.itemsize
        affordable = max(_FEW_THREADS, int(_LARGEST_SCRATCH * size / max(1, self._thread_layout.size)))
        return max(1, min(available_threads(), entries // _ENTRIES_OF_A_THREAD, self._blocking.block_count, affordable))

    @abstractmethod
    def _sums(self) -> tuple[str, ...]:
        """Names the sums over each group, for `describe`."""

    def _partial_sums(self) -> tuple[Sequence[int], np.dtype[Any]]:
        """The sizes and the type of what the parts of the groups leave of each sum."""
        return (len(self._sums()), self._blocking.rows, *self._blocking.statistics), np.dtype(np.float64)

    @abstractmethod
    def _statistics(self) -> dict[str, np.dtype[Any]]:
        """The arrays with an entry for each group that a launch leaves from one pass over the blocks to the next."""

    @abstractmethod
    def _work_arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Each thread's arrays for a block's entries, without copies of tensors: the sizes before the entries, and the type."""

    @abstractmethod
    def _coefficients(self) -> tuple[str, ...]:
        """The statistics that the computation of a block reads."""

    @abstractmethod
    def _work(self, launch: NormalizationLaunch) -> Callable[[], None]:
        """The work of a dispatch."""

    def _is_direct(self, role: str) -> bool:
        """Returns whether calls can work on the tensor's elements in place, at full speed."""
        operand = self._geometry.operands[role]
        stride = self._axes[-1].strides[self._roles.index(role)] if self._axes else 1
        return operand.data_type.numpy == COMPUTE and stride == 1

    def _copied(self) -> list[str]:
        """The inputs that are copied block by block."""
        return [role for role in ("x", "dy", "add") if role in self._roles and not self._is_direct(role)]

    def _thread_scratch(self) -> Iterable[tuple[str, Sequence[int], np.dtype[Any]]]:
        blocking = self._blocking
        entries = prod(blocking.largest)
        yield from ((role, (entries,), COMPUTE) for role in self._copied())
        yield from ((name, (*rows, entries), dtype) for name, (rows, dtype) in self._work_arrays().items())
        if self._sums():
            yield "apart", (max(prod(blocking.largest[1:]), prod(blocking.largest[:-1])),), COMPUTE
        if blocking.expands:
            yield from ((f"expanded {name}", blocking.largest[1:], COMPUTE) for name in self._coefficients())

    def _describe_blocks(self) -> str:
        blocking, groups = self._blocking, prod(self._blocking.statistics)
        threads = plural(self._threads, "thread")
        axes = " ".join(f"{axis.size}{'*' * axis.reduced}" for axis in blocking.axes)
        return (
            f"NumPy, {COMPUTE} arithmetic on {threads}; {plural(groups, 'group')} of {blocking.group_size}\n"
            f"axes as {self._geometry.operands[self._roles[0]].name} lies in memory: {axes} (* within groups); "
            f"{plural(blocking.block_count, 'block')} of {' x '.join(map(str, blocking.largest))}"
        )

    def _describe_copies(self) -> list[str]:
        names = {role: self._geometry.operands[role] for role in self._roles if role in TENSORS and not self._is_direct(role)}
        return [
            f"{operand.name}: {'to' if role in ('y', 'dx') else 'from'} {operand.data_type}, block by block"
            for role, operand in names.items()
        ]

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work = self._work(NormalizationLaunch(self, tensors, temporary))
        return lambda stream: work()


class NormalizationLaunch:
    """A plan's tensors and scratch in memory.

    Attributes:
        tensors: by role, in the dimensions of the blocks.
        statistics: the scratch's arrays with an entry for each group.
        own: each thread's arrays.
    """

    def __init__(self, plan: NormalizationPlan, pointers: Pointers, temporary: int) -> None:
        self._plan, self.blocking = plan, plan._blocking
        self.tensors: dict[str, Array] = {}
        for at, role in enumerate(plan._roles):
            operand = plan._geometry.operands[role]
            strides = [axis.strides[at] if axis.strides else 0 for axis in self.blocking.axes]
            sizes = [axis.size for axis in self.blocking.axes] if role in TENSORS else self.blocking.statistics
            self.tensors[role] = array_at(pointers[operand.name], sizes, operand.data_type.numpy, strides)
        self.statistics = plan._shared.arrays_at(temporary)
        first = temporary + plan._shared.size
        self.thread_arrays = [plan._thread_layout.arrays_at(first + thread * plan._thread_layout.size) for thread in range(plan._threads)]
        self._expanded: list[dict[str, tuple[Any, int]]] = [{} for _ in self.thread_arrays]
        self.direct = {role for role in plan._roles if role in TENSORS and plan._is_direct(role)}
        self._dots = self.blocking.axes[-1].reduced and not self.blocking.expands
        self._ones = np.ones(self.blocking.largest[-1], COMPUTE)
        letters = "abcdefghij"[: len(self.blocking.largest)]
        self._one, self._two = f"{letters}->{letters[1:]}", f"{letters},{letters}->{letters[1:]}"

    def share(self, work: Callable[[Block, int], None], blocks: Iterable[Block]) -> None:
        """Calls `work(block, thread)` for all blocks on the plan's threads."""
        for expanded in self._expanded:
            expanded.clear()
        share(work, blocks, self._plan._threads)

    @property
    def every_block(self) -> Iterable[Block]:
        return (block for blocks in self.blocking.ranges for block in blocks)

    def view(self, role: str, block: Block) -> Array:
        """A tensor's entries of a block, in place."""
        return self.tensors[role][block.entries].reshape(block.shape)

    def scratch(self, name: str, block: Block, thread: int) -> Array:
        """A thread's scratch array in a block's shape."""
        return self.thread_arrays[thread][name][: prod(block.shape)].reshape(block.shape)

    def read(self, role: str, block: Block, thread: int) -> Array:
        """A tensor's entries of a block in the compute type, in place or copied."""
        entries = self.view(role, block)
        if role in self.direct:
            return entries
        copied = self.scratch(role, block, thread)
        np.copyto(copied, entries)
        return copied

    def coefficient(self, name: str, block: Block, thread: int) -> Array:
        """A statistic's entries for a block's groups, shaped to broadcast over the block."""
        coefficients = self.statistics[name][block.groups]
        if not self.blocking.expands:
            return coefficients
        expanded = self.thread_arrays[thread][f"expanded {name}"].reshape(-1)[: prod(block.shape[1:])].reshape(block.shape[1:])
        holds = block.groups, block.shape[1]
        if self._expanded[thread].get(name) != holds:
            np.copyto(expanded, coefficients[0])
            self._expanded[thread][name] = holds
        return expanded

    def add_up(self, at: int, block: Block, thread: int, first: Array, second: Array | None = None) -> None:
        """Sums `first`, or `first * second`, over the block's entries of each group into sum `at` of the block's row."""
        sums, shape = self.statistics["sums"][at, block.row][block.groups], block.shape
        if self._dots:
            apart = self.thread_arrays[thread]["apart"][: prod(shape[:-1])].reshape(shape[:-1])
            np.vecdot(first, self._ones[: shape[-1]] if second is None else second, out=apart)
            np.add.reduce(apart, axis=(0, *self.blocking.inner_reduced[:-1]), dtype=np.float64, out=sums[..., 0], keepdims=True)
            return
        operands = [first] if second is None else [first, second]
        if all(operand.flags.c_contiguous for operand in operands):
            # As rows of one axis, a view that einsum does not find itself, cut short so that their sums stay in the first-level cache.
            pieces = gcd(shape[1], _PIECES) if self.blocking.expands else 1
            shape = (shape[0] * pieces, shape[1] // pieces, *shape[2:])
            apart = self.thread_arrays[thread]["apart"][: prod(shape[1:])]
            flat = [operand.reshape(shape[0], -1) for operand in operands]
            np.einsum("ab->b" if second is None else "ab,ab->b", *flat, out=apart)
        else:
            apart = self.thread_arrays[thread]["apart"][: prod(shape[1:])]
            np.einsum(self._one if second is None else self._two, *operands, out=apart.reshape(shape[1:]))
        inner = tuple(at - 1 for at in self.blocking.inner_reduced)
        np.add.reduce(apart.reshape(shape[1:]), axis=inner, dtype=np.float64, out=sums[0], keepdims=True)

    def total(self, block: Block) -> Array:
        """Each sum over all entries of a block's groups, in float64."""
        sums: Array = np.add.reduce(self.statistics["sums"][:, :, *block.groups], axis=1)
        return sums


def as_float64(array: Array) -> Array:
    return array.astype(np.float64)
