"""Instances of the kernels of matrix products: each pair of element types, each fused function, each kind of sums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

from dmlpy.devices.cuda.common.element_engine import elements_kernel
from dmlpy.devices.cuda.common.epilogue import epilogue
from dmlpy.devices.cuda.common.functors import ATTRIBUTES
from dmlpy.devices.cuda.kernels import Kernel, scalar_type
from dmlpy.devices.cuda.matrix.plan import EPILOGUE_FILE
from dmlpy.devices.cuda.matrix.product import PRODUCT_FILE, product_kernel
from dmlpy.devices.cuda.quantized.products import BYTES, SUMS, integer_product_kernel
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

HALF: np.dtype[Any] = np.dtype(np.float16)
FLOAT: np.dtype[Any] = np.dtype(np.float32)


def matrix_instances() -> Iterator[Kernel]:
    """All of them; fused functions take turns with the element types."""
    turns = cycle((FLOAT, HALF))
    functions = [ElementWiseClipDesc(min=0.0, max=1.0), *(activation() for activation in ATTRIBUTES)]
    for function in functions:
        data_type = next(turns)
        yield product_kernel(data_type, data_type, epilogue(PRODUCT_FILE, function))
        scalar = scalar_type(data_type)
        yield elements_kernel(epilogue(EPILOGUE_FILE, function), 4, "int32", 8, [scalar, "float", scalar])
    yield product_kernel(HALF, FLOAT, epilogue(PRODUCT_FILE, None))
    for data_type in (FLOAT, HALF):
        yield product_kernel(data_type, data_type, epilogue(PRODUCT_FILE, functions[1]), "combine_products")
    yield elements_kernel(epilogue(EPILOGUE_FILE, None), 1, "int64", 16, ["float", "float", "Absent"])
    yield integer_product_kernel(BYTES, "Whole")
    for sums in (BYTES, SUMS[16]):
        yield integer_product_kernel(sums, "Requantized")
    for sums in (BYTES, *SUMS.values()):
        for data_type in (FLOAT, HALF):
            yield integer_product_kernel(sums, "Dequantized", data_type)
