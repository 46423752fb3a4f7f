"""Instances of the kernels of indexing, padding, reversed subsequences, random words and Adam, such that each word occurs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlpy.devices.cuda.common.element_types import WORD_TYPES
from dmlpy.devices.cuda.generation.random import random_kernel
from dmlpy.devices.cuda.indexing.gather import GatherPlan, OneHotPlan
from dmlpy.devices.cuda.indexing.nonzero import KERNELS, nonzero_kernel
from dmlpy.devices.cuda.indexing.scatter import FIND_KERNEL, replace_kernel
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.movement.padding import PaddingPlan
from dmlpy.devices.cuda.movement.reverse import ReversePlan
from dmlpy.devices.cuda.optimization.plan import adam_kernel

PLANS = (GatherPlan, OneHotPlan, PaddingPlan, ReversePlan)


def vectorized_copy_instances() -> Iterator[Kernel]:
    """All of them."""
    for word_bytes in WORD_TYPES:
        yield from (plan.kernel(word_bytes) for plan in PLANS if plan.widens or word_bytes <= 8)
        yield replace_kernel(word_bytes)
        if word_bytes <= 4:
            yield from (nonzero_kernel(name, word_bytes) for name in KERNELS)
    yield FIND_KERNEL
    for width in (4, 1):
        yield random_kernel(width)
    for data_type, widest in ((np.dtype(np.float32), 4), (np.dtype(np.float16), 8)):
        for width in (widest, 1):
            yield adam_kernel(data_type, width)
