"""The facts about directml.h under `tests/facts`, read as plain data. Nothing here looks at dmlpy's classes."""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatch
from functools import cache
from typing import Any

from tests.support.folders import TESTS

FOLDER = TESTS / "facts"


@cache
def operators() -> dict[str, dict[str, Any]]:
    """The operator catalogue by type name: `DML_OPERATOR_RNN`."""
    files = sorted((FOLDER / "operators").glob("*.json"))
    return {fact["operator"]: fact for fact in (json.loads(file.read_text(encoding="utf-8")) for file in files)}


@cache
def enums() -> dict[str, Any]:
    """Enumerations, constants, structs and results, as `enums.json` holds them."""
    data: dict[str, Any] = json.loads((FOLDER / "enums.json").read_text(encoding="utf-8"))
    return data


@cache
def relations() -> dict[str, dict[str, Any]]:
    """The catalogue's constraints by operator, transcribed into data: valid descs, and what makes them wrong."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted((FOLDER / "relations").glob("*.toml")):
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
        if twice := found.keys() & tables.keys():
            raise ValueError(f"{file.name} repeats {sorted(twice)} of another file")
        for name, table in tables.items():
            own = {key: value for key, value in table.items() if key != "like"}
            found[name] = found[table["like"]] | own if "like" in table else own
    return found


@cache
def known_differences() -> list[dict[str, str]]:
    """Where dmlpy differs from the facts on purpose, each with its reason."""
    found: list[dict[str, str]] = tomllib.loads((FOLDER / "differences.toml").read_text(encoding="utf-8"))["difference"]
    return found


@cache
def tolerated() -> list[dict[str, str]]:
    """Wrong descs that need not be refused as the others are, each with its reason."""
    found: list[dict[str, str]] = tomllib.loads((FOLDER / "tolerated.toml").read_text(encoding="utf-8")).get("tolerated", [])
    return found


def python_name(c_name: str) -> str:
    """`InputTensor` as Python spells it, `input_tensor`; `ROITensor` is `roi_tensor`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", c_name).lower()


def python_place(c_place: str) -> str:
    """`InputTensors[0].Sizes` as Python spells it, `input_tensors[0].sizes`."""
    return re.sub(r"\w+", lambda match: python_name(match[0]), c_place)


def python_member(operator: str, c_name: str) -> str:
    """A struct member's name in Python; one would hide a method of every struct."""
    return "slice_sizes" if (operator, c_name) == ("DML_OPERATOR_SLICE", "Sizes") else python_name(c_name)


def tensors(fact: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tensor members of an operator's struct, arrays of tensors among them, in order."""
    return {field["name"]: field for field in fact["fields"] if field["type"] in ("TENSOR_DESC", "TENSOR_DESC_ARRAY")}


def fields(operator: str) -> dict[str, dict[str, Any]]:
    """The members of an operator's struct by name."""
    return {field["name"]: field for field in operators()[operator]["fields"]}


@cache
def data_types() -> tuple[str, ...]:
    """Short names of the element types, in the header's order, without UNKNOWN."""
    fact = enums()["enums"]["DML_TENSOR_DATA_TYPE"]
    names = [name.removeprefix(fact["prefix"]) for name in fact["values"]]
    return tuple(name for name in names if name != "UNKNOWN")


@cache
def levels() -> tuple[str, ...]:
    """The feature levels, lowest first: `1_0`, `2_0`, ..."""
    fact = enums()["enums"]["DML_FEATURE_LEVEL"]
    ordered = sorted(fact["values"], key=lambda name: int(fact["values"][name]))
    return tuple(name.removeprefix(fact["prefix"]) for name in ordered)


def order(level: str) -> int:
    """A feature level's place among the levels."""
    return levels().index(level)


def introduced(operator: str) -> str:
    """The feature level that brought an operator: the lower one, where its page and the list of all disagree."""
    own: str = operators()[operator]["introduced"]
    return min(own, registered(operator) or own, key=order)


def registered(operator: str) -> str | None:
    """The feature level at which the list of all operators has one, under its name or an alias."""
    fact = enums()["enums"]["DML_OPERATOR_TYPE"]
    level: str | None = fact["introduced"].get(fact["aliases"].get(operator, operator))
    return level


def counted_by(field: dict[str, Any]) -> list[str]:
    """The members whose length a count field gives."""
    counted = field.get("count_of", [])
    return [counted] if isinstance(counted, str) else list(counted)


@cache
def row_groups(operator: str) -> list[list[dict[str, Any]]]:
    """The rows of the support table, lowest level first; those for other attribute values are a separate group.

    Where `differences.toml` says that the table is wrong, the dimension counts are those that it gives instead, and the types of a tensor
    that it names are left open (an empty list, as where a page has none).
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in operators()[operator]["support"]:
        tensors = {slot: _corrected(operator, slot, row["feature_level"], item) for slot, item in row["tensors"].items()}
        groups.setdefault(json.dumps(row["when"], sort_keys=True), []).append(row | {"tensors": tensors})
    return [sorted(group, key=lambda row: order(row["feature_level"])) for group in groups.values()]


def _corrected(operator: str, slot: str, level: str, item: dict[str, Any]) -> dict[str, Any]:
    """A row's description of a tensor, as far as it is right."""
    found = item
    for difference in known_differences():
        told = re.match(rf"{operator}: support of (\S+) at (\S+) is (\d+) to (\d+) ", difference["what"])
        if told is None or not fnmatch(slot, told[1]):
            continue
        if told[1] == slot:
            found = found | {"types": []}
        if told[2] == level:
            found = found | {"dims": [int(told[3]), int(told[4])]}
    return found


def is_for(row: dict[str, Any], members: dict[str, Any]) -> bool:
    """Whether a support row speaks of descs with these attributes."""
    return all(members.get(name) in values for name, values in (row["when"] or {}).items())


def row_at(operator: str, level: str, members: dict[str, Any]) -> dict[str, Any] | None:
    """The support row that holds at a level for a desc with these members; None below the operator's first level."""
    for group in row_groups(operator):
        if is_for(group[0], members):
            return next((row for row in reversed(group) if order(row["feature_level"]) <= order(level)), None)
    return None


def usual_defaults(fact: dict[str, Any]) -> dict[str, str]:
    """The attributes' usual defaults, as the constraints write them."""
    found = {}
    for constraint in fact["constraints"]:
        if match := re.match(r"(\w+)\b.*usual default (\S+)", constraint):
            found[match[1]] = match[2]
    return found


def recurrent_activations(*, accepted: bool) -> list[str]:
    """Activation operators that every fusing operator fuses, so that a recurrent cell takes them; or all the others."""
    sets = enums()["sets"]
    fused = set(sets["fusable_activations"]) - set(sets["fusable_only_by"])
    names = [name for name in operators() if "_ACTIVATION_" in name]
    return [name for name in names if (name in fused) == accepted]
