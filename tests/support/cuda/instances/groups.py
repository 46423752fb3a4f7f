"""Instances of the kernel of softmax, its logarithm and hardmax, such that each width of access occurs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np

from dmlpy.devices.cuda.activation.groups import FUNCTIONS, groups_kernel
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES
from dmlpy.devices.cuda.kernels import Kernel


def groups_instances() -> Iterator[Kernel]:
    """Each element type along groups and across them: every function with the widest access, and the functions in turn with others; of
    groups that threads keep and of others in turn."""
    turns, once = cycle(FUNCTIONS), cycle((True, False, False, True))
    data_types: tuple[np.dtype[Any], ...] = (np.dtype(np.float32), np.dtype(np.float16))
    for data_type, across in product(data_types, (False, True)):
        widest = VECTOR_BYTES // data_type.itemsize
        for function in FUNCTIONS:
            yield groups_kernel(data_type, function, widest, across, next(once))
        for width in (1, 2, 4):
            if width < widest:
                yield groups_kernel(data_type, next(turns), width, across, next(once))
