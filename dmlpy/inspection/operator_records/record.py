"""`OperatorRecord`: what is known about an operator beside its class, its definition and the facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Array = np.ndarray[Any, np.dtype[Any]]
Draw = Callable[["np.random.Generator"], Array]
"""Draws an array from a case's generator."""
OnnxInput = Array | tuple[str, Callable[[Array], Array]]
"""A further input of an equivalent: a constant, or a function of one of the operator's inputs."""
Torch = Callable[[Any, Any], Any]
"""PyTorch's equivalent: a function of the module and of the inputs as attributes, which returns the outputs in the desc's order."""

SIZES = (8, 32, 32, 32)
"""The usual sizes: 262,144 elements."""


@dataclass(frozen=True)
class UlpBound:
    """The largest error of a function of FLOAT32 elements, in units in the last place, which the tests hold every device to.

    A unit is the distance between the floats next to the exact result.

    Attributes:
        numpy: on the device `numpy`.
        cpu: on the device `cpu`.
        cuda: on the device `cuda`, with functions of the GPU that are as far off as CUDA documents.
        attributes: the desc's attributes that the bound is for.
        in_cells: as an activation of compiled recurrent cells; None where cells do not take it.
        of_largest_term: whether a unit is one of the largest term of alpha x + beta, which may cancel, not of the result.
        note: why a bound is large.
    """

    numpy: float
    cpu: float
    cuda: float
    attributes: Mapping[str, float] = field(default_factory=dict)
    in_cells: float | None = None
    of_largest_term: bool = False
    note: str = ""

    def attributes_text(self) -> str:
        """The attributes as text: alpha 0.25, beta 0.5."""
        return ", ".join(f"{name} {value:g}" for name, value in self.attributes.items())

    def __str__(self) -> str:
        condition = f"with {attributes}: " if (attributes := self.attributes_text()) else ""
        return f"{condition}{self.numpy:g} ULP on numpy, {self.cpu:g} on cpu, {self.cuda:g} on cuda"


@dataclass(frozen=True)
class TimedCase:
    """An operator at a size that `dmlpy bench` times.

    Attributes:
        operator: its short name, as in `dmlpy ops`.
        inputs: what draws each input, by field; a tuple for an array of tensors.
        members: the desc's members that are not tensors.
        outputs: sizes and type of outputs that the inputs do not determine, by field; a list for an array of tensors.
        onnx: ONNX's nodes, one per line, with DirectML's fields as names; empty if it has no equivalent. `input_tensors0` is the
            first of an array of tensors.
        onnx_inputs: further inputs of the nodes. Constants are initializers, those in `fed` inputs of the model.
        fed: the names of constants that, as initializers, would cause the model to be constant-folded.
        opset: the version of ONNX's operators.
        torch: PyTorch's equivalent, or None.
        lacking: the outputs that an equivalent does not have, by library.
        scaled_axes: the axes along which tensors grow where the case is timed at another size, by field; None for the first axis of the
            first input that is longer than 1, in every tensor that is as long there.
    """

    operator: str
    inputs: Mapping[str, Draw | tuple[Draw, ...]]
    members: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    onnx: str = ""
    onnx_inputs: Mapping[str, OnnxInput] = field(default_factory=dict)
    fed: tuple[str, ...] = ()
    opset: int = 21
    torch: Torch | None = None
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scaled_axes: Mapping[str, int] | None = None


@dataclass(frozen=True)
class OperatorRecord(TimedCase):
    """An operator at its usual size, with its other sizes and what holds at any.

    Attributes:
        forms: further cases, by the name of what makes them differ.
        bounds: how far off its results may be; empty if they are exact, or no bound in units of the last place holds.
    """

    forms: Mapping[str, TimedCase] = field(default_factory=dict)
    bounds: tuple[UlpBound, ...] = ()

    def cases(self) -> dict[str, TimedCase]:
        """The cases by name: `CONVOLUTION`, `CONVOLUTION:DEPTHWISE`."""
        return {self.operator: self, **{f"{self.operator}:{form}": case for form, case in self.forms.items()}}


def normal(*sizes: int) -> Draw:
    """Standard normal numbers."""
    return lambda rng: rng.standard_normal(sizes or SIZES, np.float32)


def uniform(low: float, high: float, *sizes: int) -> Draw:
    """Uniformly distributed numbers."""
    return lambda rng: (low + (high - low) * rng.random(sizes or SIZES, np.float32)).astype(np.float32)


def whole(low: int, high: int, *sizes: int, dtype: DTypeLike = np.int32) -> Draw:
    """Integers from `low` to `high`, exclusive."""
    return lambda rng: rng.integers(low, high, sizes or SIZES).astype(dtype)


def constant(value: float, *sizes: int, dtype: DTypeLike = np.float32) -> Draw:
    """The same number everywhere."""
    return lambda rng: np.full(sizes, value, dtype)


def broadcast(draw: Draw, *sizes: int) -> Draw:
    """An array broadcast to these sizes; the operator's tensor has strides of 0."""
    return lambda rng: np.broadcast_to(draw(rng), sizes or SIZES)


def longs(*values: int) -> Array:
    """A vector of ONNX's INT64."""
    return np.array(values, np.int64)


def once(array: Array) -> Array:
    """An array without its repetitions: size 1 where the stride is 0."""
    return array[
        tuple(slice(0, 1) if stride == 0 and size > 1 else slice(None) for size, stride in zip(array.shape, array.strides, strict=True))
    ]


def flat(field: str) -> OnnxInput:
    """An input as a vector, without its repetitions."""
    return field, lambda array: once(array).reshape(-1)


def scalar(field: str) -> OnnxInput:
    """The number that an input holds."""
    return field, lambda array: once(array).reshape(())


def cast(field: str, dtype: DTypeLike) -> OnnxInput:
    """An input in another type."""
    return field, lambda array: once(array).astype(dtype)


def shaped(field: str, *sizes: int) -> OnnxInput:
    """An input with other sizes."""
    return field, lambda array: once(array).reshape(sizes)
