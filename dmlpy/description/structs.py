"""The base of every struct that mirrors directml.h.

A `Struct` is a frozen pydantic model. Its constructor accepts both spellings of every member and refuses, with `DescError`, what the C
struct could not hold: unknown or missing members, a text where a number belongs. Rules on values live elsewhere (`dmlpy.check`).
"""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from dmlpy.description import member_docs
from dmlpy.description.coercion import (
    After,
    Signed,
    as_uint,
    brief,
    unreadable,
)
from dmlpy.description.enums import DmlEnum
from dmlpy.description.foreign_names import member_remedy
from dmlpy.description.form_problems import struct_problems
from dmlpy.description.json_objects import MAX_MEMBERS
from dmlpy.description.member_docs import MemberInfo
from dmlpy.description.plain_values import Test, plain_test
from dmlpy.messages.foreign_members import RUNNING
from dmlpy.messages.naming import c_member, did_you_mean, is_c_style, listed, plural
from dmlpy.messages.problems import MAX_REPORTED, DescError, Problem, and_more
from dmlpy.system import forks

if TYPE_CHECKING:
    # Type checkers infer the constructor's arguments from the fields of classes with exactly this metaclass.
    from pydantic._internal._model_construction import ModelMetaclass as StructType
else:

    class StructType(type(BaseModel)):
        """The metaclass of the structs: `inspect.signature` of a struct shows its members."""

        @property
        def __signature__(self) -> inspect.Signature:
            """The members as keywords, with the types that the constructor accepts."""
            parameters = []
            for name, info in self.model_fields.items():
                given = inspect.Parameter.empty if info.is_required() else info.default
                annotation = member_docs.accepted_type(info.annotation)
                parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=given, annotation=annotation))
            return inspect.Signature(parameters)

        @__signature__.setter
        def __signature__(self, value: Any) -> None:
            """Ignores the signature that pydantic sets when it builds a class, which shows the markers in place of types."""


_BUILDING = forks.reentrant_lock(awaited=True)  # pydantic has a lock of its own
_COMPLETE: set[type[Struct]] = set()
"""The classes whose validators are built, and tried."""
_TRIED: set[str] = set()
"""The forms of members that pydantic has read under that lock: what it makes on the first use of a form, it makes under native locks, which
would be held in a forked process for ever."""
_OF_EACH_FORM: tuple[Any, ...] = (None, 0, 1.5, "", (0,))


def _forms_of(schema: Any) -> set[str]:
    """The kinds of validators in one of pydantic's schemas; none if it has other structs in it, which may be nested without end."""
    forms, left = set[str](), [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            form = part.get("type")
            if form == "model" and form in forms:
                return set()
            forms.add(str(form))
            part = part.values()
        left += [value for value in part if isinstance(value, dict | list | tuple)]
    return forms


class _Documentation:
    """The `__doc__` of a struct's class: its docstring and its members, assembled on first use."""

    def __init__(self, docstring: str) -> None:
        self.docstring = docstring

    def __get__(self, instance: object, owner: type[Struct]) -> str:
        return owner.documentation()


class UnknownMemberError(AttributeError):
    """A member that a struct does not have. Code that probes for members raises many: the message is made when it is read.

    Args:
        struct: the struct's class.
        name: the name.
    """

    def __init__(self, struct: type[Struct], name: str) -> None:
        super().__init__(struct, name)

    def __str__(self) -> str:
        struct, name = self.args
        members = [c_member(member) if name[:1].isupper() else member for member in struct.model_fields]
        public = [other for other in vars(struct) if not other.startswith("_") and other not in members]
        remedy = f"it is a function: dmlpy.{name}(...)" if name in struct.functions else None
        if name in RUNNING and "compile" in struct.functions:
            remedy = "compile it first: dmlpy.compile(..., device)"
        if name in ("ndim", "rank", "dim") and "sizes" in members:
            remedy = "len(tensor.sizes)"
        if name == "gradient" and "compile" in struct.functions:
            remedy = _gradient_remedy(struct.__name__.removesuffix("Desc"))
        remedy = remedy or member_remedy(name, members) or did_you_mean(name, members) or did_you_mean(name, public)
        return f"{struct.__name__!r} object has no attribute {name!r}: {remedy or f'it has {listed(members)}'}"


def _gradient_remedy(operator: str) -> str | None:
    """The desc of the gradient of an operator whose own desc has no `gradient()`."""
    from dmlpy.description.registry import OPERATORS  # its classes are structs

    training, gradient = (OPERATORS.announced(operator + suffix) for suffix in ("Training", "Grad"))
    if training is not None:
        return f"describe the operator by {training.__name__}, which has it"
    return None if gradient is None else f"{gradient.__name__} describes it"


class Struct(BaseModel, metaclass=StructType):
    """A struct of directml.h: frozen, hashable, comparable, picklable; JSON in the C spelling."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    c_name: ClassVar[str] = ""
    """The struct's name in directml.h."""

    c_counts: ClassVar[Mapping[str, str | tuple[str, ...]]] = {}
    """Members of the C struct that hold only a length, with the member or members counted. They exist in JSON, not in Python."""

    functions: ClassVar[tuple[str, ...]] = ()
    """Functions of `dmlpy` that take such a struct, which users may take for its methods."""

    unused: ClassVar[Mapping[str, str]] = {}
    """Names that users may take for members, each with the reason why it is not one."""

    _sample: ClassVar[Mapping[str, Any]] = {}
    """Valid members, with which pydantic's validator is tried before threads share it."""

    numbers: ClassVar[tuple[str, ...]] = ()
    """Cached properties that follow from the sizes: copies for other sizes get theirs without solving the size patterns again."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        cls._place_members()
        cls._settle_annotations()
        type.__setattr__(cls, "__doc__", _Documentation(vars(cls).get("__doc__") or ""))

    @classmethod
    def _place_members(cls) -> None:
        """Puts the members in the order of the C struct: see `After`."""
        order: list[str] = []
        for base in reversed(cls.__mro__):
            declared = vars(base).get("__pydantic_fields__", {})
            before: str | None = None
            for name in base.__annotations__ if declared else ():
                if name not in declared:
                    continue  # a class variable
                mark = next((mark.name for mark in declared[name].metadata if isinstance(mark, After)), None)
                anchor = mark if mark is not None or name in order else before
                if anchor == "" or anchor in order:
                    order = [other for other in order if other != name]
                    order.insert(order.index(anchor) + 1 if anchor else 0, name)
                elif name not in order:
                    order.append(name)
                before = name
        fields = cls.model_fields
        if order != list(fields):
            placed = {name: fields[name] for name in order}
            fields.clear()
            fields.update(placed)

    @classmethod
    def _settle_annotations(cls) -> None:
        """Removes the annotations of class variables, whose names pydantic has taken down.

        Pydantic goes through the annotations of all base classes anew for each class that it builds, to find out which are class
        variables: half of the time that a class takes.
        """
        annotations = cls.__annotations__
        for name in cls.__class_vars__ & annotations.keys():
            del annotations[name]

    def __init__(self, /, *unnamed: Never, **members: Any) -> None:
        if unnamed:
            first = ", ".join(f"{name}=..." for name in [*type(self).model_fields][:2])
            raise TypeError(f"{type(self).__name__} takes its members by name, {type(self).__name__}({first}); {_given(unnamed)}")
        if not self.c_name:
            remedy = "use a class that mirrors a struct, like RNNDesc"
            raise DescError(type(self).__name__, [Problem("struct.abstract", "", "a base class", "a struct of directml.h", remedy=remedy)])
        if (plain := self._plain(members)) is not None:
            self._adopt(plain, members)
            return
        values, problems = self._by_python_name(members)
        for name, value in values.items():
            try:
                values[name] = self._read_member(name, value)
            except DescError as error:
                problems += [problem.under(name) for problem in error.problems]
            except Exception as error:  # a caller's object, whose methods may raise anything
                why = (f"reading it raises {type(error).__name__}",)
                problems.append(Problem("field.form", name, brief(value), "a value that can be read", why))
        self._complete()
        # Unreadable members are left out: pydantic would list every error of what may be millions of entries.
        reported = {problem.field for problem in problems}
        try:
            super().__init__(**{name: value for name, value in values.items() if name not in reported})
        except ValidationError as error:
            problems += [problem for problem in struct_problems(type(self), error) if problem.field not in reported]
        if problems:
            raise DescError(self.c_name or type(self).__name__, problems)

    @classmethod
    @cache
    def _plain_tests(cls) -> Mapping[str, Test]:
        """Returns for each member whether it stores a value unchanged."""
        return {name: plain_test(info, cls._tensor_class()) for name, info in cls.model_fields.items()}

    @classmethod
    def _tensor_class(cls) -> type[Struct] | None:
        """The class of tensors' descs, if the struct has tensors."""
        return None

    @classmethod
    def _plain(cls, members: Mapping[str, Any]) -> dict[str, Any] | None:
        """All members by Python name if the given ones can be stored unchanged; None if one needs its reader."""
        plain: dict[str, Any] = {}
        fields, given = cls.model_fields, 0
        for name, test in cls._plain_tests().items():
            if name in members:
                value = members[name]
                if type(value) is list:
                    value = tuple(value)
                if not test(value):
                    return None
                given += 1
            else:
                info = fields[name]
                if info.is_required() or info.default_factory is not None:
                    return None
                value = info.default
            plain[name] = value
        return plain if given == len(members) else None

    def _adopt(self, values: dict[str, Any], given: Iterable[str]) -> None:
        """Takes members that need no validation, as pydantic's `model_construct` does."""
        put = object.__setattr__
        put(self, "__dict__", values)
        put(self, "__pydantic_fields_set__", set(given))
        put(self, "__pydantic_extra__", None)
        put(self, "__pydantic_private__", None)

    if not TYPE_CHECKING:  # with it type checkers would allow assignment to any name

        def __setattr__(self, name: str, value: Any) -> None:
            raise self._frozen_error(name, "assigned to", brief(value))

        def __delattr__(self, name: str) -> None:
            raise self._frozen_error(name, "deleted", "...")

        def __getattr__(self, name: str) -> Any:
            """Reads a member by its C name, as it can be given; names that begin otherwise are Python's and pydantic's."""
            if name[:1].isupper():
                if name in self.c_counts:
                    counted = self.c_counts[name]
                    return len(getattr(self, counted if isinstance(counted, str) else counted[0]) or ())
                if (member := self.member_named(name)) is not None:
                    return getattr(self, member)
            if name.startswith("_") or hasattr(type(self), name):  # a property that raised AttributeError: its own error is shown
                return super().__getattr__(name)
            raise UnknownMemberError(type(self), name)

    def _frozen_error(self, name: str, done: str, value: str) -> DescError:
        """The error for assigning to a member."""
        remedy = f"make a changed copy: desc = desc.replace({name}={value})"
        if self.member_named(name) is None:
            names = [c_member(member) if name[:1].isupper() else member for member in type(self).model_fields]
            remedy = did_you_mean(name, names) or "it has no such member"
        return DescError(self.c_name, [Problem("struct.frozen", name, done, "no change: descs are immutable", remedy=remedy)])

    @classmethod
    def _complete(cls) -> None:
        """Builds pydantic's validator on the class's first use: pydantic does not keep other threads from using a half-built one."""
        if cls not in _COMPLETE:
            with _BUILDING:
                cls.model_rebuild()  # does nothing for a class that is complete
                if (forms := _forms_of(cls.__pydantic_core_schema__)) - _TRIED:
                    for members in (*(dict.fromkeys(cls.model_fields, value) for value in _OF_EACH_FORM), cls._sample):
                        with suppress(Exception):  # no member accepts every form
                            cls.__pydantic_validator__.validate_python(members, self_instance=cls.__new__(cls))
                    _TRIED.update(forms)
                _COMPLETE.add(cls)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The members as JSON data in the C spelling."""

    def to_nested_dict(self) -> dict[str, Any]:
        """The struct as a dict in the form for a member of another struct."""
        return self.to_dict()

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Builds a struct from JSON data in either spelling."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Pydantic's validator reads JSON data too, and its serializer writes them.

        The decorators for that, `model_validator` and `model_serializer`, are copied for every base of every class: a quarter of the
        time that a class takes.
        """
        written = core_schema.plain_serializer_function_ser_schema(cls.to_dict)
        return core_schema.no_info_wrap_validator_function(cls._validate, handler(source), serialization=written)

    @classmethod
    def _validate(cls, data: Any, handler: Callable[[Any], Self]) -> Self:
        # JSON data: pydantic's entry points (model_validate, fields of other models) accept what `to_dict` returns.
        try:
            if isinstance(data, Mapping) and not cls.model_fields.keys() >= data.keys():
                return cls.from_dict(data)
        except (ValueError, AssertionError):
            raise
        except Exception as error:
            raise unreadable(error) from None
        return handler(data)

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Validates as pydantic does, but raises `DescError`."""
        cls._complete()
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise DescError(cls.c_name or cls.__name__, struct_problems(cls, error)) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Validates as pydantic does, but raises `DescError`."""
        cls._complete()
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            raise DescError(cls.c_name or cls.__name__, struct_problems(cls, error)) from None

    @classmethod
    def member_named(cls, spelling: str) -> str | None:
        """The Python name of a member, of its Python or C spelling; None if there is no such member."""
        return cls._spellings().get(spelling)

    @classmethod
    @cache
    def _spellings(cls) -> dict[str, str]:
        """The members by both their names. If two share a spelling, the Python name wins, then the first member."""
        return {c_member(name): name for name in reversed(cls.model_fields)} | {name: name for name in cls.model_fields}

    @classmethod
    @cache
    def counted_members(cls) -> dict[str, str]:
        """The members whose length the C struct holds, each with the C member that holds it."""
        return {
            name: spelling for spelling, counted in cls.c_counts.items() for name in ((counted,) if isinstance(counted, str) else counted)
        }

    @classmethod
    @cache
    def counts_before(cls) -> dict[str, str]:
        """The counts, by the member that they precede in C and JSON: the first one that they count."""
        first: dict[str, str] = {}
        for name in cls.model_fields:
            spelling = cls.counted_members().get(name)
            if spelling is not None and spelling not in first.values():
                first[name] = spelling
        return first

    @classmethod
    def unused_remedy(cls, spelling: str) -> str | None:
        """The remedy for a name in `unused`, in either spelling; None for any other name."""
        return next((f"leave it out: {why}" for name, why in cls.unused.items() if spelling in (name, c_member(name))), None)

    @classmethod
    def _count_remedy(cls, spelling: str) -> str | None:
        """The remedy for a count of the C struct that is spelled as in Python, where counts are not members; None for any other name."""
        counted = cls.c_counts.get(c_member(spelling), ())
        first = counted if isinstance(counted, str) else next(iter(counted), None)
        return None if first is None else f"leave it out: it is the length of {first}"

    @classmethod
    def description(cls) -> str:
        """The purpose of the struct: the class's docstring without the C name at its start."""
        docstring = vars(cls)["__doc__"]
        text = inspect.cleandoc(docstring.docstring) if isinstance(docstring, _Documentation) else ""
        return text.removeprefix(f"{cls.c_name}: ")

    @classmethod
    def documentation(cls) -> str:
        """The text that `help` shows: the struct's purpose and its members."""
        return member_docs.page(cls.description(), "", cls.members(), {})

    @classmethod
    @cache
    def members(cls) -> tuple[MemberInfo, ...]:
        """The documentation of each member, in the C struct's order, and of the counts that precede some of them."""
        texts, counts = member_docs.texts(cls), cls.counts_before()
        members = []
        for name in cls.model_fields:
            if name in counts:
                members.append(member_docs.count(counts[name], name))
            members.append(cls._member(name, texts.get(name, "")))
        return tuple(members)

    @classmethod
    def _member(cls, name: str, text: str) -> MemberInfo:
        """The documentation of one member, here of an attribute."""
        info = cls.model_fields[name]
        signed = any(isinstance(mark, Signed) for mark in info.metadata)
        has_default = not info.is_required() and info.default not in (None, ())
        return MemberInfo(
            name=name,
            c_name=c_member(name),
            kind="attribute",
            required=info.is_required(),
            form=member_docs.form_of(info.annotation, signed=signed),
            text=text,
            default=f"{info.default:g}" if has_default and isinstance(info.default, float) else str(info.default) if has_default else "",
            annotation=member_docs.accepted_type(info.annotation),
        )

    @classmethod
    def _by_python_name(cls, members: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        if len(members) > MAX_MEMBERS:
            raise DescError(cls.c_name, [Problem("field.unknown", "", f"an object of {len(members)} members", f"at most {MAX_MEMBERS}")])
        values: dict[str, Any] = {}
        problems: list[Problem] = []
        twice: dict[str, str] = {}
        for spelling, value in members.items():
            name = cls.member_named(spelling)
            if name in values:
                twice[spelling] = f"{name} or {c_member(name)}"
            elif name is not None:
                values[name] = value
            elif spelling not in cls.c_counts and len(problems) > MAX_REPORTED:
                continue
            elif spelling not in cls.c_counts:
                in_c = is_c_style(spelling, (other for other in members if cls.member_named(other)))
                names = [c_member(name) if in_c else name for name in cls.model_fields]
                expected = f"one of {', '.join(names)}"
                remedy = cls.unused_remedy(spelling)
                if remedy is None:
                    counts = cls.c_counts if in_c else ()
                    remedy = cls._count_remedy(spelling) or member_remedy(spelling, names) or did_you_mean(spelling, [*names, *counts])
                problem = Problem("field.unknown", spelling, "not a member of this struct", expected, remedy=remedy)
                problems.append(problem if len(problems) < MAX_REPORTED else and_more(problem))
        if twice:
            first, *others = twice
            found = f"given twice, as {'is' if len(others) == 1 else 'are'} {', '.join(others)}" if others else "given twice"
            remedy = "both spellings are mixed: keep to one" if others else None
            problems.insert(0, Problem("field.twice", first, found, f"{', '.join(twice.values())}, not both", remedy=remedy))
        for counted, spelling in cls.counted_members().items():
            given = members.get(spelling)
            array: Any = values.get(counted)
            if array is not None and (isinstance(array, str | bytes) or not isinstance(array, Sequence | np.ndarray)):
                continue  # an iterator of unknown length, or not an array, which is reported as another problem
            length = 0 if array is None else np.size(array) if isinstance(array, np.ndarray) else len(array)
            wrong = given is not None and counted in values and not _is_count(given, length)
            if wrong and not any(problem.path == spelling for problem in problems):
                problems.append(Problem("count.length", spelling, brief(given), f"{length}, the length of {counted}"))
        return values, problems

    @classmethod
    def _read_member(cls, name: str, value: Any) -> Any:
        """Lets a kind of struct accept other forms of a member's value; raises DescError with places relative to the member."""
        return value

    def replace(self, **members: Any) -> Self:
        """Returns a copy with members changed, in either spelling, or the struct itself if none is; raises `DescError` for wrong ones."""
        current, tests = self.__dict__, self._plain_tests()
        if all(name in tests and _is_same(value, current[name]) for name, value in members.items()):
            return self
        if all(name in tests and (value is current[name] or tests[name](value)) for name, value in members.items()):
            copy = type(self).__new__(type(self))
            copy._adopt(self._members() | members, self.__pydantic_fields_set__ | members.keys())
            return copy
        values, problems = self._by_python_name(members)
        if problems:
            raise DescError(self.c_name or type(self).__name__, problems)
        counts = {spelling: members[spelling] for spelling in self.c_counts if spelling in members}
        return type(self)(**self._members() | values | counts)

    def _members(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields}

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled by the constructor: pickles hold members only, which are validated as any caller's.
        return _construct, (type(self), self._members())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any = None) -> Self:
        # As of a tuple of numbers: what it holds never changes, and what it remembers beside its members may not be copied.
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copies as pydantic does, but the constructor validates the updates and may raise `DescError`."""
        return self.replace(**update) if update else super().model_copy(deep=deep)

    @classmethod
    @cache
    def _comparison_members(cls) -> tuple[tuple[str, ...], frozenset[str]]:
        """The names of all members, and of those that may hold floats."""
        fields = cls.model_fields
        return tuple(fields), frozenset(name for name, info in fields.items() if "float" in str(info.annotation))

    def _identity(self) -> tuple[Any, ...]:
        """The members as compared: -0.0 differs from 0.0, and NaN equals itself."""
        (names, floating), members = self._comparison_members(), self.__dict__
        if not floating:
            return tuple(map(members.__getitem__, names))
        return tuple([_with_type(members[name]) if name in floating else members[name] for name in names])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Struct):
            return NotImplemented
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        # Cached: compiled operators are looked up by it.
        try:
            return self.__dict__["_hash"]  # type: ignore[no-any-return]
        except KeyError:
            value = self.__dict__["_hash"] = hash((type(self), *self._identity()))
            return value


def _given(unnamed: Sequence[object]) -> str:
    return f"{plural(len(unnamed), 'value')} {'was' if len(unnamed) == 1 else 'were'} given without a name"


def _with_type(value: Any) -> Any:
    """A member's value with strings in place of the floats that `==` confuses or does not equate."""
    if isinstance(value, float):
        return "nan" if value != value else "-0.0" if value == 0 and math.copysign(1, value) < 0 else value
    return tuple(map(_with_type, value)) if isinstance(value, tuple) else value


def _is_same(value: Any, current: Any) -> bool:
    """Whether a member's value is unchanged: it is the same object, or describes the same tensors."""
    if value is current:
        return True
    if type(value) is tuple and type(current) is tuple:
        return len(value) == len(current) and all(map(_is_same, value, current))
    return isinstance(value, Struct) and value == current


Struct._settle_annotations()  # pydantic calls its hook for derived classes only


def _is_count(given: Any, length: int) -> bool:
    """Returns whether a given count equals the length."""
    try:
        return as_uint(given) == length
    except Exception:  # no integer, or an object whose methods raise anything
        return False


def _construct(kind: type[Struct], members: dict[str, Any]) -> Struct:
    return kind(**members)


def c_value(value: Any) -> Any:
    """A member's value as JSON data: names of enumerations, lists, `"inf"`, nested structs."""
    if isinstance(value, Struct):
        return value.to_nested_dict()
    if isinstance(value, DmlEnum):
        return value.c_name
    if isinstance(value, tuple):
        return [c_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
