"""Functors that kernels apply to elements, among them those of raw_kernels/common/activations.cuh, with their attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.kernels import struct
from dmlpy.operators import activation as activations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.operators.activation import ActivationDesc

ATTRIBUTES: Mapping[type[ActivationDesc], tuple[str, ...]] = {
    activations.ActivationReluDesc: (),
    activations.ActivationLeakyReluDesc: ("alpha",),
    activations.ActivationThresholdedReluDesc: ("alpha",),
    activations.ActivationEluDesc: ("alpha",),
    activations.ActivationCeluDesc: ("alpha",),
    activations.ActivationScaledEluDesc: ("alpha", "gamma"),
    activations.ActivationTanhDesc: (),
    activations.ActivationScaledTanhDesc: ("alpha", "beta"),
    activations.ActivationSigmoidDesc: (),
    activations.ActivationHardSigmoidDesc: ("alpha", "beta"),
    activations.ActivationLinearDesc: ("alpha", "beta"),
    activations.ActivationIdentityDesc: (),
    activations.ActivationSoftplusDesc: ("steepness",),
    activations.ActivationParametricSoftplusDesc: ("alpha", "beta"),
    activations.ActivationSoftsignDesc: (),
    activations.ActivationGeluDesc: (),
    activations.ActivationShrinkDesc: ("bias", "threshold"),
}
"""The functors of the activations that DirectML fuses into other operators: the attributes of each, in the order of its members."""

ELEMENT_WISE: Mapping[type[ActivationDesc], tuple[str, ...]] = {
    **ATTRIBUTES,
    activations.ActivationSwishDesc: ("sigmoid_input_scale",),
    activations.ActivationHardSwishDesc: ("alpha", "beta"),
    activations.ActivationParameterizedReluDesc: (),
    activations.ActivationReluGradDesc: (),
}
"""The attributes of all functors, including those of operators that are never fused."""


def functor(kind: type[ActivationDesc]) -> str:
    """The C++ name of an activation's functor: `HardSigmoid`."""
    return kind.__name__.removeprefix("Activation").removesuffix("Desc")


def activation_members(desc: ActivationDesc) -> tuple[tuple[str, str, float], ...]:
    """The functor's members: name, NumPy type and value of each."""
    return tuple((name, "float32", float(getattr(desc, name))) for name in ELEMENT_WISE[type(desc)])


def attribute_values(desc: ActivationDesc) -> tuple[float, float]:
    """The attributes as a launch passes them; zero for those that the functor lacks."""
    values = [float(getattr(desc, name)) for name in ELEMENT_WISE[type(desc)]]
    first, second = (*values, 0.0, 0.0)[:2]
    return first, second


@dataclass(frozen=True)
class Functor:
    """A functor that the engine applies.

    Attributes:
        file: the source that defines it, in raw_kernels/.
        name: its C++ type: `element_wise::Clip<int>`.
        members: name, NumPy type and value of each of its data members, in order.
    """

    file: str
    name: str
    members: tuple[tuple[str, str, float | int], ...] = ()

    @property
    def struct(self) -> np.dtype[Any]:
        """The struct that it is in C++; without members it has one byte."""
        return struct(*((name, data_type) for name, data_type, _ in self.members)) if self.members else np.dtype(np.uint8)
