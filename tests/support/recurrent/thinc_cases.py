"""The stored results of Thinc's LSTM: `tests/data/recompute_thinc_cases.py` tells what they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.support.folders import DATA

Array = np.ndarray[Any, Any]


class ThincCase(NamedTuple):
    """A model's parameters, a batch of sequences one after the other, and what Thinc makes of it."""

    lengths: Array
    LSTM: Array
    HC0: Array
    x: Array
    dy: Array
    y: Array
    dx: Array
    dLSTM: Array  # noqa: N815  (the gradient of LSTM)
    own_dx: Array | None = None

    @property
    def depth(self) -> int:
        return self.HC0.shape[1]

    @property
    def directions(self) -> int:
        return self.HC0.shape[2]

    @property
    def units(self) -> int:
        return self.HC0.shape[3]

    def parts(self, rows: Array) -> list[Array]:
        """The rows of each sequence."""
        return np.split(rows, np.cumsum(self.lengths)[:-1])

    def first_steps(self) -> Array:
        """The rows of the sequences' first steps."""
        return np.cumsum(self.lengths) - self.lengths


def load() -> list[ThincCase]:
    """All cases."""
    with np.load(DATA / "thinc_lstm.npz") as file:
        arrays: dict[str, dict[str, Array]] = {}
        for name in file.files:
            number, _, field = name.partition(".")
            arrays.setdefault(number, {})[field] = file[name]
    return [ThincCase(**arrays[number]) for number in sorted(arrays)]
