"""Element types that a released program gives DirectML and that Microsoft's page does not list, each with the decision on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dmlpy.evidence.sources import Source, read, sources

if TYPE_CHECKING:
    from collections.abc import Mapping

Decision = Literal["undocumented", "refused"]


@dataclass(frozen=True)
class TypeEntry:
    """Types of one operator that a program registers and the page does not list.

    Attributes:
        operator: the operator's name without `DML_OPERATOR_`.
        field: the tensor that the program's table is about.
        variable: the operator's type variable that the field has.
        types: the element types, by name.
        levels: the first and the last feature level that the entry is about.
        when: the values of attributes that it is about, by attribute; empty if it is about all.
        source: the program.
        file: the file of the program that lists the types.
        says: what the program does with the types.
        decision: `undocumented` if `check` reports the types as undocumented, `refused` if it reports them as errors, as the page has it.
        reason: the reason for the decision.
        uncomputed: the reason why no device computes the types, although they may be valid; empty if devices do.
        uncomputed_on_cuda: the reason why CUDA devices do not compute them, if others do.
    """

    operator: str
    field: str
    variable: str
    types: frozenset[str]
    levels: tuple[str, str]
    when: Mapping[str, tuple[str, ...]]
    source: Source
    file: str
    says: str
    decision: Decision
    reason: str
    uncomputed: str
    uncomputed_on_cuda: str

    @property
    def count(self) -> int:
        """The number of entries of the program's table: one for each type and each value of an attribute."""
        count = len(self.types)
        for values in self.when.values():
            count *= len(values)
        return count

    def span(self) -> str:
        """The feature levels that it is about: `4_0`, `6_3 to 6_4`."""
        first, last = self.levels
        return first if first == last else f"{first} to {last}"

    def listed(self) -> str:
        """The types, with the attributes that they are about: `INT32 or INT64, function AVERAGE or L2`."""
        conditions = (f", {name} {' or '.join(values)}" for name, values in self.when.items())
        return " or ".join(sorted(self.types)) + "".join(conditions)

    def sentence(self) -> str:
        """The statements of the two sources, in one sentence."""
        return f"Microsoft's page: no; {self.source.name} {self.says} ({self.file})"


@cache
def type_entries() -> tuple[TypeEntry, ...]:
    """All entries, in the file's order."""
    return tuple(_entry(row) for row in read(Path(__file__).with_name("types.toml"))["types"])


@cache
def undocumented_types(operator: str) -> tuple[TypeEntry, ...]:
    """The entries of an operator that `check` reports as undocumented."""
    return tuple(entry for entry in type_entries() if entry.operator == operator and entry.decision == "undocumented")


def _entry(row: Mapping[str, Any]) -> TypeEntry:
    return TypeEntry(
        operator=row["operator"],
        field=row["field"],
        variable=row["variable"],
        types=frozenset(row["types"]),
        levels=(row["levels"][0], row["levels"][-1]),
        when={name: tuple(values) for name, values in row.get("when", {}).items()},
        source=sources()[row["source"]],
        file=row["file"],
        says=row["says"],
        decision=row["decision"],
        reason=row["reason"],
        uncomputed=row.get("uncomputed", ""),
        uncomputed_on_cuda=row.get("uncomputed_on_cuda", ""),
    )
