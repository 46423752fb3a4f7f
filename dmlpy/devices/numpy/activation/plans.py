"""The plans of the activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.numpy.plans import plan
from dmlpy.operators.activation import (
    ActivationDesc,
    ActivationHardmax1Desc,
    ActivationHardmaxDesc,
    ActivationLogSoftmax1Desc,
    ActivationLogSoftmaxDesc,
    AxesActivationDesc,
    RowActivationDesc,
)

if TYPE_CHECKING:
    from dmlpy.devices.numpy.activation.elements import ElementsPlan
    from dmlpy.devices.numpy.activation.groups import GroupsDesc, HardmaxPlan, LogSoftmaxPlan, SoftmaxPlan


@plan(ActivationDesc)
def elements_plan(desc: ActivationDesc) -> ElementsPlan:
    from dmlpy.devices.numpy.activation.elements import ElementsPlan

    return ElementsPlan(desc)


@plan(RowActivationDesc, AxesActivationDesc)
def softmax_plan(desc: GroupsDesc) -> SoftmaxPlan:
    from dmlpy.devices.numpy.activation.groups import SoftmaxPlan

    return SoftmaxPlan(desc)


@plan(ActivationLogSoftmaxDesc, ActivationLogSoftmax1Desc)
def log_softmax_plan(desc: GroupsDesc) -> LogSoftmaxPlan:
    from dmlpy.devices.numpy.activation.groups import LogSoftmaxPlan

    return LogSoftmaxPlan(desc)


@plan(ActivationHardmaxDesc, ActivationHardmax1Desc)
def hardmax_plan(desc: GroupsDesc) -> HardmaxPlan:
    from dmlpy.devices.numpy.activation.groups import HardmaxPlan

    return HardmaxPlan(desc)
