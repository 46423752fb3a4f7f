"""Factors of 2 bytes in the recurrent gradients' products on CUDA: copies of gate gradients, scaled ones of FLOAT16, and TF32 in steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.arrays import view
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.arithmetic import rounded_to_tf32
from dmlpy.devices.cuda.emulation.compiler import ARITHMETICS
from dmlpy.devices.cuda.emulation.runtime import H100, T4, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary, strided
from dmlpy.devices.cuda.recurrent.gradient_kernels import UNPACK, gradient_kernel
from dmlpy.devices.cuda.recurrent.gradient_tables import MOST_PARTS, narrowed, put_scale, scale_of, scaled
from dmlpy.devices.cuda.runtime.interface import CudaRuntime, MatrixProduct
from tests.support.cuda.gradient_cases import BARRIER, PLAIN, STRATEGIES, Case
from tests.support.operators.bfloat16_cases import BFLOAT16
from tests.support.recurrent.block_cell_runs import check, described, random_inputs, run
from tests.support.tables import table
from tests.support.tools import require

Array = np.ndarray[Any, Any]
HALF = np.dtype(np.float16)
EACH_CELL = pytest.mark.parametrize(("cell", "flags"), [*PLAIN, ("LSTM", {})], ids=["RNN", "GRU, resets first", "GRU, resets last", "LSTM"])
EACH_STRATEGY = pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])


# the copies


def scaled_copy(runtime: CudaRuntime, values: Array, offset: int = 0) -> tuple[Array, Array]:
    """A scaled copy of float32 values that lie some elements into an array, and what `unpack` makes of these values with its scale."""
    library, count = KernelLibrary(runtime, 0), values.size
    source = runtime.to_device(0, np.concatenate([np.full(offset, np.inf, np.float32), values]), 0)
    copy, result = (runtime.to_device(0, np.full(count, np.nan, np.float16), 0) for _ in range(2))
    parts = runtime.to_device(0, np.full(MOST_PARTS, np.nan, np.float32), 0)
    start, pointers = view(source).pointer + 4 * offset, [view(array).pointer for array in (copy, result, parts)]
    for launch in scaled(library, start, count, pointers[0], pointers[2]):
        launch(0)
    argument = np.zeros(1, UNPACK)
    argument["source"], argument["sizes"] = start, (1, 1, 1, count)
    argument["destination"] = strided(TensorDesc(data_type="FLOAT16", sizes=(1, 1, 1, count)), pointers[1])
    put_scale(argument, scale_of(pointers[2], count))
    library.launch_elements(gradient_kernel("unpack", HALF), count, argument)(0)
    return runtime.to_host(copy, 0), runtime.to_host(result, 0)


@table("largest", [1.0, 1.99, 2.0, 65504.0, 1e-4, 1e-30, 1e30, 3.4e38, 2.0**-126, 1e-44, 0.0])
@pytest.mark.parametrize(("count", "offset"), [(1, 0), (4, 0), (1031, 0), (1032, 0), (1032, 1), (70_000, 0)])
def test_a_scale_brings_the_largest_near_the_end_of_the_range(cuda_runtime: CudaRuntime, count: int, offset: int, largest: float) -> None:
    rng = np.random.default_rng(count)
    values = (rng.uniform(-1, 1, count) * 10.0 ** rng.uniform(-6, 0, count)).astype(np.float32)
    values[rng.integers(count)] = -1
    values = (values.astype(np.float64) * largest).astype(np.float32)
    found, unpacked = scaled_copy(cuda_runtime, values, offset)
    exponent = min(14 - np.floor(np.log2(float(np.abs(values).max()) or 2.0**-200)), 126)
    expected = values.astype(np.float64) * 2.0**exponent
    assert 2.0**14 <= np.abs(expected).max() < 2.0**15 or largest < 1e-30
    np.testing.assert_array_equal(found, expected.astype(np.float16))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(unpacked, (values.astype(np.float64) * 2.0**-exponent).astype(np.float32).astype(np.float16))


def test_what_is_not_finite_has_no_part_in_the_scale(cuda_runtime: CudaRuntime) -> None:
    values = np.array([np.nan, 1e-3, -np.inf, -2e-3, np.inf, 0.0], np.float32)
    found, _ = scaled_copy(cuda_runtime, values)
    assert np.isnan(found[0])
    np.testing.assert_array_equal(found[[2, 4, 5]], [-np.inf, np.inf, 0.0])
    np.testing.assert_array_equal(found[[1, 3]], (values[[1, 3]] * np.float32(2.0**23)).astype(np.float16))


@pytest.mark.parametrize("dtype", [HALF, BFLOAT16], ids=str)
@pytest.mark.parametrize("offset", [0, 1])
def test_a_copy_without_a_scale(cuda_runtime: CudaRuntime, offset: int, dtype: np.dtype[Any]) -> None:
    """Values of any size in BFLOAT16, whose range is that of float32."""
    values = np.random.default_rng(1).standard_normal(1000 + offset).astype(np.float32)
    if dtype == BFLOAT16:
        values *= np.float32(10) ** np.linspace(-37, 37, values.size, dtype=np.float32)
    source, copy = cuda_runtime.to_device(0, values, 0), cuda_runtime.to_device(0, np.zeros(1000, dtype), 0)
    narrowed(KernelLibrary(cuda_runtime, 0), view(source).pointer + 4 * offset, 1000, view(copy).pointer, dtype)(0)
    np.testing.assert_array_equal(cuda_runtime.to_host(copy, 0).view(np.uint16), values[offset:].astype(dtype).view(np.uint16))


@pytest.mark.parametrize(
    ("sanitize", "sanitized"),
    [("address,undefined", ""), *(pytest.param("thread", own, marks=pytest.mark.slow) for own in ("find_largest<", ""))],
    ids=["address,undefined", "thread", "thread, all kernels"],
)
def test_the_sanitizers_are_silent(sanitize: str, sanitized: str) -> None:
    """Threads wait for each other in `find_largest` alone."""
    require("g++")
    values = np.random.default_rng(2).standard_normal(1034).astype(np.float32)
    for offset in (0, 1):
        scaled_copy(EmulatedRuntime(sanitize=sanitize, sanitized=(sanitized,)), values[offset:], offset)


def test_the_thread_sanitizer_misses_the_barrier() -> None:
    require("g++")
    assert sources.read("recurrent/gradient_results.cu").count(BARRIER) == 1
    with pytest.raises(dml.DeviceError, match="data race"):
        scaled_copy(EmulatedRuntime(sanitize="thread", fault=(BARRIER, 0)), np.ones(1034, np.float32))


# what becomes of them


@pytest.mark.each_value
@pytest.mark.parametrize("scale", [1.0, 1e-4, 2e4])
@EACH_STRATEGY
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_scaled_upstream_gradients_keep_their_accuracy(cuda_runtime: CudaRuntime, cell: str, strategy: str, scale: float) -> None:
    """Also where most gate gradients, as they are, are below the smallest half or near it, and only their sums are not."""
    case = Case(cell, np.random.default_rng(10), t=30, b=9, h=8, dtype=np.float16, scale=scale, upstream=("output_single",))
    case.launch(STRATEGIES[strategy], cuda_runtime)
    case.check()


@EACH_STRATEGY
@EACH_CELL
def test_samples_do_not_touch_each_other(cuda_runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str) -> None:
    """A NaN and an infinity in two samples stay there, and spoil nobody's scale."""
    case = Case(cell, np.random.default_rng(11), b=4, h=8, dtype=np.float16, outputs=("input",), upstream=("output_sequence",), **flags)
    upstream = case.inputs["output_sequence_gradient_tensor"].elements
    upstream[2, 0, 1, 3], upstream[1, 0, 2, 0] = np.nan, np.inf
    case.launch(STRATEGIES[strategy], cuda_runtime)
    (placed,) = case.outputs.values()
    assert not np.isfinite(placed.elements[0, :2, [1, 2]]).any()
    (expected,) = (case.expected[name] for name in case.outputs)
    placed.elements[:, :, [1, 2]] = expected[:, :, [1, 2]]
    case.check()


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("limits", [H100, T4], ids=lambda limits: limits.name)
def test_errors_do_not_grow_from_step_to_step(limits: Any, arithmetic: str) -> None:
    """Of gradients that pass a product in each of many steps and do not fade, in TF32 where the device has it.

    Tensor cores may cut mantissas off, which would make every gradient a little shorter in every step.
    """
    require("g++")
    rng, units = np.random.default_rng(12), 24
    turns = np.linalg.qr(rng.standard_normal((units, units)))[0]
    case = Case(
        "RNN",
        rng,
        t=60,
        b=4,
        h=units,
        dtype=np.float16,
        functions=(dml.ActivationIdentityDesc(),),
        given={"recurrence_tensor": turns[None, None]},
        upstream=("output_single",),
    )
    case.launch(STRATEGIES["per_step"], EmulatedRuntime(limits, arithmetic=arithmetic))
    case.check()


class Exact(EmulatedRuntime):
    """Holds the factors of TF32 products to be of TF32 as they are."""

    def __init__(self) -> None:
        super().__init__(H100)
        self.factors = 0

    def gemm(self, device: int, product: MatrixProduct, stream: int, workspace: int = 0) -> None:
        def check() -> None:
            for factor in (product.a, product.b):
                values = self._matrix(factor, 0).astype(np.float32)
                np.testing.assert_array_equal(rounded_to_tf32(values), values)
                self.factors += 1

        if product.rounds:
            self._issue(stream, check)
        super().gemm(device, product, stream, workspace)


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("RNN", {"dtype": HALF}),
        ("GRU", {"dtype": HALF, "linear_before_reset": False}),
        ("LSTM", {"dtype": HALF, "p": 3, "mask": np.array([[1, 0, 1]] * 4)}),
        ("LSTM", {"dtype": BFLOAT16, "p": 3}),
    ],
    ids=["RNN", "GRU, resets first", "LSTM with a projection", "LSTM with a projection, bfloat16"],
)
def test_tensor_cores_find_nothing_to_cut_off(cell: str, options: dict[str, Any]) -> None:
    require("g++")
    case, runtime = Case(cell, np.random.default_rng(13), **options), Exact()
    case.launch(STRATEGIES["per_step"], runtime)
    assert runtime.factors == 2 * 4 * (1 if cell == "RNN" else 2)
    case.check()


def test_tensor_cores_find_nothing_to_cut_off_in_the_gradient_of_a_gru_step() -> None:
    require("g++")
    arrays = random_inputs(np.random.default_rng(14), 3, 4, 5, dml.GRUBlockCellGradDesc, np.float16)
    desc, runtime = described(dml.GRUBlockCellGradDesc, arrays), Exact()
    found = run(CudaDevice(runtime), desc, arrays)
    assert runtime.factors == 4
    check(found, desc, arrays)
