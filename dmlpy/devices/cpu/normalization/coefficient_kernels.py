"""The compiled coefficients of a batch normalization with known statistics: y = (x - centre) * factor + offset.

They are those of `devices/numpy/normalization/forward.py`, which explains them, with the same operations in float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.normalization.plan import CoefficientParameters
from dmlpy.devices.cpu.simd import set_float, struct_view
from dmlpy.devices.numpy.normalization.common import FOLDED_SHARE

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_INFINITY = math.inf


def build_coefficients(stored: Storage, isa: Isa) -> TaskBody:
    """Builds the computation of the coefficients, to be compiled. It runs on one thread.

    Args:
        stored: the type of the statistics in memory.
        isa: the instruction set that it is compiled for.
    """
    parameters_at, number_at = struct_view(CoefficientParameters), load_store_of(stored, isa).load_one

    @jit
    def element(address: Any, step: Any, group: Any) -> Any:
        return float(number_at(address + step * group))

    def compute(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        for group in range(p.groups):
            mean, variance = element(p.mean, p.mean_step, group), element(p.variance, p.variance_step, group)
            scale, bias = element(p.scale, p.scale_step, group), element(p.bias, p.bias_step, group)
            factor = float(np.float32(scale / math.sqrt(variance + p.epsilon)))
            rounded = float(np.float32(mean))
            rest = (mean - rounded) * factor
            offset = bias - rest if abs(rest) < _INFINITY else bias
            folded = float(np.float32(mean - bias / factor))
            folds = variance > 0.0 and mean * mean <= FOLDED_SHARE * variance and abs(folded) < _INFINITY and abs(factor) < _INFINITY
            at = group * FLOAT_BYTES
            set_float(p.factor + at, np.float32(factor))
            set_float(p.centre + at, np.float32(folded if folds else rounded))
            set_float(p.offset + at, np.float32(0.0 if folds else offset))

    return compute
