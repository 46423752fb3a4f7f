"""The machine code of kernels, for tests that count what it executes."""

from __future__ import annotations

import functools

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import Kernel
from tests.support.cuda.binaries.nvrtc import compile_instance
from tests.support.cuda.binaries.sass import Code, code_of, disassemble
from tests.support.cuda.plan_kernels import H100


@functools.cache
def code(kernel: Kernel) -> Code:
    """Its machine code on an H100."""
    compiled = compile_instance(sources.read(kernel.file), kernel.entry, H100.compute_capability, lines=True)
    return code_of(disassemble(compiled.image), compiled.symbol)
