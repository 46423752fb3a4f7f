"""How many units in the last place each function of floats may be off on each device, and the arguments at which that is tested.

A unit is the distance between the floats next to the float64 result, down to the smallest subnormal one. Of FLOAT16 the arithmetic is
float32's, so the bound of all its functions is that of one rounding (`HALVES`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.operators.activation import ActivationDesc

Array = np.ndarray[Any, np.dtype[Any]]

HALVES = 0.502
"""Units that FLOAT16 results may be off: half a one, and what the float32 result before it was off."""
HALVES_ON_GPUS = 0.505
"""The same where a GPU's functions are as far off as CUDA documents."""


@dataclass(frozen=True)
class Function:
    """A function of one element, or of two.

    Attributes:
        kind: its operator.
        numpy: units that FLOAT32 results may be off on the device `numpy`.
        cpu: on the device `cpu`.
        cuda: on the device `cuda`, with functions of the GPU that are as far off as CUDA documents.
        attributes: those of the operator.
        in_cells: as an activation of compiled recurrent cells; None where cells do not take it.
        terms: the units are those of the largest of these terms, which may cancel, or of the result; None where nothing cancels.
        note: why a bound is large.
    """

    kind: type[Any]
    numpy: float
    cpu: float
    cuda: float
    attributes: tuple[tuple[str, float], ...] = ()
    in_cells: float | None = None
    terms: Callable[..., Array] | None = None
    note: str = ""

    @property
    def title(self) -> str:
        """The operator's name, with the attributes."""
        given = ", ".join(f"{name} {value:g}" for name, value in self.attributes)
        return f"{self.kind.short_name()}{f' ({given})' if given else ''}"

    @property
    def operands(self) -> list[str]:
        """The names of its inputs."""
        return [field.name for field in self.kind.inputs()]

    def of(self, tensor: dml.TensorDesc) -> Any:
        """The operator on tensors of this kind."""
        return self.kind(**dict.fromkeys((*self.operands, "output_tensor"), tensor), **dict(self.attributes))

    def arguments(self, x: Array) -> dict[str, Array]:
        """The inputs by name: these numbers, and for a second operand the same in another order."""
        values = (x, np.random.default_rng(1).permutation(x))
        return dict(zip(self.operands, values, strict=False))

    def fused(self) -> ActivationDesc:
        """The activation as cells take it."""
        found = self.kind(**dict(self.attributes))
        assert isinstance(found, ActivationDesc)
        return found

    def units(self, found: Array, arguments: dict[str, Array]) -> Array:
        """By how many units each result is off; infinite where one of the two is NaN. Infinities count as the next power of two."""
        limits = np.finfo(found.dtype)
        with np.errstate(all="ignore"):
            exact = np.asarray(dml.reference(self.of(dml.TensorDesc.of(found)), arguments).output_tensor, np.float64)
            wide = (values.astype(np.float64) for values in arguments.values())
            sizes = np.abs(exact) if self.terms is None else np.maximum(np.abs(exact), self.terms(*wide))
            unit = np.spacing(np.minimum(sizes, float(limits.max)).astype(found.dtype)).astype(np.float64)
            end = np.ldexp(1.0, limits.maxexp)
            off = np.abs(np.clip(found.astype(np.float64), -end, end) - np.clip(exact, -end, end)) / unit
        return np.where(np.isnan(found) | np.isnan(exact), np.where(np.isnan(found) == np.isnan(exact), 0.0, np.inf), off)


def _line(alpha: float, beta: float) -> Callable[[Array], Array]:
    """The terms of alpha x + beta."""
    return lambda x: np.maximum(np.abs(alpha * x), abs(beta))


_PRODUCT = "the product of argument and attribute is rounded"
_SQUARE = "the square of the argument is rounded"

FUNCTIONS: tuple[Function, ...] = (
    Function(dml.ElementWiseAddDesc, 0.5, 0.5, 0.5),
    Function(dml.ElementWiseSubtractDesc, 0.5, 0.5, 0.5),
    Function(dml.ElementWiseMultiplyDesc, 0.5, 0.5, 0.5),
    Function(dml.ElementWiseDifferenceSquareDesc, 2, 2, 2),
    Function(dml.ElementWiseModulusTruncateDesc, 0, 0, 0),
    Function(dml.ElementWiseModulusFloorDesc, 0.5, 0.5, 0.5),
    Function(dml.ElementWiseAcosDesc, 3, 3, 4),
    Function(dml.ElementWiseAcoshDesc, 2, 2, 5),
    Function(dml.ElementWiseAsinDesc, 3, 3, 5),
    Function(dml.ElementWiseAsinhDesc, 2, 2, 4),
    Function(dml.ElementWiseAtanDesc, 3, 3, 3),
    Function(dml.ElementWiseAtanhDesc, 2, 2, 4),
    Function(dml.ElementWiseConstantPowDesc, 2, 2, 0.5, (("exponent", 0.5),)),
    Function(dml.ElementWiseConstantPowDesc, 2, 2, 17, (("exponent", -1.5),)),
    Function(dml.ElementWiseConstantPowDesc, 0.5, 0.5, 0.5, (("exponent", 2.0),)),
    Function(dml.ElementWiseConstantPowDesc, 2, 2, 17, (("exponent", 3.0),)),
    Function(dml.ElementWisePowDesc, 2, 2, 17),
    Function(dml.ElementWiseAtanYXDesc, 4, 4, 4),
    Function(dml.ElementWiseDivideDesc, 0.5, 0.5, 0.5),
    Function(dml.ElementWiseCosDesc, 2, 2, 4),
    Function(dml.ElementWiseCoshDesc, 3, 3, 4),
    Function(dml.ElementWiseErfDesc, 6, 2, 4),
    Function(dml.ElementWiseExpDesc, 3, 2, 4),
    Function(dml.ElementWiseLogDesc, 4, 4, 3),
    Function(dml.ElementWiseRecipDesc, 0.5, 0.5, 0.5),
    Function(dml.ElementWiseSinDesc, 2, 2, 4),
    Function(dml.ElementWiseSinhDesc, 2, 2, 4),
    Function(dml.ElementWiseSqrtDesc, 0.5, 0.5, 0.5),
    Function(dml.ElementWiseTanDesc, 4, 4, 5),
    Function(dml.ElementWiseTanhDesc, 2, 6, 4),
    Function(dml.ActivationCeluDesc, 4, 2, 4, (("alpha", 0.75),), in_cells=2),
    Function(dml.ActivationEluDesc, 4, 2, 4, (("alpha", 1.5),), in_cells=2),
    Function(dml.ActivationGeluDesc, 64, 7, 34, in_cells=7, note=f"NumPy: {_SQUARE}; CUDA: subnormal results only"),
    Function(dml.ActivationHardSigmoidDesc, 1, 1, 1, (("alpha", 0.25), ("beta", 0.5)), in_cells=1, terms=_line(0.25, 0.5)),
    Function(dml.ActivationHardSwishDesc, 2, 2, 2, (("alpha", 0.25), ("beta", 0.5))),
    Function(dml.ActivationIdentityDesc, 0, 0, 0, in_cells=0),
    Function(dml.ActivationLeakyReluDesc, 0.5, 0.5, 0.5, (("alpha", 0.25),), in_cells=0.5),
    Function(dml.ActivationLinearDesc, 2, 2, 2, (("alpha", 0.7), ("beta", 0.25)), in_cells=2, terms=_line(0.7, 0.25)),
    Function(
        dml.ActivationParametricSoftplusDesc, 68, 68, 8, (("alpha", 1.5), ("beta", 0.75)), in_cells=4, note=f"NumPy and CPU: {_PRODUCT}"
    ),
    Function(dml.ActivationParameterizedReluDesc, 0.5, 0.5, 0.5),
    Function(dml.ActivationReluDesc, 0, 0, 0, in_cells=0),
    Function(dml.ActivationScaledEluDesc, 4, 3, 5, (("alpha", 1.5), ("gamma", 1.25)), in_cells=3),
    Function(dml.ActivationScaledTanhDesc, 4, 7, 4, (("alpha", 1.5), ("beta", 0.75)), in_cells=7),
    Function(dml.ActivationShrinkDesc, 0.5, 0.5, 0.5, (("bias", 0.25), ("threshold", 0.5)), in_cells=0.5),
    Function(dml.ActivationSigmoidDesc, 4, 3, 8, in_cells=3),
    Function(dml.ActivationSoftplusDesc, 4, 4, 7, (("steepness", 1.0),), in_cells=3),
    Function(dml.ActivationSoftplusDesc, 68, 68, 8, (("steepness", 3.0),), in_cells=4, note=f"NumPy and CPU: {_PRODUCT}"),
    Function(dml.ActivationSoftsignDesc, 2, 2, 2, in_cells=2),
    Function(dml.ActivationSwishDesc, 7, 5, 13, (("sigmoid_input_scale", 1.0),)),
    Function(dml.ActivationSwishDesc, 7, 5, 13, (("sigmoid_input_scale", -0.5),)),
    Function(dml.ActivationTanhDesc, 2, 6, 4, in_cells=6),
    Function(dml.ActivationThresholdedReluDesc, 0, 0, 0, (("alpha", 0.5),), in_cells=0),
)
NO_FUNCTIONS = {
    "a choice, a sign, a whole number or a comparison, which is exact": (
        *("ABS", "BIT_AND", "BIT_COUNT", "BIT_NOT", "BIT_OR", "BIT_SHIFT_LEFT", "BIT_SHIFT_RIGHT", "BIT_XOR", "CEIL", "CLIP", "CLIP1"),
        *("CLIP_GRAD", "CLIP_GRAD1", "FLOOR", "IDENTITY", "IF", "IS_INFINITY", "IS_NAN", "LOGICAL_AND", "LOGICAL_EQUALS"),
        *("LOGICAL_GREATER_THAN", "LOGICAL_GREATER_THAN_OR_EQUAL", "LOGICAL_LESS_THAN", "LOGICAL_LESS_THAN_OR_EQUAL", "LOGICAL_NOT"),
        *("LOGICAL_OR", "LOGICAL_XOR", "MAX", "MIN", "NEGATE", "RELU_GRAD", "ROUND", "SIGN", "THRESHOLD"),
    ),
    "a function of a whole axis, whose error grows with its length": (
        *("HARDMAX", "HARDMAX1", "LOG_SOFTMAX", "LOG_SOFTMAX1", "SOFTMAX", "SOFTMAX1"),
    ),
    "another desc of a function that is listed": ("ADD1",),
    "a function with more operands, whose steps are rounded": ("DEQUANTIZE_LINEAR", "QUANTIZE_LINEAR", "QUANTIZED_LINEAR_ADD"),
    "half of a sum, which may overflow before it is halved": ("MEAN",),
}
"""Operators of elements without a bound in units in the last place, by the reason."""
IN_CELLS = tuple(function for function in FUNCTIONS if function.in_cells is not None)

_EXTREMES = (0.0, 1.0, np.inf, np.nan, 2.0**-149, 2.0**-126, 3.4028235e38, 88.72284, 87.33655, 103.97208, 104.0, 17.33, 9.01, 1e30, 1e-30)


def floats(count: int, seed: int) -> Array:
    """FLOAT32 arguments: half of them any bits, the others near 0, where functions bend and end, and subnormal."""
    rng, each = np.random.default_rng(seed), count // 10
    bits = rng.integers(0, 2**32, 5 * each, np.uint32).view(np.float32)
    parts = [rng.uniform(-size, size, each) for size in (1.0, 10.0, 110.0)]
    small, subnormal = rng.normal(size=each) * 10.0 ** rng.uniform(-6, 1, each), rng.integers(-(2**23), 2**23, each) * 2.0**-149
    ends = np.array([*_EXTREMES, *(-value for value in _EXTREMES)])
    with np.errstate(invalid="ignore"):  # bits of signalling NaN
        return np.concatenate([bits, *parts, small, subnormal, ends]).astype(np.float32)


def halves() -> Array:
    """All of FLOAT16."""
    return np.arange(2**16, dtype=np.uint16).view(np.float16)


def table() -> str:
    """The bounds as a Markdown table."""

    def bound(value: float | None) -> str:
        return "" if value is None else f"{value:g}"

    lines = ["| function of FLOAT32 | NumPy | CPU | in compiled cells | CUDA | |\n", "|---|---:|---:|---:|---:|---|\n"]
    for each in FUNCTIONS:
        cells = (each.title, *(bound(value) for value in (each.numpy, each.cpu, each.in_cells, each.cuda)), each.note)
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)
