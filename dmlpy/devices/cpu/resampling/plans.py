"""The compiled plan of UPSAMPLE_2D to the nearest element, which copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import InterpolationMode
from dmlpy.devices.cpu.movement.plans import copy_plan
from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.resampling import Upsample2DDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.movement.plan import CopyPlan


@plan(Upsample2DDesc)
def upsample_plan(desc: Upsample2DDesc) -> CopyPlan | str:
    """The plan for a checked desc, or the reason why there is none."""
    if desc.interpolation_mode is not InterpolationMode.NEAREST_NEIGHBOR:
        return "a compiled upsampling takes the nearest element"
    return copy_plan(desc, "upsample_copies")
