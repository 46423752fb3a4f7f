"""Counts what the warps of a kernel ask of shared and global memory, line by line, without a GPU.

The kernel runs on the CPU, traced (cuda_tracing_on_cpu.h), and count_accesses.cpp makes of what its threads did what a GPU's warps would:
wavefronts in the banks of shared memory, sectors of global memory. Accesses are those that g++ leaves in the code at -O1: what a compiler
for GPUs keeps in registers, merges or moves may differ a little, what a line's addresses are does not.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from dmlpy.devices.cuda.emulation.compiler import (
    MACHINE_FILES,
    SHARED,
    THREADS,
    Array,
    LaunchShape,
    SharedKernel,
    compile_program,
    kernel_text,
    machine_object,
)
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.runtime.interface import Limits

NUMBERS = ("accesses", "lanes", "wavefronts", "least_wavefronts", "sectors", "least_sectors", "rounds")
COLUMNS = ("space", "kind", "bytes", *NUMBERS)
ROW = np.dtype([*((name, np.int32) for name in ("line", "space", "kind", "bytes")), *((name, np.uint64) for name in NUMBERS)], align=True)
"""As in count_accesses.cpp."""
SPACES = ("shared", "global")
KINDS = ("basic block", "load", "store", "atomic load", "atomic store", "synchronized")
WIDTHS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class LineCounts:
    """What the warps of the traced blocks did at one line of the source.

    Attributes:
        line: file and number, of the kernel's sources.
        space: "shared" or "global".
        kind: "load" or "store", as are relaxed ones: "atomic load" and "atomic store" are those that acquire or release.
        bytes: of a lane's access.
        accesses: of warps.
        lanes: that took part in them, all together.
        wavefronts: that shared memory takes for them.
        least_wavefronts: that could move the same words, 32 at a time.
        sectors: of 32 bytes that they touch in global memory, each access by itself.
        least_sectors: that could hold the same bytes.
        rounds: of the loads from global memory, those before which the warp has stored something since its last one, or has waited at a
            barrier: about how often it waits for global memory.
    """

    line: str
    space: str
    kind: str
    bytes: int
    accesses: int
    lanes: int
    wavefronts: int
    least_wavefronts: int
    sectors: int
    least_sectors: int
    rounds: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What makes it another line."""
        return self.line, self.space, self.kind, self.bytes

    def without(self, other: LineCounts, times: int) -> LineCounts:
        """Less another's numbers so many times."""
        return replace(self, **{name: getattr(self, name) - times * getattr(other, name) for name in NUMBERS})


@dataclass(frozen=True)
class Counts:
    """What the traced blocks of one launch did.

    Attributes:
        entry: the kernel.
        warps: of these blocks.
        lines: what they did, by lines.
    """

    entry: str
    warps: int
    lines: tuple[LineCounts, ...]

    def where(self, keep: Callable[[LineCounts], bool]) -> Counts:
        """Of some lines only."""
        return replace(self, lines=tuple(filter(keep, self.lines)))

    def sum(self, name: str) -> int:
        """Of a column over all lines."""
        return sum(getattr(line, name) for line in self.lines)

    def without(self, other: Counts, times: int = 1) -> Counts:
        """What this launch did in addition to `times` times another one's accesses, such as one of the same kernel with fewer steps."""
        less = {line.key: line for line in other.lines}
        rest = [line.without(less[line.key], times) if line.key in less else line for line in self.lines]
        return replace(self, lines=tuple(line for line in rest if line.accesses))

    def __str__(self) -> str:
        rows = [("line", *COLUMNS), *((line.line, *(str(getattr(line, name)) for name in COLUMNS)) for line in self.lines)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join([self.entry, *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)])


UNROLL = '_Pragma("GCC unroll 8")'
SHORT_LOOP = re.compile(re.escape(UNROLL) + r"\s*for|\bfor \(int (\w+) = 0; \1 < \d+;")
"""A loop that is unrolled already, or that a compiler for GPUs unrolls unasked."""


def compile_traced(source: str, entry: str) -> Path:
    """A shared object that runs the kernel as `compile_shared`'s does and can write down what its threads access.

    Structs are moved as a whole, short loops are unrolled and code stays in the order of the source, as count_accesses.cpp expects. Without
    exceptions g++ would order it in another way.
    """
    text = kernel_text(source, entry).replace("#pragma unroll\n", f"{UNROLL}\n")
    text = SHORT_LOOP.sub(lambda loop: f"{UNROLL} {loop[0]}" if loop[1] else loop[0], text)
    flags = (*SHARED, "-DCUDA_ON_CPU_TRACES", "-fexceptions")
    instruments = ("-fsanitize=thread", "-fsanitize-coverage=trace-pc", "-g1", "-fno-tree-sra", "-fno-reorder-blocks")
    return compile_program(text, flags, [machine_object(THREADS, *flags)], instruments=instruments, precompiled=True)


@functools.cache
def _counter() -> ctypes.CDLL:
    """The library of count_accesses.cpp."""
    text = Path(__file__).with_name("count_accesses.cpp").read_text()
    library = ctypes.CDLL(str(compile_program(text, ("-std=c++17", "-O2", "-shared", "-fPIC"))))
    size, address = ctypes.c_size_t, ctypes.c_void_p
    library.access_places.restype = library.count_accesses.restype = size
    library.access_places.argtypes = (address, address, size)
    library.count_accesses.argtypes = (address, address, address, size, address, size)
    return library


class TracedKernel(SharedKernel):
    """A kernel of `compile_traced`, whose runs are counted: the first `blocks` blocks of each, into `launches`."""

    def __init__(self, path: Path, entry: str, blocks: int, launches: list[Counts]) -> None:
        super().__init__(path)
        self._path = path
        self._entry = entry
        self._blocks = blocks
        self._launches = launches
        self._library = ctypes.CDLL(str(path))
        self._library.cuda_on_cpu_traces.restype = ctypes.c_void_p
        self._line_names: dict[int, str] = {}

    def run(self, shape: LaunchShape, argument: Array) -> None:
        self._library.cuda_on_cpu_trace_blocks(self._blocks)
        try:
            super().run(shape, argument)
            warps = -(-shape.threads // 32) * min(self._blocks, prod(shape.grid))
            self._launches.append(Counts(self._entry, warps, self._counted(ctypes.c_void_p(self._library.cuda_on_cpu_traces()))))
        finally:
            self._library.cuda_on_cpu_forget_traces()

    def _counted(self, traces: ctypes.c_void_p) -> tuple[LineCounts, ...]:
        counter = _counter()
        places = np.empty(counter.access_places(traces, None, 0), np.uint32)
        counter.access_places(traces, places.ctypes.data, places.size)
        names = self._lines(places.tolist())
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        lines = np.array([numbers[name] for name in names], np.int32)
        rows = np.empty(len(numbers) * len(SPACES) * len(KINDS) * len(WIDTHS), ROW)  # as many as there can be
        count = counter.count_accesses(traces, places.ctypes.data, lines.ctypes.data, places.size, rows.ctypes.data, rows.size)
        assert count <= rows.size
        named = list(numbers)
        return tuple(
            LineCounts(named[row["line"]], SPACES[row["space"]], KINDS[row["kind"]], *(int(row[name]) for name in ("bytes", *NUMBERS)))
            for row in rows[:count]
        )

    def _lines(self, places: Sequence[int]) -> list[str]:
        """The source line of each place: of inlined code the innermost part in the kernel's source."""
        new = [place for place in places if place not in self._line_names]
        if new:
            addresses = "\n".join(f"{place - 1:#x}" for place in new)  # a place is where a call returns to
            command = ["addr2line", "-a", "-i", "-e", str(self._path)]
            printed = subprocess.run(command, input=addresses, capture_output=True, text=True, check=True).stdout
            frames: list[list[str]] = []
            for line in printed.splitlines():
                if line.startswith("0x"):
                    frames.append([])
                else:
                    frames[-1].append(os.path.normpath(line.split(" (")[0]))
            for place, of_place in zip(new, frames, strict=True):
                own = [frame for frame in of_place if Path(frame.rpartition(":")[0]).name not in MACHINE_FILES]
                self._line_names[place] = (own or of_place)[0]
        return [self._line_names[place] for place in places]


class CountingRuntime(EmulatedRuntime):
    """Launches are counted.

    Attributes:
        launches: the counts of each launch that was traced, in order.

    Args:
        limits: as of `EmulatedRuntime`.
        traced: how the entries begin that are traced.
        blocks: how many blocks of each launch are traced, the first ones.
        delay_us: as of `EmulatedRuntime`.
    """

    def __init__(self, limits: Limits = H100, *, traced: tuple[str, ...] = ("",), blocks: int = 1, delay_us: int = 0) -> None:
        super().__init__(limits, delay_us=delay_us)
        self.launches: list[Counts] = []
        self._traced = traced
        self._blocks = blocks

    def _compile(self, source: str, entry: str) -> Path:
        return compile_traced(source, entry) if entry.startswith(self._traced) else super()._compile(source, entry)

    def compiler_version(self) -> str:
        return f"{super().compiler_version()} traced {self._traced}"

    def _open(self, path: Path, entry: str) -> SharedKernel:
        if not entry.startswith(self._traced):
            return super()._open(path, entry)
        return TracedKernel(path, entry, self._blocks, self.launches)
