"""The definitions of the matrix operators, on whole arrays."""

from __future__ import annotations

import numpy as np

from dmlpy.description.enums import MatrixTransform
from dmlpy.operators.matrix import GEMMDesc
from dmlpy.reference.fused import fused
from dmlpy.reference.registry import Array, Inputs, defines


@defines(GEMMDesc)
def _gemm(desc: GEMMDesc, inputs: Inputs) -> Array:
    a, b, c = inputs["a_tensor"], inputs["b_tensor"], inputs["c_tensor"]
    if desc.trans_a is MatrixTransform.TRANSPOSE:
        a = a.swapaxes(-1, -2)
    if desc.trans_b is MatrixTransform.TRANSPOSE:
        b = b.swapaxes(-1, -2)
    result = desc.alpha * np.matmul(a, b)
    if c is not None:
        result = result + desc.beta * c
    return fused(desc.fused_activation, result)
