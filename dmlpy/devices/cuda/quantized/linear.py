"""Linear quantization and its opposite on CUDA: one step of the element engine each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dmlpy.description.enums import HResult
from dmlpy.devices.axes import repeated
from dmlpy.devices.cuda.element_engine import ElementsPlan, Elementwise, Functor, View, absent
from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.operators.quantized.linear import (
    DequantizeDesc,
    ElementWiseDequantizeLinearDesc,
    ElementWiseQuantizedLinearAddDesc,
    ElementWiseQuantizeLinearDesc,
    QuantizeDesc,
)
from dmlpy.validation.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc

FILE = "quantized/linear.cu"
QUANTIZE = Functor(FILE, "quantized::QuantizeLinear")
DEQUANTIZE = Functor(FILE, "quantized::DequantizeLinear")


def _view(place: str, tensor: TensorDesc | None, count: int) -> View:
    return absent(count) if tensor is None else View.of(place, tensor)


@plan(ElementWiseQuantizeLinearDesc, ElementWiseDequantizeLinearDesc)
def linear_plan(desc: ElementWiseQuantizeLinearDesc | ElementWiseDequantizeLinearDesc, target: Target) -> ElementsPlan:
    assert desc.output_tensor is not None
    sizes = desc.output_tensor.sizes
    names = ("input_tensor", "scale_tensor", "zero_point_tensor")
    inputs = [_view(name, getattr(desc, name), len(sizes)) for name in names]
    functor = QUANTIZE if isinstance(desc, ElementWiseQuantizeLinearDesc) else DEQUANTIZE
    return ElementsPlan([Elementwise(functor, sizes, View.of("output_tensor", desc.output_tensor), inputs)], target.library)


@plan(ElementWiseQuantizedLinearAddDesc)
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


@plan(QuantizeDesc, DequantizeDesc)
def blocks_plan(desc: QuantizeDesc | DequantizeDesc, target: Target) -> ElementsPlan:
    """Along blocks and the elements of a block, in turns: scales and zero points hold for a block, or for all blocks along an axis.

    Raises:
        DeviceError: along an axis there are several scales and another number of zero points, also several.
    """
    assert desc.output_tensor is not None
    _, *zero_point = desc.quantization_tensors
    along = list(zip(*(tensor.sizes for tensor in desc.quantization_tensors), strict=True))
    blocks = [max(counts) for counts in along]
    if any(count not in (1, block) for counts, block in zip(along, blocks, strict=True) for count in counts):
        found = " and ".join(str(list(tensor.sizes)) for tensor in desc.quantization_tensors)
        raise DeviceError(
            f"{desc.c_name} has scales and zero points of sizes {found}: where they differ along an axis, CUDA runs it only if one of the "
            "sizes is 1; compile it for the device 'numpy'",
            hresult=HResult.E_NOTIMPL,
        )
    sizes = [size for block, whole in zip(blocks, desc.input_tensor.sizes, strict=True) for size in (block, whole // block)]
    x, y = View.of("input_tensor", desc.input_tensor), View.of("output_tensor", desc.output_tensor)
    of_blocks = [View.of(f"quantization_tensors[{index}]", tensor) for index, tensor in enumerate(desc.quantization_tensors)]
    of_blocks = [
        replace(view, strides=tuple(stride for own in repeated(tensor.sizes, view.strides) for stride in (own, 0)))
        for view, tensor in zip(of_blocks, desc.quantization_tensors, strict=True)
    ]
    if not zero_point:
        of_blocks.append(absent(len(sizes)))
    functor = QUANTIZE if isinstance(desc, QuantizeDesc) else DEQUANTIZE
    inputs = [_of_elements(x, sizes), *of_blocks]
    return ElementsPlan([Elementwise(functor, sizes, _of_elements(y, sizes), inputs)], target.library)


def _of_elements(view: View, sizes: Sequence[int]) -> View:
    """A tensor's elements along blocks and the elements of a block, in turns."""
    strides = tuple(step for stride, inner in zip(view.strides, sizes[1::2], strict=True) for step in (inner * stride, stride))
    return replace(view, strides=strides)
