"""NVRTC in several versions: compiles kernels for GPUs that need not be there, and reads the compiler's reports on them.

The newest is the one that is installed, others are in `tests.support.tools.folder_of`. Libraries of one major version share a
file name: each is loaded by its path, and all of them live side by side in one process.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dmlpy.devices.cuda.runtime.cupy_runtime import compile_options
from tests.support.tools import folder_of

NEWEST = "newest"
VERSIONS = ("12.9", "13.0", "13.1", NEWEST)
"""Every instance compiles with all of them."""
PROMISED = ("12.9", "13.0", NEWEST)
"""Those that CI has."""

_USAGE = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, \d+ bytes spill loads.*?Used (\d+) registers", re.DOTALL)


@dataclass(frozen=True)
class Compiled:
    """One kernel instance for one architecture.

    Attributes:
        image: the cubin, which holds the instances that were compiled with it too.
        symbol: the kernel's name in it.
        warnings: the compiler's messages, empty if it had none.
        stack_bytes: local memory of a thread.
        spilled_bytes: what it stores there for want of registers.
        registers: of a thread.
        kernels: in the image.
    """

    image: bytes
    symbol: str
    warnings: str
    stack_bytes: int
    spilled_bytes: int
    registers: int
    kernels: int


class NvrtcError(Exception):
    """NVRTC refuses the source; the text is its log."""


def library_of(version: str) -> Path | None:
    """Where the library of a version lies, `NEWEST` being the installed one; None where it is missing."""
    if version == NEWEST:
        package = importlib.util.find_spec("nvidia")
        roots = [] if package is None else [Path(root) for root in package.submodule_search_locations or ()]
    else:
        folder = folder_of("nvrtc", version)
        roots = [] if folder is None else [folder / "nvidia"]
    found = [path for root in roots for path in root.glob("*/lib/libnvrtc.so.*")]
    return max(found, default=None)


class Nvrtc:
    """One version of the library.

    Args:
        path: its file. The one with CUDA's own functions is next to it.

    Raises:
        OSError: it cannot be loaded.
    """

    def __init__(self, path: Path) -> None:
        for builtins in path.parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins))  # NVRTC loads it by its bare name, which need not be on the search path
        self._library = ctypes.CDLL(str(path))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = major.value, minor.value

    def compile(self, source: str, entries: Sequence[str], target: str, kind: str, *, lines: bool = False) -> tuple[bytes, list[str], str]:
        """Compiles kernel instances of one source with the product's options.

        Args:
            source: an expanded source.
            entries: the instances.
            target: sm_90, or compute_90 for PTX alone.
            kind: what is wanted, "CUBIN" or "PTX".
            lines: whether to give the line of each instruction; the instructions are the same.

        Returns:
            What is wanted, the kernels' names in it, and the compiler's log.

        Raises:
            NvrtcError: it refuses the source.
        """
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
        try:
            for entry in entries:
                self._call("nvrtcAddNameExpression", program, entry.encode())
            options = [
                *compile_options(self.version),
                f"--gpu-architecture={target}",
                "--ptxas-options=-v",
                *["--generate-line-info"] * lines,
            ]
            values = (ctypes.c_char_p * len(options))(*map(str.encode, options))
            refused = self._library.nvrtcCompileProgram(program, len(options), values)
            log = self._get("ProgramLog", program).decode()
            if refused:
                raise NvrtcError(f"{'; '.join(entries)} for {target}, NVRTC {'.'.join(map(str, self.version))}:\n{log}")
            return self._get(kind, program), [self._symbol(program, entry) for entry in entries], log
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _symbol(self, program: ctypes.c_void_p, entry: str) -> str:
        symbol = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, entry.encode(), ctypes.byref(symbol))
        return (symbol.value or b"").decode()

    def _get(self, kind: str, program: ctypes.c_void_p) -> bytes:
        """A result of a program, without the zero at the end of a text."""
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{kind}", program, buffer)
        return buffer.raw if kind == "CUBIN" else buffer.raw.rstrip(b"\0")

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise NvrtcError(f"{name}: {self._library.nvrtcGetErrorString(code).decode()}")


@functools.cache
def nvrtc(version: str) -> Nvrtc:
    """A version that is there: see `library_of`."""
    path = library_of(version)
    if path is None:
        raise FileNotFoundError(f"NVRTC {version}")
    return Nvrtc(path)


def compile_instances(
    source: str, entries: Sequence[str], architecture: int, version: str = NEWEST, *, lines: bool = False
) -> list[Compiled]:
    """Compiles kernel instances of an expanded source into one cubin; `architecture` is 90 for sm_90. Raises NvrtcError."""
    image, symbols, log = nvrtc(version).compile(source, entries, f"sm_{architecture}", "CUBIN", lines=lines)
    warnings = "\n".join(line for line in log.splitlines() if line.strip() and not line.startswith(("ptxas info", "ptxas   ")))
    kernels, found = log.count("Compiling entry function"), []
    for symbol in symbols:
        usage = _USAGE.search(log, max(0, log.find(f"Compiling entry function '{symbol}'")))
        if usage is None:
            raise NvrtcError(f"no resource usage in the log:\n{log}")
        stack_bytes, spilled_bytes, registers = map(int, usage.groups())
        found.append(Compiled(image, symbol, warnings, stack_bytes, spilled_bytes, registers, kernels))
    return found


def compile_instance(source: str, entry: str, architecture: int, version: str = NEWEST, *, lines: bool = False) -> Compiled:
    """One of them, alone."""
    return compile_instances(source, [entry], architecture, version, lines=lines)[0]


def compile_ptx(source: str, entry: str, version: str = NEWEST) -> tuple[str, str]:
    """The PTX of one kernel instance of an expanded source, for the oldest architecture, and the instance's name in it."""
    text, (symbol,), _ = nvrtc(version).compile(source, [entry], "compute_75", "PTX")
    return text.decode(), symbol
