"""The direct calls of cublasLt, against a library with its interface that multiplies on the CPU; and the plans that use it."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.compiler import compile_program
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.matrix import product as matrix_product
from dmlpy.devices.cuda.runtime import cupy_runtime
from dmlpy.devices.cuda.runtime.cublas_lt import CublasLt, HeuristicResult
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.devices.cuda.runtime.interface import Fusion, MatrixProduct
from tests.support.cuda.library_matrices import Array, matrix, operand
from tests.support.operators.layout_runs import by_definition, repeated, run
from tests.support.tolerance import assert_close
from tests.support.tools import require

LIBRARY = """
#include <stddef.h>
#include <stdint.h>
// As cublasLt.h declares it: opaque descriptors, column-major matrices, element types 0 (float) and 2 (half), host scalars.
struct Operation { int compute, scale, trans[2]; uint32_t epilogue; const void* bias; };
struct Layout { int type; uint64_t rows, cols; int64_t ld; int32_t batch; int64_t step; };
struct Preference { uint64_t workspace; uint32_t reductions, alignments[4]; };
struct Result { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; };
static int handle, alive = 0, answer = 0, found = 1;
static Preference asked;
static Operation used;
static void* seen[2];
static size_t seen_size;
static float at(const void* matrix, int type, long place) {
    return type == 0 ? static_cast<const float*>(matrix)[place] : float(static_cast<const _Float16*>(matrix)[place]);
}
#define EXPORT extern "C" __attribute__((visibility("default")))
#define SET(number, member) if (attribute == number) return size != sizeof member ? 7 : (__builtin_memcpy(&member, value, size), 0);
EXPORT int cublasLtCreate(void** made) { *made = &handle; return 0; }
EXPORT int cublasLtMatmulDescCreate(Operation** made, int compute, int scale) {
    *made = new Operation{compute, scale, {0, 0}, 1, nullptr}; ++alive; return 0;
}
EXPORT int cublasLtMatmulDescDestroy(Operation* one) { delete one; --alive; return 0; }
EXPORT int cublasLtMatmulDescSetAttribute(Operation* one, int attribute, const void* value, size_t size) {
    SET(3, one->trans[0]) SET(4, one->trans[1]) SET(7, one->epilogue) SET(8, one->bias) return 7;
}
EXPORT int cublasLtMatrixLayoutCreate(Layout** made, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    *made = new Layout{type, rows, cols, ld, 1, 0}; ++alive; return ld < int64_t(rows) ? 7 : 0;
}
EXPORT int cublasLtMatrixLayoutDestroy(Layout* one) { delete one; --alive; return 0; }
EXPORT int cublasLtMatrixLayoutSetAttribute(Layout* one, int attribute, const void* value, size_t size) {
    SET(5, one->batch) SET(6, one->step) return 7;
}
EXPORT int cublasLtMatmulPreferenceCreate(Preference** made) { *made = new Preference{}; ++alive; return 0; }
EXPORT int cublasLtMatmulPreferenceDestroy(Preference* one) { delete one; --alive; return 0; }
EXPORT int cublasLtMatmulPreferenceSetAttribute(Preference* one, int attribute, const void* value, size_t size) {
    SET(1, one->workspace) SET(3, one->reductions)
    SET(5, one->alignments[0]) SET(6, one->alignments[1]) SET(7, one->alignments[2]) SET(8, one->alignments[3]) return 7;
}
EXPORT int cublasLtMatmulAlgoGetHeuristic(void* h, Operation*, Layout*, Layout*, Layout*, Layout*, Preference* preference, int wanted,
                                          Result* results, int* count) {
    if (h != &handle || wanted != 1) return 7;
    asked = *preference;
    *results = Result{{0x1234}, 64, 0, 1.0f, {}};
    *count = found;
    return answer;
}
EXPORT int cublasLtMatmul(void* h, Operation* one, const float* alpha, const void* A, Layout* a, const void* B, Layout* b,
                          const float* beta, const void* C, Layout* c, void* D, Layout* d, const uint64_t* algorithm, void* workspace,
                          size_t size, void* stream) {
    if (h != &handle || *algorithm != 0x1234 || one->scale != 0 || a->type != b->type || c->type != d->type) return 7;
    used = *one; seen[0] = stream; seen[1] = workspace; seen_size = size;
    const bool ta = one->trans[0], tb = one->trans[1];
    const long m = d->rows, n = d->cols, k = ta ? a->rows : a->cols;
    if (long(ta ? a->cols : a->rows) != m || long(tb ? b->rows : b->cols) != n || long(tb ? b->cols : b->rows) != k) return 7;
    for (long e = 0; e < d->batch; ++e)
        for (long j = 0; j < n; ++j)
            for (long i = 0; i < m; ++i) {
                float sum = 0;
                for (long p = 0; p < k; ++p)
                    sum += at(A, a->type, e * a->step + (ta ? p + i * a->ld : i + p * a->ld)) *
                           at(B, b->type, e * b->step + (tb ? j + p * b->ld : p + j * b->ld));
                float value = *alpha * sum;
                if (*beta != 0) value += *beta * at(C, c->type, e * c->step + i + j * c->ld);
                if (one->epilogue & 4) value += at(one->bias, d->type, i);
                if (one->epilogue & 2) value = value < 0 ? 0 : value;
                const long place = e * d->step + i + j * d->ld;
                if (d->type == 0) static_cast<float*>(D)[place] = value; else static_cast<_Float16*>(D)[place] = _Float16(value);
            }
    return 0;
}
EXPORT int seen_alive() { return alive; }
EXPORT int seen_compute() { return used.compute; }
EXPORT unsigned seen_reductions() { return asked.reductions; }
EXPORT unsigned seen_alignment(int matrix) { return asked.alignments[matrix]; }
EXPORT uint64_t seen_asked_workspace() { return asked.workspace; }
EXPORT void* seen_pointer(int which) { return seen[which]; }
EXPORT size_t seen_workspace_size() { return seen_size; }
EXPORT int result_size() { return sizeof(Result); }
EXPORT void answer_with(int status, int count) { answer = status; found = count; }
"""

WORKSPACE = (4096, 1 << 20)
PLAIN = Fusion(1.0, 0.0, None, 0, False)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    require("g++")
    loaded = ctypes.CDLL(str(compile_program(LIBRARY, ("-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"))))
    loaded.seen_pointer.restype = ctypes.c_void_p
    loaded.seen_workspace_size.restype = loaded.seen_asked_workspace.restype = ctypes.c_size_t
    return loaded


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)], ids=["AB'", "A'B'", "AB"])
@pytest.mark.parametrize("epilogue", ["none", "bias", "relu", "bias and relu", "addend and relu"])
def test_product(library: ctypes.CDLL, dtype: Any, transposed: tuple[bool, bool], epilogue: str) -> None:
    rng = np.random.default_rng(1)
    (m, n, k), alpha = (3, 4, 5), 0.5
    (a, left), (b, right) = (operand(rng, rows, k, dtype, turned) for rows, turned in zip((m, n), transposed, strict=True))
    d, addend, bias = (
        np.full((m, n + 3), np.nan, dtype),
        rng.standard_normal((m, n + 1)).astype(dtype),
        rng.standard_normal(n).astype(dtype),
    )
    fusion = Fusion(
        alpha,
        2.0,
        matrix(addend, n) if "addend" in epilogue else None,
        bias.ctypes.data if "bias" in epilogue else 0,
        "relu" in epilogue,
    )
    bound = CublasLt(library).bind(MatrixProduct(left, right, matrix(d, n)), fusion, WORKSPACE)
    assert bound is not None
    bound(48)
    expected = alpha * (a.astype(np.float64) @ b.astype(np.float64).T)
    expected += 2.0 * addend[:, :n] if fusion.addend is not None else bias if fusion.bias else 0.0
    expected = np.maximum(expected, 0.0) if fusion.relu else expected
    np.testing.assert_allclose(d[:, :n], expected, rtol=1e-5 if dtype == np.float32 else 2e-3, atol=1e-3)
    assert np.isnan(d[:, n:]).all()
    assert (library.seen_pointer(0), library.seen_pointer(1), library.seen_workspace_size()) == (48, *WORKSPACE)


def test_a_batch_with_an_addend(library: ctypes.CDLL) -> None:
    """Of matrices with gaps between them, of which the left one repeats."""
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(sizes).astype(np.float32) for sizes in ((2, 3), (5, 9, 4), (5, 3, 8)))
    d = np.full((5, 4, 8), np.nan, np.float32)
    first = [replace(matrix(array[0, :rows], columns), step=array[0].size) for array, rows, columns in ((b, 7, 3), (c, 2, 7), (d, 2, 7))]
    product = MatrixProduct(matrix(a, 3), first[0], first[2], batch=5)
    bound = CublasLt(library).bind(product, replace(PLAIN, beta=1.0, addend=first[1]), WORKSPACE)
    assert bound is not None
    bound(0)
    np.testing.assert_allclose(d[:, :2, :7], a @ b[:, :7, :3].transpose(0, 2, 1) + c[:, :2, :7], rtol=1e-5, atol=1e-5)
    assert np.isnan(d[:, 2:]).all()


def test_what_the_choice_is_asked_for(library: ctypes.CDLL) -> None:
    """The workspace, sums of parts in float32, and the addresses' own alignments; TF32 for floats alone."""
    assert library.result_size() == ctypes.sizeof(HeuristicResult)
    memory = np.zeros(4096, np.uint8)
    base = -memory.ctypes.data % 1024 + memory.ctypes.data
    seen = []
    for dtype, tf32 in ((np.float32, True), (np.float32, False), (np.float16, True)):
        a, b, d = (replace(matrix(np.zeros((2, 8), dtype), 8), pointer=base + offset) for offset in (16, 512, 4))
        bound = CublasLt(library).bind(MatrixProduct(a, b, replace(d, columns=2), tf32=tf32), PLAIN, WORKSPACE)
        assert bound is not None
        bound(0)
        seen.append(library.seen_compute())
    assert seen == [77, 68, 68]
    assert [library.seen_alignment(number) for number in range(4)] == [256, 16, 4, 4]  # B, A, C and D, as A, B, C and D
    assert (library.seen_reductions(), library.seen_asked_workspace()) == (2, WORKSPACE[1])


@pytest.mark.parametrize(("status", "count", "error"), [(15, 0, False), (0, 0, False), (7, 0, False), (14, 0, True)])
def test_no_algorithm_is_no_product(library: ctypes.CDLL, status: int, count: int, error: bool) -> None:
    one = matrix(np.ones((1, 1), np.float32), 1)
    library.answer_with(status, count)
    try:
        if error:
            with pytest.raises(dml.DeviceError, match="cublasLtMatmulAlgoGetHeuristic failed with cublasStatus_t 14"):
                CublasLt(library).bind(MatrixProduct(one, one, one), PLAIN, WORKSPACE)
        else:
            assert CublasLt(library).bind(MatrixProduct(one, one, one), PLAIN, WORKSPACE) is None
    finally:
        library.answer_with(0, 1)


@pytest.mark.parametrize("offset", [0, 2, 4, 8, 16])
def test_a_misaligned_bias_is_no_product(library: ctypes.CDLL, offset: int) -> None:
    """The library reads 16 bytes of it at once, whatever its address is."""
    one = matrix(np.ones((1, 1), np.float32), 1)
    bound = CublasLt(library).bind(MatrixProduct(one, one, one), replace(PLAIN, bias=4096 + offset), WORKSPACE)
    assert (bound is None) == (offset % 16 != 0)


def test_descriptors_live_as_long_as_the_product(library: ctypes.CDLL) -> None:
    one = matrix(np.ones((1, 1), np.float32), 1)
    before = library.seen_alive()
    bound = CublasLt(library).bind(MatrixProduct(one, one, one), PLAIN, WORKSPACE)
    assert library.seen_alive() == before + 5
    del bound
    assert library.seen_alive() == before


# plans


def gemm(dtype: str, c: tuple[int, ...] | None, sizes: tuple[int, ...] = (2, 3, 8, 5), **members: Any) -> dml.GEMMDesc:
    """A product of this size; `c` is the addend's strides."""
    *batch, m, n = sizes
    added = {} if c is None else {"c_tensor": dml.TensorDesc(data_type=dtype, sizes=sizes, strides=c)}
    a, b = (dml.TensorDesc(data_type=dtype, sizes=(*batch, *own)) for own in ((m, 7), (7, n)))
    return dml.GEMMDesc(a_tensor=a, b_tensor=b, **added, **members).with_outputs()


RELU = dml.ActivationReluDesc()
FUSED = {
    "bias and ReLU": (gemm("FLOAT16", (0, 0, 0, 1), fused_activation=RELU), True),
    "alpha": (gemm("FLOAT16", None, alpha=0.5), True),
    "an addend": (gemm("FLOAT32", (120, 40, 5, 1), alpha=0.5, beta=2.0), True),
    "an addend of each inner entry": (gemm("FLOAT16", (0, 40, 5, 1), beta=2.0), False),
    "a bias times two": (gemm("FLOAT16", (0, 0, 0, 1), beta=2.0), False),
    "a column": (gemm("FLOAT16", (0, 0, 1, 0)), False),
    "tanh": (gemm("FLOAT16", None, fused_activation=dml.ActivationTanhDesc()), False),
    "GELU": (gemm("FLOAT16", None, fused_activation=dml.ActivationGeluDesc()), False),
}


def random_inputs(desc: dml.GEMMDesc) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    tensors = {slot.place: slot.tensor for slot in desc.input_slots() if slot.tensor is not None}
    return {place: repeated(rng.normal(size=own.sizes).astype(own.data_type.numpy), own) for place, own in tensors.items()}


@pytest.mark.parametrize("refuses", [False, True], ids=["taken", "refused"])
@pytest.mark.parametrize("row", FUSED)
def test_plans_fuse_what_the_library_can(monkeypatch: pytest.MonkeyPatch, row: str, refuses: bool) -> None:
    """By one launch for all of the batch; by the other way where the library has no algorithm."""
    require("g++")
    monkeypatch.setenv("DMLPY_CUBLASLT", "1")
    monkeypatch.setattr(matrix_product, "LEAST_LIBRARY_MULTIPLICATIONS", 0)
    (desc, fused), runtime = FUSED[row], EmulatedRuntime()
    if refuses:
        monkeypatch.setattr(runtime, "bind_fused_gemm", lambda *_: None)
    device, given = CudaDevice(runtime), random_inputs(desc)
    assert ("cublasLt" in dml.compile(desc, device).plan) == fused
    found = run(desc, given, device)["output_tensor"]
    assert_close(found, by_definition(desc, given)["output_tensor"], found.dtype, terms=64)
    taken = fused and not refuses
    assert (runtime.counts["fused gemm"], runtime.counts["gemm"] > 0) == (int(taken), not taken)


@pytest.mark.parametrize("row", ["bias and ReLU", "alpha", "an addend"])
def test_results_with_nan(cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    """Also on a GPU: the results, and that NaN stays NaN."""
    monkeypatch.setenv("DMLPY_CUBLASLT", "1")
    monkeypatch.setattr(matrix_product, "LEAST_LIBRARY_MULTIPLICATIONS", 0)
    desc = FUSED[row][0].replace(b_tensor=FUSED[row][0].b_tensor.replace(strides=(280, 70, 5, 1)))
    given = random_inputs(desc)
    given["a_tensor"] = given["a_tensor"].copy()
    given["a_tensor"][0, 1, 2, 3] = np.nan
    found = run(desc, given, cuda_device)["output_tensor"]
    assert_close(found, by_definition(desc, given)["output_tensor"], found.dtype, terms=64)
    assert np.isnan(found[0, 1, 2]).all()


def test_a_library_that_is_missing_is_no_product(runtime: CupyRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise dml.DeviceError("cublasLt cannot be loaded")

    one = matrix(np.ones((1, 1), np.float32), 1)
    monkeypatch.setattr(cupy_runtime, "CublasLt", missing)
    assert runtime.bind_fused_gemm(0, MatrixProduct(one, one, one), PLAIN, 4096) is None


def test_the_library_is_asked_where_the_product_runs(runtime: CupyRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever device is current: a handle belongs to one."""
    seen: list[int] = []

    class Asked:
        def __init__(self) -> None:
            self.bind(None)

        def bind(self, *_: Any) -> None:
            seen.append(runtime._cudart.getDevice())

    one = matrix(np.ones((1, 1), np.float32), 1)
    monkeypatch.setattr(cupy_runtime, "CublasLt", Asked)
    for _ in range(2):
        runtime._cudart.setDevice(0)
        runtime.bind_fused_gemm(1, MatrixProduct(one, one, one), PLAIN, 4096)
    assert (seen, runtime._cudart.getDevice()) == ([1, 1, 1], 0)


def test_it_has_to_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    require("g++")
    monkeypatch.delenv("DMLPY_CUBLASLT", raising=False)
    monkeypatch.setattr(matrix_product, "LEAST_LIBRARY_MULTIPLICATIONS", 0)
    assert "cublasLt" not in dml.compile(FUSED["alpha"][0], CudaDevice(EmulatedRuntime())).plan
    monkeypatch.setenv("DMLPY_CUBLASLT", "yes")
    with pytest.raises(dml.DeviceError, match="DMLPY_CUBLASLT is 'yes', expected 0 or 1"):
        dml.compile(FUSED["alpha"][0], CudaDevice(EmulatedRuntime()))
