"""Chains of element-wise operators on CUDA: one step of the element engine, whose functor applies those of all operators in sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cuda.common.element_engine import ElementsPlan, Elementwise, View
from dmlpy.devices.cuda.common.functors import Applied, Chained, Functor
from dmlpy.devices.cuda.plans import Target, plan, plan_of
from dmlpy.devices.graphs.elementwise_group_desc import ElementwiseGroupDesc
from dmlpy.operators.activation import ActivationDesc, AxesActivationDesc, RowActivationDesc
from dmlpy.operators.movement.copy import CastDesc

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.plan import Plan


def is_element_wise(desc: OperatorDesc) -> bool:
    """Whether the plan of an operator is made of steps of the element engine alone, each of a functor of numbers."""
    if isinstance(desc, ActivationDesc):
        return not isinstance(desc, RowActivationDesc | AxesActivationDesc)
    return desc.family() == "elementwise" or isinstance(desc, CastDesc | ElementwiseGroupDesc)


def element_step(desc: OperatorDesc, plan: Plan | None) -> Elementwise | None:
    """The step of a checked desc and its plan that runs with one functor over whole tensors of the output's sizes; else None."""
    if not isinstance(plan, ElementsPlan) or len(plan.steps) != 1:
        return None
    [step] = plan.steps
    tensors = desc.tensors()
    memory = {view.place: (view.strides, view.offset) for view in (step.output, *step.inputs) if view.place is not None}
    whole = {place: (tensor.element_strides, 0) for place, tensor in tensors.items()}
    made_up = [view for view in step.inputs if view.place is None and view.scalar != "Absent"]
    if memory != whole or made_up or not isinstance(step.functor, Functor):
        return None
    return step if all(tensor.sizes == step.sizes for tensor in tensors.values()) else None


@plan(ElementwiseGroupDesc)
def chain_plan(desc: ElementwiseGroupDesc, target: Target) -> ElementsPlan:
    inputs: dict[View, int] = {}
    read_as: dict[tuple[int, str], str] = {}
    """How each value is spelled, by its number and the type that it is read as."""
    steps = []
    count = len(desc.input_tensors)
    for link in desc.nodes:
        step, reads = element_step(link.desc, plan_of(link.desc, target)), dict(link.reads)
        assert step is not None, "a chain is made of such operators"
        for view in step.inputs:
            if view.place is not None and (number := reads[view.place]) < count:
                seen = View(f"input_tensors[{number}]", view.scalar, desc.input_tensors[number].element_strides)
                read_as[number, view.scalar] = f"Given<{inputs.setdefault(seen, len(inputs))}>"
        steps.append((step, reads))

    def argument(view: View, reads: dict[str, int]) -> str:
        if view.place is None:
            return "Nothing"
        number = reads[view.place]
        return read_as[number, view.scalar] if number < count else f"Element<{number - count + len(inputs)}, {view.scalar}>"

    applied = []
    for step, reads in steps:
        assert isinstance(step.functor, Functor)
        applied.append(Applied(step.functor, step.output.scalar, tuple(argument(view, reads) for view in step.inputs)))
    output = View("output_tensor", applied[-1].scalar, desc.output_tensor.element_strides)
    return ElementsPlan([Elementwise(Chained(tuple(applied)), desc.output_tensor.sizes, output, list(inputs))], target.library)
