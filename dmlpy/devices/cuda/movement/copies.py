"""Operators that only move elements: steps of the element engine that copy between views.

Elements are moved as unsigned integers of their size, regardless of their type.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from dmlpy.description.enums import DepthSpaceOrder
from dmlpy.devices.cuda.common.element_engine import ElementsPlan, Elementwise, View, computed_type
from dmlpy.devices.cuda.common.element_types import ELEMENT_TYPES
from dmlpy.devices.cuda.common.functors import Functor
from dmlpy.operators.movement.blocks import DepthToSpace1Desc, DepthToSpaceDesc, SpaceToDepth1Desc, SpaceToDepthDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.movement.copy import CastDesc, JoinDesc, SplitDesc, TileDesc
    from dmlpy.operators.movement.slicing import Slice1Desc, SliceDesc, SliceGradDesc, WindowDesc

FILE = "movement/copy.cu"
COPY = Functor(FILE, "movement::Copy")


def fill(tensor: TensorDesc, value: int | float, *, raw: bool = False) -> Functor:
    """The step that writes one value, given in the tensor's type, to all elements."""
    data_type = tensor.data_type.numpy
    stored = f"uint{8 * data_type.itemsize}" if raw else computed_type(data_type).name
    return Functor(FILE, f"movement::Fill<{ELEMENT_TYPES[stored]}>", (("value", stored, value),))


def cast_plan(desc: CastDesc, target: Target) -> ElementsPlan:
    x, y = desc.input_tensor, desc.output_tensor
    raw = x.data_type is y.data_type
    views = View.of("output_tensor", y, raw=raw), View.of("input_tensor", x, raw=raw)
    return ElementsPlan([Elementwise(COPY, y.sizes, views[0], views[1:])], target.library)


def bfloat16_conversion(source: TensorDesc, result: TensorDesc, target: Target) -> ElementsPlan:
    """The conversion between tensors of BFLOAT16 and FLOAT32; their places are those of CAST."""
    views = View.of("output_tensor", result), View.of("input_tensor", source)
    return ElementsPlan([Elementwise(COPY, result.sizes, views[0], views[1:])], target.library)


def join_plan(desc: JoinDesc, target: Target) -> ElementsPlan:
    assert desc.output_tensor is not None
    whole = View.of("output_tensor", desc.output_tensor, raw=True)
    parts = _parts(whole, desc.input_tensors, desc.axis)
    steps = [
        Elementwise(COPY, tensor.sizes, part, [View.of(f"input_tensors[{index}]", tensor, raw=True)])
        for index, (part, tensor) in enumerate(zip(parts, desc.input_tensors, strict=True))
    ]
    return ElementsPlan(steps, target.library)


def split_plan(desc: SplitDesc, target: Target) -> ElementsPlan:
    parts = _parts(View.of("input_tensor", desc.input_tensor, raw=True), desc.output_tensors, desc.axis)
    steps = [
        Elementwise(COPY, tensor.sizes, View.of(f"output_tensors[{index}]", tensor, raw=True), [part])
        for index, (part, tensor) in enumerate(zip(parts, desc.output_tensors, strict=True))
    ]
    return ElementsPlan(steps, target.library)


def _parts(whole: View, tensors: Sequence[TensorDesc], axis: int) -> list[View]:
    """The views of a tensor's parts along an axis, which have the sizes of other tensors."""
    starts = accumulate((tensor.sizes[axis] for tensor in tensors[:-1]), initial=0)
    return [replace(whole, offset=start * whole.strides[axis]) for start in starts]


def tile_plan(desc: TileDesc, target: Target) -> ElementsPlan:
    """One copy, with dimensions alternating between repetitions and the input."""
    assert desc.output_tensor is not None
    x, y = View.of("input_tensor", desc.input_tensor, raw=True), View.of("output_tensor", desc.output_tensor, raw=True)
    input_sizes = desc.input_tensor.sizes
    sizes = [size for pair in zip(desc.repeats, input_sizes, strict=True) for size in pair]
    repeating = tuple(stride for own_stride in x.strides for stride in (0, own_stride))
    written = tuple(stride for size, step in zip(input_sizes, y.strides, strict=True) for stride in (size * step, step))
    return ElementsPlan([Elementwise(COPY, sizes, replace(y, strides=written), [replace(x, strides=repeating)])], target.library)


def slice_plan(desc: SliceDesc, target: Target) -> ElementsPlan:
    assert desc.output_tensor is not None
    window = _window(View.of("input_tensor", desc.input_tensor, raw=True), desc.offsets, desc.strides)
    y = View.of("output_tensor", desc.output_tensor, raw=True)
    return ElementsPlan([Elementwise(COPY, desc.output_tensor.sizes, y, [window])], target.library)


def slice1_plan(desc: Slice1Desc, target: Target) -> ElementsPlan:
    assert desc.output_tensor is not None
    window = _window(View.of("input_tensor", desc.input_tensor, raw=True), _starts(desc), desc.input_window_strides)
    y = View.of("output_tensor", desc.output_tensor, raw=True)
    return ElementsPlan([Elementwise(COPY, desc.output_tensor.sizes, y, [window])], target.library)


def slice_grad_plan(desc: SliceGradDesc, target: Target) -> ElementsPlan:
    """Writes zeros everywhere, then the gradient to the elements of the slice."""
    given, output = desc.input_gradient_tensor, desc.output_gradient_tensor
    whole = View.of("output_gradient_tensor", output, raw=True)
    window = _window(whole, _starts(desc), desc.input_window_strides)
    steps = [
        Elementwise(fill(output, 0, raw=True), output.sizes, whole),
        Elementwise(COPY, given.sizes, window, [View.of("input_gradient_tensor", given, raw=True)]),
    ]
    return ElementsPlan(steps, target.library)


def _starts(desc: WindowDesc) -> list[int]:
    """The first element along each dimension: the window's last one for negative steps."""
    rows = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
    return [offset if step > 0 else offset + size - 1 for offset, size, step in rows]


def _window(whole: View, starts: Sequence[int], steps: Sequence[int]) -> View:
    """A strided slice of a tensor."""
    offset = sum(start * stride for start, stride in zip(starts, whole.strides, strict=True))
    return replace(whole, strides=tuple(step * stride for step, stride in zip(steps, whole.strides, strict=True)), offset=offset)


def block_plan(desc: DepthToSpaceDesc | SpaceToDepthDesc, target: Target) -> ElementsPlan:
    return _moved_blocks(desc, DepthSpaceOrder.DEPTH_COLUMN_ROW, target)


def block1_plan(desc: DepthToSpace1Desc | SpaceToDepth1Desc, target: Target) -> ElementsPlan:
    return _moved_blocks(desc, desc.order, target)


def _moved_blocks(
    desc: DepthToSpaceDesc | DepthToSpace1Desc | SpaceToDepthDesc | SpaceToDepth1Desc, order: DepthSpaceOrder, target: Target
) -> ElementsPlan:
    """One copy along batch, channels, rows of blocks and within them, columns of blocks and within them."""
    assert desc.output_tensor is not None
    x, y = View.of("input_tensor", desc.input_tensor, raw=True), View.of("output_tensor", desc.output_tensor, raw=True)
    to_space = isinstance(desc, DepthToSpaceDesc | DepthToSpace1Desc)
    blocks, image = (desc.input_tensor, desc.output_tensor) if to_space else (desc.output_tensor, desc.input_tensor)
    block = desc.block_size
    batch, channels, *_ = image.sizes
    height, width = blocks.sizes[2:]
    of_image = _image_strides(image.element_strides, block)
    of_blocks = _depth_strides(blocks.element_strides, channels, block, order)
    from_, to = (of_blocks, of_image) if to_space else (of_image, of_blocks)
    sizes = (batch, channels, height, block, width, block)
    return ElementsPlan([Elementwise(COPY, sizes, replace(y, strides=to), [replace(x, strides=from_)])], target.library)


def _image_strides(strides: Sequence[int], block: int) -> tuple[int, ...]:
    batch, channel, row, column = strides
    return batch, channel, block * row, row, block * column, column


def _depth_strides(strides: Sequence[int], channels: int, block: int, order: DepthSpaceOrder) -> tuple[int, ...]:
    batch, channel, row, column = strides
    if order is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        # the position in a block varies slowest
        return batch, channel, row, block * channels * channel, column, channels * channel
    return batch, block * block * channel, row, block * channel, column, channel
