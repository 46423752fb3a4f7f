"""The plan of a compiled matrix product whose A is transposed: both matrices are multiplied as they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.arrays import array_at
from dmlpy.devices.cpu.matrix.blocked import BlockedProduct, load_products, scratch_bytes
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, arrays_of
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from dmlpy.operators.matrix import GEMMDesc


class TransposedProductPlan(PlanWithoutConstants):
    """GEMM of FLOAT32 with a transposed A, as the gradient of a dense layer's weights is.

    Args:
        desc: a checked desc of one matrix, without C, alpha and a fused function, whose rows are contiguous.
    """

    def __init__(self, desc: GEMMDesc) -> None:
        self._tensors, self._threads = desc.tensors(), available_threads()
        self.temporary_size = scratch_bytes(self._threads)

    def load(self) -> None:
        load_products(transposed=True)

    def describe(self) -> str:
        return f"compiled by Numba, {COMPUTE} arithmetic on up to {self._threads} thread(s); A and B are read as they lie"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        matrices = {name: array.reshape(array.shape[-2:]) for name, array in arrays_of(self._tensors, tensors).items()}
        a, scratch = matrices["a_tensor"], array_at(temporary, (self.temporary_size,), np.uint8, (1,))
        multiply = BlockedProduct(a, matrices["b_tensor"], matrices["output_tensor"], scratch, self._threads, transposed=True)
        return lambda stream: multiply()
