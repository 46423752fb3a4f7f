"""`explain`: an operator's struct as data for people: its members, what they may hold, its rules and its support."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from dmlpy import support
from dmlpy.checking import LATEST, parse_level
from dmlpy.descs import FusableDesc, OperatorDesc, show_attribute
from dmlpy.enums import DmlEnum, FeatureLevel
from dmlpy.markers import AttributeField
from dmlpy.naming import c_member, did_you_mean
from dmlpy.problems import DescError, Problem
from dmlpy.registry import OPERATORS
from dmlpy.render import Table
from dmlpy.samples import example
from dmlpy.sizes import show
from dmlpy.structs import brief
from dmlpy.support import Since, row_at
from dmlpy.values import ValueStruct

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_FAMILY_PREFIX = re.compile("^(ACTIVATION_|ELEMENT_WISE_)")


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
        rows: what the level supports, one row for each condition on attributes; none where the operator is newer than the level.
        example: Python code that describes the operator, and runs it where the NumPy device does.
    """

    kind: type[OperatorDesc]
    feature_level: FeatureLevel
    summary: str
    formula: str
    fields: tuple[FieldExplanation, ...]
    sizes: dict[str, str]
    rules: dict[str, str]
    rows: tuple[Since, ...]
    example: str

    def members(self) -> Table:
        """The members as a table."""
        headings = ("field", "C name", "kind", "", "sizes or values", "types", "meaning")
        rows = tuple(
            (item.name, item.c_name, item.kind, "required" if item.required else "optional", item.form, item.types, item.text)
            for item in self.fields
        )
        return Table(f"{self.kind.c_name} ({self.kind.__name__})", headings, rows)

    def levels(self) -> Table:
        """The support by feature level as a table; rows that hold at the asked level are named. dmlpy's own operators have no levels."""
        if self.kind.own:
            own = tuple((support.show_span(row.dims), *_types(self.kind, row)) for row in self.kind.support)
            return Table("Support", ("dimensions", *_type_headings(self.kind)), own)
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
        """Sentences: where the operator comes from and what it allows."""
        introduced = self.kind.introduced()
        lines = [f"{self.kind.type_name}, from feature level {introduced} on (DirectML {introduced.directml_version})."]
        if self.kind.own:
            lines = [f"{self.kind.type_name}, dmlpy's own operator: DirectML does not have it, and no feature level limits it."]
        if not self.rows:
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
    conditions = {tuple(row.when.items()) for row in kind.support}
    of_condition = [[row for row in kind.support if tuple(row.when.items()) == condition] for condition in conditions]
    rows = tuple(row_at(rows, level) for rows in of_condition) if kind.introduced() <= level else ()
    summary, texts = kind.documentation()
    fields = tuple(_fields(kind, rows or tuple(row_at(rows, kind.introduced()) for rows in of_condition), texts))
    return Explanation(kind, level, summary, kind.formula, fields, dict(kind.derived_sizes()), dict(kind.rules()), rows, example(kind))


def find(name: str) -> type[OperatorDesc]:
    """The operator's class of any of its names.

    Raises:
        DescError: there is none; the nearest name is told.
    """
    given = name.strip().upper()
    names: dict[str, type[OperatorDesc]] = {}
    without_family: dict[str, list[type[OperatorDesc]]] = {}
    for type_name, kind in OPERATORS.items():
        names |= {spelling.upper(): kind for spelling in (type_name, kind.c_name, kind.__name__, kind.short_name())}
        without_family.setdefault(_FAMILY_PREFIX.sub("", kind.short_name()), []).append(kind)
    if (found := names.get(given)) is not None:
        return found
    candidates = without_family.get(given, [])
    if len(candidates) == 1:
        return candidates[0]
    expected = f"one of the {len(OPERATORS)} operators that dmlpy describes"
    close = did_you_mean(name, [kind.short_name() for kind in OPERATORS.values()])
    remedy = " or ".join(kind.short_name() for kind in candidates) or close or "dmlpy ops lists them"
    raise DescError("operator", [Problem("operator.unknown", "name", brief(name), expected, remedy=remedy)])


def _fields(kind: type[OperatorDesc], rows: tuple[Since, ...], texts: dict[str, str]) -> Iterator[FieldExplanation]:
    tensors = {field.name: field for field in kind.tensor_fields()}
    attributes = {field.name: field for field in kind.attribute_fields()}
    counts = kind.counts_before()
    for name, info in kind.model_fields.items():
        if name in counts:
            yield FieldExplanation("", counts[name], "count", False, f"length of {c_member(name)}", "", "in C; not needed in JSON")
        text = texts.get(name, "")
        if name in tensors:
            field = tensors[name]
            types = frozenset(item for row in rows for item in row.types_for(field.marker.types))
            side = "output" if field.marker.output else "input"
            note = "null inside another struct" if field.marker.null_when_fused else ""
            form = show(field.marker.terms) + (" each" if field.listed else "")
            yield FieldExplanation(name, c_member(name), side, not field.optional, form, support.show(types), text or note)
        else:
            form = "; ".join(filter(None, (_form(kind, info.annotation, attributes[name]), attributes[name].limits.text())))
            required = type(None) not in get_args(info.annotation)
            meaning = " ".join(filter(None, (text, _default(info, text))))
            yield FieldExplanation(name, c_member(name), "attribute", required, form, "", meaning)


def _form(kind: type[OperatorDesc], annotation: Any, attribute: AttributeField) -> str:
    if isinstance(annotation, type) and issubclass(annotation, DmlEnum):
        return " | ".join(annotation.spellings())
    plain = {bool: "true | false", float: "a number", int: "an integer" if attribute.signed else "an integer from 0"}
    if annotation in plain:
        return plain[annotation]
    if get_origin(annotation) is tuple:
        roles = getattr(kind, "activation_roles", ())
        if roles:
            return f"activations: {', '.join(roles)} of each direction"
        inner = get_args(annotation)[0]
        return "numbers" if inner is float else "integers" if attribute.signed else "integers from 0"
    if attribute.name in kind.scalars:
        return f"a number of the type that {kind.scalars[attribute.name]} tells"
    kinds = [item for item in (annotation, *get_args(annotation)) if isinstance(item, type)]
    if any(issubclass(item, FusableDesc) for item in kinds):
        return "an activation"
    for item in kinds:
        if issubclass(item, ValueStruct):
            return f"{{{', '.join(item.model_fields)}}}"
    return " | ".join(getattr(item, "__name__", str(item)) for item in get_args(annotation) or (annotation,))


def _default(info: FieldInfo, text: str) -> str:
    """The default that Python has and the C struct has not, unless the text tells it."""
    if info.is_required() or info.default is None:
        return ""
    value = f"{info.default:g}" if isinstance(info.default, float) else show_attribute(info.default)
    told = "in Python" in text or "if left out" in text
    return "" if told else f"{value} in Python if left out."


def _variables(kind: type[OperatorDesc]) -> dict[str, list[str]]:
    """The tensors of each type variable. A tensor with types of its own has the same at every level."""
    found: dict[str, list[str]] = {}
    for field in kind.tensor_fields():
        if isinstance(field.marker.types, str):
            found.setdefault(field.marker.types, []).append(field.name)
    return found


def _type_headings(kind: type[OperatorDesc]) -> tuple[str, ...]:
    variables = _variables(kind)
    return ("types",) if len(variables) == 1 else tuple(f"types of {', '.join(names)}" for names in variables.values())


def _types(kind: type[OperatorDesc], row: Since) -> tuple[str, ...]:
    return tuple(support.show(row.types_for(variable)) for variable in _variables(kind))


def _dims(kind: type[OperatorDesc], row: Since) -> str:
    own = "".join(f"; {name} {support.show_span(dims)}" for name, dims in row.dims_of.items() if dims != row.dims)
    return support.show_span(row.dims) + own


def _when(row: Since) -> str:
    return ", ".join(f"{name} {' or '.join(map(str, values))}" for name, values in row.when.items())
