"""Compiles kernels for GPUs that need not be there, and reads what the compiler says about them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cuda.bindings import nvrtc

RESOURCES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, \d+ bytes spill loads.*?Used (\d+) registers", re.DOTALL)


@dataclass(frozen=True)
class Compiled:
    """One kernel instance for one architecture.

    Attributes:
        image: the cubin.
        symbol: the kernel's name in it.
        warnings: the compiler's messages, empty if it had none.
        stack_bytes: local memory of a thread.
        spilled_bytes: what it stores there for want of registers.
        registers: of a thread.
    """

    image: bytes
    symbol: str
    warnings: str
    stack_bytes: int
    spilled_bytes: int
    registers: int


class NvrtcError(Exception):
    """NVRTC refuses the source; the text is its log."""


def compile_instance(source: str, entry: str, architecture: int) -> Compiled:
    """Compiles one kernel instance of an expanded source into a cubin; `architecture` is 90 for sm_90. Raises NvrtcError."""
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, None, None))
    try:
        _checked(nvrtc.nvrtcAddNameExpression(program, entry.encode()))
        options = [f"--gpu-architecture=sm_{architecture}".encode(), b"--std=c++17", b"--ptxas-options=-v"]
        (outcome,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = bytearray(_checked(nvrtc.nvrtcGetProgramLogSize(program)))
        _checked(nvrtc.nvrtcGetProgramLog(program, log))
        text = log.rstrip(b"\0").decode()
        if outcome != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise NvrtcError(f"{entry} for sm_{architecture}:\n{text}")
        resources = RESOURCES.search(text)
        if resources is None:
            raise NvrtcError(f"no resource usage in the log:\n{text}")
        stack_bytes, spilled_bytes, registers = map(int, resources.groups())
        image = bytearray(_checked(nvrtc.nvrtcGetCUBINSize(program)))
        _checked(nvrtc.nvrtcGetCUBIN(program, image))
        symbol: bytes = _checked(nvrtc.nvrtcGetLoweredName(program, entry.encode()))
        warnings = "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith(("ptxas info", "ptxas   ")))
        return Compiled(bytes(image), symbol.decode(), warnings, stack_bytes, spilled_bytes, registers)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def compile_ptx(source: str, entry: str) -> tuple[str, str]:
    """The PTX of one kernel instance of an expanded source, for the oldest architecture, and the instance's name in it."""
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, None, None))
    try:
        _checked(nvrtc.nvrtcAddNameExpression(program, entry.encode()))
        _checked(nvrtc.nvrtcCompileProgram(program, 2, [b"--gpu-architecture=compute_75", b"--std=c++17"]))
        text = bytearray(_checked(nvrtc.nvrtcGetPTXSize(program)))
        _checked(nvrtc.nvrtcGetPTX(program, text))
        symbol: bytes = _checked(nvrtc.nvrtcGetLoweredName(program, entry.encode()))
        return text.rstrip(b"\0").decode(), symbol.decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _checked(answer: tuple[Any, ...]) -> Any:
    """The value of an NVRTC call, which must have succeeded."""
    code, *values = answer
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise NvrtcError(code.name)
    return values[0] if values else None
