"""Every instance of the kernels of GRUBlockCell and GRUBlockCellGrad."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent.block_cell import PARAMETERS, block_kernel


def block_cell_instances() -> Iterator[Kernel]:
    """Each kernel for each element type."""
    for name, data_type in product(PARAMETERS, (np.float32, np.float16)):
        yield block_kernel(name, np.dtype(data_type))
