"""The implementation of `dmlpy conformance`: checks all descs, runs some, and makes the record."""

from __future__ import annotations

import base64
import datetime
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.conformance.cases import cases, operator_classes, runs
from dmlpy.conformance.dxdispatch import DxDispatch
from dmlpy.conformance.findings import Findings, differing_outputs, size_of
from dmlpy.conformance.process import EndedError, PydirectmlWorker, StartError, Worker
from dmlpy.conformance.pydirectml import expresses
from dmlpy.conformance.values import random_inputs, to_bytes
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.json_objects import read_json
from dmlpy.description.registry import operator_class
from dmlpy.inspection.directml_records import Binding, LevelRecord, OperatorRecord, Record
from dmlpy.inspection.samples import sample
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DescError, DmlError, Problem
from dmlpy.messages.tables import Table
from dmlpy.validation.checking import check
from dmlpy.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from dmlpy.conformance.process import Opened

MOST_ENDINGS = 10
"""The endings of the process in a row after which the rest of an operator's descs are left out."""

Inform = Callable[[str], None]


@dataclass(frozen=True)
class ConformanceOptions:
    """The options of a comparison.

    Attributes:
        operators: short names; none for all operators.
        dll: DirectML.dll; None for that of an installed onnxruntime-directml, else of Windows.
        files: JSON files with more descs.
        hardware: the first GPU in place of the software adapter.
        debug: the debug layer, where it is installed.
        run: also run operators and compare their results.
        dxdispatch: Microsoft's dxdispatch.exe, which runs the operators in place of dmlpy's own calls.
        pydirectml: the installed pydirectml runs them, as far as it has functions for them.
        every_level: check all descs on devices of lower levels, not the samples only.
        limit_s: the most seconds for one desc.
        seconds: check no more descs after so many seconds; None for no limit.
    """

    operators: Sequence[str] = ()
    dll: Path | None = None
    files: Sequence[Path] = ()
    hardware: bool = False
    debug: bool = True
    run: bool = True
    every_level: bool = False
    dxdispatch: Path | None = None
    pydirectml: bool = False
    limit_s: float = 60.0
    seconds: float | None = None


@dataclass
class _Run:
    """A run under way: what is known so far is in it. `runner` runs operators: the worker itself, pydirectml's, or DxDispatch."""

    options: ConformanceOptions
    worker: Worker
    runner: Worker | DxDispatch
    opened: Opened
    findings: dict[str, Findings] = field(default_factory=dict)
    levels: dict[str, LevelRecord] = field(default_factory=dict)
    accepted: dict[OperatorDesc, bool] = field(default_factory=dict)
    """The descs to check on devices of lower levels, each with whether the device of the highest level accepts it."""
    until: float = float("inf")

    @property
    def level(self) -> FeatureLevel:
        return FeatureLevel.parse(self.opened.highest_level)

    def check_all(self, kind: type[OperatorDesc], more: Sequence[OperatorDesc]) -> None:
        first = sample(kind)
        for desc, findings in self._each(kind, list(dict.fromkeys([*cases(kind), *more]))):
            problems = check(desc, self.level)
            try:
                response = self.worker.check(desc.to_dict())
            except EndedError as error:
                findings.ended(desc, str(error))
                continue
            findings.compared(desc, problems, response)
            accepted = not response["call"]
            if desc == first and accepted:
                sizes = {"temporary_bytes": response["temporary"], "persistent_bytes": response["persistent"]}
                findings.sample = Binding(descriptors=response["descriptors"], **sizes)
            if desc == first or self.options.every_level:
                self.accepted[desc] = accepted

    def run_all(self, kind: type[OperatorDesc]) -> None:
        rng = np.random.default_rng(zlib.crc32(kind.type_name.encode()))  # a desc has the same inputs in every run
        for desc, findings in self._each(kind, self._runs(kind)):
            inputs = random_inputs(rng, desc)
            stored = [None if slot.tensor is None else to_bytes(slot.tensor, inputs[slot.place]) for slot in desc.input_slots()]
            try:
                results = self._execute(desc, stored)
            except EndedError as error:
                findings.ended(desc, str(error), run=True)
            except StartError:
                raise
            except DmlError as error:
                findings.failed(desc, str(error))
            else:
                findings.computed(desc, differing_outputs(desc, inputs, results))

    def _runs(self, kind: type[OperatorDesc]) -> list[OperatorDesc]:
        return [desc for desc in runs(kind, self.level) if not self.options.pydirectml or expresses(desc)]

    def _execute(self, desc: OperatorDesc, inputs: list[bytes | None]) -> list[bytes | None]:
        """The outputs of a run."""
        if isinstance(self.runner, DxDispatch):
            return self.runner.run(desc, inputs)
        texts = [None if data is None else base64.b64encode(data).decode("ascii") for data in inputs]
        return [None if text is None else base64.b64decode(text) for text in self.runner.run(desc.to_dict(), texts)]

    @property
    def _endings(self) -> int:
        """How often a process has ended."""
        others = self.runner.endings if isinstance(self.runner, Worker) and self.runner is not self.worker else 0
        return self.worker.endings + others

    def _each(self, kind: type[OperatorDesc], descs: list[OperatorDesc]) -> Iterator[tuple[OperatorDesc, Findings]]:
        """The descs with their operator's findings, until the time is over or the process ends again and again."""
        findings = self.findings.setdefault(kind.short_name(), Findings())
        endings, before = 0, self._endings
        for index, desc in enumerate(descs):
            if time.monotonic() > self.until or endings >= MOST_ENDINGS:
                findings.left_out += len(descs) - index
                return
            yield desc, findings
            endings = endings + 1 if self._endings > before else 0
            before = self._endings

    def check_level(self, level: FeatureLevel) -> None:
        """Checks descs on a device that was created for a lower level, which may limit what it accepts."""
        checked, others = 0, list[OperatorDesc]()
        try:
            self.worker.open(str(level))
        except StartError as error:
            # A record names no folder, which may have a user's name.
            reason = str(error).replace(self.opened.file, PureWindowsPath(self.opened.file).name)
            self.levels[str(level)] = LevelRecord(opened=False, reason=reason, checked=0, differing=0)
            return
        for desc, accepted in self.accepted.items():
            if time.monotonic() > self.until:
                break
            with suppress(EndedError):
                response = self.worker.check(desc.to_dict())
                checked += 1
                if accepted != (not response["call"]):
                    others.append(desc)
        smallest = min(others, key=size_of).to_dict() if others else None
        self.levels[str(level)] = LevelRecord(opened=True, checked=checked, differing=len(others), smallest=smallest)

    def record(self) -> Record:
        return Record(
            format=1,
            date=datetime.date.today().isoformat(),
            dmlpy=__version__,
            directml_version=self.opened.version,
            feature_level=self.opened.highest_level,
            system=self.opened.system,
            adapter=self.opened.adapter,
            debug_layer=self.opened.debug_layer,
            results_by="pydirectml" if self.options.pydirectml else "dmlpy" if self.options.dxdispatch is None else "DxDispatch",
            endings=self._endings,
            levels=self.levels,
            operators={name: findings.record() for name, findings in sorted(self.findings.items())},
        )


def run(options: ConformanceOptions, save: Callable[[Record], None], inform: Inform) -> Record:
    """Compares dmlpy with DirectML.

    Args:
        options: what to compare.
        save: writes the record; it is also called where the run ends early, with what is known by then.
        inform: reports progress to the user.

    Raises:
        DmlError: this is not Windows, DirectML or the adapter is missing, an operator's name or a file is wrong, or DirectML could not be
            started again after a crash.
    """
    kinds = _kinds(options.operators)
    more = _more(options.files)
    if options.dxdispatch is not None and not os.path.isfile(options.dxdispatch):
        raise DmlError(f"there is no {options.dxdispatch}")
    if options.dxdispatch is not None and options.pydirectml:
        raise DmlError("DxDispatch or pydirectml runs the operators, not both")
    dll = None if options.dll is None else str(options.dll)
    with ExitStack() as ends:
        worker = ends.enter_context(Worker(dll, hardware=options.hardware, debug=options.debug, limit_s=options.limit_s))
        opened = worker.open(str(min(FeatureLevel)))
        inform(f"{opened.file} {opened.version}, feature level {opened.highest_level}, on {opened.adapter}")
        started = _Run(options, worker, _runner(options, worker, FeatureLevel.parse(opened.highest_level), ends), opened)
        if options.seconds is not None:
            started.until = time.monotonic() + options.seconds
        try:
            _check_operators(started, kinds, more, inform)
        finally:
            record = started.record()
            save(record)
    return record


def _runner(options: ConformanceOptions, worker: Worker, level: FeatureLevel, ends: ExitStack) -> Worker | DxDispatch:
    """The object that runs operators; if it is a process, the stack ends it."""
    if options.dxdispatch is not None:
        return DxDispatch(options.dxdispatch, level, hardware=options.hardware, limit_s=options.limit_s)
    if not options.pydirectml:
        return worker
    runner = ends.enter_context(PydirectmlWorker(None, hardware=options.hardware, debug=options.debug, limit_s=options.limit_s))
    if options.run:
        runner.start()  # a missing module shall not be found out after hours
    return runner


def _kinds(names: Sequence[str]) -> list[type[OperatorDesc]]:
    kinds = [operator_class(name.upper()) for name in names]
    if extensions := [kind.short_name() for kind in kinds if kind.is_extension]:
        raise DmlError(f"DirectML has no {extensions[0]}: it is one of dmlpy's own operators")
    return operator_classes(kind.short_name() for kind in kinds)


def _check_operators(started: _Run, kinds: Sequence[type[OperatorDesc]], more: Sequence[OperatorDesc], inform: Inform) -> None:
    if started.options.run:
        for kind in kinds:
            started.run_all(kind)
        inform(f"{plural(sum(operator_record.runs for operator_record in started.findings.values()), 'desc')} run")
    for index, kind in enumerate(kinds):
        started.check_all(kind, [desc for desc in more if isinstance(desc, kind)])
        if index % 20 == 19:
            inform(f"{index + 1} of {plural(len(kinds), 'operator')}")
    for level in FeatureLevel:
        if level < started.level and time.monotonic() <= started.until:
            started.check_level(level)


def _more(files: Sequence[Path]) -> list[OperatorDesc]:
    """The descs in JSON files: an array of them, or an object whose values are."""
    descs = []
    for file in files:
        try:
            data = read_json(file.read_bytes(), str(file))
        except OSError as error:
            raise DmlError(str(file), [Problem("file.unreadable", "file", f"unreadable: {error.strerror}", "a file")]) from error
        for index, item in enumerate(data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else [data]):
            try:
                descs.append(OperatorDesc.from_dict(item))
            except DescError as error:
                raise DmlError(f"{file}, desc {index}: {error}") from error
    return descs


def is_clean(record: Record) -> bool:
    """Whether nothing differs; an answer to a desc that is undocumented is not a difference."""
    return not any(
        difference.kind.is_disagreement for operator_record in record.operators.values() for difference in operator_record.differences
    )


def differences_table(record: Record) -> Table:
    """A table with a line for each kind of difference."""
    rows = tuple(
        (name, difference.kind.value, difference.rule, str(difference.count))
        for name, operator_record in record.operators.items()
        for difference in operator_record.differences
    )
    return Table("Differences", ("operator", "difference", "rule", "descs"), rows)


def summary(record: Record) -> str:
    """The figures of a record in two lines."""
    operator_records: list[OperatorRecord] = list(record.operators.values())
    checked, runs = sum(each.checked for each in operator_records), sum(each.runs for each in operator_records)
    agreed, same = sum(each.both_accept + each.both_refuse for each in operator_records), sum(each.runs_agree for each in operator_records)
    return (
        f"{plural(checked, 'desc')} of {plural(len(operator_records), 'operator')}: both accept or both refuse {agreed}\n"
        f"{plural(runs, 'desc')} run: {same} with the results of dmlpy.reference"
    )
