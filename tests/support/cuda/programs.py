"""A runtime that counts the programs that it compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.recurrent.common import copy_kernel
from dmlpy.devices.cuda.runtime.interface import Limits

FLOAT, HALF = np.dtype(np.float32), np.dtype(np.float16)


COPY = copy_kernel(HALF, FLOAT)


class CountingRuntime(EmulatedRuntime):
    """Compiles to a text that names what was asked for, and notes it.

    Attributes:
        programs: the instances of each call, in the order of calls.
        before: called by each compilation with its instances.
    """

    version = "1.0"

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.programs: list[list[str]] = []
        self.before: Callable[[list[str]], object] = lambda entries: None

    def compiler_version(self) -> str:
        return self.version

    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        self.programs.append(list(entries))
        self.before(list(entries))
        return [(f"{entry} for {architecture}".encode(), f"symbol of {entry}") for entry in entries]

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        return image, symbol, shared_bytes
