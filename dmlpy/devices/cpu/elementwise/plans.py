"""The compiled plans of the element-wise operators of FLOAT32, FLOAT16 and BFLOAT16, alone and as chains of instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import DataType, IsInfinityMode
from dmlpy.devices.cpu.elementwise.integer_plan import WITHOUT_PROGRAMS, inequality_plan, integer_plan, why_not_planned
from dmlpy.devices.cpu.elementwise.program import LOGIC, OPERATORS, Program, why_untranslated
from dmlpy.devices.cpu.plans import on_copies, plan, why_no_kernels
from dmlpy.messages.naming import listed

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cpu.elementwise.integer_plan import ChoicePlan, ContiguousPlan, RowsPlan, SmallPlan
    from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan
    from dmlpy.devices.cpu.movement.plan import ClassesPlan, CopyPlan
    from dmlpy.devices.cpu.quantized.lookup_table import LookupTablePlan
    from dmlpy.devices.graphs.elementwise_group_desc import ElementwiseGroupDesc
    from dmlpy.devices.graphs.lookup_table_desc import LookupTableDesc
    from dmlpy.operators.elementwise.logic import ElementWiseIsInfinityDesc, ElementWiseIsNaNDesc

_COPIES = ("ACTIVATION_IDENTITY", "ELEMENT_WISE_IDENTITY")


@on_copies()
def elementwise_plan(desc: OperatorDesc) -> ElementwisePlan | CopyPlan | SmallPlan | ContiguousPlan | RowsPlan | ChoicePlan | str:
    from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan

    if type(desc).short_name() in _COPIES and getattr(desc, "scale_bias", None) is None:
        from dmlpy.devices.cpu.movement.plans import copy_plan

        return copy_plan(desc, "identity_copies")
    reason = why_untranslated(desc)
    if reason is not None:
        return integer_plan(desc) or why_not_planned(desc) or reason
    (output,) = (slot for slot in desc.output_slots() if slot.tensor is not None)
    assert output.tensor is not None  # it was just found
    inputs = [(slot.place, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None]
    program = Program([tensor for _, tensor in inputs])
    program.add_operator(desc, {place: number for number, (place, _) in enumerate(inputs)})
    return ElementwisePlan(program, inputs, (output.place, output.tensor))


plan(*OPERATORS, *WITHOUT_PROGRAMS, derived=False)(elementwise_plan)


@plan(f"{LOGIC}IsNaNDesc", f"{LOGIC}IsInfinityDesc")
def classes_plan(desc: ElementWiseIsNaNDesc | ElementWiseIsInfinityDesc) -> ClassesPlan | str:
    from dmlpy.devices.cpu.movement.copies import identity_copies
    from dmlpy.devices.cpu.movement.plan import NEGATIVE, NOT_A_NUMBER, POSITIVE, ClassesPlan
    from dmlpy.operators.elementwise.logic import ElementWiseIsNaNDesc

    assert desc.output_tensor is not None  # guaranteed by the check
    if desc.input_tensor.data_type not in (DataType.FLOAT16, DataType.FLOAT32) or desc.output_tensor.data_type is not DataType.UINT8:
        return "compiled tests of elements read FLOAT16 or FLOAT32 and write UINT8"
    if isinstance(desc, ElementWiseIsNaNDesc):
        classes = NOT_A_NUMBER
    else:
        by_mode = {IsInfinityMode.POSITIVE: POSITIVE, IsInfinityMode.NEGATIVE: NEGATIVE}
        classes = by_mode.get(desc.infinity_mode, POSITIVE + NEGATIVE)
    (copy,) = identity_copies(desc)
    return ClassesPlan(copy, classes)


def is_groupable(desc: OperatorDesc) -> bool:
    """Whether a checked desc can be an operator of a compiled group."""
    return why_no_kernels() is None and why_untranslated(desc) is None


@plan("dmlpy.devices.graphs.elementwise_group_desc:ElementwiseGroupDesc")
def group_plan(desc: ElementwiseGroupDesc) -> ElementwisePlan | ContiguousPlan | RowsPlan | str:
    """The plan of a chain, or the reason why there is none."""
    if (inequality := inequality_plan(desc)) is not None:
        return inequality
    reason = next((why for node in desc.nodes if (why := why_untranslated(node.desc)) is not None), None)
    if reason is not None:
        return reason
    from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan

    program, values = Program(desc.input_tensors), list(range(len(desc.input_tensors)))
    for node in desc.nodes:
        values.append(program.add_operator(node.desc, {place: values[number] for place, number in node.reads}))
    if len(program.narrow_types) > 1:
        return f"compiled chains are of one type besides FLOAT32, not of {listed(sorted(program.narrow_types))}"
    inputs = [(f"input_tensors[{number}]", tensor) for number, tensor in enumerate(desc.input_tensors)]
    return ElementwisePlan(program, inputs, ("output_tensor", desc.output_tensor))


@plan("dmlpy.devices.graphs.lookup_table_desc:LookupTableDesc")
def lookup_table_plan(desc: LookupTableDesc) -> LookupTablePlan | str:
    """A function of bytes as a table."""
    from dmlpy.devices.cpu.quantized.lookup_table import lookup_plan

    return lookup_plan(desc)
