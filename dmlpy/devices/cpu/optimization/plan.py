"""The plan of a step of Adam: a kernel if all tensors are contiguous, else an element-wise program with three results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.axes import merged
from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan
from dmlpy.devices.cpu.elementwise.program import NARROW, Code, Program
from dmlpy.devices.cpu.isa import host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Float32, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, arrays_of, in_order
from dmlpy.reference.optimization import corrected_rate

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Storage
    from dmlpy.operators.optimization import AdamOptimizerDesc

_INPUTS = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")
_OUTPUTS = ("output_parameters_tensor", "output_first_moment_tensor", "output_second_moment_tensor")
_RATE, _RATE_BYTES = "rate", 64


ADAM = Kernel("dmlpy.devices.cpu.optimization.kernels:build_adam", 5)
"""A step of Adam on contiguous tensors: the type of these, and the instruction set."""
_WORK_OF_A_THREAD = 1 << 16
"""Elements that are worth waking another thread for."""


class AdamParameters(UnitParameters):
    """The parameters of the kernel. A tile is some of the elements."""

    x: Address = field("the parameters")
    first: Address = field("the first moments")
    second: Address = field("the second moments")
    gradient: Address = field("the gradients")
    y: Address = field("the new parameters")
    new_first: Address = field("the new first moments")
    new_second: Address = field("the new second moments")
    rate: Address = field("the corrected learning rate, a float32")
    beta1: Float32 = field("the factor of the first moments")
    rest1: Float32 = field("that of the gradients")
    beta2: Float32 = field("the factor of the second moments")
    rest2: Float32 = field("that of the gradients' squares")
    epsilon: Float32 = field("what is added to the divisor")


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
        inputs, outputs = ([(name, tensors[name]) for name in names] for names in (_INPUTS, _OUTPUTS))
        data_type, axes = outputs[0][1].data_type, merged(sizes, [described.element_strides for _, described in [*inputs, *outputs]])
        self._plan: ElementwisePlan | _ContiguousPlan
        if len(axes) == 1 and set(axes[0].strides) == {1}:
            self._plan = _ContiguousPlan(desc, storage_of(data_type), axes[0].size)
        else:
            inputs.append((_RATE, rate))
            program = _program(desc, [tensor for _, tensor in inputs], data_type in NARROW)
            self._plan = ElementwisePlan(program, inputs, outputs[0], outputs[1:])
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


class _ContiguousPlan(PlanWithoutConstants):
    """The step by the kernel, given the rate.

    Args:
        desc: a checked desc.
        stored: the type of its tensors.
        count: elements of each.
    """

    temporary_size = 0

    def __init__(self, desc: AdamOptimizerDesc, stored: Storage, count: int) -> None:
        self._choices, self._count = (stored, host_isa()), count
        self._shares = WorkShares(count, Threads.of(available_threads(), count, _WORK_OF_A_THREAD))
        self._values = {
            **self._shares.values,
            "beta1": desc.beta1,
            "rest1": 1 - desc.beta1,
            "beta2": desc.beta2,
            "rest2": 1 - desc.beta2,
            "epsilon": desc.epsilon,
        }

    def load(self) -> None:
        ADAM(*self._choices)

    def describe(self) -> str:
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; {self._count} contiguous elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        names = ("x", "first", "second", "gradient", "rate", "y", "new_first", "new_second")
        addresses = {name: tensors[place] for name, place in zip(names, (*_INPUTS, _RATE, *_OUTPUTS), strict=True)}
        return TaskLaunch.of(ADAM(*self._choices), AdamParameters.bound({**self._values, **addresses}), self._shares.threads)


def _program(desc: AdamOptimizerDesc, inputs: list[TensorDesc], is_narrow: bool) -> Program:
    """The program of the parameters, with the moments as other results."""
    program = Program(inputs)
    parameters, first, second, gradient, rate = range(len(inputs))

    scaled = program.add_scaled
    first = program.add(Code.ADD, scaled(first, desc.beta1), scaled(gradient, 1 - desc.beta1))
    square = program.add(Code.MULTIPLY, gradient, gradient)
    second = program.add(Code.ADD, scaled(second, desc.beta2), scaled(square, 1 - desc.beta2))
    divisor = program.add(Code.LINEAR, program.add(Code.SQRT, second), a=1.0, b=desc.epsilon)
    change = program.add(Code.DIVIDE, program.add(Code.MULTIPLY, rate, first), divisor)
    program.narrow[program.add(Code.SUBTRACT, parameters, change)] = is_narrow
    program.others = [first, second]
    return program
