"""Convolutions of quantized numbers on CUDA: the kernels of convolution with the arithmetic of raw_kernels/quantized/convolution.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.element_types import element_type
from dmlpy.devices.cuda.common.tile_products import MOST_BYTE_TERMS
from dmlpy.devices.cuda.convolution.plan import Arithmetic, ConvolutionPlan, channel_stride
from dmlpy.devices.cuda.convolution.tiles import byte_tile
from dmlpy.devices.cuda.kernels import struct
from dmlpy.operators.quantized.products import ConvolutionIntegerDesc, QuantizedLinearConvolutionDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices.cuda.plans import Target

_FILE = "quantized/convolution.cu"

_DIFFERENCES = (("input_zero_point", np.uint64), ("filter_zero_point", np.uint64), ("filter_zero_point_stride", np.int64))
_REQUANTIZATION = (
    ("bias", np.uint64),
    ("bias_stride", np.int64),
    ("input_scale", np.uint64),
    ("filter_scale", np.uint64),
    ("filter_scale_stride", np.int64),
    ("output_scale", np.uint64),
    ("output_zero_point", np.uint64),
)


def integer_arithmetic(
    input_type: np.dtype[Any], filter_type: np.dtype[Any], output_type: np.dtype[Any], strides: Mapping[str, int] | None = None
) -> Arithmetic:
    """`Integers` if the output is INT32, else `Quantized`.

    Args:
        input_type: of x.
        filter_type: of w.
        output_type: of y.
        strides: the values of the members that are not addresses.
    """
    sums_alone = output_type == np.int32
    fields = _DIFFERENCES if sums_alone else (*_DIFFERENCES, *_REQUANTIZATION)
    types = ", ".join(map(element_type, (input_type, filter_type) if sums_alone else (input_type, filter_type, output_type)))
    addresses = {name: f"{name}_tensor" for name, _ in fields if not name.endswith("_stride")}
    name = f"{'Integers' if sums_alone else 'Quantized'}<{types}>"
    most_terms = None if sums_alone else MOST_BYTE_TERMS  # integer results wrap around
    sums = f"ByteSums<{element_type(filter_type)}, {element_type(input_type)}>"
    return Arithmetic(_FILE, name, struct(*fields), addresses, strides or {}, (byte_tile(sums),), most_terms)


def quantized_convolution_plan(desc: ConvolutionIntegerDesc | QuantizedLinearConvolutionDesc, target: Target) -> ConvolutionPlan:
    assert desc.output_tensor is not None  # guaranteed by the check
    x_type, w_type, y_type = (tensor.data_type.numpy for tensor in (desc.input_tensor, desc.filter_tensor, desc.output_tensor))
    of_channels = ["filter_zero_point"] + (["bias", "filter_scale"] if isinstance(desc, QuantizedLinearConvolutionDesc) else [])
    strides = {f"{name}_stride": channel_stride(getattr(desc, f"{name}_tensor")) for name in of_channels}
    return ConvolutionPlan(desc, target.library, integer_arithmetic(x_type, w_type, y_type, strides))
