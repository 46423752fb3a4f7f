"""Every row of every support table: the element types and dimension counts that it allows are taken, those just outside are refused.

A row holds until the next one's level: what it allows is taken at its own level; what it does not is refused there, and what the next row
brings at the last level before that too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import dmlpy as dml
from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs as descs
from tests.support.descs.mutant_problems import problems_of
from tests.support.descs.relation_descs import Members, slot_of


def show(problems: list[dml.Problem]) -> str:
    return "; ".join(problem.headline() for problem in problems)


class Row:
    """A support row with the valid descs that fit it."""

    def __init__(self, operator: str, row: dict[str, Any], after: dict[str, Any] | None) -> None:
        self.operator = operator
        self.support = row["tensors"]
        self.next_support = (after or row)["tensors"]
        self.level = row["feature_level"]
        self.last_level = descs.LATEST if after is None else facts.levels()[facts.order(after["feature_level"]) - 1]
        self.name = f"{self.level} {row['when'] or ''}".strip()
        self.exempt = facts.relations()[operator].get("unreachable_ranks", {})
        # Where the facts disagree on when an operator came, its first row may begin before it.
        if any(item["what"].startswith(f"{operator}: introduced at ") for item in facts.known_differences()):
            self.level = max(self.level, facts.registered(operator) or self.level, key=facts.order)
        self._known: dict[tuple[str, str], list[dml.Problem]] = {}
        self.fitting = list(descs.fitting(operator, row, self.level))
        self.valid = self.valid_ones()

    def problems(self, members: Members, level: str) -> list[dml.Problem]:
        """Those of a desc; tensors that share a type ask for the same ones."""
        key = repr(members), level
        if key not in self._known:
            self._known[key] = problems_of(self.operator, members, level)
        return self._known[key]

    def valid_ones(self) -> list[Members]:
        """Those that fit and are valid, as far as each shows something that those before it do not."""
        seen: set[Any] = set()
        found = []
        for members in self.fitting:
            shows = {(slot_of(place), len(item["Sizes"])) for place, item in descs.places(self.operator, members).items()}
            shows |= {self.signature(members)}
            if shows - seen and not self.problems(members, self.level):
                seen |= shows
                found.append(members)
        return found

    def findings(self) -> Iterator[str]:
        """Everything in which `check` differs from the row."""
        if not self.valid:
            found = [show(self.problems(members, self.level)) for members in self.fitting[:1]]
            yield f"no valid desc fits the row {found}"
            return
        for slot in self.support:
            described = [members for members in self.valid if members.get(slot)]
            if not described:
                yield f"no valid desc has {slot}"
                continue
            yield from self.types(slot, described)
            yield from self.ranks(slot, described)

    def types(self, slot: str, described: list[Members]) -> Iterator[str]:
        allowed = self.support[slot]["types"]
        place = next(place for place in descs.places(self.operator, described[0]) if slot_of(place) == slot)
        for name in facts.data_types() if allowed else ():
            if name in allowed:
                first, last = None, []
                for members in self.retyped(slot, name, described):
                    last = self.problems(members, self.level)
                    first = first or last
                    if not last:
                        break
                else:
                    yield f"{slot} refuses {name}: {show(first or last)}"
                continue
            # All that share the type at once, so that each is refused by its own row and not for differing from the others.
            group = descs.type_group(self.operator, slot)
            members = descs.with_types(self.operator, described[0], dict.fromkeys(group, name))
            at_last = self.last_level if name in self.next_support[slot]["types"] else self.level
            for level in sorted({self.level, at_last}):
                problems = self.problems(members, level)
                if not any(problem.c_path == f"{place}.DataType" for problem in problems):
                    yield f"{place} takes {name} at {level}: {show(problems)}"

    def retyped(self, slot: str, name: str, described: list[Members]) -> Iterator[Members]:
        """Descs in which a tensor has a type: with its group, then with others of that type too, then with others of each further type."""
        group = descs.type_group(self.operator, slot)
        shared = all(name in self.support[other]["types"] for other in group)
        wanted = dict.fromkeys(group if shared else [slot], name)
        others = [other for other in self.support if other not in wanted]
        same = {other: name for other in others if name in self.support[other]["types"]}
        for members in distinct(described, self.signature):
            yield descs.with_types(self.operator, members, wanted)
            yield descs.with_types(self.operator, members, same | wanted)
            # Tensors of one array may be of several kinds.
            for place in descs.places(self.operator, members):
                if place.startswith(f"{slot}["):
                    for base in (members, descs.with_types(self.operator, members, same)):
                        yield descs.with_tensor(base, place, {"DataType": name})
            for other in others:
                for further in self.support[other]["types"]:
                    with_group = dict.fromkeys(descs.type_group(self.operator, other), further)
                    yield descs.with_types(self.operator, members, with_group | wanted)

    def signature(self, members: Members) -> tuple[Any, ...]:
        """What distinguishes descs where only types matter: which members are given, and the attributes."""
        slots = facts.tensors(facts.operators()[self.operator])
        return tuple((name, "" if name in slots else repr(value)) for name, value in members.items())

    def ranks(self, slot: str, described: list[Members]) -> Iterator[str]:
        least, most = self.support[slot]["dims"]
        reached = {
            len(item["Sizes"])
            for members in described
            for place, item in descs.places(self.operator, members).items()
            if slot_of(place) == slot
        }
        if missing := set(range(least, most + 1)) - reached - set(self.exempt.get(slot, [])):
            yield f"{slot} is never valid with {sorted(missing)} dimensions"
        place = next(place for place in descs.places(self.operator, described[0]) if slot_of(place) == slot)
        sizes = descs.places(self.operator, described[0])[place]["Sizes"]
        for count in sorted({0, least - 1, most + 1, 9}):
            changed = [1] * (count - len(sizes)) + sizes[max(0, len(sizes) - count) :]
            members = descs.with_tensor(described[0], place, {"Sizes": changed, "DimensionCount": count})
            codes = ("dims.support", "dims.range") if count in (0, 9) else ("dims.support",)
            # Those that no level allows are refused at the first one; others at the last one too.
            for level in {self.level, self.last_level} if 0 < count < 9 else {self.level}:
                problems = self.problems(members, level)
                if not any(problem.code in codes and problem.c_path == f"{place}.Sizes" for problem in problems):
                    yield f"{place} takes {count} dimensions at {level}: {show(problems)}"


def distinct(items: Iterable[Members], key: Callable[[Members], Any]) -> Iterator[Members]:
    """The first item of each key."""
    seen = set()
    for item in items:
        if key(item) not in seen:
            seen.add(key(item))
            yield item


def rows(operator: str) -> Iterator[Row]:
    for group in facts.row_groups(operator):
        for index, row in enumerate(group):
            yield Row(operator, row, group[index + 1] if index + 1 < len(group) else None)


@pytest.mark.parametrize("operator", facts.operators())
def test_support_rows_hold(operator: str) -> None:
    found = [f"{row.name}: {text}" for row in rows(operator) for text in row.findings()]
    assert not found, f"{len(found)} found\n" + "\n".join(found)


def test_a_row_that_differs_is_found() -> None:
    operator = "DML_OPERATOR_ACTIVATION_RELU"
    row = facts.row_groups(operator)[-1][-1]
    least, most = row["tensors"]["OutputTensor"]["dims"]
    types = row["tensors"]["OutputTensor"]["types"]
    other = {"dims": [least + 1, most], "types": [*types[1:], "UINT4"]}
    text = "\n".join(Row(operator, row | {"tensors": row["tensors"] | {"OutputTensor": other}}, None).findings())
    for part in (f"OutputTensor takes {types[0]} at", "OutputTensor refuses UINT4", f"OutputTensor takes {least} dimensions"):
        assert part in text
