"""The plan of QUANTIZED_LINEAR_AVERAGE_POOLING."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.devices.cuda.pooling import forward
from dmlpy.operators.quantized.products import QuantizedLinearAveragePoolingDesc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.steps import StepsPlan


@plan(QuantizedLinearAveragePoolingDesc)
def quantized_average_plan(desc: QuantizedLinearAveragePoolingDesc, target: Target) -> StepsPlan:
    return forward.quantized_average_plan(desc, target.library)
