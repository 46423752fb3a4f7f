"""The runtime between dmlpy and CUDA over which nothing is executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.runtime.interface import FunctionAttributes


class DryRunRuntime(EmulatedRuntime):
    """Launches, products and graphs do nothing and need no compiler: what remains is the cost of Python."""

    name = "null"

    def compiler_version(self) -> str:
        return "none"

    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        return [(b"", entry) for entry in entries]

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        return symbol

    def attributes(self, function: Any) -> FunctionAttributes:
        return FunctionAttributes(64, 0, 0)

    def occupancy(self, function: Any, threads: int, shared_bytes: int) -> int:
        return 1

    def launch(self, *arguments: Any, **options: Any) -> None:
        pass

    gemm = copy = memset = launch_graph = launch
