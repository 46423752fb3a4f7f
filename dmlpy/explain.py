"""`explain`: an operator's struct as data for people: its members, what they may hold, its rules and its support."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from dmlpy import support
from dmlpy.checking import LATEST, parse_level
from dmlpy.descs import OPERATORS, OperatorDesc
from dmlpy.enums import DmlEnum, FeatureLevel
from dmlpy.naming import c_member, did_you_mean
from dmlpy.operators.activation import ActivationDesc
from dmlpy.problems import DescError, Problem
from dmlpy.render import Table
from dmlpy.sizes import show
from dmlpy.structs import brief
from dmlpy.support import Since, row_at


@dataclass(frozen=True)
class FieldExplanation:
    """One member of a struct.

    Attributes:
        name: its name in Python; empty for a count, which exists in C and JSON only.
        c_name: its name in directml.h.
        kind: `input`, `output`, `attribute` or `count`.
        required: whether the struct must have it.
        form: the tensor's sizes, or what an attribute may be.
        types: the element types at the asked feature level; empty for attributes.
        text: what it is for.
    """

    name: str
    c_name: str
    kind: str
    required: bool
    form: str
    types: str
    text: str


@dataclass(frozen=True)
class Explanation:
    """An operator's struct.

    Attributes:
        kind: the class.
        feature_level: the level that `types` and `row` hold for.
        summary: what the operator computes, in words.
        formula: the same as equations; may be empty.
        fields: the members in the struct's order.
        sizes: the symbols in the sizes that follow from others, each with its formula.
        rules: the operator's own rules, by the code of their problems.
        row: what the level supports; None where the operator is newer than the level.
    """

    kind: type[OperatorDesc]
    feature_level: FeatureLevel
    summary: str
    formula: str
    fields: tuple[FieldExplanation, ...]
    sizes: dict[str, str]
    rules: dict[str, str]
    row: Since | None

    def members(self) -> Table:
        """The members as a table."""
        headings = ("field", "C name", "kind", "", "sizes or values", "types", "meaning")
        rows = tuple(
            (item.name, item.c_name, item.kind, "required" if item.required else "optional", item.form, item.types, item.text)
            for item in self.fields
        )
        return Table(f"{self.kind.c_name} ({self.kind.__name__})", headings, rows)

    def levels(self) -> Table:
        """The support by feature level as a table; the row that holds at the asked level is named. dmlpy's own operators have no levels."""
        if self.kind.own:
            own = tuple((_span(row), _types(row)) for row in self.kind.support)
            return Table("Support", ("dimensions", "types"), own)
        rows = tuple(
            (
                str(row.level) + (" *" if row is self.row else ""),
                row.level.directml_version,
                _span(row),
                _types(row),
            )
            for row in sorted(self.kind.support, key=lambda row: row.level)
        )
        return Table(f"Support (* holds at feature level {self.feature_level})", ("from level", "DirectML", "dimensions", "types"), rows)

    def facts(self) -> list[str]:
        """Sentences: where the operator comes from and what it allows."""
        introduced = self.kind.introduced()
        lines = [f"{self.kind.type_name}, from feature level {introduced} on (DirectML {introduced.directml_version})."]
        if self.kind.own:
            lines = [f"{self.kind.type_name}, dmlpy's own operator: DirectML does not have it, and no feature level limits it."]
        if self.row is None:
            lines.append(f"Feature level {self.feature_level} does not have it.")
        lines.append("An output may use the memory of an input of the same layout." if self.kind.in_place else "It never runs in place.")
        lines.append(
            "Inputs may be flagged OWNED_BY_DML." if self.kind.accepts_owned else "Inputs may not be flagged OWNED_BY_DML; see prepare."
        )
        return lines


def explain(name: str, feature_level: FeatureLevel | str = LATEST) -> Explanation:
    """All that is known about an operator's struct.

    Args:
        name: `RNN`, `DML_OPERATOR_RNN`, `DML_RNN_OPERATOR_DESC` or `RNNDesc`, in any case.
        feature_level: the level whose types are shown.

    Raises:
        DescError: no such operator (the nearest name is told), or no such feature level.
    """
    level = parse_level(feature_level)
    kind = find(name)
    row = row_at(kind.support, level) if kind.introduced() <= level else None
    summary, texts = kind.documentation()
    fields = tuple(_fields(kind, row or row_at(kind.support, kind.introduced()), texts))
    return Explanation(kind, level, summary, kind.formula, fields, dict(kind.derived_sizes()), dict(kind.rules()), row)


def find(name: str) -> type[OperatorDesc]:
    """The operator's class of any of its names.

    Raises:
        DescError: there is none; the nearest name is told.
    """
    names: dict[str, type[OperatorDesc]] = {}
    for type_name, kind in OPERATORS.items():
        names |= {spelling.upper(): kind for spelling in (type_name, kind.c_name, kind.__name__, kind.short_name())}
    if (found := names.get(name.strip().upper())) is not None:
        return found
    expected = f"an operator that dmlpy describes ({len(OPERATORS)} so far)"
    close = did_you_mean(name, [kind.short_name() for kind in OPERATORS.values()])
    remedy = close or "dmlpy explain, without a name, lists them"
    problem = Problem("operator.unknown", "name", brief(name), expected, remedy=remedy)
    raise DescError("operator", [problem])


def _fields(kind: type[OperatorDesc], row: Since, texts: dict[str, str]) -> Iterator[FieldExplanation]:
    tensors = {field.name: field for field in kind.tensor_fields()}
    counts = {counted: spelling for spelling, counted in kind.c_counts.items()}
    for name, info in kind.model_fields.items():
        if name in counts:
            yield FieldExplanation("", counts[name], "count", False, f"length of {c_member(name)}", "", "in C; not needed in JSON")
        text = texts.get(name, "")
        if name in tensors:
            field = tensors[name]
            types = field.marker.types
            shown = support.show(row.types[types] if isinstance(types, str) else types)
            side = "output" if field.marker.output else "input"
            note = "null inside another struct" if field.marker.null_when_fused else ""
            yield FieldExplanation(name, c_member(name), side, not field.optional, show(field.marker.terms), shown, text or note)
        else:
            form = _form(kind, info.annotation)
            required = type(None) not in get_args(info.annotation)
            yield FieldExplanation(name, c_member(name), "attribute", required, form, "", text or _default(info.default))


def _form(kind: type[OperatorDesc], annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, DmlEnum):
        return " | ".join(annotation.spellings())
    if annotation is bool:
        return "true | false"
    if annotation is float:
        return "a number"
    if annotation is int:
        return "an integer"
    if get_origin(annotation) is tuple:
        roles = getattr(kind, "activation_roles", ())
        return f"activations: {', '.join(roles)} of each direction" if roles else "integers"
    if ActivationDesc in get_args(annotation):
        return "an activation"
    names = [getattr(item, "__name__", str(item)) for item in get_args(annotation) or (annotation,)]
    return " | ".join(names)


def _default(value: Any) -> str:
    return f"{value:g} in Python if left out" if isinstance(value, float) else ""


def _types(row: Since) -> str:
    return "; ".join(f"{variable}: {support.show(types)}" for variable, types in row.types.items())


def _span(row: Since) -> str:
    least, most = row.dims
    return str(least) if least == most else f"{least} to {most}"
