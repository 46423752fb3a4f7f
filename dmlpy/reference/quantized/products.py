"""Products of quantized tensors, on whole arrays.

Differences to zero points are multiplied and summed in floating point, as fast as NumPy multiplies matrices: in float32 where that is
exact, because all sums are below 2^24, and otherwise in float64, which is exact for elements of 8 and 16 bits.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dmlpy.operators.quantized.products import (
    ConvolutionIntegerDesc,
    MatrixMultiplyIntegerDesc,
    MatrixMultiplyIntegerToFloatDesc,
    QuantizedConvolvingDesc,
    QuantizedLinearAveragePoolingDesc,
    QuantizedLinearConvolutionDesc,
    QuantizedLinearMatrixMultiplyDesc,
)
from dmlpy.reference.convolution import cross_correlation
from dmlpy.reference.pooling.windows import mean_of_windows
from dmlpy.reference.quantized.linear import quantized
from dmlpy.reference.registry import Array, Inputs, defines
from dmlpy.reference.windows import windows


class _Inputs:
    """The inputs of an operator; a prefix names those that belong to one tensor."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def differences(self, prefix: str, *ones: int) -> Array:
        """A tensor less its zero point, exact: in float32 for 8 and 16 bits, otherwise in float64."""
        stored: Array = self._inputs[f"{prefix}_tensor"]
        x: Array = stored.astype(np.float32 if stored.itemsize <= 2 else np.float64)
        zero_point = self.parameter(f"{prefix}_zero_point", *ones)
        if zero_point is not None:
            x -= zero_point.astype(x.dtype)
        return x

    def parameter(self, name: str, *ones: int) -> Array | None:
        """A scale or zero point, which has one dimension longer than 1 at most: a vector, followed by dimensions of size 1."""
        parameter: Array | None = self._inputs.get(f"{name}_tensor")
        return None if parameter is None else parameter.reshape(-1, *ones)

    def scale(self, prefix: str, *ones: int) -> Array:
        scale = self.parameter(f"{prefix}_scale", *ones)
        assert scale is not None  # every operator requires it
        return scale

    def output(self, values: Array, desc: Any, *ones: int) -> Array:
        """Values, quantized as the output."""
        zero_point = self.parameter("output_zero_point", *ones)
        return quantized(values, self.scale("output", *ones), zero_point, desc.output_tensor.data_type)


_EXACT = 2.0**24
"""Below it all whole numbers are of float32."""


def _exact(one: Array, other: Array, terms: int) -> tuple[Array, Array]:
    """Two arrays of whole numbers in a type in which sums of this many of their products are exact."""
    largest = [max(float(array.max(initial=0)), -float(array.min(initial=0))) for array in (one, other)]
    dtype = np.float32 if largest[0] * largest[1] * terms < _EXACT else np.float64
    return one.astype(dtype, copy=False), other.astype(dtype, copy=False)


def _sums(desc: QuantizedConvolvingDesc, inputs: _Inputs) -> Array:
    """The convolution of the differences, in which padding is 0."""
    assert desc.output_tensor is not None  # guaranteed by the check
    # The channels of a filter's zero point are its first dimension.
    ones = (1,) * (len(desc.filter_tensor.sizes) - 1)
    x, filters = inputs.differences("input", *ones), inputs.differences("filter", *ones)
    along = windows(desc, x.shape[2:], filters.shape[2:], desc.output_tensor.sizes[2:])
    return cross_correlation(*_exact(x, filters, prod(filters.shape[1:])), desc.group_count, along).astype(np.float64, copy=False)


@defines(ConvolutionIntegerDesc)
def _convolution_integer(desc: ConvolutionIntegerDesc, inputs: Inputs) -> Array:
    return _sums(desc, _Inputs(inputs)).astype(np.int64)


@defines(QuantizedLinearConvolutionDesc, derived=False)
def _quantized_linear_convolution(desc: QuantizedLinearConvolutionDesc, inputs: Inputs) -> Array:
    given, sums = _Inputs(inputs), _sums(desc, _Inputs(inputs))
    if inputs["bias_tensor"] is not None:
        sums = sums + inputs["bias_tensor"]
    ones = (1,) * (sums.ndim - 2)
    return given.output(sums * given.scale("input", *ones) * given.scale("filter", *ones), desc, *ones)


@defines(QuantizedLinearAveragePoolingDesc)
def _quantized_linear_average_pooling(desc: QuantizedLinearAveragePoolingDesc, inputs: Inputs) -> Array:
    given, ones = _Inputs(inputs), (1,) * len(desc.window_size)
    means = mean_of_windows(desc, given.differences("input", *ones).astype(np.float64), desc.include_padding)
    return given.output(means * given.scale("input", *ones), desc, *ones)


def _product(inputs: _Inputs) -> Array:
    """The product of the differences: A's zero points are of rows, B's of columns."""
    a, b = inputs.differences("a", 1), inputs.differences("b")
    product: Array = np.matmul(*_exact(a, b, a.shape[-1]))
    return product.astype(np.float64, copy=False)  # what follows is rounded once


def _dequantized_product(inputs: _Inputs) -> Array:
    return _product(inputs) * inputs.scale("a", 1) * inputs.scale("b")


@defines(MatrixMultiplyIntegerDesc)
def _matrix_multiply_integer(desc: MatrixMultiplyIntegerDesc, inputs: Inputs) -> Array:
    return _product(_Inputs(inputs)).astype(np.int64)


@defines(MatrixMultiplyIntegerToFloatDesc)
def _matrix_multiply_integer_to_float(desc: MatrixMultiplyIntegerToFloatDesc, inputs: Inputs) -> Array:
    result, bias = _dequantized_product(_Inputs(inputs)), inputs["bias_tensor"]
    return result if bias is None else result + bias


@defines(QuantizedLinearMatrixMultiplyDesc)
def _quantized_linear_matrix_multiply(desc: QuantizedLinearMatrixMultiplyDesc, inputs: Inputs) -> Array:
    given = _Inputs(inputs)
    return given.output(_dequantized_product(given), desc, 1)
