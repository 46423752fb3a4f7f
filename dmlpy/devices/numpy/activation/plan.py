"""Which plan an activation that stands alone gets."""

from __future__ import annotations

from dmlpy.devices.numpy.activation.elements import elements_plan
from dmlpy.devices.numpy.activation.groups import groups_plan
from dmlpy.devices.plan import Plan
from dmlpy.operators.activation import ActivationDesc, AxesActivationDesc, RowActivationDesc


def activation_plan(desc: ActivationDesc) -> Plan:
    """The plan for a checked desc."""
    if isinstance(desc, RowActivationDesc | AxesActivationDesc):
        return groups_plan(desc)
    return elements_plan(desc)
