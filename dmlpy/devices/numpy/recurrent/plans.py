"""The plans of the recurrent operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.numpy.plans import plan
from dmlpy.operators.recurrent.layer import RecurrentDesc

if TYPE_CHECKING:
    from dmlpy.devices.numpy.recurrent.cudnn import NetworkPlan
    from dmlpy.devices.numpy.recurrent.definition import DefinitionPlan
    from dmlpy.devices.numpy.recurrent.layer import RecurrentPlan
    from dmlpy.operators.recurrent.cudnn import CudnnRNNDesc
    from dmlpy.operators.recurrent.gradient import ReserveDesc


@plan(RecurrentDesc)
def layer_plan(desc: RecurrentDesc) -> RecurrentPlan:
    from dmlpy.devices.numpy.recurrent.layer import RecurrentPlan

    return RecurrentPlan(desc)


@plan("dmlpy.operators.recurrent.gradient:ReserveDesc")
def definition_plan(desc: ReserveDesc) -> DefinitionPlan:
    from dmlpy.devices.numpy.recurrent.definition import DefinitionPlan

    return DefinitionPlan(desc)


@plan("dmlpy.operators.recurrent.cudnn:CudnnRNNDesc")
def network_plan(desc: CudnnRNNDesc) -> NetworkPlan:
    from dmlpy.devices.numpy.recurrent.cudnn import NetworkPlan

    return NetworkPlan(desc)
