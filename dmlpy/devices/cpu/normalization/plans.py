"""The compiled plans of normalization: of batches with their gradients, DirectML's and TensorFlow's, and by mean and variance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.plans import plan
from dmlpy.devices.numpy.normalization.common import TENSORS
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.operators.normalization.batch import NormalizationDesc, NormalizationGradDesc
from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc, FusedBatchNormGradV3Desc
from dmlpy.operators.normalization.mean_variance import (
    MeanVarianceNormalization1Desc,
    MeanVarianceNormalization2Desc,
    MeanVarianceNormalizationDesc,
)

if TYPE_CHECKING:
    from dmlpy.devices.cpu.normalization.plan import CompiledForwardPlan, CompiledGradientPlan, EntryLayout
    from dmlpy.devices.cpu.reduction.plan import CompiledMeanVariancePlan
    from dmlpy.operators.normalization.geometry import NormalizationGeometry


@plan(NormalizationDesc, FusedBatchNormDesc)
def forward_plan(desc: NormalizationDesc | FusedBatchNormDesc) -> CompiledForwardPlan | str:
    """The plan for a checked desc, or the reason why there is none."""
    from dmlpy.devices.cpu.normalization.plan import CompiledForwardPlan

    geometry = desc.geometry
    if geometry.activation is not None and not isinstance(geometry.activation, ActivationReluDesc):
        return f"{geometry.activation.short_name()} is not computed with a compiled batch normalization"
    layout, reason = _find_layout(geometry)
    return reason if layout is None else CompiledForwardPlan(geometry, layout)


@plan(NormalizationGradDesc, FusedBatchNormGradV3Desc)
def gradient_plan(desc: NormalizationGradDesc | FusedBatchNormGradV3Desc) -> CompiledGradientPlan | str:
    """The plan for a checked desc, or the reason why there is none."""
    from dmlpy.devices.cpu.normalization.plan import CompiledGradientPlan

    layout, reason = _find_layout(desc.geometry)
    return reason if layout is None else CompiledGradientPlan(desc.geometry, layout)


@plan(MeanVarianceNormalizationDesc, MeanVarianceNormalization1Desc, MeanVarianceNormalization2Desc)
def mean_variance_plan(
    desc: MeanVarianceNormalizationDesc | MeanVarianceNormalization1Desc | MeanVarianceNormalization2Desc,
) -> CompiledMeanVariancePlan | str:
    """The plan for a checked desc, or the reason why there is none."""
    from dmlpy.devices.cpu.reduction.plan import CompiledMeanVariancePlan, Groups

    if desc.fused_activation is not None and not isinstance(desc.fused_activation, ActivationReluDesc):
        return f"{desc.fused_activation.short_name()} is not computed with a compiled normalization"
    centres, scales = True, True
    if isinstance(desc, MeanVarianceNormalization2Desc):
        axes, centres, scales = tuple(desc.axes), desc.use_mean, desc.use_variance
    elif isinstance(desc, MeanVarianceNormalization1Desc):
        axes, scales = tuple(desc.axes), desc.normalize_variance
    else:
        axes, scales = (1, 2, 3) if desc.cross_channel else (2, 3), desc.normalize_variance
    groups = Groups.of(desc.tensors(), set(axes))
    if isinstance(groups, str):
        return groups
    if groups.layout == "columns":
        return "a compiled normalization needs groups whose entries are contiguous"
    return CompiledMeanVariancePlan(groups, centres, scales, desc.epsilon, desc.fused_activation)


def _find_layout(geometry: NormalizationGeometry) -> tuple[EntryLayout | None, str]:
    """The layout of the entries, or None and the reason why kernels do not read them."""
    from dmlpy.devices.cpu.isa import refusal_of
    from dmlpy.devices.cpu.normalization.plan import entry_layout

    types = {operand.data_type for role, operand in geometry.operands.items() if role in TENSORS}
    if len(types) > 1:
        return None, "compiled batch normalizations have tensors of one type"
    if refusal := refusal_of(types):
        return None, refusal
    return entry_layout(geometry), "compiled batch normalizations need planes of a group, or rows of groups, whose entries are contiguous"
