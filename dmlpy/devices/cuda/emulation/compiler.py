"""Compiles kernels with g++ and runs them on the CPU: in this process, or under sanitizers in a separate process.

The kernels are the product's, without change; only the text of common/machine.cuh gives way to cuda_on_cpu.h, which also holds the
CUDA threads' execution.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.sources import MACHINE_BEGIN, MACHINE_END, directory
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent
FLAGS = ("-std=c++17", "-O1", "-fvisibility=hidden", "-pthread", "-fno-exceptions", "-nostdinc++")
"""Of all that is compiled for a kernel. C++'s own headers are left out: to read their <math.h> takes longer than many a kernel."""

SHARED = (*FLAGS, "-shared", "-fPIC")
SYMBOLS = ("-g", "-O0")
"""Added where a debugger is to stop in a kernel and to show its variables."""

LIBRARIES = ("-nostdlib", "-lgcc", "-lm")
"""The options that link a shared object to libraries. The C library is none of them: its table takes longer to read than all the rest, and
this process has it."""

MACHINE = re.compile(re.escape(MACHINE_BEGIN) + ".*?" + re.escape(MACHINE_END), re.DOTALL)
"""The part of an expanded source that differs between a GPU and this CPU."""

THREADS = "cuda_threads_on_cpu.cpp"
MACHINE_FILES = (
    "cuda_on_cpu.h",
    "cuda_threads_on_cpu.h",
    THREADS,
    "cuda_arithmetic_on_cpu.h",
    "cuda_tracing_on_cpu.h",
    "cuda_events_on_cpu.h",
    "cuda_on_cpu_main.cpp",
)
"""The emulated GPU."""

ARITHMETICS = ("exact", "up", "down", "mixed")
"""Modes of the GPU's approximate functions and tensor cores: exact results, or such as are off by all that is documented, upwards,
downwards, or in either direction; cuda_arithmetic_on_cpu.h."""

PATIENCE_S = 60.0
"""How long a block may wait for another before the launch counts as hung."""

Array = np.ndarray[Any, Any]


@functools.cache
def compiler_version() -> str:
    """The key of compiled code beside the source and g++'s options: g++, the kind of processor, and the machine under the kernels."""
    gcc = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    machine = b"".join((HERE / name).read_bytes() for name in MACHINE_FILES)
    return f"{gcc}, {platform.machine()}, {hashlib.sha256(machine).hexdigest()[:16]}"


def cache_directory() -> Path:
    """The folder of compiled kernels, or the one that DMLPY_TEST_CACHE names. Its files are executed: others must not write to it.

    Raises:
        DeviceError: there is no such folder.
    """
    place = os.environ.get("DMLPY_TEST_CACHE")
    remedy = "set XDG_CACHE_HOME to a folder of your own"
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        directory = Path(place) if place else base / "dmlpy" / "cuda_on_cpu"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = directory.stat()
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home directory
        raise DeviceError(f"there is no folder for compiled kernels: {error}: {remedy}") from None
    if not os.getuid() == os.geteuid() == state.st_uid or state.st_mode & 0o022:
        raise DeviceError(f"{directory} belongs to others or is open to their writing: {remedy}")
    return directory


def over_cpu_machine(source: str) -> str:
    """An expanded source with cuda_on_cpu.h in the place of the machine header, or before all else if it has none."""
    header = '#include "cuda_on_cpu.h"\n'
    source, replaced = MACHINE.subn(header, source)
    return source if replaced else f'{header}#line 1 "kernel.cu"\n{source}'


def kernel_text(source: str, entry: str) -> str:
    """The C++ text of one kernel instance with the functions that start it."""
    return f"{over_cpu_machine(source)}\nCUDA_ON_CPU_ENTRY({entry})\n"


@functools.cache
def precompiled_header(flags: tuple[str, ...]) -> Path:
    """A folder where g++ finds cuda_on_cpu.h as it read it once: a quarter of the time that a kernel takes.

    Nothing else depends on it: what is not there g++ reads anew.
    """
    key = hashlib.sha256("\0".join([compiler_version(), *flags]).encode()).hexdigest()
    folder = cache_directory() / f"headers-{key[:16]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as workplace:
            built = Path(workplace) / "headers"
            built.mkdir()
            header = HERE / "cuda_on_cpu.h"
            command = ["g++", *flags, "-x", "c++-header", str(header), "-o", str(built / f"{header.name}.gch")]
            subprocess.run(command, capture_output=True, check=False)
            with contextlib.suppress(OSError):  # another process was faster
                built.rename(folder)
    return folder


def compile_program(
    text: str, flags: Sequence[str], linked: Sequence[str | Path] = (), *, instruments: Sequence[str] = (), precompiled: bool = False
) -> Path:
    """The file that g++ makes of the C++ `text` and of objects and libraries, from the cache if it was made before.

    `instruments` are sanitizers whose libraries are not linked. `precompiled` pays where many programs have the same flags: their header
    is read once.
    """
    parts = [part.name if isinstance(part, Path) else part for part in linked]
    key = hashlib.sha256("\0".join([compiler_version(), *flags, *instruments, *parts, text]).encode())
    target = cache_directory() / key.hexdigest()
    if not target.exists():
        try:
            _compile(text, target, flags, linked, instruments, precompiled=precompiled)
        except OSError as error:
            raise DeviceError(f"the kernel cannot be stored in {target.parent}: {error.strerror or error}") from error
    return target


def _compile(
    text: str, target: Path, flags: Sequence[str], linked: Sequence[str | Path], instruments: Sequence[str], *, precompiled: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as workplace:
        source = Path(workplace) / "kernel.cpp"
        source.write_text(text)
        built = Path(workplace) / "made"
        headers = [precompiled_header((*flags, *instruments)), HERE] if precompiled else [HERE]
        compile_only = ["g++", *flags, *instruments, *(f"-I{folder}" for folder in headers), str(source)]
        commands = [[*compile_only, *map(str, linked), "-o", str(built)]]
        if instruments:
            compiled = str(Path(workplace) / "kernel.o")
            named = f"-fdebug-prefix-map={os.getcwd()}=."
            commands = [[*compile_only, named, "-c", "-o", compiled], ["g++", *flags, compiled, *map(str, linked), "-o", str(built)]]
        for command in commands:
            # symbols name the sources relative to the folder where g++ runs
            outcome = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory() if "-g" in flags else None)
            if outcome.returncode:
                raise DeviceError(f"g++ refuses the kernel:\n{outcome.stderr}")
        built.replace(target)


@functools.cache
def machine_object(file: str, *flags: str) -> Path:
    """Compiles a file that is the same for all kernels with these flags: it is linked to each of them."""
    return compile_program((HERE / file).read_text(), (*flags, "-c"))


@functools.cache
def fused_flags() -> tuple[str, ...]:
    """Products and sums in one rounding, as NVRTC makes them by default; on processors that can."""
    cpu = Path("/proc/cpuinfo")
    has_fma = platform.machine() == "x86_64" and cpu.exists() and re.search(r"^flags.*\bfma\b", cpu.read_text(), re.MULTILINE)
    return ("-ffp-contract=fast", *(["-mfma"] if has_fma else []))


@functools.cache
def quick_linker() -> tuple[str, ...]:
    """The option for GNU gold where it is installed: it links sanitizers' libraries in a third of ld's time, which is half of g++'s."""
    return ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()


def compile_shared(source: str, entry: str, *, fused: bool = False, symbols: bool = False) -> Path:
    """A shared object that runs the kernel `entry` of an expanded source in this process; `fused` as in `fused_flags`.

    It is not optimized, unless rounding products and sums together needs that: of most kernels g++'s optimizations take several times as
    long as they save. What executes the CUDA threads is optimized.
    """
    flags = (*SHARED, *(fused_flags() if fused else ["-O0"]), *(SYMBOLS if symbols else ()))
    return compile_program(kernel_text(source, entry), flags, [machine_object(THREADS, *SHARED), *LIBRARIES], precompiled=True)


def compile_sanitized(source: str, entry: str, sanitize: str) -> Path:
    """A program that runs the kernel once under g++'s sanitizers, `sanitize` being "thread" or "address,undefined".

    It is not optimized: for all that the sanitizers add to a kernel that takes up to four times as long as the run saves.
    """
    flags = (*FLAGS, "-g", f"-fsanitize={sanitize}", "-fno-sanitize-recover=undefined")
    objects = [machine_object(file, *flags) for file in (THREADS, "cuda_on_cpu_main.cpp")]
    return compile_program(kernel_text(source, entry), (*flags, "-O0"), [*objects, *quick_linker()], precompiled=True)


@dataclass(frozen=True)
class LaunchShape:
    """How a kernel is launched.

    `seed` shuffles the order in which its threads run; `delay_us` bounds the random pause of a block before it releases something;
    `arithmetic` is one of `ARITHMETICS`.
    """

    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int = 0
    cooperative: bool = False
    seed: int = 0
    patience_s: float = PATIENCE_S
    delay_us: int = 0
    arithmetic: str = "exact"


class SharedKernel:
    """A kernel in a shared object, loaded into this process."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        self._run = library.cuda_on_cpu_run
        self._run.restype = ctypes.c_int
        size, address = ctypes.c_size_t, ctypes.c_void_p
        grid = ctypes.POINTER(ctypes.c_uint)
        settings = (ctypes.c_int, ctypes.c_uint64, ctypes.c_double, ctypes.c_uint, ctypes.c_int)
        self._run.argtypes = (grid, ctypes.c_uint, size, address, *settings, ctypes.c_char_p, size)
        library.cuda_on_cpu_parameter_bytes.restype = size
        library.cuda_on_cpu_static_shared_bytes.restype = size
        self.cluster_blocks: int = library.cuda_on_cpu_cluster_blocks()
        self.parameter_bytes: int = library.cuda_on_cpu_parameter_bytes()
        self.static_shared_bytes: int = library.cuda_on_cpu_static_shared_bytes()

    def run(self, shape: LaunchShape, argument: Array) -> None:
        """Runs the grid to its end. Raises DeviceError with the text of the first thing that went wrong."""
        if argument.nbytes != self.parameter_bytes:
            raise DeviceError(f"the kernel's parameter has {self.parameter_bytes} bytes, the argument {argument.nbytes}")
        error = ctypes.create_string_buffer(1024)
        failed = self._run(
            (ctypes.c_uint * 3)(*shape.grid),
            shape.threads,
            shape.shared_bytes,
            argument.ctypes.data,
            int(shape.cooperative),
            shape.seed,
            shape.patience_s,
            shape.delay_us,
            ARITHMETICS.index(shape.arithmetic),
            error,
            len(error),
        )
        if failed:
            raise DeviceError(error.value.decode(errors="replace"))


@dataclass(frozen=True)
class Relocation:
    """The pointer at byte `offset` of an argument points `buffer_offset` bytes into buffer number `buffer`."""

    offset: int
    buffer: int
    buffer_offset: int = 0


def run_program(
    program: Path, shape: LaunchShape, argument: bytes, relocations: Sequence[Relocation], buffers: Sequence[bytes]
) -> tuple[list[bytes], str]:
    """Runs a program of `compile_sanitized`; returns the buffers after the run and what it printed.

    There are no buffers if the run did not come to its end, as at a sanitizer's first finding.
    """
    header = np.array(
        [
            *(*shape.grid, shape.threads, shape.shared_bytes, shape.cooperative, shape.seed, shape.delay_us),
            ARITHMETICS.index(shape.arithmetic),
            *(len(argument), len(relocations), len(buffers)),
        ],
        np.uint64,
    )
    table = np.array([(r.offset, r.buffer, r.buffer_offset) for r in relocations], np.uint64)
    with tempfile.TemporaryDirectory() as workplace:
        input_path, output_path = Path(workplace) / "input", Path(workplace) / "output"
        with input_path.open("wb") as file:
            file.write(header.tobytes() + np.float64(shape.patience_s).tobytes() + argument + table.tobytes())
            for buffer in buffers:
                file.write(np.uint64(len(buffer)).tobytes() + buffer)
        environment = {
            **os.environ,
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "TSAN_OPTIONS": "exitcode=0 halt_on_error=1 report_signal_unsafe=0",
        }
        command = [str(program), str(input_path), str(output_path)]
        outcome = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environment)
        report = outcome.stderr
        if outcome.returncode and not report:
            report = f"the program ended with status {outcome.returncode}"
        if not output_path.exists():
            return [], report
        written = output_path.read_bytes()
    ends = np.cumsum([0, *map(len, buffers)])
    return [written[begin:end] for begin, end in itertools.pairwise(ends)], report


def run_sanitized(
    source: str,
    entry: str,
    grid: tuple[int, int, int],
    threads: int,
    shared_bytes: int,
    argument: Array,
    buffers: Mapping[str, Array],
    sanitize: str = "address,undefined",
    cooperative: bool = False,
) -> tuple[dict[str, Array], str]:
    """Runs a kernel once under g++'s sanitizers.

    `argument` is one element of a struct; `buffers` gives the memory behind each of its pointer fields (one array under two names is one
    memory). Returns the buffers after the run, none if the run ended early, and the sanitizers' report, empty if they found nothing.
    """
    distinct = {id(array): np.ascontiguousarray(array) for array in buffers.values()}
    numbers = {identity: number for number, identity in enumerate(distinct)}
    offsets = {name: field[1] for name, field in (argument.dtype.fields or {}).items()}
    relocations = [Relocation(offsets[name], numbers[id(array)]) for name, array in buffers.items()]
    program = compile_sanitized(source, entry, sanitize)
    shape = LaunchShape(grid, threads, shared_bytes, cooperative)
    contents, report = run_program(program, shape, argument.tobytes(), relocations, [array.tobytes() for array in distinct.values()])
    after = {
        name: np.frombuffer(contents[numbers[id(array)]], array.dtype).reshape(array.shape) for name, array in buffers.items() if contents
    }
    return after, report


def struct_layouts(source: str, structs: Mapping[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    """The layout by g++ of C++ structs with these fields: for each struct the offset of each field in bytes, and its size under ""."""
    rows = []
    for number, (struct, fields) in enumerate(structs.items()):
        rows.append(f"    using Struct{number} = {struct};\n")
        rows += (f'    printf("{number} {field} %zu\\n", __builtin_offsetof(Struct{number}, {field}));\n' for field in fields)
        rows.append(f'    printf("{number}  %zu\\n", sizeof(Struct{number}));\n')
    printf = 'extern "C" int printf(const char*, ...);\n'
    text = f"{over_cpu_machine(source)}\n{printf}int main() {{\n{''.join(rows)}}}\n"
    program = compile_program(text, (*FLAGS, "-O0", "-Wno-invalid-offsetof"), precompiled=True)
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    layouts: dict[str, dict[str, int]] = {struct: {} for struct in structs}
    for line in printed.splitlines():
        place, field, bytes_before = line.split(" ")
        layouts[list(structs)[int(place)]][field] = int(bytes_before)
    return layouts


def dtype_layout(data_type: np.dtype[Any], prefix: str = "") -> dict[str, int]:
    """The same of one NumPy dtype, nested structs as `sequence.strides`."""
    layout = {} if prefix else {"": data_type.itemsize}
    for name, field in (data_type.fields or {}).items():
        inner, offset = field[0], field[1]
        layout[prefix + name] = offset
        if inner.fields:
            nested = dtype_layout(inner, f"{prefix}{name}.")
            layout.update({path: offset + at for path, at in nested.items()})
    return layout
