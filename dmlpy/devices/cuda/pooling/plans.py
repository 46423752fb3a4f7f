"""The plans of poolings."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.pooling.average import AveragePooling1Desc, AveragePoolingDesc, AveragePoolingGradDesc
from dmlpy.operators.pooling.lp import NormPoolingDesc
from dmlpy.operators.pooling.maximum import IndexedPoolingDesc, MaxPoolingDesc, MaxPoolingGradDesc, MaxUnpoolingDesc
from dmlpy.operators.pooling.roi import ForwardRegionsDesc, ROIAlignGradDesc, ROIPoolingDesc

attach_plan("dmlpy.devices.cuda.pooling.align:align_plan", ForwardRegionsDesc)
attach_plan("dmlpy.devices.cuda.pooling.align:align_gradient_plan", ROIAlignGradDesc)
attach_plan("dmlpy.devices.cuda.pooling.forward:average_plan", AveragePoolingDesc, AveragePooling1Desc)
attach_plan("dmlpy.devices.cuda.pooling.forward:norm_plan", NormPoolingDesc)
attach_plan("dmlpy.devices.cuda.pooling.forward:largest_plan", MaxPoolingDesc, IndexedPoolingDesc)
attach_plan("dmlpy.devices.cuda.pooling.gradient:average_gradient_plan", AveragePoolingGradDesc)
attach_plan("dmlpy.devices.cuda.pooling.gradient:largest_gradient_plan", MaxPoolingGradDesc)
attach_plan("dmlpy.devices.cuda.pooling.regions:pool_regions_plan", ROIPoolingDesc)
attach_plan("dmlpy.devices.cuda.pooling.unpooling:unpooling_plan", MaxUnpoolingDesc)
