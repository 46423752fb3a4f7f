"""Batch normalization on the host, with given statistics or those of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.numpy.activation.formulas import Activation
from dmlpy.devices.numpy.normalization.common import FOLDED_SHARE, LARGEST_SHARE, Array, NormalizationLaunch, NormalizationPlan, as_float64
from dmlpy.devices.numpy.plans import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.numpy.normalization.blocks import Block
    from dmlpy.operators.normalization.geometry import NormalizationGeometry

ATTEMPTS = 3
"""The attempts: sums of x itself, of x minus the group's first entry, and of x minus the mean from those sums."""


class ForwardPlan(NormalizationPlan):
    """Computes y, and in training the statistics, from sums over blocks.

    The sums are of x and x^2 directly, which needs no other calls. That loses digits if a mean is large compared with the
    deviation; the blocks of such groups are read again, less the group's first entry (then equal entries give exactly variance 0), and
    if that was an outlier once more, less the mean. Each group is decided separately: other groups' values change none of its bits.
    """

    def __init__(self, geometry: NormalizationGeometry) -> None:
        self._activation = None if geometry.activation is None else Activation.of(geometry.activation, COMPUTE)
        super().__init__(geometry)

    def _sums(self) -> tuple[str, ...]:
        return ("x", "x^2") if self._geometry.training else ()

    def _statistics(self) -> dict[str, np.dtype[Any]]:
        statistics = dict.fromkeys(self._coefficients(), COMPUTE)
        return statistics | {"mean": np.dtype(np.float64), "variance": COMPUTE} if self._geometry.training else statistics

    def _coefficients(self) -> tuple[str, ...]:
        return "centre", "factor", "offset"

    @property
    def _writes_in_place(self) -> bool:
        """Whether calls work on y's memory."""
        return "y" in self._roles and self._activation is None and self._is_direct("y")

    def _work_arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        arrays: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        if self._geometry.training or not self._writes_in_place:
            arrays["work"] = (), COMPUTE
        if self._activation is not None:
            arrays |= {"activation": ((self._activation.work,), COMPUTE), "mask": ((), np.dtype(np.bool_))}
        return arrays

    def describe(self) -> str:
        lines = [self._describe_blocks(), *self._describe_copies()]
        if self._geometry.training:
            lines.append("statistics: sums of x and x^2; blocks of groups with a large mean are read again, centred")
        if "y" in self._roles:
            added = " + add" * ("add" in self._roles)
            lines.append(f"y: (x - centre) * factor [+ offset]{added}, the offset only where the centre cannot hold it")
        if self._geometry.activation is not None:
            lines.append(f"activation: {self._geometry.activation.type_name}")
        return "\n".join(lines)

    def _work(self, launch: NormalizationLaunch) -> Callable[[], None]:
        return Forward(self, launch).run


class Forward:
    """A dispatch of the plan."""

    def __init__(self, plan: ForwardPlan, launch: NormalizationLaunch) -> None:
        self._launch, self._geometry = launch, plan._geometry
        self._activation, self._in_place = plan._activation, plan._writes_in_place
        self._n = float(launch.blocking.group_size)
        self._largest = float(np.finfo(COMPUTE).max)

    def run(self) -> None:
        launch = self._launch
        if self._geometry.training:
            self._find_statistics()
        launch.share(self._prepare, (blocks[0] for blocks in launch.blocking.ranges))
        if "y" in launch.tensors:
            launch.share(self._normalize, launch.every_block)

    # Statistics

    def _find_statistics(self) -> None:
        launch = self._launch
        launch.statistics["centre"].fill(0.0)
        unsettled: Sequence[tuple[Block, ...]] = launch.blocking.ranges
        for attempt in range(ATTEMPTS):
            launch.share(self._add_up, (block for blocks in unsettled for block in blocks))
            with np.errstate(all="ignore"):
                unsettled = [blocks for blocks in unsettled if not self._settles(blocks[0], attempt)]

    def _add_up(self, block: Block, thread: int) -> None:
        launch = self._launch
        x = launch.read("x", block, thread)
        if launch.statistics["centre"][block.groups].any():
            work = launch.scratch("work", block, thread)
            np.subtract(x, launch.coefficient("centre", block, thread), work)
            x = work
        launch.add_up(0, block, thread, x)
        launch.add_up(1, block, thread, x, x)

    def _settles(self, block: Block, attempt: int) -> bool:
        """Computes the means and variances of a block's groups. Returns whether they are accurate; if not, sets the centre to use next."""
        statistics, groups = self._launch.statistics, block.groups
        centre = statistics["centre"][groups]
        sums, squares = self._launch.total(block)
        shift = sums / self._n
        about_mean = squares - shift * sums
        mean = centre + shift
        statistics["mean"][groups] = mean
        # Whether a sum overflows depends on its values; whether to infinity or to NaN, on the order of addition.
        statistics["variance"][groups] = np.where(about_mean <= self._largest, np.maximum(about_mean, 0.0) / self._n, np.nan)
        settled = (np.isfinite(squares) & (squares <= LARGEST_SHARE * about_mean)) | np.isnan(squares)
        if settled.all():
            return True
        nearer = self._launch.tensors["x"][groups] if attempt == 0 else mean
        nearer = np.where(np.isfinite(nearer), nearer, centre).astype(COMPUTE)
        statistics["centre"][groups] = np.where(settled, centre, nearer)
        return False

    # Coefficients

    def _prepare(self, block: Block, thread: int) -> None:
        """Computes the coefficients of y, and the outputs that hold statistics, for a block's groups."""
        groups, tensors = block.groups, self._launch.tensors
        if self._geometry.training:
            variance = as_float64(self._launch.statistics["variance"][groups])
            mean = np.where(np.isnan(variance), np.nan, self._launch.statistics["mean"][groups])
            unbiased = variance * (self._n / max(self._n - 1.0, 1.0))
            moments = {"mean": (mean, mean), "variance": (variance, unbiased)}
        else:
            mean, variance = (as_float64(tensors[role][groups]) for role in ("mean", "variance"))
            moments = {"mean": (mean, mean), "variance": (variance, variance)}
        for name, (batch, latest) in moments.items():
            self._write(f"batch_{name}", groups, batch)
            self._write(f"running_{name}", groups, self._average(name, groups, latest))
        if "y" in tensors:
            self._set_coefficients(groups, mean, variance)

    def _write(self, role: str, groups: Any, values: Array) -> None:
        if role in self._launch.tensors:
            self._launch.tensors[role][groups] = values

    def _average(self, name: str, groups: Any, latest: Array) -> Array:
        weight = self._geometry.average_factor
        if not self._geometry.training or weight == 1.0 or name not in self._launch.tensors:
            return latest
        average: Array = (1.0 - weight) * as_float64(self._launch.tensors[name][groups]) + weight * latest
        return average

    def _set_coefficients(self, groups: Any, mean: Array, variance: Array) -> None:
        """Sets the coefficients of y = (x - centre) * factor + offset.

        The nearest number to the mean as centre, with what is left of it in the offset, is right for every x. One call less gives
        x - (mean - bias / factor): rounding that centre costs the result a rounding of the bias and one of the mean's multiple of the
        deviation, so it is for groups in which that multiple is small.
        """
        scale, bias = (as_float64(self._launch.tensors[role][groups]) for role in ("scale", "bias"))
        factor = (scale / np.sqrt(variance + self._geometry.epsilon)).astype(COMPUTE)
        rounded = mean.astype(COMPUTE)
        rest = (mean - rounded) * factor
        offset = bias - np.where(np.isfinite(rest), rest, 0.0)
        folded = (mean - bias / factor).astype(COMPUTE)
        folds = (variance > 0.0) & (mean * mean <= FOLDED_SHARE * variance) & np.isfinite(folded) & np.isfinite(factor)
        statistics = self._launch.statistics
        statistics["factor"][groups] = factor
        statistics["centre"][groups] = np.where(folds, folded, rounded)
        statistics["offset"][groups] = np.where(folds, 0.0, offset)

    # y

    def _normalize(self, block: Block, thread: int) -> None:
        launch = self._launch
        x = launch.read("x", block, thread)
        y = launch.view("y", block) if self._in_place else launch.scratch("work", block, thread)
        np.subtract(x, launch.coefficient("centre", block, thread), y)
        np.multiply(y, launch.coefficient("factor", block, thread), y)
        if launch.statistics["offset"][block.groups].any():
            np.add(y, launch.coefficient("offset", block, thread), y)
        if "add" in launch.tensors:
            np.add(y, launch.read("add", block, thread), y)
        if self._activation is not None:
            self._activate(y.reshape(-1), thread)
        if not self._in_place:
            np.copyto(launch.view("y", block), y)

    def _activate(self, y: Array, thread: int) -> None:
        assert self._activation is not None
        scratch = self._launch.thread_arrays[thread]
        self._activation.bind(y, y, scratch["activation"], scratch["mask"])()
