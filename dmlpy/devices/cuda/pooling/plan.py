"""The plans of the pooling operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.devices.cuda.pooling import align, forward, gradient, regions, unpooling
from dmlpy.operators.pooling.average import AveragePooling1Desc, AveragePoolingDesc, AveragePoolingGradDesc
from dmlpy.operators.pooling.lp import NormPoolingDesc
from dmlpy.operators.pooling.maximum import IndexedPoolingDesc, MaxPoolingDesc, MaxPoolingGradDesc, MaxUnpoolingDesc
from dmlpy.operators.pooling.roi import ForwardRegionsDesc, ROIAlignGradDesc, ROIPoolingDesc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.steps import StepsPlan


@plan(AveragePoolingDesc, AveragePooling1Desc)
def average_plan(desc: AveragePoolingDesc | AveragePooling1Desc, target: Target) -> StepsPlan:
    return forward.average_plan(desc, target.library)


@plan(NormPoolingDesc)
def norm_plan(desc: NormPoolingDesc, target: Target) -> StepsPlan:
    return forward.norm_plan(desc, target.library)


@plan(MaxPoolingDesc, IndexedPoolingDesc)
def largest_plan(desc: Any, target: Target) -> StepsPlan:
    return forward.largest_plan(desc, target.library)


@plan(AveragePoolingGradDesc)
def average_gradient_plan(desc: AveragePoolingGradDesc, target: Target) -> StepsPlan:
    return gradient.average_gradient_plan(desc, target.library)


@plan(MaxPoolingGradDesc)
def largest_gradient_plan(desc: MaxPoolingGradDesc, target: Target) -> StepsPlan:
    return gradient.largest_gradient_plan(desc, target.library)


@plan(MaxUnpoolingDesc)
def unpooling_plan(desc: MaxUnpoolingDesc, target: Target) -> StepsPlan:
    return unpooling.unpooling_plan(desc, target.library)


@plan(ROIPoolingDesc)
def pool_regions_plan(desc: ROIPoolingDesc, target: Target) -> StepsPlan:
    return regions.pool_regions_plan(desc, target.library)


@plan(ForwardRegionsDesc)
def align_plan(desc: ForwardRegionsDesc, target: Target) -> StepsPlan:
    return align.align_plan(desc, target.library)


@plan(ROIAlignGradDesc)
def align_gradient_plan(desc: ROIAlignGradDesc, target: Target) -> StepsPlan:
    return align.align_gradient_plan(desc, target.library)
