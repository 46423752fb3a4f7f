"""`schemas/` is what the classes say now, and the schemas judge the JSON form as `from_dict` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped, unused-ignore]
import pytest

import dmlpy as dml
from dmlpy import schemas
from dmlpy.descs import OPERATORS
from dmlpy.naming import c_member
from tests import facts_reader as facts
from tests.own_descs import OWN, own_desc
from tests.wrong_descs import STRUCTS, activation, valid, wrong_descs

FOLDER = Path(__file__).parent.parent / "schemas"


def validator(operator: str) -> Any:
    schema = json.loads((FOLDER / f"{OPERATORS[operator].c_name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def example(operator: str) -> dict[str, Any]:
    """A valid desc of an operator as nested JSON."""
    if OPERATORS[operator].own:
        return own_desc(operator).to_dict()
    if operator in STRUCTS:
        return {"Type": operator, "Desc": valid(operator)}
    members = activation(operator)
    del members["Type"]
    fact = facts.operators()[operator]
    members |= {field["name"]: True for field in fact["fields"] if field.get("enum") == "BOOL"}
    members |= {field["name"]: {"Type": "ACTIVATION_TANH"} for field in fact["fields"] if field["type"] == "OPERATOR_DESC"}
    tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 3], "Strides": [6, 6, 3, 1], "Flags": ["NONE"]}
    return {"Type": operator, "Desc": dict.fromkeys(facts.tensors(fact), tensor) | members}


def test_files_are_fresh() -> None:
    assert schemas.stale(FOLDER) == [], f"run: {schemas.COMMAND}"


def test_writing_is_repeatable_and_staleness_is_seen(tmp_path: Path) -> None:
    written = schemas.write(tmp_path / "schemas")
    folder = tmp_path / "schemas"
    assert sorted(path.name for path in folder.iterdir()) == [path.name for path in written]
    assert len(written) == len(OPERATORS) + 2
    before = {path: path.read_bytes() for path in written}
    (folder / "DML_GONE_OPERATOR_DESC.json").write_text("{}")
    (folder / "notes.txt").write_text("not generated, not touched")
    (folder / "support.json").write_bytes(before[folder / "support.json"] + b" ")
    (folder / "DML_RNN_OPERATOR_DESC.json").unlink()
    assert schemas.stale(folder) == ["DML_GONE_OPERATOR_DESC.json", "DML_RNN_OPERATOR_DESC.json", "support.json"]
    schemas.write(folder)
    assert schemas.stale(folder) == []
    assert {path: path.read_bytes() for path in written} == before
    assert (folder / "notes.txt").exists()


@pytest.mark.parametrize("operator", OPERATORS)
def test_descs_validate_in_both_forms(operator: str) -> None:
    check = validator(operator)
    given = example(operator)
    check.validate(given)
    desc = dml.OperatorDesc.from_dict(given)
    assert dml.check(desc) == []
    for flat in (False, True):
        check.validate(json.loads(desc.to_json(flat=flat)))
    check.validate({"Type": OPERATORS[operator].short_name(), **given["Desc"]})


@pytest.mark.parametrize("operator", OPERATORS)
def test_wrong_forms_are_refused(operator: str) -> None:
    check = validator(operator)
    given = example(operator)
    kind = OPERATORS[operator]
    tensor = c_member(kind.tensor_fields()[0].name)
    wrong: list[dict[str, Any]] = [
        {"Desc": given["Desc"]},
        {"Type": "DML_OPERATOR_GEMM", "Desc": given["Desc"]},
        {**given, "Name": "too much"},
        {"Type": operator, "Desc": {**given["Desc"], "Extent": 1}},
        {"Type": operator, **given["Desc"], "Extent": 1},
        {"Type": operator, "Desc": {**given["Desc"], tensor: {"DataType": "FLOAT32"}}},
        {"Type": operator, "Desc": {**given["Desc"], tensor: {"DataType": "FLOAT31", "Sizes": [1]}}},
        {"Type": operator, "Desc": {**given["Desc"], tensor: {"DataType": "FLOAT32", "Sizes": [1, 0]}}},
        {"Type": operator, "Desc": {**given["Desc"], tensor: {"DataType": "FLOAT32", "Sizes": [1], "Stride": [1]}}},
        {"Type": operator, "Desc": {**given["Desc"], tensor: 3}},
    ]
    optional = {field["name"] for field in facts.operators().get(operator, {"fields": []})["fields"] if field["type"] == "OPERATOR_DESC"}
    for attribute in map(c_member, kind.attribute_names()):
        if attribute not in optional:
            wrong.append({"Type": operator, "Desc": {key: value for key, value in given["Desc"].items() if key != attribute}})
        wrong.append({"Type": operator, "Desc": {**given["Desc"], attribute: "much"}})
    for data in wrong:
        assert not check.is_valid(data), data


@pytest.mark.parametrize("operator", STRUCTS)
def test_schemas_and_from_dict_agree_on_wrong_descs(operator: str) -> None:
    """Whatever `from_dict` refuses for its form the schema refuses too, but for what a schema cannot say: lengths told twice."""
    check = validator(operator)
    refused = []
    for wrong in wrong_descs(operator):
        data = {"Type": operator, "Desc": wrong.members}
        try:
            dml.OperatorDesc.from_dict(data)
        except dml.DescError as error:
            if {problem.code for problem in error.problems} != {"count.length"} and "of digits" not in wrong.name:
                refused.append(data)
    sample = refused[:: len(refused) // 60]  # validation is slow
    assert len(sample) >= 60
    for data in sample:
        assert not check.is_valid(data), data


@pytest.mark.parametrize("value", [1, 0.5, -3e38, "inf", "-inf", "nan"])
def test_floats(value: Any) -> None:
    check = validator("DML_OPERATOR_LSTM")
    given = example("DML_OPERATOR_LSTM")
    given["Desc"]["ClipThreshold"] = value
    check.validate(given)
    check.validate(dml.OperatorDesc.from_dict(given).to_dict())


def test_annotations_tell_what_the_facts_tell() -> None:
    for operator, fact in facts.operators().items():
        told = json.loads((FOLDER / f"{fact['struct']}.json").read_text(encoding="utf-8"))["x-dml"]
        assert told["type"] == operator
        assert told["introduced"] == fact["introduced"]
        assert told["in_place"] == fact["in_place"]
        assert list(told["tensors"]) == list(facts.tensors(fact))
        assert {name: [term.replace(" ", "") for term in terms] for name, terms in fact["shapes"].items()}.items() <= {
            name: item["sizes"] for name, item in told["tensors"].items()
        }.items()
        assert told["formula"]
    support = json.loads((FOLDER / "support.json").read_text(encoding="utf-8"))
    for operator, fact in facts.operators().items():
        rows = [{"feature_level": row["feature_level"], "tensors": row["tensors"]} for row in reversed(fact["support"])]
        assert [row["feature_level"] for row in support[operator]] == [row["feature_level"] for row in rows]
        for ours, theirs in zip(support[operator], rows, strict=True):
            for slot, item in theirs["tensors"].items():
                assert ours["tensors"][slot]["dims"] == item["dims"]
                assert sorted(ours["tensors"][slot]["types"]) == sorted(item["types"])
    rules = json.loads((FOLDER / "DML_RNN_OPERATOR_DESC.json").read_text(encoding="utf-8"))["x-dml"]["rules"]
    assert set(rules) == {"activation_count", "activation_kind", "some_output"}


def test_every_member_of_the_recurrent_structs_is_described() -> None:
    for operator in (*STRUCTS, *OWN):
        members = validator(operator).schema["$defs"][OPERATORS[operator].c_name]["properties"]
        assert [name for name, form in members.items() if not form.get("description")] == []
