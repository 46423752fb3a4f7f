"""Compares DirectML's answers and results with dmlpy's, and groups the differences by operator and rule."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.comparison import TOLERANCES, largest_difference
from dmlpy.conformance.values import from_bytes
from dmlpy.inspection.directml_records import Binding, Difference, Kind, OperatorRecord
from dmlpy.messages.problems import only_errors, only_undocumented
from dmlpy.reference.evaluation import reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.messages.problems import Problem

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class _Group:
    """The differences of one kind and rule."""

    count: int
    desc: OperatorDesc
    size: tuple[int, int]
    messages: tuple[str, ...]


@dataclass
class Findings:
    """The findings about one operator."""

    checked: int = 0
    both_accept: int = 0
    confirmed: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    runs_agree: int = 0
    left_out: int = 0
    sample: Binding | None = None
    _groups: dict[tuple[Kind, str], _Group] = field(default_factory=dict)

    def compared(self, desc: OperatorDesc, problems: Sequence[Problem], response: Mapping[str, Any]) -> None:
        """Adds an answer of DirectML to a desc, in which dmlpy finds these problems."""
        self.checked += 1
        accepted = not response["call"]
        errors, undocumented = only_errors(problems), only_undocumented(problems)
        if errors and not accepted:
            self.confirmed[errors[0].code] += 1
        elif errors or (undocumented and accepted):
            first = (errors or undocumented)[0]
            kind = Kind.ACCEPTED if errors else Kind.UNDOCUMENTED_ACCEPTED
            self._add(kind, first.code, desc, (str(first), *response["messages"]))
        elif accepted:
            self.both_accept += 1
        else:
            kind = Kind.UNDOCUMENTED_REFUSED if undocumented else Kind.REFUSED
            self._add(kind, f"{response['call']}: {response['hresult']}", desc, response["messages"])

    def ended(self, desc: OperatorDesc, reason: str, *, run: bool = False) -> None:
        """Adds a desc which the process did not survive, when it was checked or run."""
        if run:
            self.runs += 1
        else:
            self.checked += 1
        self._add(Kind.ENDED, f"{'running it' if run else 'creating it'}: {reason}", desc, ())

    def failed(self, desc: OperatorDesc, reason: str) -> None:
        """Adds a desc whose run failed."""
        self.runs += 1
        self._add(Kind.FAILED, reason, desc, ())

    def computed(self, desc: OperatorDesc, wrong: Iterable[tuple[str, str]]) -> None:
        """Adds a run with the outputs that differ, and how far each is off."""
        self.runs += 1
        differing = list(wrong)
        if not differing:
            self.runs_agree += 1
        for place, text in differing[:1]:
            self._add(Kind.RESULT, place, desc, (text,))

    def _add(self, kind: Kind, rule: str, desc: OperatorDesc, messages: Sequence[str]) -> None:
        size = size_of(desc)
        group = self._groups.get((kind, rule))
        if group is None:
            self._groups[kind, rule] = _Group(1, desc, size, tuple(messages))
            return
        group.count += 1
        if size < group.size:
            group.desc, group.size, group.messages = desc, size, tuple(messages)

    def record(self) -> OperatorRecord:
        """The findings as a part of a record, the most frequent difference first."""
        ordered = sorted(self._groups.items(), key=lambda item: (-item[1].count, item[0]))
        differences = tuple(
            Difference(
                kind=kind, rule=rule, count=group.count, desc=group.desc.to_dict(), messages=tuple(text[:2000] for text in group.messages)
            )
            for (kind, rule), group in ordered
        )
        return OperatorRecord(
            checked=self.checked,
            both_accept=self.both_accept,
            both_refuse=self.confirmed.total(),
            confirmed=dict(sorted(self.confirmed.items())),
            runs=self.runs,
            runs_agree=self.runs_agree,
            left_out=self.left_out,
            sample=self.sample,
            differences=differences,
        )


def size_of(desc: OperatorDesc) -> tuple[int, int]:
    """How large a desc is to a reader: its text, then its elements."""
    return len(json.dumps(desc.to_dict())), sum(tensor.element_count for tensor in desc.tensors().values())


def differing_outputs(desc: OperatorDesc, inputs: Mapping[str, Array], results: Sequence[bytes | None]) -> list[tuple[str, str]]:
    """The outputs that differ from `dmlpy.reference` beyond `dmlpy.comparison.TOLERANCES`, each with how far it is off."""
    expected = reference(desc, inputs).as_dict()
    differing = []
    for slot, data in zip(desc.output_slots(), results, strict=True):
        if slot.tensor is None or data is None:
            continue
        value = expected[slot.field.name]
        wanted = np.asarray(value if slot.index is None else value[slot.index])
        computed = from_bytes(slot.tensor, data)
        with np.errstate(over="ignore"):
            wanted = wanted.astype(computed.dtype)  # what the type has no number for is as it stores it
        allowed = TOLERANCES.get(computed.dtype.name, 0.0)
        difference = largest_difference(computed, wanted)
        if not difference <= allowed:
            differing.append((slot.place, f"{difference:.3g} of the largest magnitude, allowed {allowed:g}"))
    return differing
