"""The marks on a struct's members and methods, for tensors, attributes, sizes and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dmlpy.description.enums import DataType, DmlEnum, FeatureLevel
from dmlpy.description.sizes import Derived, Sizes, parse
from dmlpy.description.support import TypeSet
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import alternatives, plural
from dmlpy.messages.problems import Problem


class In:
    """Marks a tensor field as an input.

    Args:
        pattern: its sizes (see `dmlpy.description.sizes`).
        types: a set of types, or the name of a type variable that it shares with other tensors.
        constant: whether it usually stays the same from dispatch to dispatch, so that `prepare` packs it once.
        at_most: the symbol that no value in it may exceed.
        null_when_fused: whether it is null while the operator is part of another struct (activations).
        required: whether the C struct must have it though a desc may be built without it, so that `with_outputs` can describe it.
        if_half: the remedy if a size is half of the expected one.
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


class Limits:
    """Marks an attribute with the values that it may hold; for an array, of each entry.

    Args:
        least: the smallest value.
        most: the largest value.
        length: the number of entries of an array: a number, or a symbol of the sizes (`len(sizes)`).
        axis_of: the run whose dimensions the values index: `axis_of="sizes"` is 0 to len(sizes) - 1.
        nonzero: whether 0 is refused.
        one_of: the only values allowed, of an enumeration or a number.
        since: members of an enumeration that a later feature level brought: `{"WRAP": "6_4"}`.
        type_of: the tensor field whose element type the value must be.
        or_unknown: whether UNKNOWN stands for that type, too.
    """

    def __init__(
        self,
        *,
        least: float | None = None,
        most: float | None = None,
        length: int | str | None = None,
        axis_of: str | None = None,
        nonzero: bool = False,
        one_of: Sequence[Any] = (),
        since: Mapping[str, str] | None = None,
        type_of: str | None = None,
        or_unknown: bool = False,
    ) -> None:
        self.least = least
        self.most = most
        self.length = length
        self.axis_of = axis_of
        self.nonzero = nonzero
        self.one_of = tuple(one_of)
        self.since = {name: FeatureLevel.parse(level) for name, level in (since or {}).items()}
        self.type_of = type_of
        self.or_unknown = or_unknown
        self.are_of_entries = bool(axis_of or nonzero or one_of or since) or least is not None or most is not None

    def text(self) -> str:
        """The limits in words, for documentation; empty if nothing is limited."""
        parts = []
        if self.axis_of is not None:
            parts.append(f"a dimension, 0 to len({self.axis_of}) - 1")
        if self.least is not None and self.most is not None:
            parts.append(f"{_number(self.least)} to {_number(self.most)}")
        elif self.least is not None:
            parts.append(f"at least {_number(self.least)}")
        elif self.most is not None:
            parts.append(f"at most {_number(self.most)}")
        parts += ["not 0"] if self.nonzero else []
        parts += [f"only {' or '.join(map(_number, self.one_of))}"] if self.one_of else []
        parts += [f"{name} from feature level {level} on" for name, level in self.since.items()]
        parts += [f"the element type of {self.type_of}{', or UNKNOWN' if self.or_unknown else ''}"] if self.type_of else []
        parts += [f"{self.length} entries" if self.length != 1 else "1 entry"] if self.length is not None else []
        return "; ".join(parts)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class TensorField:
    """A tensor member of an operator's struct."""

    name: str
    marker: In
    optional: bool
    """Whether the struct may leave it null."""
    listed: bool = False
    """Whether it is an array of tensors."""


class AttributeField(NamedTuple):
    """A member of an operator's struct that is not a tensor."""

    name: str
    limits: Limits
    signed: bool
    """Whether its integers may be negative: an INT of the header."""


@dataclass(frozen=True)
class Slot:
    """One place for a tensor, as binding counts them: each element of an array of tensors has one.

    Attributes:
        place: `input_tensor`, or `input_tensors[0]` of an array.
        field: the member.
        tensor: the tensor that the desc describes there; None if it is null.
        index: the index in an array; None for a single tensor.
    """

    place: str
    field: TensorField
    tensor: TensorDesc | None
    index: int | None = None


@dataclass(frozen=True)
class Violation:
    """A violation that a `@rule` yields: the facts of a `Problem`, without the code."""

    path: str
    found: str
    expected: str
    why: tuple[str, ...] = ()
    remedy: str | None = None
    c_remedy: str | None = None


RuleMethod = Callable[[Any, Sizes, FeatureLevel], Iterable[Violation]]


def size(because: str) -> Callable[[Callable[[Any], int]], Callable[[Any], int]]:
    """Marks a method that computes the symbol of its name from an attribute, which `because` names."""

    def mark(method: Callable[[Any], int]) -> Callable[[Any], int]:
        method.dml_because = because  # type: ignore[attr-defined]
        return method

    return mark


DerivedMethod = Callable[[Any, Sizes], Derived | Sequence[Derived]]


def derived(text: str) -> Callable[[DerivedMethod], DerivedMethod]:
    """Marks a method that computes the symbol of its name from attributes and other symbols; `text` is the formula.

    A sequence as the result is a run of dimensions: `*out` of the pattern `"batch channels *out"`. A value may be an `Explained` with a
    separate reason, such as the formula with numbers filled in. An unbound symbol, or an `UnboundSymbolError` that the method raises
    where attributes make no sense, leaves the derived one unbound too. Methods run in the order of definition.
    """

    def mark(method: DerivedMethod) -> DerivedMethod:
        method.dml_derived = text  # type: ignore[attr-defined]
        return method

    return mark


def rule(text: str) -> Callable[[RuleMethod], RuleMethod]:
    """Marks a method as a rule, which yields a `Violation` for each violation in the desc.

    The method's name is the problem's code; `text` states the rule for documentation.
    """

    def mark(method: RuleMethod) -> RuleMethod:
        method.dml_rule = text  # type: ignore[attr-defined]
        return method

    return mark


def limit_problems(desc: Any, attribute: AttributeField, symbols: Sizes, level: FeatureLevel) -> Iterator[Problem]:
    """Yields the problems of one attribute that its `Limits` define.

    Args:
        desc: the desc.
        attribute: its attribute.
        symbols: the size symbols of the desc.
        level: the feature level.
    """
    limits, name, value = attribute.limits, attribute.name, getattr(desc, attribute.name)
    if value is None:
        return
    expected_count = symbols[limits.length] if isinstance(limits.length, str) and limits.length in symbols else limits.length
    if isinstance(expected_count, int) and isinstance(value, tuple) and len(value) != expected_count:
        why = (symbols.why(limits.length),) if isinstance(limits.length, str) else ()
        yield Problem("attribute.length", name, plural(len(value), "entry"), str(expected_count), why)
    if limits.are_of_entries:
        entries = [(f"{name}[{index}]", item) for index, item in enumerate(value)] if isinstance(value, tuple) else [(name, value)]
        for path, item in entries:
            yield from _entry_problems(limits, path, item, symbols, level)
    if limits.or_unknown and value is DataType.UNKNOWN:
        return
    if limits.type_of is not None and (tensor := getattr(desc, limits.type_of)) is not None and value is not tensor.data_type:
        why = (f"{limits.type_of} has elements of type {tensor.data_type}",)
        yield Problem("attribute.type", name, str(value), str(tensor.data_type), why)


def _entry_problems(limits: Limits, path: str, value: Any, symbols: Sizes, level: FeatureLevel) -> Iterator[Problem]:
    count = f"len({limits.axis_of})"
    if limits.axis_of is not None and count in symbols and not 0 <= value < symbols[count]:
        remedy = f"{value + symbols[count]} counts from the front" if -symbols[count] <= value < 0 else None
        yield Problem("attribute.axis", path, str(value), f"a dimension, 0 to {symbols[count] - 1}", (symbols.why(count),), remedy)
    if (limits.least is not None and not value >= limits.least) or (limits.most is not None and not value <= limits.most):
        bounds = Limits(least=limits.least, most=limits.most).text()
        yield Problem("attribute.range", path, str(value), bounds)
    if limits.nonzero and value == 0:
        yield Problem("attribute.range", path, str(value), "any number but 0")
    if limits.one_of and value not in limits.one_of:
        yield Problem("attribute.choice", path, str(value), alternatives(limits.one_of))
    if isinstance(value, DmlEnum) and limits.since.get(value.name, level) > level:
        since = limits.since[value.name]
        yield Problem(
            "attribute.level", path, str(value), f"another value at feature level {level}", remedy=f"feature level {since} supports it"
        )
