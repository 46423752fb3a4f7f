"""The vector instruction sets of processors."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.llvm import imported, max_isa, within_max_isa

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

FLOAT_BYTES = 4
_LISTED = "/proc/cpuinfo"
X86_64 = ("x86_64", "amd64")
"""Names of x86-64 in lower case, of Linux and macOS, and of Windows."""
_IDENTITY = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
"""The features of a processor that LLVM chooses instructions by, as Linux reports them."""

_SETS = {
    "AVX512_CORE_BF16": "avx512bf16",
    "AVX512_CORE_VNNI": "avx512vnni",
    "AVX512_CORE": "avx512bw",
    "AVX2_VNNI": "avxvnni",
    "AVX2": "avx2",
    "AVX": "avx",
    "SSE41": "sse41",
}
"""The instruction sets of x86-64 by oneDNN's names, each with the feature that the ones below it lack."""

Storage: TypeAlias = Literal["float32", "float16", "bfloat16", "uint8", "int8"]
"""The type of a kernel's floats in memory; in registers they are of FLOAT32. Kernels of element-wise programs also have those of bytes."""
_STORAGES: dict[DataType, Storage] = {DataType.FLOAT32: "float32", DataType.FLOAT16: "float16", DataType.BFLOAT16: "bfloat16"}


@dataclass(frozen=True)
class Isa:
    """The properties of a vector instruction set that kernels depend on.

    Attributes:
        lanes: floats in a register.
        registers: the number of registers.
    """

    lanes: int
    registers: int

    def columns(self, vectors: int) -> int:
        """The columns of a product that are summed in registers at once; the matrix's vectors and one factor take registers too."""
        return min(8, (self.registers - vectors - 1) // vectors)

    def fused_gates(self, gates: int, columns: int) -> int:
        """How many of these gates are summed in registers at once, for some columns: all, or half if that gives more sums.

        An addition takes about four cycles, and two start in each cycle: eight sums barely suffice to keep both units busy.
        """
        half = gates // 2
        halves = gates % 2 == 0 and half * min(columns, self.columns(half)) > gates * min(columns, self.columns(gates))
        return half if halves else gates


def isa_of(features: Mapping[str, bool], machine: str) -> Isa:
    """The instruction set of a processor with these LLVM features."""
    if features.get("avx512f"):
        return Isa(16, 32)
    if features.get("avx"):
        return Isa(8, 16)
    return Isa(4, 16 if machine in X86_64 else 32)


@dataclass(frozen=True)
class Processor:
    """A processor.

    Attributes:
        features: LLVM's names of features that it has; those of the sets of vector instructions are among them.
        identity: what the machine code depends on besides LLVM. Equal ones have equal features.
    """

    features: Mapping[str, bool]
    identity: tuple[str, ...]


@cache
def host_processor() -> Processor:
    """The processor of this machine, with the features that kernels may use.

    Linux lists the features of x86 processors. Elsewhere LLVM reports them; importing it takes longer than loading all kernels of a model.
    """
    processor = _listed() if sys.platform == "linux" and platform.machine() == "x86_64" else None
    if processor is None:
        binding = imported("llvmlite.binding")
        features = binding.get_host_cpu_features()
        processor = Processor(features, (binding.get_host_cpu_name(), features.flatten()))
    return Processor(within_max_isa(processor.features), (*processor.identity, max_isa() or ""))


def _listed() -> Processor | None:
    """The processor that Linux lists first; None if the list cannot be read."""
    lines: dict[str, str] = {}
    try:
        with open(_LISTED, encoding="utf-8", errors="replace", buffering=4096) as file:  # the list of many processors takes milliseconds
            for line in file:
                name, _, text = line.partition(":")
                if not text:
                    break
                lines[name.strip()] = text.strip()
        identity = tuple(lines[name] for name in _IDENTITY)
    except (OSError, KeyError):
        return None
    return Processor({flag.replace("_", ""): True for flag in lines["flags"].split()}, identity)


@cache
def host_isa() -> Isa:
    """The instruction set of this machine."""
    return isa_of(host_processor().features, platform.machine().lower())


def instruction_set() -> str | None:
    """The largest of `_SETS` that kernels may use; None on other processors than x86-64, whose sets have no such names."""
    if platform.machine().lower() not in X86_64:
        return None
    left = {name.replace(".", "") for name, has in host_processor().features.items() if has}
    return next((name for name, feature in _SETS.items() if feature in left), None)


@cache
def converts_halves() -> bool:
    """Whether this machine has instructions that convert FLOAT16; elsewhere LLVM would call functions that a process may not have."""
    return platform.machine().lower() in ("arm64", "aarch64") or host_processor().features.get("f16c", False)


@cache
def fuses_products() -> bool:
    """Whether this machine has instructions that add a product of floats without rounding it."""
    return platform.machine().lower() not in X86_64 or host_processor().features.get("fma", False)


@cache
def multiplies_bfloat16() -> bool:
    """Whether this machine has instructions that add products of pairs of BFLOAT16 to FLOAT32, on the registers of `host_isa`."""
    features = host_processor().features
    return bool(features.get("avx512f") and features.get("avx512bf16"))


def storage_of(data_type: DataType) -> Storage:
    """How kernels read and write tensors of a type of floats."""
    return _STORAGES[data_type]


def have_one_storage(types: Set[DataType]) -> bool:
    """Whether these are one type, of floats that kernels read and write."""
    return len(types) == 1 and not types.isdisjoint(_STORAGES)


@cache
def scales_by_powers_of_two() -> bool:
    """Whether this machine has an instruction that multiplies floats by powers of two, on the registers of `host_isa`."""
    return bool(host_processor().features.get("avx512f"))


def block_of(isa: Isa) -> tuple[int, int]:
    """Filters and vectors of positions whose sums fill a processor's registers, with room for the vectors and a factor."""
    return (8, 3) if isa.registers == 32 else (4, 3)
