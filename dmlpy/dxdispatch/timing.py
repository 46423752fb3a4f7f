"""Samples of a dispatch's duration, and the lines that report them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import fmean, median_high
from typing import TYPE_CHECKING

from dmlpy.messages.naming import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass
class Timings:
    """The milliseconds of each iteration. The GPU's samples are a ring buffer that overwrites the oldest."""

    warmup: int
    capacity: int
    cpu: list[float] = field(default_factory=list)
    gpu: deque[float] = field(init=False)

    def __post_init__(self) -> None:
        self.gpu = deque(maxlen=self.capacity)

    def add(self, cpu: float, gpu: float | None) -> None:
        """Adds one iteration; `gpu` is None if the device has no clock."""
        self.cpu.append(cpu)
        if gpu is not None:
            self.gpu.append(gpu)

    def lines(self, name: str, verbosity: int) -> Iterator[str]:
        """Formats the report on a dispatchable: one line at verbosity 0, statistics at 1, every iteration at 2."""
        count = len(self.cpu)
        overwritten = count - len(self.gpu) if self.gpu else 0
        cpu_cold, cpu_hot = split(self.cpu, self.warmup)
        gpu_cold, gpu_hot = split(list(self.gpu), max(0, self.warmup - overwritten))
        if verbosity == 0:
            gpu = f", {median_high(gpu_hot):.6f} ms median (GPU)" if gpu_hot else ""
            yield f"Dispatch '{name}': {plural(count, 'iteration')}, {median_high(cpu_hot):.4f} ms median (CPU){gpu}"
            return
        yield f"Dispatch '{name}': {plural(count, 'iteration')}"
        labelled = (("CPU Timings (Cold) :", cpu_cold), ("GPU Timings (Cold) :", gpu_cold), ("CPU Timings (Hot)  :", cpu_hot))
        for label, samples in (*labelled, ("GPU Timings (Hot)  :", gpu_hot)):
            if samples:
                yield f"{label} {summary(samples)}"
        if overwritten:
            yield f"GPU samples buffer has {overwritten} samples overwritten."
        if verbosity >= 2:
            yield "The timings of each iteration: "
            for index, cpu in enumerate(self.cpu):
                gpu = f", {self.gpu[index - overwritten]:.4f} ms (GPU)" if self.gpu and index >= overwritten else ""
                yield f"iteration {index}: {cpu:.4f} ms (CPU){gpu}"


def split(samples: Sequence[float], warmup: int) -> tuple[Sequence[float], Sequence[float]]:
    """Splits off the first samples, taken with cold caches; at least one sample remains."""
    cold = min(max(0, len(samples) - 1), warmup)
    return samples[:cold], samples[cold:]


def summary(samples: Sequence[float]) -> str:
    """The number, mean, least, median and largest of samples."""
    figures = {"average": fmean(samples), "min": min(samples), "median": median_high(samples), "max": max(samples)}
    return ", ".join([f"{plural(len(samples), 'sample')}", *(f"{value:.4f} ms {name}" for name, value in figures.items())])
