"""The operations of element-wise operators."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.flops import elements, flops
from dmlpy.operators.elementwise.arithmetic import ElementWiseDifferenceSquareDesc, ElementWiseMeanDesc
from dmlpy.operators.elementwise.common import ElementWiseDesc
from dmlpy.operators.elementwise.logic import ElementWiseIfDesc
from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc
from dmlpy.operators.elementwise.ranges import ClipGradientDesc, ElementWiseClip1Desc, ElementWiseClipDesc


def _of_function(desc: Any, operations: int) -> int:
    """A function of this many operations, after a scale and a bias, and before a fused one."""
    scales = 2 * (getattr(desc, "scale_bias", None) is not None)
    fuses = getattr(desc, "fused_activation", None) is not None
    return elements(desc) * (operations + scales + fuses)


@flops(ElementWiseDesc)
def of_one(desc: Any) -> int:
    return _of_function(desc, 1)


@flops(ElementWiseIdentityDesc, ElementWiseIfDesc)
def of_none(desc: Any) -> int:
    return _of_function(desc, 0)


@flops(ElementWiseDifferenceSquareDesc, ElementWiseMeanDesc, ElementWiseClipDesc, ElementWiseClip1Desc, ClipGradientDesc)
def of_two(desc: Any) -> int:
    return _of_function(desc, 2)
