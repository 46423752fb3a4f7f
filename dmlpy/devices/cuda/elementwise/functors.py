"""The functors of raw_kernels/elementwise/: the functor of a desc and the values of its members.

An operator runs the functor of its name in the file of its module: ELEMENT_WISE_ADD, which `dmlpy.operators.elementwise.arithmetic`
describes, runs `Add` of raw_kernels/elementwise/arithmetic.cu. Only one with attributes needs more: an entry in `_WITH_MEMBERS`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import IsInfinityMode, RoundingMode
from dmlpy.devices.cuda.common.element_engine import computed_type
from dmlpy.devices.cuda.common.element_types import ELEMENT_TYPES
from dmlpy.devices.cuda.common.functors import Functor, activation_members, functor
from dmlpy.operators.elementwise.arithmetic import ElementWiseAdd1Desc, ElementWiseConstantPowDesc, ElementWisePowDesc
from dmlpy.operators.elementwise.logic import (
    ElementWiseBitAndDesc,
    ElementWiseBitCountDesc,
    ElementWiseBitNotDesc,
    ElementWiseBitOrDesc,
    ElementWiseBitXorDesc,
    ElementWiseIfDesc,
    ElementWiseIsInfinityDesc,
)
from dmlpy.operators.elementwise.math import ElementWiseAbsDesc, ElementWiseIdentityDesc
from dmlpy.operators.elementwise.ranges import (
    ClipGradientDesc,
    ElementWiseClip1Desc,
    ElementWiseClipDesc,
    ElementWiseRoundDesc,
    ElementWiseThresholdDesc,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.value_structs import ScaleBias

Member = tuple[str, str, float | int]

_POWERS = {2.0: "Square", 0.5: "SquareRoot"}
"""Exponents whose powers have functors of their own."""

_OF_BITS = (
    ElementWiseBitAndDesc,
    ElementWiseBitCountDesc,
    ElementWiseBitNotDesc,
    ElementWiseBitOrDesc,
    ElementWiseBitXorDesc,
    ElementWiseIfDesc,
)


def takes_raw_bits(desc: OperatorDesc) -> bool:
    """Whether the operator moves or combines bits regardless of their type: its functor then takes unsigned integers."""
    return isinstance(desc, _OF_BITS) or (isinstance(desc, ElementWiseIdentityDesc) and desc.scale_bias is None)


def functor_of(desc: OperatorDesc) -> Functor:
    """The functor that computes a checked desc."""
    kind = type(desc)
    operator = kind.__name__.removeprefix("ElementWise").removesuffix("Desc")
    make = next((make for kinds, make in _WITH_MEMBERS.items() if isinstance(desc, kinds)), None)
    name, members = (operator, ()) if make is None else make(operator, desc)
    scale_bias = getattr(desc, "scale_bias", None)
    if scale_bias is not None:
        name, members = _scaled(desc, scale_bias, f"element_wise::{name}", members)
        return Functor(_file(kind), name, members)
    return Functor(_file(kind), f"element_wise::{name}", members)


def _file(kind: type[OperatorDesc]) -> str:
    if issubclass(kind, ElementWiseAdd1Desc):
        return "elementwise/fused.cu"  # the activations are read by this one alone
    return f"elementwise/{kind.__module__.rpartition('.')[2]}.cu"


def _computed(desc: Any) -> np.dtype[Any]:
    """The type that a desc's first input is computed in."""
    first = next(iter(desc.tensors().values()))
    return computed_type(first.data_type.numpy)


def _scaled(desc: OperatorDesc, scale_bias: ScaleBias, name: str, members: tuple[Member, ...]) -> tuple[str, tuple[Member, ...]]:
    """The functor of x * scale + bias."""
    scale, bias, computed = scale_bias.scale, scale_bias.bias, _computed(desc)
    if computed.kind in "iu" and scale_bias.is_whole and not isinstance(desc, ElementWiseAbsDesc | ElementWisePowDesc):
        exactly = (("scale", "int64", int(scale)), ("bias", "int64", int(bias)))
        return f"ScaledExactly<{name}, {ELEMENT_TYPES[computed.name]}>", (*members, *exactly)
    return f"Scaled<{name}>", (*members, ("scale", "float32", scale), ("bias", "float32", bias))


def _constant_pow(name: str, desc: ElementWiseConstantPowDesc) -> tuple[str, tuple[Member, ...]]:
    exponent = desc.exponent
    if exponent in _POWERS:
        return _POWERS[exponent], ()
    members = (("exponent", "float32", exponent),)
    tensor = desc.tensors()["input_tensor"]
    if tensor.data_type.numpy != np.float16 or not 0.25 <= abs(exponent) < 65536.0:
        return name, members
    least, sign = -math.inf if exponent.is_integer() else 0.0, 1 << 31 if exponent % 2.0 == 1.0 else 0
    return "ConstantPowOfHalves", (*members, ("least", "float32", least), ("sign", "uint32", sign))


def _limits(name: str, desc: Any) -> tuple[str, tuple[Member, ...]]:
    computed = _computed(desc)
    limits = [("least", desc.min)] + ([("most", desc.max)] if hasattr(desc, "max") else [])
    members = tuple((member, computed.name, _limit(limit, computed, least=member == "least")) for member, limit in limits)
    return f"{name}<{ELEMENT_TYPES[computed.name]}>", members


def _limit(limit: float, computed: np.dtype[Any], *, least: bool) -> float | int:
    """A limit as an element; NaN, which compares with nothing, becomes a limit that nothing exceeds."""
    if computed.kind == "f":
        return limit
    ends = np.iinfo(computed)
    if math.isnan(limit):
        return ends.min if least else ends.max
    return ends.min if limit <= ends.min else ends.max if limit >= ends.max else math.trunc(limit)


def _clip_gradient(name: str, desc: Any) -> tuple[str, tuple[Member, ...]]:
    computed, least, most = _computed(desc), desc.min, desc.max
    if computed.kind == "f":
        return "ClipGrad", (("least", "float32", least), ("most", "float32", most))
    ends = np.iinfo(computed)
    first = ends.min if math.isnan(least) or least < ends.min else ends.max + 1 if least >= ends.max else math.floor(least) + 1
    last = ends.max if math.isnan(most) or most > ends.max else ends.min - 1 if most <= ends.min else math.ceil(most) - 1
    if first > last:
        first, last = 1, 0
    return f"ClipGradOfIntegers<{ELEMENT_TYPES[computed.name]}>", (("first", computed.name, first), ("last", computed.name, last))


def _round(name: str, desc: ElementWiseRoundDesc) -> tuple[str, tuple[Member, ...]]:
    rounds = {
        RoundingMode.HALVES_TO_NEAREST_EVEN: "RoundHalvesToEven",
        RoundingMode.TOWARD_ZERO: "RoundTowardZero",
        RoundingMode.TOWARD_INFINITY: "RoundHalvesAway",
    }
    return rounds[desc.rounding_mode], ()


def _is_infinity(name: str, desc: ElementWiseIsInfinityDesc) -> tuple[str, tuple[Member, ...]]:
    functors = {
        IsInfinityMode.EITHER: "IsInfinity",
        IsInfinityMode.POSITIVE: "IsPositiveInfinity",
        IsInfinityMode.NEGATIVE: "IsNegativeInfinity",
    }
    return functors[desc.infinity_mode], ()


def _add1(name: str, desc: ElementWiseAdd1Desc) -> tuple[str, tuple[Member, ...]]:
    if desc.fused_activation is None:
        return "Add1<Identity>", ()
    return f"Add1<{functor(type(desc.fused_activation))}>", activation_members(desc.fused_activation)


_WITH_MEMBERS: Mapping[tuple[type[OperatorDesc], ...], Callable[[str, Any], tuple[str, tuple[Member, ...]]]] = {
    (ElementWiseConstantPowDesc,): _constant_pow,
    (ElementWiseClipDesc, ElementWiseClip1Desc, ElementWiseThresholdDesc): _limits,
    (ClipGradientDesc,): _clip_gradient,
    (ElementWiseRoundDesc,): _round,
    (ElementWiseIsInfinityDesc,): _is_infinity,
    (ElementWiseAdd1Desc,): _add1,
}
"""The functions that choose the functor and its members, for operators where attributes decide."""
