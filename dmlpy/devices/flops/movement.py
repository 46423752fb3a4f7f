"""The operations of movements that add overlapping elements."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.flops import flops
from dmlpy.operators.movement.blocks import FoldDesc


@flops(FoldDesc)
def fold(desc: Any) -> int:
    """An addition for each element of each block."""
    return int(desc.input_tensor.element_count)
