"""The definitions of the matrix operators, on whole arrays."""

from __future__ import annotations

import numpy as np

from dmlpy.description.enums import MatrixTransform
from dmlpy.operators.matrix import GEMMDesc
from dmlpy.reference.fused import fused
from dmlpy.reference.registry import Array, Inputs, defines


def _times(factor: float, array: Array) -> Array:
    """A product of floating-point numbers; with 1 they are the array's."""
    return array if factor == 1 and array.dtype.kind == "f" else factor * array


@defines(GEMMDesc)
def _gemm(desc: GEMMDesc, inputs: Inputs) -> Array:
    a, b, c = inputs["a_tensor"], inputs["b_tensor"], inputs["c_tensor"]
    if desc.trans_a is MatrixTransform.TRANSPOSE:
        a = a.swapaxes(-1, -2)
    if desc.trans_b is MatrixTransform.TRANSPOSE:
        b = b.swapaxes(-1, -2)
    result = _times(desc.alpha, np.matmul(a, b))
    if c is not None:
        result = result + _times(desc.beta, c)
    return fused(desc.fused_activation, result)
