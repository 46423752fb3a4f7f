"""Products with an epilogue by cublasLt's C interface: bias, addend and ReLU in the launch of the product, for batches of any count.

cublasLt chooses an algorithm for the matrices, their addresses' alignment and a workspace; it may have none, and then there is no product.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cuda.runtime.cublas import COMPUTE_32F, COMPUTE_32F_FAST_TF32, OP_N, OP_T, REAL_TYPES, load_library
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cuda.runtime.interface import Fusion, Matrix, MatrixProduct

# cublasLt.h
_TRANS_A, _TRANS_B, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8  # cublasLtMatmulDescAttributes_t
_BATCH_COUNT, _BATCH_OFFSET = 5, 6  # cublasLtMatrixLayoutAttribute_t
_MAX_WORKSPACE, _REDUCTION_SCHEMES, _MIN_ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # cublasLtMatmulPreferenceAttributes_t, of A, B, C and D
_DEFAULT_EPILOGUE, _RELU, _BIAS = 1, 2, 4  # cublasLtEpilogue_t
_SUMS_OF_COMPUTE_TYPE = 2  # cublasLtReductionScheme_t: parts of a sum are float32, also where the result is not
_NOT_SUPPORTED = (7, 8, 15)  # cublasStatus_t: invalid value, an older architecture, not supported
_MOST_ALIGNMENT = 256
_BIAS_ALIGNMENT = 16
"""Algorithms may read so many bytes of a bias at once, and are not chosen by its address: a misaligned one would end the context."""

_INT, _LONG, _SIZE, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
_OUT = ctypes.POINTER(_POINTER)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (_OUT,),
    "cublasLtMatmulDescCreate": (_OUT, _INT, _INT),
    "cublasLtMatmulDescSetAttribute": (_POINTER, _INT, _POINTER, ctypes.c_size_t),
    "cublasLtMatmulDescDestroy": (_POINTER,),
    "cublasLtMatrixLayoutCreate": (_OUT, _INT, _SIZE, _SIZE, _LONG),
    "cublasLtMatrixLayoutSetAttribute": (_POINTER, _INT, _POINTER, ctypes.c_size_t),
    "cublasLtMatrixLayoutDestroy": (_POINTER,),
    "cublasLtMatmulPreferenceCreate": (_OUT,),
    "cublasLtMatmulPreferenceSetAttribute": (_POINTER, _INT, _POINTER, ctypes.c_size_t),
    "cublasLtMatmulPreferenceDestroy": (_POINTER,),
    # handle, operation, A, B, C, D, preference, wanted, results, found
    "cublasLtMatmulAlgoGetHeuristic": (*(_POINTER,) * 7, ctypes.c_int, _POINTER, _POINTER),
    # handle, operation, alpha, A, its layout, B, its layout, beta, C, its layout, D, its layout, algorithm, workspace, its size, stream
    "cublasLtMatmul": (*(_POINTER,) * 14, ctypes.c_size_t, _POINTER),
}


class HeuristicResult(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_size", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves_count", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class CublasLt:
    """A cublasLt handle of one device, which must be current in every call. Threads may share it.

    Args:
        library: the loaded cublasLt; None finds the one that belongs to CuPy's cuBLAS.

    Raises:
        DeviceError: the library is not installed, or fails.
    """

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._library = load_library("cublasLt") if library is None else library
        for name, types in _SIGNATURES.items():
            getattr(self._library, name).argtypes = types
        self._handle = _POINTER()
        self._call("cublasLtCreate", ctypes.byref(self._handle))

    def bind(self, product: MatrixProduct, fusion: Fusion, workspace: tuple[int, int]) -> Callable[[int], None] | None:
        """Enqueues D = f(alpha A @ transpose(B) + beta C + bias) on a stream; None if no algorithm takes the matrices and the bias.

        Args:
            product: A, B and the result, D; it does not accumulate.
            fusion: what follows the product.
            workspace: its address, a multiple of 256, and its size in bytes.
        """
        a, b, d = product.a, product.b, product.c
        if fusion.bias % _BIAS_ALIGNMENT:
            return None
        c = d if fusion.addend is None else fusion.addend
        operation = self._create("cublasLtMatmulDesc", COMPUTE_32F_FAST_TF32 if product.rounds else COMPUTE_32F, REAL_TYPES["float32"])
        # cublasLt is column-major: see `Cublas.bind`.
        self._set("cublasLtMatmulDesc", operation, _TRANS_A, _INT(OP_N if b.transposed else OP_T))
        self._set("cublasLtMatmulDesc", operation, _TRANS_B, _INT(OP_T if a.transposed else OP_N))
        epilogue = (_RELU if fusion.relu else 0) | (_BIAS if fusion.bias else 0) or _DEFAULT_EPILOGUE
        self._set("cublasLtMatmulDesc", operation, _EPILOGUE, ctypes.c_uint32(epilogue))
        if fusion.bias:
            self._set("cublasLtMatmulDesc", operation, _BIAS_POINTER, _POINTER(fusion.bias))
        matrices = (b, a, c, d)
        layouts = [self._layout(matrix, product.batch) for matrix in matrices]
        algorithm = self._algorithm(operation, layouts, matrices, workspace[1])
        if algorithm is None:
            return None
        alpha, beta = ctypes.c_float(fusion.alpha), ctypes.c_float(fusion.beta if fusion.addend is not None else 0.0)
        left, right, third, result = ((_POINTER(matrix.pointer), layout) for matrix, layout in zip(matrices, layouts, strict=True))
        scalars = [_POINTER(ctypes.addressof(scalar)) for scalar in (alpha, beta)]
        place, size = _POINTER(workspace[0]), ctypes.c_size_t(workspace[1])
        fixed = (self._handle, operation, scalars[0], *left, *right, scalars[1], *third, *result, ctypes.byref(algorithm), place, size)

        def multiply(stream: int, kept: Any = (alpha, beta)) -> None:  # keeps the pointers' targets alive
            self._call("cublasLtMatmul", *fixed, stream)

        return multiply

    def _layout(self, matrix: Matrix, batch: int) -> Any:
        """The layout of a matrix as it lies in memory, whose rows are columns there."""
        length, count = (matrix.rows, matrix.columns) if matrix.transposed else (matrix.columns, matrix.rows)
        layout = self._create("cublasLtMatrixLayout", REAL_TYPES[matrix.data_type.name], length, count, matrix.row_stride)
        if batch > 1:
            self._set("cublasLtMatrixLayout", layout, _BATCH_COUNT, _INT(batch))
            self._set("cublasLtMatrixLayout", layout, _BATCH_OFFSET, _LONG(matrix.step))
        return layout

    def _algorithm(self, operation: Any, layouts: list[Any], matrices: tuple[Matrix, ...], workspace: int) -> HeuristicResult | None:
        """The algorithm that is expected to be the fastest; its first member is what `cublasLtMatmul` takes."""
        preference = self._create("cublasLtMatmulPreference")
        self._set("cublasLtMatmulPreference", preference, _MAX_WORKSPACE, _SIZE(workspace))
        self._set("cublasLtMatmulPreference", preference, _REDUCTION_SCHEMES, ctypes.c_uint32(_SUMS_OF_COMPUTE_TYPE))
        for attribute, matrix in zip(_MIN_ALIGNMENTS, matrices, strict=True):
            alignment = min(matrix.pointer & -matrix.pointer, _MOST_ALIGNMENT)
            self._set("cublasLtMatmulPreference", preference, attribute, ctypes.c_uint32(alignment))
        result, count = HeuristicResult(), ctypes.c_int()
        query = self._library.cublasLtMatmulAlgoGetHeuristic
        status = query(self._handle, operation, *layouts, preference, 1, ctypes.byref(result), ctypes.byref(count))
        if status in _NOT_SUPPORTED:
            return None
        if status:
            raise DeviceError(f"cublasLtMatmulAlgoGetHeuristic failed with cublasStatus_t {status}")
        return result if count.value and not result.state and result.workspace_size <= workspace else None

    def _create(self, kind: str, *arguments: int) -> Any:
        """A new descriptor, which lives as long as this pointer."""
        descriptor = _POINTER()
        self._call(f"{kind}Create", ctypes.byref(descriptor), *arguments)
        weakref.finalize(descriptor, getattr(self._library, f"{kind}Destroy"), descriptor.value).atexit = False
        return descriptor

    def _set(self, kind: str, descriptor: Any, attribute: int, value: Any) -> None:
        self._call(f"{kind}SetAttribute", descriptor, attribute, ctypes.byref(value), ctypes.sizeof(value))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise DeviceError(f"{name} failed with cublasStatus_t {status}")
