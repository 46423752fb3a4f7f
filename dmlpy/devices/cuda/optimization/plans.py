"""The plans of optimizers."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.optimization import AdamOptimizerDesc

attach_plan("dmlpy.devices.cuda.optimization.plan:adam_plan", AdamOptimizerDesc)
