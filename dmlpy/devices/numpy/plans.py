"""`plan`: attaches a NumPy plan to a class of descs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.attachments import Attachments

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.plan import Plan

plan: Attachments[Callable[..., Plan]] = Attachments("dmlpy.devices.numpy")
"""`@plan(RNNDesc)` attaches what makes a plan of a checked desc, and optionally the type of all its arithmetic, float32 or float64."""


def plan_of(desc: OperatorDesc, compute: DTypeLike = np.float32) -> Plan | None:
    """The plan that is attached to a checked desc's class, None if none is; `compute` is the type of all its arithmetic."""
    make = plan.find(type(desc))
    return None if make is None else make(desc, compute)
