"""The tables of raw_kernels/resampling/tables.cu: the elements that resampling reads along each axis that it changes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import AxisDirection, InterpolationMode
from dmlpy.devices.cuda.common.steps import Step
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, struct
from dmlpy.devices.plan import Layout
from dmlpy.operators.resampling import Resample3Desc, RoundingDirectionDesc, Upsample2DDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

_FILE = "resampling/tables.cu"
MOST_AXES = 4
"""The most dimensions of the operators."""

READING = struct(("first", np.uint32), ("last", np.uint32), ("weights", np.float64, (4,)))
RANGE = struct(("begin", np.uint32), ("end", np.uint32))
AXIS = struct(
    *((name, np.float64) for name in ("scale", "input_offset", "output_offset", "radius")),
    ("readings", np.int64),
    ("ranges", np.int64),
    ("size", np.uint32),
    ("output_size", np.uint32),
)
_HALF_UP, _UP, _DOWN = range(3)
_EXACT_OFFSETS = 2.0**20
"""Below it, multiples of a quarter are added to an element's number without a rounding."""


@dataclass(frozen=True)
class ResampledAxis:
    """An axis of a resampling.

    Attributes:
        size: elements of the input; of a gradient those of the outgoing one.
        output_size: elements of the output; of a gradient those of the incoming one.
        scale: the desc's scale; like both offsets below.
        input_offset: the number subtracted from a coordinate of the input.
        output_offset: the number subtracted from an element's index.
        antialiased: whether a filter is stretched where the axis shrinks.
    """

    size: int = 1
    output_size: int = 1
    scale: float = 1.0
    input_offset: float = 0.0
    output_offset: float = 0.0
    antialiased: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether each element of the output is that of the same index in the input."""
        offset = self.input_offset
        exact = abs(offset) < _EXACT_OFFSETS and 4 * offset == int(4 * offset)
        return self.size == self.output_size and self.scale == 1 and exact and self.output_offset == -offset

    @property
    def radius(self) -> float:
        """The support of a stretched filter; 0 if it is not stretched."""
        radius = abs(1 / self.scale) if self.scale else inf
        return min(radius, 2.0**40) if self.antialiased and radius > 1 else 0.0


def axes_of(desc: Any, sizes: Sequence[int], output_sizes: Sequence[int]) -> list[ResampledAxis]:
    """The axes of a checked desc, in the order of its dimensions.

    Args:
        desc: a resampling, upsampling, or a gradient of one.
        sizes: of the forward input.
        output_sizes: of the forward output.
    """
    if isinstance(desc, Upsample2DDesc):
        scales: Sequence[float] = [1] * (len(sizes) - 2) + [desc.scale_size.height, desc.scale_size.width]
    else:
        scales = desc.scales
    before = getattr(desc, "input_pixel_offsets", (0.5,) * len(sizes))
    after = getattr(desc, "output_pixel_offsets", (-0.5,) * len(sizes))
    stretches = isinstance(desc, Resample3Desc) and desc.antialiased and desc.interpolation_mode is InterpolationMode.LINEAR
    rows = zip(sizes, output_sizes, scales, before, after, strict=True)
    return [ResampledAxis(*row, antialiased=stretches) for row in rows]


def tabulate_kernel(mode: str) -> Kernel:
    """The kernel of a mode, `Nearest` or `Linear`."""
    parameters = struct(("readings", np.uint64), ("axes", AXIS, (MOST_AXES,)), ("count", np.uint64), ("rounding", np.int32))
    return Kernel(_FILE, f"tabulate<{mode}>", parameters, f"TabulateParameters<{mode}>")


def invert_kernel() -> Kernel:
    parameters = struct(("readings", np.uint64), ("ranges", np.uint64), ("axes", AXIS, (MOST_AXES,)), ("count", np.uint64))
    return Kernel(_FILE, "invert<Range>", parameters, "InvertParameters<Range>")


class Tables:
    """The tables of some axes.

    Attributes:
        axes: elements of `AXIS` for the kernels that read the tables.
        scratch: the arrays of the tables.

    Args:
        desc: a checked desc.
        axes: the axes to resample, at most `MOST_AXES`.
        gradient: whether ranges are needed.
    """

    def __init__(self, desc: Any, axes: Sequence[ResampledAxis], *, gradient: bool) -> None:
        self._desc, self._gradient = desc, gradient
        padded = [*axes, *(ResampledAxis() for _ in range(MOST_AXES - len(axes)))]
        self._readings, self._ranges = sum(axis.output_size for axis in padded), sum(axis.size for axis in padded)
        readings = [*accumulate((axis.output_size for axis in padded), initial=0)][:MOST_AXES]
        ranges = [*accumulate((axis.size for axis in padded), initial=0)][:MOST_AXES]
        self.axes = np.array(
            [
                (axis.scale, axis.input_offset, axis.output_offset, axis.radius, reading, span, axis.size, axis.output_size)
                for axis, reading, span in zip(padded, readings, ranges, strict=True)
            ],
            AXIS,
        )
        arrays = [("readings", (self._readings,), READING), ("ranges", (self._ranges,), RANGE)]
        self.scratch = Layout(arrays if gradient else arrays[:1], ALIGNMENT)

    def steps(self) -> list[Step]:
        """The launches that fill them."""
        nearest = self._desc.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR
        kernel = tabulate_kernel("Nearest" if nearest else "Linear")
        argument = np.zeros(1, kernel.parameters)
        argument["axes"], argument["count"], argument["rounding"] = self.axes, self._readings, self._rounding()
        steps = [Step(kernel, argument, {"readings": "readings"}, self._readings)]
        if self._gradient:
            kernel = invert_kernel()
            argument = np.zeros(1, kernel.parameters)
            argument["axes"], argument["count"] = self.axes, self._ranges
            steps.append(Step(kernel, argument, {"readings": "readings", "ranges": "ranges"}, self._ranges))
        return steps

    def _rounding(self) -> int:
        if not isinstance(self._desc, RoundingDirectionDesc):
            return _HALF_UP
        return _UP if self._desc.rounding_direction is AxisDirection.INCREASING else _DOWN
