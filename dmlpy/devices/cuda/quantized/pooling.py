"""QUANTIZED_LINEAR_AVERAGE_POOLING on CUDA: one launch of a kernel of raw_kernels/pooling/forward.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.element_types import element_type
from dmlpy.devices.cuda.common.steps import Step, StepsPlan
from dmlpy.devices.cuda.kernels import Kernel, struct
from dmlpy.devices.cuda.pooling.sliding import sliding_type, sliding_value

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.quantized.products import QuantizedLinearAveragePoolingDesc


def quantized_average_kernel(input_type: np.dtype[Any], output_type: np.dtype[Any]) -> Kernel:
    types = f"{element_type(input_type)}, {element_type(output_type)}"
    names = ("input", "input_scale", "input_zero_point", "output_scale", "output_zero_point", "output")
    parameters = struct(*((name, np.uint64) for name in names), ("sliding", sliding_type(1, 4)), ("include_padding", np.int32))
    return Kernel("pooling/forward.cu", f"quantized_average<{types}>", parameters, f"QuantizedAverageParameters<{types}>")


def quantized_average_plan(desc: QuantizedLinearAveragePoolingDesc, target: Target) -> StepsPlan:
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
    addresses = {name: f"{name}_tensor" for name in ("input", "output", *names)}
    return StepsPlan(desc, target.library, [Step(kernel, argument, addresses, count)])
