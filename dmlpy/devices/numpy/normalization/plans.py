"""The plans of batch normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.numpy.plans import plan
from dmlpy.operators.normalization.batch import NormalizationDesc, NormalizationGradDesc
from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc, FusedBatchNormGradV3Desc

if TYPE_CHECKING:
    from dmlpy.devices.numpy.normalization.forward import ForwardPlan
    from dmlpy.devices.numpy.normalization.gradient import GradientPlan


@plan(NormalizationDesc, FusedBatchNormDesc)
def forward_plan(desc: NormalizationDesc | FusedBatchNormDesc) -> ForwardPlan:
    from dmlpy.devices.numpy.normalization.forward import ForwardPlan

    return ForwardPlan(desc.geometry)


@plan(NormalizationGradDesc, FusedBatchNormGradV3Desc)
def gradient_plan(desc: NormalizationGradDesc | FusedBatchNormGradV3Desc) -> GradientPlan:
    from dmlpy.devices.numpy.normalization.gradient import GradientPlan

    return GradientPlan(desc.geometry)
