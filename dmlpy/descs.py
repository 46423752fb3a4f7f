"""`OperatorDesc`: the base of every operator's struct, the markers on its fields, and the registry of all operators.

An operator's class is the source of everything known about it: its annotated fields carry the kind of each tensor, its sizes and its
type; `support` its levels; `@size` and `@rule` methods what no pattern can say. Checks, inference, documentation and schemas read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

from dmlpy.enums import FeatureLevel
from dmlpy.naming import c_member, did_you_mean, plural
from dmlpy.problems import DescError, Problem
from dmlpy.sizes import Sizes, Term, UnboundSymbolError, align, parse, run_of, show
from dmlpy.structs import Struct, brief, c_value, unwrap
from dmlpy.support import Since, TypeSet
from dmlpy.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlpy.render import Table

C_PREFIX = "DML_OPERATOR_"
OWN_PREFIX = "DMLPY_OPERATOR_"
"""What the type names of operators begin with that DirectML does not have."""


class In:
    """Marks a tensor field as an input.

    Args:
        pattern: its sizes (see `dmlpy.sizes`).
        types: a set of types of its own, or the name of the type variable that it shares with others.
        constant: whether it usually stays the same from dispatch to dispatch, so that `prepare` packs it once.
        at_most: the symbol that no value in it may exceed.
        null_when_fused: whether it is null while the operator is part of another struct (activations).
        required: whether the C struct must have it though a desc may be built without it, so that `with_outputs` can describe it.
        if_half: what to do where a size is half of what it should be.
        reserve: whether a forward operator leaves it for its gradient, so that it belongs to one configuration.
    """

    output = False

    def __init__(
        self,
        pattern: str,
        types: TypeSet | str = "T",
        *,
        constant: bool = False,
        at_most: str | None = None,
        null_when_fused: bool = False,
        required: bool = False,
        if_half: str | None = None,
        reserve: bool = False,
    ) -> None:
        self.pattern = pattern
        self.terms = parse(pattern)
        self.types = types
        self.constant = constant
        self.at_most = at_most
        self.null_when_fused = null_when_fused
        self.required = required or null_when_fused
        self.if_half = if_half
        self.reserve = reserve


class Out(In):
    """Marks a tensor field as an output; arguments as for `In`."""

    output = True


@dataclass(frozen=True)
class TensorField:
    """A tensor member of an operator's struct."""

    name: str
    marker: In
    optional: bool
    """Whether the struct may leave it null."""


@dataclass(frozen=True)
class Breach:
    """What a `@rule` yields when it is broken: the same facts as a `Problem`, without the code."""

    path: str
    found: str
    expected: str
    why: tuple[str, ...] = ()
    remedy: str | None = None


RuleMethod = Callable[[Any, Sizes, FeatureLevel], Iterable[Breach]]


def size(because: str) -> Callable[[Callable[[Any], int]], Callable[[Any], int]]:
    """Marks a method as the value of the symbol of its name, given by an attribute; `because` names the attribute."""

    def mark(method: Callable[[Any], int]) -> Callable[[Any], int]:
        method.dml_because = because  # type: ignore[attr-defined]
        return method

    return mark


def derived(text: str) -> Callable[[Callable[[Any, Sizes], int]], Callable[[Any, Sizes], int]]:
    """Marks a method as the value of the symbol of its name, computed from other symbols; `text` is the formula.

    A symbol that is unbound leaves the derived one unbound too. Methods run in the order of definition.
    """

    def mark(method: Callable[[Any, Sizes], int]) -> Callable[[Any, Sizes], int]:
        method.dml_derived = text  # type: ignore[attr-defined]
        return method

    return mark


def rule(text: str) -> Callable[[RuleMethod], RuleMethod]:
    """Marks a method as a rule: it yields a `Breach` for each way in which the desc breaks it.

    The method's name is the problem's code; `text` states the rule for documentation.
    """

    def mark(method: RuleMethod) -> RuleMethod:
        method.dml_rule = text  # type: ignore[attr-defined]
        return method

    return mark


OPERATORS: dict[str, type[OperatorDesc]] = {}
"""Every operator's class by its type name: `DML_OPERATOR_RNN`."""


class OperatorDesc(Struct):
    """One operator with its tensors and attributes; it can be checked, compiled, compared, hashed, and sent through JSON."""

    type_name: ClassVar[str] = ""
    """The operator's type in directml.h: `DML_OPERATOR_RNN`; of dmlpy's own operators `DMLPY_OPERATOR_RNN_GRAD`."""

    own: ClassVar[bool] = False
    """Whether the operator is dmlpy's own: directml.h does not have it, and no feature level limits it."""

    support: ClassVar[tuple[Since, ...]] = ()
    """The support table, lowest level first; the first row's level is the operator's own."""

    in_place: ClassVar[bool] = False
    """Whether an output may use the same memory as an input of the same layout."""

    accepts_owned: ClassVar[bool] = True
    """Whether inputs may be flagged OWNED_BY_DML."""

    formula: ClassVar[str] = ""
    """What is computed, for documentation."""

    @classmethod
    def __pydantic_init_subclass__(cls, dml: str | None = None, own: str | None = None, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if dml is not None or own is not None:
            cls.own = own is not None
            cls.type_name = (OWN_PREFIX if cls.own else C_PREFIX) + (dml or own or "")
            cls.c_name = f"DMLPY_{own}_OPERATOR_DESC" if cls.own else f"DML_{dml}_OPERATOR_DESC"
            OPERATORS[cls.type_name] = cls

    if not TYPE_CHECKING:

        def __init_subclass__(cls, dml: str | None = None, own: str | None = None, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)

    @classmethod
    def short_name(cls) -> str:
        """The type's name without its prefix: `RNN`."""
        return short_name(cls.type_name)

    @classmethod
    @cache
    def tensor_fields(cls) -> tuple[TensorField, ...]:
        """The tensor members in the struct's order."""
        fields = []
        for name, info in cls.model_fields.items():
            marker = next((item for item in info.metadata if isinstance(item, In)), None)
            if marker is not None:
                fields.append(TensorField(name, marker, type(None) in get_args(info.annotation) and not marker.required))
        return tuple(fields)

    @classmethod
    def inputs(cls) -> tuple[TensorField, ...]:
        return tuple(field for field in cls.tensor_fields() if not field.marker.output)

    @classmethod
    def outputs(cls) -> tuple[TensorField, ...]:
        return tuple(field for field in cls.tensor_fields() if field.marker.output)

    @classmethod
    @cache
    def attribute_names(cls) -> tuple[str, ...]:
        """The members that are no tensors, in the struct's order."""
        tensors = {field.name for field in cls.tensor_fields()}
        return tuple(name for name in cls.model_fields if name not in tensors)

    @classmethod
    @cache
    def size_methods(cls) -> Mapping[str, str]:
        """Symbols that attributes determine, each with the attribute that does."""
        return {name: method.dml_because for name, method in cls._marked_methods("dml_because")}

    @classmethod
    @cache
    def derived_sizes(cls) -> Mapping[str, str]:
        """Symbols that other symbols determine, each with its formula."""
        return {name: method.dml_derived for name, method in cls._marked_methods("dml_derived")}

    @classmethod
    @cache
    def rules(cls) -> Mapping[str, str]:
        """Names and texts of the operator's own rules."""
        return {name: method.dml_rule for name, method in cls._marked_methods("dml_rule")}

    @classmethod
    def _marked_methods(cls, mark: str) -> list[tuple[str, Any]]:
        # Base classes first, in the order of definition: the order in which problems are reported.
        functions = [item for base in reversed(cls.__mro__) for item in tuple(vars(base).items()) if isinstance(item[1], FunctionType)]
        return [(name, function) for name, function in functions if hasattr(function, mark)]

    @classmethod
    def introduced(cls) -> FeatureLevel:
        """The lowest feature level that has the operator."""
        return min(row.level for row in cls.support)

    @classmethod
    def _read_member(cls, name: str, value: Any) -> Any:
        if value is None or isinstance(value, TensorDesc) or name not in {field.name for field in cls.tensor_fields()}:
            return value
        if isinstance(value, Mapping):
            return TensorDesc.from_dict(value)
        remedy = "describe the array with TensorDesc.of(array)" if hasattr(value, "shape") else None
        raise DescError(cls.c_name, [Problem("field.form", "", brief(value), "a TensorDesc", remedy=remedy)])

    def tensors(self) -> dict[str, TensorDesc]:
        """The tensors that the desc describes, by field, in the struct's order."""
        return {field.name: desc for field in self.tensor_fields() if (desc := getattr(self, field.name)) is not None}

    def reserve_configuration(self) -> dict[str, Any]:
        """What a reserve of this desc belongs to: a gradient takes only one whose configuration equals its own."""
        return {}

    def constant_inputs(self) -> tuple[str, ...]:
        """The described inputs that `prepare` packs, in the struct's order."""
        described = self.tensors()
        return tuple(field.name for field in self.inputs() if field.marker.constant and field.name in described)

    def sizes(self) -> Sizes:
        """The symbols of the size patterns, settled by attributes and by vote of the tensors."""
        known = Sizes()
        for symbol, because in self.size_methods().items():
            value = getattr(self, because)
            known.settle(symbol, getattr(self, symbol)(), f"{because} is {value}")
        for field in self.tensor_fields():
            desc = getattr(self, field.name)
            if desc is None:
                continue
            pattern = self.terms(field)
            terms = align(pattern, len(desc.sizes))
            if terms is not None and (run := run_of(pattern, len(desc.sizes))):
                known.vote(*run, f"{field.name}.sizes")
            for axis, term in enumerate(terms or ()):
                known.vote(term, desc.sizes[axis], f"{field.name}.sizes[{axis}]")
            if terms is None:
                # Leading ones forgotten or added are the usual slip: the last dimensions still tell what is meant.
                for term, length in zip(reversed(pattern), reversed(desc.sizes), strict=False):
                    known.hint(term, length)
        for symbol, formula in self.derived_sizes().items():
            with suppress(UnboundSymbolError):
                known.derive(symbol, getattr(self, symbol), formula)
        return known

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        """The size pattern of a tensor in this desc: the field's own, unless an attribute or another tensor changes it."""
        return field.marker.terms

    def size_remedy(self, field: TensorField, known: Sizes) -> str | None:
        """What to change where a tensor's sizes are not those of its pattern, if an attribute makes up the pattern."""
        return None

    def with_outputs(self, *names: str) -> Self:
        """A copy that describes these outputs, packed, with the sizes and type that the inputs determine.

        Args:
            names: output fields in either spelling; none means all that the desc may have.

        Raises:
            DescError: no such output, or the inputs do not determine its sizes.
        """
        outputs = {field.name: field for field in self.outputs()}
        problems, wanted = [], {}
        for spelling in names or self.applicable_outputs():
            name = self.member_named(spelling)
            if name not in outputs:
                expected = f"one of {', '.join(outputs)}"
                problems.append(Problem("field.unknown", spelling, "no output", expected, remedy=did_you_mean(spelling, outputs)))
                continue
            sizes = self.sizes().infer(self.terms(outputs[name]))
            if sizes is None:
                # A list of reasons that is empty would let the output be left out silently.
                missing = Problem("size.unknown", name, "not determined", "an input tensor that tells its sizes")
                problems += list(self._undetermined(outputs[name])) or [missing]
                continue
            wanted[name] = TensorDesc(data_type=self._variable_type(outputs[name]), sizes=sizes)
        if problems:
            raise DescError(self.c_name, problems)
        return self.replace(**wanted)

    def applicable_outputs(self) -> tuple[str, ...]:
        """The outputs that a desc with these attributes and inputs may describe."""
        return tuple(field.name for field in self.outputs())

    def _undetermined(self, output: TensorField) -> Iterator[Problem]:
        known = self.sizes()
        for symbol in (term.symbol for term in self.terms(output) if term.symbol is not None and term.symbol not in known):
            for field in self.inputs():
                desc, pattern = getattr(self, field.name), self.terms(field)
                if desc is not None and any(term.symbol == symbol for term in pattern):
                    expected = f"{len(pattern)} dimensions, {show(pattern)}"
                    found = f"{plural(len(desc.sizes), 'dimension')} {list(desc.sizes)}"
                    yield Problem("size.unknown", f"{field.name}.sizes", found, expected, (f"{output.name} needs {symbol}",))

    def _variable_type(self, field: TensorField) -> Any:
        if not isinstance(field.marker.types, str):
            return min(field.marker.types)
        same = [item for item in self.tensor_fields() if item.marker.types == field.marker.types and getattr(self, item.name) is not None]
        # Where no input is described, another output told the sizes: it tells the type too.
        telling = [item for item in same if not item.marker.output] or same
        held = [getattr(self, item.name).data_type for item in telling]
        return max(held, key=held.count)

    def to_dict(self, *, flat: bool = False) -> dict[str, Any]:
        """The desc as JSON data in the C spelling, in the form of DxDispatch models.

        Args:
            flat: members beside `Type` instead of nested in `Desc`.
        """
        members: dict[str, Any] = {}
        counted = {counted: spelling for spelling, counted in self.c_counts.items()}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if value is None:
                continue
            if name in counted:
                members[counted[name]] = len(value)
            members[c_member(name)] = c_value(value)
        return {"Type": self.type_name, **members} if flat else {"Type": self.type_name, "Desc": members}

    def to_nested_dict(self) -> dict[str, Any]:
        """As `to_dict`, flat: the form that DxDispatch models use inside other structs."""
        return self.to_dict(flat=True)

    def to_json(self, *, flat: bool = False, indent: int | None = 2) -> str:
        """`to_dict` as text. Infinities and NaN are written as `"inf"`, `"-inf"`, `"nan"`."""
        return json.dumps(self.to_dict(flat=flat), indent=indent, allow_nan=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The desc of JSON data, nested or flat; `Type` may be left out where the class is an operator's own.

        Raises:
            DescError: an unknown operator, another operator than the class's, or members that cannot be read.
        """
        if not isinstance(data, Mapping):
            raise DescError(cls.c_name or "operator", [Problem("field.form", "", brief(data), "an object with Type and Desc")])
        members = unwrap(data)
        kind: type[OperatorDesc] = operator_class(members.pop("Type")) if "Type" in members else cls
        if not kind.type_name:
            raise DescError("operator", [Problem("field.missing", "type", "missing", "an operator's type, like DML_OPERATOR_RNN")])
        if not issubclass(kind, cls):
            raise DescError(cls.c_name, [Problem("field.form", "type", kind.type_name, cls.type_name or f"a kind of {cls.__name__}")])
        return kind._from_members(members)

    @classmethod
    def _from_members(cls, members: dict[str, Any]) -> Self:
        # Attributes have defaults in Python for convenience; a file stands for the C struct, which has none.
        problems = []
        given = {cls.member_named(spelling) for spelling in members}
        for name in cls.attribute_names():
            if name not in given and not cls.model_fields[name].is_required() and cls.model_fields[name].default is not None:
                problems.append(Problem("field.missing", c_member(name), "missing", "a value: the C struct has no default"))
        try:
            desc = cls(**members)
        except DescError as error:
            raise DescError(cls.c_name, [*error.problems, *problems]) from None
        if problems:
            raise DescError(cls.c_name, problems)
        return desc

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The desc of JSON text.

        Raises:
            DescError: as `from_dict`, or the text is no JSON.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DescError(
                cls.c_name or "operator", [Problem("json.syntax", "", "not JSON", "a JSON object", why=(str(error),))]
            ) from None
        return cls.from_dict(data)

    def table(self, problems: Iterable[Problem] = ()) -> Table:
        """The members with their layouts; those that the problems concern are marked."""
        from dmlpy.render import Table

        broken = {problem.field for problem in problems}
        rows: list[tuple[str, ...]] = []
        marked = set()
        markers = {field.name: field.marker for field in self.tensor_fields()}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name in broken:
                marked.add(len(rows))
            elif value is None:
                continue
            kind = "attribute" if name not in markers else "output" if markers[name].output else "input"
            if isinstance(value, TensorDesc):
                strides = " ".join(map(str, value.element_strides if value.strides is None else value.strides))
                cells = (str(value.data_type), " ".join(map(str, value.sizes)), strides, str(value.size_in_bytes), value.layout())
            else:
                cells = ("", show_attribute(value), "", "", "")
            rows.append((name, kind, *cells))
        headings = ("field", "kind", "type", "sizes", "strides", "bytes", "layout")
        return Table(f"{self.c_name}", headings, tuple(rows), frozenset(marked))

    def __str__(self) -> str:
        return self.table().to_text()

    def __rich__(self) -> Any:
        return self.table()

    def _repr_html_(self) -> str:
        return self.table().to_html()


def short_name(type_name: str) -> str:
    """An operator's type name without its prefix: `RNN` of `DML_OPERATOR_RNN`."""
    return type_name.removeprefix(C_PREFIX).removeprefix(OWN_PREFIX)


def show_attribute(value: Any) -> str:
    """An attribute for a table or a message."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(show_attribute(item) for item in value)
    if isinstance(value, OperatorDesc):
        name = value.short_name().removeprefix("ACTIVATION_")
        given = [f"{item}={getattr(value, item):g}" for item in value.attribute_names() if isinstance(getattr(value, item), float)]
        return f"{name}({', '.join(given)})" if given else name
    return str(value)


def operator_class(type_name: Any) -> type[OperatorDesc]:
    """The class of an operator's type name, long or short (`DML_OPERATOR_RNN`, `RNN`).

    Raises:
        DescError: dmlpy has no such operator; the nearest name is told.
    """
    if isinstance(type_name, str):
        for spelling in (type_name, C_PREFIX + type_name, OWN_PREFIX + type_name):
            if spelling in OPERATORS:
                return OPERATORS[spelling]
    full_names = {short_name(known): known for known in OPERATORS}
    given = short_name(type_name) if isinstance(type_name, str) else None
    remedy = did_you_mean(given, full_names, full_names.__getitem__)
    expected = f"an operator that dmlpy describes ({len(OPERATORS)} so far)"
    why = ("DirectML's other operators are not built yet: dmlpy explain lists those that are",)
    raise DescError("operator", [Problem("operator.unknown", "type", brief(type_name), expected, why, remedy)])


class SomeOutputDesc(OperatorDesc):
    """An operator whose outputs are all optional."""

    @rule("at least one output is described")
    def some_output(self, known: Sizes, level: FeatureLevel) -> Iterable[Breach]:
        names = [field.name for field in self.outputs()]
        if not any(getattr(self, name) is not None for name in names):
            yield Breach(names[0], "missing like every other output", f"at least one of {', '.join(names)}", remedy="use with_outputs(...)")
