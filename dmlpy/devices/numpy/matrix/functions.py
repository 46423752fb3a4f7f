"""What the matrix operators compute, on whole arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlpy.devices.numpy.fused import fused
from dmlpy.devices.numpy.whole import Array, Function
from dmlpy.enums import MatrixTransform
from dmlpy.operators.matrix import GEMMDesc


def _gemm(desc: GEMMDesc, inputs: Mapping[str, Any]) -> Array:
    a, b, c = inputs["a_tensor"], inputs["b_tensor"], inputs["c_tensor"]
    if desc.trans_a is MatrixTransform.TRANSPOSE:
        a = a.swapaxes(-1, -2)
    if desc.trans_b is MatrixTransform.TRANSPOSE:
        b = b.swapaxes(-1, -2)
    result = desc.alpha * np.matmul(a, b)
    if c is not None:
        result = result + desc.beta * c
    return fused(desc.fused_activation, result)


FUNCTIONS: Mapping[str, Function] = {"GEMM": _gemm}
"""The functions by the operators' short names."""
