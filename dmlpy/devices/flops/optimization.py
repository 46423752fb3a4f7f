"""The operations of optimizers."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.flops import elements, flops
from dmlpy.operators.optimization import AdamOptimizerDesc


@flops(AdamOptimizerDesc)
def adam(desc: Any) -> int:
    """Three for M', four for V', and five for X', whose factor of the step is computed once."""
    return 12 * elements(desc)
