"""Wrong descs of any operator, made of the facts and of the valid descs in `tests/facts/relations`, with one thing changed in each.

What is wrong, and which member has to be blamed for it, follows from `tests/facts` and from the rules of every tensor; dmlpy's own classes
are not looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs as descs
from tests.support.descs.relation_descs import Members, Valid, slot_of

BITS = facts.enums()["enums"]["DML_TENSOR_DATA_TYPE"]["bits"]
BEYOND_UINT32 = 2**32
BEYOND_FLOAT32 = 1e39
NO_TENSORS: tuple[Any, ...] = (3, "FLOAT32", [])


@dataclass(frozen=True)
class Mutant:
    """A wrong desc and who is to blame.

    Attributes:
        name: what was changed.
        members: the struct's members in the C spelling.
        at: the members of which the first problem has to name one.
        level: the feature level to check against.
        pair: where one stands against one other, both: some problem has to name the two together.
        python: whether the mistake is to be tried in Python too; some exist only where the C struct's members are all written out.
        repeated: whether it breaks a rule of every tensor of every operator, or has a type that `test_support_rows` finds refused as well.
    """

    name: str
    members: Members
    at: tuple[str, ...]
    level: str
    pair: tuple[str, ...] = ()
    python: bool = False
    repeated: bool = False


def element_bytes(data_type: str) -> int:
    """Bytes of an element; those of 4 bits count as one."""
    return max(1, BITS["DML_TENSOR_DATA_TYPE_" + data_type] // 8)


class Maker:
    """Makes the wrong descs of one valid desc; slots that another desc has shown already are left out of what concerns one tensor alone."""

    def __init__(self, operator: str, base: Valid, shown: frozenset[str] = frozenset()) -> None:
        self.operator = operator
        self.base = base
        self.members = base.members
        self.fact = facts.operators()[operator]
        self.fields = facts.fields(operator)
        self.places = descs.places(operator, self.members)
        self.new = {place: own for place, own in self.places.items() if slot_of(place) not in shown}
        self.row = facts.row_at(operator, base.level, self.members)

    def wrong(self, name: str, changes: Members, *at: str, remove: str = "", **more: Any) -> Mutant:
        members = {key: value for key, value in (self.members | changes).items() if key != remove}
        return Mutant(name, members, at, more.pop("level", self.base.level), **more)

    def tensor(self, place: str, what: str, changes: Members, **more: Any) -> Mutant:
        """The desc with members of one tensor changed."""
        changed = descs.with_tensor(self.members, place, changes)
        slot = slot_of(place)
        return self.wrong(f"{place} {what}", {slot: changed[slot]}, place, **more)

    def with_size(self, place: str, axis: int, size: int) -> Members:
        sizes = self.places[place]["Sizes"]
        return {"Sizes": [*sizes[:axis], size, *sizes[axis + 1 :]]}

    def support(self) -> Iterator[Mutant]:
        """Dimension counts and element types that the table has not."""
        for place, own in self.new.items():
            support = (self.row or {"tensors": {}})["tensors"][slot_of(place)]
            least, most = support["dims"]
            yield self.tensor(place, f"of {most + 1} dimensions", {"Sizes": [1] * (most + 1 - len(own["Sizes"])) + own["Sizes"]})
            yield self.tensor(place, f"of {least - 1} dimensions", {"Sizes": own["Sizes"][len(own["Sizes"]) - least + 1 :]})
            refused = [name for name in facts.data_types() if support["types"] and name not in support["types"]]
            for name in (*refused, "UNKNOWN", "FLOAT31"):
                yield self.tensor(place, f"of type {name}", {"DataType": name}, repeated=name in refused)

    def together(self, kind: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each tensor of each group that is new here, and the two where one stands against one other."""
        # Attributes, and dimensions of fixed meaning, may determine a dimension count too.
        relation = facts.relations()[self.operator]
        told = kind == "ranks_together" and (relation.get("per_dimension") or relation.get("axes") or not relation.get("leading_ones"))
        for group in descs.grouped(self.operator, self.members, kind):
            alone = len(group) == len(self.places) == 2 and not told and not any(place in self.fact["shapes"] for place in group)
            if len(group) > 1:
                yield from ((place, tuple(group) if alone else ()) for place in group if place in self.new)

    def unequal(self) -> Iterator[Mutant]:
        """One tensor that differs from those that it has to equal."""
        for place, pair in self.together("sizes_together"):
            for axis, size in enumerate(self.places[place]["Sizes"]):
                yield self.tensor(place, f"unequal in Sizes[{axis}]", self.with_size(place, axis, size + 1), pair=pair)
        for place, pair in self.together("ranks_together"):
            sizes = self.places[place]["Sizes"]
            least, most = (self.row or {"tensors": {}})["tensors"][slot_of(place)]["dims"]
            if len(sizes) < most:
                yield self.tensor(place, "with a dimension more", {"Sizes": [1, *sizes]}, pair=pair)
            if len(sizes) > least:
                yield self.tensor(place, "with a dimension less", {"Sizes": sizes[1:]}, pair=pair)
        for place, pair in self.together("types_together"):
            own = self.places[place]["DataType"]
            allowed = (self.row or {"tensors": {}})["tensors"][slot_of(place)]["types"]
            for name in [name for name in allowed if name != own][:3]:
                yield self.tensor(place, f"of the unequal type {name}", {"DataType": name}, pair=pair)

    def shapes(self) -> Iterator[Mutant]:
        """Sizes that the facts fix by symbols; where a desc's attributes give them another meaning, they do not hold to begin with."""
        terms = [
            (place, axis, str(term).replace(" ", ""))
            for place, own in self.places.items()
            for axis, term in enumerate(self.fact["shapes"].get(place) or ())
            if len(self.fact["shapes"][place]) == len(own["Sizes"])
        ]
        held: dict[str, set[float]] = {}
        holders: dict[str, list[str]] = {}
        for place, axis, term in terms:
            factor, symbol = split(term)
            if symbol is not None:
                held.setdefault(symbol, set()).add(self.places[place]["Sizes"][axis] / factor)
                holders.setdefault(symbol, []).append(place)
        if any(len(values) > 1 for values in held.values()):
            return
        for place, axis, term in terms:
            _, symbol = split(term)
            others = holders.get(symbol or "", [])
            # A quotient may be rounded up, to one more.
            larger = self.with_size(place, axis, self.places[place]["Sizes"][axis] + (2 if "/" in term else 1))
            if symbol is None or symbol in self.fields or len(others) > 1:
                # A symbol in a constraint is determined by more than these two.
                alone = len(others) == 2 and not any(symbol in text for text in self.fact["constraints"] if symbol)
                pair = tuple(dict.fromkeys(others)) if alone else ()
                yield self.tensor(place, f"Sizes[{axis}] not {term}", larger, pair=pair)

    def sizes(self) -> Iterator[Mutant]:
        """Sizes that no tensor may have."""
        for place, own in self.new.items():
            for axis in range(len(own["Sizes"])):
                yield self.tensor(place, f"Sizes[{axis}] = 0", self.with_size(place, axis, 0))
            yield self.tensor(place, f"Sizes[0] = {BEYOND_UINT32}", self.with_size(place, 0, BEYOND_UINT32))
            yield self.tensor(place, "Sizes of a wrong form", {"Sizes": [1.5, *own["Sizes"][1:]]})
            yield self.tensor(place, "DimensionCount", {"DimensionCount": len(own["Sizes"]) + 1})

    def levels(self) -> Iterator[Mutant]:
        """What only a later level has: the operator, and element types of later rows."""
        first = facts.order(facts.introduced(self.operator))
        if first and len(self.new) == len(self.places):
            yield Mutant("before it was introduced", self.members, (self.operator,), facts.levels()[first - 1])
        rows = [row for group in facts.row_groups(self.operator) if facts.is_for(group[0], self.members) for row in group]
        for before, after in pairwise(rows):
            level = facts.levels()[facts.order(after["feature_level"]) - 1]
            base = next((own for own in (*self.ranked(), self.base) if fits(self.operator, own, before, level)), None)
            if base is None:
                continue
            members = descs.fitted(self.operator, base, before) or {}
            for slot in {slot_of(place): None for place in self.new}:
                group = descs.type_group(self.operator, slot)
                earlier = before["tensors"][slot]["types"]
                for name in (name for name in after["tensors"][slot]["types"] if earlier and name not in earlier):
                    retyped = descs.with_types(self.operator, members, dict.fromkeys(group, name))
                    yield Mutant(f"{slot} of type {name} before {after['feature_level']}", retyped, tuple(group), level)

    def ranked(self) -> list[Valid]:
        return [own for own in descs.variants(self.operator) if own.about.startswith(self.base.about)]

    def strides(self) -> Iterator[Mutant]:
        """Layouts that no tensor may have, or no output."""
        for place, own in self.new.items():
            sizes = own["Sizes"]
            packed = descs.packed(sizes)
            yield self.tensor(place, "with a stride too many", {"Strides": [*packed, 1]})
            yield self.tensor(place, "with a negative stride", {"Strides": [*packed[:-1], -1]})
            yield self.tensor(place, "with a huge stride", {"Strides": [*packed[:-1], BEYOND_UINT32]})
            if self.fields[slot_of(place)]["kind"] == "output":
                wide = [axis for axis, size in enumerate(sizes) if size > 1]
                if wide:
                    broadcast = [0 if axis == wide[-1] else stride for axis, stride in enumerate(packed)]
                    yield self.tensor(place, "broadcast", {"Strides": broadcast})
                if len(wide) > 1:
                    overlapping = [1 if axis in wide[-2:] else stride for axis, stride in enumerate(packed)]
                    yield self.tensor(place, "overlapping itself", {"Strides": overlapping})

    def buffers(self) -> Iterator[Mutant]:
        """Sizes in bytes, alignments and flags that no tensor may have."""
        refused = any("do not support DML_TENSOR_FLAG_OWNED_BY_DML" in text for text in self.fact["constraints"])
        for place, own in self.new.items():
            element = element_bytes(own["DataType"])
            needed = math.prod(own["Sizes"]) * element
            for size in {-4, 1 if needed > 1 else -1, needed - 1 if needed > 1 else -2}:
                yield self.tensor(place, f"in {size} bytes", {"TotalTensorSizeInBytes": size})
            for alignment in (3 * element, -element, BEYOND_UINT32, *([element // 2] if element > 1 else [])):
                yield self.tensor(place, f"aligned to {alignment}", {"GuaranteedBaseOffsetAlignment": alignment})
            if refused or self.fields[slot_of(place)]["kind"] == "output":
                yield self.tensor(place, "owned", {"Flags": "OWNED_BY_DML"})
            yield self.tensor(place, "with an unknown flag", {"Flags": "OWNED"})
            yield self.tensor(place, "with a member too many", {"Extent": 1})
            for name in ("DataType", "Sizes"):
                rest = {key: value for key, value in own.items() if key != name}
                value = [rest if other == place else item for other, item in self.places.items() if slot_of(other) == slot_of(place)]
                array = place != slot_of(place)
                yield self.wrong(f"{place} without {name}", {slot_of(place): value if array else rest}, place)

    def names(self) -> Iterator[Mutant]:
        """Members that are missing, misspelt or none of the struct's."""
        for name, field in self.fields.items():
            if name not in self.members:
                continue
            if not field["optional"] and "count_of" not in field:
                # Attributes may have a default in Python; the C struct, and JSON, have none.
                yield self.wrong(f"{name} missing", {}, name, remove=name, python=field["kind"] != "attribute")
            misspelt = name + name[-1]
            yield self.wrong(f"{name} misspelt", {misspelt: self.members[name]}, misspelt, remove=name, python=True)
        yield self.wrong("a member too many", {"Weights": 1}, "Weights", python=True)
        outputs = [name for name, field in self.fields.items() if field["kind"] == "output"]
        rest = {name: value for name, value in self.members.items() if name not in outputs}
        yield Mutant("no output", rest, tuple(outputs), self.base.level, python=True)

    def forms(self) -> Iterator[Mutant]:
        """Values that are not of the form that the C member has."""
        for name, field in self.fields.items():
            own: Any = self.members.get(name)
            kind = "BOOL" if field.get("enum") == "BOOL" else "ENUM" if "enum" in field else field["type"]
            if own is None and field["optional"] and kind != "TENSOR_DESC":
                own = {"SCALE_BIAS": {"Scale": 1.0, "Bias": 0.0}}.get(kind)
                if own is None:
                    continue
            if "count_of" in field:
                yield self.wrong(f"{name} too large", {name: own + 1}, name, *facts.counted_by(field))
                yield from self.lengths(name, field)
                continue
            for value in wrong_values(kind, own):
                yield self.wrong(f"{name} = {brief(value)}", {name: value}, name, python=True)

    def lengths(self, name: str, field: dict[str, Any]) -> Iterator[Mutant]:
        """Arrays of one common length of which one is longer, or shorter."""
        arrays = {other: self.members[other] for other in facts.counted_by(field) if self.members.get(other)}
        if len(arrays) < 2:
            return
        for other, own in arrays.items():
            # In Python, where there is no count, the tensors' dimensions determine the length.
            yield self.wrong(f"{other} longer than {name}", {other: [*own, own[-1]]}, other, python=True)
            yield self.wrong(f"{other} shorter than {name}", {other: own[:-1]}, other, python=True)
        count = self.members[name]
        longer: Members = {other: [*own, own[-1]] for other, own in arrays.items()}
        yield self.wrong(f"{name} and its arrays longer", longer | {name: count + 1}, name, *arrays)
        shorter: Members = {other: own[:-1] for other, own in arrays.items()}
        yield self.wrong(f"{name} and its arrays shorter", shorter | {name: count - 1}, name, *arrays)
        # Windows that have no elements, or do not move.
        for other in arrays.keys() & {"Strides", "WindowSize", "WindowSizes"} if "StartPadding" in arrays else ():
            yield self.wrong(f"{other} with a 0", {other: [0, *arrays[other][1:]]}, other)

    def all(self) -> Iterator[Mutant]:
        for make in (self.support, self.unequal, self.shapes, self.sizes, self.levels, self.strides, self.buffers):
            of_every_tensor = make in (self.sizes, self.strides, self.buffers)
            yield from (replace(mutant, repeated=True) if of_every_tensor else mutant for mutant in make())


def fits(operator: str, own: Valid, row: dict[str, Any], level: str) -> bool:
    """Whether a desc can be fitted to a support row, as far as the relations show."""
    early = own.first_level is None or facts.order(own.first_level) <= facts.order(level)
    return early and descs.fitted(operator, own, row) is not None


def split(term: str) -> tuple[int, str | None]:
    """Factor and symbol of `symbol` or `4*symbol`; no symbol where the term is a number or a formula."""
    match = re.fullmatch(r"(?:(\d+)\*)?([A-Za-z_]\w*)", term)
    return (int(match[1] or 1), match[2]) if match else (1, None)


def brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def wrong_values(kind: str, own: Any) -> Iterator[Any]:
    """Values that a member of this kind may not have, near to a right one."""
    first: Any
    first, rest = (own[0], own[1:]) if isinstance(own, list) and own else (None, [])
    match kind:
        case "TENSOR_DESC":
            yield from NO_TENSORS
        case "TENSOR_DESC_ARRAY":
            yield from (3, first, [3, *rest], [*own[:-1], None])
        case "UINT" | "UINT64":
            yield from ("many", 1.5, -1, BEYOND_UINT32 if kind == "UINT" else 2**64, [1])
        case "INT":
            yield from ("many", 1.5, 2**31, -(2**31) - 1, [1])
        case "UINT_ARRAY" | "INT_ARRAY":
            yield from (1.5, "many")
            if own:
                low, high = (-1, BEYOND_UINT32) if kind == "UINT_ARRAY" else (-(2**31) - 1, 2**31)
                yield from ([item, *rest] for item in (1.5, "many", low, high))
        case "FLOAT":
            yield from ("much", BEYOND_FLOAT32, -BEYOND_FLOAT32, [1.0])
        case "FLOAT_ARRAY":
            yield from ("much", 0.5)
            if own:
                yield from ([item, *rest] for item in ("much", BEYOND_FLOAT32))
        case "BOOL":
            yield from (2, "yes", 0.5)
        case "ENUM":
            yield from (f"{own}X", 10**6, -1, 0.5)
        case "SCALE_BIAS":
            yield from (3, {"Scale": 1.0}, own | {"Scale": "much"}, own | {"Bias": BEYOND_FLOAT32}, own | {"Offset": 1.0})
        case "SIZE_2D":
            yield from (3, {"Width": own["Width"]}, own | {"Width": -1}, own | {"Height": 1.5}, own | {"Depth": 1})
        case "SCALAR_UNION":
            yield from ("much", [1.0], {"Float32": "much"})
        case "OPERATOR_DESC":
            yield from (3, "ACTIVATION_RELU", {"Type": "ACTIVATION_NONE"}, {"Type": "DML_OPERATOR_RNN"}, own | {"Extent": 1})
        case "OPERATOR_DESC_ARRAY":
            yield from (3, [3, *rest], [{"Type": "ACTIVATION_NONE"}, *rest], [first | {"Extent": 1}, *rest])
        case _:
            raise ValueError(f"the facts have a new kind of member: {kind}")


@cache
def mutants(operator: str) -> tuple[Mutant, ...]:
    """Every wrong desc of an operator, with a unique name each."""
    found: dict[str, Mutant] = {}
    shown: set[str] = set()
    named: set[str] = set()
    for number, base in enumerate(descs.valid_descs(operator)):
        maker = Maker(operator, base, frozenset(shown))
        made = list(maker.all())
        if number == 0 or not base.members.keys() <= named:
            made += [*maker.names(), *maker.forms()]
        for mutant in made:
            found[f"{number}: {mutant.name}"] = mutant
        shown |= {slot_of(place) for place in maker.places}
        named |= base.members.keys()
    for number, wrong in enumerate(descs.wrong_descs(operator)):
        found[f"rule {number}: {wrong.rule}"] = Mutant(wrong.rule, wrong.members, wrong.at, wrong.level)
    return tuple(replace(mutant, name=name) for name, mutant in found.items())
