"""The compiled plan of ADAM_OPTIMIZER."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.optimization import AdamOptimizerDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.optimization.plan import AdamPlan


@plan(AdamOptimizerDesc)
def adam_plan(desc: AdamOptimizerDesc) -> AdamPlan | str:
    from dmlpy.devices.cpu.isa import have_one_storage
    from dmlpy.devices.cpu.optimization.plan import AdamPlan

    types = {tensor.data_type for place, tensor in desc.tensors().items() if place != "training_step_tensor"}
    if not have_one_storage(types):
        return "a compiled step of Adam has tensors of one type"
    return AdamPlan(desc)
