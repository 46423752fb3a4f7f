"""Measures cases: starts a process for each library, checks its results, then runs all of them in turn."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.bench import machine
from dmlpy.bench.calibration import REST_S, Calibration
from dmlpy.bench.instruction_sets import variables_of
from dmlpy.bench.libraries import EAGER, OWN, PEERS, SETS, Peer
from dmlpy.bench.operators.shape import LargeShape, OperatorShape, tensor_text
from dmlpy.bench.process import AbsentError, FailedError, LateError, TimeOverError, Worker, in_time
from dmlpy.bench.records import Measurement, Record
from dmlpy.bench.shapes import Recurrent
from dmlpy.bench.tables import conditions, time_text
from dmlpy.bench.work import Array, Case, Work, relative_error
from dmlpy.devices.host.processors import processors
from dmlpy.messages.problems import DmlError
from dmlpy.messages.quantities import show_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import dmlpy as dml
    from dmlpy.bench.references import References

TURN_S = {"cpu": 0.02, "cuda": 0.05}
"""The shortest turn, unless it takes more than `MOST_REPEATS` passes."""
LEAST_REPEATS = {"cpu": 1, "cuda": 20}
LONGEST_S = {"cpu": 1.0, "cuda": 0.3}
"""The longest turn, unless a single pass is longer."""
MOST_REPEATS = 1000
WARM_UPS = 3
"""Successive estimates of the duration of a pass, after the check."""


@dataclass(frozen=True)
class Options:
    """The options of the measurement.

    Attributes:
        peers: the libraries that dmlpy is compared with.
        own: dmlpy itself.
        rounds: the number of turns of each.
        threads: the threads of each library on the CPU.
        limit_s: timeout per answer, in seconds.
        slope: whether each recurrent shape is also measured with twice the steps.
        pythons: interpreters of libraries that are installed elsewhere, by name.
        load: CPU-bound background processes.
        max_isa: the instruction set that libraries are limited to, as far as they can be; None for all that the processor has.
        seconds: total time, after which no new case is started and pending answers are abandoned; None for no limit.
        references: precomputed results; missing ones are computed.
    """

    peers: Sequence[Peer] = PEERS
    own: Peer = OWN
    rounds: int = 15
    threads: int = field(default_factory=processors)
    limit_s: float = 300.0
    slope: bool = False
    load: int = 0
    max_isa: str | None = None
    pythons: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    references: References | None = None


@dataclass
class _Entry:
    """A library's mode in one case, measured in turns."""

    peer: Peer
    mode: str
    worker: Worker
    plan: list[str]
    packs: bool
    peak_bytes: int | None
    floor_us: float | None
    estimate_us: float | None
    estimate_step_us: float | None
    sets: int
    error: float = float("nan")
    repeats: int = 1
    times: list[float] = field(default_factory=list)
    packing_us: float | None = None


class Benchmark:
    """A record under construction.

    Attributes:
        record: the results so far.

    Args:
        device: the device to run on.
        options: the options of the measurement.
        inform: receives a progress message for each step.
        before: a record of the same device and versions, whose other runs are kept. Its rates count if they are better.

    Raises:
        DmlError: `before` is of another device, or was made under another background load or limit of instructions.
    """

    def __init__(
        self, device: dml.Device, options: Options, inform: Callable[[str], None] = lambda line: None, before: Record | None = None
    ) -> None:
        self.record = Record(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            device=machine.device_facts(device),
            host=machine.host(options.threads, options.load, options.max_isa),
        )
        if before is not None:
            names = [(record.device_name, record.device["name"]) for record in (before, self.record)]
            if names[0] != names[1]:
                raise DmlError(f"the existing record is for '{before.device_name}', this device is '{self.record.device_name}'")
            for option, existing, new in (
                ("--load", before.host.busy_loops, self.record.host.busy_loops),
                ("--max-isa", before.host.max_isa or "none", self.record.host.max_isa or "none"),
            ):
                if existing != new:
                    raise DmlError(f"the existing record was made with {option} {existing}, this one would be with {option} {new}")
            kept = {
                "device": before.device | self.record.device,
                "versions": before.versions,
                "instruction_sets": before.instruction_sets,
                "machine": before.machine,
                "runs": before.runs,
            }
            self.record = self.record.model_copy(update=kept, deep=True)
        self._device, self._options, self._inform = device, options, inform
        self._kind = device.memory_kind
        self._versions_before = {} if before is None else before.versions
        self._missing: dict[str, str] = {}
        self._reusable: set[str] = set()
        self._started: set[str] = set()
        self._idle: dict[str, Worker] = {}
        self._until: float | None = None
        self._calibration = Calibration(self.record, device.name, inform)

    def run(self, cases: Sequence[Case], save: Path | None = None) -> Record:
        """Measures all cases while time is left. With `save`, writes the record after each case.

        Raises:
            DmlError: the references are from another version of dmlpy.
        """
        seconds = self._options.seconds
        self._until = None if seconds is None else time.monotonic() + seconds
        if self._options.references is not None:
            self._options.references.check(cases)
        self.record.left_out = [case.name for case in cases]
        with machine.busy(self._options.load), tempfile.TemporaryDirectory(prefix="dmlpy-bench-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            try:
                if self._kind == "cuda" and self._has_time():
                    self._measure_conditions(folder)
                    self._save(save)
                for case in cases:
                    if not self._has_time():
                        raise TimeOverError
                    self._measure_and_save(case, folder, save)
            except TimeOverError:
                self._inform(f"{seconds:g} s are over; not measured: {', '.join(self.record.left_out)}")
                self._save(save)
            finally:
                for worker in self._idle.values():
                    worker.close()
        return self.record

    def _has_time(self) -> bool:
        return self._until is None or time.monotonic() < self._until

    def _save(self, save: Path | None) -> None:
        if save is not None:
            self.record.save(save)

    def _measure_and_save(self, case: Case, folder: Path, save: Path | None) -> None:
        """Measures a case and adds its runs to the record."""
        runs = self._measure(case, folder)
        if self._options.slope and isinstance(case.shape, Recurrent):
            runs = self._with_slopes(case, runs, folder)
        for run in runs:
            self._inform(line_of(run))
        place = (case.shape.key, case.dtype, case.which)
        self.record.runs = [run for run in self.record.runs if (run.shape, run.dtype, run.pass_) != place] + runs
        self.record.left_out.remove(case.name)
        self.record.host.load_after = machine.load()
        self._save(save)

    def _measure_conditions(self, folder: Path) -> None:
        """The conditions of all GPU results: versions, driver and clocks, two rates, and the launch overhead."""
        machine_rates, large, own_peer = self.record.machine, machine.COPIED_BYTES["cuda"], self._options.own
        worker: Worker | None = None
        try:
            worker = self._worker(own_peer, folder)
            self._note(own_peer, worker.receive())
            rates = worker.ask("rates", device=self._device.name, products=[machine.product_of_gpu()], copies=[large])
            machine_rates.copy_gb_s, machine_rates.gemm_gflops = rates["copies"][str(large)], machine_rates.gemm_gflops | rates["products"]
            self.record.device |= rates["device"]
            machine_rates.launch_us = worker.ask("launches", device=self._device.name)
            if own_peer.name in self._reusable:
                self._idle[own_peer.name], worker = worker, None
        except (AbsentError, FailedError) as error:
            self._inform(f"the device's rates are unknown: {error}")
        finally:
            if worker is not None:
                worker.close()
        for line in conditions(self.record):
            self._inform(line)

    def _with_slopes(self, case: Case, runs: list[Measurement], folder: Path) -> list[Measurement]:
        """Adds the time of one more step to the runs, from the corresponding runs with twice the steps."""
        shape = replace(case.shape, steps=2 * case.shape.steps)
        try:
            longer = {(run.subject, run.mode): run for run in self._measure(replace(case, shape=shape), folder)}
        except TimeOverError:
            return runs
        for run in runs:
            other = longer.get((run.subject, run.mode))
            if other is not None and other.median_us is not None and run.median_us is not None:
                run.slope_us = (other.median_us - run.median_us) / case.shape.steps
        return runs

    def _measure(self, case: Case, folder: Path) -> list[Measurement]:
        """Measures one run of each library that the case applies to, in each of its modes."""
        libraries, load = (self._options.own, *self._options.peers), self._options.load
        peers = [peer for peer in libraries if peer.stands_beside(self._device, load) and peer.applies(case)]
        runs = [self._run(case, peer.name, EAGER[0], "absent", self._missing[peer.name]) for peer in peers if peer.name in self._missing]
        peers = [peer for peer in peers if peer.name not in self._missing]
        refusal = self._too_large(case, len(peers))
        if refusal is not None:
            return [self._run(case, peer.name, EAGER[0], "failed", refusal) for peer in peers] + runs
        workers: dict[str, Worker] = {}
        try:
            for peer in peers:
                try:
                    workers[peer.name] = self._worker(peer, folder)
                except FailedError as error:
                    runs.append(self._failure(case, peer, EAGER[0], error))
                    continue
                workers[peer.name].send("open", case=case)
            runs += self._measure_with(case, [peer for peer in peers if peer.name in workers], workers, folder)
            failed = {run.subject for run in runs if run.status == "failed"}
            self._keep({name: workers.pop(name) for name in list(workers) if name in self._reusable and name not in failed})
        finally:
            for worker in workers.values():
                worker.close()
        places = {peer.name: place for place, peer in enumerate((self._options.own, *self._options.peers))}
        return sorted(runs, key=lambda run: (places[run.subject], run.mode))

    def _keep(self, workers: Mapping[str, Worker]) -> None:
        """Keeps processes for the next case, and frees the memory that they needed for this one."""
        for worker in workers.values():
            worker.send("release")
        for name, worker in workers.items():
            try:
                worker.receive()
                self._idle[name] = worker
            except FailedError:
                worker.close()

    def _worker(self, peer: Peer, folder: Path) -> Worker:
        """A library's process: a new one, or one that has run a case before."""
        worker = self._idle.pop(peer.name, None)
        if worker is None:
            options = self._options
            python = options.pythons.get(peer.name, sys.executable)
            threads = peer.threads or options.threads
            limits, limit_s = variables_of(peer.name, options.max_isa), options.limit_s
            worker = Worker(peer.name, folder, python=python, threads=threads, limit_s=limit_s, variables=limits, until=self._until)
            worker.send("start", target=peer.target, device=self._device.name, threads=threads)
            self._started.discard(peer.name)
        return worker

    def _measure_with(self, case: Case, peers: Sequence[Peer], workers: Mapping[str, Worker], folder: Path) -> list[Measurement]:
        """Measures a run of each library's modes, in processes that are opening the case."""
        runs: list[Measurement] = []
        work = case.work()
        reference, origin = self._reference(case, work)
        entries: list[_Entry] = []
        for peer in peers:
            opened, recorded = self._open(case, peer, workers[peer.name])
            entries += opened
            runs += recorded
        entries = [
            entry for entry in entries if self._succeeds(case, entry, runs, lambda entry: self._check(work, entry, reference, folder))
        ]
        self._calibrate(case, entries)
        entries = [entry for entry in entries if self._succeeds(case, entry, runs, lambda entry: self._warm_up(case, entry))]
        for number in range(self._options.rounds):
            if number == self._options.rounds // 2 > 0:
                self._calibrate(case, entries)
            first = number % max(len(entries), 1)  # none is always the first
            for entry in (*entries[first:], *entries[:first]):
                if not self._succeeds(case, entry, runs, self._turn):
                    entries.remove(entry)
        self._calibrate(case, entries, is_last=True)
        floors = [entry.floor_us for entry in entries if entry.floor_us is not None]
        floor = min(floors) if floors else machine.floor_us(case, self.record.machine) if self._kind == "cpu" else None
        if floor is not None:  # what was faster shows that less time is enough
            floor = min([floor, *(min(entry.times) for entry in entries)])
        runs += [self._finished(case, entry, floor) for entry in entries]
        for run in runs:
            run.reference = origin if run.relative_error is not None else None
        return runs

    def _calibrate(self, case: Case, entries: Sequence[_Entry], *, is_last: bool = False) -> None:
        """Measures the processor's rates, in dmlpy's process. A GPU's rooflines come from the cost model."""
        own_workers = [entry.worker for entry in entries if entry.peer is self._options.own]
        if own_workers and self._kind == "cpu":
            self._calibration.measure(case, own_workers[0], is_last=is_last)

    def _reference(self, case: Case, work: Work) -> tuple[Mapping[str, Array], str]:
        """The reference of a case's results, and its description in a record."""
        references = self._options.references
        expected = None if references is None else references.of(case)
        if references is None or expected is None:
            return in_time(work.reference, self._until), f"float64, computed here: {work.checked}"
        return expected, f"float64, from {references.name}: {work.checked}"

    def _too_large(self, case: Case, libraries: int) -> str | None:
        """The reason why a case does not fit in memory, where all libraries hold it at the same time."""
        modes = 2 if self._kind == "cuda" and not isinstance(case.shape, LargeShape) else 1
        needed = case.needed_bytes(SETS[self._kind]) * libraries * modes
        available = self._device.available_memory()
        if needed <= available:
            return None
        each = f"{libraries} libraries at a time" if libraries > 1 else "it"
        return (
            f"{each} would need {show_bytes(needed)} ({needed} bytes) or more; {show_bytes(available)} are available on {self._device.name}"
        )

    def _open(self, case: Case, peer: Peer, worker: Worker) -> tuple[list[_Entry], list[Measurement]]:
        """Opens a library's modes: returns those that can be measured, and adds runs with the reason for the others."""
        entries, runs = [], []
        try:
            if peer.name not in self._started:
                self._note(peer, worker.receive())
            modes: dict[str, Any] = worker.receive()
        except AbsentError as error:
            if error.everywhere:
                self._missing[peer.name] = str(error)
                self._inform(f"{peer.name} is absent: {error}")
            return [], [self._run(case, peer.name, EAGER[0], "absent", str(error))]
        except FailedError as error:
            return [], [self._failure(case, peer, EAGER[0], error)]
        for mode, outcome in modes.items():
            if "plan" in outcome:
                entries.append(_Entry(peer, mode, worker, **outcome))
            else:
                (status, reason), *_ = outcome.items()
                runs.append(self._run(case, peer.name, mode, status, reason))
        return entries, runs

    def _note(self, peer: Peer, started: Mapping[str, Any]) -> None:
        """Records what a library's process reports at its start. A record holds one version of each library."""
        self._started.add(peer.name)
        if started["reusable"]:
            self._reusable.add(peer.name)
        if started["instruction_set"] is not None:
            self.record.instruction_sets[peer.name] = started["instruction_set"]
        if self._options.max_isa is not None and peer is self._options.own:
            self.record.device |= started["device"]  # this process is not limited, and describes the device as it is
        for name, version in started["versions"].items():
            before = self._versions_before.get(name, version)
            if before != version:
                raise DmlError(f"{name} is {version} here, and {before} in the existing record: start a new one")
            self.record.versions[name] = version

    def _succeeds(self, case: Case, entry: _Entry, runs: list[Measurement], act: Callable[[_Entry], str | None]) -> bool:
        """Returns whether an action succeeded; if not, adds a run with the reason. `act` returns why its results are wrong, or None."""
        try:
            wrong = act(entry)
        except (AbsentError, FailedError) as error:
            runs.append(self._failure(case, entry.peer, entry.mode, error, entry))
            return False
        if wrong is not None:
            runs.append(self._run(case, entry.peer.name, entry.mode, "wrong", wrong, entry))
        return wrong is None

    def _check(self, work: Work, entry: _Entry, reference: Mapping[str, Array], folder: Path) -> str | None:
        file, case = folder / "results.npz", work.case
        entry.worker.ask("check", mode=entry.mode, file=str(file))
        with np.load(file) as results:
            entry.error, name = relative_error(results, work.compared(entry.peer.name, reference))
        file.unlink()
        if entry.error <= case.tolerance:
            return None
        return f"{name} is off by {entry.error:.2g} of its norm; {case.tolerance:g} are allowed for {case.dtype}"

    def _warm_up(self, case: Case, entry: _Entry) -> None:
        """Determines the number of passes per turn, and the time of packing."""
        times = [entry.worker.ask("time", mode=entry.mode, repeats=1) for _ in range(WARM_UPS)]
        seconds = max(min(times) / 1e6, 1e-9)
        least, turn_s = case.shape.least_repeats or LEAST_REPEATS[self._kind], case.shape.turn_s or TURN_S[self._kind]
        wanted = max(least, min(int(turn_s / seconds) + 1, MOST_REPEATS))
        entry.repeats = max(1, min(wanted, int(LONGEST_S[self._kind] / seconds)))
        if entry.packs:
            entry.packing_us = statistics.median(entry.worker.ask("pack", mode=entry.mode))

    def _turn(self, entry: _Entry) -> None:
        if self._kind == "cpu" and self._options.threads > 1:
            time.sleep(REST_S)
        entry.times.append(entry.worker.ask("time", mode=entry.mode, repeats=entry.repeats))

    def _failure(self, case: Case, peer: Peer, mode: str, error: Exception, entry: _Entry | None = None) -> Measurement:
        """Creates a failed run. A case for which dmlpy itself ran out of time is skipped: it is not a failure."""
        if isinstance(error, LateError) and peer is self._options.own:
            raise TimeOverError from error
        return self._run(case, peer.name, mode, "failed", str(error), entry)

    def _run(self, case: Case, subject: str, mode: str, status: Any, reason: str, entry: _Entry | None = None) -> Measurement:
        """Creates a run without results."""
        more: dict[str, Any] = {}
        if entry is not None:
            more = {"plan": entry.plan, "sets": entry.sets, "relative_error": entry.error if np.isfinite(entry.error) else None}
        more |= _amounts(case)
        return Measurement(
            shape=case.shape.key, dtype=case.dtype, pass_=case.which, subject=subject, mode=mode, status=status, reason=reason, **more
        )

    def _finished(self, case: Case, entry: _Entry, floor_us: float | None) -> Measurement:
        median = statistics.median(entry.times)
        return Measurement(
            shape=case.shape.key,
            dtype=case.dtype,
            pass_=case.which,
            subject=entry.peer.name,
            mode=entry.mode,
            status="ok",
            median_us=median,
            p10_us=machine.percentile(entry.times, 1),
            p90_us=machine.percentile(entry.times, 9),
            least_us=min(entry.times),
            rounds=len(entry.times),
            repeats=entry.repeats,
            per_step_us=median / case.shape.steps,
            packing_us=entry.packing_us,
            relative_error=entry.error,
            peak_bytes=entry.peak_bytes,
            plan=entry.plan,
            sets=entry.sets,
            floor_us=floor_us,
            estimate_us=entry.estimate_us,
            estimate_step_us=entry.estimate_step_us,
            **_amounts(case),
        )


def _amounts(case: Case) -> dict[str, Any]:
    """The amount of work in a run of a single operator."""
    shape = case.shape
    if not isinstance(shape, OperatorShape | LargeShape):
        return {}
    return {
        "tensor": tensor_text(shape.desc(case.dtype)),
        "flops": shape.flops(case.which) or None,
        "bytes": shape.bytes(case.which, case.dtype),
    }


def line_of(run: Measurement) -> str:
    """Formats a run as a line of text."""
    name = f"{run.shape} {run.dtype} {run.pass_}: {run.subject} {run.mode}"
    if run.median_us is None:
        return f"{name}: {run.status}: {run.reason}"
    more = f", {time_text(run.slope_us)} a step more" if run.slope_us is not None else ""
    if run.estimate_us is not None:
        more += f", {time_text(run.estimate_us)} by the model"
    return f"{name}: {time_text(run.median_us)}{more}, error {run.relative_error:.1e}"


def cases_of(shapes: Sequence[Any], dtypes: Sequence[str], passes: Sequence[str]) -> Iterator[Case]:
    """The cases of shapes, limited to these types and passes; all if none is given."""
    for shape in shapes:
        for dtype in shape.dtypes:
            for which in shape.passes:
                if (not dtypes or dtype in dtypes) and (not passes or which in passes):
                    yield Case(shape, dtype, which)
