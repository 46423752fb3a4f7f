"""The compiled plans of the recurrent operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.recurrent.layer import RecurrentDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.recurrent.block_cell import StepGradientPlan, StepPlan
    from dmlpy.devices.cpu.recurrent.gradient_plan import GradientPlan
    from dmlpy.devices.cpu.recurrent.plan import RecurrentPlan
    from dmlpy.devices.numpy.recurrent.cudnn import LayerPlan, NetworkPlan
    from dmlpy.operators.recurrent.block_cell import GRUBlockCellDesc, GRUBlockCellGradDesc, GRUBlockDesc
    from dmlpy.operators.recurrent.cudnn import CudnnRNNDesc
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc, ReserveDesc


@plan(RecurrentDesc)
def recurrent_plan(desc: RecurrentDesc) -> RecurrentPlan:
    """The plan for a checked desc of a layer or a training form."""
    from dmlpy.devices.cpu.recurrent.plan import RecurrentPlan

    return RecurrentPlan(desc)


@plan("dmlpy.operators.recurrent.gradient:RecurrentGradDesc")
def gradient_plan(desc: RecurrentGradDesc) -> GradientPlan:
    """The plan for a checked desc of a gradient."""
    from dmlpy.devices.cpu.recurrent.gradient_plan import GradientPlan

    return GradientPlan(desc)


@plan("dmlpy.operators.recurrent.cudnn:CudnnRNNDesc")
def network_plan(desc: CudnnRNNDesc) -> NetworkPlan:
    """The plan for a checked desc of a stacked network or its gradient: NumPy's, with compiled plans of the layers."""
    from dmlpy.devices.cpu.recurrent.parameters import RESERVE_LAYOUT
    from dmlpy.devices.numpy.recurrent.cudnn import NetworkPlan

    return NetworkPlan(desc, _layer_plan, "LLVM", RESERVE_LAYOUT)


def _layer_plan(desc: ReserveDesc) -> LayerPlan:
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

    return gradient_plan(desc) if isinstance(desc, RecurrentGradDesc) else recurrent_plan(desc)


@plan("dmlpy.operators.recurrent.block_cell:GRUBlockCellDesc")
def step_plan(desc: GRUBlockCellDesc) -> StepPlan | str:
    """One step of a GRU."""
    from dmlpy.devices.cpu.recurrent.block_cell import StepPlan

    return _step_refusal(desc) or StepPlan(desc)


@plan("dmlpy.operators.recurrent.block_cell:GRUBlockCellGradDesc")
def step_gradient_plan(desc: GRUBlockCellGradDesc) -> StepGradientPlan | str:
    """The gradient of one step of a GRU."""
    from dmlpy.devices.cpu.recurrent.block_cell import StepGradientPlan

    return _step_refusal(desc) or StepGradientPlan(desc)


def _step_refusal(desc: GRUBlockDesc) -> str | None:
    """Returns why a step or its gradient has no compiled plan; None if it has one."""
    tensors = desc.tensors().values()
    if any(tensor.sizes[-1] > 1 and tensor.element_strides[-1] != 1 for tensor in tensors):
        return "a compiled step needs tensors whose rows' elements lie side by side"
    return None
