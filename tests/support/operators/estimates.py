"""What bounds the benchmark's operators for GPUs: `python -m tests.support.operators.estimates [--gpu H100] [CASE ...]`.

A line for each case and type: the kernel that takes longest, the instructions of a warp in a turn of its loop, the bytes of the tensors,
and microseconds: of the model of a scheduler, of memory, and of the floor. Products by a library, and kernels whose loops are not known,
have the plan's estimate. Needs NVRTC and nvdisasm, and no GPU; nothing is measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import dmlpy as dml
from dmlpy.bench.operators import suite
from dmlpy.bench.shapes import DataType
from dmlpy.description.enums import ExecutionFlags
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary
from dmlpy.devices.cuda.offline_device import limits_of
from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.performance.kernel_cycles import TURN, launch_us
from dmlpy.devices.cuda.runtime.interface import Limits
from tests.support.cuda.binaries.kernel_loops import AXES, GROUPS, POSITIONS, ROUNDS, VECTORS, KernelLoop, kernel_loops
from tests.support.cuda.binaries.statements import Statement
from tests.support.cuda.dry_run import DryRunRuntime

_TYPES: tuple[DataType, ...] = ("FLOAT16", "FLOAT32")
_FIRST_ADDRESS, _ALIGNMENT = 1 << 20, 256
_LIBRARY = "cuBLAS"


@dataclass(frozen=True)
class Launched:
    """A launch of a kernel."""

    kernel: Kernel
    blocks: int
    threads: int
    argument: Any
    shared_bytes: int

    def loop(self) -> tuple[KernelLoop, float] | None:
        """The loop in which it spends its time, with the turns of a thread; None where the table of loops has none."""
        threads, fields = self.blocks * self.threads, self.argument.dtype.names
        if self.kernel.file == GROUPS.file:
            size = int(self.argument["thread_group_size"][0])
            return self._of(GROUPS, {AXES: 0, ROUNDS: size.bit_length() - 1}), int(self.argument["group_count"][0]) * size / threads
        if self.kernel.file == POSITIONS.file:
            return self._of(POSITIONS, {}), int(self.argument["count"][0]) / threads
        if self.kernel.entry.startswith("elements<") and "vectors" in fields:
            return self._of(VECTORS, {AXES: 0}), int(self.argument["vectors"][0]) / threads
        return None

    def _of(self, loop: Statement, times: Mapping[Statement, int]) -> KernelLoop:
        return KernelLoop(self.kernel.entry, self.kernel, loop, times, {TURN: ()}, self.threads, self.shared_bytes, 0, from_memory=True)


class _Library(KernelLibrary):
    """Notes launches."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(DryRunRuntime(limits), 0)
        self.launched: list[Launched] = []

    def launch(
        self, kernel: Kernel, grid: Sequence[int], threads: int, argument: Any, shared_bytes: int = 0, cooperative: bool = False
    ) -> Any:
        self.launched.append(Launched(kernel, prod(grid), threads, argument.copy(), shared_bytes))
        return super().launch(kernel, grid, threads, argument, shared_bytes, cooperative)


@dataclass(frozen=True)
class Estimate:
    """A case's line.

    Attributes:
        name: the case and the type.
        kernel: the entry of the kernel that takes longest, or the library.
        instructions: of a warp in a turn of its loop; 0 where that is not known.
        moved: bytes of the tensors.
        model_us: by the model of a scheduler, or a plan's estimate.
        memory_us: of the tensors' bytes.
        floor_us: the plan's.
        bound: by what.
    """

    name: str
    kernel: str
    instructions: int
    moved: int
    model_us: float
    memory_us: float
    floor_us: float
    bound: str

    def __str__(self) -> str:
        moved = f"{self.moved / 1e6:.0f} MB"
        times = f"model {self.model_us:.1f} us, memory {self.memory_us:.1f} us, floor {self.floor_us:.1f} us"
        executed = f"{self.instructions} instructions, " if self.instructions else ""
        return f"{self.name}: {self.kernel}: {executed}{moved}; {times}; bound by {self.bound}"


def estimate(name: str, dtype: DataType, limits: Limits) -> Estimate:
    """The line of a case of `suite`."""
    case, gpu, library = suite.CASES[name], GpuModel.of(limits), _Library(limits)
    device = CudaDevice(library.runtime)
    device.library = library
    desc = case.desc(dtype)
    flags = ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION if case.half_precision else ExecutionFlags.NONE
    plan = dml.compile(desc, device, flags=flags)._plan
    plan.bind(*_addresses(desc.tensors()), None)
    cost, moved = plan.cost(), sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in desc.tensors().values())
    memory_us, model_us = gpu.memory_us(moved), cost.estimate_us or 0.0
    kernel, instructions, bound = library.launched[0].kernel.entry if library.launched else "", 0, "memory"
    stored = {loop.kernel: loop for loop in kernel_loops()}
    with_cycles = [launched for launched in library.launched if launched.kernel in stored]
    if with_cycles:
        kernel = with_cycles[0].kernel.entry
        instructions, turns = stored[with_cycles[0].kernel].executed(limits, full=True)[TURN]
        bound = turns[-1].bound
    elif _LIBRARY in plan.describe():
        kernel, bound = _LIBRARY, "products" if model_us > 1.2 * memory_us else "memory"
    elif len(library.launched) == 1 and (found := library.launched[0].loop()) is not None:
        loop, count = found
        instructions, turns = loop.executed(limits, full=True)[TURN]
        model_us = launch_us(gpu, library.launched[0].blocks, [(count, tuple(turn.cycles for turn in turns))])
        bound = turns[-1].bound if model_us > memory_us else "memory"
    return Estimate(f"{name} {dtype}", kernel, instructions, moved, model_us, memory_us, cost.floor_us or 0.0, bound)


def _addresses(tensors: Mapping[str, dml.TensorDesc]) -> tuple[dict[str, int], int]:
    """An aligned address for each tensor, one behind the other, and that of scratch."""
    found, place = {}, _FIRST_ADDRESS
    for name, tensor in tensors.items():
        found[name] = place
        place += -(-tensor.extent_in_bytes // _ALIGNMENT) * _ALIGNMENT
    return found, place


def estimates(names: Sequence[str], limits: Limits) -> Iterator[Estimate]:
    """Those of cases, FLOAT16 first."""
    for dtype in _TYPES:
        for name in names:
            if dtype == "FLOAT32" or not suite.CASES[name].half_precision:
                yield estimate(name, dtype, limits)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.operators.estimates", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--gpu", default="H100", help="a GPU or an architecture; default: %(default)s")
    parser.add_argument("cases", nargs="*", metavar="CASE", default=list(suite.CASES), help=", ".join(suite.CASES))
    given = parser.parse_args(arguments)
    for line in estimates(given.cases, limits_of(given.gpu)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
