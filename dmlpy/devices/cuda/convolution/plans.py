"""The plans of convolutions."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.convolution import ConvolutionDesc

attach_plan("dmlpy.devices.cuda.convolution.plan:convolution_plan", ConvolutionDesc, derived=False)
