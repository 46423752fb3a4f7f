"""The classes against Microsoft's facts: every difference is either none or written down in `facts/differences.toml` with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

import pytest

import dmlpy as dml
from dmlpy.description import enums, tensors
from dmlpy.description.coercion import Signed
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DmlEnum
from dmlpy.description.registry import OPERATORS
from dmlpy.description.sizes import align, parse
from dmlpy.description.structs import Struct
from dmlpy.description.value_structs import ScaleBias, Size2D
from dmlpy.messages.hresult import HResult
from dmlpy.messages.naming import c_member
from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs as descs


def of_prefix(prefix: str) -> type[DmlEnum] | None:
    """dmlpy's enumeration whose members begin with a prefix in the header."""
    return next((kind for kind in DmlEnum.__subclasses__() if kind.prefix() == prefix), None)


OURS: dict[str, type[DmlEnum]] = {
    name: kind for name, fact in facts.enums()["enums"].items() if (kind := of_prefix(fact["prefix"])) is not None
}

# What the facts write for a member's annotation without its marks.
C_TYPES: dict[Any, str] = {
    dml.TensorDesc: "TENSOR_DESC",
    ScaleBias: "SCALE_BIAS",
    Size2D: "SIZE_2D",
    float: "FLOAT",
    bool: "UINT",
    int: "UINT",
}


def c_type(annotation: Any, signed: bool = False) -> tuple[str, str | None]:
    """A member's annotation as the catalogue writes types: the type, and the enumeration behind it."""
    if get_origin(annotation) is tuple:
        return f"{c_type(get_args(annotation)[0], signed)[0]}_ARRAY", None
    kinds = [item for item in get_args(annotation) if item is not NoneType]
    if kinds:
        return c_type(kinds[0], signed) if len(kinds) == 1 else ("SCALAR_UNION", None)
    if issubclass(annotation, DmlEnum):
        return "UINT", next(name for name, ours in OURS.items() if ours is annotation)
    if issubclass(annotation, OperatorDesc):
        return "OPERATOR_DESC", None
    return "INT" if signed else C_TYPES[annotation], "BOOL" if annotation is bool else None


def members(kind: type[OperatorDesc]) -> Iterator[dict[str, Any]]:
    """A class's members as the catalogue describes fields, count fields included."""
    tensors = {field.name: field for field in kind.tensor_fields()}
    for name, info in kind.model_fields.items():
        if count := kind.counts_before().get(name):
            counted = [c_member(other) for other, spelling in kind.counted_members().items() if spelling == count]
            yield {"name": count, "kind": "attribute", "type": "UINT", "optional": False, "count_of": counted}
        type_name, enum = c_type(info.annotation, signed=any(isinstance(mark, Signed) for mark in info.metadata))
        role = "attribute" if name not in tensors else "output" if tensors[name].marker.output else "input"
        optional = tensors[name].optional if name in tensors else NoneType in get_args(info.annotation)
        member = {"name": c_member(name), "kind": role, "type": type_name, "optional": optional}
        yield member | ({"enum": enum} if enum else {})


def fact_members(fact: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The facts' fields, with what they write in two ways written in one: a BOOL, and counts of one array and of several."""
    for field in fact["fields"]:
        told = field | ({"type": "UINT", "enum": "BOOL"} if field["type"] == "BOOL" else {})
        yield told | ({"count_of": facts.counted_by(field)} if "count_of" in field else {})


Row = tuple[str, str]
Support = dict[str, tuple[tuple[int, int], frozenset[str]]]


def support(kind: type[OperatorDesc]) -> dict[Row, Support]:
    """A class's support table by level and attribute values, then by tensor."""
    table: dict[Row, Support] = {}
    for row in kind.support:
        when = {c_member(name): sorted(map(str, values)) for name, values in row.when.items()}
        of_row = table.setdefault((str(row.level), str(when or None)), {})
        # Where a row is for some values of an attribute, they may determine which type variable is whose.
        desc = example(kind, when) if when else None
        for field in kind.tensor_fields():
            types = row.types_for(field.marker.types if desc is None else desc.type_variable(field))
            of_row[c_member(field.name)] = (row.dims_for(field.name), frozenset(str(item) for item in types))
    return table


def example(kind: type[OperatorDesc], when: dict[str, list[str]]) -> OperatorDesc:
    """A desc with attributes of some values, whatever else it holds."""
    members = descs.valid_descs(kind.type_name)[0].members | {name: values[0] for name, values in when.items()}
    return OperatorDesc.from_dict(descs.data(kind.type_name, members))


def fact_support(fact: dict[str, Any]) -> dict[Row, Support]:
    """The facts' table in the same form."""
    table = {}
    for row in fact["support"]:
        when = {name: sorted(values) for name, values in (row["when"] or {}).items()}
        of_row = {slot: (tuple(item["dims"]), frozenset(item["types"])) for slot, item in row["tensors"].items()}
        table[row["feature_level"], str(when or None)] = of_row
    return table


def shape_differences(kind: type[OperatorDesc], fact: dict[str, Any]) -> Iterator[str]:
    """Where a class's patterns disagree with the facts' symbols; a symbol may have another name, the same one wherever it is meant.

    Formulas are left to the descs of `tests/support/descs/mutants.py`, and so are the ones of a run, which stand for leading dimensions.
    """
    meant: dict[str, Any] = {}
    for field in kind.tensor_fields():
        shape = [item.replace(" ", "") for item in fact["shapes"].get(c_member(field.name)) or ()]
        terms = align(field.marker.terms, len(shape)) if shape else ()
        if terms is None:
            yield f"{c_member(field.name)} is {field.marker.pattern}, the fact says {shape}"
            continue
        for term, text in zip(terms, shape, strict=True):
            factor, _, symbol = text.rpartition("*")
            if text.isdigit():
                agrees = str(term) == text or (term.symbol or "").endswith("]")
            elif symbol.isidentifier() and (factor or "1").isdigit():
                agrees = term.factor == int(factor or 1) and meant.setdefault(symbol, term.symbol) == term.symbol
            else:
                continue
            if not agrees:
                yield f"{c_member(field.name)} is {field.marker.pattern}, the fact says {shape}"
                break


def default_differences(kind: type[OperatorDesc], fact: dict[str, Any]) -> Iterator[str]:
    """Attributes whose default is not the usual one on the page."""
    for attribute, text in facts.usual_defaults(fact).items():
        info = kind.model_fields[facts.python_name(attribute)]
        # The pages round: a default agrees if it rounds to the digits that they print.
        if info.is_required() or round(info.default, len(text.partition(".")[2])) != float(text):
            own = "required" if info.is_required() else f"{info.default} by default"
            yield f"{attribute} is {own}, the fact says {text}"


def operator_differences(name: str) -> Iterator[str]:
    """Everything in which a class differs from its operator's facts, as lines."""
    kind, fact = OPERATORS.get(name), facts.operators()[name]
    if kind is None:
        yield "has no class"
        return
    ours, theirs = list(members(kind)), list(fact_members(fact))
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
    if not str(kind.introduced()) == fact["introduced"] == facts.registered(name):
        yield f"introduced at {kind.introduced()}, the facts say {fact['introduced']} and {facts.registered(name)}"
    rows, own_rows = fact_support(fact), support(kind)
    for row in sorted(rows.keys() | own_rows.keys()):
        for slot in {**rows.get(row, {}), **own_rows.get(row, {})}:
            told, known = own_rows.get(row, {}).get(slot), rows.get(row, {}).get(slot)
            if told != known:
                when = "" if row[1] == "None" else f" {row[1]}"
                yield f"support of {slot} at {row[0]}{when} is {show(told)}, the fact says {show(known)}"
    yield from shape_differences(kind, fact)
    if kind.accepts_owned == any("do not support DML_TENSOR_FLAG_OWNED_BY_DML" in text for text in fact["constraints"]):
        yield f"accepts_owned {kind.accepts_owned}, the constraints say otherwise"
    if issubclass(kind, dml.ActivationDesc) and kind.fusable != (name in facts.recurrent_activations(accepted=True)):
        yield f"fusable {kind.fusable}, the set of fusable activations says otherwise"
    yield from default_differences(kind, fact)


def show(row: tuple[tuple[int, int], frozenset[str]] | None) -> str:
    """A tensor's dimension counts and types: `1 to 8 FLOAT16 FLOAT32`."""
    return "missing" if row is None else f"{row[0][0]} to {row[0][1]} {' '.join(sorted(row[1]))}"


def struct_differences(kind: type[Struct]) -> Iterator[str]:
    order = [name for name, _ in facts.enums()["structs"][kind.c_name]]
    own: list[str] = []
    for name in kind.model_fields:
        own += [kind.counts_before()[name]] if name in kind.counts_before() else []
        own.append(c_member(name))
    if set(own) != set(order):
        yield f"members {sorted(own)}, the fact has {sorted(order)}"
    if own != order:
        yield f"members in the order {own}, the fact has {order}"


STRUCTS: tuple[type[Struct], ...] = (dml.TensorDesc, ScaleBias, Size2D)


@cache
def all_differences() -> list[str]:
    found = [f"{name}: {text}" for name in facts.operators() for text in operator_differences(name)]
    return found + [f"{kind.c_name}: {text}" for kind in STRUCTS for text in struct_differences(kind)]


def test_every_operator_of_the_facts_has_a_class_and_every_class_its_fact() -> None:
    ours = {name for name, kind in OPERATORS.items() if not kind.is_extension}
    assert sorted(facts.operators().keys() - ours) == []
    assert sorted(ours - facts.operators().keys()) == []
    assert len(ours) == facts.enums()["enums"]["DML_OPERATOR_TYPE"]["member_count"] - 1  # INVALID


def test_classes_agree_with_the_facts() -> None:
    allowed = [item["what"] for item in facts.known_differences()]
    unexpected = [line for line in all_differences() if not any(fnmatchcase(line, pattern) for pattern in allowed)]
    assert not unexpected, f"{len(unexpected)} differences\n" + "\n".join(unexpected)


def test_listed_differences_still_exist_and_have_a_reason() -> None:
    patterns = [item["what"] for item in facts.known_differences()]
    gone = [pattern for pattern in patterns if not any(fnmatchcase(line, pattern) for line in all_differences())]
    assert not gone, f"no such difference any more: remove {gone}"
    assert not [item["what"] for item in facts.known_differences() if len(item["reason"].split()) <= 5]


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPERATORS["DML_OPERATOR_RNN"], "in_place", True)
    monkeypatch.setattr(OPERATORS["DML_OPERATOR_RNN"], "support", OPERATORS["DML_OPERATOR_ACTIVATION_SWISH"].support)
    monkeypatch.setattr(OPERATORS["DML_OPERATOR_RNN"].tensor_fields()[0].marker, "terms", parse("2 seq_length batch_size input_size"))
    text = "\n".join(operator_differences("DML_OPERATOR_RNN"))
    for part in ("in_place True", "introduced at 6_2", "support of InputTensor at 1_0 is missing", "InputTensor is 1 seq_length"):
        assert part in text


def test_types_of_members_are_shown_as_in_the_header() -> None:
    assert c_type(tuple[int, ...], signed=True) == ("INT_ARRAY", None)
    assert c_type(int | float) == ("SCALAR_UNION", None)
    assert c_type(tuple[dml.TensorDesc, ...] | None) == ("TENSOR_DESC_ARRAY", None)
    assert c_type(ScaleBias | None) == ("SCALE_BIAS", None)


OWN = {"DML_TENSOR_DATA_TYPE_BFLOAT16"}
"""Members that DirectML lacks: larger than all of its numbers, which count up."""


@pytest.mark.parametrize(("c_name", "ours"), OURS.items(), ids=list(OURS))
def test_enumerations_agree_with_the_header(c_name: str, ours: type[DmlEnum]) -> None:
    fact = facts.enums()["enums"][c_name]
    assert ours.prefix() == fact["prefix"]
    assert {member.c_name: int(member) for member in ours if member.c_name not in OWN} == fact["values"]
    assert all(int(member) > 2 * max(fact["values"].values()) for member in ours if member.c_name in OWN)


def test_data_types_agree_with_the_header() -> None:
    fact = facts.enums()["enums"]["DML_TENSOR_DATA_TYPE"]
    assert {member.c_name: member.bits for member in enums.DataType if member.bits and member.c_name not in OWN} == fact["bits"]
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
    assert {item.name: int(item) for item in HResult} == {item.name: results[item.name] for item in HResult}
    constants = facts.enums()["constants"]
    assert constants["DML_TENSOR_DIMENSION_COUNT_MAX1"] == tensors.MAX_DIMENSION_COUNT
    assert constants["DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT"] == tensors.MINIMUM_BUFFER_ALIGNMENT
    assert constants["MAX_TENSOR_ELEMENTS"] == tensors.MAX_ELEMENTS
