"""The compiled plans of normalization: of batches and local responses with their gradients, by mean and variance, and by norms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.plans import on_copies, plan
from dmlpy.devices.numpy.normalization.common import TENSORS
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.operators.normalization.batch import NormalizationDesc, NormalizationGradDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.normalization.local_response_plan import LocalResponsePlan
    from dmlpy.devices.cpu.normalization.plan import CompiledForwardPlan, CompiledGradientPlan, EntryLayout
    from dmlpy.devices.cpu.reduction.plan import CompiledLPNormalizationPlan, CompiledMeanVariancePlan
    from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc, FusedBatchNormGradV3Desc
    from dmlpy.operators.normalization.geometry import NormalizationGeometry
    from dmlpy.operators.normalization.local_response import LocalResponseDesc
    from dmlpy.operators.normalization.lp import LPNormalizationDesc
    from dmlpy.operators.normalization.mean_variance import (
        MeanVarianceNormalization1Desc,
        MeanVarianceNormalization2Desc,
        MeanVarianceNormalizationDesc,
    )

    MeanVarianceDesc = MeanVarianceNormalizationDesc | MeanVarianceNormalization1Desc | MeanVarianceNormalization2Desc

_FUSED = "dmlpy.operators.normalization.fused_batch:FusedBatchNorm"
_LOCAL_RESPONSE = "dmlpy.operators.normalization.local_response:LocalResponseNormalization"
_MEAN_VARIANCE = "dmlpy.operators.normalization.mean_variance:MeanVarianceNormalization"


@plan(NormalizationDesc, f"{_FUSED}Desc")
@on_copies()
def forward_plan(desc: NormalizationDesc | FusedBatchNormDesc) -> CompiledForwardPlan | str:
    from dmlpy.devices.cpu.normalization.plan import CompiledForwardPlan

    geometry = desc.geometry
    if geometry.activation is not None and not isinstance(geometry.activation, ActivationReluDesc):
        return f"{geometry.activation.short_name()} is not computed with a compiled batch normalization"
    layout, reason = _find_layout(geometry)
    return reason if layout is None else CompiledForwardPlan(geometry, layout)


@plan(NormalizationGradDesc, f"{_FUSED}GradV3Desc")
@on_copies()
def gradient_plan(desc: NormalizationGradDesc | FusedBatchNormGradV3Desc) -> CompiledGradientPlan | str:
    from dmlpy.devices.cpu.normalization.plan import CompiledGradientPlan

    layout, reason = _find_layout(desc.geometry)
    return reason if layout is None else CompiledGradientPlan(desc.geometry, layout)


def _axes_of(desc: MeanVarianceDesc) -> set[int]:
    """The dimensions of a group."""
    from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalizationDesc

    if isinstance(desc, MeanVarianceNormalizationDesc):
        return {1, 2, 3} if desc.cross_channel else {2, 3}
    return set(desc.axes)


@plan(f"{_MEAN_VARIANCE}Desc", f"{_MEAN_VARIANCE}1Desc", f"{_MEAN_VARIANCE}2Desc")
@on_copies(innermost=_axes_of)
def mean_variance_plan(desc: MeanVarianceDesc) -> CompiledMeanVariancePlan | str:
    from dmlpy.devices.cpu.reduction.plan import CompiledMeanVariancePlan, Groups
    from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalization2Desc

    if desc.fused_activation is not None and not isinstance(desc.fused_activation, ActivationReluDesc):
        return f"{desc.fused_activation.short_name()} is not computed with a compiled normalization"
    if isinstance(desc, MeanVarianceNormalization2Desc):
        centres, scales = desc.use_mean, desc.use_variance
    else:
        centres, scales = True, desc.normalize_variance
    groups = Groups.of(desc.tensors(), _axes_of(desc))
    if isinstance(groups, str):
        return groups
    if groups.layout == "columns":
        return "a compiled normalization needs groups whose entries are contiguous"
    return CompiledMeanVariancePlan(groups, centres, scales, desc.epsilon, desc.fused_activation)


@plan("dmlpy.operators.normalization.lp:LPNormalizationDesc")
@on_copies(innermost=lambda desc: {desc.axis})
def lp_plan(desc: LPNormalizationDesc) -> CompiledLPNormalizationPlan | str:
    from dmlpy.devices.cpu.reduction.plan import CompiledLPNormalizationPlan, Groups

    groups = Groups.of(desc.tensors(), {desc.axis})
    if isinstance(groups, str):
        return groups
    if groups.layout == "columns" or groups.entries[0].size > 1:
        return "a compiled normalization needs groups whose entries are contiguous"
    return CompiledLPNormalizationPlan(groups, desc.p == 1, desc.epsilon)


@plan(f"{_LOCAL_RESPONSE}Desc", f"{_LOCAL_RESPONSE}GradDesc")
@on_copies()
def local_response_plan(desc: LocalResponseDesc) -> LocalResponsePlan | str:
    from dmlpy.devices.cpu.isa import have_one_storage
    from dmlpy.devices.cpu.normalization.local_response_plan import LocalResponsePlan, ResponsePlanes

    tensors = desc.tensors()
    if not have_one_storage({tensor.data_type for tensor in tensors.values()}):
        return "compiled local response normalizations have tensors of one type"
    planes = ResponsePlanes.of(tensors, cross_channel=desc.cross_channel)
    return LocalResponsePlan(desc, planes) if planes else "compiled local response normalizations need rows that are contiguous"


def _find_layout(geometry: NormalizationGeometry) -> tuple[EntryLayout | None, str]:
    """The layout of the entries, or None and the reason why kernels do not read them."""
    from dmlpy.devices.cpu.normalization.plan import entry_layout

    types = {operand.data_type for role, operand in geometry.operands.items() if role in TENSORS}
    if len(types) > 1:
        return None, "compiled batch normalizations have tensors of one type"
    return entry_layout(geometry), "compiled batch normalizations need planes of a group, or rows of groups, whose entries are contiguous"
