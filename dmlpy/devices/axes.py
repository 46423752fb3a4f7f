"""The axes that tensors of the same sizes share, in memory order and merged wherever all tensors allow it.

Plans of element-wise work use them, so every layout of the same memory (NCHW or NHWC, packed or a slice) gives the same loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_MOST_ENTRIES = 2**32 - 1
"""The most entries of an axis, as of a dimension: indices along it fit in 32 bits."""


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        size: entries along it.
        strides: elements from one entry to the next, for each tensor; 0 repeats an entry.
        reduced: whether entries along it belong to one group: one sum, maximum or statistic covers them.
    """

    size: int
    strides: tuple[int, ...]
    reduced: bool = False


def merged(sizes: Sequence[int], strides: Sequence[Sequence[int]], reduced: Collection[int] = ()) -> tuple[Axis, ...]:
    """The axes of tensors that share their sizes, outermost first, without those of size 1; empty for a single element.

    The order is that of the first tensor's memory; axes along which it repeats are ordered by the next tensor. Adjacent axes of a kind
    are merged if one stride describes both in each tensor.

    Args:
        sizes: entries along each dimension.
        strides: for each tensor, the elements from one entry to the next along each dimension.
        reduced: the dimensions that a group runs over.
    """
    axes = [(size, along, at in reduced) for at, (size, *along) in enumerate(zip(sizes, *strides, strict=False)) if size > 1]
    axes.sort(key=_order_of, reverse=True)
    collapsed: list[tuple[int, list[int], bool]] = []
    for size, along, kind in axes:
        if collapsed:
            outer_size, outer, outer_kind = collapsed[-1]
            if outer_kind == kind and outer_size * size <= _MOST_ENTRIES and outer == [size * stride for stride in along]:
                collapsed[-1] = outer_size * size, along, kind
                continue
        collapsed.append((size, along, kind))
    return tuple([Axis(size, tuple(along), kind) for size, along, kind in collapsed])


def _order_of(axis: tuple[int, Sequence[int], bool]) -> int:
    """The stride of the first tensor that does not repeat along an axis."""
    for stride in axis[1]:
        if stride:
            return stride
    return 0


def element_count(axes: Iterable[Axis]) -> int:
    """The number of elements that the axes span together."""
    return prod(axis.size for axis in axes)


def repeated(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor that repeats along its dimensions of size 1."""
    return tuple(0 if size == 1 else stride for size, stride in zip(sizes, strides, strict=True))


def vector_width(axes: Sequence[Axis], widest: int) -> int:
    """The widest vector access along the innermost axis that sizes and strides allow, in elements: a power of two up to `widest`.

    Along that axis each tensor's elements must be contiguous or repeat. Where they are contiguous, addresses must be multiples of
    the access size, which the caller checks.
    """
    if not axes or any(stride not in (0, 1) for stride in axes[-1].strides):
        return 1
    side_by_side = [at for at, stride in enumerate(axes[-1].strides) if stride == 1]
    steps = [axes[-1].size, *(axis.strides[at] for axis in axes[:-1] for at in side_by_side)]
    width = widest
    while any(step % width for step in steps):
        width //= 2
    return width


def numbers_in_group(sizes: Sequence[int], reduced: Collection[int]) -> tuple[int, ...]:
    """The strides of a tensor that holds each element's index within its group: row-major over the reduced dimensions as given."""
    strides = [0] * len(sizes)
    count = 1
    for at in sorted(set(reduced), reverse=True):
        strides[at] = count
        count *= sizes[at]
    return tuple(strides)
