"""`.ci/gpu kernels`: compiles all kernels that the calls use, without a GPU, into one file that a call unpacks where the product looks."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path

import pytest

import dmlpy as dml
from dmlpy.bench import priorities
from dmlpy.bench.operators.shape import LargeShape
from dmlpy.bench.shapes import Recurrent
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.offline_device import OfflineRuntime, limits_of
from dmlpy.devices.cuda.plans import STRATEGIES
from dmlpy.devices.cuda.runtime.cupy_runtime import compiler_name
from dmlpy.devices.cuda.runtime.interface import Limits
from dmlpy.devices.host.processors import processors
from dmlpy.devices.persistence import image_archive
from dmlpy.devices.persistence.image_store import ImageStore
from dmlpy.messages.problems import DeviceError
from tests.gpu_check import bench, info, steps
from tests.gpu_check.calls import named_in
from tests.support.cuda import gpu_kernels, plan_kernels
from tests.support.cuda.binaries.nvrtc import Nvrtc, NvrtcError
from tests.support.cuda.changed_waits import delays
from tests.support.cuda.gpu_kernels import Named
from tests.support.tools import folder_of

TOLD_EACH = 50
"""Kernels between two lines."""


class NvrtcRuntime(OfflineRuntime):
    """A GPU that need not be there, and another NVRTC than the one that CuPy finds here."""

    def __init__(self, limits: Limits, library: Path) -> None:
        super().__init__(limits)
        self._nvrtc = Nvrtc(library)

    def compiler_version(self) -> str:
        return compiler_name(self._nvrtc.version)

    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        try:
            image, symbols, _ = self._nvrtc.compile(source, entries, f"sm_{architecture}", "CUBIN")
        except NvrtcError as error:
            raise DeviceError(str(error)) from error
        return [(image, symbol) for symbol in symbols]


def runtime_of(target: str, version: str | None) -> OfflineRuntime:
    """What compiles for a GPU or an architecture, with a version of NVRTC, the one in a folder, or the one that CuPy finds.

    Raises:
        DeviceError: there is no such GPU, or no such NVRTC.
    """
    limits = limits_of(target)
    if version is None:
        return OfflineRuntime(limits)
    folder = folder_of("nvrtc", version) or Path(version)
    found = sorted(folder.rglob("libnvrtc.so.*"))
    if not found:
        command = f"pip install --no-deps --target FOLDER 'nvidia-cuda-nvrtc=={version}.*'"
        raise DeviceError(f"there is no NVRTC in {folder}; {command} brings one, and --nvrtc FOLDER takes it")
    return NvrtcRuntime(limits, found[-1])


def named_by_tests(target: str, scratch: Path) -> set[Named]:
    """The kernels of the tests of `core`, the soak with them, found by as many processes as there are processors."""

    def named(number: int, file: str) -> list[Named]:
        return gpu_kernels.kernels_of_gpu_tests(scratch / f"{number}", file, marks="gpu and not slow", gpu=target)[1]

    os.environ["DMLPY_TEST_SOAKED"] = "0"  # one dispatch names all
    with ThreadPoolExecutor(processors()) as executor:
        files = Path(named_in("core").removeprefix("@")).read_text().split()
        return {one for found in executor.map(named, range(len(files)), files) for one in found}


def named_by_cases(limits: Limits) -> set[Named]:
    """The kernels of `bench` and `steps` in each strategy, of `operators`, and the one by which `info` checks whether they fit."""
    cases = [*bench.layer_cases(priorities.FIRST_LAYERS), *bench.operator_cases(), *steps.cases()]
    planned = []
    for case in cases:
        tf32 = isinstance(case.shape, LargeShape) and case.shape.operator_case.half_precision
        for strategy in (None, *STRATEGIES) if isinstance(case.shape, Recurrent) else (None,):
            planned.append(plan_kernels.Case(limits, strategy, case.shape, case.which, case.dtype, tf32))
    library = plan_kernels.RecordingLibrary(limits)
    device = CudaDevice(library.runtime)
    device.library = library
    dml.compile(info.probe(), device)
    return {(kernel, False) for kernel in (*library.kernels, *plan_kernels.kernels_of(planned))}


def compile_all(runtime: OfflineRuntime, named: Iterable[Named]) -> list[str]:
    """Compiles what is not in the store yet, each kernel by itself, on all processors. The keys of all."""
    plain, late = KernelLibrary(runtime, 0), KernelLibrary(runtime, 0)
    ordered = sorted(named, key=lambda one: (one[0].file, one[0].entry))
    start = time.monotonic()
    for library, is_late in ((plain, False), (late, True)):
        with (
            pytest.MonkeyPatch.context() as patch,
            delays(patch) if is_late else nullcontext(),
            ThreadPoolExecutor(processors()) as executor,
        ):
            kernels = [kernel for kernel, comes_late in ordered if comes_late == is_late]
            under_way = [executor.submit(library.images, [kernel]) for kernel in kernels]
            for number, done in enumerate(as_completed(under_way), 1):
                done.result()
                if number % TOLD_EACH == 0:
                    print(f"{number} of {len(kernels)} after {time.monotonic() - start:.0f} s")
    compiled = len(plain.compiled) + len(late.compiled)
    print(f"{len(ordered)} kernels, {compiled} of them compiled in {time.monotonic() - start:.0f} s, the others were there")
    return [*plain.keys.values(), *late.keys.values()]


def main(target: str, nvrtc: str | None, output: Path, folder: Path) -> int:
    """Compiles for a GPU or an architecture as `runtime_of` does, and packs. An interrupted run continues from its folder."""
    try:
        runtime = runtime_of(target, nvrtc)
    except DeviceError as error:
        print(str(error))
        return 2
    limits, start = runtime.limits(0), time.monotonic()
    print(f"for a {limits.name} (sm_{limits.compute_capability}) by {runtime.compiler_version()}")
    with tempfile.TemporaryDirectory(prefix="dmlpy-kernels-") as name:
        os.environ["DMLPY_CACHE_DIR"] = name  # of the emulated device, which compiles nothing
        named = named_by_cases(limits) | named_by_tests(limits.name, Path(name))
    print(f"the calls name {len(named)} kernels; to find them took {time.monotonic() - start:.0f} s")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["DMLPY_CACHE_DIR"] = str(folder)
    keys = compile_all(runtime, named)
    store = ImageStore.open()
    if store is None:
        print(f"{folder} is not a folder that only this user can write to: nothing is kept")
        return 1
    count = image_archive.pack(store, keys, output)
    print(f"{count} kernels are in {output}, {output.stat().st_size / 1e6:.2f} MB, after {time.monotonic() - start:.0f} s")
    return 0
