"""`plan`: attaches a NumPy plan to a class of descs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.class_registry import ClassRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.plan import Plan

plan: ClassRegistry[Callable[..., Plan]] = ClassRegistry("dmlpy.devices.numpy", "plans")
"""`@plan(RNNDesc)` attaches the maker of a checked desc's plan. The families' `plans` modules import a plan's module when one is made."""

COMPUTE = np.dtype(np.float32)
"""The compute type: that of the plans' arithmetic on FLOAT32 and FLOAT16 tensors."""


def plan_of(desc: OperatorDesc) -> Plan | None:
    """The plan attached to a checked desc's class, or None."""
    make = plan.find(type(desc))
    return None if make is None else make(desc)
