"""The plans of batch normalization."""

from __future__ import annotations

from dmlpy.devices.cuda.normalization.forward import ForwardPlan
from dmlpy.devices.cuda.normalization.gradient import GradientPlan
from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.operators.normalization.batch import NormalizationDesc, NormalizationGradDesc
from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc, FusedBatchNormGradV3Desc


@plan(NormalizationDesc, FusedBatchNormDesc)
def forward_plan(desc: NormalizationDesc | FusedBatchNormDesc, target: Target) -> ForwardPlan:
    return ForwardPlan(desc.geometry, target.library)


@plan(NormalizationGradDesc, FusedBatchNormGradV3Desc)
def gradient_plan(desc: NormalizationGradDesc | FusedBatchNormGradV3Desc, target: Target) -> GradientPlan:
    return GradientPlan(desc.geometry, target.library)
