"""Finds all problems of a desc in a file at once: of unreadable members, and of the rules on the readable ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import TypeAdapter, ValidationError

from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DmlEnum, FeatureLevel
from dmlpy.description.json_objects import unwrap
from dmlpy.description.registry import operator_class
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, TensorDesc
from dmlpy.description.value_structs import ValueStruct
from dmlpy.dxdispatch.report import Finding
from dmlpy.messages.naming import c_member, c_path, nearest
from dmlpy.messages.problems import DescError, Problem, only_errors, only_undocumented
from dmlpy.validation.checking import LATEST, check

if TYPE_CHECKING:
    from dmlpy.messages.tables import Table

_ROUNDS = MAX_DIMENSION_COUNT
"""The rounds of placeholders: an integer may be any axis."""


@dataclass(frozen=True)
class DescCheck:
    """A desc in JSON data, as far as it can be read.

    Attributes:
        kind: the operator's class; None if the type is unknown.
        desc: the desc; None if it cannot be built.
        problems: everything that is wrong with it, in the order of the struct's members.
        table: the members that were read, with the broken ones marked.
        undocumented: types that the page does not list and a released program uses, in the same order.
    """

    kind: type[OperatorDesc] | None
    desc: OperatorDesc | None
    problems: tuple[Problem, ...]
    table: Table | None
    undocumented: tuple[Problem, ...] = ()

    def finding(self, place: str) -> Finding:
        """The problems as part of a file's report."""
        return Finding(place, self.problems, self.kind.c_name if self.kind else None, self.table)

    def undocumented_findings(self, place: str) -> list[Finding]:
        """The undocumented types as part of a file's report, if there are any."""
        return [Finding(place, self.undocumented, self.kind.c_name, severity="undocumented")] if self.undocumented and self.kind else []


def check_desc(data: Mapping[str, Any], feature_level: FeatureLevel = LATEST, *, strict: bool = False) -> DescCheck:
    """Reads a desc, nested or flat, and checks it.

    Args:
        data: JSON data with `Type`.
        feature_level: a cap, as for `dmlpy.check`.
        strict: as for `dmlpy.check`.
    """
    kind: type[OperatorDesc] | None = None
    try:
        members = unwrap(data)
        if "Type" in members:
            kind = operator_class(members.pop("Type"))
        desc = OperatorDesc.from_dict(data)
    except DescError as error:
        if kind is None:
            return DescCheck(None, None, error.problems, None)
        return _check_in_parts(kind, members, error.problems, feature_level, strict)
    all_problems = check(desc, feature_level, strict=strict)
    problems = tuple(only_errors(all_problems))
    return DescCheck(type(desc), desc, problems, _table(desc, problems), tuple(only_undocumented(all_problems)))


def _check_in_parts(
    kind: type[OperatorDesc], members: Mapping[str, Any], problems: Sequence[Problem], level: FeatureLevel, strict: bool
) -> DescCheck:
    """The rules' problems of a desc with unreadable members.

    Several placeholder values replace an unreadable member in turn. A problem counts if it occurs with all of them: then the placeholder
    is not its cause. A misspelt member is read as the most similar one.
    """
    named = {name: value for spelling, value in members.items() if (name := kind.member_named(spelling)) is not None}
    for problem in problems:
        misspelt = problem.code == "field.unknown" and problem.path in members and kind.unused_remedy(problem.path) is None
        if misspelt and (name := nearest(problem.path, kind.model_fields)):
            named.setdefault(name, members[problem.path])
    read, unreadable = _read_members(kind, named)
    for problem in problems:
        name = kind.member_named(problem.field)
        if name is not None and name not in read and name not in unreadable:
            unreadable.append(name)  # missing

    first = kind.model_construct(**dict.fromkeys(kind.model_fields) | read | _placeholders(kind, unreadable, 0))
    counted = _find_problems(first, level, strict)
    for number in range(1, _ROUNDS if unreadable else 1):
        other = {name: _infer_output(first, name) for name in kind.model_fields if name in unreadable}
        stand_in = {name: value for name, value in other.items() if value is not None} | _placeholders(kind, unreadable, number)
        seen = {
            (problem.code, problem.path, problem.found, problem.expected)
            for problem in _find_problems(kind.model_construct(**dict.fromkeys(kind.model_fields) | read | stand_in), level, strict)
        }
        counted = [problem for problem in counted if (problem.code, problem.path, problem.found, problem.expected) in seen]

    places = [problem.path for problem in problems]
    counted = [problem for problem in counted if problem.path not in places and problem.field not in unreadable]
    order = {name: index for index, name in enumerate(kind.model_fields)}
    merged = sorted([*problems, *counted], key=lambda problem: order.get(kind.member_named(problem.field) or "", -1))
    words = {name: "cannot be read" if name in named else "missing" for name in unreadable}
    return DescCheck(kind, None, tuple(merged), _table(first, merged, words))


def _find_problems(desc: OperatorDesc, level: FeatureLevel, strict: bool) -> list[Problem]:
    """The rules' problems of a desc that lacks members; if a rule cannot be evaluated, only those of the tensors."""
    try:
        return only_errors(check(desc, level, strict=strict))
    except Exception:  # a rule may read any member that a desc always has
        return [
            problem.under(slot.place)
            for slot in desc.slots()
            if slot.tensor is not None
            for problem in slot.tensor.problems(output=slot.field.marker.output, strict=strict)
        ]


def _read_members(kind: type[OperatorDesc], named: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    tensors = {field.name: field.listed for field in kind.tensor_fields()}
    read: dict[str, Any] = {}
    unreadable: list[str] = []
    for name, value in named.items():
        try:
            if tensors.get(name) and value is not None:
                read[name] = tuple(_read_tensor(item) for item in _as_list(value))
            elif name in tensors:
                read[name] = None if value is None else _read_tensor(value)
            else:
                info = kind.model_fields[name]
                read[name] = TypeAdapter(_annotate(info.annotation, info.metadata)).validate_python(value)
        except (DescError, ValidationError):
            unreadable.append(name)
    return read, unreadable


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise DescError("tensors", [Problem("field.form", "", brief(value), "a sequence of TensorDesc")])
    return value


def _annotate(annotation: Any, metadata: Iterable[Any]) -> Any:
    return Annotated[annotation, *metadata] if metadata else annotation


def _read_tensor(value: Any) -> TensorDesc:
    """The tensor without its unreadable members; its sizes alone are worth checking, so a type may be unknown."""
    try:
        return TensorDesc.from_dict(value)
    except DescError as error:
        if not isinstance(value, Mapping):
            raise
        members = unwrap(value)
        for problem in error.problems:
            for spelling in (problem.field, c_member(problem.field)):
                members.pop(spelling, None)
        if not members.keys() & {"DataType", "data_type"}:
            members["DataType"] = "UNKNOWN"
        return TensorDesc.from_dict(members)


def _placeholders(kind: type[OperatorDesc], unreadable: Iterable[str], number: int) -> dict[str, Any]:
    """The values that replace unreadable attributes in one round."""
    placeholders: dict[str, Any] = {}
    for name in unreadable:
        if name in kind.attribute_names():
            annotation = kind.model_fields[name].annotation
            values: Sequence[Any] = ((),)
            if NoneType in get_args(annotation):
                values = (None,)
            elif isinstance(annotation, type) and issubclass(annotation, DmlEnum):
                values = tuple(annotation)
            elif annotation is bool:
                values = (False, True)
            elif annotation is int:
                values = range(_ROUNDS)
            elif annotation is float or float in get_args(annotation):
                values = (0.0, 1.0)
            elif isinstance(annotation, type) and issubclass(annotation, ValueStruct):
                values = tuple(annotation(**dict.fromkeys(annotation.model_fields, number)) for number in (0, 1))
            placeholders[name] = values[number % len(values)]
    return placeholders


def _infer_output(desc: OperatorDesc, name: str) -> TensorDesc | None:
    """A tensor that agrees with all others in sizes and type, if they determine it."""
    field = next((field for field in desc.tensor_fields() if field.name == name and not field.listed), None)
    try:
        sizes = None if field is None else desc.sizes().infer(desc.terms(field))
    except Exception:  # as in `_find_problems`
        return None
    types = [tensor.data_type for tensor in desc.tensors().values()]
    return TensorDesc(data_type=max(types, key=types.count), sizes=sizes) if sizes and types else None


def _table(desc: OperatorDesc, problems: Sequence[Problem], unreadable: Mapping[str, str] = MappingProxyType({})) -> Table:
    named = [replace(problem, path=type(desc).member_named(problem.field) or problem.path) for problem in problems]
    table = desc.table(named)
    rows = []
    for row in table.rows:
        cells = (row[1], "", unreadable[row[0]], *[""] * (len(row) - 4)) if row[0] in unreadable else row[1:]
        rows.append((c_path(row[0]), *cells))
    return replace(table, rows=tuple(rows))
