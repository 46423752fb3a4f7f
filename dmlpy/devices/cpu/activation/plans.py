"""The compiled plans of the activations of FLOAT32: the element-wise ones, softmax and its logarithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.elementwise.plans import elementwise_plan
from dmlpy.devices.cpu.elementwise.program import FUNCTIONS
from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.activation import (
    ActivationLogSoftmax1Desc,
    ActivationLogSoftmaxDesc,
    ActivationSoftmax1Desc,
    ActivationSoftmaxDesc,
    AxesActivationDesc,
)

if TYPE_CHECKING:
    from dmlpy.devices.cpu.reduction.plan import CompiledSoftmaxPlan

plan(*FUNCTIONS, derived=False)(elementwise_plan)


@plan(ActivationSoftmaxDesc, ActivationSoftmax1Desc, ActivationLogSoftmaxDesc, ActivationLogSoftmax1Desc)
def softmax_plan(
    desc: ActivationSoftmaxDesc | ActivationSoftmax1Desc | ActivationLogSoftmaxDesc | ActivationLogSoftmax1Desc,
) -> CompiledSoftmaxPlan | str:
    """The plan for a checked desc, or the reason why there is none."""
    from dmlpy.devices.cpu.reduction.plan import CompiledSoftmaxPlan, Groups

    tensors = desc.tensors()
    last = tensors["input_tensor"].dimension_count - 1
    groups = Groups.of(tensors, set(desc.axes) if isinstance(desc, AxesActivationDesc) else {last})
    log = isinstance(desc, (ActivationLogSoftmaxDesc, ActivationLogSoftmax1Desc))
    return groups if isinstance(groups, str) else CompiledSoftmaxPlan(groups, log)
