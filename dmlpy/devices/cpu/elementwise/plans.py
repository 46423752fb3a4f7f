"""The compiled plans of the element-wise operators of FLOAT32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.elementwise.program import Program
from dmlpy.devices.cpu.elementwise.translation import OPERATORS, translate, why_untranslated
from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan


def elementwise_plan(desc: OperatorDesc) -> ElementwisePlan | str:
    """The plan for a checked desc, or why there is none."""
    from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan

    if isinstance(desc, ElementWiseIdentityDesc) and desc.scale_bias is None:
        return "NumPy copies as fast"
    reason = why_untranslated(desc)
    if reason is not None:
        return reason
    (output,) = (slot for slot in desc.output_slots() if slot.tensor is not None)
    assert output.tensor is not None  # it was just found
    inputs = [(slot.place, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None]
    program = Program(len(inputs))
    translate(desc, program, {place: number for number, (place, _) in enumerate(inputs)})
    return ElementwisePlan(program, inputs, (output.place, output.tensor))


plan(*OPERATORS, derived=False)(elementwise_plan)
