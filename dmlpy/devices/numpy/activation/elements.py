"""The element-wise activation operators in NumPy, in blocks of elements that fit a cache.

A formula reads and writes flat rows of one type, float32. Integers keep their type, except in SHRINK, which computes them in float64;
so does FLOAT16 if nothing is rounded. Where a block of a tensor is such a row already, the formula works on the tensor's memory;
elsewhere the block is copied to a row or from one, and so converted and rounded once. Values do not depend on the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import Axis, element_count, merged
from dmlpy.devices.numpy.activation.formulas import Activation, parameterized_relu, relu_gradient, relu_of_halves
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, arrays_of
from dmlpy.operators.activation import (
    ActivationDesc,
    ActivationIdentityDesc,
    ActivationParameterizedReluDesc,
    ActivationReluDesc,
    ActivationReluGradDesc,
    ActivationShrinkDesc,
)

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

BLOCK = 1 << 15
"""Elements of a block, at most: its rows stay in a core's cache from one call of NumPy's to the next."""

_ALIGNMENT = 64


class ElementsPlan(PlanWithoutConstants):
    """An element-wise activation on the host.

    Args:
        desc: a checked desc.
    """

    def __init__(self, desc: ActivationDesc) -> None:
        self._tensors = desc.tensors()
        self._storage = next(iter(self._tensors.values())).data_type.numpy
        self._type, self._formula, work_rows = _formula(desc, self._storage)
        self._blocks = _Blocks.of({name: (tensor.sizes, tensor.element_strides) for name, tensor in self._tensors.items()})
        self._staged = [name for name in self._tensors if self._storage != self._type or not self._blocks.is_flat(name)]
        count = prod(self._blocks.block)
        rows = [(name, (count,), self._type) for name in self._staged]
        work: list[tuple[str, Sequence[int], np.dtype[Any]]] = [
            ("work", (work_rows, count), self._type),
            ("mask", (count,), np.dtype(np.bool_)),
        ]
        self._scratch = Layout([*rows, *work], _ALIGNMENT)
        self.temporary_size = self._scratch.size

    def describe(self) -> str:
        count, block = element_count(self._blocks.axes), prod(self._blocks.block)
        return "\n".join(
            [
                f"NumPy, {self._type} arithmetic; {count} elements in blocks of {block}",
                *(f"{name}: through packed {self._type} rows, block by block" for name in self._staged),
            ]
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(arrays_of(self._tensors, tensors), temporary)

    def bind_arrays(self, arrays: Arrays, temporary: int) -> Launch:
        """Binds as `bind` does, over arrays of the described sizes and strides, whose types may differ from the desc's."""
        scratch = self._scratch.arrays_at(temporary)
        work, mask, formula = scratch["work"], scratch["mask"], self._formula
        operands = [_Operand(self._blocks.view(name, arrays[name]), scratch.get(name)) for name in self._tensors]
        *inputs, output = operands

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                for place in self._blocks.places():
                    block = output.view[place]
                    target = output.row_of(block)
                    formula(*(operand.read(place) for operand in inputs), target, work[:, : target.size], mask[: target.size])
                    if output.row is not None:
                        block[...] = target.reshape(block.shape)

        return launch


class _Blocks:
    """Blocks of the tensors' shared axes, in the order of the output's memory: each spans some inner axes and a piece of the next.

    Attributes:
        axes: outermost first; the output's strides before those of the inputs.
        block: entries of the largest block along the axes that it spans, the last ones.
    """

    def __init__(self, axes: tuple[Axis, ...], names: Sequence[str]) -> None:
        self.axes = axes
        self._names = list(names)
        sizes = [axis.size for axis in axes]
        whole = len(sizes)
        while whole > 0 and prod(sizes[whole - 1 :]) <= BLOCK:
            whole -= 1
        self.block = sizes[whole:]
        self._outer = sizes[:whole]
        if self._outer:
            size = self._outer.pop()
            most = max(1, BLOCK // prod(self.block))
            pieces = -(-size // most)
            piece = -(-size // pieces)
            self._pieces = [slice(at, at + piece) for at in range(0, size, piece)]
            self.block.insert(0, piece)
        else:
            self._pieces = [slice(None)]

    @classmethod
    def of(cls, layouts: Mapping[str, tuple[Sequence[int], Sequence[int]]]) -> _Blocks:
        """The blocks of tensors of the same sizes, given the sizes and the strides of each; the last tensor is the output."""
        *inputs, output = layouts
        sizes, strides = layouts[output]
        names = [output, *inputs]
        axes = merged(sizes, [strides, *(layouts[name][1] for name in inputs)])
        return cls(axes or (Axis(1, (0,) * len(names)),), names)

    def _strides(self, name: str) -> list[int]:
        at = self._names.index(name)
        return [axis.strides[at] for axis in self.axes]

    def is_flat(self, name: str) -> bool:
        """Returns whether the elements of a block are contiguous in this tensor."""
        spanned = self._strides(name)[-len(self.block) :]
        needed = packed_strides(self.block)
        return all(size == 1 or step == packed for size, step, packed in zip(self.block, spanned, needed, strict=True))

    def view(self, name: str, array: Array) -> Array:
        """A tensor's array, viewed along the axes."""
        strides = [stride * array.itemsize for stride in self._strides(name)]
        return np.lib.stride_tricks.as_strided(array, [axis.size for axis in self.axes], strides)

    def places(self) -> Iterator[tuple[int | slice, ...]]:
        """The index of each block."""
        for outer in product(*map(range, self._outer)):
            for piece in self._pieces:
                yield (*outer, piece)


class _Operand:
    """A tensor along the blocks' axes; `row` is where its blocks are copied to or from, None if a block is already a row."""

    def __init__(self, view: Array, row: Array | None) -> None:
        self.view = view
        self.row = row

    def row_of(self, block: Array) -> Array:
        """The row for a block of the tensor, the block itself or scratch, without its values filled in."""
        return block.reshape(-1) if self.row is None else self.row[: block.size]

    def read(self, place: tuple[int | slice, ...]) -> Array:
        """The row of the block at a place, with its values filled in."""
        block = self.view[place]
        row = self.row_of(block)
        if self.row is not None:
            row.reshape(block.shape)[...] = block
        return row


def _formula(desc: ActivationDesc, storage: np.dtype[Any]) -> tuple[np.dtype[Any], Callable[..., None], int]:
    """The type that an activation is computed in, the function `(*inputs, out, work, mask)`, and the rows of `work` that it needs."""
    whole = storage.kind in "iu"
    unrounded = isinstance(desc, ActivationIdentityDesc | ActivationReluDesc | ActivationReluGradDesc)
    dtype = storage if whole or unrounded else COMPUTE
    zero = np.array(0, dtype)
    if isinstance(desc, ActivationReluGradDesc):
        return dtype, lambda x, gradient, out, work, mask: relu_gradient(x, gradient, out, work[0], mask, zero), 1
    if isinstance(desc, ActivationReluDesc) and dtype == np.float16:
        return dtype, lambda x, out, work, mask: relu_of_halves(x, out, work[0], mask), 1
    if isinstance(desc, ActivationParameterizedReluDesc):
        return dtype, lambda x, slope, out, work, mask: parameterized_relu(x, slope, out, work[0], mask, zero), 1
    if whole and isinstance(desc, ActivationShrinkDesc):
        return _integer_shrink(desc, storage)
    activation = Activation.of(desc, dtype)
    constants = activation.constants
    return dtype, lambda x, out, work, mask: activation.formula(x, out, work, mask, *constants), activation.work


def _integer_shrink(desc: ActivationShrinkDesc, storage: np.dtype[Any]) -> tuple[np.dtype[Any], Callable[..., None], int]:
    """SHRINK of integers, in float64, rounded toward zero by the conversion and clamped to the type's range."""
    activation = Activation.of(desc, np.dtype(np.float64))
    range_of = np.iinfo(storage)
    smallest, largest = np.array(range_of.min, np.float64), np.array(range_of.max, np.float64)

    def shrink(x: Array, out: Array, work: Array, mask: Array) -> None:
        activation.formula(x, out, work, mask, *activation.constants)
        np.fmax(out, smallest, out)  # NaN, which only an attribute can cause, becomes the smallest value
        np.minimum(out, largest, out=out)

    return np.dtype(np.float64), shrink, activation.work
