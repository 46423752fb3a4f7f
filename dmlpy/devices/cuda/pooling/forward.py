"""Average, Lp and max pooling on CUDA: one launch of a kernel of raw_kernels/pooling/forward.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.tensors import packed_strides
from dmlpy.devices.cuda.element_types import element_type
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.pooling.sliding import sliding_type, sliding_value
from dmlpy.devices.cuda.steps import Step, StepsPlan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.operators.pooling.average import AveragePooling1Desc, AveragePoolingDesc
    from dmlpy.operators.pooling.lp import NormPoolingDesc
    from dmlpy.operators.pooling.maximum import MaxPooling2Desc, MaxPoolingDesc, MaxPoolingGradDesc
    from dmlpy.operators.quantized.products import QuantizedLinearAveragePoolingDesc

_FILE = "pooling/forward.cu"
_INPUT_AND_OUTPUT = {"input": "input_tensor", "output": "output_tensor"}


def average_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = struct(("input", np.uint64), ("output", np.uint64), ("sliding", sliding_type(1, 0)), ("include_padding", np.int32))
    return Kernel(_FILE, f"average<{scalar}>", parameters, f"AverageParameters<{scalar}>")


def norm_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = struct(("input", np.uint64), ("output", np.uint64), ("sliding", sliding_type(1, 0)), ("power", np.float32))
    return Kernel(_FILE, f"norm<{scalar}>", parameters, f"NormParameters<{scalar}>")


def largest_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = element_type(data_type)
    parameters = struct(
        *((name, np.uint64) for name in ("input", "output", "indices")),
        ("sliding", sliding_type(2, 1)),
        ("least", data_type),
        ("wide_indices", np.int32),
    )
    return Kernel(_FILE, f"largest<{scalar}>", parameters, f"LargestParameters<{scalar}>")


def quantized_average_kernel(input_type: np.dtype[Any], output_type: np.dtype[Any]) -> Kernel:
    types = f"{element_type(input_type)}, {element_type(output_type)}"
    names = ("input", "input_scale", "input_zero_point", "output_scale", "output_zero_point", "output")
    parameters = struct(*((name, np.uint64) for name in names), ("sliding", sliding_type(1, 4)), ("include_padding", np.int32))
    return Kernel(_FILE, f"quantized_average<{types}>", parameters, f"QuantizedAverageParameters<{types}>")


def average_plan(desc: AveragePoolingDesc | AveragePooling1Desc, library: KernelLibrary) -> StepsPlan:
    """The plan of an average pooling. Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    kernel = average_kernel(tensors["input_tensor"].data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    strides = [tensors[name].element_strides for name in ("output_tensor", "input_tensor")]
    argument["sliding"], count = sliding_value(desc, strides[0], strides[1:])
    argument["include_padding"] = desc.include_padding
    return StepsPlan(desc, library, [Step(kernel, argument, _INPUT_AND_OUTPUT, count)])


def norm_plan(desc: NormPoolingDesc, library: KernelLibrary) -> StepsPlan:
    """The plan of an Lp pooling. Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    kernel = norm_kernel(tensors["input_tensor"].data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    strides = [tensors[name].element_strides for name in ("output_tensor", "input_tensor")]
    argument["sliding"], count = sliding_value(desc, strides[0], strides[1:])
    argument["power"] = desc.p
    return StepsPlan(desc, library, [Step(kernel, argument, _INPUT_AND_OUTPUT, count)])


def largest_step(
    desc: MaxPoolingDesc | MaxPooling2Desc | MaxPoolingGradDesc,
    output: Sequence[int],
    indices: Sequence[int],
    addresses: Mapping[str, str],
    wide_indices: bool,
) -> Step:
    """The launch that finds the largest element of each window.

    Args:
        desc: a checked desc.
        output: strides of the values.
        indices: strides of their indices.
        addresses: of the step.
        wide_indices: whether indices have 64 bits, not 32.
    """
    x = desc.tensors()["input_tensor"]
    data_type = x.data_type.numpy
    kernel = largest_kernel(data_type)
    argument = np.zeros(1, kernel.parameters)
    argument["sliding"], count = sliding_value(desc, output, [x.element_strides, packed_strides(x.sizes)], [indices])
    argument["least"] = -np.inf if data_type.kind == "f" else np.iinfo(data_type).min
    argument["wide_indices"] = wide_indices
    return Step(kernel, argument, addresses, count)


def largest_plan(desc: MaxPoolingDesc | MaxPooling2Desc, library: KernelLibrary) -> StepsPlan:
    """The plan of a max pooling. Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    output, indices = tensors["output_tensor"], tensors.get("output_indices_tensor")
    addresses = _INPUT_AND_OUTPUT | ({} if indices is None else {"indices": "output_indices_tensor"})
    index_strides = (0,) * len(output.sizes) if indices is None else indices.element_strides
    wide = indices is not None and indices.data_type.bits == 64
    return StepsPlan(desc, library, [largest_step(desc, output.element_strides, index_strides, addresses, wide)])


def quantized_average_plan(desc: QuantizedLinearAveragePoolingDesc, library: KernelLibrary) -> StepsPlan:
    """The plan of an average pooling of quantized elements. Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    x, y = tensors["input_tensor"], tensors["output_tensor"]
    kernel = quantized_average_kernel(x.data_type.numpy, y.data_type.numpy)
    names = ("input_scale", "input_zero_point", "output_scale", "output_zero_point")
    others = []
    for name in names:
        tensor = tensors.get(f"{name}_tensor")
        steps = () if tensor is None else [stride for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True) if size > 1]
        others.append((0, steps[0] if steps else 0, *(0 for _ in y.sizes[2:])))
    argument = np.zeros(1, kernel.parameters)
    argument["sliding"], count = sliding_value(desc, y.element_strides, [x.element_strides], others)
    argument["include_padding"] = desc.include_padding
    addresses = _INPUT_AND_OUTPUT | {name: f"{name}_tensor" for name in names}
    return StepsPlan(desc, library, [Step(kernel, argument, addresses, count)])
