"""Which plan an activation that stands alone gets."""

from __future__ import annotations

from dmlpy.devices.cuda.activation.elements import elements_plan
from dmlpy.devices.cuda.activation.groups import groups_plan
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.plan import Plan
from dmlpy.operators.activation import ActivationDesc, AxesActivationDesc, RowActivationDesc


def activation_plan(desc: ActivationDesc, library: KernelLibrary) -> Plan:
    """The plan for a checked desc."""
    if isinstance(desc, RowActivationDesc | AxesActivationDesc):
        return groups_plan(desc, library)
    return elements_plan(desc, library)
