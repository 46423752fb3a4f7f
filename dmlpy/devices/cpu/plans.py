"""`plan`: attaches a compiled plan to a class of descs; `compiled_plan` finds the one for a desc, or why there is none."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dmlpy.description.class_registry import ClassRegistry
from dmlpy.devices.numpy.array_functions import whole_plan
from dmlpy.devices.numpy.plans import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.plan import Plan

plan: ClassRegistry[Callable[[Any], Plan | str]] = ClassRegistry("dmlpy.devices.cpu", "plans")
"""`@plan(RNNDesc)` attaches a function that returns the compiled plan of a checked desc, or the reason why there is none for these
attributes.

It is called only if llvmlite is installed. The families' modules import llvmlite only when a kernel is compiled or loaded.
"""

rounding_plan: ClassRegistry[Callable[[Any], Plan | None]] = ClassRegistry("dmlpy.devices.cpu", "plans")
"""`@rounding_plan(GEMMDesc)` attaches a function that returns the plan of a checked desc that ALLOW_HALF_PRECISION_COMPUTATION allows, if
it is faster than the usual one.
"""


@cache
def llvmlite_is_installed() -> bool:
    """Whether this process can import llvmlite, which compiles and loads the kernels."""
    return find_spec("llvmlite") is not None


def why_no_kernels() -> str | None:
    """The reason why this process compiles no kernels, or None."""
    return None if llvmlite_is_installed() else "llvmlite is not installed: pip install 'dmlpy[cpu]'"


def compiled_plan(desc: OperatorDesc) -> Plan | str:
    """The compiled plan of a checked desc, or the reason why there is none."""
    make = plan.find(type(desc))
    if make is None:
        return f"{desc.short_name()} has no compiled form"
    reason = why_no_kernels()
    return make(desc) if reason is None else reason


def best_plan(desc: OperatorDesc) -> Plan:
    """The plan that the device uses for a checked desc: the compiled one, or NumPy's if there is none."""
    compiled = compiled_plan(desc)
    if not isinstance(compiled, str):
        return compiled
    usual = plan_of(desc) or whole_plan(desc)
    assert usual is not None, f"NumPy runs {desc.short_name()}"
    return usual
