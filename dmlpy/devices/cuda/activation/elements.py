"""The element-wise activation operators on CUDA, by functors of raw_kernels/common/activations.cuh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.devices.cuda.common.element_engine import ElementsPlan, Elementwise, View
from dmlpy.devices.cuda.common.functors import Functor, activation_members, functor
from dmlpy.operators.activation import ActivationDesc, ActivationShrinkDesc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target


def elements_plan(desc: ActivationDesc, target: Target) -> ElementsPlan:
    return ElementsPlan([step_of(desc)], target.library)


def step_of(desc: ActivationDesc) -> Elementwise:
    """The one step of a checked desc."""
    tensors = desc.tensors()
    *inputs, output = (View.of(name, tensor) for name, tensor in tensors.items())
    return Elementwise(functor_of(desc), next(iter(tensors.values())).sizes, output, inputs)


def functor_of(desc: ActivationDesc) -> Functor:
    """The functor of a desc."""
    name = functor(type(desc))
    if isinstance(desc, ActivationShrinkDesc) and desc.input_tensor is not None and not is_float(desc.input_tensor.data_type.numpy):
        name = f"InDouble<{name}>"
    return Functor("activation/elements.cu", name, activation_members(desc))
