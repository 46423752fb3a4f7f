"""Divides the work of a recurrent layer among threads: by direction and by samples, which do not depend on each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmlpy.devices.numpy.recurrent.products import products_are_direct

if TYPE_CHECKING:
    from dmlpy.operators.recurrent.layer import RecurrentGeometry

_SAMPLES = 8
"""The samples of a recurrence are a multiple of this, as wide as a vector register."""
_MOST_SAMPLES = 64
"""The most samples of a recurrence, so that its arrays stay in a core's cache."""
_STEP_WORK = 3 << 19
"""Minimum multiplications per step and thread for threading to pay; the GIL serialises the calls."""
_SHARED_WORK = 1 << 20
"""Multiplications of a step's recurrent product from which BLAS gains by sharing it among its threads."""


@dataclass(frozen=True)
class Division:
    """The recurrences of a layer and the threads that they run on.

    Attributes:
        direct: whether products are computed some rows at a time, each on the recurrence's thread; else BLAS divides them among its
            threads.
        threads: the number of threads that run recurrences at the same time.
        recurrences: the direction and the samples of each.
    """

    direct: bool
    threads: int
    recurrences: tuple[tuple[int, slice], ...]

    @property
    def batches(self) -> set[int]:
        """The distinct numbers of samples in the recurrences."""
        return {int(samples.stop - samples.start) for _, samples in self.recurrences}


def division_of(sizes: RecurrentGeometry, gates: int, threads: int) -> Division:
    """The division of a layer in float32.

    Args:
        sizes: of the layer.
        gates: the gates that are computed.
        threads: the threads that may run at the same time.
    """
    directions, batch, entries = sizes.num_directions, sizes.batch_size, max(sizes.hidden_size, sizes.input_size)
    whole, most = undivided(directions, batch), _MOST_SAMPLES
    while most > _SAMPLES and not products_are_direct(entries, most):
        most //= 2
    if batch == 1 or not products_are_direct(entries, most):
        return whole
    sample_work = gates * sizes.hidden_size**2
    for workers in range(threads, threads // 2, -1):
        parts = -(-batch // most)
        while directions * parts % workers:
            parts += 1
        size = min(batch, -(-batch // (parts * _SAMPLES)) * _SAMPLES)
        starts = range(0, batch, size)
        recurrences = tuple((direction, slice(at, min(at + size, batch))) for direction in range(directions) for at in starts)
        if workers == 1 or (len(recurrences) >= workers and sample_work * size >= workers * _STEP_WORK):
            return Division(True, workers, recurrences)
    return Division(sample_work * batch <= _SHARED_WORK, 1, whole.recurrences)


def undivided(directions: int, batch: int) -> Division:
    """One recurrence per direction, in sequence."""
    return Division(False, 1, tuple((direction, slice(0, batch)) for direction in range(directions)))
