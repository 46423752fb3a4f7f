"""Wrong RNN, LSTM and GRU descs, made of the facts alone: a valid desc in the C spelling, with one thing changed.

Here is what only these operators have: symbols that up to a dozen sizes share, directions, and activations;
`tests/support/descs/mutants.py` has what every operator has. What is wrong, and which member has to be blamed for it, follows from
`tests/facts`; dmlpy's own classes are not looked at.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support.descs import facts_reader as facts

STRUCTS = ("DML_OPERATOR_RNN", "DML_OPERATOR_LSTM", "DML_OPERATOR_GRU")
SYMBOLS = {"seq_length": 7, "batch_size": 3, "input_size": 11, "hidden_size": 5}
TYPE_PREFIX = "DML_TENSOR_DATA_TYPE_"
DIRECTION_PREFIX = "DML_RECURRENT_NETWORK_DIRECTION_"
BEYOND_UINT32 = 2**32
BEYOND_FLOAT32 = 1e39

Members = dict[str, Any]


@dataclass(frozen=True)
class Wrong:
    """A wrong desc and who is to blame.

    Attributes:
        name: what was changed.
        operator: `DML_OPERATOR_RNN`, ...
        members: the struct's members in the C spelling.
        at: a place that some problem must name, or lie in, as directml.h spells it.
        named: a place that the problems must mention, as a place or as a reason.
        alone: whether no other member may be blamed.
        level: the feature level to check against.
    """

    name: str
    operator: str
    members: Members
    at: str
    named: str
    alone: bool = True
    level: str = "6_4"


def size_of(term: str, symbols: dict[str, int]) -> int:
    """The number that `4 * hidden_size` or `1` stands for."""
    factor, _, symbol = term.replace(" ", "").rpartition("*")
    return int(factor or 1) * (int(symbol) if symbol.isdigit() else symbols[symbol])


def symbol_of(term: str) -> str | None:
    name = term.rpartition("*")[2].strip()
    return None if name.isdigit() else name


def activation(name: str, **changes: Any) -> Members:
    """An activation in its short form, with the usual values of its attributes."""
    fact = facts.operators()[name]
    usual = facts.usual_defaults(fact)
    members: Members = {"Type": name}
    for field in fact["fields"]:
        if field["type"] == "FLOAT":
            members[field["name"]] = float(usual.get(field["name"], 1.0))
        elif field["type"] == "UINT_ARRAY":
            members[field["name"]] = [0]
        elif "count_of" in field:
            members[field["name"]] = 1
    return members | changes


def valid(operator: str, direction: str = "FORWARD") -> Members:
    """A valid desc that describes every tensor of an operator."""
    fact, relation = facts.operators()[operator], facts.relations()[operator]
    symbols = SYMBOLS | {"num_directions": relation["directions"][direction]}
    members: Members = {}
    for name, terms in fact["shapes"].items():
        types = fact["support"][-1]["tensors"][name]["types"]
        sizes = [size_of(term, symbols) for term in terms]
        members[name] = {"DataType": TYPE_PREFIX + types[0], "DimensionCount": len(sizes), "Sizes": sizes}
    count = relation["activations"]["both_ways" if relation["directions"][direction] == 2 else "one_way"]
    members["ActivationDescCount"] = count
    members["ActivationDescs"] = [activation("DML_OPERATOR_ACTIVATION_TANH") for _ in range(count)]
    members["Direction"] = DIRECTION_PREFIX + direction
    for field in fact["fields"]:
        if field.get("enum") == "BOOL":
            members[field["name"]] = False
        elif field["type"] == "FLOAT":
            members[field["name"]] = 3.0
    return members


class Maker:
    """Makes the wrong descs of one operator and direction."""

    def __init__(self, operator: str, direction: str) -> None:
        self.operator = operator
        self.direction = direction
        self.fact = facts.operators()[operator]
        self.relation = facts.relations()[operator]
        self.base = valid(operator, direction)

    def wrong(self, name: str, at: str, changes: Members, *, named: str | None = None, **more: Any) -> Wrong:
        """The valid desc with members replaced (None removes one)."""
        members = {key: value for key, value in (copy.deepcopy(self.base) | changes).items() if value is not None}
        return Wrong(f"{self.direction.lower()}: {name}", self.operator, members, at, named or at, **more)

    def tensor(self, slot: str, what: str, place: str, changes: Members, **more: Any) -> Wrong:
        """The valid desc with members of one tensor replaced."""
        tensor = copy.deepcopy(self.base[slot]) | changes
        tensor["DimensionCount"] = len(tensor["Sizes"])
        return self.wrong(f"{slot} {what}", f"{slot}.{place}" if place else slot, {slot: tensor}, **more)

    def sizes(self) -> Iterator[Wrong]:
        holders = Counter(symbol_of(term) for terms in self.fact["shapes"].values() for term in terms)
        places = [(slot, axis, symbol_of(term)) for slot, terms in self.fact["shapes"].items() for axis, term in enumerate(terms)]
        for slot, axis, symbol in places:
            sizes = list(self.base[slot]["Sizes"])
            larger = [*sizes[:axis], sizes[axis] + 1, *sizes[axis + 1 :]]
            at = f"{slot}.Sizes[{axis}]"
            if symbol is not None and symbol != "num_directions" and holders[symbol] == 2:
                # One against one: the earlier member is believed, so the later one is blamed and the message names both.
                later = [f"{other}.Sizes[{index}]" for other, index, its in places if its == symbol][-1]
                yield self.wrong(
                    f"{at} + 1 against one other", later, {slot: self.base[slot] | {"Sizes": larger}}, named=at, alone=later == at
                )
            elif symbol is None or symbol == "num_directions" or holders[symbol] > 2:
                yield self.tensor(slot, f"Sizes[{axis}] + 1", f"Sizes[{axis}]", {"Sizes": larger})
            for size in (0, BEYOND_UINT32):
                impossible = [*sizes[:axis], size, *sizes[axis + 1 :]]
                yield self.tensor(slot, f"Sizes[{axis}] = {size}", f"Sizes[{axis}]", {"Sizes": impossible})

    def activations(self) -> Iterator[Wrong]:
        own = self.base["ActivationDescs"]

        def changed(name: str, items: list[Any], place: str = "", **more: Any) -> Wrong:
            changes = {"ActivationDescs": items, "ActivationDescCount": len(items)}
            return self.wrong(f"activations: {name}", f"ActivationDescs{place}", changes, **more)

        yield changed("one fewer", own[:-1])
        yield changed("one more", [*own, own[0]])
        yield changed("none", [])
        last = len(own) - 1

        def replaced(name: str, item: Any, place: str = "", **more: Any) -> Wrong:
            return changed(name, [*own[:-1], item], f"[{last}]{place}", **more)

        for kind in facts.recurrent_activations(accepted=False):
            yield replaced(f"{kind} is not fused", activation(kind))
        for kind in facts.recurrent_activations(accepted=True):
            fact = facts.operators()[kind]
            if fact["introduced"] != "1_0":
                yield replaced(f"{kind} before {fact['introduced']}", activation(kind), level="1_0")
            for field in fact["fields"]:
                if field["type"] == "FLOAT":
                    place = f".{field['name']}"
                    yield replaced(f"{kind}{place} beyond float32", activation(kind, **{field["name"]: BEYOND_FLOAT32}), place)
                    yield replaced(f"{kind}{place} a text", activation(kind, **{field["name"]: "much"}), place)
        softplus = facts.relations()["DML_OPERATOR_ACTIVATION_SOFTPLUS"]["at_least"]
        attribute = softplus["attribute"]
        small = activation("DML_OPERATOR_ACTIVATION_SOFTPLUS", **{attribute: softplus["value"] / 2})
        yield replaced(f"SOFTPLUS {attribute} too small", small, f".{attribute}", level="6_3")
        yield replaced("with a tensor", own[0] | {"InputTensor": self.base["InputTensor"]}, ".InputTensor")
        yield replaced("of an unknown kind", {"Type": "ACTIVATION_TANHH"})
        yield replaced("no activation", activation("DML_OPERATOR_ACTIVATION_TANH", Type="DML_OPERATOR_RNN"), alone=True)

    def numbers(self) -> Iterator[Wrong]:
        misspelt: tuple[Any, ...] = ("FORWRAD", DIRECTION_PREFIX + "BOTH", 3, -1, True, 0.0, [])
        for value in misspelt:
            yield self.wrong(f"Direction {value!r}", "Direction", {"Direction": value})
        for other, count in self.relation["directions"].items():
            if count != self.relation["directions"][self.direction]:
                # The attribute is believed: whatever was right for the other direction is blamed, and the reason names the attribute.
                changes = {"Direction": DIRECTION_PREFIX + other}
                yield self.wrong(f"Direction {other}", "WeightTensor.Sizes[1]", changes, named="direction", alone=False)
        for threshold, flag in self.relation.get("positive_with", {}).items():
            for value in (0.0, -1.0, "nan", "-inf"):
                yield self.wrong(f"{threshold} {value}", threshold, {threshold: value, flag: True})
            yield self.wrong(f"{threshold} beyond float32", threshold, {threshold: BEYOND_FLOAT32})
            yield self.wrong(f"{threshold} of digits", threshold, {threshold: 10**400})
        whole = copy.deepcopy(self.base)
        for slot, terms in self.fact["shapes"].items():
            for axis, term in enumerate(terms):
                if symbol_of(term) == "input_size":
                    whole[slot]["Sizes"][axis] = 2**31
        yield self.wrong("more than 2^32 - 1 elements", "InputTensor.Sizes", whole, alone=False)


MAKERS: dict[str, Callable[[Maker], Iterator[Wrong]]] = {"sizes": Maker.sizes, "activations": Maker.activations, "numbers": Maker.numbers}


@cache
def wrong_descs(operator: str, *makers: str) -> tuple[Wrong, ...]:
    """The wrong descs of an operator that these makers make (all, where none is named), in one direction and in both."""
    directions = [Maker(operator, direction) for direction in ("FORWARD", "BIDIRECTIONAL")]
    return tuple(wrong for maker in directions for name in makers or MAKERS for wrong in MAKERS[name](maker))


def exempt_axes(operator: str) -> list[str]:
    """Axes whose symbol no other tensor holds: any size is right there, so no mutant of them exists."""
    shapes = facts.operators()[operator]["shapes"]
    holders = Counter(symbol_of(term) for terms in shapes.values() for term in terms)
    return [
        f"{slot}.Sizes[{axis}]"
        for slot, terms in shapes.items()
        for axis, term in enumerate(terms)
        if (symbol := symbol_of(term)) is not None and symbol != "num_directions" and holders[symbol] == 1
    ]


def in_python(value: Any) -> Any:
    """Members in the Python spelling: snake case, short names of enumerations in lower case, no count fields."""
    if isinstance(value, dict):
        return {facts.python_name(key): in_python(item) for key, item in value.items() if not key.endswith("Count")}
    if isinstance(value, list):
        return [in_python(item) for item in value]
    if isinstance(value, str):
        for prefix in (TYPE_PREFIX, DIRECTION_PREFIX, "DML_TENSOR_FLAG_"):
            if value.startswith(prefix):
                return value.removeprefix(prefix).lower()
    return value
