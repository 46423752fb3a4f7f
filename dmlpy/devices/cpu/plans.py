"""`plan`: attaches a compiled plan to a class of descs; `compiled_plan` finds the one for a desc, or why there is none."""

from __future__ import annotations

from functools import cache, wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from dmlpy.description.class_registry import ClassRegistry
from dmlpy.devices.numpy.array_functions import whole_plan
from dmlpy.devices.numpy.plans import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan
    from dmlpy.devices.plan import Plan

D = TypeVar("D", bound="OperatorDesc")
P = TypeVar("P", bound="Plan")

plan: ClassRegistry[Callable[[Any], Plan | str]] = ClassRegistry("dmlpy.devices.cpu", "plans")
"""`@plan(RNNDesc)` attaches a function that returns the compiled plan of a checked desc, or the reason why there is none for these
attributes.

It is called only if llvmlite is installed. The families' modules import llvmlite only when a kernel is compiled or loaded.
"""

rounding_plan: ClassRegistry[Callable[[Any], Plan | None]] = ClassRegistry("dmlpy.devices.cpu", "plans")
"""`@rounding_plan(GEMMDesc)` attaches a function that returns the plan of a checked desc that ALLOW_HALF_PRECISION_COMPUTATION allows, if
it is faster than the usual one.
"""


def on_copies(
    *places: str, innermost: Callable[[Any], Collection[int]] | None = None, reads_all: bool = True
) -> Callable[[Callable[[D], P | str]], Callable[[D], P | LayoutCopiesPlan | str]]:
    """Lets a function return the plan of copies in another layout, where it has none for a desc's own.

    Args:
        places: the tensors that may be copied; none for all.
        innermost: gives the dimensions of a desc whose elements kernels read side by side, if packed tensors do not always suffice.
        reads_all: whether the operator reads all elements of its inputs.
    """

    def decorate(make: Callable[[D], P | str]) -> Callable[[D], P | LayoutCopiesPlan | str]:
        @wraps(make)
        def plan_or_copies(desc: D) -> P | LayoutCopiesPlan | str:
            plan = make(desc)
            if not isinstance(plan, str):
                return plan
            from dmlpy.devices.cpu.tensor_copies import layout_copies_plan

            return layout_copies_plan(desc, make, places, innermost, reads_all) or plan

        return plan_or_copies

    return decorate


def across_short_rows(
    axes: Callable[[Any], Collection[int]], most: Callable[[Any], int]
) -> Callable[[Callable[[D], P | str]], Callable[[D], P | LayoutCopiesPlan | str]]:
    """Lets a function return the plan of copies in which neighbouring groups are contiguous, where a desc's groups are short rows.

    Args:
        axes: gives the dimensions of a group.
        most: gives the most entries of a row for which the copies take less time than they save.
    """

    def decorate(make: Callable[[D], P | str]) -> Callable[[D], P | LayoutCopiesPlan | str]:
        @wraps(make)
        def plan_or_copies(desc: D) -> P | LayoutCopiesPlan | str:
            from dmlpy.devices.cpu.tensor_copies import columns_plan

            return columns_plan(desc, make, axes(desc), most(desc)) or make(desc)

        return plan_or_copies

    return decorate


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
