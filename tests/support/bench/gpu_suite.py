"""What rehearses `dmlpy bench --device cuda` on an emulated GPU: the operators' rows at sizes that a processor can take."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dmlpy.bench import launches, machine
from dmlpy.bench.libraries import EVERY_WORK, Mode, Peer, Runner
from dmlpy.bench.operators import large, suite
from dmlpy.bench.operators.large_runners import LargeDmlpyRunner
from dmlpy.bench.operators.libraries import DmlpyOperators
from dmlpy.bench.operators.shape import large_shape
from dmlpy.bench.shapes import DataType
from dmlpy.bench.work import Array, Case, LargeWork, Work
from dmlpy.messages.problems import DeviceError
from tests.support.cuda import emulated_gpu

SMALL = suite.Sizes(
    matrix=20,
    terms=12,
    batches=(17, 10, 8),
    images=(2, 8, 5, 7),
    tokens=(2, 24),
    heads=((128, 1), (64, 2)),
    cached=(2, 40, 2, 16),
    rows=(37, 24),
    side=20,
    pooled=(2, 3, 9, 7),
    lists=(3, 50, 4),
)


def shrink() -> None:
    """Makes everything small in this process; rates of an emulated device mean nothing."""
    suite.CASES.update({case.name: case for case in suite.cases(SMALL)})
    large.CYCLED_BYTES = 5_000
    machine.COPIED_BYTES["cuda"], machine.LARGE, machine.MEASURED_S = 1 << 16, 64, 1e-3
    launches.LAUNCHES = 5


@contextmanager
def shrunken() -> Iterator[None]:
    """Makes everything small within a block."""
    rows, cycled, copied, sizes = dict(suite.CASES), large.CYCLED_BYTES, dict(machine.COPIED_BYTES), (machine.LARGE, machine.MEASURED_S)
    launched = launches.LAUNCHES
    shrink()
    try:
        yield
    finally:
        suite.CASES.update(rows)
        machine.COPIED_BYTES.update(copied)
        large.CYCLED_BYTES, (machine.LARGE, machine.MEASURED_S), launches.LAUNCHES = cycled, sizes, launched


def case_of(name: str, dtype: DataType) -> Case:
    """A row in a type as a case."""
    return Case(large_shape(name), dtype, "forward")


def cases(*names: str, dtype: DataType = "FLOAT16") -> list[Case]:
    """Rows in a type."""
    return [case_of(name, dtype) for name in names]


class OverStandIn(DmlpyOperators):
    """dmlpy over the emulated GPU that is asked for, in a process of its own."""

    def __init__(self, device: str, threads: int) -> None:
        shrink()
        emulated_gpu.install()
        super().__init__(device, threads)


class _OneRowWrong(LargeDmlpyRunner):
    """One row of many is off."""

    def results(self) -> dict[str, Array]:
        found = {field: array.copy() for field, array in super().results().items()}
        for array in found.values():
            array[..., -1, :] += 1
        return found


class Wrong(OverStandIn):
    """Adds wrongly."""

    def build(self, work: Work, mode: Mode) -> Runner:
        if isinstance(work, LargeWork) and work.operator_case.operator == "ELEMENT_WISE_ADD":
            return _OneRowWrong(self, work, mode)
        return super().build(work, mode)


class Failing(OverStandIn):
    """Has no kernel for GELU, and is ended by softmax."""

    def build(self, work: Work, mode: Mode) -> Runner:
        assert isinstance(work, LargeWork)
        if work.operator_case.operator == "ACTIVATION_GELU":
            raise DeviceError("no kernel")
        if work.operator_case.operator == "ACTIVATION_SOFTMAX1":
            os._exit(5)
        return super().build(work, mode)


class Slow(OverStandIn):
    """Takes its time over each row."""

    def build(self, work: Work, mode: Mode) -> Runner:
        time.sleep(0.5)
        return super().build(work, mode)


def own(kind: type[DmlpyOperators] = OverStandIn) -> Peer:
    """dmlpy, as a benchmark knows it."""
    return Peer("dmlpy", f"{kind.__module__}:{kind.__name__}", "this library", works=EVERY_WORK)


TORCH = Peer("torch", "tests.support.bench.fake_torch_cuda:SmallTorchOverFake", "PyTorch", works=EVERY_WORK)
