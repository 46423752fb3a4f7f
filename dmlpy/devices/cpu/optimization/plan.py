"""The plan of a step of Adam: one element-wise program with three results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan
from dmlpy.devices.cpu.elementwise.program import NARROW, Code, Program
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, arrays_of, in_order
from dmlpy.reference.optimization import corrected_rate

if TYPE_CHECKING:
    from dmlpy.operators.optimization import AdamOptimizerDesc

_INPUTS = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")
_RATE, _RATE_BYTES = "rate", 64


class AdamPlan(PlanWithoutConstants):
    """A step of Adam, with the operations of its definition in their order; NumPy computes the rate from the number of the step.

    Args:
        desc: a checked desc of floats.
    """

    def __init__(self, desc: AdamOptimizerDesc) -> None:
        tensors = desc.tensors()
        self._desc, self._step = desc, tensors["training_step_tensor"]
        sizes = tensors[_INPUTS[0]].sizes
        rate = TensorDesc(data_type=DataType.FLOAT32, sizes=sizes, strides=(0,) * len(sizes))
        inputs = [*((name, tensors[name]) for name in _INPUTS), (_RATE, rate)]
        parameters, first, second = (
            (name, tensors[name]) for name in ("output_parameters_tensor", "output_first_moment_tensor", "output_second_moment_tensor")
        )
        program = _program(desc, [tensor for _, tensor in inputs], parameters[1].data_type in NARROW)
        self._plan = ElementwisePlan(program, inputs, parameters, [first, second])
        self.temporary_size = _RATE_BYTES + self._plan.temporary_size

    def load(self) -> None:
        self._plan.load()

    def describe(self) -> str:
        return self._plan.describe()

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        name, desc, one = "training_step_tensor", self._desc, TensorDesc(data_type=DataType.FLOAT32, sizes=(1,))
        step, rate = arrays_of({name: self._step}, {name: tensors[name]})[name], arrays_of({_RATE: one}, {_RATE: temporary})[_RATE]

        def compute_rate(stream: int) -> None:
            with np.errstate(all="ignore"):
                rate[...] = corrected_rate(desc, step).reshape(1)

        others = {place: address for place, address in tensors.items() if place != name}
        return in_order([compute_rate, self._plan.bind({**others, _RATE: temporary}, temporary + _RATE_BYTES, None)])


def _program(desc: AdamOptimizerDesc, inputs: list[TensorDesc], halves: bool) -> Program:
    """The program of the parameters, with the moments as other results."""
    program = Program(inputs)
    parameters, first, second, gradient, rate = range(len(inputs))

    def scaled(x: int, factor: Any) -> int:
        return program.add(Code.LINEAR, x, a=factor)

    first = program.add(Code.ADD, scaled(first, desc.beta1), scaled(gradient, 1 - desc.beta1))
    square = program.add(Code.MULTIPLY, gradient, gradient)
    second = program.add(Code.ADD, scaled(second, desc.beta2), scaled(square, 1 - desc.beta2))
    divisor = program.add(Code.LINEAR, program.add(Code.SQRT, second), a=1.0, b=desc.epsilon)
    change = program.add(Code.DIVIDE, program.add(Code.MULTIPLY, rate, first), divisor)
    program.halves[program.add(Code.SUBTRACT, parameters, change)] = halves
    program.others = [first, second]
    return program
