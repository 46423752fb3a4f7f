"""Linear quantization and its inverse, on whole arrays: an integer q represents the number (q - zero_point) * scale."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.operators.quantized.linear import (
    DequantizeDesc,
    DynamicQuantizeLinearDesc,
    ElementWiseDequantizeLinearDesc,
    ElementWiseQuantizedLinearAddDesc,
    ElementWiseQuantizeLinearDesc,
    QuantizeDesc,
)
from dmlpy.reference.registry import Array, Inputs, defines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.enums import DataType


def quantized(
    values: Array, scale: Array, zero_point: Array | None, data_type: DataType, *, work: Array | None = None, most: float = inf
) -> Array:
    """Computes clamp(round(values / scale) + zero_point) to the type's range, halves rounded to even; NaN (also 0 / 0) counts as 0.

    `work` is memory for the steps, which may be that of the values. `most` is what no quotient's magnitude exceeds, if that is known.
    """
    steps: Array = np.divide(values, _once(scale), out=work)
    if most <= _MOST_SHORT and steps.dtype == np.float32 and data_type.bits == 8:
        return _from_shorts(_rounded(steps), zero_point, data_type)
    np.rint(steps, steps)
    if np.isnan(steps.min(initial=0)):
        steps[np.isnan(steps)] = 0
    if zero_point is not None:
        steps += _once(zero_point).astype(steps.dtype)
    np.clip(steps, *data_type.limits, out=steps)
    return steps.astype(data_type.unpacked)


_MOST_SHORT = 2.0**14
"""Whole numbers up to here, and a zero point of 8 bits added, fit in 16 bits."""

_LAST_BIT_IS_ONE = np.float32(3 * 2.0**22)
"""Between 2^23 and 2^24 float32's last bit counts ones: a sum with this is rounded to a whole number, halves to even."""


def _rounded(steps: Array) -> Array:
    """Numbers of at most `_MOST_SHORT`, which it overwrites, rounded to integers of 16 bits."""
    steps += _LAST_BIT_IS_ONE
    return steps.view(np.int32).astype(np.int16)  # the last 16 bits


def _from_shorts(whole: Array, zero_point: Array | None, data_type: DataType) -> Array:
    if zero_point is not None:
        whole += _once(zero_point).astype(np.int16)
    np.clip(whole, *data_type.limits, out=whole)
    return whole.astype(data_type.unpacked)


def _once(array: Array) -> Array:
    """An array without its repetitions along strides of 0."""
    strides = zip(array.shape, array.strides, strict=True)
    return array[tuple(slice(0, 1) if stride == 0 and size > 1 else slice(None) for size, stride in strides)]


def dequantized(x: Array, scale: Array, zero_point: Array | None) -> Array:
    """Computes (x - zero_point) * scale, with an exact difference for integers of up to 32 bits."""
    # Differences of 8 bits are exact in 16, and those of 16 bits in any floating-point type of the arithmetic.
    difference: Array = x.astype(np.int16 if x.itemsize == 1 else scale.dtype if x.itemsize == 2 else np.int64)
    if zero_point is not None:
        difference -= _once(zero_point).astype(difference.dtype)
    if x.itemsize == 1:
        difference = difference.astype(scale.dtype)
    return np.multiply(
        difference, _once(scale), dtype=scale.dtype, casting="unsafe", out=difference if difference.dtype == scale.dtype else None
    )


@defines(ElementWiseQuantizeLinearDesc)
def _quantize_linear(desc: Any, inputs: Inputs) -> Array:
    return quantized(inputs["input_tensor"], inputs["scale_tensor"], inputs["zero_point_tensor"], desc.output_tensor.data_type)


@defines(ElementWiseDequantizeLinearDesc)
def _dequantize_linear(desc: Any, inputs: Inputs) -> Array:
    return dequantized(inputs["input_tensor"], inputs["scale_tensor"], inputs["zero_point_tensor"])


@defines(ElementWiseQuantizedLinearAddDesc)
def _quantized_linear_add(desc: Any, inputs: Inputs) -> Array:
    a, b = (dequantized(inputs[f"{name}_tensor"], inputs[f"{name}_scale_tensor"], inputs[f"{name}_zero_point_tensor"]) for name in "ab")
    a += b
    scales = [np.abs(_once(inputs[f"{name}_scale_tensor"])) for name in ("a", "b", "output")]
    most = _LARGEST_DIFFERENCE * (float(scales[0].max()) + float(scales[1].max())) / float(scales[2].min() or np.nan)
    of_output = inputs["output_scale_tensor"], inputs["output_zero_point_tensor"]
    return quantized(a, *of_output, desc.output_tensor.data_type, work=a, most=most)


_LARGEST_DIFFERENCE = 256.0
"""No element of 8 bits is further from its zero point, with room for the rounding of products."""


@defines(DynamicQuantizeLinearDesc)
def _dynamic_quantize_linear(desc: Any, inputs: Inputs) -> dict[str, Array]:
    x: Array = inputs["input_tensor"]
    data_type: DataType = desc.output_tensor.data_type
    least, most = data_type.limits
    # As ONNX has it the range holds 0: only then is there a zero point in the range of the type.
    smallest, largest = (np.reshape(bound, (1,) * x.ndim) for bound in (np.minimum(x.min(), 0), np.maximum(x.max(), 0)))
    scale = (largest - smallest) / (most - least)
    zero_point = quantized(-smallest, scale, np.full_like(scale, least), data_type)
    return {
        "output_tensor": quantized(x, scale, zero_point, data_type),
        "output_scale_tensor": scale,
        "output_zero_point_tensor": zero_point,
    }


def _of_blocks(tensor: Array, sizes: Sequence[int]) -> Array:
    """Repeats each element of a scale or a zero point over its block."""
    for axis, size in enumerate(sizes):
        if tensor.shape[axis] > 1:  # otherwise it is broadcast
            tensor = tensor.repeat(size // tensor.shape[axis], axis)
    return tensor


def _scale_and_zero_point(desc: Any, inputs: Inputs) -> tuple[Array, Array | None]:
    scale, *zero_point = (_of_blocks(tensor, desc.input_tensor.sizes) for tensor in inputs["quantization_tensors"])
    if desc.implied_zero_point:
        zero_point = [np.full((1,) * scale.ndim, desc.implied_zero_point, np.uint8)]
    return scale, zero_point[0] if zero_point else None


@defines(QuantizeDesc)
def _quantize(desc: Any, inputs: Inputs) -> Array:
    return quantized(inputs["input_tensor"], *_scale_and_zero_point(desc, inputs), desc.output_tensor.data_type)


@defines(DequantizeDesc)
def _dequantize(desc: Any, inputs: Inputs) -> Array:
    return dequantized(inputs["input_tensor"], *_scale_and_zero_point(desc, inputs))
