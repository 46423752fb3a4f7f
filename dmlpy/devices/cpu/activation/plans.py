"""The compiled plans of the activations: the element-wise ones, softmax and its logarithm, and hardmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.elementwise.plans import elementwise_plan
from dmlpy.devices.cpu.elementwise.program import FUNCTIONS
from dmlpy.devices.cpu.plans import across_short_rows, on_copies, plan
from dmlpy.operators.activation import (
    ActivationHardmax1Desc,
    ActivationHardmaxDesc,
    ActivationLogSoftmax1Desc,
    ActivationLogSoftmaxDesc,
    ActivationSoftmax1Desc,
    ActivationSoftmaxDesc,
    AxesActivationDesc,
    RowActivationDesc,
)

if TYPE_CHECKING:
    from dmlpy.devices.cpu.reduction.plan import CompiledHardmaxPlan, CompiledSoftmaxPlan, Groups

_ENTRIES_OF_A_ROW = 48
"""Entries of a row, at most, for which copies take less time than they save."""

plan(*FUNCTIONS, derived=False)(elementwise_plan)


def _axes_of(desc: RowActivationDesc | AxesActivationDesc) -> set[int]:
    """The dimensions of a group."""
    return set(desc.axes) if isinstance(desc, AxesActivationDesc) else {desc.tensors()["input_tensor"].dimension_count - 1}


@plan(ActivationSoftmaxDesc, ActivationSoftmax1Desc, ActivationLogSoftmaxDesc, ActivationLogSoftmax1Desc)
@on_copies(innermost=_axes_of)
@across_short_rows(_axes_of, lambda desc: _ENTRIES_OF_A_ROW)
def softmax_plan(
    desc: ActivationSoftmaxDesc | ActivationSoftmax1Desc | ActivationLogSoftmaxDesc | ActivationLogSoftmax1Desc,
) -> CompiledSoftmaxPlan | str:
    from dmlpy.devices.cpu.reduction.plan import CompiledSoftmaxPlan

    groups = _groups_of(desc)
    log = isinstance(desc, (ActivationLogSoftmaxDesc, ActivationLogSoftmax1Desc))
    return groups if isinstance(groups, str) else CompiledSoftmaxPlan(groups, log)


@plan(ActivationHardmaxDesc, ActivationHardmax1Desc)
@on_copies(innermost=_axes_of)
def hardmax_plan(desc: ActivationHardmaxDesc | ActivationHardmax1Desc) -> CompiledHardmaxPlan | str:
    from dmlpy.devices.cpu.reduction.plan import CompiledHardmaxPlan

    groups = _groups_of(desc)
    if isinstance(groups, str):
        return groups
    if groups.layout == "columns" or groups.entries[0].size > 1:
        return "a compiled hardmax needs groups whose entries follow each other in memory"
    return CompiledHardmaxPlan(groups)


def _groups_of(desc: RowActivationDesc | AxesActivationDesc) -> Groups | str:
    from dmlpy.devices.cpu.reduction.plan import Groups

    return Groups.of(desc.tensors(), _axes_of(desc))
