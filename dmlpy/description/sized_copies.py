"""`SizedTemplate`: an object whose numbers are formulas of symbolic sizes, and its copies for sizes that are known.

An ONNX model of dynamic sizes is lowered once with symbolic sizes. The lowered program is a template: for other sizes it is copied, with
their numbers, as long as all guards of the trace hold (see `symbolic_sizes`). What is planned from a part of the template, such as a
node's plan, is derived in the same way: computed once with symbolic sizes, then copied. The first copies are compared with what the
planning yields for the numbers; if one differs, nothing is derived there any more. Where only the comparisons of such a derivation come out
differently, it is derived again, for these sizes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cached_property, lru_cache
from operator import itemgetter
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.markers import TensorField
from dmlpy.description.sized_arrays import SizedArray, SizedBytes
from dmlpy.description.structs import Struct
from dmlpy.description.symbolic_sizes import NoTemplateError, SizeTrace, active_examples, is_symbolic, places_of
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from dmlpy.description.symbolic_sizes import Formulas

_Step: TypeAlias = "Callable[[Sequence[int], list[Any]], Any]"
"""Makes an object from the numbers of a trace and the results of the steps before it."""

Derivation: TypeAlias = "Callable[[Any, bool], Any]"
"""A function of a part of a template, or of that part's copy; the second argument is whether sizes are symbolic."""

_WITHOUT_SIZES = (int, float, str, bytes, NoneType, Enum, np.ndarray, np.dtype, np.ufunc, type, TensorField)
"""The kinds of objects that hold no symbolic sizes."""


class Kinds(NamedTuple):
    """Classes of objects, besides structs, dataclasses and containers, that an object may consist of.

    Attributes:
        shared: those that hold no sizes: copies share them.
        fixed: those whose attributes may be sizes and do not change.
        changing: those whose attributes may be sizes and change: each copy has its own dicts, lists and sets.
    """

    shared: tuple[type, ...] = ()
    fixed: tuple[type, ...] = ()
    changing: tuple[type, ...] = ()


_NO_KINDS = Kinds()


def example_of(item: Any) -> Any:
    """A copy of an object with the example's numbers in place of symbolic sizes, where these are of the trace that is active."""
    copier = _Copier(Kinds())
    step = copier.add(item)
    if step is None:
        return item
    values = active_examples()
    return _copy_of(step, values, copier.copy(values, []))


class SizedTemplate:
    """An object that was made with symbolic sizes.

    Args:
        trace: the trace of the sizes.
        item: the object.
        shared: further kinds of objects that hold no sizes.

    Attributes:
        notes: results for some copy of the object that help to compute those of others, by key.

    Raises:
        NoTemplateError: the object depends on the numbers, or holds others of unknown kinds.
    """

    def __init__(self, trace: SizeTrace, item: Any, shared: tuple[type, ...] = ()) -> None:
        self._trace, self._item = trace, item
        self._copier = _Copier(Kinds(shared))
        self._copier.add(item)
        self._formulas = _formulas(trace, self._copier)
        self._variants: dict[Hashable, _Variants] = {}
        self.notes: dict[Hashable, Any] = {}
        self._lock = forks.lock()
        """Held while the trace grows: what other threads compare meanwhile belongs to another stage."""

    def copy(self, sizes: Sequence[int]) -> SizedCopy | None:
        """A copy for these sizes of the symbols; None if a guard fails, so that the object may differ."""
        values = self._formulas.values(sizes)
        try:
            return None if values is None else SizedCopy(self, tuple(sizes), values, self._copier.copy(values, []))
        except NoTemplateError:
            return None

    def variants_of(self, key: Hashable, before: _Derived | None) -> _Variants:
        """What was derived for a key, from what was derived before."""
        return (self._variants if before is None else before.variants).setdefault(key, _Variants())

    def derive(
        self, variants: _Variants, sizes: Sequence[int], source: Any, compute: Callable[[Any], Any], kinds: Kinds, before: _Derived | None
    ) -> None:
        """Adds the result of a function of a part of the object for these sizes, as a template, unless it depends on the numbers."""
        with self._lock:
            self._trace.set_example(sizes)
            try:
                with self._trace.active():
                    result = compute(source)
                copier = _Copier(kinds, self._copier if before is None else before.copier)
                step = copier.add(result)
                formulas = _formulas(self._trace, copier, self._formulas if before is None else before.formulas)
            except Exception:  # of code that does not take symbolic sizes: with integers it is another one, or none
                self._trace.end_stage()
                variants.add(None)
            else:
                if before is not None:
                    copier.forget_objects()
                variants.add(_Derived(formulas, copier, step, result if before is None or step is None else None))


def _formulas(trace: SizeTrace, copier: _Copier, before: Formulas | None = None) -> Formulas:
    formulas = trace.end_stage(before)
    if formulas is None:
        raise NoTemplateError
    formulas.select(copier.places)
    return formulas


_TIMES_COMPARED = 2
"""How many copies of a derived result are compared with the function's result: the first may be for the example's sizes."""


@dataclass
class _Derived:
    """The result of a function of a part of a template.

    Attributes:
        formulas: the numbers in it.
        copier: copies it.
        step: the step that makes the copy; None if it holds no sizes.
        item: the result, with symbolic sizes.
        compared: the sizes for which a copy was compared with the function's result.
        variants: what is derived from it in turn, by key.
    """

    formulas: Formulas
    copier: _Copier
    step: int | None
    item: Any
    compared: list[Sequence[int]] = field(default_factory=list)
    variants: dict[Hashable, _Variants] = field(default_factory=dict)

    def is_tested(self, sizes: Sequence[int]) -> bool:
        """Whether the copy for these sizes needs no comparison any more."""
        return len(self.compared) >= _TIMES_COMPARED or sizes in self.compared


_MOST_VARIANTS = 4
"""The most variants of a derived result, and the most failed attempts at one."""


class _Variants:
    """The results of one function: each holds for the sizes with which its comparisons come out as they did for its example.

    Attributes:
        items: the results, in the order of their last use.
        is_refused: whether nothing is derived.
    """

    def __init__(self) -> None:
        self.items: list[_Derived] = []
        self.is_refused = False
        self._failures = 0
        self._misses, self._patience = 0, _MOST_VARIANTS

    def use(self, item: _Derived) -> None:
        """Makes a result the last used one."""
        with suppress(IndexError, ValueError):  # another thread replaced it, or refused all
            if self.items[-1] is not item:
                self.items.remove(item)
                self.items.append(item)

    def take_miss(self) -> bool:
        """Notes sizes for which no result holds; returns whether one is to be made, which takes longer than the function itself."""
        self._misses += 1
        return not self.is_refused and (len(self.items) + self._failures < _MOST_VARIANTS or self._misses > self._patience)

    def add(self, item: _Derived | None) -> None:
        """Adds a result, or notes that there is none. It replaces the least recently used one where there are enough."""
        if len(self.items) + self._failures >= _MOST_VARIANTS:
            self._patience *= 2  # so that sizes for which none lasts cost little more than without
        self._misses = 0
        if item is None:
            self._failures += 1
            self.is_refused = not self.items
            return
        if len(self.items) + self._failures >= _MOST_VARIANTS:
            del self.items[:1]
        self.items.append(item)

    def refuse(self) -> None:
        """Derives nothing more."""
        self.items, self.is_refused = [], True


@dataclass(frozen=True)
class DerivedCopy:
    """The copy of a derived result.

    Attributes:
        item: the copy.
        symbolic: the result with symbolic sizes; None of one that another was derived before.
    """

    item: Any
    symbolic: Any
    _derived: _Derived
    _parts: list[Any]

    def part(self, source: Any) -> Any:
        """The copy of this part of the symbolic result."""
        return self._derived.copier.copy_of(source, self._parts)


class SizedCopy:
    """A copy of a template's object for sizes that are known, and copies of results that are derived from its parts.

    Args:
        template: the template.
        sizes: the sizes of the symbols.
        values: the numbers, by place.
        parts: the parts of the copy.
    """

    def __init__(self, template: SizedTemplate, sizes: tuple[int, ...], values: list[int], parts: list[Any]) -> None:
        self._template, self._sizes, self._values, self._parts = template, sizes, values, parts

    def part(self, source: Any) -> Any:
        """The copy of this part of the template's object."""
        return self._template._copier.copy_of(source, self._parts)

    @property
    def item(self) -> Any:
        """The copy of the whole object."""
        return self.part(self._template._item)

    def note(self, key: Hashable, item: Any) -> None:
        """Notes a result for this copy, which may help to compute that of others; the first note of a key stays."""
        self._template.notes.setdefault(key, item)

    def noted(self, key: Hashable) -> Any:
        """The note of a key; None if there is none."""
        return self._template.notes.get(key)

    def derive(self, key: Hashable, source: Any, compute: Derivation, kinds: Kinds = _NO_KINDS, before: DerivedCopy | None = None) -> Any:
        """The item of `derived_copy`; None if there is none."""
        copy = self.derived_copy(key, source, compute, kinds, before)
        return None if copy is None else copy.item

    def derived_copy(
        self, key: Hashable, source: Any, compute: Derivation, kinds: Kinds = _NO_KINDS, before: DerivedCopy | None = None
    ) -> DerivedCopy | None:
        """The result of a function of the copy of a part, derived from the template; None if the function has to be called for the copy.

        Args:
            key: identifies the function and the part.
            source: the part of the template's object, or of what was derived before, which the function is applied to once for all sizes.
            compute: the function, of a part and whether its sizes are symbolic.
            kinds: classes of objects in its result.
            before: another result, of which this one may have parts; from this one nothing is derived in turn.
        """
        derived_before = None if before is None else before._derived
        variants = self._template.variants_of(key, derived_before)
        derived = self._variant(variants)
        if derived is None and variants.take_miss():
            self._template.derive(variants, self._sizes, source, lambda part: compute(part, True), kinds, derived_before)
            derived = self._variant(variants)
        if derived is None:
            return None
        parts = self._parts if before is None else before._parts
        try:
            parts = parts if derived.step is None else derived.copier.copy(self._values, parts)
        except NoTemplateError:
            return None
        copy = DerivedCopy(
            derived.item if derived.step is None else _copy_of(derived.step, self._values, parts), derived.item, derived, parts
        )
        if not derived.is_tested(self._sizes):
            if not is_alike(copy.item, compute((self if before is None else before).part(source), False)):
                variants.refuse()
                return None
            derived.compared.append(self._sizes)
        return copy

    def _variant(self, variants: _Variants) -> _Derived | None:
        """The result that holds for these sizes."""
        for derived in reversed(variants.items):
            if derived.formulas.add_to(self._values):
                variants.use(derived)
                return derived
        return None


class _Copier:
    """Copies objects with numbers in place of symbolic sizes; copies share what holds none.

    Args:
        kinds: classes of the objects.
        before: the copier of the objects that these may refer to; its copies are used here.

    Attributes:
        places: the places of the sizes in the objects.
    """

    def __init__(self, kinds: Kinds, before: _Copier | None = None) -> None:
        self._shared: tuple[type, ...] = (*(_WITHOUT_SIZES if before is None else before._shared), *kinds.shared)
        self._shared_kinds: dict[type, bool] = {}
        self._kinds, self._before = kinds, before
        self._start: int = 0 if before is None else before._start + len(before._steps)
        self._steps: list[_Step] = []
        self._tuples: dict[tuple[int, ...], int] = {}
        """The steps of tuples of sizes, by the places of these: many tensors have the same."""
        self.places: set[int] = set()
        self._known: dict[int, tuple[Any, int | None]] = {}
        """The steps of objects by `id`; the objects are held, so that these stay theirs."""

    def copy(self, values: Sequence[int], before: list[Any]) -> list[Any]:
        """The results of the steps, behind those of the copier before."""
        results = [*before]
        for step in self._steps:
            results.append(step(values, results))
        return results

    def copy_of(self, item: Any, results: list[Any]) -> Any:
        """The copy of an object that was added and is not a size, among the results of the steps."""
        known = self._find(item)
        assert known is not None or self._is_shared(item), "only what was added has copies"
        return item if known is None or known[1] is None else results[known[1]]

    def _is_shared(self, item: Any) -> bool:
        """Whether an object is of a kind that holds no sizes."""
        kind = type(item)
        if (shared := self._shared_kinds.get(kind)) is None:
            shared = self._shared_kinds[kind] = kind is not SizedBytes and issubclass(kind, self._shared)
        return shared and not (isinstance(item, np.ndarray) and item.dtype.hasobject)

    def forget_objects(self) -> None:
        """Frees the objects that were added: neither they nor what refers to them is asked for any more."""
        self._known, self._tuples, self.places = {}, {}, set()

    def _find(self, item: Any) -> tuple[Any, int | None] | None:
        """The step of an object that was added here, or to a copier before."""
        copier: _Copier | None = self
        while copier is not None:
            if (known := copier._known.get(id(item))) is not None:
                return known
            copier = copier._before
        return None

    def _find_tuple(self, places: tuple[int, ...]) -> int | None:
        """The step of a tuple of sizes, by their places."""
        copier: _Copier | None = self
        while copier is not None:
            if (step := copier._tuples.get(places)) is not None:
                return step
            copier = copier._before
        return None

    def add(self, item: Any) -> int | None:
        """The step that makes a copy of an object, for `_copy_of`; None if it holds no symbolic sizes.

        Raises:
            NoTemplateError: its kind is unknown.
        """
        if is_symbolic(item):
            self.places.add(item.place)
            return ~int(item.place)  # no step: half of what is copied are sizes
        if self._is_shared(item):
            return None
        known = self._find(item)
        if known is None:
            known = self._known[id(item)] = item, self._add(item)
        return known[1]

    def _step(self, step: _Step) -> int:
        self._steps.append(step)
        return self._start + len(self._steps) - 1

    def _add(self, item: Any) -> int | None:
        kind: Any = type(item)
        if kind in (SizedArray, SizedBytes):
            self.places |= item.places
            return self._step(lambda values, results: item.at(values))
        if kind is list or isinstance(item, tuple):
            return self._add_entries(item)
        if kind is slice:
            members = {"start": item.start, "stop": item.stop, "step": item.step}
            return self._add_parts(members, lambda parts: slice(*parts.values()))
        if kind is FunctionType:
            captured = *(cell.cell_contents for cell in item.__closure__ or ()), *(item.__defaults__ or ())
            if all(self.add(each) is None for each in captured):
                return None
        if kind is dict:
            return self._add_parts(item, _as_is)
        if isinstance(item, Struct):
            return self._add_parts(item._members() | _known_properties(item), _maker_of_struct(item))
        if is_dataclass(item):
            return self._add_parts(vars(item), _maker(kind))
        if isinstance(item, self._kinds.changing):
            return self._add_parts(vars(item), _maker_of_changing(kind), is_shared=False)
        if isinstance(item, self._kinds.fixed):
            return self._add_parts(vars(item), _maker(kind))
        if kind in (set, frozenset) and not any(self.add(entry) is not None for entry in item):
            return None
        raise NoTemplateError

    def _add_entries(self, item: Sequence[Any]) -> int | None:
        if type(item) is tuple and (places := places_of(item)) is not None:
            self.places.update(places)
            if (step := self._find_tuple(tuple(places))) is not None:
                return step
            step = self._tuples[tuple(places)] = self._step(_TupleStep(places))
            return step
        sizes, parts = self._changed(enumerate(item))
        if not sizes and not parts:
            return None
        kind = type(item)
        make: Callable[[list[Any]], Any] = kind._make if hasattr(kind, "_make") else _as_is if kind is list else tuple
        return self._step(_PartsStep(list(item), sizes, parts, make))

    def _add_parts(self, members: Mapping[Any, Any], make: Callable[[dict[Any, Any]], Any], *, is_shared: bool = True) -> int | None:
        sizes, parts = self._changed(members.items())
        return None if not sizes and not parts and is_shared else self._step(_PartsStep(dict(members), sizes, parts, make))

    def _changed(self, members: Iterable[tuple[Any, Any]]) -> tuple[_Changed, _Changed]:
        """The members that are symbolic sizes, with the places of these, and those that hold some, with the steps that copy them."""
        steps = [(name, step) for name, member in members if (step := self.add(member)) is not None]
        return tuple((name, ~step) for name, step in steps if step < 0), tuple((name, step) for name, step in steps if step >= 0)


_Changed: TypeAlias = "tuple[tuple[Any, int], ...]"
"""The names, or positions, of parts, each with a place of the trace or a step."""


class _TupleStep:
    """Makes a tuple of sizes: one object, as are all steps, of which a model has as many as the collector can look through in seconds."""

    __slots__ = ("_get", "_is_one")

    def __init__(self, places: Sequence[int]) -> None:
        self._get, self._is_one = itemgetter(*places), len(places) == 1

    def __call__(self, values: Sequence[int], results: list[Any]) -> Any:
        sizes = self._get(values)
        return (sizes,) if self._is_one else sizes


class _PartsStep:
    """Makes an object of its parts.

    Args:
        parts: a list or a dict of them, which the step keeps; those that hold sizes are freed.
        sizes: the parts that are sizes.
        changed: the parts that other steps copy.
        make: makes the object.
    """

    __slots__ = ("_changed", "_make", "_parts", "_sizes")

    def __init__(self, parts: Any, sizes: _Changed, changed: _Changed, make: Callable[[Any], Any]) -> None:
        self._parts, self._sizes, self._changed, self._make = parts, sizes, changed, make
        for name, _ in (*sizes, *changed):
            parts[name] = None

    def __call__(self, values: Sequence[int], results: list[Any]) -> Any:
        copy = self._parts.copy()
        for name, place in self._sizes:
            copy[name] = values[place]
        for name, step in self._changed:
            copy[name] = results[step]
        return self._make(copy)


def _as_is(parts: Any) -> Any:
    return parts


def _copy_of(step: int, values: Sequence[int], results: Sequence[Any]) -> Any:
    """The copy for a step that `_Copier.add` returned: the value of a size, or the result of the step."""
    return values[~step] if step < 0 else results[step]


def _known_properties(item: Struct) -> dict[str, Any]:
    """Attributes that copies take over: properties that are known without another comparison of sizes, and notes that hold for all sizes.

    All copies are as valid as this struct: that follows from the trace, as their numbers do.
    """
    properties = {name: getattr(item, name) for name in type(item).numbers if "_known_sizes" in item.__dict__}
    if isinstance(item, OperatorDesc):
        properties["has_bfloat16"] = item.has_bfloat16
    return properties | {name: item.__dict__[name] for name in ("_valid_at", "_origins") if name in item.__dict__}


def _maker_of_struct(item: Struct) -> Callable[[dict[str, Any]], Struct]:
    """Makes structs with other members."""
    kind, given = type(item), item.__pydantic_fields_set__

    def make(members: dict[str, Any]) -> Struct:
        struct = kind.__new__(kind)
        struct._adopt(members, given)
        return struct

    return make


@lru_cache(maxsize=512)
def _maker(kind: type) -> Callable[[dict[Any, Any]], Any]:
    def make(parts: dict[str, Any]) -> Any:
        instance: Any = object.__new__(kind)
        object.__setattr__(instance, "__dict__", parts)  # what a frozen dataclass refuses
        return instance

    return make


@lru_cache(maxsize=512)
def _maker_of_changing(kind: type) -> Callable[[dict[Any, Any]], Any]:
    """Makes objects that may change their own dicts, lists and sets."""
    make = _maker(kind)
    return lambda parts: make({name: part.copy() if type(part) in (dict, list, set) else part for name, part in parts.items()})


def is_alike(one: object, other: object) -> bool:
    """Whether two objects are equal in all their parts."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(is_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and all(is_alike(one[name], other[name]) for name in one)
    if is_dataclass(one) and not isinstance(one, type):
        return all(is_alike(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    if isinstance(one, Struct) or type(one).__eq__ is not object.__eq__:
        return bool(one == other)
    return is_alike(_uncached(one), _uncached(other))


def _uncached(item: object) -> dict[str, Any]:
    """The attributes of an object without those that follow from others when they are asked for."""
    kind = type(item)
    return {name: part for name, part in vars(item).items() if not isinstance(getattr(kind, name, None), cached_property)}
