"""Matrix products by the library, for plans of any family: limits of their sizes, their scratch, and their description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import ExecutionFlags

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.cuda.kernels import KernelLibrary
    from dmlpy.devices.cuda.runtime.interface import Fusion, MatrixProduct
    from dmlpy.devices.plan import Launch

FLOAT = np.dtype(np.float32)

TF32_CAPABILITY = 80
"""The first compute capability whose tensor cores support TF32."""

BFLOAT16_CAPABILITY = 80
"""The first compute capability whose tensor cores, and the library's products, take BFLOAT16."""

MOST_ROWS = 2**31 - 1
"""Rows, columns and row strides of a matrix, sizes of an axis: an exclusive limit, since cuBLAS and the kernels count them in 32 bits."""

_WORKSPACE_ALIGNMENT = 256
"""The alignment of a matrix product's workspace, larger than that of a caller's scratch."""


def headline(library: KernelLibrary, data_type: np.dtype[Any], *, tf32: bool) -> str:
    """Names the device, the storage type and the arithmetic of a plan, for `describe`."""
    products = ", matrix products of TF32" if tf32 else ""
    return f"CUDA, {library.limits.name}, {data_type} storage, float32 arithmetic{products}"


def supported_flags(tf32: bool) -> ExecutionFlags:
    """The execution flags that affect a plan."""
    return ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION if tf32 else ExecutionFlags.NONE


def workspace(library: KernelLibrary) -> tuple[str, Sequence[int], np.dtype[Any]]:
    """The scratch array "workspace", in which all matrix products of a plan run one after another.

    The plan provides it so that a caller may capture a dispatch: memory that the library allocated would become part of the graph.
    """
    return "workspace", (library.runtime.workspace_size(library.device) + _WORKSPACE_ALIGNMENT,), np.dtype(np.uint8)


def gemm(library: KernelLibrary, scratch: Mapping[str, int], product: MatrixProduct) -> Launch:
    """Matrix products that work in the scratch array "workspace": see `CudaRuntime.gemm`."""
    return library.runtime.bind_gemm(library.device, product, _aligned(scratch["workspace"]))


def fused_gemm(library: KernelLibrary, scratch: Mapping[str, int], product: MatrixProduct, fusion: Fusion) -> Launch | None:
    """The same with what follows the products: see `CudaRuntime.bind_fused_gemm`."""
    return library.runtime.bind_fused_gemm(library.device, product, fusion, _aligned(scratch["workspace"]))


def _aligned(address: int) -> int:
    return address + -address % _WORKSPACE_ALIGNMENT
