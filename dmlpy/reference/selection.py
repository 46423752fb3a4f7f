"""Selection of elements by truth values that follow no pattern.

`numpy.where` branches at each element, which takes ten times as long as an operation where a processor cannot predict the branches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dmlpy.reference.registry import Array


def select(values: Array, mask: Array) -> Array:
    """Values where the mask is set and 0 elsewhere, whatever the values are."""
    bits = np.dtype(f"i{values.itemsize}")
    selected: Array = (np.ascontiguousarray(values).view(bits) & -mask.astype(bits)).view(values.dtype)
    return selected
