"""The compiled plans of MAX_POOLING and AVERAGE_POOLING, in all their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.pooling.average import AveragePooling1Desc, AveragePoolingDesc
from dmlpy.operators.pooling.maximum import MaxPooling1Desc, MaxPooling2Desc, MaxPoolingDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.pooling.plan import PoolingPlan, StripPoolingPlan
    from dmlpy.operators.pooling.windows import ForwardPoolingDesc

_SPARSEST = 16
"""A tile's part of the input is at most so many times what its windows' taps meet."""


@plan(AveragePoolingDesc, AveragePooling1Desc, MaxPoolingDesc, MaxPooling1Desc, MaxPooling2Desc)
def pooling_plan(desc: ForwardPoolingDesc) -> PoolingPlan | StripPoolingPlan | str:
    """The plan for a checked desc, or why there is none."""
    from dmlpy.devices.cpu.isa import refusal_of
    from dmlpy.devices.cpu.pooling.plan import PoolingPlan, StripPoolingPlan

    assert desc.output_tensor is not None  # guaranteed by the check
    types = {tensor.data_type for tensor in desc.tensors().values()}
    if types not in ({DataType.FLOAT32}, {DataType.FLOAT16}):
        return "compiled poolings are of FLOAT32 or FLOAT16, without indices"
    if refusal := refusal_of(types):
        return refusal
    if desc.input_tensor.dimension_count != 4:
        return "a pooling over three dimensions has no compiled form"
    if strips := StripPoolingPlan.of(desc):
        return strips
    found = PoolingPlan(desc)
    return found if found.is_dense(_SPARSEST) else "the windows reach far more of the input than their taps meet"
