"""The plan of VALUE_SCALE_2D: each channel of images is an identity with a scale and a bias of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.value_structs import ScaleBias
from dmlpy.devices.cpu.elementwise.plans import elementwise_plan
from dmlpy.devices.plan import Launch, Plan, PlanWithoutConstants, Pointers, in_order
from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.operators.resampling import ValueScale2DDesc

_PLACES = ("input_tensor", "output_tensor")


class ValueScalePlan(PlanWithoutConstants):
    """A plan for each channel.

    Args:
        desc: a checked desc.
        channels: the plans of its channels' identities.
    """

    def __init__(self, desc: ValueScale2DDesc, channels: list[Plan]) -> None:
        tensors = desc.tensors()
        self._channels = channels
        self._steps = {place: tensors[place].element_strides[1] * tensors[place].data_type.numpy.itemsize for place in _PLACES}
        self.temporary_size = max(plan.temporary_size for plan in channels)

    def load(self) -> None:
        self._channels[0].load()

    def describe(self) -> str:
        each = "" if len(self._channels) == 1 else ", a program for each channel"
        return self._channels[0].describe() + each

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work = []
        for number, channel in enumerate(self._channels):
            own = {place: tensors[place] + number * step for place, step in self._steps.items()}
            work.append(channel.bind(own, temporary, None))
        return in_order(work)


def value_scale_plan(desc: ValueScale2DDesc) -> ValueScalePlan | str:
    """The plan for a checked desc, or the reason why there is none."""
    assert desc.output_tensor is not None  # guaranteed by the check
    x, y = (_channel(tensor) for tensor in (desc.input_tensor, desc.output_tensor))
    channels: list[Plan] = []
    for bias in desc.bias:
        found = elementwise_plan(
            ElementWiseIdentityDesc(input_tensor=x, output_tensor=y, scale_bias=ScaleBias(scale=desc.scale, bias=bias))
        )
        if isinstance(found, str):
            return found
        channels.append(found)
    return ValueScalePlan(desc, channels)


def _channel(tensor: TensorDesc) -> TensorDesc:
    """The first channel of images."""
    batch, _, height, width = tensor.sizes
    return tensor.replace(sizes=(batch, 1, height, width), strides=tensor.element_strides)
