"""The definitions of the element-wise operators, on whole arrays.

Where DirectML's pages are silent the results are NumPy's: a NaN operand gives NaN, integers wrap around and give 0 where they are divided
by 0. Where an operator makes numbers of integers (a scale or bias that is not whole, an exponent that is not an integer) it counts in
double precision; what is stored in integers then is rounded toward zero and moved into the type's range.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType, IsInfinityMode, RoundingMode
from dmlpy.operators.elementwise.arithmetic import (
    ElementWiseAdd1Desc,
    ElementWiseAddDesc,
    ElementWiseAtanYXDesc,
    ElementWiseConstantPowDesc,
    ElementWiseDifferenceSquareDesc,
    ElementWiseDivideDesc,
    ElementWiseMaxDesc,
    ElementWiseMeanDesc,
    ElementWiseMinDesc,
    ElementWiseModulusFloorDesc,
    ElementWiseModulusTruncateDesc,
    ElementWiseMultiplyDesc,
    ElementWisePowDesc,
    ElementWiseSubtractDesc,
)
from dmlpy.operators.elementwise.logic import (
    ElementWiseBitAndDesc,
    ElementWiseBitCountDesc,
    ElementWiseBitNotDesc,
    ElementWiseBitOrDesc,
    ElementWiseBitShiftLeftDesc,
    ElementWiseBitShiftRightDesc,
    ElementWiseBitXorDesc,
    ElementWiseIfDesc,
    ElementWiseIsInfinityDesc,
    ElementWiseIsNaNDesc,
    ElementWiseLogicalAndDesc,
    ElementWiseLogicalEqualsDesc,
    ElementWiseLogicalGreaterThanDesc,
    ElementWiseLogicalGreaterThanOrEqualDesc,
    ElementWiseLogicalLessThanDesc,
    ElementWiseLogicalLessThanOrEqualDesc,
    ElementWiseLogicalNotDesc,
    ElementWiseLogicalOrDesc,
    ElementWiseLogicalXorDesc,
)
from dmlpy.operators.elementwise.math import (
    ElementWiseAbsDesc,
    ElementWiseAcosDesc,
    ElementWiseAcoshDesc,
    ElementWiseAsinDesc,
    ElementWiseAsinhDesc,
    ElementWiseAtanDesc,
    ElementWiseAtanhDesc,
    ElementWiseCeilDesc,
    ElementWiseCosDesc,
    ElementWiseCoshDesc,
    ElementWiseErfDesc,
    ElementWiseExpDesc,
    ElementWiseFloorDesc,
    ElementWiseIdentityDesc,
    ElementWiseLogDesc,
    ElementWiseNegateDesc,
    ElementWiseRecipDesc,
    ElementWiseSignDesc,
    ElementWiseSinDesc,
    ElementWiseSinhDesc,
    ElementWiseSqrtDesc,
    ElementWiseTanDesc,
    ElementWiseTanhDesc,
)
from dmlpy.operators.elementwise.ranges import (
    ElementWiseClip1Desc,
    ElementWiseClipDesc,
    ElementWiseClipGrad1Desc,
    ElementWiseClipGradDesc,
    ElementWiseRoundDesc,
    ElementWiseThresholdDesc,
)
from dmlpy.reference.conversion import as_integers
from dmlpy.reference.fused import fused
from dmlpy.reference.integers import (
    held_product,
    integer_mean,
    integer_power,
    integer_quotient,
    is_integer,
    snapped,
)
from dmlpy.reference.limits import at_least, at_most, maximum, minimum
from dmlpy.reference.registry import Array, Definition, Inputs, defines
from dmlpy.reference.selection import select
from dmlpy.reference.special import erf

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc


def _scaled(desc: Any, x: Array) -> Array:
    """Computes x * scale + bias; integers stay integers where both are whole, and are converted to double precision otherwise."""
    if desc.scale_bias is not None and is_integer(x) and desc.scale_bias.is_whole:
        return held_product(x, int(desc.scale_bias.scale), int(desc.scale_bias.bias))
    return _scaled_number(desc, x)


def _scaled_number(desc: Any, x: Array) -> Array:
    """Computes x * scale + bias; integers are converted to double precision."""
    if desc.scale_bias is None:
        return x
    numbers = x.astype(np.float64) if is_integer(x) else x
    scaled: Array = numbers * desc.scale_bias.scale + desc.scale_bias.bias
    return scaled


def _stored(desc: Any, y: Array) -> Array:
    """Converts numbers for the output: those stored in integers are rounded."""
    dtype = desc.output_tensor.data_type.numpy
    return as_integers(y, dtype) if dtype.kind in "iu" and not is_integer(y) else y


def _of_scaled(function: Callable[[Array], Array]) -> Definition:
    """Attaches a function of x * scale + bias."""
    return lambda desc, inputs: _stored(desc, function(_scaled_number(desc, inputs["input_tensor"])))


def _of_one(function: Callable[[Array], Array]) -> Definition:
    return lambda desc, inputs: function(inputs["input_tensor"])


def _of_two(function: Callable[[Array, Array], Array]) -> Definition:
    return lambda desc, inputs: function(inputs["a_tensor"], inputs["b_tensor"])


@defines(ElementWiseIdentityDesc)
def _identity(desc: Any, inputs: Inputs) -> Array:
    return _stored(desc, _scaled(desc, inputs["input_tensor"]))


def _sign(x: Array) -> Array:
    # numpy.sign returns NaN for NaN.
    return np.greater(x, 0).astype(np.int8) - np.less(x, 0)


def _difference_square(a: Array, b: Array) -> Array:
    square: Array = np.square(a - b)
    return square


def _divide(a: Array, b: Array) -> Array:
    return integer_quotient(a, b) if is_integer(a) else a / b


def _mean(a: Array, b: Array) -> Array:
    return integer_mean(a, b) if is_integer(a) else (a + b) / 2


@defines(ElementWiseAdd1Desc)
def _add1(desc: Any, inputs: Inputs) -> Array:
    total: Array = inputs["a_tensor"] + inputs["b_tensor"]
    return fused(desc.fused_activation, total)


@defines(ElementWiseConstantPowDesc)
def _constant_pow(desc: Any, inputs: Inputs) -> Array:
    x = _scaled(desc, inputs["input_tensor"])
    exponent = x.dtype.type(desc.exponent)
    power: Array = np.power(x, exponent)
    # C's pow gives infinity for minus infinity, as does NumPy except for an exponent of 0.5.
    return power if exponent == np.trunc(exponent) else np.where(x < 0, x.dtype.type(np.nan), power)


@defines(ElementWisePowDesc)
def _pow(desc: Any, inputs: Inputs) -> Array:
    stored, exponent = inputs["input_tensor"], inputs["exponent_tensor"]
    x = _scaled_number(desc, stored)
    if is_integer(x) and is_integer(exponent):
        return integer_power(x, exponent)
    numbers: Array = np.power(x.astype(np.float64) if is_integer(stored) else x, exponent)
    return _stored(desc, snapped(numbers)) if is_integer(stored) else numbers


# limits


@defines(ElementWiseClipDesc)
def _clip(desc: Any, inputs: Inputs) -> Array:
    return at_most(at_least(_stored(desc, _scaled(desc, inputs["input_tensor"])), desc.min), desc.max)


@defines(ElementWiseClip1Desc)
def _clip1(desc: Any, inputs: Inputs) -> Array:
    return at_least(at_most(_stored(desc, _scaled(desc, inputs["input_tensor"])), desc.max), desc.min)


@defines(ElementWiseThresholdDesc)
def _threshold(desc: Any, inputs: Inputs) -> Array:
    return at_least(_stored(desc, _scaled(desc, inputs["input_tensor"])), desc.min)


@defines(ElementWiseClipGradDesc, ElementWiseClipGrad1Desc)
def _clip_grad(desc: Any, inputs: Inputs) -> Array:
    x, gradient, least, most = inputs["input_tensor"], inputs["input_gradient_tensor"], desc.min, desc.max
    if is_integer(x):
        # The same comparisons, exact for integers of 64 bits too.
        least, most = (round_(limit) if math.isfinite(limit) else limit for round_, limit in ((math.floor, least), (math.ceil, most)))
    return select(gradient, ~((x <= least) | (x >= most)))


@defines(ElementWiseRoundDesc)
def _round(desc: Any, inputs: Inputs) -> Array:
    x: Array = inputs["input_tensor"]
    if desc.rounding_mode is RoundingMode.HALVES_TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    if desc.rounding_mode is RoundingMode.TOWARD_ZERO:
        return whole
    # The fraction is exact; x + 0.5 would round the number just below 0.5 up.
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones((), x.dtype), x), whole)


# bits and truth values


def _bits(x: Array, data_type: DataType) -> Array:
    """Wraps a function of the elements' stored bits; results computed in a wider type are converted back."""
    return x.astype(data_type.numpy, copy=False).view(f"u{data_type.bits // 8}")


def _of_bits(function: Callable[[Array, Array], Array]) -> Definition:
    def compute(desc: Any, inputs: Inputs) -> Array:
        data_type = desc.a_tensor.data_type
        return function(_bits(inputs["a_tensor"], data_type), _bits(inputs["b_tensor"], data_type)).view(data_type.numpy)

    return compute


@defines(ElementWiseBitNotDesc)
def _bit_not(desc: Any, inputs: Inputs) -> Array:
    data_type = desc.input_tensor.data_type
    return np.invert(_bits(inputs["input_tensor"], data_type)).view(data_type.numpy)


@defines(ElementWiseBitCountDesc)
def _bit_count(desc: Any, inputs: Inputs) -> Array:
    return np.bitwise_count(_bits(inputs["input_tensor"], desc.input_tensor.data_type))


@defines(ElementWiseIfDesc)
def _if(desc: Any, inputs: Inputs) -> Array:
    condition: Array = inputs["condition_tensor"]
    a: Array = inputs["a_tensor"]
    return np.where(condition != 0, a, inputs["b_tensor"])


@defines(ElementWiseIsInfinityDesc)
def _is_infinity(desc: Any, inputs: Inputs) -> Array:
    predicates: dict[IsInfinityMode, Callable[[Array], Array]] = {
        IsInfinityMode.EITHER: np.isinf,
        IsInfinityMode.POSITIVE: np.isposinf,
        IsInfinityMode.NEGATIVE: np.isneginf,
    }
    return predicates[desc.infinity_mode](inputs["input_tensor"])


_SCALED: dict[type[OperatorDesc], Callable[[Array], Array]] = {
    ElementWiseAbsDesc: np.abs,
    ElementWiseAcosDesc: np.arccos,
    ElementWiseAcoshDesc: np.arccosh,
    ElementWiseAsinDesc: np.arcsin,
    ElementWiseAsinhDesc: np.arcsinh,
    ElementWiseAtanDesc: np.arctan,
    ElementWiseAtanhDesc: np.arctanh,
    ElementWiseCeilDesc: np.ceil,
    ElementWiseCosDesc: np.cos,
    ElementWiseCoshDesc: np.cosh,
    ElementWiseErfDesc: erf,
    ElementWiseExpDesc: np.exp,
    ElementWiseFloorDesc: np.floor,
    ElementWiseLogDesc: np.log,
    ElementWiseRecipDesc: np.reciprocal,
    ElementWiseSinDesc: np.sin,
    ElementWiseSinhDesc: np.sinh,
    ElementWiseSqrtDesc: np.sqrt,
    ElementWiseTanDesc: np.tan,
    ElementWiseTanhDesc: np.tanh,
}
_OF_ONE: dict[type[OperatorDesc], Callable[[Array], Array]] = {
    ElementWiseIsNaNDesc: np.isnan,
    ElementWiseLogicalNotDesc: np.logical_not,
    ElementWiseNegateDesc: np.negative,
    ElementWiseSignDesc: _sign,
}
_OF_TWO: dict[type[OperatorDesc], Callable[[Array, Array], Array]] = {
    ElementWiseAddDesc: np.add,
    ElementWiseAtanYXDesc: np.arctan2,
    ElementWiseBitShiftLeftDesc: np.left_shift,
    ElementWiseBitShiftRightDesc: np.right_shift,
    ElementWiseDifferenceSquareDesc: _difference_square,
    ElementWiseDivideDesc: _divide,
    ElementWiseLogicalAndDesc: np.logical_and,
    ElementWiseLogicalEqualsDesc: np.equal,
    ElementWiseLogicalGreaterThanDesc: np.greater,
    ElementWiseLogicalGreaterThanOrEqualDesc: np.greater_equal,
    ElementWiseLogicalLessThanDesc: np.less,
    ElementWiseLogicalLessThanOrEqualDesc: np.less_equal,
    ElementWiseLogicalOrDesc: np.logical_or,
    ElementWiseLogicalXorDesc: np.logical_xor,
    ElementWiseMaxDesc: maximum,
    ElementWiseMeanDesc: _mean,
    ElementWiseMinDesc: minimum,
    ElementWiseModulusFloorDesc: np.remainder,
    ElementWiseModulusTruncateDesc: np.fmod,
    ElementWiseMultiplyDesc: np.multiply,
    ElementWiseSubtractDesc: np.subtract,
}
_OF_BITS: dict[type[OperatorDesc], Callable[[Array, Array], Array]] = {
    ElementWiseBitAndDesc: np.bitwise_and,
    ElementWiseBitOrDesc: np.bitwise_or,
    ElementWiseBitXorDesc: np.bitwise_xor,
}

for _kind, _function in _SCALED.items():
    defines(_kind)(_of_scaled(_function))
for _kind, _function in _OF_ONE.items():
    defines(_kind)(_of_one(_function))
for _kind, _pair in _OF_TWO.items():
    defines(_kind)(_of_two(_pair))
for _kind, _pair in _OF_BITS.items():
    defines(_kind)(_of_bits(_pair))
