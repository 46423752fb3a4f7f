"""The plans of batch normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.numpy.normalization.forward import ForwardPlan
from dmlpy.devices.numpy.normalization.gradient import GradientPlan
from dmlpy.devices.numpy.plans import plan
from dmlpy.operators.normalization.batch import NormalizationDesc, NormalizationGradDesc
from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc, FusedBatchNormGradV3Desc

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


@plan(NormalizationDesc, FusedBatchNormDesc)
def forward_plan(desc: NormalizationDesc | FusedBatchNormDesc, compute: DTypeLike = np.float32) -> ForwardPlan:
    return ForwardPlan(desc.geometry, compute)


@plan(NormalizationGradDesc, FusedBatchNormGradV3Desc)
def gradient_plan(desc: NormalizationGradDesc | FusedBatchNormGradV3Desc, compute: DTypeLike = np.float32) -> GradientPlan:
    return GradientPlan(desc.geometry, compute)
