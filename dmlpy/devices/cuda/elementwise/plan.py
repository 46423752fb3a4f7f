"""The plans of the element-wise operators: one step of the element engine each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cuda.common.element_engine import ElementsPlan, Elementwise, View
from dmlpy.devices.cuda.elementwise.functors import functor_of, takes_raw_bits

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cuda.plans import Target


def elementwise_plan(desc: OperatorDesc, target: Target) -> ElementsPlan:
    tensors, raw = desc.tensors(), takes_raw_bits(desc)
    [output] = [field.name for field in desc.outputs()]
    views = {name: View.of(name, tensor, raw=raw) for name, tensor in tensors.items()}
    inputs = [views[field.name] for field in desc.inputs()]
    return ElementsPlan([Elementwise(functor_of(desc), tensors[output].sizes, views[output], inputs)], target.library)
