"""The relations transcribed from the facts' constraints are held to the facts: what every other test takes from them is sound."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs as descs
from tests.support.descs.relation_descs import slot_of

KEYS = {
    "constraints", "types_together", "sizes_together", "ranks_together", "axes", "per_dimension", "leading_ones", "valid", "wrong",
    "unreachable_ranks",
}  # fmt: skip
ENTRY_KEYS = {"rule", "change", "remove", "at", "of", "level"}
# Keys that separate tests read.
SPECIAL_KEYS = {
    "DML_OPERATOR_RNN": {"type_of_its_own", "directions", "activations", "owned_inputs", "positive_with"},
    "DML_OPERATOR_GRU": {"type_of_its_own", "directions", "activations", "owned_inputs", "positive_with"},
    "DML_OPERATOR_LSTM": {"type_of_its_own", "directions", "activations", "owned_inputs", "positive_with"},
    "DML_OPERATOR_ACTIVATION_SOFTPLUS": {"at_least"},
}
OTHER_SOURCES = ("semantics", "doubts", "shapes", "enums", "fields", "level history", "support", "sets")


def of_all(findings: Any) -> list[str]:
    """What a check finds in any operator."""
    return [f"{operator}: {text}" for operator in facts.relations() for text in findings(operator)]


def show(lines: list[str]) -> str:
    return f"{len(lines)} found\n" + "\n".join(lines)


def test_every_operator_has_relations_that_repeat_its_constraints() -> None:
    assert sorted(facts.relations()) == sorted(facts.operators())
    differing = [name for name, table in facts.relations().items() if table.get("constraints") != facts.operators()[name]["constraints"]]
    assert not differing


def test_operators_with_the_same_wrong_descs_share_them() -> None:
    files = sorted((facts.FOLDER / "relations").glob("*.toml"))
    assert files
    for file in files:
        rows = [str(table["wrong"]) for table in tomllib.loads(file.read_text(encoding="utf-8")).values() if table.get("wrong")]
        repeated = [row[:200] for row, count in Counter(rows).items() if count > 1 and len(row) > 1000]
        assert not repeated, f"{file.name}: `like` saves {show(repeated)}"


def name_findings(operator: str) -> Iterator[str]:
    table, fields = facts.relations()[operator], facts.fields(operator)
    slots = facts.tensors(facts.operators()[operator])
    yield from (f"unknown key {key}" for key in table.keys() - KEYS - SPECIAL_KEYS.get(operator, set()))
    grouped = [name for kind in ("types_together", "sizes_together", "ranks_together") for group in table.get(kind, []) for name in group]
    listed = table.get("leading_ones", False)
    grouped += [*(listed if isinstance(listed, list) else []), *table.get("unreachable_ranks", {})]
    yield from (f"{name} is not a tensor" for name in grouped if name not in slots)
    if not isinstance(listed, list | bool):
        yield f"leading_ones is {listed!r}"
    attributes = [*table.get("axes", []), *table.get("per_dimension", {})]
    yield from (f"{name} is not an attribute" for name in attributes if name not in fields or name in slots)
    for entry in table.get("valid", []):
        yield from (f"{name} of a valid desc is not a member" for name in entry.keys() - fields.keys() - {"about", "level"})
        yield from (f"{name} is counted by itself" for name in entry if "count_of" in fields.get(name, {}))
    for entry in table.get("wrong", []):
        yield from (f"unknown key {key} of a wrong desc" for key in entry.keys() - ENTRY_KEYS)
        heads = [re.split(r"[.\[]", place)[0] for place in entry["at"]]
        named = [*heads, *entry.get("change", {}), *entry.get("remove", [])]
        yield from (f"{name} of a wrong desc is not a member" for name in named if name not in fields)
        if not entry["at"] or entry.get("of", 0) >= len(table.get("valid", [])):
            yield f"the wrong desc {entry['rule']!r} blames nobody, or is made of nothing"
        elif "level" not in entry and not {*heads} & {*entry.get("change", {}), *entry.get("remove", [])}:
            yield f"the wrong desc {entry['rule']!r} blames no member that it changes"


def test_names_are_those_of_the_facts() -> None:
    found = of_all(name_findings)
    assert not found, show(found)


def valid_findings(operator: str) -> Iterator[str]:
    if not descs.valid_descs(operator):
        yield "no valid desc"
    for own in descs.valid_descs(operator):
        yield from (f"{own.about}: {text}" for text in findings_of(operator, own))


def findings_of(operator: str, own: descs.Valid) -> Iterator[str]:
    fields, table, members = facts.fields(operator), facts.relations()[operator], own.members
    row = facts.row_at(operator, own.level, members)
    if row is None:
        yield f"no support row at {own.level}"
        return
    described = descs.places(operator, members)
    for place, item in described.items():
        support = row["tensors"][slot_of(place)]
        if support["types"] and item["DataType"] not in support["types"]:
            yield f"{place} is {item['DataType']}"
        if not support["dims"][0] <= len(item["Sizes"]) <= support["dims"][1]:
            yield f"{place} has {len(item['Sizes'])} dimensions"
    measures = {"types_together": "DataType", "sizes_together": "Sizes", "ranks_together": "Sizes"}
    for kind, member in measures.items():
        for group in descs.grouped(operator, members, kind):
            values = [described[place][member] for place in group]
            if len({len(value) if kind == "ranks_together" else str(value) for value in values}) > 1:
                yield f"{kind} {group} differ: {values}"
    for name, field in fields.items():
        if name not in members:
            if not field["optional"] and "count_of" not in field:
                yield f"{name} is missing"
            continue
        lengths = {len(members[other]) for other in facts.counted_by(field) if other in members}
        if len(lengths) > 1:
            yield f"{name} counts arrays of lengths {lengths}"
        enum = field.get("enum")
        if enum == "BOOL":
            if not isinstance(members[name], bool):
                yield f"{name} is {members[name]!r}"
        elif enum is not None:
            fact = facts.enums()["enums"][enum]
            if fact["prefix"] + str(members[name]) not in fact["values"]:
                yield f"{name} is {members[name]!r}, no {enum}"
    ranks = {len(item["Sizes"]) for item in described.values()}
    for name in table.get("per_dimension", {}):
        if name in members and len(members[name]) not in ranks:
            yield f"{name} has {len(members[name])} entries"
    if own.level not in facts.levels():
        yield f"there is no level {own.level}"


def test_valid_descs_are_valid_by_the_facts() -> None:
    found = of_all(valid_findings)
    assert not found, show(found)


def wrong_findings(operator: str) -> Iterator[str]:
    entries = facts.relations()[operator].get("wrong", [])
    for wrong, entry in zip(descs.wrong_descs(operator), entries, strict=True):
        base = descs.valid_descs(operator)[entry.get("of", 0)]
        if wrong.members == base.members and wrong.level == base.level:
            yield f"{wrong.rule!r} with {entry.get('change')} is the valid desc itself"
        told = [*facts.operators()[operator]["constraints"], *facts.operators()[operator]["shapes"]]
        if not wrong.rule.startswith(OTHER_SOURCES) and not any(
            sentence.startswith(wrong.rule) or wrong.rule.startswith(sentence) for sentence in told
        ):
            yield f"no sentence begins with the rule {wrong.rule!r}"


def test_wrong_descs_differ_and_follow_from_a_sentence() -> None:
    found = of_all(wrong_findings)
    assert not found, show(found)


EQUAL = re.compile(r"(?P<names>(?:\w+, )*\w+ and \w+): equal (?P<what>[A-Za-z, ]+)$")
RANGE = re.compile(r"(?P<name>[A-Z]\w*)(?:: (?:each )?in [\[(]|: at least | >= | < |: .*at most )")


def coverage_findings(operator: str) -> Iterator[str]:
    """Sentences of the two usual forms that neither a group nor a wrong desc stands for."""
    table, fields = facts.relations()[operator], facts.fields(operator)
    slots = facts.tensors(facts.operators()[operator])
    wrong = table.get("wrong", [])
    for sentence in table["constraints"]:
        stated = any(sentence.startswith(entry["rule"]) for entry in wrong)
        if match := EQUAL.match(sentence):
            names = set(re.split(r", | and ", match["names"]))
            for word, kinds in {
                "DataType": ("types_together",),
                "DimensionCount": ("ranks_together", "sizes_together"),
                "Sizes": ("sizes_together",),
            }.items():
                held = [set(group) for kind in kinds for group in table.get(kind, [])]
                if word in match["what"] and names <= slots.keys() and not any(names <= group for group in held) and not stated:
                    yield f"no group, and no wrong desc: {sentence!r}"
        if (match := RANGE.match(sentence)) and match["name"] in fields and not stated:
            blamed = [place for entry in wrong for place in entry["at"]]
            if not any(re.split(r"[.\[]", place)[0] == match["name"] for place in blamed):
                yield f"no wrong desc: {sentence!r}"


def test_equalities_and_ranges_are_transcribed() -> None:
    found = of_all(coverage_findings)
    assert not found, show(found)


@cache
def ranks_of(operator: str) -> list[tuple[descs.Valid, dict[str, set[int]]]]:
    """The dimension counts by slot of every valid desc, in every rank."""
    found = []
    for own in descs.variants(operator):
        ranks: dict[str, set[int]] = {}
        for place, item in descs.places(operator, own.members).items():
            ranks.setdefault(slot_of(place), set()).add(len(item["Sizes"]))
        found.append((own, ranks))
    return found


def reached(operator: str, row: dict[str, Any], last_level: str) -> dict[str, set[int]]:
    """The dimension counts by slot that valid descs have which fit a support row as wholes."""
    found: dict[str, set[int]] = {}
    for own, ranks in ranks_of(operator):
        allowed = {slot: range(support["dims"][0], support["dims"][1] + 1) for slot, support in row["tensors"].items()}
        early = own.first_level is None or facts.order(own.first_level) <= facts.order(last_level)
        if early and all(count in allowed[slot] for slot, counts in ranks.items() for count in counts):
            for slot, counts in ranks.items():
                found.setdefault(slot, set()).update(counts)
    return found


def reach_findings(operator: str) -> Iterator[str]:
    exempt = facts.relations()[operator].get("unreachable_ranks", {})
    ever: dict[str, set[int]] = {}
    for group in facts.row_groups(operator):
        for index, row in enumerate(group):
            after = group[index + 1]["feature_level"] if index + 1 < len(group) else None
            last_level = descs.LATEST if after is None else facts.levels()[facts.order(after) - 1]
            found = reached(operator, row, last_level)
            for slot, support in row["tensors"].items():
                missing = set(range(support["dims"][0], support["dims"][1] + 1)) - found.get(slot, set())
                ever.setdefault(slot, set()).update(found.get(slot, set()))
                if missing - set(exempt.get(slot, [])):
                    yield f"{slot} reaches no {sorted(missing)} at {row['feature_level']} {row['when'] or ''}"
    for slot, counts in exempt.items():
        if wrongly := ever.get(slot, set()) & set(counts):
            yield f"{slot} does reach {sorted(wrongly)}"


def test_every_dimension_count_of_every_support_row_is_reached() -> None:
    found = of_all(reach_findings)
    assert not found, show(found)


def test_dimension_counts_that_cannot_be_reached_have_a_reason() -> None:
    bare = []
    for file in (facts.FOLDER / "relations").glob("*.toml"):
        lines = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if line.startswith("unreachable_ranks") and "#" not in line and not lines[number - 1].startswith("#"):
                bare.append(f"{file.name}:{number + 1}")
    assert not bare


def test_leading_ones_shift_axes_and_arrays(monkeypatch: Any) -> None:
    table = {"leading_ones": True, "axes": ["Axis"], "per_dimension": {"InputWindowStrides": 1}, "valid": []}
    fields = [
        {"name": "InputTensor", "kind": "input", "type": "TENSOR_DESC", "optional": False},
        {"name": "Axis", "kind": "attribute", "type": "UINT", "optional": False},
        {"name": "DimensionCount", "kind": "attribute", "type": "UINT", "optional": False, "count_of": "InputWindowStrides"},
        {"name": "InputWindowStrides", "kind": "attribute", "type": "INT_ARRAY", "optional": False},
    ]
    monkeypatch.setattr(facts, "relations", lambda: {"X": table})
    monkeypatch.setattr(facts, "operators", lambda: {"X": {"fields": fields}})
    members = {"InputTensor": descs.tensor("INT8 1 3 5"), "Axis": 1, "DimensionCount": 3, "InputWindowStrides": [1, -2, 1]}
    assert descs.with_rank("X", members, 4) == {
        "InputTensor": descs.tensor("INT8 1 1 3 5"), "Axis": 2, "DimensionCount": 4, "InputWindowStrides": [1, 1, -2, 1]
    }  # fmt: skip
    assert descs.with_rank("X", members, 2) == {
        "InputTensor": descs.tensor("INT8 3 5"), "Axis": 0, "DimensionCount": 2, "InputWindowStrides": [-2, 1]
    }  # fmt: skip
    assert descs.with_rank("X", members, 1) is None
    assert descs.with_rank("X", members | {"Axis": 0}, 2) is None
