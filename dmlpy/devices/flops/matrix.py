"""The operations of GEMM."""

from __future__ import annotations

from typing import Any

from dmlpy.description.enums import MatrixTransform
from dmlpy.devices.flops import elements, flops, of_products
from dmlpy.operators.matrix import GEMMDesc


@flops(GEMMDesc)
@of_products
def gemm(desc: Any) -> int:
    terms = desc.a_tensor.sizes[-2 if desc.trans_a is MatrixTransform.TRANSPOSE else -1]
    return 2 * elements(desc) * int(terms)
