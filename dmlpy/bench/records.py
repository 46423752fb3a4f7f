"""The results of a benchmark as a JSON file: the machine, the versions, and each library's results for each case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dmlpy.description.coercion import brief
from dmlpy.messages.json_text import lay_out
from dmlpy.messages.problems import DmlError
from dmlpy.system.files import read, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_BYTES = 1 << 28
"""The most bytes of a record's file."""

Status = Literal["ok", "wrong", "absent", "failed"]
"""Measured; wrong results, so no times; not installed, or unsupported; crashed, timed out or out of memory."""

BUSY_SPREAD = 1.5
"""The spread of its rates from which on a machine is called busy: on an idle one they differ by some 10%."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Host(_Part):
    """The computer of a measurement.

    Attributes:
        cores: the cores that this process may use.
        threads: the threads that each library was limited to on the CPU.
        busy_loops: the CPU-bound background processes of the benchmark, each on a separate core if possible.
        max_isa: the instruction set that libraries were limited to, as far as they can be; None for all that the processor has.
        load: averages of 1, 5 and 15 minutes before and after the measurements; empty if the system has none.
        clock_mhz: the CPU's clock, if the system reports it.
    """

    processor: str
    system: str
    cores: int
    threads: int
    busy_loops: int = 0
    max_isa: str | None = None
    load_before: list[float] = []
    load_after: list[float] = []
    clock_mhz: float | None = None


class Machine(_Part):
    """Rates of the device, measured in the same run.

    Attributes:
        copy_gb_s: bytes read and written in one second by a copy within the device's memory, in 1e9.
        cached_copy_gb_s: the same for copies of this many bytes, which may fit the CPU's caches.
        gemm_gflops: 1e9 operations per second by sizes and type of a matrix product, `1024x256x16 FLOAT32`: rows, sum, columns.
        launch_us: on a GPU the launch overhead in microseconds, by the names of `launches.NAMES`.
        rate_spread: the largest quotient of the best and the worst of several measurements of a rate; None if each was measured once.
    """

    copy_gb_s: float | None = None
    cached_copy_gb_s: dict[str, float] = {}
    gemm_gflops: dict[str, float] = {}
    launch_us: dict[str, float] = {}
    rate_spread: float | None = None

    @property
    def was_busy(self) -> bool:
        """Whether something else disturbed the measurement of the rates."""
        return (self.rate_spread or 1) > BUSY_SPREAD


class Measurement(_Part):
    """One library's result for one case. Without the status `ok` there are no times, and `reason` gives the reason.

    Attributes:
        shape: the key.
        subject: the library.
        mode: `eager`, or `graph` if the pass was captured in a CUDA graph. A second word, `graph flash`, names the kernels
            that the library had to use.
        median_us: the median of the rounds, in microseconds of a pass; likewise the 10th and 90th percentile and the least.
        rounds: the number of turns.
        repeats: passes per round, whose mean is the round's time.
        per_step_us: median_us by the number of steps.
        slope_us: the time of one more step, from a second run with twice the steps, if requested.
        packing_us: the median time of packing the parameters once, if the library packs them in advance.
        relative_error: the largest of the checked results.
        peak_bytes: the peak of one pass, beyond inputs and parameters.
        plan: the library's description of what it runs.
        floor_us: the roofline time of a pass, or the least time of any library if that is lower.
        estimate_us: the cost model's prediction for the kernels that ran, if the library has one; not measured.
        estimate_step_us: the same per step; `slope_us` is its measurement.
        tensor: for a single operator, the type and sizes of its largest input.
        flops: the operations of its matrix products; `bytes` are those of all its tensors.
        sets: the input sets that were used in turn, so that none was cached.
        reference: what the results were compared with, and its origin.
    """

    shape: str
    dtype: str
    pass_: Annotated[str, Field(alias="pass")]
    subject: str
    mode: str
    status: Status
    reason: str | None = None
    median_us: float | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    least_us: float | None = None
    rounds: int | None = None
    repeats: int | None = None
    per_step_us: float | None = None
    slope_us: float | None = None
    packing_us: float | None = None
    relative_error: float | None = None
    peak_bytes: int | None = None
    plan: list[str] = []
    floor_us: float | None = None
    estimate_us: float | None = None
    estimate_step_us: float | None = None
    tensor: str | None = None
    flops: int | None = None
    bytes: int | None = None
    sets: int | None = None
    reference: str | None = None


class Record(_Part):
    """The record of one benchmark.

    Attributes:
        date: when it began, ISO 8601 with the time zone.
        device: the device's description of itself, with driver and clocks on a GPU.
        versions: by library.
        instruction_sets: what each library says it takes of the processor, if it says so, in its own words.
        left_out: the requested cases that were not measured, because the time was over or the benchmark was stopped.
    """

    format: Literal[1] = 1
    date: str
    device: dict[str, str]
    host: Host
    versions: dict[str, str] = {}
    instruction_sets: dict[str, str] = {}
    machine: Machine = Machine()
    left_out: list[str] = []
    runs: list[Measurement] = []

    @property
    def device_name(self) -> str:
        """The GPU's name, or the CPU's if it is the device."""
        return self.device["name"] if self.device.get("kind") == "cuda" else self.host.processor

    def save(self, path: Path) -> None:
        """Writes the file, one line per run and without missing values; replaces an existing one atomically.

        Raises:
            DmlError: the file cannot be written.
        """
        try:
            # Serialized first, so that NaN becomes null.
            unsaid = None if self.instruction_sets else {"instruction_sets"}
            data = json.loads(self.model_dump_json(by_alias=True, exclude_none=True, exclude=unsaid))
            write_text(path, lay_out(data, row_depth=2))
        except OSError as error:
            raise DmlError(f"{path} cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path) -> Record:
        """Reads a file.

        Raises:
            DmlError: it cannot be read, or is not a record.
        """
        try:
            return cls.model_validate_json(read(path, MAX_BYTES).decode("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise DmlError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise DmlError(f"{path} is not a record of `dmlpy bench`: {brief(place) if place else 'the file'}: {first['msg']}") from error


def floor_us(runs: Iterable[Measurement]) -> float | None:
    """The floor of runs of the same work: none of them took less. None without a roofline.

    Records that were made before rates were measured several times have rooflines above some times.
    """
    finished = [run for run in runs if run.status == "ok"]
    floors = [run.floor_us for run in finished if run.floor_us is not None]
    times = [us for run in finished for us in (run.least_us, run.median_us) if us is not None]
    return min([*floors, *times]) if floors else None
