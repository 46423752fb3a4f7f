"""`explain`: an operator's struct as data for people: its members and their values, its rules and its support."""

from __future__ import annotations

import re
import textwrap
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dmlpy.description import support
from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.foreign_names import operator_remedy
from dmlpy.description.registry import OPERATORS
from dmlpy.description.support import SupportRow, row_at
from dmlpy.evidence.facts import facts_about
from dmlpy.evidence.undocumented import undocumented_types
from dmlpy.inspection.operator_records import RECORDS
from dmlpy.inspection.samples import example
from dmlpy.messages.problems import DescError, Problem
from dmlpy.messages.tables import Table
from dmlpy.validation.checking import LATEST, parse_level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.description.member_docs import MemberInfo
    from dmlpy.evidence.facts import Fact
    from dmlpy.evidence.undocumented import TypeEntry
    from dmlpy.inspection.operator_records import UlpBound

_FAMILY_PREFIX = re.compile("^(ACTIVATION_|ELEMENT_WISE_)")
_STRUCT = re.compile("^(?:DML|DMLPY)_(.+)_OPERATOR_DESC$")


@dataclass(frozen=True)
class Explanation:
    """An operator's struct.

    Attributes:
        kind: the class.
        feature_level: the level that `types` and `row` hold for.
        summary: a description of what the operator computes.
        formula: the same as equations; may be empty.
        fields: the members in the struct's order.
        sizes: the symbols in the sizes that follow from others, each with its formula.
        rules: the rules that the operator adds, by the code of their problems.
        rows: the level's support, one row for each condition on attributes; none where the operator is newer than the level.
        example: Python code that describes the operator, and runs it where the NumPy device does.
        bounds: the largest errors of its results in FLOAT32; empty if they are exact, or no bound in units of the last place holds.
        evidence: facts about the operator that released programs show.
        undocumented: the types that Microsoft's page does not list and a released program gives the operator.
    """

    kind: type[OperatorDesc]
    feature_level: FeatureLevel
    summary: str
    formula: str
    fields: tuple[MemberInfo, ...]
    sizes: dict[str, str]
    rules: dict[str, str]
    rows: tuple[SupportRow, ...]
    example: str
    bounds: tuple[UlpBound, ...] = ()
    evidence: tuple[Fact, ...] = ()
    undocumented: tuple[TypeEntry, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it; tables are lists of objects, by their headings."""
        members = [
            {
                "name": field.name or None,
                "c_name": field.c_name,
                "kind": field.kind,
                "required": field.required,
                "values": field.values,
                "types": field.types() if field.support else None,
                "meaning": field.meaning,
            }
            for field in self.fields
        ]
        levels = self.levels()
        return {
            "operator": self.kind.type_name,
            "class": self.kind.__name__,
            "struct": self.kind.c_name,
            "feature_level": str(self.feature_level),
            "summary": self.summary,
            "formula": self.formula,
            "members": members,
            "sizes": self.sizes,
            "rules": self.rules,
            "support": [dict(zip(levels.headings, row, strict=True)) for row in levels.rows],
            "facts": self.facts(),
            "evidence": self.shown(),
            "example": self.example,
        }

    def parts(self) -> Iterator[str | Table]:
        """Everything as people read it: texts and tables."""
        yield self.summary[:1].upper() + self.summary[1:]
        if self.formula:
            yield "\n" + textwrap.indent(self.formula, "    ")
        yield ""
        yield self.members()
        if self.sizes:
            yield "\n".join(["Sizes that follow from others", *(f"  {name}: {text}" for name, text in self.sizes.items()), ""])
        yield self.levels()
        if self.rules:
            yield "\n".join(["Rules beyond sizes and types", *(f"  {text}  [{name}]" for name, text in self.rules.items()), ""])
        yield "\n".join(self.facts())
        if shown := self.shown():
            yield "\n".join(["\nWhat released programs show", *(f"  {line}" for line in shown)])
        if self.example:
            yield "\nExample\n" + textwrap.indent(self.example, "    ").rstrip()

    def __str__(self) -> str:
        return "\n".join(part if isinstance(part, str) else f"{part.to_text()}\n" for part in self.parts())

    def members(self) -> Table:
        """The members as a table."""
        headings = ("field", "C name", "kind", "", "sizes or values", "types", "meaning")
        rows = tuple(
            (
                item.name,
                item.c_name,
                item.kind,
                "required" if item.required else "optional",
                item.values,
                support.show(item.types_at(self.feature_level)),
                item.meaning,
            )
            for item in self.fields
        )
        return Table(f"{self.kind.c_name} ({self.kind.__name__})", headings, rows)

    def levels(self) -> Table:
        """The support by feature level as a table with the rows of the given level marked. Operators that only dmlpy has have no level."""
        if self.kind.is_extension:
            support_rows = tuple((support.show_span(row.dims), *_types(self.kind, row)) for row in self.kind.support)
            return Table("Support", ("dimensions", *_type_headings(self.kind)), support_rows)
        conditional = any(row.when for row in self.kind.support)
        rows = tuple(
            (
                str(row.level) + (" *" if row in self.rows else ""),
                row.level.directml_version,
                *((_when(row),) if conditional else ()),
                _dims(self.kind, row),
                *_types(self.kind, row),
            )
            for row in sorted(self.kind.support, key=lambda row: row.level)
        )
        headings = ("from level", "DirectML", *(("for",) if conditional else ()), "dimensions", *_type_headings(self.kind))
        return Table(f"Support (* holds at feature level {self.feature_level})", headings, rows)

    def facts(self) -> list[str]:
        """Sentences on the operator's origin and what it allows."""
        introduced = self.kind.introduced()
        lines = [f"{self.kind.type_name}, from feature level {introduced} on (DirectML {introduced.directml_version})."]
        if self.kind.is_extension:
            lines = [f"{self.kind.type_name}, dmlpy's own operator: DirectML does not have it, and no feature level limits it."]
        if not self.rows:
            lines.append(f"Feature level {self.feature_level} does not have it.")
        lines.append("An output may use the memory of an input of the same layout." if self.kind.in_place else "It never runs in place.")
        lines.append(
            "Inputs may be flagged OWNED_BY_DML." if self.kind.accepts_owned else "Inputs may not be flagged OWNED_BY_DML; see prepare."
        )
        if self.bounds:
            lines.append(f"The largest error in FLOAT32: {'; '.join(map(str, self.bounds))}.")
        return lines

    def shown(self) -> list[str]:
        """Sentences on what released programs show of the operator beyond Microsoft's page, then on the types that are undocumented."""
        undocumented = [
            f"{entry.span()}: {entry.field} of {entry.listed()} is undocumented. {entry.sentence()}." for entry in self.undocumented
        ]
        return [*(fact.line() for fact in self.evidence), *undocumented]


def explain(operator: str | OperatorDesc | type[OperatorDesc], feature_level: FeatureLevel | str = LATEST) -> Explanation:
    """Explains an operator's struct.

    Args:
        operator: `RNN`, `DML_OPERATOR_RNN`, `DML_RNN_OPERATOR_DESC` or `RNNDesc`, in any case; or a desc or its class.
        feature_level: the level whose types are shown.

    Raises:
        DescError: no such operator (the message gives the nearest name), or no such feature level.
    """
    level = parse_level(feature_level)
    kind = operator if isinstance(operator, type) else find(operator) if isinstance(operator, str) else type(operator)
    if not issubclass(kind, OperatorDesc) or not kind.type_name:
        expected = "an operator's name, its desc, or its class"
        raise DescError("operator", [Problem("operator.unknown", "name", brief(operator), expected, remedy="dmlpy ops lists them")])
    conditions = {tuple(row.when.items()) for row in kind.support}
    of_condition = [[row for row in kind.support if tuple(row.when.items()) == condition] for condition in conditions]
    rows = tuple(row_at(rows, level) for rows in of_condition) if kind.introduced() <= level else ()
    sizes, rules = dict(kind.derived_sizes()), dict(kind.rules())
    name = kind.short_name()
    evidence = () if kind.is_extension else facts_about(name)
    undocumented = () if kind.is_extension else undocumented_types(name)
    bounds = RECORDS[name].bounds if name in RECORDS else ()
    summary, members = kind.description(), kind.members()
    return Explanation(kind, level, summary, kind.formula, members, sizes, rules, rows, example(kind), bounds, evidence, undocumented)


def find(name: str) -> type[OperatorDesc]:
    """The operator's class by any of its names.

    Raises:
        DescError: there is none; the message gives the nearest name.
    """
    if (announced := _announced(name)) is not None:
        return announced
    spelled = name.strip().upper()
    without_family: dict[str, list[type[OperatorDesc]]] = {}
    for kind in OPERATORS.values():
        if spelled in _names(kind):
            return kind
        without_family.setdefault(_FAMILY_PREFIX.sub("", kind.short_name()), []).append(kind)
    candidates = without_family.get(spelled, [])
    if len(candidates) == 1:
        return candidates[0]
    expected = f"one of the {len(OPERATORS)} operators that dmlpy describes"
    remedy = operator_remedy(name, [kind.short_name() for kind in OPERATORS.values()]) or "dmlpy ops lists them"
    with suppress(ValueError):
        remedy = f"dmlpy levels {FeatureLevel.parse(name)} shows what the level adds"
    if re.fullmatch(r"[a-z_]+\.[a-z_0-9]+", name):
        remedy = f"if it is the code of a problem: dmlpy explain {name}"
    raise DescError("operator", [Problem("operator.unknown", "name", brief(name), expected, remedy=remedy)])


def _names(kind: type[OperatorDesc]) -> set[str]:
    """The names of an operator, in capitals."""
    return {spelling.upper() for spelling in (kind.type_name, kind.c_name, kind.__name__, kind.short_name())}


def _announced(name: str) -> type[OperatorDesc] | None:
    """The operator's class by any of its names, if it is dmlpy's: only its family is imported."""
    spelled = name.strip().upper()
    kind = OPERATORS.announced(_STRUCT.sub(r"\1", spelled))
    return kind if kind is not None and spelled in _names(kind) else None


def parse_named_level(name: str) -> FeatureLevel:
    """The level that a user names.

    Raises:
        DescError: there is none; of an operator's name, the message says what shows the operator.
    """
    try:
        return parse_level(name)
    except DescError as error:
        try:
            remedy = f"dmlpy explain {find(name).short_name()} shows the operator, with its levels"
        except DescError:
            raise error from None
        raise DescError(error.subject, [replace(problem, remedy=remedy) for problem in error.problems]) from None


def _variables(kind: type[OperatorDesc]) -> dict[str, list[str]]:
    """The tensors of each type variable. A tensor with a fixed set of types has the same at every level."""
    fields_of: dict[str, list[str]] = {}
    for field in kind.tensor_fields():
        if isinstance(field.marker.types, str):
            fields_of.setdefault(field.marker.types, []).append(field.name)
    return fields_of


def _type_headings(kind: type[OperatorDesc]) -> tuple[str, ...]:
    variables = _variables(kind)
    return ("types",) if len(variables) == 1 else tuple(f"types of {', '.join(names)}" for names in variables.values())


def _types(kind: type[OperatorDesc], row: SupportRow) -> tuple[str, ...]:
    return tuple(support.show(row.types_for(variable)) for variable in _variables(kind))


def _dims(kind: type[OperatorDesc], row: SupportRow) -> str:
    exceptions = "".join(f"; {name} {support.show_span(dims)}" for name, dims in row.dims_of.items() if dims != row.dims)
    return support.show_span(row.dims) + exceptions


def _when(row: SupportRow) -> str:
    return ", ".join(f"{name} {' or '.join(map(str, values))}" for name, values in row.when.items())


def is_code(name: str) -> bool:
    """Returns whether a name is spelled like a code: with a dot, or as an operator's rule. All operators are described for a rule only."""
    return "." in name or (name.islower() and _announced(name) is None and any(name in kind.rules() for kind in OPERATORS.values()))
