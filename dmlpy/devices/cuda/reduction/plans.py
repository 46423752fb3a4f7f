"""The plans of reductions."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.reduction import CumulativeProductDesc, CumulativeSummationDesc, ReductionDesc, TopKDesc

attach_plan("dmlpy.devices.cuda.reduction.reduce:reduce_plan", ReductionDesc)
attach_plan("dmlpy.devices.cuda.reduction.scan:scan_plan", CumulativeSummationDesc, CumulativeProductDesc)
attach_plan("dmlpy.devices.cuda.reduction.top_k:top_k_plan", TopKDesc)
