"""The instructions of processors that multiply bytes: how four products of bytes are added to a sum of 32 bits."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from dmlpy.devices.cpu.isa import Isa, host_processor, isa_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Dot(StrEnum):
    """How four products are added to each sum of a vector."""

    VPDPBUSD = "vpdpbusd"
    """One instruction, which wraps around and never saturates: AVX512-VNNI and AVX-VNNI."""
    VPMADDWD = "vpmaddwd"
    """Bytes are widened to 16 bits and multiplied in pairs: SSE2, AVX2, AVX512BW. vpmaddubsw would save the widening, but it saturates: two
    products of bytes need 17 bits."""
    PORTABLE = "portable"
    """Multiplications of 32 bits, on any processor."""


@dataclass(frozen=True)
class ByteIsa:
    """The properties of a processor that kernels of bytes depend on.

    Attributes:
        lanes: 32-bit integers in a register, each the place of a sum or of four bytes.
        registers: the number of registers.
        dot: how products are summed.
    """

    lanes: int
    registers: int
    dot: Dot

    @property
    def floats(self) -> Isa:
        """The instruction set of floats with registers of the same size."""
        return Isa(self.lanes, self.registers)

    @property
    def block(self) -> tuple[int, int]:
        """The rows and vectors of sums that are in registers at once; widened factors and products take registers, too."""
        if self.registers == 32:
            return (8, 3)
        return (4, 3) if self.dot is Dot.VPDPBUSD else (4, 2)


def byte_isa_of(features: Mapping[str, bool], machine: str) -> ByteIsa:
    """The instruction set of a processor with these LLVM features."""
    if machine not in ("x86_64", "amd64"):
        isa = isa_of(features, machine)
        return ByteIsa(isa.lanes, isa.registers, Dot.PORTABLE)
    has_bytes = features.get("avx512bw") and features.get("avx512vl")
    if has_bytes:
        return ByteIsa(16, 32, Dot.VPDPBUSD if features.get("avx512vnni") else Dot.VPMADDWD)
    if features.get("avx2"):
        return ByteIsa(8, 16, Dot.VPDPBUSD if features.get("avxvnni") else Dot.VPMADDWD)
    return ByteIsa(4, 16, Dot.VPMADDWD)


@cache
def host_byte_isa() -> ByteIsa:
    """The instruction set of this machine."""
    return byte_isa_of(host_processor().features, platform.machine().lower())


@cache
def permutes_bytes() -> bool:
    """Whether this machine takes the bytes of a register of 512 bits from any places of one or two others."""
    features = host_processor().features
    return bool(features.get("avx512vbmi") and features.get("avx512bw"))
