"""The plans of the reductions."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.devices.cuda.reduction.reduce import ReducePlan
from dmlpy.devices.cuda.reduction.scan import ScanPlan
from dmlpy.devices.cuda.reduction.top_k import TopKPlan
from dmlpy.operators.reduction import CumulativeProductDesc, CumulativeSummationDesc, ReductionDesc, TopKDesc


@plan(ReductionDesc)
def reduce_plan(desc: ReductionDesc, target: Target) -> ReducePlan:
    return ReducePlan(desc, target.library)


@plan(CumulativeSummationDesc, CumulativeProductDesc)
def scan_plan(desc: CumulativeSummationDesc | CumulativeProductDesc, target: Target) -> ScanPlan:
    return ScanPlan(desc, target.library)


@plan(TopKDesc)
def top_k_plan(desc: TopKDesc, target: Target) -> TopKPlan:
    return TopKPlan(desc, target.library)
