"""`Elements`: a strided view of a tensor without its memory, indexed by NumPy's rules. Its sizes may be symbolic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.symbolic_sizes import slice_indices
from dmlpy.devices.cpu.structs import FixedArray

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    from dmlpy.description.tensors import TensorDesc

    Index = int | slice | EllipsisType | None


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
        """A number that is repeated."""
        return cls(FixedArray(np.array(value, dtype)), dtype, tuple(shape), (0,) * len(shape))

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
        strides = [0 if own == 1 and size != 1 else stride for size, own, stride in rows]
        return replace(self, shape=tuple(shape), strides=(*(0,) * missing, *strides))

    def split_axis(self, axis: int, sizes: Sequence[int]) -> Elements:
        """The elements with an axis divided into several, whose product is its size."""
        step, shape, strides = self.strides[axis], list(self.shape), list(self.strides)
        shape[axis : axis + 1] = sizes
        strides[axis : axis + 1] = [step * prod(sizes[at + 1 :]) for at in range(len(sizes))]
        return replace(self, shape=tuple(shape), strides=tuple(strides))
