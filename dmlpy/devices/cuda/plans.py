"""`plan`: attaches a CUDA plan to a class of descs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy.description.attachments import Attachments

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cuda.kernels import KernelLibrary
    from dmlpy.devices.plan import Plan


@dataclass(frozen=True)
class Target:
    """The device and the options that plans are made for.

    Attributes:
        library: the device's kernels.
        tf32: whether factors of float32 matrix products may be rounded to TF32.
        strategy: the strategy of kernels for recurrent layers; None leaves the choice to the estimates of `recurrent.strategies`.
    """

    library: KernelLibrary
    tf32: bool = False
    strategy: str | None = None


plan: Attachments[Callable[[Any, Target], Plan]] = Attachments("dmlpy.devices.cuda")
"""`@plan(RNNDesc)` attaches what makes a plan of a checked desc and a `Target`. It raises DeviceError if no plan fits the device."""


def plan_of(desc: OperatorDesc, target: Target) -> Plan | None:
    """The plan that is attached to a checked desc's class; None if none is.

    Raises:
        DeviceError: a kernel cannot be compiled, or the plan does not fit the device.
    """
    make = plan.find(type(desc))
    return None if make is None else make(desc, target)
