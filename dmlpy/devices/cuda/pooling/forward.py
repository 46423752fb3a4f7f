"""Average, Lp and max pooling on CUDA: one launch of a kernel of raw_kernels/pooling/forward.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.tensors import packed_strides
from dmlpy.devices.cuda.common.element_types import element_type
from dmlpy.devices.cuda.common.steps import Step, StepsPlan
from dmlpy.devices.cuda.kernels import Kernel, scalar_type, struct
from dmlpy.devices.cuda.pooling.planes import planes_step
from dmlpy.devices.cuda.pooling.sliding import sliding_type, sliding_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.pooling.average import AveragePooling1Desc, AveragePoolingDesc
    from dmlpy.operators.pooling.lp import NormPoolingDesc
    from dmlpy.operators.pooling.maximum import MaxPooling2Desc, MaxPoolingDesc, MaxPoolingGradDesc

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


def average_plan(desc: AveragePoolingDesc | AveragePooling1Desc, target: Target) -> StepsPlan:
    """The plan of an average pooling. Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    planes = planes_step(
        desc, "AverageOf", _INPUT_AND_OUTPUT, output=tensors["output_tensor"].element_strides, include_padding=desc.include_padding
    )
    if planes is not None:
        return StepsPlan(desc, target.library, [planes])
    kernel = average_kernel(tensors["input_tensor"].data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    strides = [tensors[name].element_strides for name in ("output_tensor", "input_tensor")]
    argument["sliding"], count = sliding_value(desc, strides[0], strides[1:])
    argument["include_padding"] = desc.include_padding
    return StepsPlan(desc, target.library, [Step(kernel, argument, _INPUT_AND_OUTPUT, count)])


def norm_plan(desc: NormPoolingDesc, target: Target) -> StepsPlan:
    """The plan of an Lp pooling. Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    kernel = norm_kernel(tensors["input_tensor"].data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    strides = [tensors[name].element_strides for name in ("output_tensor", "input_tensor")]
    argument["sliding"], count = sliding_value(desc, strides[0], strides[1:])
    argument["power"] = desc.p
    return StepsPlan(desc, target.library, [Step(kernel, argument, _INPUT_AND_OUTPUT, count)])


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
        addresses: the step's addresses.
        wide_indices: whether indices have 64 bits, not 32.
    """
    has_indices = "indices" in addresses
    planes = planes_step(
        desc,
        "IndexedOf" if has_indices else "MaximumOf",
        addresses,
        output=output,
        indices=indices if has_indices else None,
        wide_indices=wide_indices,
    )
    if planes is not None:
        return planes
    x = desc.tensors()["input_tensor"]
    data_type = x.data_type.numpy
    kernel = largest_kernel(data_type)
    argument = np.zeros(1, kernel.parameters)
    argument["sliding"], count = sliding_value(desc, output, [x.element_strides, packed_strides(x.sizes)], [indices])
    argument["least"] = -np.inf if is_float(data_type) else np.iinfo(data_type).min
    argument["wide_indices"] = wide_indices
    return Step(kernel, argument, addresses, count)


def largest_plan(desc: MaxPoolingDesc | MaxPooling2Desc, target: Target) -> StepsPlan:
    """The plan of a max pooling. Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    output, indices = tensors["output_tensor"], tensors.get("output_indices_tensor")
    addresses = _INPUT_AND_OUTPUT | ({} if indices is None else {"indices": "output_indices_tensor"})
    index_strides = (0,) * len(output.sizes) if indices is None else indices.element_strides
    wide = indices is not None and indices.data_type.bits == 64
    return StepsPlan(desc, target.library, [largest_step(desc, output.element_strides, index_strides, addresses, wide)])
