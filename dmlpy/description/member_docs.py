"""The documentation of a struct's members, in one form for `help`, `dmlpy explain`, the schemas and the site.

A member's meaning is the text beneath its field in the class that declares it; a class that inherits the field inherits the text. Sizes,
types, limits and defaults are read from the field's markers, so no text repeats them.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin

from dmlpy.description.enums import DataType, DmlEnum, FeatureLevel
from dmlpy.description.support import TypeSet, show
from dmlpy.messages.naming import c_member

WIDTH = 110
"""The width in columns of the text that `help` shows."""


class TypesSince(NamedTuple):
    """The element types of a tensor from a feature level on, until a later entry with the same `when`.

    Attributes:
        level: the feature level; None for operators that only dmlpy has, which no level limits.
        when: the attribute values for which the types hold, by attribute; empty if they hold for all.
        dims: least and most dimensions.
        types: the element types.
    """

    level: FeatureLevel | None
    when: Mapping[str, tuple[Any, ...]]
    dims: tuple[int, int]
    types: TypeSet

    @property
    def condition(self) -> str:
        """The attribute values in words: `function ARGMAX or ARGMIN`."""
        return ", ".join(f"{name} {' or '.join(map(str, values))}" for name, values in self.when.items())


class MemberInfo(NamedTuple):
    """A member of a struct, or a count that the C struct has in addition to its members.

    Attributes:
        name: its name in Python; empty for a count, which exists in C and JSON only.
        c_name: its name in directml.h.
        kind: `input`, `output`, `attribute` or `count`.
        required: whether the C struct must have it.
        form: a tensor's sizes, or the values that an attribute may have.
        limits: which of these values are allowed, in words; may be empty.
        default: the value that Python fills in where the C struct has no default; empty if there is none.
        text: the meaning of the member.
        note: the markers' conditions other than sizes and types; may be empty.
        annotation: the type that the constructor accepts, as Python writes it.
        support: a tensor's element types by feature level; empty for other members.
    """

    name: str
    c_name: str
    kind: str
    required: bool
    form: str
    text: str
    limits: str = ""
    default: str = ""
    note: str = ""
    annotation: str = ""
    support: tuple[TypesSince, ...] = ()

    @property
    def meaning(self) -> str:
        """The member's text followed by the default and the note, as sentences."""
        default = f"{self.default} in Python if left out." if self.default else ""
        return " ".join(filter(None, (self.text, default, self.note)))

    @property
    def values(self) -> str:
        """The form and the limits of the values."""
        return "; ".join(filter(None, (self.form, self.limits)))

    def types_at(self, level: FeatureLevel) -> TypeSet:
        """The element types at a feature level, over all attribute values; a level below the first one counts as the first."""
        types: set[DataType] = set()
        for rows in self._by_condition().values():
            applicable = [row for row in rows if row.level is None or row.level <= level] or rows[:1]
            types |= applicable[-1].types
        return frozenset(types)

    def types(self) -> str:
        """The element types by feature level: `FLOAT32 or FLOAT16; from 5_1 on also INT32`."""
        by_condition: dict[str, list[str]] = {}
        for condition, rows in self._by_condition().items():
            by_condition.setdefault("; ".join(_changes(rows)), []).append(condition)
        if len(by_condition) == 1:
            return next(iter(by_condition))
        return ". ".join(f"With {' or '.join(conditions)}: {text}" for text, conditions in by_condition.items())

    def _by_condition(self) -> dict[str, list[TypesSince]]:
        rows: dict[str, list[TypesSince]] = {}
        for row in self.support:
            rows.setdefault(row.condition, []).append(row)
        return rows


def _changes(rows: Iterable[TypesSince]) -> Iterator[str]:
    known: TypeSet = frozenset()
    for row in rows:
        if row.types == known:
            continue
        if not known:
            yield show(row.types)
        elif known < row.types:
            yield f"from {row.level} on also {show(row.types - known)}"
        else:
            yield f"from {row.level} on {show(row.types)}"
        known = row.types


def texts(kind: type[Any]) -> dict[str, str]:
    """The text of each field, declared or inherited; empty for a class without source code."""
    by_name: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        by_name |= declared_texts(base)
    return by_name


def declared_texts(kind: type[Any]) -> Mapping[str, str]:
    """The texts beneath the fields that the class itself declares."""
    return _texts_of(kind.__module__).get(kind.__qualname__, {})


@cache
def _texts_of(module: str) -> Mapping[str, Mapping[str, str]]:
    """The texts of all classes of a module, by qualified name. The source is read on first use, so imports do not wait for it."""
    if module == "builtins" or module.startswith(("pydantic.", "typing", "abc")):
        return {}
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return {}
    return dict(_classes(tree, ""))


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, dict(_field_texts(child.body))
            yield from _classes(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(child, f"{prefix}{child.name}.<locals>.")
        elif not isinstance(child, ast.expr):  # which holds no class: nine of ten nodes are in expressions
            yield from _classes(child, prefix)


def _field_texts(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                yield field.target.id, " ".join(text.split())


def count(name: str, counted: str) -> MemberInfo:
    """The count that precedes a member in C and JSON."""
    return MemberInfo("", name, "count", True, f"length of {c_member(counted)}", "in C; not needed in JSON")


def accepted_type(annotation: Any) -> str:
    """The type that the constructor accepts for a field, from its annotation."""
    if annotation is NoneType or annotation is None:
        return "None"
    if get_origin(annotation) is tuple:
        return f"Sequence[{accepted_type(get_args(annotation)[0])}]"
    if isinstance(annotation, UnionType) or get_origin(annotation) is not None:
        return " | ".join(dict.fromkeys(accepted_type(item) for item in get_args(annotation) if not _is_mark(item)))
    if isinstance(annotation, type) and issubclass(annotation, DmlEnum):
        return f"{annotation.__name__} | str"
    return getattr(annotation, "__name__", str(annotation))


def _is_mark(item: Any) -> bool:
    """Returns whether an argument of an annotation is a mark and not a type."""
    return not isinstance(item, type | UnionType | NoneType) and get_origin(item) is None


def form_of(annotation: Any, *, signed: bool = False) -> str:
    """The values that an attribute may have, from its annotation."""
    if isinstance(annotation, type) and issubclass(annotation, DmlEnum):
        return " | ".join(annotation.spellings())
    plain = {bool: "true | false", float: "a number", int: "an integer" if signed else "an integer from 0", str: "a text", bytes: "bytes"}
    if annotation in plain:
        return plain[annotation]
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)[0]
        known = {float: "numbers", int: "integers" if signed else "integers from 0", str: "texts"}
        return known.get(inner) or f"an array of {accepted_type(inner)}"
    given = [item for item in get_args(annotation) if item is not NoneType and not _is_mark(item)] or [annotation]
    if len(given) == 1 and given[0] is not annotation:
        return form_of(given[0], signed=signed)
    if hasattr(annotation, "model_fields"):
        return f"{{{', '.join(annotation.model_fields)}}}"
    return " | ".join(getattr(item, "__name__", str(item)) for item in given)


def page(description: str, formula: str, members: Iterable[MemberInfo], sizes: Mapping[str, str]) -> str:
    """A struct's documentation as `help` shows it.

    Args:
        description: the purpose of the struct.
        formula: the same as equations; may be empty.
        members: its members; counts are left out.
        sizes: the symbols that follow from others, each with its formula.
    """
    parts = [description, textwrap.indent(formula, "    ")] if formula else [description]
    described = [line for member in members if member.name for line in _lines(member)]
    parts += ["\n".join(["Members:", *described])] if described else []
    parts += ["\n".join(["Sizes that follow from others:", *(f"    {name}: {text}" for name, text in sizes.items())])] if sizes else []
    return "\n\n".join(parts)


def _lines(member: MemberInfo) -> Iterator[str]:
    head = f"{member.name}: {member.kind}, {'' if member.required else 'optional, '}{member.values}"
    types = member.types()
    yield from textwrap.wrap(f"{head}, {types}" if types else head, WIDTH, initial_indent="    ", subsequent_indent="            ")
    yield from textwrap.wrap(member.meaning, WIDTH, initial_indent="        ", subsequent_indent="        ")
