"""`Epilogue` of raw_kernels/common/epilogue.cuh: the operation on a sum of products, including its fused function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cuda.common.functors import Functor, activation_members, functor
from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

if TYPE_CHECKING:
    from dmlpy.description.descs import FusableDesc


def epilogue(file: str, function: FusableDesc | None, product_factor: float = 1.0, addend_factor: float = 1.0) -> Functor:
    """f(product_factor * product + addend_factor * addend).

    Args:
        file: the source that includes the header, in raw_kernels/.
        function: f, an element-wise activation or CLIP; None leaves the result as it is.
        product_factor: the factor of the sum.
        addend_factor: the factor of the addend; 0 without one.
    """
    factors = (("product_factor", "float32", product_factor), ("addend_factor", "float32", addend_factor))
    name, members = _function(function)
    return Functor(file, f"Epilogue<{name}>", (*members, *factors))


def _function(function: FusableDesc | None) -> tuple[str, tuple[tuple[str, str, float], ...]]:
    """The fused function's functor and its members."""
    if function is None:
        return "Identity", ()
    if isinstance(function, ElementWiseClipDesc):
        scale, bias = (1.0, 0.0) if function.scale_bias is None else (function.scale_bias.scale, function.scale_bias.bias)
        values = {"least": function.min, "most": function.max, "scale": scale, "bias": bias}
        return "Scaled<Clip>", tuple((name, "float32", value) for name, value in values.items())
    assert isinstance(function, ActivationDesc)  # the check allows no other fused function
    return functor(type(function)), activation_members(function)
