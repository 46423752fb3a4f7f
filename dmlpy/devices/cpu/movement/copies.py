"""The movement operators as copies between parts of their tensors."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DepthSpaceOrder, PaddingMode
from dmlpy.description.symbolic_sizes import is_symbolic
from dmlpy.devices.cpu.movement.plan import Copy, Elements
from dmlpy.operators.movement.slicing import Padding1Desc, slice_index, window_index
from dmlpy.reference.conversion import of_float, of_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.operators.generation import FillValueConstantDesc
    from dmlpy.operators.movement.blocks import BlockSizeDesc, FoldDesc, UnfoldDesc
    from dmlpy.operators.movement.copy import JoinDesc, SplitDesc, TileDesc
    from dmlpy.operators.movement.slicing import PaddingDesc, Slice1Desc, SliceDesc, SliceGradDesc
    from dmlpy.operators.resampling import Upsample2DDesc


def copy_of(to: Elements, of: Elements) -> Copy:
    """The copy of some elements to others; those of the source are repeated as in NumPy."""
    return Copy(to, of if of.shape == to.shape else of.repeated(to.shape))


def fill_of(to: Elements, value: Any) -> Copy:
    """The copy of a number to elements."""
    return Copy(to, Elements.repeating(value, to.dtype, to.shape))


def constant_copies(desc: FillValueConstantDesc) -> list[Copy]:
    value = desc.value if is_symbolic(desc.value) else of_scalar(desc.value, desc.value_data_type)
    return [fill_of(Elements.of("output_tensor", desc.output_tensor), value)]


def identity_copies(desc: Any) -> list[Copy]:
    target, source = Elements.of("output_tensor", desc.output_tensor), Elements.of("input_tensor", desc.input_tensor)
    return [copy_of(target, source)]


def join_copies(desc: JoinDesc) -> list[Copy]:
    assert desc.output_tensor is not None  # guaranteed by the check, as below
    target, first, copies = Elements.of("output_tensor", desc.output_tensor), 0, []
    for number, tensor in enumerate(desc.input_tensors):
        source, last = Elements.of(f"input_tensors[{number}]", tensor), first + tensor.sizes[desc.axis]
        copies.append(copy_of(target[_along(desc.axis, first, last)], source))
        first = last
    return copies


def split_copies(desc: SplitDesc) -> list[Copy]:
    source, first, copies = Elements.of("input_tensor", desc.input_tensor), 0, []
    for number, tensor in enumerate(desc.output_tensors):
        target, last = Elements.of(f"output_tensors[{number}]", tensor), first + tensor.sizes[desc.axis]
        copies.append(copy_of(target, source[_along(desc.axis, first, last)]))
        first = last
    return copies


def _along(axis: int, first: int, last: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(first, last))


def tile_copies(desc: TileDesc) -> list[Copy]:
    assert desc.output_tensor is not None
    target, source = Elements.of("output_tensor", desc.output_tensor), Elements.of("input_tensor", desc.input_tensor)
    to = target
    for axis, (count, size) in reversed(list(enumerate(zip(desc.repeats, desc.input_tensor.sizes, strict=True)))):
        to = to.split_axis(axis, (count, size))
    of = source[tuple(index for _ in desc.repeats for index in (None, slice(None)))]
    return [copy_of(to, of)]


def slice_copies(desc: SliceDesc) -> list[Copy]:
    assert desc.output_tensor is not None
    target, source = Elements.of("output_tensor", desc.output_tensor), Elements.of("input_tensor", desc.input_tensor)
    return [copy_of(target, source[slice_index(desc)])]


def slice1_copies(desc: Slice1Desc) -> list[Copy]:
    assert desc.output_tensor is not None
    target, source = Elements.of("output_tensor", desc.output_tensor), Elements.of("input_tensor", desc.input_tensor)
    return [copy_of(target, source[window_index(desc, desc.output_tensor.sizes)])]


def slice_gradient_copies(desc: SliceGradDesc) -> list[Copy]:
    target = Elements.of("output_gradient_tensor", desc.output_gradient_tensor)
    source = Elements.of("input_gradient_tensor", desc.input_gradient_tensor)
    window = target[window_index(desc, desc.input_gradient_tensor.sizes)]
    return [fill_of(target, 0), copy_of(window, source)]


def space_copies(desc: BlockSizeDesc) -> list[Copy]:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH: a pixel of a block of the image is a channel."""
    from dmlpy.operators.movement.blocks import DepthToSpace1Desc, SpaceToDepth1Desc, SpaceToDepthBaseDesc  # few models have them

    assert desc.output_tensor is not None
    to_depth = isinstance(desc, SpaceToDepthBaseDesc)
    deep, image = ("output_tensor", "input_tensor") if to_depth else ("input_tensor", "output_tensor")
    parts = {place: Elements.of(place, getattr(desc, place)) for place in (deep, image)}
    block = desc.block_size
    channels = parts[image].shape[1]
    is_last = isinstance(desc, DepthToSpace1Desc | SpaceToDepth1Desc) and desc.order is DepthSpaceOrder.COLUMN_ROW_DEPTH
    sizes = (channels, block, block) if is_last else (block, block, channels)
    of_depth = parts[deep].split_axis(1, sizes)
    of_depth = of_depth.transpose(0, 1, 4, 2, 5, 3) if is_last else of_depth.transpose(0, 3, 4, 1, 5, 2)
    height, width = parts[image].shape[2:]
    of_image = parts[image].split_axis(3, (width // block, block)).split_axis(2, (height // block, block))
    split = {deep: of_depth, image: of_image}
    return [copy_of(split["output_tensor"], split["input_tensor"])]


def upsample_copies(desc: Upsample2DDesc) -> list[Copy]:
    """Each element is repeated as a rectangle."""
    assert desc.output_tensor is not None
    target, source = Elements.of("output_tensor", desc.output_tensor), Elements.of("input_tensor", desc.input_tensor)
    *outer, height, width = desc.input_tensor.sizes
    to = target.split_axis(len(outer) + 1, (width, desc.scale_size.width))
    to = to.split_axis(len(outer), (height, desc.scale_size.height))
    return [copy_of(to, source[..., None, :, None])]


def padding_copies(desc: PaddingDesc | Padding1Desc) -> list[Copy]:
    """A copy for each combination of runs along the axes: the inside, and in each margin the elements in order or mirrored."""
    assert desc.output_tensor is not None
    target, source = Elements.of("output_tensor", desc.output_tensor), Elements.of("input_tensor", desc.input_tensor)
    if isinstance(desc, Padding1Desc):
        value = of_scalar(desc.padding_value, desc.padding_value_data_type)
    else:
        value = of_float(desc.padding_value, desc.input_tensor.data_type)
    sizes = zip(desc.input_tensor.sizes, desc.start_padding, desc.end_padding, strict=True)
    axes = [_runs(desc.padding_mode, size, start, end) for size, start, end in sizes]
    copies = []
    for runs in product(*axes):
        to = target[tuple(slice(first, first + count) for first, count, _, _ in runs)]
        if any(start < 0 for _, _, start, _ in runs):
            copies.append(fill_of(to, value))
            continue
        of = source
        for axis, (_, count, start, step) in enumerate(runs):
            of = _run_of(of, axis, start, count, step)
        copies.append(copy_of(to, of))
    return copies


def _run_of(part: Elements, axis: int, start: int, count: int, step: int) -> Elements:
    """The elements along an axis from `start` on in this step, which may be 0 or negative."""
    index = slice(start, start + 1) if step == 0 else slice(start, end if (end := start + step * count) >= 0 else None, step)
    run = part[(*(slice(None),) * axis, index)]
    return run.repeated((*run.shape[:axis], count, *run.shape[axis + 1 :]))


_Run = tuple[int, int, int, int]
"""Places along an axis: the first one, their count, the first source, -1 for none, and the step from one source to the next."""


def _runs(mode: PaddingMode, size: int, start: int, end: int) -> list[_Run]:
    """The places along an axis with its margins."""
    inside = start, size, 0, 1
    if mode is PaddingMode.CONSTANT or mode is PaddingMode.EDGE:
        before, behind = (-1, -1) if mode is PaddingMode.CONSTANT else (0, size - 1)
        return [run for run in ((0, start, before, 0), inside, (start + size, end, behind, 0)) if run[1] > 0]
    period = _period(mode, size)
    runs: list[_Run] = [inside]
    part, left = -1, start
    while left > 0:
        count, source, step = period[part % len(period)]
        taken = min(count, left)
        left, part = left - taken, part - 1
        runs.insert(0, (left, taken, source + (count - taken) * step, step))
    part, left = 1, end
    while left > 0:
        count, source, step = period[part % len(period)]
        taken = min(count, left)
        runs.append((start + size + end - left, taken, source, step))
        left, part = left - taken, part + 1
    return runs


def _period(mode: PaddingMode, size: int) -> list[tuple[int, int, int]]:
    """The runs that are repeated along an axis, that of the whole input first: counts, first sources, and steps."""
    if mode is PaddingMode.SYMMETRIC:
        return [(size, 0, 1), (size, size - 1, -1)]
    return [(size, 0, 1), (size - 2, size - 2, -1)] if mode is PaddingMode.REFLECTION and size > 2 else [(size, 0, 1)]


def count_padding_copies(desc: PaddingDesc | Padding1Desc) -> int:
    """At most this many copies, by the sizes of the margins: each has one run, or several where it is wider than the input."""
    counts = zip(desc.input_tensor.sizes, desc.start_padding, desc.end_padding, strict=True)
    return prod(1 + sum(-(-margin // max(size - 1, 1)) for margin in (start, end)) for size, start, end in counts)


def unfold_copies(desc: UnfoldDesc) -> list[Copy]:
    """A copy for each element of the window; zeros where it is outside of the image."""
    assert desc.output_tensor is not None
    target, source = Elements.of("output_tensor", desc.output_tensor), Elements.of("input_tensor", desc.input_tensor)
    fills = [fill_of(target, 0)] if any(desc.start_padding) or any(desc.end_padding) else []
    return [*fills, *(copy_of(to, of) for to, of in window_parts(desc, target, source))]


def window_parts(desc: UnfoldDesc | FoldDesc, columns: Elements, image: Elements) -> Iterator[tuple[Elements, Elements]]:
    """For each element of the window that is somewhere inside of the image the elements of all columns, and those of the image."""
    rows = list(zip(image.shape[2:], desc.start_padding, desc.end_padding, desc.window_sizes, desc.dilations, desc.strides, strict=True))
    positions = [(size + start + end - (window - 1) * dilation - 1) // stride + 1 for size, start, end, window, dilation, stride in rows]
    columns = columns[(0,) * (len(columns.shape) - 3)].split_axis(2, positions)
    columns = columns.split_axis(1, (image.shape[1], *desc.window_sizes))
    for taps in product(*(range(window) for window in desc.window_sizes)):
        to_index, of_index = [], []
        for tap, count, (size, start, _, _, dilation, stride) in zip(taps, positions, rows, strict=True):
            offset = tap * dilation - start
            first, last = max(0, -(offset // stride)), min(count, (size - 1 - offset) // stride + 1)
            to_index.append(slice(first, max(first, last)))
            begin = first * stride + offset
            of_index.append(slice(begin, begin + (last - first - 1) * stride + 1, stride) if last > first else slice(0, 0))
        of_taps: tuple[int | slice, ...] = (slice(None), slice(None), *taps, *to_index)
        to = columns[of_taps]
        if to.size:
            yield to, image[(slice(None), slice(None), *of_index)]
