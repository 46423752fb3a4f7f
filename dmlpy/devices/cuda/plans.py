"""`attach_plan` registers the maker of a desc class's CUDA plans; `plan_of` finds it and imports its module when a plan is made."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dmlpy.description.class_registry import ClassRegistry
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cuda.kernels import KernelLibrary
    from dmlpy.devices.plan import Plan

STRATEGIES = ("persistent_block", "persistent_grid", "per_step")
"""The strategies of kernels for recurrent layers: see `recurrent.strategies`."""


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


plan: ClassRegistry[Callable[[Any, Target], Plan]] = ClassRegistry("dmlpy.devices.cuda", "plans")
"""`@plan(RNNDesc)` attaches a function that makes a plan from a checked desc and a `Target`. The function raises DeviceError if no plan
fits the device.

The module `plans` of a family attaches the plans of its operators by `attach_plan`, without importing the modules that make them.
"""


class PlanMaker:
    """A function or class that makes plans of checked descs and `Target`s; its module is imported when it is first called.

    Args:
        place: `module:name`.
    """

    def __init__(self, place: str) -> None:
        self.module, self.__name__ = place.split(":")

    def __call__(self, desc: Any, target: Target) -> Plan:
        plan: Plan = self.load()(desc, target)
        return plan

    def load(self) -> Callable[[Any, Target], Plan]:
        """Imports the module."""
        make: Callable[[Any, Target], Plan] = getattr(import_module(self.module), self.__name__)
        return make


def attach_plan(maker: str, *kinds: type[OperatorDesc], derived: bool = True) -> None:
    """Attaches the maker of the plans of some classes of descs, by module and name.

    Args:
        maker: as for `PlanMaker`.
        kinds: the classes of descs.
        derived: whether it also applies to derived classes.
    """
    plan(*kinds, derived=derived)(PlanMaker(maker))


def check_strategy(strategy: str | None) -> None:
    """Raises DeviceError unless the name is None or that of a strategy."""
    if strategy is not None and strategy not in STRATEGIES:
        raise DeviceError(f"strategy is {strategy!r}, expected one of {', '.join(STRATEGIES)}, or None")


def plan_of(desc: OperatorDesc, target: Target) -> Plan | None:
    """The plan that is attached to a checked desc's class; None if none is.

    Raises:
        DeviceError: a kernel cannot be compiled, or the plan does not fit the device.
    """
    make = plan.find(type(desc))
    return None if make is None else make(desc, target)
