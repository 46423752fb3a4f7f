"""`OperatorDesc`: the base of every operator's struct.

An operator's class is the source of everything known about it: its annotated fields carry the kind of each tensor, its sizes and its
type; `support` its levels; `@size` and `@rule` methods what no pattern can express. Checks, inference, documentation and schemas read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property, partial
from types import FunctionType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, get_args, get_origin

from dmlpy.description import member_docs
from dmlpy.description.bfloat16_numbers import number_of_bits
from dmlpy.description.coercion import Signed, brief, entries, half_of_bits, has_entries, read_by, read_problems, to_json_text
from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.description.flags import check_flags
from dmlpy.description.inferred_outputs import inferred_outputs
from dmlpy.description.json_objects import plain, read_json, unwrap
from dmlpy.description.markers import AttributeField, In, Limits, Slot, TensorField, Violation, rule
from dmlpy.description.member_docs import MemberInfo, TypesSince
from dmlpy.description.registry import C_PREFIX, EXTENSION_PREFIX, OPERATORS, family_of, operator_class, short_name
from dmlpy.description.sizes import Sizes, Term, UnboundSymbolError, align, show
from dmlpy.description.structs import Struct, c_value
from dmlpy.description.support import SupportRow, TypeSet, row_at
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, TensorDesc
from dmlpy.messages.naming import Count, c_member, listed, plural
from dmlpy.messages.problems import MAX_REPORTED, DescError, Problem

if TYPE_CHECKING:
    from dmlpy.messages.tables import Table


class OperatorDesc(Struct):
    """One operator with its tensors and attributes; it can be checked, compiled, compared, hashed, and sent through JSON."""

    functions = ("check", "compile", "reference")

    type_name: ClassVar[str] = ""
    """The operator's type in directml.h: `DML_OPERATOR_RNN`; of an operator that only dmlpy has, `DMLPY_OPERATOR_RNN_GRAD`."""

    is_extension: ClassVar[bool] = False
    """Whether DirectML lacks the operator, so that directml.h does not declare it and no feature level limits it."""

    support: ClassVar[tuple[SupportRow, ...]] = ()
    """The support table, lowest level first."""

    since: ClassVar[str] = ""
    """The feature level that introduced the operator, if it is not that of the table's first row."""

    scalars: ClassVar[Mapping[str, str]] = {}
    """Members that are a DML_SCALAR_UNION, each with the attribute or tensor field that determines its element type."""

    in_place: ClassVar[bool] = False
    """Whether an output may use the same memory as an input of the same layout."""

    accepts_owned: ClassVar[bool] = True
    """Whether inputs may be flagged OWNED_BY_DML."""

    combines_bits: ClassVar[bool] = False
    """Whether the bits of elements are combined, whatever number they are: it does not take BFLOAT16, which devices convert."""

    formula: ClassVar[str] = ""
    """The formula that the operator computes, for documentation."""

    @classmethod
    def __pydantic_init_subclass__(cls, dml: str | None = None, extension: str | None = None, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if dml is not None or extension is not None:
            cls.is_extension = extension is not None
            cls.type_name = (EXTENSION_PREFIX if cls.is_extension else C_PREFIX) + (dml or extension or "")
            cls.c_name = f"DMLPY_{extension}_OPERATOR_DESC" if cls.is_extension else f"DML_{dml}_OPERATOR_DESC"
            OPERATORS.add(cls.type_name, cls)

    if not TYPE_CHECKING:

        def __init_subclass__(cls, dml: str | None = None, extension: str | None = None, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)

    @classmethod
    def documentation(cls) -> str:
        """The text of `help`: what the operator computes, its formula, members, sizes and types, generated from the declarations."""
        symbols = {symbol: f"given by {because}" for symbol, because in cls.size_methods().items()} | dict(cls.derived_sizes())
        return member_docs.page(cls.description(), cls.formula, cls.members(), symbols)

    @classmethod
    def _member(cls, name: str, text: str) -> MemberInfo:
        info, annotation = super()._member(name, text), cls.model_fields[name].annotation
        field = next((field for field in cls.tensor_fields() if field.name == name), None)
        if field is not None:
            return info._replace(
                kind="output" if field.marker.output else "input",
                required=not field.optional,
                form=show(field.marker.terms) + (" each" if field.listed else ""),
                default="",
                note="Null inside another struct." if field.marker.null_when_fused else "",
                support=tuple(cls._types_of(field)),
            )
        limits = next(item.limits.text() for item in cls.attribute_fields() if item.name == name)
        form = cls._attribute_form(name) or info.form
        return info._replace(required=type(None) not in get_args(annotation), form=form, limits=limits)

    @classmethod
    def _types_of(cls, field: TensorField) -> Iterator[TypesSince]:
        rows = sorted(cls.support, key=lambda row: row.level)
        for row in rows:
            level = None if cls.is_extension else row.level
            yield TypesSince(level, row.when, row.dims_for(field.name), cls.types_in(row, field))

    @classmethod
    def types_in(cls, row: SupportRow, field: TensorField) -> TypeSet:
        """The element types that a row of the support table allows a tensor. Rows that hold for some attribute values may override them."""
        if not row.when:
            return row.types_for(field.marker.types)
        desc = cls.model_construct(**{name: values[0] for name, values in row.when.items()})
        return row.types_for(desc.type_variable(field))

    @classmethod
    def _attribute_form(cls, name: str) -> str:
        """The values that an attribute may have, if its annotation does not show them."""
        if name in cls.scalars:
            return f"a number of the type of {cls.scalars[name]}"
        given = [item for item in get_args(cls.model_fields[name].annotation) if isinstance(item, type)]
        return "an activation" if any(issubclass(item, FusableDesc) for item in given) else ""

    @classmethod
    def short_name(cls) -> str:
        """The type's name without its prefix: `RNN`."""
        return short_name(cls.type_name)

    @classmethod
    def family(cls) -> str:
        """The file or folder of `dmlpy.operators` that defines it, such as `recurrent`; elsewhere the module's name."""
        return family_of(cls) or cls.__module__

    @classmethod
    @cache
    def tensor_fields(cls) -> tuple[TensorField, ...]:
        """The tensor members in the struct's order."""
        fields = []
        for name, info in cls.model_fields.items():
            marker = next((item for item in info.metadata if isinstance(item, In)), None)
            if marker is not None:
                kinds = (info.annotation, *get_args(info.annotation)) if get_origin(info.annotation) is UnionType else (info.annotation,)
                listed = any(get_origin(kind) is tuple for kind in kinds)
                optional = type(None) in get_args(info.annotation) and not marker.required
                fields.append(TensorField(name, marker, optional, listed))
        return tuple(fields)

    @classmethod
    @cache
    def attribute_fields(cls) -> tuple[AttributeField, ...]:
        """The members that are not tensors, in the struct's order, with the values that they may hold."""
        fields = []
        for name in cls.attribute_names():
            marks = cls.model_fields[name].metadata
            limits = next((mark for mark in marks if isinstance(mark, Limits)), Limits())
            fields.append(AttributeField(name, limits, any(isinstance(mark, Signed) for mark in marks)))
        return tuple(fields)

    @classmethod
    @cache
    def inputs(cls) -> tuple[TensorField, ...]:
        return tuple(field for field in cls.tensor_fields() if not field.marker.output)

    @classmethod
    @cache
    def outputs(cls) -> tuple[TensorField, ...]:
        return tuple(field for field in cls.tensor_fields() if field.marker.output)

    @classmethod
    @cache
    def attribute_names(cls) -> tuple[str, ...]:
        """The names of the members that are not tensors, in the struct's order."""
        tensors = {field.name for field in cls.tensor_fields()}
        return tuple(name for name in cls.model_fields if name not in tensors)

    @classmethod
    @cache
    def size_methods(cls) -> Mapping[str, str]:
        """The symbols that attributes determine, each with its attribute."""
        return {name: method.dml_because for name, method in cls._marked_methods("dml_because")}

    @classmethod
    @cache
    def derived_sizes(cls) -> Mapping[str, str]:
        """The symbols that other symbols determine, each with its formula."""
        return {name: method.dml_derived for name, method in cls._marked_methods("dml_derived")}

    @classmethod
    @cache
    def rules(cls) -> Mapping[str, str]:
        """The names and texts of the rules that the operator adds to the common ones."""
        return {name: method.dml_rule for name, method in cls._marked_methods("dml_rule")}

    @classmethod
    def _marked_methods(cls, mark: str) -> list[tuple[str, Any]]:
        # Base classes first, in the order of definition: the order in which problems are reported.
        functions = [item for base in reversed(cls.__mro__) for item in tuple(vars(base).items()) if isinstance(item[1], FunctionType)]
        return [(name, function) for name, function in functions if hasattr(function, mark)]

    @classmethod
    def introduced(cls) -> FeatureLevel:
        """The lowest feature level that has the operator."""
        return FeatureLevel.parse(cls.since) if cls.since else min(row.level for row in cls.support)

    @classmethod
    @cache
    def _possible_dims(cls, name: str) -> tuple[int, int]:
        """The fewest and the most dimensions of a tensor field at any level."""
        spans = [row.dims_for(name) for row in cls.support]
        return min(least for least, _ in spans), max(most for _, most in spans)

    def rows(self) -> tuple[SupportRow, ...]:
        """The rows of the support table that apply to a desc with these attributes."""
        return tuple(row for row in self.support if row.applies_to(self))

    @classmethod
    def _read_member(cls, name: str, value: Any) -> Any:
        field = next((field for field in cls.tensor_fields() if field.name == name), None)
        if field is None or value is None:
            return value
        if not field.listed:
            return cls._read_tensor(value)
        if isinstance(value, TensorDesc) or not has_entries(value):
            remedy = "put it into a list: [...]" if isinstance(value, TensorDesc) else None
            raise DescError(cls.c_name, [Problem("field.form", "", brief(value), "a sequence of TensorDesc", remedy=remedy)])
        tensors, problems = [], []
        for index, item in enumerate(entries(value)):
            try:
                tensors.append(cls._read_tensor(item))
            except DescError as error:
                problems += [problem.under(f"[{index}]") for problem in error.problems]
            if len(problems) >= MAX_REPORTED:
                break
        if problems:
            raise DescError(cls.c_name, problems)
        return tuple(tensors)

    @classmethod
    def _tensor_class(cls) -> type[TensorDesc]:
        return TensorDesc

    @classmethod
    def _read_tensor(cls, value: Any) -> TensorDesc:
        if isinstance(value, TensorDesc):
            return value
        if isinstance(value, Mapping):
            return TensorDesc.from_dict(value)
        remedy = "describe the array with TensorDesc.of(array)" if hasattr(value, "shape") else None
        if type(value) in (list, tuple) and 0 < len(value) <= MAX_DIMENSION_COUNT and all(type(size) is int for size in value):
            remedy = f"describe its elements, too: TensorDesc(data_type=..., sizes={list(value)})"
        raise DescError(cls.c_name, [Problem("field.form", "", brief(value), "a TensorDesc", remedy=remedy)])

    @classmethod
    def _by_python_name(cls, members: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        values, problems = super()._by_python_name(members)
        for name, companion in cls.scalars.items():
            # A half is shown as its 16 bits: C has no type for the number.
            given = values.get(name)
            bits = given.get("UInt16") if type(given) is dict and len(given) == 1 else None
            if isinstance(bits, int) and 0 <= bits < 2**16:
                kind = cls._element_type(values.get(companion))
                if kind is DataType.FLOAT16:
                    values[name] = half_of_bits(bits)
                elif kind is DataType.BFLOAT16:
                    values[name] = number_of_bits(bits)
        return values, problems

    @staticmethod
    def _element_type(source: Any) -> DataType | None:
        try:
            source = (
                source.get("DataType", source.get("data_type")) if isinstance(source, Mapping) else getattr(source, "data_type", source)
            )
            return DataType.parse(source)
        except Exception:  # no type, or an object whose methods raise anything
            return None

    def slots(self) -> tuple[Slot, ...]:
        """Every place for a tensor, described or not, in the struct's order, as binding counts them."""
        return self._listed_slots[0]

    def input_slots(self) -> tuple[Slot, ...]:
        """The slots of the inputs."""
        return self._listed_slots[1]

    def output_slots(self) -> tuple[Slot, ...]:
        """The slots of the outputs."""
        return self._listed_slots[2]

    @cached_property
    def _listed_slots(self) -> tuple[tuple[Slot, ...], tuple[Slot, ...], tuple[Slot, ...]]:
        """All slots, those of inputs, and those of outputs."""
        slots: list[Slot] = []
        for field in self.tensor_fields():
            value = getattr(self, field.name)
            if field.listed:
                slots += [Slot(f"{field.name}[{index}]", field, tensor, index) for index, tensor in enumerate(value or ())]
            else:
                slots.append(Slot(field.name, field, value))
        inputs: list[Slot] = []
        outputs: list[Slot] = []
        for slot in slots:
            (outputs if slot.field.marker.output else inputs).append(slot)
        return tuple(slots), tuple(inputs), tuple(outputs)

    def tensors(self) -> dict[str, TensorDesc]:
        """The described tensors, keyed by place (`input_tensor`, `input_tensors[0]`), in the struct's order."""
        return dict(self._listed_tensors)

    @cached_property
    def _listed_tensors(self) -> dict[str, TensorDesc]:
        return {slot.place: slot.tensor for slot in self.slots() if slot.tensor is not None}

    @cached_property
    def has_bfloat16(self) -> bool:
        """Whether it describes a tensor of BFLOAT16, which no feature level takes."""
        return any(tensor.data_type is DataType.BFLOAT16 for tensor in self._listed_tensors.values())

    def reserve_configuration(self) -> dict[str, Any]:
        """The configuration of this desc's reserve: a gradient accepts only a reserve of the same configuration."""
        return {}

    def constant_inputs(self) -> tuple[str, ...]:
        """The described inputs that `prepare` packs, in the struct's order."""
        described = self.tensors()
        return tuple(field.name for field in self.inputs() if field.marker.constant and field.name in described)

    def sizes(self) -> Sizes:
        """The symbols of the size patterns, bound by attributes and by majority of the tensors."""
        return self._known_sizes

    @cached_property
    def _known_sizes(self) -> Sizes:
        return self._bound_sizes()

    def _bound_sizes(self) -> Sizes:
        known = Sizes()
        for symbol, because in self.size_methods().items():
            known.fix(symbol, getattr(self, symbol)(), partial(_reason_of, because, getattr(self, because)))
        for slot in self.slots():
            if slot.tensor is None:
                continue
            sizes, pattern = slot.tensor.sizes, self.terms(slot.field)
            least, most = self._possible_dims(slot.field.name)
            # A tensor of a rank that no level takes is itself wrong, so it is not evidence for the others' sizes.
            terms = self.aligned(slot, len(sizes)) if least <= len(sizes) <= most else None
            if terms is not None:
                known.add_tensor(slot.place, pattern, terms, sizes)
            if terms is None:
                # Missing or extra leading ones are the usual mistake: the last dimensions still show what is meant.
                for term, length in zip(reversed(pattern), reversed(sizes), strict=False):
                    if term.run:
                        break
                    known.add_fallback(term, length)
        for symbol, formula in self.derived_sizes().items():
            with suppress(UnboundSymbolError):
                known.derive(symbol, getattr(self, symbol), formula)
        return known

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        """The size pattern of a tensor in this desc: the field's pattern, unless an attribute or another tensor changes it."""
        return field.marker.terms

    def aligned(self, slot: Slot, dimension_count: int) -> tuple[Term, ...] | None:
        """The pattern's term for each of a tensor's dimensions; None if the pattern has another dimension count."""
        return align(self.terms(slot.field), dimension_count)

    def type_variable(self, field: TensorField) -> TypeSet | str:
        """The set of types, or the type variable, of a tensor in this desc: the field's, unless an attribute changes it."""
        return field.marker.types

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        """The remedy for a tensor whose sizes do not match its pattern, if an attribute determines the pattern."""
        return None

    def inferred_sizes(self, field: TensorField) -> tuple[int, ...] | None:
        """The sizes of an output as the inputs determine them, or None if they do not."""
        return self.sizes().infer(self.terms(field))

    def fuller_remedy(self, field: TensorField, least: int) -> str | None:
        """A remedy for a tensor with fewer dimensions than the `least` of a level, if leading ones are not the remedy."""
        return None

    def with_outputs(self, *names: str, data_types: Mapping[str, DataType | str | int | None] | None = None) -> Self:
        """Returns a copy that describes these outputs, packed, with the sizes and type that the inputs determine.

        Args:
            names: output fields in either spelling; none means all that the desc may have.
            data_types: the types of outputs for which the operator has a choice, by field; None stands for the one that is inferred.

        Raises:
            DescError: no such output, or the inputs do not determine its sizes.
        """
        return self.replace(**inferred_outputs(self, names, {} if data_types is None else data_types))

    def rule_problems(self, name: str, symbols: Sizes, level: FeatureLevel) -> list[Problem]:
        """The violations of one of the operator's rules, by its name."""
        try:
            violations: list[Violation] = list(getattr(self, name)(symbols, level))
        except UnboundSymbolError:
            return []  # a rule on a symbol that no well-formed tensor binds: the tensors' problems are reported instead
        return [Problem(name, item.path, item.found, item.expected, item.why, item.remedy, c_remedy=item.c_remedy) for item in violations]

    def applicable_outputs(self) -> tuple[str, ...]:
        """The outputs that a desc with these attributes and inputs may describe."""
        return tuple(field.name for field in self.outputs())

    def undetermined_sizes(self, output: TensorField) -> Iterator[Problem]:
        """The reasons why an output's sizes are unknown: a tensor of the wrong rank hides a symbol, or attributes do not determine it."""
        symbols = self.sizes()
        for term in self.terms(output):
            symbol = f"len({term.symbol})" if term.run else term.symbol
            if symbol is None or symbol in symbols:
                continue
            if (formula := self.derived_sizes().get(term.symbol or "")) is not None:
                remedy = "dml.check(desc) reports the cause"
                yield Problem("size.unknown", output.name, "not determined", f"{term} = {formula}", remedy=remedy)
                return  # the others follow from the same inputs and attributes
            for field in () if term.run else self.inputs():
                desc, pattern = None if field.listed else getattr(self, field.name), self.terms(field)
                if desc is not None and any(other.symbol == symbol for other in pattern):
                    least = sum(not other.run for other in pattern)
                    expected = f"{'at least ' if least < len(pattern) else ''}{plural(least, 'dimension')}, {show(pattern)}"
                    found = Count(f"{plural(len(desc.sizes), 'dimension')} {listed(desc.sizes)}")
                    yield Problem("size.unknown", f"{field.name}.sizes", found, expected, (f"{output.name} needs {symbol}",))

    def inferred_type(self, field: TensorField) -> Any:
        """The type of an output: that of the tensors which share its type variable."""
        variable = self.type_variable(field)
        if not isinstance(variable, str):
            return min(variable)
        same = [slot for slot in self.slots() if slot.tensor is not None and self.type_variable(slot.field) == variable]
        inputs = [slot for slot in same if not slot.field.marker.output]
        source = [attribute for attribute in self.attribute_fields() if attribute.limits.type_of == field.name]
        if source and not inputs:
            return getattr(self, source[0].name)
        # If no input is described, another output determined the sizes and so determines the type.
        data_types = [slot.tensor.data_type for slot in inputs or same if slot.tensor is not None]
        if data_types and all(data_type is data_types[0] for data_type in data_types):
            return data_types[0]
        allowed = row_at(self.rows() or self.support, max(FeatureLevel)).types[variable]
        # If none of their types is allowed, the output takes the same wrong type: another would look like a suggestion.
        candidates = [data_type for data_type in data_types if data_type in allowed] or data_types or [min(allowed)]
        return max(candidates, key=candidates.count)

    @check_flags
    def to_dict(self, *, flat: bool = False) -> dict[str, Any]:
        """The desc as JSON data in the C spelling, in the form of DxDispatch models.

        Args:
            flat: members next to `Type` instead of nested in `Desc`.
        """
        members: dict[str, Any] = {}
        counted = self.counts_before()
        for name in type(self).model_fields:
            value = getattr(self, name)
            if value is None:
                continue
            if name in counted:
                members[counted[name]] = len(value)
            members[c_member(name)] = c_value(value)
        return {"Type": self.type_name, **members} if flat else {"Type": self.type_name, "Desc": members}

    def to_nested_dict(self) -> dict[str, Any]:
        """The desc as flat JSON data, the form that DxDispatch models use inside other structs."""
        return self.to_dict(flat=True)

    def to_json(self, *, flat: bool = False, indent: int | None = 2) -> str:
        """The desc as JSON text. Infinities and NaN are written as `"inf"`, `"-inf"`, `"nan"`."""
        return to_json_text(self.to_dict(flat=flat), indent, f"{self.c_name}.to_json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Builds a desc from JSON data, nested or flat; `Type` may be left out where the class is an operator's.

        Raises:
            DescError: an unknown operator, another operator than the class's, or members that cannot be read.
        """
        if not isinstance(data, Mapping):
            raise DescError(cls.c_name or "operator", [Problem("field.form", "", brief(data), "an object with Type and Desc")])
        data = plain(data, cls.c_name or "operator")
        members = unwrap(data)
        kind: type[OperatorDesc] = operator_class(members.pop("Type")) if "Type" in members else cls
        if not kind.type_name:
            raise DescError("operator", [Problem("field.missing", "type", "missing", "an operator's type, like DML_OPERATOR_RNN")])
        if not issubclass(kind, cls):
            raise DescError(cls.c_name, [Problem("field.form", "type", kind.type_name, cls.type_name or f"a kind of {cls.__name__}")])
        nested = next((value for key, value in data.items() if str(key).lower() == "desc"), None)
        if kind.member_named("Type") is not None and isinstance(nested, Mapping) and "Type" in nested:
            members["Type"] = nested["Type"]  # where the operator's type is given too, Type is an ordinary member, as in RANDOM_GENERATOR
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
        """Builds a desc from JSON text.

        Raises:
            DescError: as `from_dict`, or the text is not JSON.
        """
        return cls.from_dict(read_json(text, cls.c_name or "operator"))

    def table(self, problems: Iterable[Problem] = ()) -> Table:
        """The members with their layouts; members that the problems concern are marked."""
        from dmlpy.messages.tables import MAX_ROWS, Table

        broken = {problem.field for problem in read_problems(problems, f"{self.c_name}.table")}
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
            if isinstance(value, tuple) and name in markers:
                rows += [(f"{name}[{index}]", kind, *tensor.cells()) for index, tensor in enumerate(value[:MAX_ROWS])]
                rows += [("", kind, f"... {len(value) - MAX_ROWS} more", "", "", "", "")] if len(value) > MAX_ROWS else []
                continue
            cells = value.cells() if isinstance(value, TensorDesc) else ("", show_attribute(value), "", "", "")
            rows.append((name, kind, *cells))
        headings = ("field", "kind", "type", "sizes", "strides", "bytes", "layout")
        return Table(f"{self.c_name}", headings, tuple(rows), frozenset(marked))

    def __str__(self) -> str:
        return self.table().to_text()

    def __rich__(self) -> Any:
        return self.table()

    def _repr_html_(self) -> str:
        return self.table().to_html()


def _reason_of(because: str, value: Any) -> str:
    """Why an attribute determines a symbol."""
    return f"{because} is {value}"


_MOST_ENTRIES_SHOWN = 64


def show_attribute(value: Any) -> str:
    """Formats an attribute for a table or a message."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        more = [f"... {len(value) - _MOST_ENTRIES_SHOWN} more"] if len(value) > _MOST_ENTRIES_SHOWN else []
        return ", ".join([*(show_attribute(item) for item in value[:_MOST_ENTRIES_SHOWN]), *more])
    if isinstance(value, OperatorDesc):
        name = value.short_name().removeprefix("ACTIVATION_")
        given = [f"{item}={getattr(value, item):g}" for item in value.attribute_names() if isinstance(getattr(value, item), float)]
        return f"{name}({', '.join(given)})" if given else name
    return str(value)


class FusableDesc(OperatorDesc):
    """An operator that other structs may hold as a function. There its tensors are null; used alone it needs them."""


if TYPE_CHECKING:
    from dmlpy.description.coercion import Member

    TensorDescs = Member[tuple[TensorDesc, ...], Iterable[TensorDesc]]
else:
    TensorDescs = Annotated[tuple[TensorDesc, ...], read_by(lambda value: entries(value) if isinstance(value, Iterable) else value)]
    """An array of tensors: JOIN's inputs, SPLIT's outputs."""


class SomeOutputDesc(OperatorDesc):
    """An operator whose outputs are all optional."""

    @rule("at least one output is described")
    def some_output(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        names = [field.name for field in self.outputs()]
        if not any(getattr(self, name) is not None for name in names):
            expected = f"at least one of {', '.join(names)}"
            yield Violation(names[0], "missing like every other output", expected, (), "use with_outputs(...)", "describe one")
