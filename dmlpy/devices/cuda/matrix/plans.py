"""The plans of matrix products."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.matrix import GEMMDesc

attach_plan("dmlpy.devices.cuda.matrix.plan:GemmPlan", GEMMDesc)
