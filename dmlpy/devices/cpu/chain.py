"""Chains of element-wise operators: one compiled program, which has the instructions of all of them in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.elementwise.program import Program
from dmlpy.devices.cpu.elementwise.translation import translate, why_untranslated
from dmlpy.devices.cpu.plans import plan, why_no_kernels
from dmlpy.devices.graphs.elementwise_group_desc import ElementwiseGroupDesc

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan


def is_link(desc: OperatorDesc) -> bool:
    """Whether a checked desc can be an operator of a compiled chain."""
    return why_no_kernels() is None and why_untranslated(desc) is None


@plan(ElementwiseGroupDesc)
def chain_plan(desc: ElementwiseGroupDesc) -> ElementwisePlan:
    from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan

    program, values = Program(len(desc.input_tensors)), list(range(len(desc.input_tensors)))
    for link in desc.nodes:
        values.append(translate(link.desc, program, {place: values[number] for place, number in link.reads}))
    inputs = [(f"input_tensors[{number}]", tensor) for number, tensor in enumerate(desc.input_tensors)]
    return ElementwisePlan(program, inputs, ("output_tensor", desc.output_tensor))
