"""What a benchmark found, as a JSON file: where it ran, on which versions, and the figures of each library on each piece of work."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dmlpy.validation.problems import DmlError

if TYPE_CHECKING:
    from pathlib import Path

Status = Literal["ok", "wrong", "absent", "failed"]
"""Measured; computed wrong results, so without figures; not installed, or does not do this; died, took too long or ran out of memory."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Host(_Part):
    """The computer.

    Attributes:
        cores: that this process may use.
        threads: that each library was told to use on the processor.
        load: averages of 1, 5 and 15 minutes before and after the measurements; empty where the system has none.
        clock_mhz: of the processor, as far as the system tells.
    """

    processor: str
    system: str
    cores: int
    threads: int
    load_before: list[float] = []
    load_after: list[float] = []
    clock_mhz: float | None = None


class Machine(_Part):
    """Rates of the device, measured in the same run.

    Attributes:
        copy_gb_s: bytes read and written in one second by a copy within the device's memory, in 1e9.
        cached_copy_gb_s: the same of copies of so many bytes, which the processor's caches may hold.
        gemm_gflops: 1e9 operations in one second by sizes and type of a matrix product, `1024x256x16 FLOAT32`: rows, sum, columns.
    """

    copy_gb_s: float | None = None
    cached_copy_gb_s: dict[str, float] = {}
    gemm_gflops: dict[str, float] = {}


class Measurement(_Part):
    """One library on one piece of work. Without the status `ok` there are no figures, and `reason` says why.

    Attributes:
        shape: the key.
        subject: the library.
        mode: `eager`, or `graph` where everything was captured in a CUDA graph before.
        median_us: of the rounds, microseconds of a pass; likewise the 10th and 90th percentile and the least.
        rounds: how often it was its turn.
        repeats: passes that a round's figure is the mean of.
        per_step_us: median_us by the number of steps.
        slope_us: what a step more takes: from a second run with twice the steps, if asked for.
        packing_us: median of what preparing the parameters takes once, where a library does that beforehand.
        relative_error: the largest of the checked results.
        peak_bytes: of one pass, beyond inputs and parameters.
        plan: what the library says that it runs.
        floor_us: the least time of a pass by the device's model.
        estimate_us: what the model predicts for the kernels that ran, where the library has one; not measured.
        estimate_step_us: the same of a step, which `slope_us` measures.
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


class Record(_Part):
    """One benchmark.

    Attributes:
        date: when it began, ISO 8601 with the time zone.
        device: what the device says of itself, with driver and clocks on a GPU.
        versions: by library.
    """

    format: Literal[1] = 1
    date: str
    device: dict[str, str]
    host: Host
    versions: dict[str, str] = {}
    machine: Machine = Machine()
    runs: list[Measurement] = []

    @property
    def device_name(self) -> str:
        """The GPU, or the processor where the processor is the device."""
        return self.device["name"] if self.device.get("kind") == "cuda" else self.host.processor

    def save(self, path: Path) -> None:
        """Writes the file; an older one is replaced as a whole."""
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(self.model_dump_json(indent=1, by_alias=True) + "\n", encoding="utf-8")
            unfinished.replace(path)
        except OSError as error:
            raise DmlError(f"{path} cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path) -> Record:
        """Reads a file.

        Raises:
            DmlError: it cannot be read, or is no such record.
        """
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise DmlError(f"{path} cannot be read: {error}") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise DmlError(f"{path} is no record of `dmlpy bench`: {place or 'the file'}: {first['msg']}") from error
