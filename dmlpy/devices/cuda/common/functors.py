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
        """Its C++ struct; without members it has one byte."""
        return struct(*((name, data_type) for name, data_type, _ in self.members)) if self.members else np.dtype(np.uint8)

    def write(self, into: np.ndarray[Any, Any]) -> None:
        """Puts the members' values into an array of this struct."""
        with np.errstate(over="ignore"):
            for name, _, value in self.members:
                into[name] = value


@dataclass(frozen=True)
class Applied:
    """One functor of a chain.

    Attributes:
        functor: what is applied.
        scalar: the type of its tensor's elements as the kernel spells it.
        arguments: its arguments, as common/chain.cuh spells them: `Given<0>`, `Element<2, float>`, `Nothing`.
    """

    functor: Functor
    scalar: str
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its C++ type."""
        return f"Step<{', '.join((self.functor.name, self.scalar, *self.arguments))}>"


@dataclass(frozen=True)
class Chained:
    """Functors of several operators that the engine applies in sequence: `Chain` of raw_kernels/common/chain.cuh.

    Attributes:
        steps: in order; at least one.
    """

    steps: tuple[Applied, ...]

    file = "elementwise/chain.cu"

    @property
    def name(self) -> str:
        """Its C++ type."""
        return f"Chain<{', '.join(step.name for step in self.steps)}>"

    @property
    def struct(self) -> np.dtype[Any]:
        """Its C++ struct: the first step's members, and the others in `rest`."""
        *others, last = (step.functor.struct for step in self.steps)
        whole = struct(("step", last))
        for one in reversed(others):
            whole = struct(("step", one), ("rest", whole))
        return whole

    def write(self, into: np.ndarray[Any, Any]) -> None:
        """Puts the values of all members into an array of this struct."""
        for at, step in enumerate(self.steps):
            into = into["rest"] if at else into
            step.functor.write(into["step"])


AnyFunctor = Functor | Chained
"""The interface of functors that the engine applies to elements."""
