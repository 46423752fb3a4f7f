"""The classes against Microsoft's facts: every difference is either none or written down in `facts/differences.toml` with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from types import NoneType
from typing import Any, get_args, get_origin

import pytest

import dmlpy as dml
from dmlpy import enums, tensors
from dmlpy.descs import OPERATORS, OperatorDesc
from dmlpy.enums import DmlEnum
from dmlpy.naming import c_member
from tests import facts_reader as facts

OURS: dict[str, type[DmlEnum]] = {
    "DML_TENSOR_DATA_TYPE": enums.DataType,
    "DML_TENSOR_TYPE": enums.TensorType,
    "DML_TENSOR_FLAGS": enums.TensorFlags,
    "DML_RECURRENT_NETWORK_DIRECTION": enums.RecurrentDirection,
    "DML_FEATURE_LEVEL": enums.FeatureLevel,
}


def c_type(annotation: Any) -> tuple[str, str | None]:
    """A member's annotation as the catalogue writes types: the type, and the enumeration behind it."""
    kinds = [item for item in get_args(annotation) if item not in (NoneType, Ellipsis)]
    if get_origin(annotation) is tuple:
        inner = get_args(kinds[0])[0] if get_args(kinds[0]) else kinds[0]
        return ("UINT_ARRAY", None) if inner is int else ("OPERATOR_DESC_ARRAY" if issubclass(inner, OperatorDesc) else str(inner), None)
    kind = kinds[0] if kinds else annotation
    if issubclass(kind, DmlEnum):
        return "UINT", next(name for name, ours in OURS.items() if ours is kind)
    if issubclass(kind, OperatorDesc):
        return "OPERATOR_DESC", None
    return {dml.TensorDesc: ("TENSOR_DESC", None), float: ("FLOAT", None), bool: ("UINT", "BOOL"), int: ("UINT", None)}[kind]


def members(kind: type[OperatorDesc]) -> Iterator[dict[str, Any]]:
    """A class's members as the catalogue describes fields, count fields included."""
    counted = {counted: spelling for spelling, counted in kind.c_counts.items()}
    tensors = {field.name: field for field in kind.tensor_fields()}
    for name, info in kind.model_fields.items():
        if name in counted:
            yield {"name": counted[name], "kind": "attribute", "type": "UINT", "optional": False, "count_of": c_member(name)}
        type_name, enum = c_type(info.annotation)
        role = "attribute" if name not in tensors else "output" if tensors[name].marker.output else "input"
        optional = tensors[name].optional if name in tensors else NoneType in get_args(info.annotation)
        member = {"name": c_member(name), "kind": role, "type": type_name, "optional": optional}
        yield member | ({"enum": enum} if enum else {})


def support(kind: type[OperatorDesc]) -> dict[str, dict[str, tuple[tuple[int, int], frozenset[str]]]]:
    """A class's support table by level and tensor."""
    table: dict[str, dict[str, tuple[tuple[int, int], frozenset[str]]]] = {}
    for row in kind.support:
        of_level = table.setdefault(str(row.level), {})
        for field in kind.tensor_fields():
            types = row.types[field.marker.types] if isinstance(field.marker.types, str) else field.marker.types
            of_level[c_member(field.name)] = (row.dims, frozenset(str(item) for item in types))
    return table


def operator_differences(name: str) -> Iterator[str]:
    """Everything in which a class differs from its operator's facts, as lines."""
    kind, fact = OPERATORS[name], facts.operators()[name]
    ours, theirs = list(members(kind)), fact["fields"]
    if [item["name"] for item in ours] != [item["name"] for item in theirs]:
        yield f"members {[item['name'] for item in ours]}, the fact has {[item['name'] for item in theirs]}"
        return
    for own, their in zip(ours, theirs, strict=True):
        if own["optional"] != their["optional"]:
            word = "may be null, the fact says it may not" if own["optional"] else "may not be null, the fact says it may"
            yield f"{own['name']} {word}"
        for key in sorted((own.keys() | their.keys()) - {"optional"}):
            if own.get(key) != their.get(key):
                yield f"{own['name']}.{key} is {own.get(key)}, the fact says {their.get(key)}"
    if kind.c_name != fact["struct"]:
        yield f"c_name {kind.c_name}, the fact says {fact['struct']}"
    if kind.in_place != fact["in_place"]:
        yield f"in_place {kind.in_place}, the fact says {fact['in_place']}"
    registered = facts.enums()["enums"]["DML_OPERATOR_TYPE"]["introduced"].get(name)
    if not str(kind.introduced()) == fact["introduced"] == registered:
        yield f"introduced at {kind.introduced()}, the facts say {fact['introduced']} and {registered}"
    rows = {
        row["feature_level"]: {slot: (tuple(item["dims"]), frozenset(item["types"])) for slot, item in row["tensors"].items()}
        for row in fact["support"]
    }
    for level in sorted(rows.keys() | support(kind).keys()):
        if rows.get(level) != support(kind).get(level):
            yield f"support at {level} is {support(kind).get(level)}, the fact says {rows.get(level)}"
    for field in kind.tensor_fields():
        shape = fact["shapes"].get(c_member(field.name))
        if shape is not None and [str(term) for term in field.marker.terms] != [item.replace(" ", "") for item in shape]:
            yield f"{c_member(field.name)} is {field.marker.pattern}, the fact says {shape}"
    if kind.accepts_owned == any("do not support DML_TENSOR_FLAG_OWNED_BY_DML" in text for text in fact["constraints"]):
        yield f"accepts_owned {kind.accepts_owned}, the constraints say otherwise"
    if issubclass(kind, dml.ActivationDesc) and kind.fusable != (name in facts.recurrent_activations(accepted=True)):
        yield f"fusable {kind.fusable}, the set of fusable activations says otherwise"
    for attribute, text in facts.usual_defaults(fact).items():
        # The pages round: a default agrees if it rounds to the digits that they print.
        own_default = kind.model_fields[facts.python_name(attribute)].default
        if round(own_default, len(text.partition(".")[2])) != float(text):
            yield f"{attribute} is {own_default} by default, the fact says {text}"


def struct_differences() -> Iterator[str]:
    order = [name for name, _ in facts.enums()["structs"]["DML_BUFFER_TENSOR_DESC"]]
    counts = {counted: spelling for spelling, counted in dml.TensorDesc.c_counts.items()}
    own: list[str] = []
    for name in dml.TensorDesc.model_fields:
        own += [counts[name]] if name in counts else []
        own.append(c_member(name))
    if set(own) != set(order):
        yield f"members {sorted(own)}, the fact has {sorted(order)}"
    if own != order:
        yield f"members in the order {own}, the fact has {order}"


def all_differences() -> list[str]:
    found = [f"{name}: {text}" for name in facts.operators() for text in operator_differences(name)]
    return found + [f"DML_BUFFER_TENSOR_DESC: {text}" for text in struct_differences()]


def test_every_operator_has_its_fact_and_every_fact_its_operator() -> None:
    assert sorted(name for name, kind in OPERATORS.items() if not kind.own) == sorted(facts.operators())


@pytest.mark.parametrize("name", [*facts.operators(), "DML_BUFFER_TENSOR_DESC"])
def test_classes_agree_with_the_facts(name: str) -> None:
    allowed = [item["what"] for item in facts.known_differences()]
    unexpected = [
        line for line in all_differences() if line.startswith(f"{name}: ") and not any(fnmatchcase(line, pattern) for pattern in allowed)
    ]
    assert not unexpected, "\n".join(unexpected)


@pytest.mark.parametrize("difference", facts.known_differences(), ids=lambda item: item["what"])
def test_listed_differences_still_exist_and_have_a_reason(difference: dict[str, str]) -> None:
    assert any(fnmatchcase(line, difference["what"]) for line in all_differences()), "no such difference any more: remove the line"
    assert len(difference["reason"].split()) > 5


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPERATORS["DML_OPERATOR_RNN"], "in_place", True)
    monkeypatch.setattr(OPERATORS["DML_OPERATOR_RNN"], "support", OPERATORS["DML_OPERATOR_ACTIVATION_GELU"].support)
    text = "\n".join(operator_differences("DML_OPERATOR_RNN"))
    for part in ("in_place True", "introduced at 5_1", "support at 1_0 is None", "support at 5_1"):
        assert part in text


@pytest.mark.parametrize(("c_name", "ours"), OURS.items(), ids=list(OURS))
def test_enumerations_agree_with_the_header(c_name: str, ours: type[DmlEnum]) -> None:
    fact = facts.enums()["enums"][c_name]
    assert ours.prefix() == fact["prefix"]
    assert {member.c_name: int(member) for member in ours} == fact["values"]


def test_data_types_agree_with_the_header() -> None:
    fact = facts.enums()["enums"]["DML_TENSOR_DATA_TYPE"]
    assert {member.c_name: member.bits for member in enums.DataType if member.bits} == fact["bits"]
    for c_name, numpy_name in fact["numpy"].items():
        member = enums.DataType.parse(c_name)
        if numpy_name is None:
            with pytest.raises(TypeError, match="NumPy has no type"):
                _ = member.numpy
        else:
            assert member.numpy.name == numpy_name


def test_feature_levels_name_their_release() -> None:
    releases = facts.enums()["enums"]["DML_FEATURE_LEVEL"]["dml_version"]
    assert {level.c_name: level.directml_version for level in enums.FeatureLevel} == releases


def test_results_and_constants_agree_with_the_header() -> None:
    results = facts.enums()["hresults"]
    assert {item.name: int(item) for item in enums.HResult} == {item.name: results[item.name] for item in enums.HResult}
    constants = facts.enums()["constants"]
    assert constants["DML_TENSOR_DIMENSION_COUNT_MAX1"] == tensors.MAX_DIMENSION_COUNT
    assert constants["DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT"] == tensors.MINIMUM_BUFFER_ALIGNMENT
    assert constants["MAX_TENSOR_ELEMENTS"] == tensors.MAX_ELEMENTS


def test_examples_of_the_pages_describe_valid_operators() -> None:
    checked = 0
    for name, fact in facts.operators().items():
        for example in fact["examples"]:
            slots = {**example["inputs"], **example["outputs"]}
            described = {slot: {"DataType": item["type"], "Sizes": item["sizes"]} for slot, item in slots.items()}
            desc = dml.OperatorDesc.from_dict({"Type": name, "Desc": {**described, **example["attributes"]}})
            assert dml.check(desc) == []
            checked += 1
    assert checked == sum(len(fact["examples"]) for fact in facts.operators().values()) > 0
