"""`record_of`: the parameters of a compiled kernel, in the memory that it reads them from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping


def record_of(kind: np.dtype[np.void], values: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.void]]:
    """A record of a kind in an array of its own, with the values of some fields and zeros in the others."""
    record = np.zeros(1, kind)
    for name, value in values.items():
        record[name] = value
    return record
