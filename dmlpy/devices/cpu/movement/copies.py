"""The movement operators as copies between parts of their tensors.

Parts are NumPy's views of arrays of the described sizes and strides that have no memory of their own and are never read.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dmlpy.description.enums import DepthSpaceOrder, PaddingMode
from dmlpy.devices.cpu.movement.plan import Copy, View
from dmlpy.operators.movement.blocks import DepthToSpace1Desc, SpaceToDepth1Desc, SpaceToDepthBaseDesc
from dmlpy.operators.movement.slicing import Padding1Desc
from dmlpy.reference.conversion import of_float, of_scalar
from dmlpy.reference.movement import padding_source, slice_index, window_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.operators.movement.blocks import BlockSizeDesc, UnfoldDesc
    from dmlpy.operators.movement.copy import JoinDesc, SplitDesc, TileDesc
    from dmlpy.operators.movement.slicing import PaddingDesc, Slice1Desc, SliceDesc, SliceGradDesc
    from dmlpy.operators.resampling import Upsample2DDesc

Array = np.ndarray[Any, np.dtype[Any]]


class Part:
    """Some of a tensor's elements, which NumPy's indexing and reordering gives.

    Args:
        place: the place of the tensor.
        tensor: its desc.
    """

    def __init__(self, place: str, tensor: TensorDesc) -> None:
        self._place, kind = place, tensor.data_type.numpy
        memory, self._start = _memory_of(kind)
        self.whole: Array = as_strided(memory, tensor.sizes, [step * kind.itemsize for step in tensor.element_strides])

    def view(self, array: Array) -> View:
        """A view of `whole` as a part of the tensor."""
        return View(self._place, array, 0 if array is self.whole else _address_of(array) - self._start)


@cache
def _memory_of(kind: np.dtype[Any]) -> tuple[Array, int]:
    """An element of a type, which all arrays without memory share, and its address."""
    memory = np.empty(1, kind)
    return memory, _address_of(memory)


def _address_of(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def copy_of(target: Part, to: Array, source: Part, of: Array) -> Copy:
    """The copy of some elements to others; those of the source are repeated as in NumPy."""
    return Copy(target.view(to), source.view(of if of.shape == to.shape else np.broadcast_to(of, to.shape)))


def fill_of(target: Part, to: Array, value: Any) -> Copy:
    """The copy of a number to elements."""
    element = np.array(value, to.dtype)
    return Copy(target.view(to), View(None, np.broadcast_to(element, to.shape)))


def split_axis(array: Array, axis: int, sizes: Sequence[int]) -> Array:
    """A view with an axis divided into several, whose product is its size."""
    step = array.strides[axis]
    steps = [step * prod(sizes[at + 1 :]) for at in range(len(sizes))]
    shape, strides = list(array.shape), list(array.strides)
    shape[axis : axis + 1], strides[axis : axis + 1] = sizes, steps
    return as_strided(array, shape, strides)


def identity_copies(desc: Any) -> list[Copy]:
    target, source = Part("output_tensor", desc.output_tensor), Part("input_tensor", desc.input_tensor)
    return [copy_of(target, target.whole, source, source.whole)]


def join_copies(desc: JoinDesc) -> list[Copy]:
    assert desc.output_tensor is not None  # guaranteed by the check, as below
    target, first, found = Part("output_tensor", desc.output_tensor), 0, []
    for number, tensor in enumerate(desc.input_tensors):
        source, last = Part(f"input_tensors[{number}]", tensor), first + tensor.sizes[desc.axis]
        found.append(copy_of(target, target.whole[_along(desc.axis, first, last)], source, source.whole))
        first = last
    return found


def split_copies(desc: SplitDesc) -> list[Copy]:
    source, first, found = Part("input_tensor", desc.input_tensor), 0, []
    for number, tensor in enumerate(desc.output_tensors):
        target, last = Part(f"output_tensors[{number}]", tensor), first + tensor.sizes[desc.axis]
        found.append(copy_of(target, target.whole, source, source.whole[_along(desc.axis, first, last)]))
        first = last
    return found


def _along(axis: int, first: int, last: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(first, last))


def tile_copies(desc: TileDesc) -> list[Copy]:
    assert desc.output_tensor is not None
    target, source = Part("output_tensor", desc.output_tensor), Part("input_tensor", desc.input_tensor)
    to = target.whole
    for axis, (count, size) in reversed(list(enumerate(zip(desc.repeats, desc.input_tensor.sizes, strict=True)))):
        to = split_axis(to, axis, (count, size))
    of = source.whole[tuple(index for _ in desc.repeats for index in (None, slice(None)))]
    return [copy_of(target, to, source, of)]


def slice_copies(desc: SliceDesc) -> list[Copy]:
    assert desc.output_tensor is not None
    target, source = Part("output_tensor", desc.output_tensor), Part("input_tensor", desc.input_tensor)
    return [copy_of(target, target.whole, source, source.whole[slice_index(desc)])]


def slice1_copies(desc: Slice1Desc) -> list[Copy]:
    assert desc.output_tensor is not None
    target, source = Part("output_tensor", desc.output_tensor), Part("input_tensor", desc.input_tensor)
    return [copy_of(target, target.whole, source, source.whole[window_index(desc, desc.output_tensor.sizes)])]


def slice_gradient_copies(desc: SliceGradDesc) -> list[Copy]:
    target = Part("output_gradient_tensor", desc.output_gradient_tensor)
    source = Part("input_gradient_tensor", desc.input_gradient_tensor)
    window = target.whole[window_index(desc, desc.input_gradient_tensor.sizes)]
    return [fill_of(target, target.whole, 0), copy_of(target, window, source, source.whole)]


def space_copies(desc: BlockSizeDesc) -> list[Copy]:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH: a pixel of a block of the image is a channel."""
    assert desc.output_tensor is not None
    to_depth = isinstance(desc, SpaceToDepthBaseDesc)
    deep, image = ("output_tensor", "input_tensor") if to_depth else ("input_tensor", "output_tensor")
    parts = {place: Part(place, getattr(desc, place)) for place in (deep, image)}
    block = desc.block_size
    channels = parts[image].whole.shape[1]
    is_last = isinstance(desc, DepthToSpace1Desc | SpaceToDepth1Desc) and desc.order is DepthSpaceOrder.COLUMN_ROW_DEPTH
    sizes = (channels, block, block) if is_last else (block, block, channels)
    of_depth = split_axis(parts[deep].whole, 1, sizes)
    of_depth = of_depth.transpose(0, 1, 4, 2, 5, 3) if is_last else of_depth.transpose(0, 3, 4, 1, 5, 2)
    height, width = parts[image].whole.shape[2:]
    of_image = split_axis(split_axis(parts[image].whole, 3, (width // block, block)), 2, (height // block, block))
    arrays = {deep: of_depth, image: of_image}
    return [copy_of(parts["output_tensor"], arrays["output_tensor"], parts["input_tensor"], arrays["input_tensor"])]


def upsample_copies(desc: Upsample2DDesc) -> list[Copy]:
    """Each element is repeated as a rectangle."""
    assert desc.output_tensor is not None
    target, source = Part("output_tensor", desc.output_tensor), Part("input_tensor", desc.input_tensor)
    *outer, height, width = desc.input_tensor.sizes
    to = split_axis(target.whole, len(outer) + 1, (width, desc.scale_size.width))
    to = split_axis(to, len(outer), (height, desc.scale_size.height))
    return [copy_of(target, to, source, source.whole[..., None, :, None])]


def padding_copies(desc: PaddingDesc | Padding1Desc) -> list[Copy]:
    """A copy for each combination of runs along the axes: the inside, and in each margin the elements in order or mirrored."""
    assert desc.output_tensor is not None
    target, source = Part("output_tensor", desc.output_tensor), Part("input_tensor", desc.input_tensor)
    if isinstance(desc, Padding1Desc):
        value = of_scalar(desc.padding_value, desc.padding_value_data_type)
    else:
        value = of_float(desc.padding_value, desc.input_tensor.data_type)
    is_constant = desc.padding_mode is PaddingMode.CONSTANT
    axes = []
    for size, start, end in zip(desc.input_tensor.sizes, desc.start_padding, desc.end_padding, strict=True):
        places = np.arange(-start, size + end)
        sources = np.where((places >= 0) & (places < size), places, -1) if is_constant else padding_source(desc.padding_mode, places, size)
        axes.append(list(_runs(sources.tolist())))
    found = []
    for runs in product(*axes):
        to = target.whole[tuple(slice(first, first + count) for first, count, _, _ in runs)]
        if any(start < 0 for _, _, start, _ in runs):
            found.append(fill_of(target, to, value))
            continue
        of = source.whole
        for axis, (_, count, start, step) in enumerate(runs):
            of = _run_of(of, axis, start, count, step)
        found.append(copy_of(target, to, source, of))
    return found


def _run_of(array: Array, axis: int, start: int, count: int, step: int) -> Array:
    """The elements along an axis from `start` on in this step, which may be 0 or negative."""
    index = slice(start, start + 1) if step == 0 else slice(start, end if (end := start + step * count) >= 0 else None, step)
    part = array[(*(slice(None),) * axis, index)]
    return np.broadcast_to(part, (*part.shape[:axis], count, *part.shape[axis + 1 :]))


def _runs(sources: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Places along an axis in runs: the first place, their count, the first source and the step from one source to the next."""
    first = 0
    while first < len(sources):
        step, last = 0 if first + 1 == len(sources) else sources[first + 1] - sources[first], first + 1
        while last < len(sources) and sources[last] - sources[last - 1] == step and (sources[first] < 0) == (sources[last] < 0):
            last += 1
        if last == first + 1:
            step = 0
        yield first, last - first, sources[first], step
        first = last


def count_padding_copies(desc: PaddingDesc | Padding1Desc) -> int:
    """At most this many copies, by the sizes of the margins: each has one run, or several where it is wider than the input."""
    counts = zip(desc.input_tensor.sizes, desc.start_padding, desc.end_padding, strict=True)
    return prod(1 + sum(-(-margin // max(size - 1, 1)) for margin in (start, end)) for size, start, end in counts)


def unfold_copies(desc: UnfoldDesc) -> list[Copy]:
    """A copy for each element of the window; zeros where it is outside of the image."""
    assert desc.output_tensor is not None
    target, source = Part("output_tensor", desc.output_tensor), Part("input_tensor", desc.input_tensor)
    spatial = desc.input_tensor.sizes[2:]
    rows = list(zip(spatial, desc.start_padding, desc.end_padding, desc.window_sizes, desc.dilations, desc.strides, strict=True))
    positions = [(size + start + end - (window - 1) * dilation - 1) // stride + 1 for size, start, end, window, dilation, stride in rows]
    columns = split_axis(target.whole, 2, positions)
    columns = split_axis(columns, 1, (desc.input_tensor.sizes[1], *desc.window_sizes))
    found = [fill_of(target, target.whole, 0)] if any(desc.start_padding) or any(desc.end_padding) else []
    for taps in product(*(range(window) for window in desc.window_sizes)):
        to_index, of_index = [], []
        for tap, count, (size, start, _, _, dilation, stride) in zip(taps, positions, rows, strict=True):
            offset = tap * dilation - start
            first, last = max(0, -(offset // stride)), min(count, (size - 1 - offset) // stride + 1)
            to_index.append(slice(first, max(first, last)))
            begin = first * stride + offset
            of_index.append(slice(begin, begin + (last - first - 1) * stride + 1, stride) if last > first else slice(0, 0))
        of_taps: tuple[int | slice, ...] = (slice(None), slice(None), *taps, *to_index)
        to: Array = columns[of_taps]
        if to.size:
            found.append(copy_of(target, to, source, source.whole[(slice(None), slice(None), *of_index)]))
    return found
