"""Strided views as ONNX's Reshape, Slice, Transpose and Gather."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.int4 import unpack_tensor
from dmlpy.description.tensors import same_layout
from dmlpy.messages.problems import Problem
from dmlpy.onnx.exporting.values import Refusal, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc

Axis = tuple[int, int, int]
"""A dimension of several elements: stride, size, and index."""


def apply_view(value: Value, written: TensorDesc, seen: TensorDesc) -> Value:
    """A value as viewed by a reader's desc, with size 1 along the dimensions that its strides repeat.

    Args:
        value: has the elements of `written`, in its sizes.
        written: the value's layout in memory.
        seen: the layout in which it is read.

    Raises:
        Refusal: the view reinterprets bits as another type, or reads memory without an element.
    """
    strides = list(seen.element_strides)
    if written.data_type is not seen.data_type:
        strides = _in_elements(written, seen)
    kept = once(seen)
    if any(size > 1 and stride == 0 for size, stride in zip(written.sizes, written.element_strides, strict=True)):
        repeated = list(written.broadcast_axes)
        value = value.part([0] * len(repeated), [1] * len(repeated), repeated)
        written = written.replace(sizes=once(written))
    if tuple(kept) == written.sizes and same_layout(written, strides):
        pass
    elif written.is_packed and prod(kept) == written.element_count and _is_packed(kept, strides):
        value = value if tuple(kept) == written.sizes else value.reshape(kept)
    else:
        value = _apply_strides(value, written, kept, strides)
    return value.cast(seen.data_type)


def once(desc: TensorDesc) -> list[int]:
    """The sizes of a tensor without the repetitions of strides of 0."""
    return [1 if stride == 0 else size for size, stride in zip(desc.sizes, desc.element_strides, strict=True)]


def apply_constant_view(data: bytes, seen: TensorDesc) -> np.ndarray[Any, Any]:
    """The elements of a constant as viewed by a reader, with size 1 along the dimensions that its strides repeat."""
    if seen.data_type.bits == 4:
        unpacked = unpack_tensor(np.frombuffer(data, np.uint8), seen)
        return unpacked[tuple(slice(size) for size in once(seen))]
    flat = np.frombuffer(data, seen.data_type.numpy)
    return np.ascontiguousarray(flat[_offsets(once(seen), seen.element_strides)])


def _in_elements(written: TensorDesc, seen: TensorDesc) -> list[int]:
    """A reader's strides in elements of the written type, if a cast yields what the reader sees."""
    times, rest = divmod(written.data_type.bits, seen.data_type.bits)
    whole = all(desc.data_type.bits >= 8 and desc.data_type.numpy.kind in "iu" for desc in (written, seen))
    axes = zip(seen.sizes, seen.element_strides, strict=True)
    if not whole or rest or times < 1 or any(size > 1 and stride % times for size, stride in axes):
        actual = f"{seen.summary()} of a value written as {written.summary()}"
        raise Refusal(Problem("onnx.export", "", actual, "a view of the same type: ONNX does not read bits as those of another type"))
    return [stride // times for stride in seen.element_strides]


def _is_packed(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    return all(size == 1 or stride == prod(sizes[axis + 1 :]) for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)))


def _axes(sizes: Sequence[int], strides: Sequence[int]) -> list[Axis]:
    """The dimensions of several elements, those with the largest strides first."""
    long_axes = [(stride, size, axis) for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)) if size > 1]
    return sorted(long_axes, key=lambda axis: -axis[0])


def _apply_strides(value: Value, written: TensorDesc, kept: list[int], strides: list[int]) -> Value:
    lying, read = _axes(written.sizes, written.element_strides), _axes(kept, strides)
    parts = _parts(lying, read)
    if parts is None:
        return _gather(value, written, kept, strides)
    order = [axis for _, _, axis in lying]
    if order != sorted(order):
        value = value.transpose([*(axis for axis in range(len(written.sizes)) if axis not in order), *order])
    counts, taken = [count for count, _ in parts], [size for _, size in parts]
    value = value.reshape(counts)
    if cut := [at for at, (count, size) in enumerate(parts) if count != size]:
        value = value.part([0] * len(cut), [taken[at] for at in cut], cut)
    # The dimensions to read: the remaining ones of several elements, by descending stride.
    remaining = [at for at, size in enumerate(taken) if size > 1]
    places = {axis: at for at, (_, _, axis) in zip(remaining, read, strict=True)}
    wanted = [places[axis] for axis in sorted(places)]
    if wanted != remaining:
        turned = [*(at for at in range(len(taken)) if at not in remaining), *wanted]
        value, taken = value.transpose(turned), [taken[at] for at in turned]
    return value if taken == kept else value.reshape(kept)


def _parts(lying: list[Axis], read: list[Axis]) -> list[tuple[int, int]] | None:
    """The sizes into which the dimensions are split, and how many elements of each are read; None if this cannot express the view."""
    blocks: list[list[int]] = []
    for stride, size, _ in lying:
        if blocks and blocks[-1][0] < stride * size:
            return None  # elements that lie between others
        if blocks and blocks[-1][0] == stride * size:
            blocks[-1] = [stride, blocks[-1][1] * size]
        else:
            blocks.append([stride, size])
    parts: list[tuple[int, int]] = []
    left = list(read)
    for stride, count in blocks:
        inside = [axis for axis in left if stride <= axis[0]]
        left = left[len(inside) :]
        rest = stride * count
        for step, size, _ in inside:
            if rest % step or rest // step < size:
                return None
            parts.append((rest // step, size))
            rest = step
        if rest % stride:
            return None
        parts.append((rest // stride, 1))
    return None if left else parts


def _gather(value: Value, written: TensorDesc, kept: list[int], strides: list[int]) -> Value:
    """Gathers the elements by their offsets in memory."""
    numbers = np.full(written.span, -1, np.int64)
    numbers[_offsets(written.sizes, written.element_strides)] = np.arange(written.element_count).reshape(written.sizes)
    offsets = _offsets(kept, strides)
    positions = numbers[np.minimum(offsets, written.span - 1)]
    if int(offsets.max()) >= written.span or int(positions.min()) < 0:
        actual = f"sizes {kept} with strides {strides} of a value written as {written.summary()}"
        raise Refusal(Problem("onnx.export", "", actual, "a view of elements that are written"))
    return value.reshape([-1]).take(positions, 0)


def _offsets(sizes: Sequence[int], strides: Sequence[int]) -> np.ndarray[Any, Any]:
    """The offset of each element in memory."""
    offsets = np.zeros((1,) * len(sizes), np.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        offsets = offsets + (np.arange(size) * stride).reshape([-1 if at == axis else 1 for at in range(len(sizes))])
    return offsets
