"""The functions of floats with the bounds of their records, and the arguments at which these are tested.

A unit is the distance between the floats next to the float64 result, down to the smallest subnormal one. Of FLOAT16 the arithmetic is
float32's, so the bound of all its functions is that of one rounding (`HALVES`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.description.registry import operator_class
from dmlpy.inspection.operator_records import RECORDS, UlpBound
from dmlpy.operators.activation import ActivationDesc

Array = np.ndarray[Any, np.dtype[Any]]

HALVES = 0.502
"""Units that FLOAT16 results may be off: half a one, and what the float32 result before it was off."""
POLYNOMIALS_OF_HALVES, HALVES_OF_POLYNOMIALS = ("ERF", "SIGMOID", "SWISH"), 0.51
"""The functions that the device `cpu` computes in FLOAT16 by polynomials of their own, and the units that these may be off."""
HALVES_ON_GPUS = 0.505
"""The same where a GPU's functions are as far off as CUDA documents."""


@dataclass(frozen=True)
class Function:
    """A function of one element, or of two, and its bound."""

    kind: type[Any]
    bound: UlpBound

    @property
    def title(self) -> str:
        """The operator's name, with the attributes."""
        given = self.bound.attributes_text()
        return f"{self.kind.short_name()}{f' ({given})' if given else ''}"

    @property
    def operands(self) -> list[str]:
        """The names of its inputs."""
        return [field.name for field in self.kind.inputs()]

    def of(self, tensor: dml.TensorDesc) -> Any:
        """The operator on tensors of this kind."""
        return self.kind(**dict.fromkeys((*self.operands, "output_tensor"), tensor), **self.bound.attributes)

    def arguments(self, x: Array) -> dict[str, Array]:
        """The inputs by name: these numbers, and for a second operand the same in another order."""
        values = (x, np.random.default_rng(1).permutation(x))
        return dict(zip(self.operands, values, strict=False))

    def fused(self) -> ActivationDesc:
        """The activation as cells take it."""
        found = self.kind(**self.bound.attributes)
        assert isinstance(found, ActivationDesc)
        return found

    def units(self, found: Array, arguments: dict[str, Array]) -> Array:
        """By how many units each result is off; infinite where one of the two is NaN. Infinities count as the next power of two."""
        limits = np.finfo(found.dtype)
        with np.errstate(all="ignore"):
            exact = np.asarray(dml.reference(self.of(dml.TensorDesc.of(found)), arguments).output_tensor, np.float64)
            sizes = np.abs(exact)
            if self.bound.of_largest_term:
                product = np.float64(self.bound.attributes["alpha"]) * next(iter(arguments.values())).astype(np.float64)
                sizes = np.maximum(np.maximum(sizes, np.abs(product)), abs(self.bound.attributes["beta"]))
            unit = np.spacing(np.minimum(sizes, float(limits.max)).astype(found.dtype)).astype(np.float64)
            end = np.ldexp(1.0, limits.maxexp)
            off = np.abs(np.clip(found.astype(np.float64), -end, end) - np.clip(exact, -end, end)) / unit
        return np.where(np.isnan(found) | np.isnan(exact), np.where(np.isnan(found) == np.isnan(exact), 0.0, np.inf), off)


FUNCTIONS = tuple(
    Function(operator_class(name), bound)
    for start in ("ELEMENT_WISE", "ACTIVATION")
    for name, record in RECORDS.items()
    for bound in record.bounds
    if name.startswith(start)
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
IN_CELLS = tuple(function for function in FUNCTIONS if function.bound.in_cells is not None)

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

    def units(value: float | None) -> str:
        return "" if value is None else f"{value:g}"

    lines = ["| function of FLOAT32 | NumPy | CPU | in compiled cells | CUDA | |\n", "|---|---:|---:|---:|---:|---|\n"]
    for each in FUNCTIONS:
        own = each.bound
        cells = (each.title, *map(units, (own.numpy, own.cpu, own.in_cells, own.cuda)), own.note)
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)
