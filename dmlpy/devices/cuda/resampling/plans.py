"""The plans of resampling operators."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.resampling import ForwardResampleDesc, ResampleGradientDesc, Upsample2DDesc, ValueScale2DDesc

attach_plan("dmlpy.devices.cuda.resampling.plan:resample_plan", ForwardResampleDesc, Upsample2DDesc)
attach_plan("dmlpy.devices.cuda.resampling.plan:gradient_plan", ResampleGradientDesc)
attach_plan("dmlpy.devices.cuda.resampling.plan:scale_values_plan", ValueScale2DDesc)
