"""The catalogues: operators with what runs and verifies them (`dmlpy ops`), and features by level (`dmlpy levels`)."""

from __future__ import annotations

import textwrap
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlpy.description import support
from dmlpy.description.coercion import brief
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.registry import OPERATORS, short_name
from dmlpy.devices.cpu.device import CpuDevice
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.numpy.device import NumpyDevice
from dmlpy.inspection import directml_records
from dmlpy.messages.naming import c_member, did_you_mean, plural
from dmlpy.messages.problems import DescError, Problem
from dmlpy.messages.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.support import SupportRow
    from dmlpy.devices import Device

_VERIFIED = Path(__file__).with_name("verified.toml")

BEYOND_OPERATORS: Mapping[FeatureLevel, str] = {
    FeatureLevel.FL_2_0: "DMLCreateDevice1; queries of feature levels",
    FeatureLevel.FL_2_1: "graphs (IDMLDevice1)",
    FeatureLevel.FL_3_0: "tensors of 8 dimensions",
    FeatureLevel.FL_5_2: "the debug layer works without that of Direct3D 12",
    FeatureLevel.FL_6_0: "ELEMENT_WISE_CLIP may be fused",
    FeatureLevel.FL_6_1: "GEMM fuses ACTIVATION_SOFTMAX and ACTIVATION_SOFTMAX1",
    FeatureLevel.FL_6_2: "constant nodes in graphs",
}
"""Additions of a level that no operator's support table shows."""


@dataclass(frozen=True)
class Level:
    """The additions of a feature level.

    Attributes:
        level: the level; it contains all lower ones.
        windows: the version of Windows that has it; empty if none does.
        operators: the operators that it introduced, by short name.
        grown: operators of lower levels that take more since then, each with what: `2 to 4 dimensions`, `also INT8`.
        beyond_operators: the additions other than operators.
    """

    level: FeatureLevel
    windows: str
    operators: tuple[str, ...]
    grown: Mapping[str, tuple[str, ...]]
    beyond_operators: str

    def to_dict(self) -> dict[str, Any]:
        """The level as a dict for JSON."""
        return {
            "level": str(self.level),
            "value": int(self.level),
            "directml": self.level.directml_version,
            "windows": self.windows or None,
            "operators": list(self.operators),
            "grown": {name: list(texts) for name, texts in self.grown.items()},
            "beyond_operators": self.beyond_operators or None,
        }

    def text(self) -> str:
        """The level as text for people."""
        windows = f", in {self.windows}" if self.windows else ""
        lines = [f"{self.level}: DirectML {self.level.directml_version}{windows}"]
        if self.operators:
            lines += ["", f"{plural(len(self.operators), 'new operator')}:", *_wrap(", ".join(self.operators))]
        if self.grown:
            lines += ["", f"{plural(len(self.grown), 'operator')} of lower levels with more types, dimensions or modes:"]
            alike: dict[tuple[str, ...], list[str]] = {}
            for name, texts in self.grown.items():
                alike.setdefault(texts, []).append(name)
            for texts, names in alike.items():
                lines += _wrap(f"{', '.join(names)}: {'; '.join(texts)}")
        if self.beyond_operators:
            lines += ["", f"Also: {self.beyond_operators}"]
        return "\n".join(lines)


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, 120, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def levels() -> list[Level]:
    """The additions of each feature level, lowest first."""
    kinds = [kind for kind in OPERATORS.values() if not kind.is_extension]
    levels = []
    for level in FeatureLevel:
        new = tuple(sorted(kind.short_name() for kind in kinds if kind.introduced() is level))
        grown = {kind.short_name(): texts for kind in kinds if kind.introduced() < level and (texts := tuple(_growth(kind, level)))}
        levels.append(Level(level, level.windows_version, new, dict(sorted(grown.items())), BEYOND_OPERATORS.get(level, "")))
    return levels


def levels_table(shown: Sequence[Level]) -> Table:
    """A table with a line for each level."""
    rows = tuple(
        (str(item.level), item.level.directml_version, item.windows, str(len(item.operators)), str(len(item.grown)), item.beyond_operators)
        for item in shown
    )
    return Table("Feature levels", ("level", "DirectML", "in-box", "new operators", "operators that take more", "also"), rows)


def _growth(kind: type[OperatorDesc], level: FeatureLevel) -> Iterator[str]:
    """The additions of a level's rows to the rows that they replace, and the enumeration members that it introduced."""
    for row in kind.support:
        if row.level is level:
            of = ", ".join(f"{c_member(name)} {' or '.join(map(str, values))}" for name, values in row.when.items())
            texts = list(_difference(kind, row, _superseding_rows(kind, row)))
            yield from (f"with {of}: {text}" if of else text for text in texts)
    for attribute in kind.attribute_fields():
        members = [name for name, since in (attribute.limits.since or {}).items() if FeatureLevel.parse(since) is level]
        if members:
            yield f"{c_member(attribute.name)} {' or '.join(members)}"


def _superseding_rows(kind: type[OperatorDesc], row: SupportRow) -> list[SupportRow]:
    """The rows that apply below a row's level to the same desc: one, unless rows begin to differ by attribute values."""
    older = [other for other in kind.support if other.level < row.level and _overlap(other, row)]
    newest = max((other.level for other in older), default=None)
    return [other for other in older if other.level is newest]


def _overlap(one: SupportRow, other: SupportRow) -> bool:
    return all(set(values) & set(other.when[name]) for name, values in one.when.items() if name in other.when)


def _difference(kind: type[OperatorDesc], row: SupportRow, older: Sequence[SupportRow]) -> Iterator[str]:
    if not older:
        yield f"{support.show_dims(row.dims)}, {', '.join(f'{name} {support.show(types)}' for name, types in row.types.items())}"
        return
    spans = {field.name: row.dims_for(field.name) for field in kind.tensor_fields()}
    changed = {name: span for name, span in spans.items() if span not in [other.dims_for(name) for other in older]}
    if len(set(changed.values())) == 1 and len(changed) == len(spans):
        yield support.show_dims(row.dims)
    else:
        yield from (f"{c_member(name)} {support.show_dims(span)}" for name, span in changed.items())
    for name, types in row.types.items():
        more = types.difference(*(other.types.get(name, frozenset()) for other in older))
        if more:
            fields = [c_member(field.name) for field in kind.tensor_fields() if field.marker.types == name]
            subject = f"{', '.join(fields)} also " if len(row.types) > 1 else "also "
            yield subject + support.show(more).replace(" or ", ", ")


@dataclass(frozen=True)
class CatalogEntry:
    """An operator in the list of all.

    Attributes:
        kind: its class.
        runs_on: the kinds of devices, each with whether it runs the operator, if there is one.
        verified_against: the sources that the tests compare its results with; empty if there are none.
        directml_says: what the newest record of `dmlpy conformance` says of it; empty if there is none.
    """

    kind: type[OperatorDesc]
    runs_on: Mapping[str, bool]
    verified_against: tuple[str, ...]
    directml_says: str

    def to_dict(self) -> dict[str, Any]:
        """The entry as a dict for JSON."""
        return {
            "operator": self.kind.type_name,
            "class": self.kind.__name__,
            "family": self.kind.family(),
            "own": self.kind.is_extension,
            "feature_level": None if self.kind.is_extension else str(self.kind.introduced()),
            "runs_on": dict(self.runs_on),
            "verified_against": list(self.verified_against),
            "directml_says": self.directml_says or None,
        }


def operators(*, family: str | None = None, feature_level: FeatureLevel | None = None) -> list[CatalogEntry]:
    """All operators, by name; DirectML's first.

    Args:
        family: only operators of this family.
        feature_level: only operators that this level has; those that DirectML lacks have no level and are left out.

    Raises:
        DescError: no such family.
    """
    listed = families()
    if family is not None and family.lower() not in listed:
        problem = Problem("field.form", "family", brief(family), f"one of {', '.join(listed)}", remedy=did_you_mean(family, listed))
        raise DescError("operators", [problem])
    devices: dict[str, type[Device]] = {"numpy": NumpyDevice, "cpu": CpuDevice, "cuda": CudaDevice}
    return [
        CatalogEntry(
            kind,
            {name: device.runs(kind) for name, device in devices.items()},
            verified_against(kind),
            "" if kind.is_extension else directml_records.summary(kind.short_name(), directml_records.stored()),
        )
        for kind in sorted(OPERATORS.values(), key=lambda kind: (kind.is_extension, kind.type_name))
        if (family is None or kind.family() == family.lower())
        and (feature_level is None or (not kind.is_extension and kind.introduced() <= feature_level))
    ]


def operators_table(entries: Sequence[CatalogEntry]) -> Table:
    """A table with a line for each operator."""
    rows = tuple(
        (
            short_name(item.kind.type_name),
            item.kind.family(),
            "dmlpy's own" if item.kind.is_extension else str(item.kind.introduced()),
            ", ".join(name for name, runs in item.runs_on.items() if runs) or "described only",
            ", ".join(item.verified_against),
            item.directml_says,
        )
        for item in entries
    )
    return Table("Operators", ("operator", "family", "from level", "runs on", "verified against", "DirectML says"), rows)


def families() -> list[str]:
    """The families of operators."""
    return sorted({kind.family() for kind in OPERATORS.values()})


def verified_against(kind: type[OperatorDesc]) -> tuple[str, ...]:
    """The systems that the tests compare an operator's results with, and the examples of DirectML's documentation, by name."""
    return tuple(source for source, names in _sources().items() if kind.short_name() in names)


@cache
def _sources() -> Mapping[str, Sequence[str]]:
    data: dict[str, list[str]] = tomllib.loads(_VERIFIED.read_text(encoding="utf-8"))
    return data
