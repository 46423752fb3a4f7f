"""The plans of activations that stand alone."""

from __future__ import annotations

from dmlpy.devices.cuda.activation.elements import ElementsPlan
from dmlpy.devices.cuda.activation.groups import GroupsDesc, GroupsPlan
from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.operators.activation import ActivationDesc, AxesActivationDesc, RowActivationDesc


@plan(ActivationDesc)
def elements_plan(desc: ActivationDesc, target: Target) -> ElementsPlan:
    return ElementsPlan(desc, target.library)


@plan(RowActivationDesc, AxesActivationDesc)
def groups_plan(desc: GroupsDesc, target: Target) -> GroupsPlan:
    return GroupsPlan(desc, target.library)
