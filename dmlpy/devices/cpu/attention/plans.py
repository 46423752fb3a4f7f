"""The compiled plan of MULTIHEAD_ATTENTION, in all its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.attention import AttentionDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.attention.plan import AttentionPlan


@plan(AttentionDesc)
def attention_plan(desc: Any) -> AttentionPlan | str:
    from dmlpy.devices.cpu.attention.plan import AttentionPlan

    if getattr(desc, "past_sequence_lengths_tensor", None) is not None:
        return "with past_sequence_lengths_tensor the keys of a batch entry differ in number"
    return AttentionPlan(desc)
