"""Times of a step with each strategy of recurrent kernels and by the model: `python -m tests.gpu_check.steps FILE SECONDS`.

The model chooses a strategy by its estimates; here each strategy runs, so that its choice can be judged as well as its constants. The time
of a step is the difference between sequences of twice as many steps and of so many; in batches of 1 it is mostly the exchange between
blocks (`persistent_grid`) or two launches (`per_step`), in large ones what blocks read of each other through the L2 cache.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import dmlpy as dml
from dmlpy.bench import launches, machine
from dmlpy.bench.libraries.dmlpy import Dmlpy
from dmlpy.bench.shapes import Cell, DataType, LayerShape, Recurrent
from dmlpy.bench.work import Case, Work
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.plans import STRATEGIES
from tests.gpu_check.bench import left_of
from tests.support.cuda import emulated_gpu

Size = tuple[Cell, DataType, int, int]
SIZES: tuple[Size, ...] = (
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


@dataclass(frozen=True)
class Row:
    """What was measured of a strategy, or the reason why nothing was.

    Times are microseconds: of a step more, of `STEPS` steps with their input product, and the model's times of both.
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
        found = f"{self.step_us:.2f} us a step ({self.estimate_step_us:.2f} by the model), " if not self.reason else self.reason
        whole = f"{self.whole_us:.0f} us for {STEPS} steps ({self.estimate_us:.0f})" if not self.reason else ""
        return f"{self.work} {self.strategy}{' (chosen)' if self.chosen else ''}: {found}{whole}"


def shape_of(cell: Cell, hidden: int, batch: int, steps: int) -> Recurrent:
    return Recurrent(title="a layer", layers=(LayerShape(cell, hidden, hidden),), batch=batch, steps=steps, suite="models")


def rows(device: CudaDevice, sizes: Sequence[Size], chosen: Sequence[str] = ()) -> Iterator[Row]:
    """Each size in each strategy."""
    for cell, dtype, hidden, batch in sizes:
        both = cases([(cell, dtype, hidden, batch)])
        name = f"{both[0].shape.key} {dtype}"
        (desc,) = both[0].shape.descs("forward", dtype)
        favourite = ""
        works: list[Work] = []  # their arrays are drawn once for all strategies
        for strategy in STRATEGIES:
            if not is_chosen(f"{name} {strategy}", chosen):
                continue
            works = works or [case.work() for case in both]
            favourite = favourite or (dml.compile(desc, device).explain_plan().strategy or "").partition(" ")[0]
            try:
                yield measured(device, works, name, strategy, strategy == favourite)
            except dml.DeviceError as error:
                yield Row(name, strategy, strategy == favourite, reason=str(error).splitlines()[0])


def measured(device: CudaDevice, works: Sequence[Work], name: str, strategy: str, chosen: bool) -> Row:
    """The least of some rounds with each number of steps."""
    library = Dmlpy(CudaDevice(device.runtime, device.ordinal, strategy), 1)
    found: list[float] = []
    for work in reversed(works):
        runner = library.build(work, "graph")
        run = partial(runner.run, 0)
        repeats = max(1, min(50, int(50_000 / max(library.microseconds(run, 1), 1.0))))
        library.microseconds(run, 2)
        found.append(min(library.microseconds(run, repeats) for _ in range(ROUNDS)))
    twice, whole = found
    return Row(name, strategy, chosen, (twice - whole) / STEPS, runner.estimate_step_us, whole, runner.estimate_us, tuple(runner.plan))


def cases(sizes: Sequence[Size] = SIZES) -> list[Case]:
    """All that is measured, in each strategy."""
    return [
        Case(shape_of(cell, hidden, batch, steps), dtype, "forward") for cell, dtype, hidden, batch in sizes for steps in (STEPS, 2 * STEPS)
    ]


def is_chosen(name: str, chosen: Sequence[str]) -> bool:
    return not chosen or any(part in name for part in chosen)


def names(sizes: Sequence[Size] = SIZES) -> list[str]:
    """Those of the rows."""
    return [f"{case.shape.key} {case.dtype} {strategy}" for case in cases(sizes)[::2] for strategy in STRATEGIES]


def main(file: str, seconds: str, *chosen: str, sizes: Sequence[Size] = SIZES) -> None:
    """Measures for so many seconds, prints each row and writes the file anew after it.

    With names only rows of which a name is a part are measured: "persistent_grid", "lstm-1024-b1-".
    """
    record: dict[str, Any] = {"left_out": [name for name in names(sizes) if is_chosen(name, chosen)], "rows": []}
    signal.signal(signal.SIGALRM, signal.default_int_handler)  # the end interrupts a row in its midst
    signal.setitimer(signal.ITIMER_REAL, max(left_of(float(seconds)), 1e-3))
    try:
        measure(record, Path(file), sizes, chosen)
    except KeyboardInterrupt:
        print("ended before all was measured:", ", ".join(record["left_out"]), flush=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        save(record, Path(file))


def measure(record: dict[str, Any], path: Path, sizes: Sequence[Size], chosen: Sequence[str]) -> None:
    """Fills a record."""
    found = emulated_gpu.install() or dml.device("cuda")
    assert isinstance(found, CudaDevice)
    record |= {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": machine.device_facts(found) | machine.gpu_facts(found.ordinal),
        "versions": Dmlpy(found, 1).versions(),
        "launch_us": launches.launches(found.name),
    }
    print(*(f"{what}: {us:.2f} us" for what, us in record["launch_us"].items()), sep="\n")
    for row in rows(found, sizes, chosen):
        print(row, flush=True)
        record["rows"].append(asdict(row))
        record["left_out"].remove(f"{row.work} {row.strategy}")
        save(record, path)


def save(record: Mapping[str, Any], path: Path) -> None:
    """Whoever reads it finds all of it, whenever this process ends."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(record, indent=1) + "\n")
    unfinished.replace(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
