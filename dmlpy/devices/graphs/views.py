"""The arithmetic of views: operators that only move elements, and strides after a move."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc


class Movement(NamedTuple):
    """Elements of an input that an operator copies unchanged: all of an output's, or of a JOIN a part of them.

    Element [i, j, ...] of the smaller tensor is element [start + step * i, ...] of the larger one. The smaller one is the input of a JOIN,
    else the output.

    Attributes:
        input: the place of the input.
        output: the place of the output.
        starts: the first element in each dimension.
        steps: the elements from one to the next in each dimension.
    """

    input: str
    output: str
    starts: tuple[int, ...]
    steps: tuple[int, ...]


def movements(desc: OperatorDesc) -> tuple[Movement, ...]:
    """The elements that an operator moves, if it does nothing else; else empty, as for 4-bit elements, which have no addresses."""
    if any(tensor.data_type.bits == 4 for tensor in desc.tensors().values()):
        return ()
    return tuple(_movements(desc))


def _movements(desc: OperatorDesc) -> Iterator[Movement]:
    if type(desc).short_name() in _COPIES and getattr(desc, "scale_bias", None) is None:
        count = len(desc.tensors()["input_tensor"].sizes)
        yield Movement("input_tensor", "output_tensor", (0,) * count, (1,) * count)
    elif type(desc).short_name() in _MOVING:
        yield from _moved_parts(desc)


_COPIES = ("ACTIVATION_IDENTITY", "ELEMENT_WISE_IDENTITY")
_MOVING = ("SLICE", "SLICE1", "SPLIT", "JOIN")


def _moved_parts(desc: OperatorDesc) -> Iterator[Movement]:
    from dmlpy.operators.movement.copy import JoinDesc, SplitDesc  # which few models have
    from dmlpy.operators.movement.slicing import Slice1Desc, SliceDesc

    if isinstance(desc, SliceDesc):
        yield Movement("input_tensor", "output_tensor", desc.offsets, desc.strides)
    elif isinstance(desc, Slice1Desc):
        if min(desc.input_window_strides) > 0:  # a tensor's strides cannot go backwards
            yield Movement("input_tensor", "output_tensor", desc.input_window_offsets, desc.input_window_strides)
    elif isinstance(desc, SplitDesc | JoinDesc):
        parts = desc.output_tensors if isinstance(desc, SplitDesc) else desc.input_tensors
        start = 0
        for index, part in enumerate(parts):
            starts = tuple(start if axis == desc.axis else 0 for axis in range(len(part.sizes)))
            steps = (1,) * len(part.sizes)
            if isinstance(desc, SplitDesc):
                yield Movement("input_tensor", f"output_tensors[{index}]", starts, steps)
            else:
                yield Movement(f"input_tensors[{index}]", "output_tensor", starts, steps)
            start += part.sizes[desc.axis]


def moved_strides(
    desc: TensorDesc, strides: Sequence[int], reader: TensorDesc | tuple[Sequence[int], Sequence[int]], start: int = 0
) -> tuple[int, tuple[int, ...]] | None:
    """The start and the strides by which a reader finds the same elements after a tensor's strides changed.

    Args:
        desc: the tensor before; it does not overlap itself.
        strides: its strides afterwards, in elements.
        reader: how its memory was read: a desc, or sizes and strides.
        start: the element of the memory at which the reader began.

    Returns:
        The reader's first element and its strides; None if no strides express it, or if it read memory outside the tensor's elements.
    """
    sizes, steps = reader if isinstance(reader, tuple) else (reader.sizes, reader.element_strides)
    axes = _axes(desc, strides)
    left = [size - 1 for size, _, _ in axes]
    first = 0
    for at, (_, old, new) in enumerate(axes):
        if old == 0:
            return None
        index = min(start // old, left[at])
        start -= index * old
        left[at] -= index
        first += index * new
    if start:
        return None
    result: list[int] = []
    for size, stride in zip(sizes, steps, strict=True):
        if size == 1 or stride == 0:
            result.append(0)
            continue
        axis = next((at for at, (_, old, _) in enumerate(axes) if stride % old == 0), None)
        if axis is None:
            return None
        _, old, new = axes[axis]
        left[axis] -= (size - 1) * (stride // old)
        result.append(stride // old * new)
    return (first, with_ones(sizes, result)) if min(left, default=0) >= 0 else None


def with_ones(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides, where those of dimensions of size 1, which do not matter, are as if the dimension were packed."""
    result = list(strides)
    for axis in reversed(range(len(sizes))):
        if sizes[axis] == 1:
            result[axis] = result[axis + 1] * sizes[axis + 1] if axis + 1 < len(sizes) else 1
    return tuple(result)


def _axes(desc: TensorDesc, strides: Sequence[int]) -> list[tuple[int, int, int]]:
    """Size, stride before and stride after of each axis with several entries, the widest stride first.

    Axes that continue each other in both layouts are merged.
    """
    rows = sorted(
        (row for row in zip(desc.sizes, desc.element_strides, strides, strict=True) if row[0] > 1), key=lambda row: row[1], reverse=True
    )
    axes: list[tuple[int, int, int]] = []
    for size, old, new in rows:
        if axes and axes[-1][1:] == (size * old, size * new):
            axes[-1] = (axes[-1][0] * size, old, new)
        else:
            axes.append((size, old, new))
    return axes
