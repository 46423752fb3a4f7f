"""The plans of normalizations."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.normalization.batch import NormalizationDesc, NormalizationGradDesc
from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc, FusedBatchNormGradV3Desc
from dmlpy.operators.normalization.local_response import LocalResponseDesc
from dmlpy.operators.normalization.lp import LPNormalizationDesc
from dmlpy.operators.normalization.mean_variance import (
    MeanVarianceNormalization1Desc,
    MeanVarianceNormalization2Desc,
    MeanVarianceNormalizationDesc,
)

attach_plan("dmlpy.devices.cuda.normalization.forward:forward_plan", NormalizationDesc, FusedBatchNormDesc)
attach_plan("dmlpy.devices.cuda.normalization.gradient:gradient_plan", NormalizationGradDesc, FusedBatchNormGradV3Desc)
attach_plan(
    "dmlpy.devices.cuda.normalization.groups:group_normalization_plan",
    MeanVarianceNormalizationDesc,
    MeanVarianceNormalization1Desc,
    MeanVarianceNormalization2Desc,
    LPNormalizationDesc,
)
attach_plan("dmlpy.devices.cuda.normalization.local_response:local_response_plan", LocalResponseDesc)
