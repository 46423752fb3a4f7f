"""The plans of recurrent layers, their gradients, networks of them, and the GRU's block cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.devices.cuda.recurrent import strategies
from dmlpy.devices.cuda.recurrent.block_cell import GRUBlockCellGradPlan, GRUBlockCellPlan
from dmlpy.devices.cuda.recurrent.cudnn import NetworkPlan
from dmlpy.operators.recurrent.block_cell import GRUBlockCellDesc, GRUBlockCellGradDesc
from dmlpy.operators.recurrent.cudnn import CudnnRNNDesc
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
from dmlpy.operators.recurrent.layer import RecurrentDesc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.recurrent.gradient_results import RecurrentGradientPlan
    from dmlpy.devices.cuda.recurrent.layer import RecurrentPlan


@plan(RecurrentDesc)
def layer_plan(desc: RecurrentDesc, target: Target) -> RecurrentPlan:
    return strategies.recurrent_plan(desc, target.library, target.tf32, target.strategy)


@plan(RecurrentGradDesc)
def gradient_plan(desc: RecurrentGradDesc, target: Target) -> RecurrentGradientPlan:
    return strategies.gradient_plan(desc, target.library, target.tf32, target.strategy)


@plan(CudnnRNNDesc)
def network_plan(desc: CudnnRNNDesc, target: Target) -> NetworkPlan:
    return NetworkPlan(desc, target.library, target.tf32, target.strategy)


@plan(GRUBlockCellDesc)
def block_cell_plan(desc: GRUBlockCellDesc, target: Target) -> GRUBlockCellPlan:
    return GRUBlockCellPlan(desc, target.library, target.tf32)


@plan(GRUBlockCellGradDesc)
def block_cell_gradient_plan(desc: GRUBlockCellGradDesc, target: Target) -> GRUBlockCellGradPlan:
    return GRUBlockCellGradPlan(desc, target.library, target.tf32)
