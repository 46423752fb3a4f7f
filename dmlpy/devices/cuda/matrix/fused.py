"""GEMM by one launch of cublasLt: the product with what follows it. `DMLPY_CUBLASLT=1` asks for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dmlpy.devices.cuda.common.matrix_products import fused_gemm
from dmlpy.devices.cuda.matrix.product import LibraryProduct, Operand, folded
from dmlpy.devices.cuda.matrix.tiles import Matrices
from dmlpy.devices.cuda.runtime.interface import Fusion
from dmlpy.operators.activation import ActivationReluDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices.cuda.kernels import KernelLibrary
    from dmlpy.devices.plan import Launch
    from dmlpy.operators.matrix import GEMMDesc

VARIABLE = "DMLPY_CUBLASLT"


@dataclass(frozen=True)
class FusedProduct:
    """output = f(alpha a b + beta c), f the identity or ReLU.

    Attributes:
        product: the product, into the output.
        c: the addend; None adds nothing.
        adds_row: whether c is a row that is added to each row, with a beta of 1.
        alpha: the factor of the product.
        beta: that of c.
        relu: whether f is max(0, x).
    """

    product: LibraryProduct
    c: Operand | None
    adds_row: bool
    alpha: float
    beta: float
    relu: bool

    @classmethod
    def of(cls, desc: GEMMDesc, a: Operand, b: Operand, tf32: bool) -> FusedProduct | None:
        """The product of a checked desc without softmax; None where the library has no such epilogue."""
        assert desc.output_tensor is not None
        function, data_type = desc.fused_activation, a.data_type
        if function is not None and not isinstance(function, ActivationReluDesc):
            return None
        third = None if desc.c_tensor is None or desc.beta == 0.0 else Operand("c_tensor", data_type, Matrices.of(desc.c_tensor))
        a, b, output, c = folded(a, b, Operand("output_tensor", data_type, Matrices.of(desc.output_tensor)), third)
        product = LibraryProduct(a, b, output, tf32)
        adds_row = c is not None and _is_row(c) and desc.beta == 1.0
        if not product.takes() or not product.pays() or not (c is None or adds_row or _is_like(c, output)):
            return None
        return cls(product, c, adds_row, desc.alpha, 0.0 if c is None else desc.beta, function is not None)

    def describe(self) -> str:
        added = "" if self.c is None else " and bias" if self.adds_row else " and addend"
        function = " and ReLU" if self.relu else ""
        return f"cublasLt, where it has an algorithm: {self.product.work()}{added}{function}"

    def bind(self, library: KernelLibrary, pointers: Mapping[str, int]) -> list[Launch] | None:
        """Its launches over tensors at these addresses; None if the library has no algorithm for them."""
        launches = []
        for product, entry in self.product.calls_at(pointers):
            addend, bias = None, 0
            if self.c is not None and self.adds_row:
                bias = pointers["c_tensor"]
            elif self.c is not None:
                addend = replace(self.c.matrix(pointers, *entry), step=self.c.matrices.strides[self.product.along])
            fusion = Fusion(self.alpha, self.beta, addend, bias, self.relu)
            launch = fused_gemm(library, pointers, product, fusion)
            if launch is None:
                return None
            launches.append(launch)
        return launches


def _is_row(c: Operand) -> bool:
    """Whether all rows of all matrices are one, whose elements are neighbours."""
    repeats = (stride == 0 or size == 1 for size, stride in zip(c.matrices.sizes[:3], c.matrices.strides[:3], strict=True))
    return all(repeats) and (c.matrices.strides[3] == 1 or c.matrices.sizes[3] == 1)


def _is_like(c: Operand, output: Operand) -> bool:
    """Whether the library can add it: rows lie as those of the output do, and one stride leads through a batch where it does there."""
    c_strides = c.library_strides()
    outer, inner = c.matrices.sizes[:2]
    through = [operand.matrices.strides for operand in (c, output)]
    is_one = [strides[0] == inner * strides[1] for strides in through]
    return c_strides is not None and not c_strides[1] and (outer == 1 or inner == 1 or is_one[0] or not is_one[1])
