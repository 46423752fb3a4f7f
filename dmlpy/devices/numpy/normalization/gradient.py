"""The gradients of batch normalization on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.numpy.normalization.common import FOLDED_SHARE, LARGEST_SHARE, Array, NormalizationLaunch, NormalizationPlan, as_float64
from dmlpy.devices.numpy.plans import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.numpy.normalization.blocks import Block
    from dmlpy.operators.normalization.geometry import NormalizationGeometry


class GradientPlan(NormalizationPlan):
    """dx, d_scale and d_bias in at most two passes over the tensors: sums over blocks, then dx.

    The sums need x about its mean only if the mean is large compared with the deviation; else they use x itself. Each group has a
    separate centre, 0 or its mean, so other groups' values change none of its bits.
    """

    def __init__(self, geometry: NormalizationGeometry) -> None:
        self.through_statistics = geometry.training and "dx" in geometry.operands
        super().__init__(geometry)

    def _sums(self) -> tuple[str, ...]:
        if self.through_statistics:
            return ("dy", "dy * x", "x") if self._geometry.centres_anew else ("dy", "dy * x")
        if "d_scale" in self._roles:
            return "dy", "dy * x"
        return ("dy",) if "d_bias" in self._roles else ()

    def _statistics(self) -> dict[str, np.dtype[Any]]:
        return dict.fromkeys(self._coefficients(), COMPUTE)

    def _coefficients(self) -> tuple[str, ...]:
        if self.through_statistics:
            return "centre", "slope", "offset", "factor"
        centre = ("centre",) * (len(self._sums()) > 1)
        return (*centre, "factor") if "dx" in self._roles else centre

    def _work_arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        in_place = "dx" not in self._roles or self._is_direct("dx")
        return {} if in_place and len(self._sums()) < 2 else {"work": ((), COMPUTE)}

    def describe(self) -> str:
        lines = [self._describe_blocks(), *self._describe_copies()]
        if sums := self._sums():
            lines.append(f"sums of {', '.join(sums)}{'; x is centred where its mean is large' if len(sums) > 1 else ''}")
        if self.through_statistics:
            lines.append("dx: ((x - centre) * slope [+ offset] + dy) * factor, the offset only where the centre cannot hold it")
        elif "dx" in self._roles:
            lines.append("dx: dy * factor")
        return "\n".join(lines)

    def _work(self, launch: NormalizationLaunch) -> Callable[[], None]:
        return Gradient(self, launch).run


class Gradient:
    """A dispatch of the plan."""

    def __init__(self, plan: GradientPlan, launch: NormalizationLaunch) -> None:
        self._launch, self._geometry = launch, plan._geometry
        self._sums, self._through_statistics = plan._sums(), plan.through_statistics
        self._n = float(launch.blocking.group_size)

    def run(self) -> None:
        launch = self._launch
        representatives = [blocks[0] for blocks in launch.blocking.ranges]
        if len(self._sums) > 1:
            launch.share(self._centre, representatives)
        if self._sums:
            launch.share(self._add_up, launch.every_block)
        launch.share(self._prepare, representatives)
        if "dx" in launch.tensors:
            launch.share(self._through_statistics_and_x if self._through_statistics else self._through_x, launch.every_block)

    # Sums

    def _centre(self, block: Block, thread: int) -> None:
        groups = block.groups
        mean, variance = (as_float64(self._launch.tensors[role][groups]) for role in ("mean", "variance"))
        self._launch.statistics["centre"][groups] = np.where(mean * mean <= LARGEST_SHARE * variance, 0.0, mean)

    def _add_up(self, block: Block, thread: int) -> None:
        launch = self._launch
        dy = launch.read("dy", block, thread)
        launch.add_up(0, block, thread, dy)
        if len(self._sums) == 1:
            return
        x = launch.read("x", block, thread)
        if launch.statistics["centre"][block.groups].any():
            work = launch.scratch("work", block, thread)
            np.subtract(x, launch.coefficient("centre", block, thread), work)
            x = work
        launch.add_up(1, block, thread, dy, x)
        if len(self._sums) > 2:
            launch.add_up(2, block, thread, x)

    # Coefficients

    def _prepare(self, block: Block, thread: int) -> None:
        """Computes the coefficients of dx, and the gradients of scale and bias, for a block's groups."""
        groups, tensors, statistics = block.groups, self._launch.tensors, self._launch.statistics
        mean, variance, scale = (as_float64(tensors[role][groups]) for role in ("mean", "variance", "scale"))
        inverse = 1.0 / np.sqrt(variance + self._geometry.epsilon)
        sums = self._launch.total(block) if self._sums else np.empty(0)
        if "d_bias" in tensors:
            tensors["d_bias"][groups] = sums[0]
        if "d_scale" in tensors:
            centre = as_float64(statistics["centre"][groups])
            products = sums[1] - (mean - centre) * sums[0]
            tensors["d_scale"][groups] = np.where(np.isfinite(products), products, np.nan) * inverse
        if "dx" in tensors:
            statistics["factor"][groups] = scale * inverse
        if self._through_statistics:
            self._set_coefficients(groups, mean, variance, inverse, sums)

    def _set_coefficients(self, groups: Any, mean: Array, variance: Array, inverse: Array, sums: Array) -> None:
        """Sets the coefficients of dx = ((x - centre) * slope + offset + dy) * factor, with the forward operator's centre and offset."""
        statistics = self._launch.statistics
        centre = as_float64(statistics["centre"][groups])
        own_mean = centre + sums[2] / self._n if self._geometry.centres_anew else mean
        products = sums[1] - (own_mean - centre) * sums[0]  # the sum of dy * (x - own_mean)
        slope = (-inverse * inverse * (products / self._n)).astype(COMPUTE)
        level = -sums[0] / self._n
        rounded = own_mean.astype(COMPUTE)
        rest = (own_mean - rounded) * slope
        folded = (own_mean - level / slope).astype(COMPUTE)
        folds = (variance > 0.0) & (own_mean * own_mean <= FOLDED_SHARE * variance) & np.isfinite(folded) & np.isfinite(slope)
        statistics["factor"][groups] = np.where(np.isfinite(products) & np.isfinite(mean), statistics["factor"][groups], np.nan)
        statistics["slope"][groups] = slope
        statistics["centre"][groups] = np.where(folds, folded, rounded)
        statistics["offset"][groups] = np.where(folds, 0.0, level - np.where(np.isfinite(rest), rest, 0.0))

    # dx

    def _through_x(self, block: Block, thread: int) -> None:
        launch = self._launch
        in_place = "dx" in launch.direct
        dx = launch.view("dx", block) if in_place else launch.scratch("work", block, thread)
        np.multiply(launch.read("dy", block, thread), launch.coefficient("factor", block, thread), dx)
        if not in_place:
            np.copyto(launch.view("dx", block), dx)

    def _through_statistics_and_x(self, block: Block, thread: int) -> None:
        launch = self._launch
        in_place = "dx" in launch.direct
        dx = launch.view("dx", block) if in_place else launch.scratch("work", block, thread)
        np.subtract(launch.read("x", block, thread), launch.coefficient("centre", block, thread), dx)
        np.multiply(dx, launch.coefficient("slope", block, thread), dx)
        if launch.statistics["offset"][block.groups].any():
            np.add(dx, launch.coefficient("offset", block, thread), dx)
        np.add(dx, launch.read("dy", block, thread), dx)
        np.multiply(dx, launch.coefficient("factor", block, thread), dx)
        if not in_place:
            np.copyto(launch.view("dx", block), dx)
