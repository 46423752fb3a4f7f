"""The seam between dmlpy and CUDA over which nothing is executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlpy.devices.cuda.seam import FunctionAttributes, Matrix
from tests.support.cuda.cpu_seam import CpuSeam

Array = np.ndarray[Any, Any]


class NullSeam(CpuSeam):
    """Launches, products and graphs do nothing and need no compiler: what remains is the cost of Python."""

    name = "null"

    def compiler_version(self) -> str:
        return "none"

    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        return [(b"", entry) for entry in entries]

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        return symbol

    def attributes(self, function: Any) -> FunctionAttributes:
        return FunctionAttributes(64, 0, 0, 1024)

    def occupancy(self, function: Any, threads: int, shared_bytes: int) -> int:
        return 1

    def launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        argument: Array,
        stream: int,
        cooperative: bool = False,
    ) -> None:
        pass

    def gemm(
        self,
        device: int,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        stream: int,
        accumulate: bool = False,
        tf32: bool = False,
        workspace: int = 0,
    ) -> None:
        pass

    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        pass

    def memset(self, pointer: int, value: int, size: int, stream: int) -> None:
        pass

    def launch_graph(self, graph: Any, stream: int) -> None:
        pass
