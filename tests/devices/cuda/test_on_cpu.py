"""The instrument that executes CUDA kernels on the CPU, tested on kernels whose right or wrong behaviour is known."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda.emulation.compiler import run_sanitized
from dmlpy.devices.cuda.emulation.launches import CpuFunction
from dmlpy.devices.cuda.emulation.memory import DeviceArray, DlpackArray
from dmlpy.devices.cuda.emulation.runtime import T4, EmulatedRuntime
from dmlpy.devices.cuda.runtime.interface import Matrix, MatrixProduct
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.kernel_parameters import PARAMETERS, Array, device, parameters, unset
from tests.support.folders import TESTS
from tests.support.tools import require

SOURCE = (TESTS / "kernels" / "instrument.cu").read_text().replace('#include "common/machine.cuh"\n', "\n")
RANDOM = np.random.default_rng(2)


@pytest.fixture
def runtime() -> EmulatedRuntime:
    require("g++")
    return EmulatedRuntime(patience_s=2.0)


def load(runtime: EmulatedRuntime, entry: str, shared_bytes: int = 1024) -> CpuFunction:
    function = runtime.load(0, *runtime.compile(SOURCE, [entry], 90)[0], shared_bytes)
    assert isinstance(function, CpuFunction)
    return function


def launch(
    runtime: EmulatedRuntime,
    entry: str,
    blocks: int,
    threads: int,
    shared_bytes: int = 0,
    count: int = 0,
    cooperative: bool = False,
    **arrays: DeviceArray,
) -> None:
    """Runs a kernel over arrays that live until it has ended."""
    runtime.launch(load(runtime, entry), (blocks, 1, 1), threads, shared_bytes, parameters(count, **arrays), 0, cooperative)


def values(*sizes: int) -> Array:
    return RANDOM.standard_normal(sizes, np.float32)


# right kernels


@pytest.mark.parametrize("threads", [32, 96, 1024])
@pytest.mark.parametrize("blocks", [1, 7])
def test_block_sum(runtime: EmulatedRuntime, threads: int, blocks: int) -> None:
    numbers = values(blocks, 301)
    output = unset(runtime, blocks)
    launch(runtime, "block_sum", blocks, threads, count=301, input=device(runtime, numbers), output=output)
    np.testing.assert_allclose(output.get(), numbers.sum(1, np.float64), rtol=1e-4, atol=1e-4)
    runtime.check_guards()


@pytest.mark.parametrize("seed", range(4))
def test_rounds_through_shared_memory(seed: int) -> None:
    require("g++")
    runtime = EmulatedRuntime(seed=seed)
    numbers = values(3, 65)
    output = unset(runtime, numbers.size)
    launch(runtime, "reverse<true>", 3, 65, 260, 5, input=device(runtime, numbers), output=output)
    np.testing.assert_array_equal(output.get().reshape(3, 65), numbers[:, ::-1])


def test_a_missing_barrier_shows_in_an_ordinary_run(runtime: EmulatedRuntime) -> None:
    numbers = values(65)
    output = unset(runtime, 65)
    launch(runtime, "reverse<false>", 1, 65, 260, 5, input=device(runtime, numbers), output=output)
    assert not np.array_equal(output.get(), numbers[::-1])


@pytest.mark.parametrize("blocks", [1, 4, 9])
def test_cooperative_blocks_wait_for_each_other(runtime: EmulatedRuntime, blocks: int) -> None:
    rounds = 50
    slots, output = unset(runtime, 2 * blocks), unset(runtime, blocks)
    words = device(runtime, np.zeros(blocks, np.uint32))
    launch(runtime, "meet<true>", blocks, 33, count=rounds, cooperative=True, input=slots, output=output, words=words)
    np.testing.assert_array_equal(output.get(), rounds * blocks * (blocks + 1) / 2)


def test_blocks_of_a_cluster_write_to_each_other(runtime: EmulatedRuntime) -> None:
    """Both run, though more blocks than processors are launched, and none waits for the launch of another cluster."""
    words = unset(runtime, 40, np.uint32)
    launch(runtime, "hand_over", 40, 3, 64, count=32, words=words)
    assert words.get().tolist() == [10 + (block ^ 1) for block in range(40)]
    runtime.check_guards()


def test_every_thread_of_a_large_grid_runs_once(runtime: EmulatedRuntime) -> None:
    words = device(runtime, np.zeros(1, np.uint32))
    runtime.launch(load(runtime, "count_threads"), (11, 5, 3), 100, 0, parameters(words=words), 0)
    assert words.get()[0] == 11 * 5 * 3 * 100


def test_every_block_finds_its_shared_memory_poisoned(runtime: EmulatedRuntime) -> None:
    words = unset(runtime, 20 * 8 * 2, np.uint32)
    words.set(np.zeros(words.shape))
    launch(runtime, "look_at_shared", 20, 8, 32, words=words)
    assert np.all(words.get() == 0xFFFFFFFF)


def test_half_widens_as_numpy_does(runtime: EmulatedRuntime) -> None:
    every_half = np.arange(65536, dtype=np.uint16)
    output = unset(runtime, 65536)
    launch(runtime, "widen", 1, 64, count=65536, input=device(runtime, every_half), output=output)
    np.testing.assert_array_equal(output.get(), every_half.view(np.float16).astype(np.float32))


def test_half_rounds_as_numpy_does(runtime: EmulatedRuntime) -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    ties = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519, 65520, 65536, 1e30, 2.0**-24, 2.0**-25, 2.0**-26, 1e-45], np.float32
    )
    random = RANDOM.integers(0, 2**32, 20000, np.uint32).view(np.float32)
    near = np.float32(2.0) ** RANDOM.uniform(-27, 17, 20000).astype(np.float32)
    numbers = np.concatenate([halves, ties, np.nextafter(ties, np.float32(np.inf)), special, random, near, -near])
    output = unset(runtime, numbers.size, np.float16)
    launch(runtime, "narrow", 1, 64, count=numbers.size, input=device(runtime, numbers), output=output)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = numbers.astype(np.float16)
    found = output.get()
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(found[number].view(np.uint16), expected[number].view(np.uint16))


# wrong kernels


@pytest.mark.parametrize(
    ("blocks", "place", "said"),
    [(3, 32, "3 blocks along x are no clusters of 2"), (2, 64, "that is not in this one's dynamic shared memory")],
)
def test_wrong_clusters_are_reported(runtime: EmulatedRuntime, blocks: int, place: int, said: str) -> None:
    with pytest.raises(DeviceError, match=said):
        launch(runtime, "hand_over", blocks, 1, 64, count=place, words=unset(runtime, blocks, np.uint32))


@pytest.mark.parametrize(
    ("entry", "threads", "count", "said"),
    [
        ("return_before_barrier", 64, 0, r"__syncthreads at kernel.cu:\d+ is reached by 63 of 64 threads; 1 have ended"),
        ("two_barriers", 64, 0, r"thread \d+: __syncthreads at kernel.cu:\d+, while \d+ threads wait at the one of kernel.cu:\d+"),
        ("shuffle_without_one", 32, 0, r"waits for lanes 0xffffffff at kernel.cu:\d+, of which only 0xfffffff7 arrive; 1 threads"),
        ("block_sum", 40, 0, r"a warp function's mask 0xffffffff at kernel.cu:\d+ names lanes that the block lacks \(0xffffff00\)"),
        ("wait_forever", 3, 0, r"has waited for another block for 2 s"),
        ("copy_from", 1, 2, r"thread 0: 16 bytes at the misaligned address 0x\w+ at kernel.cu:\d+"),
        ("stray_shared_write", 1, 4, r"a write beside its 16 bytes of dynamic shared memory"),
        ("stray_shared_write", 1, -1, r"a write beside its 16 bytes of dynamic shared memory"),
        ("count_past_the_end", 1, -1, r"block \(0, 0, 0\), thread 0: __trap at kernel.cu:\d+"),
    ],
)
def test_a_wrong_kernel_is_reported(runtime: EmulatedRuntime, entry: str, threads: int, count: int, said: str) -> None:
    output, words = unset(runtime, 64), device(runtime, np.zeros(4, np.uint32))
    with pytest.raises(DeviceError, match=said):
        launch(runtime, entry, 1, threads, 16, count, input=output, output=output, words=words)


@pytest.mark.parametrize(("at", "place"), [(-1, "before"), (3, "after")])
@pytest.mark.parametrize("freed", [False, True])
def test_guards_find_a_stray_write(runtime: EmulatedRuntime, at: int, place: str, freed: bool) -> None:
    output: DeviceArray | None = unset(runtime, 3)
    assert output is not None
    runtime.check_guards()
    launch(runtime, "stray_write", 1, 1, count=at, output=output)
    if freed:
        output = None
        gc.collect()
    with pytest.raises(AssertionError, match=f"bytes written {place} an allocation of 12 bytes, the nearest [1-4] bytes outside"):
        runtime.check_guards()


def test_freed_memory_is_reported(runtime: EmulatedRuntime) -> None:
    kept = unset(runtime, 4)
    argument = parameters(output=kept)
    function = load(runtime, "stray_write")
    graph = runtime.capture(0, lambda stream: runtime.launch(function, (1, 1, 1), 1, 0, argument, stream))
    runtime.launch_graph(graph, 0)
    del kept
    gc.collect()
    with pytest.raises(DeviceError, match="freed"):
        runtime.launch_graph(graph, 0)


# sanitizers


def run(
    entry: str, threads: int, sanitize: str, buffers: dict[str, Array], count: int = 2, blocks: int = 1
) -> tuple[dict[str, Array], str]:
    require("g++")
    argument = np.zeros(1, PARAMETERS)
    argument["count"] = count
    return run_sanitized(SOURCE, entry, (blocks, 1, 1), threads, 4 * threads, argument, buffers, sanitize, cooperative=blocks > 1)


@pytest.mark.parametrize(
    ("silent", "reported", "threads"),
    [("reverse<true>", "reverse<false>", 40), ("pass_in_warp<true>", "pass_in_warp<false>", 32), ("refill<true>", "refill<false>", 40)],
)
def test_the_thread_sanitizer_finds_a_deleted_barrier(silent: str, reported: str, threads: int) -> None:
    numbers, unwritten = values(threads), np.full(threads, np.nan, np.float32)
    after, report = run(silent, threads, "thread", {"input": numbers, "output": unwritten})
    assert report == ""
    np.testing.assert_array_equal(np.sort(after["output"]), np.sort(numbers))
    _, report = run(reported, threads, "thread", {"input": numbers, "output": unwritten})
    assert "data race" in report
    assert "block (0, 0, 0) thread" in report


def test_the_thread_sanitizer_finds_a_syncthreads_taken_out_of_the_source() -> None:
    require("g++")
    barrier_of_block_sum = SOURCE[: SOURCE.index("void block_sum")].count("__syncthreads();")
    for fault in (None, ("__syncthreads();", barrier_of_block_sum)):
        runtime = EmulatedRuntime(sanitize="thread", fault=fault)
        numbers, output = device(runtime, values(2, 50)), unset(runtime, 2)
        if fault is None:
            launch(runtime, "block_sum", 2, 64, count=50, input=numbers, output=output)
            np.testing.assert_allclose(output.get(), numbers.get().sum(1), rtol=1e-4, atol=1e-4)
        else:
            with pytest.raises(DeviceError, match="data race"):
                launch(runtime, "block_sum", 2, 64, count=50, input=numbers, output=output)


def test_the_thread_sanitizer_finds_a_missing_release() -> None:
    buffers = {"input": np.zeros(6, np.float32), "output": np.zeros(3, np.float32), "words": np.zeros(3, np.uint32)}
    after, report = run("meet<true>", 2, "thread", buffers, blocks=3)
    assert report == ""
    np.testing.assert_array_equal(after["output"], 2 * 6)
    _, report = run("meet<false>", 2, "thread", buffers, blocks=3)
    assert "data race" in report


@pytest.mark.parametrize(
    ("entry", "count", "said"),
    [
        ("stray_write", 3, "heap-buffer-overflow"),
        ("stray_write", -1, "heap-buffer-overflow"),
        ("stray_shared_write", 4, "heap-buffer-overflow"),
        ("count_past_the_end", 40, "shift exponent 40 is too large"),
        ("return_before_barrier", 0, ""),
    ],
)
def test_the_address_and_undefined_behaviour_sanitizers_find(entry: str, count: int, said: str) -> None:
    buffers = {"output": np.zeros(3, np.float32), "words": np.zeros(1, np.uint32)}
    after, report = run(entry, 1, "address,undefined", buffers, count)
    assert said in report
    assert bool(after) == (said == "")


def test_the_address_sanitizer_is_silent_on_right_kernels() -> None:
    numbers = values(3, 40)
    buffers = {"input": numbers, "output": np.full((3, 40), np.nan, np.float32)}
    after, report = run("reverse<true>", 40, "address,undefined", buffers, blocks=3)
    assert report == ""
    np.testing.assert_array_equal(after["output"], numbers)


def test_a_runtime_launches_under_a_sanitizer() -> None:
    require("g++")
    runtime = EmulatedRuntime(sanitize="address,undefined")
    numbers = values(40)
    reversed_from, both = device(runtime, numbers), unset(runtime, 80)
    argument = parameters(1, input=reversed_from, output=both)
    argument["output"] += 4 * 40
    runtime.launch(load(runtime, "reverse<true>"), (1, 1, 1), 40, 160, argument, 0)
    assert np.all(np.isnan(both.get()[:40]))
    np.testing.assert_array_equal(both.get()[40:], numbers[::-1])
    argument["output"] += 4
    with pytest.raises(DeviceError, match="heap-buffer-overflow"):
        runtime.launch(load(runtime, "reverse<true>"), (1, 1, 1), 40, 160, argument, 0)


# the runtime


def test_capture_records_and_replay_executes(runtime: EmulatedRuntime) -> None:
    numbers, output = device(runtime, np.arange(8, dtype=np.float32)), unset(runtime, 8)
    function, argument = load(runtime, "reverse<true>"), parameters(1, input=numbers, output=output)

    def issue(stream: int) -> None:
        assert runtime.is_capturing(stream)
        runtime.memset(output.pointer, 0, 32, stream)
        runtime.launch(function, (1, 1, 1), 8, 32, argument, stream)

    graph = runtime.capture(0, issue)
    assert np.all(np.isnan(output.get()))
    argument["count"] = 2  # a graph holds the values of its capture
    stream = runtime.new_stream()
    for start in (0.0, 100.0):
        numbers.set(np.arange(8, dtype=np.float32) + np.float32(start))
        runtime.launch_graph(graph, stream)
        np.testing.assert_array_equal(output.get(), start + np.arange(8)[::-1])
    assert (runtime.counts["launch"], runtime.counts["memset"], runtime.counts["launch_graph"]) == (1, 1, 2)


def test_what_a_capturing_stream_refuses(runtime: EmulatedRuntime) -> None:
    array = unset(runtime, 4)
    memory, image = array.pointer, runtime.compile(SOURCE, ["widen"], 90)[0]
    stream = runtime.begin_capture()
    for forbidden in (
        lambda: runtime.synchronize(stream),
        lambda: runtime.read(memory, 4, stream),
        lambda: runtime.to_host(array, stream),
        lambda: runtime.compile(SOURCE, ["widen"], 90),
        lambda: runtime.load(0, *image, 0),
        lambda: runtime.launch_graph((), stream),
        lambda: runtime.memset(memory, 0, 4, 0),
        lambda: runtime.capture(0, lambda inner: None),
    ):
        with pytest.raises(DeviceError):
            forbidden()
    runtime.memset(memory, 0, 4, stream)
    assert len(runtime.end_capture(stream)) == 1
    assert not runtime.is_capturing(stream)
    runtime.synchronize(stream)


def test_what_a_launch_refuses() -> None:
    require("g++")
    runtime = EmulatedRuntime(T4)
    function = load(runtime, "widen", 64)
    argument = parameters()
    for grid, threads, shared_bytes, given, cooperative in [
        ((0, 1, 1), 32, 0, argument, False),
        ((1, 65536, 1), 32, 0, argument, False),
        ((1, 1, 1), 1025, 0, argument, False),
        ((1, 1, 1), 32, 65, argument, False),
        ((40 * 16 + 1, 1, 1), 64, 0, argument, True),
        ((1, 1, 1), 32, 0, np.zeros(1, [("input", "u8")]), False),
    ]:
        with pytest.raises(DeviceError):
            runtime.launch(function, grid, threads, shared_bytes, given, 0, cooperative)
    with pytest.raises(DeviceError, match=r"1 bytes of shared memory, loaded for 32, of which the kernel has \d+ itself"):
        runtime.launch(load(runtime, "look_at_shared", 32), (1, 1, 1), 1, 1, argument, 0)
    with pytest.raises(DeviceError, match="stream"):
        runtime.launch(function, (1, 1, 1), 32, 0, argument, 77)
    with pytest.raises(DeviceError, match="65537"):
        runtime.load(0, *runtime.compile(SOURCE, ["widen"], 75)[0], 65537)
    with pytest.raises(DeviceError, match=r"kernel.cu:1:1: error: .oops. does not name a type"):
        runtime.compile("oops x;", ["widen"], 75)


def test_memory_beyond_the_device_is_refused() -> None:
    runtime = EmulatedRuntime(T4)
    kept = runtime.allocate(0, 1 << 20, 0)
    assert runtime.free_memory(0) == T4.total_memory - (1 << 20)
    with pytest.raises(DeviceError, match="out of memory"):
        runtime.allocate(0, T4.total_memory, 0)
    with pytest.raises(DeviceError, match="not within one allocation"):
        runtime.memset(kept.pointer + 1, 0, kept.size, 0)
    del kept
    gc.collect()
    assert runtime.free_memory(0) == T4.total_memory


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
@pytest.mark.parametrize(("m", "n", "k"), [(3, 5, 7), (1, 1, 1), (4, 2, 0)])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)], ids=["AB'", "A'B'", "AB", "A'B"])
def test_gemm(data_type: Any, m: int, n: int, k: int, accumulate: bool, transposed: tuple[bool, bool]) -> None:
    """`transposed`: how a and b lie in memory."""
    runtime = EmulatedRuntime()
    sizes = [(m, k), (n, k), (m, n)]
    places = [(k, m) if transposed[0] else (m, k), (k, n) if transposed[1] else (n, k), (m, n)]
    a, b, c = (
        values(rows, columns + 2).astype(kind) for (rows, columns), kind in zip(places, (data_type, data_type, np.float32), strict=True)
    )
    on_device = [device(runtime, array) for array in (a, b, c)]
    left, right, result = (
        Matrix(array.pointer, *size, array.shape[1], array.dtype, turned)
        for array, size, turned in zip(on_device, sizes, (*transposed, False), strict=True)
    )
    runtime.gemm(0, MatrixProduct(left, right, result, accumulate), 0)
    expected = c.astype(np.float64)
    a, b = (stored[:, :-2].T if turned else stored[:, :-2] for stored, turned in zip((a, b), transposed, strict=True))
    expected[:, :n] = a.astype(np.float64) @ b.T + accumulate * c[:, :n]
    np.testing.assert_allclose(on_device[2].get(), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(DeviceError, match="do not fit"):
        runtime.gemm(0, MatrixProduct(left, right, Matrix(on_device[2].pointer, m + 1, n, n, np.dtype(np.float32))), 0)
    with pytest.raises(DeviceError, match="row by row"):
        runtime.gemm(0, MatrixProduct(left, right, replace(result, transposed=True)), 0)


def test_strided_arrays_are_copied_there_and_back() -> None:
    runtime = EmulatedRuntime()
    numbers = values(2, 3, 4)
    array = runtime.empty(0, [2, 3, 4], [20, 1, 5], np.dtype(np.float32), 0)
    array.set(numbers)
    for value in (array, runtime.from_dlpack(DlpackArray(array))):
        assert value.__cuda_array_interface__["strides"] == (80, 4, 20)
        assert value.__cuda_array_interface__["data"][0] == array.pointer
        np.testing.assert_array_equal(runtime.to_host(value, 0), numbers)
    elements = np.frombuffer(runtime.read(array.pointer, 4 * 38, 0), np.float32)
    assert np.isnan(elements).sum() == 38 - 24
    assert not {"__array__", "__array_interface__"} & set(dir(array))
    assert runtime.empty(0, [2, 0], [1, 1], np.dtype(np.float32), 0).get().shape == (2, 0)


def test_a_dry_run_launches_nothing() -> None:
    runtime = DryRunRuntime()
    output = unset(runtime, 4)
    function = runtime.load(0, *runtime.compile("no source", ["widen"], 90)[0], 0)
    runtime.launch(function, (1, 1, 1), 1, 0, parameters(output=output), 0)
    runtime.launch_graph(runtime.capture(0, lambda stream: runtime.memset(output.pointer, 0, 4, stream)), 0)
    assert np.all(np.isnan(output.get()))
