"""The functions that other operators fuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc
from dmlpy.reference.activation import activate
from dmlpy.reference.limits import at_least, at_most

if TYPE_CHECKING:
    from dmlpy.description.descs import FusableDesc
    from dmlpy.reference.registry import Array


def fused(function: FusableDesc | None, x: Array) -> Array:
    """Applies a fused function to an operator's result, in the result's type; returns the result unchanged if nothing is fused."""
    if function is None:
        return x
    if isinstance(function, ElementWiseClipDesc):
        return _clip(function, x)
    assert isinstance(function, ActivationDesc), "the check lets nothing else be fused"
    return activate(function, x)


def _clip(desc: ElementWiseClipDesc, x: Array) -> Array:
    if desc.scale_bias is not None:
        x = x * desc.scale_bias.scale + desc.scale_bias.bias
    return at_most(at_least(x, desc.min), desc.max)
