"""The compiled plans of the indexing operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.indexing import GatherDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.indexing.plan import GatherPlan


@plan(GatherDesc)
def gather_plan(desc: GatherDesc) -> GatherPlan | str:
    """The plan for a checked desc, or the reason why there is none."""
    from dmlpy.devices.cpu.indexing.plan import GatherPlan

    tensors = desc.tensors().values()
    if any(tensor.data_type.bits == 4 for tensor in tensors):
        return "compiled copies move whole bytes"
    if not all(tensor.memory.is_packed for tensor in tensors):
        return "a compiled GATHER has packed tensors"
    return GatherPlan(desc)
