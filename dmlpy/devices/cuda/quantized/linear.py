"""Linear quantization and dequantization on CUDA: one step of the element engine each."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from math import lcm
from operator import mul
from typing import TYPE_CHECKING

from dmlpy.description.tensors import packed_strides
from dmlpy.devices.cuda.common.element_engine import ElementsPlan, Elementwise, View, absent
from dmlpy.devices.cuda.common.element_types import element_type
from dmlpy.devices.cuda.common.functors import Functor
from dmlpy.devices.cuda.common.steps import NO_SCRATCH
from dmlpy.devices.cuda.kernels import ALIGNMENT
from dmlpy.devices.cuda.movement.copies import COPY
from dmlpy.devices.plan import Layout
from dmlpy.operators.quantized.linear import (
    DequantizeDesc,
    ElementWiseDequantizeLinearDesc,
    ElementWiseQuantizedLinearAddDesc,
    ElementWiseQuantizeLinearDesc,
    QuantizeDesc,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.plans import Target

FILE = "quantized/linear.cu"
QUANTIZE = Functor(FILE, "quantized::QuantizeLinear")
DEQUANTIZE = Functor(FILE, "quantized::DequantizeLinear")


def _view(place: str, tensor: TensorDesc | None, count: int) -> View:
    return absent(count) if tensor is None else View.of(place, tensor)


def linear_plan(desc: ElementWiseQuantizeLinearDesc | ElementWiseDequantizeLinearDesc, target: Target) -> ElementsPlan:
    assert desc.output_tensor is not None
    sizes = desc.output_tensor.sizes
    names = ("input_tensor", "scale_tensor", "zero_point_tensor")
    inputs = [_view(name, getattr(desc, name), len(sizes)) for name in names]
    functor = QUANTIZE if isinstance(desc, ElementWiseQuantizeLinearDesc) else DEQUANTIZE
    return ElementsPlan([Elementwise(functor, sizes, View.of("output_tensor", desc.output_tensor), inputs)], target.library)


def add_plan(desc: ElementWiseQuantizedLinearAddDesc, target: Target) -> ElementsPlan:
    assert desc.output_tensor is not None
    sizes = desc.output_tensor.sizes
    inputs = []
    for name in ("a", "b", "output"):
        if name != "output":
            inputs.append(View.of(f"{name}_tensor", getattr(desc, f"{name}_tensor")))
        for of_all in (f"{name}_scale_tensor", f"{name}_zero_point_tensor"):
            # one element for the whole tensor
            inputs.append(replace(_view(of_all, getattr(desc, of_all), len(sizes)), strides=(0,) * len(sizes)))
    functor = Functor(FILE, "quantized::QuantizedLinearAdd")
    return ElementsPlan([Elementwise(functor, sizes, View.of("output_tensor", desc.output_tensor), inputs)], target.library)


def blocks_plan(desc: QuantizeDesc | DequantizeDesc, target: Target) -> ElementsPlan:
    """One step over parts of each axis in which scales and zero points repeat.

    If blocks of scales and of zero points overlap partially, like sizes 2 and 3 along an axis of 6, no such parts exist: a step before
    repeats the zero points in scratch, for the intersections of the blocks.
    """
    assert desc.output_tensor is not None
    scale, *zero_points = desc.quantization_tensors
    of_scale, steps, scratch = View.of("quantization_tensors[0]", scale), list[Elementwise](), NO_SCRATCH
    counts, of_zero_point = (1,) * len(scale.sizes), absent(len(scale.sizes))
    if zero_points:
        (zero_point,) = zero_points
        counts, of_zero_point = zero_point.sizes, View.of("quantization_tensors[1]", zero_point)
        common = tuple(_in_common(*pair) for pair in zip(scale.sizes, counts, strict=True))
        if common != counts:
            steps, scratch, of_zero_point = _repeated_in_scratch(zero_point, of_zero_point, common)
            counts = common
    parts = [_parts(*of_axis) for of_axis in zip(scale.sizes, counts, desc.input_tensor.sizes, strict=True)]
    sizes = [size for axis in parts for size in axis]
    x, y = View.of("input_tensor", desc.input_tensor), View.of("output_tensor", desc.output_tensor)
    whole = desc.input_tensor.sizes
    inputs = [_along(x, whole, parts), _along(of_scale, scale.sizes, parts), _along(of_zero_point, counts, parts)]
    functor = QUANTIZE if isinstance(desc, QuantizeDesc) else DEQUANTIZE
    if middle := desc.implied_zero_point:
        functor = Functor(FILE, f"quantized::Around<{middle}, {functor.name}>")
    return ElementsPlan([*steps, Elementwise(functor, sizes, _along(y, whole, parts), inputs)], target.library, scratch)


def _in_common(scales: int, zero_points: int) -> int:
    """The zero points along an axis, or, if the blocks overlap partially, those of their intersections."""
    fewer, more = sorted((scales, zero_points))
    return lcm(fewer, more) if more % fewer else zero_points


def _repeated_in_scratch(tensor: TensorDesc, view: View, counts: tuple[int, ...]) -> tuple[list[Elementwise], Layout, View]:
    """The step that repeats a tensor's elements for more blocks along some axes, its scratch, and a view of it."""
    data_type = tensor.data_type.unpacked
    repeats = [(size, count // size) for size, count in zip(tensor.sizes, counts, strict=True)]
    result = View("zero_points", element_type(data_type), packed_strides(counts))
    sizes = [size for axis in repeats for size in axis]
    step = Elementwise(COPY, sizes, _along(result, counts, repeats), [_along(view, tensor.sizes, repeats)])
    return [step], Layout([("zero_points", counts, data_type)], ALIGNMENT), result


def _parts(scales: int, zero_points: int, size: int) -> tuple[int, int, int]:
    """The parts of an axis of this many elements: blocks, the blocks of each one that belong to the smaller kind, and their elements."""
    fewer, more = sorted((scales, zero_points))
    return fewer, more // fewer, size // more


def _along(view: View, counts: Sequence[int], parts: Sequence[Sequence[int]]) -> View:
    """A tensor that has that many blocks along each axis, over the parts of each axis."""
    strides = []
    for count, stride, axis in zip(counts, view.strides, parts, strict=True):
        strides += [stride * (count // blocks) if count > 1 else 0 for blocks in accumulate(axis, mul)]
    return replace(view, strides=tuple(strides))
