"""`TensorArguments`: maps the names and lists that a caller gives to an operator's tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.coercion import brief
from dmlpy.messages.naming import c_member, c_path, did_you_mean, is_c_style, listed, plural, with_article
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.markers import In, TensorField

CONSTANTS = "constant input"
"""The kind of the inputs that `prepare` takes."""

_MAX_REPORTED = 10
"""The most unnamed keys that are reported one by one."""


class TensorArguments:
    """The tensors that a method takes. Everything independent of their memory is computed once, for all calls. Threads may share it.

    Attributes:
        fields: the tensor members that are taken, each element of an array of tensors as a separate one.
        descs: the tensors that the desc describes, by place, in the struct's order.

    Args:
        desc: the operator.
        fields: the fields, as the attribute.
        kind: their kind, for messages: `input`, `output`, ...
        order: the places that a list stands for, in the struct's order; None where the method takes no lists.
        packable: the inputs that `prepare` could take instead.
        packed: the places that `prepare` has taken.
        returned: whether the caller gets the outputs, and cannot give memory for them.
    """

    def __init__(
        self,
        desc: OperatorDesc,
        fields: Sequence[TensorField],
        kind: str,
        order: Sequence[str] | None = None,
        packable: Sequence[str] = (),
        packed: Sequence[str] = (),
        *,
        returned: bool = False,
    ) -> None:
        described = desc.tensors()
        self.fields = tuple(fields)
        self.descs = {field.name: described[field.name] for field in fields if field.name in described}
        self._desc, self._kind, self._order, self._packable, self._packed = desc, kind, order, packable, packed
        self._returned = returned
        names = [field.name for field in fields]
        self._spellings = {spelling: name for name in (*names, *packed) for spelling in (c_path(name), name)}
        arrays = {field.name: tuple(name for name in names if name.startswith(f"{field.name}[")) for field in desc.tensor_fields()}
        self._arrays = {spelling: places for name, places in arrays.items() if places for spelling in (c_member(name), name)}

    def by_place(self, values: Any) -> tuple[dict[str, Any], list[Problem]]:
        """Values by place, without None; a value that does not belong here is a problem.

        Args:
            values: the caller's values: a mapping by name in either spelling, or a list of all in the struct's order, with None for those
                that are absent.
        """
        if (plain := self._plain(values)) is not None:
            return plain, []
        if self._order is not None and isinstance(values, list | tuple):
            values, problems = in_order(values, self._order, self._kind)
        else:
            values, problems = named(values, self._kind, in_order=self._order is not None)
        values, wrong = _one_by_one(self._desc, values)
        problems += wrong
        placed, wrong = self._read(values)
        return placed, problems + wrong

    def _plain(self, values: Any) -> dict[str, Any] | None:
        """The fast path for usual calls: values by place, or None if a name may be wrong, which `_read` then reports."""
        if type(values) is not dict:
            if self._order is None or type(values) not in (list, tuple) or len(values) != len(self._order):
                return None
            values = dict(zip(self._order, values, strict=True))
        placed: dict[str, Any] = {}
        absent = False
        for spelling, value in values.items():
            place = self._spellings.get(spelling) if type(spelling) is str else None
            if place is not None:
                if place in placed:
                    return None
                placed[place] = value
                absent |= value is None
            else:
                places = self._arrays.get(spelling, ()) if type(spelling) is str else ()
                if type(value) not in (list, tuple) or len(value) != len(places) or not placed.keys().isdisjoint(places):
                    return None
                placed.update(zip(places, value, strict=True))
                absent = True
        if absent:
            placed = {place: value for place, value in placed.items() if value is not None}
        return placed if placed.keys() <= self.descs.keys() else None

    def _read(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        desc, kind, problems = self._desc, self._kind, list[Problem]()
        names = {field.name for field in self.fields}
        elsewhere = {slot.place: slot.field.marker for slot in desc.slots() if slot.place not in names}
        left_null = {slot.place for slot in desc.slots() if slot.tensor is None}
        placed: dict[str, Any] = {}
        named_members: set[str] = set()
        for spelling, value in values.items():
            name = _place_named(desc, spelling)
            if name in named_members:
                problems.append(Problem("bind.twice", spelling, "given twice", f"{name} or {c_member(name)}, not both"))
                continue
            named_members |= {name} if name else set()
            if name in elsewhere and not (name in left_null and elsewhere[name].constant):
                if value is not None:
                    problems.append(self._packed_input_problem(name, elsewhere[name]))
            elif name not in names and name not in elsewhere:
                remedy = desc.unused_remedy(spelling) or did_you_mean(spelling, names, c_member if is_c_style(spelling, values) else str)
                problems.append(
                    Problem(
                        "bind.unknown",
                        spelling,
                        f"not among the {kind}s of {desc.c_name}",
                        f"one of {', '.join(sorted(names))}" if names else f"nothing: it has no {kind}s",
                        remedy=remedy,
                    )
                )
            elif value is not None and name not in self.descs:
                remedy = f"pass None, or compile a desc that describes {name}"
                problems.append(Problem("bind.unexpected", name, "given", "nothing: the desc leaves it null", remedy=remedy))
            elif value is not None:
                placed[name] = value
        return placed, problems

    def missing(self, values: Mapping[str, Any], earlier: Iterable[Problem] = ()) -> list[Problem]:
        """A problem for each described tensor that no memory was given for.

        Args:
            values: what was given, by place.
            earlier: the problems that `by_place` found: those that follow from them are left out.
        """
        if self.descs.keys() <= values.keys():
            return []
        # Where an array of tensors was given as something else than a list, that is reported, and not that each tensor has no memory.
        unread = {self._desc.member_named(problem.path) for problem in earlier if problem.code == "bind.count"}
        return [
            Problem("bind.missing", field.name, "not given", f"memory for {self.descs[field.name].summary()}", remedy=self._remedy(field))
            for field in self.fields
            if field.name in self.descs and field.name not in values and field.name.partition("[")[0] not in unread
        ]

    def _remedy(self, field: TensorField) -> str | None:
        """The remedy for a tensor that no memory was given for."""
        ways = [f"pack it once with prepare({field.name}=...) and bind what that returns"] if field.name in self._packable else []
        ways += [f"compile a desc that leaves it null: replace({field.name}=None)"] if field.optional else []
        return ", or ".join(["pass it", *ways]) if ways else None

    def _packed_input_problem(self, name: str, marker: In) -> Problem:
        """The problem for a tensor of the operator that is not bound here."""
        if name in self._packed and self._kind != "output":
            return Problem("bind.packed", name, "given", "nothing: the packed constants contain it")
        if marker.output and self._returned:
            return Problem("bind.misplaced", name, "an output", f"{self._kind}s only: the outputs are returned")
        side = "output" if marker.output else "input"
        ownable = side == "input" and self._kind == CONSTANTS and self._desc.accepts_owned
        other = ", or compile a desc whose tensor has the flag OWNED_BY_DML, which makes it constant" if ownable else ""
        return Problem("bind.misplaced", name, with_article(side), f"{self._kind}s only", remedy=f"pass it with the {side}s{other}")


def named(values: Any, kind: str, *, in_order: bool = False) -> tuple[dict[str, Any], list[Problem]]:
    """Reads the caller's bindings by name; an unknown name is a problem.

    Args:
        values: the caller's values.
        kind: their kind, for messages: `input`, `output`, ...
        in_order: whether a list would have been accepted too.
    """
    try:
        items = dict(values.items())
    except Exception:  # not a mapping, or one whose methods raise anything
        expected = "a mapping of names to memory" + ", or a list in the struct's order" * in_order
        return {}, [Problem("bind.form", f"{kind}s", brief(values), expected)]
    nameless = [key for key in items if not isinstance(key, str)]
    problems = [
        Problem("bind.form", f"{kind}s", f"the key {brief(key)}", "a string, the name of a tensor") for key in nameless[:_MAX_REPORTED]
    ]
    return {str.__str__(key): value for key, value in items.items() if isinstance(key, str)}, problems


def in_order(values: Sequence[Any], order: Sequence[str], kind: str) -> tuple[dict[str, Any], list[Problem]]:
    """Reads the caller's positional bindings by name; too few or too many are a problem.

    Args:
        values: the caller's values, a list or tuple.
        order: the names that the positions stand for.
        kind: their kind, for messages: `input`, `output`, ...
    """
    try:
        items = [*values]
    except Exception:  # a caller's list class, whose methods may raise anything
        return {}, [Problem("bind.form", f"{kind}s", brief(values), "a list that can be read")]
    problems = []
    if len(items) != len(order):
        expected = f"{len(order)}, with None for each that is absent: {listed(order)}"
        problems.append(
            Problem(
                "bind.count",
                f"{kind}s",
                f"a list of {len(items)}" if items else "an empty list",
                expected,
                remedy="pass them by name: {name: memory}",
            )
        )
    return dict(zip(order, items, strict=False)), problems


def _one_by_one(desc: OperatorDesc, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Splits lists for arrays of tensors: `input_tensors=[a, b]` becomes `input_tensors[0]` and `input_tensors[1]`."""
    listed = {field.name for field in desc.tensor_fields() if field.listed}
    placed: dict[str, Any] = {}
    problems = []
    for spelling, value in values.items():
        name = desc.member_named(spelling)
        if name not in listed or value is None:
            placed[spelling] = value
            continue
        count = len(getattr(desc, name))
        try:
            items = [*value] if isinstance(value, list | tuple) else None
        except Exception:  # a caller's list class, whose methods may raise anything
            items = None
        if items is None:
            remedy = f"{spelling}=[...]"
            found_type = f"of type {type(value).__name__}"
            problems.append(Problem("bind.count", spelling, found_type, f"a list of {count}, one for each tensor", remedy=remedy))
            continue
        if len(items) > count:  # too few are reported one by one, as missing
            problems.append(Problem("bind.count", spelling, plural(len(items), "array"), f"{count}, one for each tensor"))
        for index, item in enumerate(items[:count]):
            place = f"{name}[{index}]"
            if any(_place_named(desc, other) == place for other in values):
                problems.append(Problem("bind.twice", place, "given twice", f"in {spelling} or by itself, not both"))
            placed[place] = item
    return placed, problems


def _place_named(desc: OperatorDesc, spelling: str) -> str | None:
    """The place for a name in either spelling: `InputTensors[0]` is `input_tensors[0]`; None if there is no such member."""
    member, bracket, index = spelling.partition("[")
    name = desc.member_named(member)
    return name and f"{name}{bracket}{index}"
