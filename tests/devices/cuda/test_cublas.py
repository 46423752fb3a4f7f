"""The direct calls of cuBLAS, against a library with its interface that multiplies on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda.emulation.compiler import compile_program
from dmlpy.devices.cuda.runtime.cublas import Cublas
from dmlpy.devices.cuda.runtime.interface import Matrix, MatrixProduct
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.library_matrices import matrix, operand
from tests.support.tools import require

LIBRARY = """
#include <stddef.h>
// As cublas_api.h declares it: column-major matrices, element types 0 (float) and 2 (half), host scalars, compute types 68 (float32) and 77
// (float32 with factors in TF32).
static void* stream = nullptr;
static void* workspace = nullptr;
static size_t workspace_size = 0;
static int handle, math_mode = 0, compute_type = 0;
static float at(const void* matrix, int type, long place) {
    return type == 0 ? static_cast<const float*>(matrix)[place] : float(static_cast<const _Float16*>(matrix)[place]);
}
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int cublasCreate_v2(void** made) { *made = &handle; return 0; }
EXPORT int cublasSetMathMode(void* h, int mode) { math_mode = mode; return h == &handle ? 0 : 1; }
EXPORT int cublasSetStream_v2(void* h, void* s) { stream = s; workspace = nullptr; workspace_size = 0; return h == &handle ? 0 : 1; }
EXPORT int cublasSetWorkspace_v2(void* h, void* w, size_t size) { workspace = w; workspace_size = size; return h == &handle ? 0 : 1; }
EXPORT int cublasGemmEx(void* h, int transa, int transb, int m, int n, int k, const void* alpha, const void* A, int Atype, int lda,
                        const void* B, int Btype, int ldb, const void* beta, void* C, int Ctype, int ldc, int compute, int algo) {
    if (h != &handle) return 1;
    if (m < 0 || n < 0 || k < 0 || lda < (transa ? k : m) || ldb < (transb ? n : k) || ldc < m) return 7;
    compute_type = compute;
    if (compute != 68 && (compute != 77 || Atype != 0)) return 15;
    if ((Ctype != 0 && Ctype != Atype) || algo != -1 || Atype != Btype || (Atype != 0 && Atype != 2)) return 15;
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
            float sum = 0;
            for (int p = 0; p < k; ++p)
                sum += at(A, Atype, transa ? p + long(i) * lda : i + long(p) * lda) *
                       at(B, Btype, transb ? j + long(p) * ldb : p + long(j) * ldb);
            const long place = i + long(j) * ldc;
            const float scale = *static_cast<const float*>(beta);
            const float value = *static_cast<const float*>(alpha) * sum + (scale ? scale * at(C, Ctype, place) : 0.0f);
            if (Ctype == 0) static_cast<float*>(C)[place] = value;
            else static_cast<_Float16*>(C)[place] = _Float16(value);
        }
    return 0;
}
EXPORT int cublasGemmStridedBatchedEx(void* h, int transa, int transb, int m, int n, int k, const void* alpha, const void* A, int Atype,
                                      int lda, long long stepA, const void* B, int Btype, int ldb, long long stepB, const void* beta,
                                      void* C, int Ctype, int ldc, long long stepC, int count, int compute, int algo) {
    const auto moved = [](const void* matrix, long long elements, int type) {
        return const_cast<char*>(static_cast<const char*>(matrix)) + elements * (type == 0 ? 4 : 2);
    };
    int status = 0;
    for (int i = 0; i < count && status == 0; ++i)
        status = cublasGemmEx(h, transa, transb, m, n, k, alpha, moved(A, i * stepA, Atype), Atype, lda, moved(B, i * stepB, Btype), Btype,
                              ldb, beta, moved(C, i * stepC, Ctype), Ctype, ldc, compute, algo);
    return status;
}
EXPORT void* seen_stream() { return stream; }
EXPORT void* seen_workspace() { return workspace; }
EXPORT size_t seen_workspace_size() { return workspace_size; }
EXPORT int seen_math_mode() { return math_mode; }
EXPORT int seen_compute_type() { return compute_type; }
"""


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    require("g++")
    loaded = ctypes.CDLL(str(compile_program(LIBRARY, ("-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"))))
    for name in ("seen_stream", "seen_workspace"):
        getattr(loaded, name).restype = ctypes.c_void_p
    loaded.seen_workspace_size.restype = ctypes.c_size_t
    return loaded


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)], ids=["AB'", "A'B'", "AB", "A'B"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (2, 3, 5), (7, 1, 4), (1, 6, 3)])
def test_product(library: ctypes.CDLL, m: int, n: int, k: int, transposed: tuple[bool, bool], dtype: Any, accumulate: bool) -> None:
    """`transposed`: how a and b lie in memory."""
    rng = np.random.default_rng(1)
    (a, left), (b, right) = (operand(rng, rows, k, dtype, turned) for rows, turned in zip((m, n), transposed, strict=True))
    c = rng.standard_normal((m, n + 3)).astype(np.float32) if accumulate else np.full((m, n + 3), np.nan, np.float32)
    before = c.copy()
    Cublas(library).bind(MatrixProduct(left, right, matrix(c, n), accumulate))(5)
    product = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c[:, :n], product + before[:, :n] if accumulate else product, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(c[:, n:], before[:, n:])
    assert library.seen_stream() == 5


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_batch_is_one_call(library: ctypes.CDLL, dtype: Any) -> None:
    """Of matrices with gaps between them, of which the left one repeats."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 3)).astype(dtype), rng.standard_normal((5, 9, 4)).astype(dtype)
    c = np.full((5, 3, 8), np.nan, dtype)
    right = replace(matrix(b[0], 3), rows=7, step=b[0].size)
    Cublas(library).bind(MatrixProduct(matrix(a, 3), right, replace(matrix(c[0, :2], 7), step=c[0].size), batch=5))(16)
    product = a.astype(np.float64) @ b[:, :7, :3].astype(np.float64).transpose(0, 2, 1)
    np.testing.assert_allclose(c[:, :2, :7], product, rtol=1e-5 if dtype == np.float32 else 2e-3, atol=1e-3)
    assert np.isnan(c[:, 2]).all()
    assert np.isnan(c[:, :, 7]).all()
    assert library.seen_stream() == 16


def test_a_product_of_halves_may_be_rounded_to_them(library: ctypes.CDLL) -> None:
    """Once, from its sum in float32."""
    a = np.array([[2048.0, 1.0, 1.0]], np.float16)
    c = np.zeros((1, 1), np.float16)
    Cublas(library).bind(MatrixProduct(matrix(a, 3), matrix(np.ones_like(a), 3), matrix(c, 1)))(5)
    assert c[0, 0] == 2050, "in halves 2048 + 1 is 2048"
    assert library.seen_compute_type() == 68


def test_a_product_works_in_the_memory_that_it_is_given(library: ctypes.CDLL) -> None:
    """In any stream; a product without a workspace uses cuBLAS's, even after another product in the same stream."""
    blas = Cublas(library)
    one = matrix(np.ones((1, 1), np.float32), 1)
    product = MatrixProduct(one, one, one)
    given = [blas.bind(product, memory) for memory in ((4096, 256), (8192, 512))]
    without = blas.bind(product)

    def used(multiply: Callable[[int], None], stream: int) -> tuple[int | None, int]:
        multiply(stream)
        return library.seen_workspace(), library.seen_workspace_size()

    for stream in (16, 32):
        assert used(given[0], stream) == (4096, 256)
        assert used(given[1], stream) == (8192, 512)
        assert used(without, stream) == (None, 0)


def test_sums_are_never_of_reduced_precision(library: ctypes.CDLL) -> None:
    Cublas(library)
    assert library.seen_math_mode() == 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, and not CUBLAS_TF32_TENSOR_OP_MATH


def test_tf32_is_of_one_product(library: ctypes.CDLL) -> None:
    blas, sum_ = Cublas(library), matrix(np.zeros((1, 1), np.float32), 1)
    seen = []
    for dtype, tf32 in ((np.float32, True), (np.float32, False), (np.float16, True), (np.float16, False)):
        factor = matrix(np.ones((1, 1), dtype), 1)
        blas.bind(MatrixProduct(factor, factor, sum_, tf32=tf32))(0)
        seen.append(library.seen_compute_type())
    assert seen == [77, 68, 68, 68]  # CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F


def test_a_refusal_is_reported(library: ctypes.CDLL) -> None:
    wide = np.ones((2, 4), np.float32)
    overlapping = Matrix(wide.ctypes.data, 2, 4, 3, wide.dtype)
    with pytest.raises(DeviceError, match="cublasGemmEx failed with cublasStatus_t 7"):
        Cublas(library).bind(MatrixProduct(overlapping, overlapping, matrix(np.ones((2, 2), np.float32), 2)))(0)
