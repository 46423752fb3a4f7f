"""The plans of attention."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.attention import AttentionDesc

attach_plan("dmlpy.devices.cuda.attention.plan:attention_plan", AttentionDesc)
