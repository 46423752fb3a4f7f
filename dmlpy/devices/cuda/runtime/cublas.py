"""The cuBLAS products that the plans need, called directly: CuPy's wrapper rejects a stream that is being captured."""

from __future__ import annotations

import ctypes
import importlib
from typing import TYPE_CHECKING, Any

from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cuda.runtime.interface import MatrixProduct

# cublas_api.h and library_types.h
OP_N, OP_T = 0, 1
REAL_TYPES = {"float32": 0, "float16": 2, "bfloat16": 14}
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77
_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
_GEMM_DEFAULT = -1
_STATUS_ALLOC_FAILED = 3

_INT, _LONG, _POINTER = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (ctypes.POINTER(_POINTER),),
    "cublasSetMathMode": (_POINTER, _INT),
    "cublasSetStream_v2": (_POINTER, _POINTER),
    "cublasSetWorkspace_v2": (_POINTER, _POINTER, ctypes.c_size_t),
    # handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype, ldc, computeType, algo
    "cublasGemmEx": (
        *(_POINTER, _INT, _INT, _INT, _INT, _INT, _POINTER),
        *(_POINTER, _INT, _INT, _POINTER, _INT, _INT, _POINTER),
        *(_POINTER, _INT, _INT, _INT, _INT),
    ),
    # the same with the elements from one matrix of a batch to the next after each leading dimension, and the batch after the last
    "cublasGemmStridedBatchedEx": (
        *(_POINTER, _INT, _INT, _INT, _INT, _INT, _POINTER),
        *(_POINTER, _INT, _INT, _LONG, _POINTER, _INT, _INT, _LONG, _POINTER),
        *(_POINTER, _INT, _INT, _LONG, _INT, _INT, _INT),
    ),
}


class Cublas:
    """A cuBLAS handle of one device, which must be current in every call. Threads may share it.

    A product uses the given workspace. Without one it uses memory that cuBLAS allocates, one block for each stream; while a
    stream is being captured, cuBLAS allocates again, and the memory becomes part of the graph.

    Args:
        library: the loaded cuBLAS; None finds the one that CuPy uses.

    Raises:
        DeviceError: the library is not installed, or fails.
    """

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._library = load_library("cublas") if library is None else library
        for name, types in _SIGNATURES.items():
            getattr(self._library, name).argtypes = types
        self._handle = _POINTER()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        # Sums in float32 throughout, also where a product is split along k; TF32 only where a product asks for it.
        self._call("cublasSetMathMode", self._handle, _DISALLOW_REDUCED_PRECISION_REDUCTION)
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self._lock = forks.lock()

    def bind(self, product: MatrixProduct, workspace: tuple[int, int] | None = None) -> Callable[[int], None]:
        """Enqueues matrix products on a stream.

        Args:
            product: the matrices and what is computed.
            workspace: its address, a multiple of 256, and its size in bytes.
        """
        a, b, c = product.a, product.b, product.c
        # cuBLAS is column-major: a row-major matrix is its transpose there, and transpose(C) = B @ transpose(A).
        of_b, of_a = OP_N if b.transposed else OP_T, OP_T if a.transposed else OP_N
        operand = REAL_TYPES[a.data_type.name]
        compute = COMPUTE_32F_FAST_TF32 if product.rounds else COMPUTE_32F
        beta = self._one if product.accumulate else self._zero
        shape = (self._handle.value, of_b, of_a, b.rows, a.rows, a.columns, ctypes.addressof(self._one))
        left, right = ((matrix.pointer, operand, matrix.row_stride) for matrix in (a, b))
        result, how = (c.pointer, REAL_TYPES[c.data_type.name], c.row_stride), (compute, _GEMM_DEFAULT)
        values: tuple[Any, ...] = (*shape, *right, *left, ctypes.addressof(beta), *result, *how)
        name = "cublasGemmEx"
        if product.batch > 1:
            values = (*shape, *right, b.step, *left, a.step, ctypes.addressof(beta), *result, c.step, product.batch, *how)
            name = "cublasGemmStridedBatchedEx"
        # Converted once: for this many arguments conversion takes as long as the call.
        arguments = [kind(value) for kind, value in zip(_SIGNATURES[name], values, strict=True)]

        def multiply(stream: int) -> None:
            with self._lock:
                self._call("cublasSetStream_v2", self._handle, stream)
                if workspace is not None:
                    self._call("cublasSetWorkspace_v2", self._handle, *workspace)  # each cublasSetStream forgets it
                self._call(name, *arguments)

        return multiply

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status == _STATUS_ALLOC_FAILED:
            raise MemoryError(f"{name} found no memory on the device")
        if status:
            raise DeviceError(f"{name} failed with cublasStatus_t {status}")


def load_library(name: str) -> ctypes.CDLL:
    """Loads a library of the cuBLAS that CuPy uses, by CuPy's search. Raises DeviceError if it is not there."""
    try:
        path = importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib(name).abs_path
        if path is None:
            raise OSError("it is loaded from an unknown place")
        return ctypes.CDLL(path)
    except (ImportError, RuntimeError, OSError) as error:
        what = "cuBLAS" if name == "cublas" else name
        raise DeviceError(f"{what} cannot be loaded (pip install dmlpy[cuda13] or dmlpy[cuda12] brings it): {error}") from error
