"""The plans of normalizations."""

from __future__ import annotations

from dmlpy.devices.cuda.normalization.forward import ForwardPlan
from dmlpy.devices.cuda.normalization.gradient import GradientPlan
from dmlpy.devices.cuda.normalization.groups import GroupNormalizationDesc, GroupNormalizationPlan
from dmlpy.devices.cuda.normalization.local_response import LocalResponsePlan
from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.operators.normalization.batch import NormalizationDesc, NormalizationGradDesc
from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc, FusedBatchNormGradV3Desc
from dmlpy.operators.normalization.local_response import LocalResponseDesc
from dmlpy.operators.normalization.lp import LPNormalizationDesc
from dmlpy.operators.normalization.mean_variance import (
    MeanVarianceNormalization1Desc,
    MeanVarianceNormalization2Desc,
    MeanVarianceNormalizationDesc,
)


@plan(NormalizationDesc, FusedBatchNormDesc)
def forward_plan(desc: NormalizationDesc | FusedBatchNormDesc, target: Target) -> ForwardPlan:
    return ForwardPlan(desc.geometry, target.library)


@plan(NormalizationGradDesc, FusedBatchNormGradV3Desc)
def gradient_plan(desc: NormalizationGradDesc | FusedBatchNormGradV3Desc, target: Target) -> GradientPlan:
    return GradientPlan(desc.geometry, target.library)


@plan(MeanVarianceNormalizationDesc, MeanVarianceNormalization1Desc, MeanVarianceNormalization2Desc, LPNormalizationDesc)
def group_normalization_plan(desc: GroupNormalizationDesc, target: Target) -> GroupNormalizationPlan:
    return GroupNormalizationPlan(desc, target.library)


@plan(LocalResponseDesc)
def local_response_plan(desc: LocalResponseDesc, target: Target) -> LocalResponsePlan:
    return LocalResponsePlan(desc, target.library)
