"""`CupyRuntime` call by call, over a CuPy that obeys CUDA's rules and needs no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from dmlpy.description.arrays import view
from dmlpy.devices.cuda.runtime import cupy_pool
from dmlpy.devices.cuda.runtime import cupy_runtime as cupy_runtime
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.devices.cuda.runtime.interface import Matrix, MatrixProduct
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.fakes.captures import CUDARuntimeError
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.cuda.fakes.cupy_likeness import compare
from tests.support.cuda.fakes.runtime_over_fake_cupy import in_a_fresh_thread
from tests.support.folders import ROOT
from tests.support.operators.dispatch_cases import CASES
from tests.support.tools import folder_of, require

ARGUMENT = np.zeros(1, np.dtype([("pointer", np.uint64), ("count", np.int32)], align=True))
BLOCK = (128, 1, 1)
OLDEST_CUPY = "14.0"


def product(**options: bool) -> MatrixProduct:
    one = Matrix(512, 1, 1, 1, np.dtype(np.float32))
    return MatrixProduct(one, one, one, **options)


# the emulated GPU has the fake CuPy


LEAST_COMPARED = 40
"""Names."""


def test_the_fake_cupy_is_like_the_installed_cupy() -> None:
    assert compare(pytest.importorskip("cupy")) >= LEAST_COMPARED


def test_the_fake_cupy_is_like_the_oldest_cupy() -> None:
    """In a separate process: there can be one CuPy only."""
    require(f"cupy {OLDEST_CUPY}")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder_of("cupy", OLDEST_CUPY)), str(ROOT)])}
    command = [sys.executable, "-m", "tests.support.cuda.fakes.cupy_likeness"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    version, count = done.stdout.split()
    assert version.startswith(f"{OLDEST_CUPY}.")
    assert int(count) >= LEAST_COMPARED


def test_the_oldest_cupy_is_what_the_extras_ask_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra in ("cuda12", "cuda13"):
        assert extras[extra] == [f"cupy-{extra}x[ctk]>={OLDEST_CUPY.removesuffix('.0')}"]


# the device


def test_limits(runtime: CupyRuntime) -> None:
    limits = runtime.limits(1)
    assert (limits.name, limits.compute_capability, limits.multiprocessors) == ("Fake GPU", 90, 132)
    assert limits.shared_memory_per_block == 227 << 10
    assert (limits.clock_hz, limits.l2_bytes, limits.cooperative) == (1.98e9, 50 << 20, True)
    assert limits.memory_rate == pytest.approx(3.352e12, rel=1e-3), "two transfers of 5120 bits in each cycle of 2.619 GHz"
    assert runtime.device_count() == 2


def test_free_memory_counts_what_the_pool_would_give_again(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    memory = runtime.allocate(0, 1 << 20, 0)
    assert runtime.free_memory(0) == gpus.memory - (1 << 20)
    del memory
    assert runtime.free_memory(0) == gpus.memory


def test_the_threads_device_is_given_back(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    def fail() -> None:
        with runtime.use(1):
            assert gpus.device() == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gpus.device() == 0


# kernels


@pytest.mark.parametrize(
    ("architecture", "target", "kind"), [(80, "sm_80", b"cubin"), (86, "compute_80", b"ptx"), (100, "compute_90", b"ptx")]
)
def test_a_gpu_that_nvrtc_does_not_know_gets_intermediate_code(
    runtime: CupyRuntime, gpus: FakeGpus, architecture: int, target: str, kind: bytes
) -> None:
    (compiled,) = runtime.compile("source", ["copy<float>"], architecture)
    assert compiled == (kind + b" of copy<float>", "_Z_copy<float>")
    assert gpus.compiled == [(*cupy_runtime.compile_options((13, 0)), f"--gpu-architecture={target}")]


def test_an_option_is_left_out_where_it_was_never_tried() -> None:
    assert "--minimal" in cupy_runtime.compile_options((12, 9))
    assert "--minimal" in cupy_runtime.compile_options((13, 0))
    assert cupy_runtime.compile_options((12, 8)) == tuple(
        option for option in cupy_runtime.compile_options((13, 0)) if option != "--minimal"
    )


def test_the_compiler_s_options_belong_to_its_version(runtime: CupyRuntime) -> None:
    """So an image that was made with other options is not found again."""
    assert runtime.compiler_version() == " ".join(["NVRTC 13.0", *cupy_runtime.compile_options((13, 0))])


def test_instances_of_a_source_are_compiled_in_one_program(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    image = b"cubin of copy<float>, scale<float>"
    assert runtime.compile("source", ["copy<float>", "scale<float>"], 90) == [(image, "_Z_copy<float>"), (image, "_Z_scale<float>")]
    assert len(gpus.compiled) == 1


def test_a_refused_source_is_reported_with_the_log(runtime: CupyRuntime) -> None:
    sys.modules["cupy"].cuda.nvrtc.refused = {"copy<float>": "kernel.cu(3): error: expected a ';'"}
    with pytest.raises(DeviceError, match=r"refuses copy<float> for sm_90:\nkernel\.cu\(3\)"):
        runtime.compile("source", ["copy<float>"], 90)


@pytest.mark.parametrize(("version", "is_too_old"), [((12, 0), True), ((12, 1), False), ((13, 0), False)])
def test_an_nvrtc_that_lacks_instructions_is_named(runtime: CupyRuntime, version: tuple[int, int], is_too_old: bool) -> None:
    nvrtc = sys.modules["cupy"].cuda.nvrtc
    nvrtc.refused, nvrtc.getVersion = {"copy<float>": "kernel.cu(3): error"}, lambda: version
    with pytest.raises(DeviceError) as raised:
        runtime.compile("source", ["copy<float>"], 90)
    hint = ", as NVRTC 12.0 is older than 12.1, which all kernels need: install a newer CUDA toolkit, or dmlpy[cuda12]"
    assert str(raised.value) == f"NVRTC refuses copy<float> for sm_90{hint if is_too_old else ''}:\nkernel.cu(3): error"


def test_of_several_instances_the_refused_one_is_reported(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    sys.modules["cupy"].cuda.nvrtc.refused = {"copy<float>": "kernel.cu(3): error", "scale<float>": "kernel.cu(4): error"}
    with pytest.raises(DeviceError, match=r"refuses copy<float> for sm_90:\nkernel\.cu\(3\): error$"):
        runtime.compile("source", ["pack<float>", "copy<float>", "scale<float>"], 90)


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("static", [0, 1024])
def test_a_kernel_may_have_all_the_shared_memory_that_a_block_can(device: int, static: int, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    gpus.static_shared = static
    function = in_a_fresh_thread(lambda: runtime.load(device, b"image", "symbol", gpus.optin))
    largest = gpus.optin - static

    def launch(shared_bytes: int) -> None:
        with runtime.use(device):
            runtime.launch(function, (1, 1, 1), 128, shared_bytes, ARGUMENT, 0)

    in_a_fresh_thread(lambda: launch(largest))
    assert gpus.launches == [(0, device, ARGUMENT.tobytes(), largest)]
    with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_VALUE"):
        launch(largest + 1)
    assert gpus.device() == 0


@pytest.mark.parametrize("device", [0, 1])
def test_a_fresh_thread_can_ask_about_a_kernel(device: int, runtime: CupyRuntime) -> None:
    function = runtime.load(device, b"image", "symbol", 0)
    assert in_a_fresh_thread(lambda: runtime.attributes(function)).registers == 128
    assert in_a_fresh_thread(lambda: runtime.occupancy(function, 128, 0)) == 1


def test_a_launch_takes_the_arguments_value(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    function = runtime.load(0, b"image", "symbol", 0)
    argument = ARGUMENT.copy()
    stream = sys.modules["cupy"].cuda.Stream()
    for count in (1, 2):
        argument["count"] = count
        runtime.launch(function, (1, 1, 1), 128, 0, argument, stream.ptr)
    assert [np.frombuffer(run[2], ARGUMENT.dtype)["count"][0] for run in gpus.launches] == [1, 2]
    assert {run[0] for run in gpus.launches} == {stream.ptr}


def test_a_cooperative_grid_that_is_too_large_is_refused(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    function = runtime.load(0, b"image", "symbol", 0)
    launch = in_a_fresh_thread(lambda: runtime.bind_launch(function, (132, 1, 1), 128, 0, ARGUMENT, cooperative=True))
    launch(0)
    with pytest.raises(DeviceError, match="133"):
        runtime.bind_launch(function, (133, 1, 1), 128, 0, ARGUMENT, cooperative=True)
    assert len(gpus.launches) == 1


def test_cublas_is_started_by_the_first_product(runtime: CupyRuntime) -> None:
    """Its libraries and its memory are some hundred MB."""
    runtime.launch(runtime.load(0, b"image", "symbol", 0), (1, 1, 1), 128, 0, ARGUMENT, 0)
    assert runtime._cublas == {}
    runtime.workspace_size(1)
    assert list(runtime._cublas) == [1], "whoever plans a product asks for its workspace, before any capture"


def test_each_device_has_a_handle_of_its_own(runtime: CupyRuntime) -> None:
    for device in (1, 0, 1):
        with runtime.use(device):
            runtime.gemm(device, product(accumulate=device == 1, tf32=device == 0), 0)
    assert runtime._cublas[1].products == [(0, None, True, False)] * 2  # type: ignore[attr-defined]
    assert runtime._cublas[0].products == [(0, None, False, True)]  # type: ignore[attr-defined]


# memory


def test_host_words_are_zero_and_lie_where_kernels_find_them(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    address, words = runtime.host_words(1, 3)
    assert [*words] == [0, 0, 0]
    gpus.pinned[0].view(np.uint32)[2] = 7
    assert ([*words], address) == ([0, 0, 7], gpus.pinned[0].ctypes.data)
    words[2] = 0
    assert not gpus.pinned[0].any()


def test_a_device_that_cannot_write_to_host_memory_has_no_host_words(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    gpus.maps_host_memory = 0
    with pytest.raises(DeviceError, match="cannot write to host memory"):
        runtime.host_words(0, 3)
    assert gpus.pinned == []


def test_freed_memory_goes_back_to_the_stream_that_asked_for_it(runtime: CupyRuntime) -> None:
    stream = sys.modules["cupy"].cuda.Stream()
    memory = runtime.allocate(0, 4096, stream.ptr)
    pointer = memory.pointer
    del memory  # work on `stream` may still use it: only later work of that stream may have it
    other = runtime.allocate(0, 4096, 0)
    assert other.pointer != pointer
    assert runtime.allocate(0, 4096, stream.ptr).pointer == pointer
    assert stream.ptr in sys.modules["cupy"].cuda.runtime._gpus.streams, "a caller's stream is not destroyed"


@pytest.mark.parametrize("device", [0, 1])
def test_freed_memory_waits_for_every_stream_that_used_it(
    device: int, runtime: CupyRuntime, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is asked of CUDA where it is freed: the thread may be capturing just then."""
    monkeypatch.setattr(cupy_pool, "MOST_RETURNING", 0)
    cuda = sys.modules["cupy"].cuda
    with runtime.use(device):
        streams = [cuda.Stream(non_blocking=True) for _ in range(2)]
    memory = runtime.allocate(device, 4096, 0)
    pointer = memory.pointer
    for stream in (*streams, streams[0]):
        memory.used_in(stream.ptr)
    gpus.busy.update(stream.ptr for stream in streams)
    free = runtime.allocate(device, 1024, 0).pointer
    streams[0].begin_capture()
    del memory
    assert runtime.allocate(device, 1024, 0).pointer == free, "what needs nothing of CUDA is given meanwhile too"
    streams[0].end_capture()
    for stream in streams:
        assert runtime.allocate(device, 4096, 0).pointer != pointer
        gpus.busy.discard(stream.ptr)
    found = [runtime.allocate(device, 4096, 0) for _ in range(3)]
    assert pointer in {block.pointer for block in found}
    assert gpus.device() == 0


def test_memory_of_an_array_waits_for_streams_that_use_it(runtime: CupyRuntime, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy_pool, "MOST_RETURNING", 0)
    array, stream = runtime.empty(0, (1024,), (1,), np.dtype(np.float32), 0), sys.modules["cupy"].cuda.Stream()
    pointer, memory = array.data.ptr, runtime.memory_of(0, array, 0)
    assert (memory.pointer, memory.size) == (pointer, 4096)
    memory.used_in(0)
    assert not gpus.recorded
    memory.used_in(stream.ptr)
    gpus.busy.add(stream.ptr)
    del memory, array
    assert runtime.allocate(0, 4096, 0).pointer != pointer
    gpus.busy.clear()
    runtime.allocate(0, 1024, 0)
    assert pointer in {block.pointer for block in [runtime.allocate(0, 4096, 0) for _ in range(3)]}


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
def test_both_handles_of_the_legacy_stream_share_their_memory(first: int, second: int, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    memory = runtime.allocate(0, 4096, first)
    pointer = memory.pointer
    memory.used_in(second)
    assert not gpus.recorded, "it is the same stream"
    del memory
    assert runtime.allocate(0, 4096, second).pointer == pointer


def test_the_default_stream_of_another_thread_is_another_stream(
    runtime: CupyRuntime, gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupy_pool, "MOST_RETURNING", 0)
    memory = runtime.allocate(0, 4096, 2)
    pointer = memory.pointer
    memory.used_in(2)
    assert not gpus.recorded
    for _ in range(2):
        in_a_fresh_thread(partial(memory.used_in, 2))
    assert len(set(gpus.recorded)) == 2, "an event for each of the threads"
    gpus.busy.add(2)
    del memory
    assert runtime.allocate(0, 4096, 2).pointer != pointer
    gpus.busy.clear()
    runtime.allocate(0, 1024, 2)
    assert runtime.allocate(0, 4096, 2).pointer == pointer
    assert in_a_fresh_thread(lambda: runtime.allocate(0, 4096, 2).pointer) != pointer, "each thread has an arena"


def test_memory_that_waits_is_waited_for_rather_than_missing(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    gpus.memory = 1 << 20  # all that is allocated is written
    size = gpus.memory - 4096
    stream = sys.modules["cupy"].cuda.Stream()
    memory = runtime.allocate(0, size, 0)
    memory.used_in(stream.ptr)
    gpus.busy.add(stream.ptr)
    del memory
    assert runtime.allocate(0, size, 0).size == size
    assert not gpus.busy, "it waited"


def test_few_blocks_that_wait_are_not_asked_about(runtime: CupyRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are queried where many blocks wait, or where memory lacks."""
    queries: list[int] = []

    def query(event: int) -> int:
        queries.append(event)
        return 0

    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "eventQuery", query)
    stream = sys.modules["cupy"].cuda.Stream()
    for count in range(cupy_pool.MOST_RETURNING + 1):
        runtime.allocate(0, 512 * (count + 1), 0).used_in(stream.ptr)
    assert not queries
    runtime.allocate(0, 256, 0)
    assert len(queries) == cupy_pool.MOST_RETURNING + 1
    assert not runtime.pool.returning


@pytest.mark.parametrize("device", [0, 1])
def test_host_arrays_come_and_go(device: int, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    source = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    wanted = source.copy()
    made = runtime.to_device(device, source, 0)
    source[...] = -1  # the caller's again, also where the copy is asynchronous: for example from pinned memory
    np.testing.assert_array_equal(runtime.to_host(made, 0), wanted)
    assert runtime.to_host(runtime.to_device(device, np.zeros((2, 0), np.float16), 0), 0).shape == (2, 0)
    assert gpus.blocks[made.data.ptr][0] == device
    assert gpus.device() == 0


def test_a_pinned_array_is_the_callers_again(runtime: CupyRuntime) -> None:
    source = np.ones(8, np.float32)
    made = runtime.to_device(0, source, 0)
    source[:] = 2
    np.testing.assert_array_equal(runtime.to_host(made, 0), 1)


def test_strided_arrays_are_as_large_as_they_reach(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    made = runtime.empty(0, (2, 3), (8, 1), np.dtype(np.float32), 0)
    assert made.strides == (32, 4)
    assert gpus.blocks[made.data.ptr][1].nbytes == 512 + 4 * (8 + 2 + 1)
    assert runtime.empty(0, (2, 0), (0, 1), np.dtype(np.float32), 0).shape == (2, 0)


def test_own_arrays_are_seen_as_they_describe_themselves(runtime: CupyRuntime) -> None:
    made = runtime.empty(0, (2, 3), (8, 1), np.dtype(np.float32), 0)
    assert runtime.view(made) == view(made)._replace(device="cuda:0", stream=None), "CuPy's arrays are ordered by CuPy's current stream"
    assert runtime.view(np.zeros(3)) is None


def test_bytes(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    memory = runtime.allocate(0, 8, 0)
    runtime.memset(memory.pointer, 0x11, 8, 0)
    runtime.copy(memory.pointer + 4, memory.pointer, 2, 0)
    runtime.memset(memory.pointer, 0x22, 1, 0)
    assert runtime.read(memory.pointer, 8, 0) == b"\x22" + b"\x11" * 7
    assert gpus.synchronized == [0]


def test_a_dlpack_array_is_taken_on_its_device(runtime: CupyRuntime) -> None:
    class Exporter:
        streams: list[int] = []

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

        def __dlpack__(self, *, stream: int) -> str:
            self.streams.append(stream)
            return "array"

    assert runtime.from_dlpack(Exporter()) == "array"
    assert Exporter.streams == [1], "ordered before CuPy's current stream"


# order


def test_the_default_stream_is_not_asked_whether_it_captures(runtime: CupyRuntime) -> None:
    stream = sys.modules["cupy"].cuda.Stream(non_blocking=True)
    stream.begin_capture()
    assert runtime.is_capturing(stream.ptr)
    assert not runtime.is_capturing(0)
    assert not runtime.is_capturing(1)
    stream.end_capture()
    assert not runtime.is_capturing(stream.ptr)


@pytest.mark.parametrize("device", [0, 1])
def test_a_graph_repeats_what_was_captured(device: int, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    function = runtime.load(device, b"image", "symbol", 0)

    def issue(stream: int) -> None:
        runtime.launch(function, (1, 1, 1), 128, 0, ARGUMENT, stream)
        runtime.gemm(device, product(), stream, workspace=4096)

    runtime.workspace_size(device)
    blocks = dict(gpus.blocks)
    graph = runtime.capture(device, issue)
    blas: Any = runtime._cublas[device]
    assert not gpus.launches
    assert not blas.products
    for turn in (1, 2):
        runtime.launch_graph(graph, 0)
        assert len(gpus.launches) == len(blas.products) == turn
    assert blas.products[0][1] == (4096, runtime.workspace_size(device))
    assert gpus.blocks == blocks, "a capture allocates nothing"
    assert gpus.device() == 0


@pytest.mark.parametrize(("major", "expected"), [(7, 4 << 20), (8, 4 << 20), (9, 32 << 20), (12, 32 << 20)])
def test_the_memory_that_cublas_wants(major: int, expected: int, runtime: CupyRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "deviceGetAttribute", lambda attrib, device: {75: major}[attrib])
    assert runtime.workspace_size(0) == expected


def test_a_capture_that_fails_is_ended(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    def issue(stream: int) -> None:
        runtime.gemm(0, product(), stream)
        runtime.synchronize(stream)

    runtime.workspace_size(0)
    with pytest.raises(DeviceError, match="StreamCaptureUnsupported"):
        runtime.capture(0, issue)
    assert not gpus.recordings


def test_events(runtime: CupyRuntime) -> None:
    with runtime.use(1):
        start, end = runtime.record_event(0), runtime.record_event(0)
    assert runtime.elapsed_ms(start, end) == 1.5


def test_the_current_stream_is_cupys(runtime: CupyRuntime) -> None:
    stream = sys.modules["cupy"].cuda.Stream()
    with stream:
        assert runtime.current_stream(0) == stream.ptr
        assert runtime.current_stream(1) == 0
        assert in_a_fresh_thread(lambda: runtime.current_stream(0)) == 0
    assert runtime.current_stream(0) == 0


# profiling


def test_ranges_go_to_nvtx(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    runtime.push_range("outer")
    runtime.push_range("inner")
    runtime.pop_range()
    runtime.pop_range()
    assert gpus.ranges == ["outer", "inner", None, None]


@pytest.mark.parametrize("change", [lambda cuda: delattr(cuda, "nvtx"), lambda cuda: setattr(cuda.nvtx, "available", False)])
def test_a_cupy_without_nvtx_has_no_ranges(change: Callable[[Any], None], runtime: CupyRuntime, gpus: FakeGpus) -> None:
    change(sys.modules["cupy"].cuda)
    runtime.push_range("name")
    runtime.pop_range()
    assert gpus.ranges == []


def test_a_dispatch_that_fails_ends_its_range(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    dispatch = CASES["persistent_block, LSTM"].bound(runtime, "FLOAT32")
    gpus.ranges.clear()
    gpus.broken = CUDARuntimeError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered")
    with pytest.raises(DeviceError, match="cudaErrorIllegalAddress"):
        dispatch()
    assert gpus.ranges == ["DML_LSTM_OPERATOR_DESC", None]


# failures


def test_missing_memory_is_reported_as_such(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    with pytest.raises(DeviceError, match="Out of memory") as error:
        runtime.allocate(0, gpus.memory + 1, 0)
    assert error.value.hresult == HResult.E_OUTOFMEMORY


def test_errors_of_the_machine_are_device_errors(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    function = runtime.load(0, b"image", "symbol", 0)
    gpus.broken = CUDARuntimeError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered")
    calls: list[Callable[[], object]] = [
        lambda: runtime.launch(function, (1, 1, 1), 128, 0, ARGUMENT, 0),
        lambda: runtime.synchronize(0),
        lambda: runtime.allocate(0, 16, 0),
        lambda: runtime.free_memory(0),
        lambda: runtime.read(512, 1, 0),
        lambda: runtime.copy(512, 512, 1, 0),
    ]
    for call in calls:
        with pytest.raises(DeviceError, match="cudaErrorIllegalAddress"):
            call()


@pytest.mark.parametrize("error", [ImportError("libcudart.so.13"), OSError("broken"), RuntimeError("two CuPys")])
def test_a_cupy_that_cannot_be_imported_is_no_gpu(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Refusing:
        """Finds CuPy, and fails to load it."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            if name == "cupy":
                raise error

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refusing, *sys.meta_path])
    for ask in (CupyRuntime().device_count, lambda: CupyRuntime().limits(0)):
        with pytest.raises(DeviceError, match=str(error)):
            ask()
