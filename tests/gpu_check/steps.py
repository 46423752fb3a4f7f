"""Times of a step with each strategy of recurrent kernels, and of a launch, beside the model's: `python -m tests.gpu_check.steps FILE`.

The model chooses a strategy by its estimates; here each strategy runs, so that its choice can be judged as well as its constants. The time
of a step is the difference between sequences of twice as many steps and of so many; in batches of 1 it is mostly the exchange between
blocks (`grid`) or two launches (`step`), in large ones what blocks read of each other through the L2 cache.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.bench import machine
from dmlpy.bench.shapes import Cell, DataType, LayerShape, Recurrent
from dmlpy.bench.subjects.dmlpy import Dmlpy
from dmlpy.bench.work import Case
from dmlpy.devices.cuda import machine as model
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.recurrent.strategies import STRATEGIES
from tests.support.cuda import stand_in

SIZES: tuple[tuple[Cell, DataType, int, int], ...] = (
    ("LSTM", "FLOAT16", 1024, 1),
    ("LSTM", "FLOAT16", 1024, 64),
    ("LSTM", "FLOAT16", 512, 1),
    ("LSTM", "FLOAT16", 512, 64),
    ("LSTM", "FLOAT32", 1024, 8),
    ("LSTM", "FLOAT32", 512, 1),
    ("LSTM", "FLOAT32", 512, 64),
    ("LSTM", "FLOAT32", 128, 1),
    ("LSTM", "FLOAT16", 128, 64),
    ("RNN", "FLOAT32", 1760, 16),
    ("GRU", "FLOAT32", 512, 32),
)
"""Cell, type, H = I, and samples."""
STEPS = 100
ROUNDS = 5
LAUNCHES = 500


@dataclass(frozen=True)
class Row:
    """What was measured of a strategy, or why nothing was. Times are microseconds.

    Attributes:
        work: the shape's key and type.
        strategy: of the kernels.
        chosen: whether the model would take it.
        step_us: of one step more.
        estimate_step_us: what the model says of it.
        whole_us: of `STEPS` steps with their input product.
        estimate_us: what the model says of it.
        plan: what runs.
        reason: why nothing was measured; empty if it was.
    """

    work: str
    strategy: str
    chosen: bool = False
    step_us: float | None = None
    estimate_step_us: float | None = None
    whole_us: float | None = None
    estimate_us: float | None = None
    plan: Sequence[str] = ()
    reason: str = ""

    def __str__(self) -> str:
        name = f"{self.work} {self.strategy}{' (chosen)' if self.chosen else ''}"
        if self.reason:
            return f"{name}: {self.reason}"
        return (
            f"{name}: {self.step_us:.2f} us a step ({self.estimate_step_us:.2f} by the model), "
            f"{self.whole_us:.0f} us for {STEPS} steps ({self.estimate_us:.0f})"
        )


def shape_of(cell: Cell, hidden: int, batch: int, steps: int) -> Recurrent:
    return Recurrent(title="a layer", layers=(LayerShape(cell, hidden, hidden),), batch=batch, steps=steps, suite="models")


def least_us(subject: Dmlpy, work: Callable[[], None], repeats: int) -> float:
    """Microseconds of a call: the least of some rounds."""
    subject.microseconds(work, 2)
    return min(subject.microseconds(work, repeats) for _ in range(ROUNDS))


def rows(device: CudaDevice, sizes: Sequence[tuple[Cell, DataType, int, int]]) -> Iterator[Row]:
    """Each size in each strategy."""
    for cell, dtype, hidden, batch in sizes:
        cases = [Case(shape_of(cell, hidden, batch, steps), dtype, "forward") for steps in (STEPS, 2 * STEPS)]
        name = f"{cases[0].shape.key} {dtype}"
        (desc,) = cases[0].shape.descs("forward", dtype)
        chosen = (dml.compile(desc, device).explain_plan().strategy or "").partition(" ")[0]
        for strategy in STRATEGIES:
            try:
                yield measured(device, cases, name, strategy, strategy == chosen)
            except dml.DeviceError as error:
                yield Row(name, strategy, strategy == chosen, reason=str(error).splitlines()[0])


def measured(device: CudaDevice, cases: Sequence[Case], name: str, strategy: str, chosen: bool) -> Row:
    subject = Dmlpy(CudaDevice(device.seam, device.ordinal, strategy), 1)
    found: list[float] = []
    for case in reversed(cases):
        runner = subject.build(case.work(), "graph")
        once = subject.microseconds(lambda runner=runner: runner.run(0), 1)  # type: ignore[misc]
        repeats = max(1, min(50, int(50_000 / max(once, 1.0))))
        found.append(least_us(subject, lambda runner=runner: runner.run(0), repeats))  # type: ignore[misc]
    twice, whole = found
    return Row(name, strategy, chosen, (twice - whole) / STEPS, runner.estimate_step_us, whole, runner.estimate_us, tuple(runner.plan))


def launches(device: CudaDevice) -> dict[str, dict[str, float]]:
    """Microseconds of a kernel that does next to nothing, launched by itself after another, and in a CUDA graph."""
    subject, stream, seam = Dmlpy(device, 1), device.current_stream(), device.seam
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=(1,))
    op = dml.compile(dml.ActivationReluDesc(input_tensor=tensor).with_outputs(), device)
    one = device.from_host(np.ones(1, np.float32))
    dispatch = op.bind({"input_tensor": one}, {"output_tensor": device.empty(tensor, stream)})

    def issue(stream: int) -> None:
        for _ in range(LAUNCHES):
            dispatch(stream)

    issue(stream)
    device.synchronize(stream)
    graph = seam.capture(device.ordinal, issue)
    return {
        "by itself": {"us": least_us(subject, lambda: issue(stream), 1) / LAUNCHES, "model": model.LAUNCH_US},
        "captured": {
            "us": least_us(subject, lambda: seam.launch_graph(graph, stream), 1) / LAUNCHES,
            "model": model.CAPTURED_LAUNCH_US,
        },
    }


def main(file: str, *, sizes: Sequence[tuple[Cell, DataType, int, int]] = SIZES) -> None:
    """Measures, prints each row and writes the file anew after it."""
    found = stand_in.install() or dml.device("cuda")
    assert isinstance(found, CudaDevice)
    path = Path(file)
    record: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": machine.device_facts(found) | machine.gpu_facts(found.ordinal),
        "versions": Dmlpy(found, 1).versions(),
        "launches": launches(found),
        "rows": [],
    }
    print(*(f"a launch {how}: {us['us']:.2f} us ({us['model']:.2f} by the model)" for how, us in record["launches"].items()), sep="\n")
    for row in rows(found, sizes):
        print(row, flush=True)
        record["rows"].append(asdict(row))
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(record, indent=1) + "\n")
        unfinished.replace(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
