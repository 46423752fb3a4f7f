"""Descs made of `tests/facts/relations`: JSON data in the C spelling, as `OperatorDesc.from_dict` reads it.

dmlpy's own classes are not looked at. Nothing here is changed in place: whoever changes members makes new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support.descs import facts_reader as facts

Members = dict[str, Any]
LATEST = facts.levels()[-1]
UNSIGNED = "UINT"


@dataclass(frozen=True)
class Valid:
    """A valid desc: its members, and the lowest feature level at which it has to be valid."""

    about: str
    members: Members
    level: str = LATEST
    first_level: str | None = None
    """The level, where the relations name one."""


@dataclass(frozen=True)
class Wrong:
    """A desc that the constraints refuse: the rule, and the members one of which has to be named."""

    rule: str
    members: Members
    at: tuple[str, ...]
    level: str


def data(operator: str, members: Members) -> dict[str, Any]:
    """What `OperatorDesc.from_dict` reads."""
    return {"Type": operator, "Desc": members}


def tensor(given: Any) -> Any:
    """A tensor's members, of `FLOAT32 2 3`; whatever is not a text stays as it is."""
    if not isinstance(given, str):
        return given
    data_type, *sizes = given.split()
    return {"DataType": data_type, "Sizes": [int(size) for size in sizes]}


def converted(operator: str, given: Mapping[str, Any]) -> Members:
    """Members as the relations write them, with tensors as objects."""
    slots = facts.tensors(facts.operators()[operator])
    found: Members = {}
    for name, value in given.items():
        if name in slots:
            value = [tensor(item) for item in value] if isinstance(value, list) else tensor(value)
        found[name] = value
    return found


def with_counts(operator: str, members: Members) -> Members:
    """The members with the counts of those that are arrays, in the struct's order; names that are not members come last."""
    own = facts.fields(operator)
    found: Members = {}
    for name, field in own.items():
        arrays = [members[counted] for counted in facts.counted_by(field) if isinstance(members.get(counted), list)]
        if name in members:
            found[name] = members[name]
        elif "count_of" in field:
            found[name] = len(arrays[0]) if arrays else 0
    return found | {name: value for name, value in members.items() if name not in own}


@cache
def valid_descs(operator: str) -> tuple[Valid, ...]:
    """The valid descs that the relations give."""
    found = []
    for number, entry in enumerate(facts.relations()[operator].get("valid", [])):
        given = {name: value for name, value in entry.items() if name not in ("about", "level")}
        members = with_counts(operator, converted(operator, given))
        found.append(Valid(entry.get("about", f"number {number}"), members, entry.get("level", LATEST), entry.get("level")))
    return tuple(found)


@cache
def wrong_descs(operator: str) -> tuple[Wrong, ...]:
    """The wrong descs that the relations give, counts made to agree unless a change is about the count itself."""
    counts = {name for name, field in facts.fields(operator).items() if "count_of" in field}
    found = []
    for entry in facts.relations()[operator].get("wrong", []):
        base = valid_descs(operator)[entry.get("of", 0)]
        kept = {name: value for name, value in base.members.items() if name not in counts and name not in entry.get("remove", ())}
        members = with_counts(operator, kept | converted(operator, entry.get("change", {})))
        members = {name: value for name, value in members.items() if name not in entry.get("remove", ())}
        found.append(Wrong(entry["rule"], members, tuple(entry["at"]), entry.get("level", base.level)))
    return tuple(found)


def in_python(operator: str, members: Members) -> Members:
    """The members as arguments of the operator's class: names in Python's spelling, no counts. What is inside attributes stays."""
    counts = {name for name, field in facts.fields(operator).items() if "count_of" in field}
    slots = facts.tensors(facts.operators()[operator])
    return {
        facts.python_member(operator, name): _tensors_in_python(value) if name in slots else value
        for name, value in members.items()
        if name not in counts
    }


def _tensors_in_python(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensors_in_python(item) for item in value]
    if isinstance(value, dict):
        return {facts.python_name(name): item for name, item in value.items() if name != "DimensionCount"}
    return value


def places(operator: str, members: Members) -> dict[str, Members]:
    """The tensors that the members describe, by place: `InputTensor`, `InputTensors[0]`."""
    found: dict[str, Members] = {}
    for name in facts.tensors(facts.operators()[operator]):
        value = members.get(name)
        if isinstance(value, list):
            found |= {f"{name}[{index}]": item for index, item in enumerate(value)}
        elif value is not None:
            found[name] = value
    return found


def slot_of(place: str) -> str:
    """The member that a tensor's place lies in."""
    return place.partition("[")[0]


def with_tensor(members: Members, place: str, changes: Members) -> Members:
    """The members with those of one tensor changed."""
    slot, _, index = place.partition("[")
    if not index:
        return members | {slot: members[slot] | changes}
    number = int(index.rstrip("]"))
    return members | {slot: [item | changes if own == number else item for own, item in enumerate(members[slot])]}


def groups(operator: str, kind: str) -> list[list[str]]:
    """The groups of tensors that must agree in types (`types_together`), sizes or ranks."""
    found: list[list[str]] = facts.relations()[operator].get(kind, [])
    return found


def grouped(operator: str, members: Members, kind: str) -> list[list[str]]:
    """Places of the described tensors of each group, arrays spread out."""
    described = places(operator, members)
    return [[place for place in described if slot_of(place) in group] for group in groups(operator, kind)]


def packed(sizes: list[int]) -> list[int]:
    """The strides of packed elements."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return strides[: len(sizes)] if sizes else []


def with_leading_ones(operator: str, members: Members, count: int) -> Members | None:
    """The desc with dimensions of size 1 put in front (taken away, where the count is negative); None where that is impossible."""
    relation = facts.relations()[operator]
    listed = relation.get("leading_ones", False)
    if count == 0:
        return members
    if not listed:
        return None
    changed = members
    for place, own in places(operator, members).items():
        if listed is True or slot_of(place) in listed:
            longer = _resized(own, count)
            if longer is None:
                return None
            changed = with_tensor(changed, place, longer)
    shifted = {name: _shifted(operator, name, members[name], count) for name in relation.get("axes", []) if name in members}
    neutral = relation.get("per_dimension", {})
    longer_arrays = {name: _with_entries(members[name], neutral[name], count) for name in neutral if name in members}
    if None in [*shifted.values(), *longer_arrays.values()]:
        return None
    counts = [name for name, field in facts.fields(operator).items() if set(facts.counted_by(field)) & longer_arrays.keys()]
    changed = {name: value for name, value in changed.items() if name not in counts}
    return with_counts(operator, changed | shifted | longer_arrays)


def _resized(own: Members, count: int) -> Members | None:
    sizes = own["Sizes"]
    if any(size != 1 for size in sizes[: max(0, -count)]) or len(sizes) + count < 1:
        return None
    found: Members = {"Sizes": [1] * count + sizes[max(0, -count) :]}
    if "Strides" in own:
        front = own["Strides"][0] * sizes[0] if sizes else 1
        found["Strides"] = [front] * count + own["Strides"][max(0, -count) :]
    return found


def _shifted(operator: str, name: str, value: Any, count: int) -> Any:
    if isinstance(value, list):
        moved = [_shifted(operator, name, item, count) for item in value]
        return None if None in moved else moved
    if value < 0 and facts.fields(operator)[name]["type"] in ("INT", "INT_ARRAY"):
        return value  # counted from the end
    return value + count if value + count >= 0 else None


def _with_entries(array: list[Any], neutral: Any, count: int) -> list[Any] | None:
    if any(item != neutral for item in array[: max(0, -count)]) or len(array) + count < 0:
        return None
    return [neutral] * count + array[max(0, -count) :]


def with_rank(operator: str, members: Members, rank: int, place: str | None = None) -> Members | None:
    """The desc with leading ones added or removed, so that a tensor (the first that is described) has so many dimensions.

    None where the relations do not allow it.
    """
    described = places(operator, members)
    listed = facts.relations()[operator].get("leading_ones", False)
    moving = [name for name in described if listed is True or (listed and slot_of(name) in listed)]
    chosen = place or next(iter(moving or described))
    count = rank - len(described[chosen]["Sizes"])
    return with_leading_ones(operator, members, count) if count == 0 or chosen in moving else None


@cache
def variants(operator: str) -> tuple[Valid, ...]:
    """Every valid desc in every rank that leading ones can give it, those of the relations' ranks first."""
    found = list(valid_descs(operator))
    for own in valid_descs(operator):
        for count in (-1, 1, -2, 2, -3, 3, -4, 4, -5, 5, -6, 6, -7, 7):
            members = with_leading_ones(operator, own.members, count)
            if members is not None and all(len(item["Sizes"]) <= 8 for item in places(operator, members).values()):
                found.append(Valid(f"{own.about}, {count:+} dimensions", members, own.level, own.first_level))
    return tuple(found)


def with_types(operator: str, members: Members, wanted: Mapping[str, str]) -> Members:
    """The desc with element types of tensors changed by slot, and the attributes that name the output's type or hold numbers of it."""
    changed = members
    for place in places(operator, members):
        if slot_of(place) in wanted:
            changed = with_tensor(changed, place, {"DataType": wanted[slot_of(place)]})
    outputs = [own for place, own in places(operator, changed).items() if facts.fields(operator)[slot_of(place)]["kind"] == "output"]
    output_type = outputs[0]["DataType"] if outputs else None
    attributes: Members = {}
    for name, field in facts.fields(operator).items():
        if name in members and output_type is not None:
            if field.get("enum") == "DML_TENSOR_DATA_TYPE":
                attributes[name] = output_type
            elif field["type"] == "SCALAR_UNION" and "INT" in output_type:
                whole = int(members[name])
                attributes[name] = abs(whole) if output_type.startswith(UNSIGNED) else whole
    return changed | attributes


def type_group(operator: str, slot: str) -> list[str]:
    """The slots whose type is that of a slot, itself among them."""
    return next((group for group in groups(operator, "types_together") if slot in group), [slot])


def fitted(operator: str, own: Valid, row: dict[str, Any]) -> Members | None:
    """A valid desc with types that a support row allows; None where its dimension counts are not the row's."""
    wanted: dict[str, str] = {}
    for place, item in places(operator, own.members).items():
        slot = slot_of(place)
        support = row["tensors"][slot]
        least, most = support["dims"]
        if not least <= len(item["Sizes"]) <= most:
            return None
        if support["types"] and item["DataType"] not in support["types"] and slot not in wanted:
            group = type_group(operator, slot)
            common = [name for name in support["types"] if all(name in row["tensors"][other]["types"] for other in group)]
            if not common:
                return None
            wanted |= dict.fromkeys(group, common[0])
    return with_types(operator, own.members, wanted) if wanted else own.members


def fitting(operator: str, row: dict[str, Any], level: str) -> Iterator[Members]:
    """The valid descs, in every rank, that a support row allows at a level, as far as the relations show.

    Where a row is for other attribute values, descs with these put in follow after those that have them.
    """
    put_in = {name: values[0] for name, values in (row["when"] or {}).items()}
    for substitute in (False, True) if put_in else (False,):
        for own in variants(operator):
            if own.first_level is not None and facts.order(own.first_level) > facts.order(level):
                continue
            if facts.is_for(row, own.members) == substitute:
                continue
            members = fitted(operator, own, row)
            if members is not None:
                yield members | put_in if substitute else members
