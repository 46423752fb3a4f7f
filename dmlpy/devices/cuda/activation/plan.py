"""The plans of activations over groups of entries."""

from __future__ import annotations

from dmlpy.devices.cuda.activation.groups import GroupsDesc, GroupsPlan
from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.operators.activation import AxesActivationDesc, RowActivationDesc


@plan(RowActivationDesc, AxesActivationDesc)
def groups_plan(desc: GroupsDesc, target: Target) -> GroupsPlan:
    return GroupsPlan(desc, target.library)
