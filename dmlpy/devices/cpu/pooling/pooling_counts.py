"""`window_counts`: what an average pooling divides the sums of its windows by."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.reference.windows import windows

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.numpy.convolution.geometry import Array


def window_counts(desc: Any, isa: Isa) -> tuple[Array, Array]:
    """How many elements of each row and each column of windows count, float32; ones fill the last vector of columns."""
    rows, columns = windows(desc, desc.input_tensor.sizes[2:], desc.window_size[-2:], desc.output_tensor.sizes[2:])
    row_counts, column_counts = ((along.padded if desc.include_padding else along.inside).sum(axis=0) for along in (rows, columns))
    padded = np.ones(ceil(len(column_counts) / isa.lanes) * isa.lanes, np.float32)
    padded[: len(column_counts)] = column_counts
    return row_counts.astype(np.float32), padded
