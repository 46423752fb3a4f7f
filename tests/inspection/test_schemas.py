"""`schemas/` matches the classes, and the schemas judge the JSON form as `from_dict` does."""

from __future__ import annotations

import copy
import functools
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped, unused-ignore]
import pytest
from referencing import Registry, Resource

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection import schemas
from dmlpy.messages.naming import c_member
from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs
from tests.support.descs.mutants import mutants
from tests.support.descs.own_descs import own_desc
from tests.support.descs.wrong_descs import STRUCTS
from tests.support.folders import ROOT
from tests.support.pairwise import first_few
from tests.support.tables import table

FOLDER = ROOT / "schemas"


@functools.cache
def stored(name: str) -> Any:
    """A generated file, which has no number that JSON does not know."""
    data = json.loads((FOLDER / name).read_text(encoding="utf-8"), parse_constant=pytest.fail)
    if name != "support.json":
        jsonschema.Draft202012Validator.check_schema(data)
    return data


@functools.cache
def validator(operator: str) -> Any:
    shared = Registry().with_resource(schemas.DEFINITIONS, Resource.from_contents(stored(schemas.DEFINITIONS)))
    return jsonschema.Draft202012Validator(stored(f"{OPERATORS[operator].c_name}.json"), registry=shared)


@functools.cache
def _whole(operator: str) -> bytes:
    return pickle.dumps(schemas.schema(OPERATORS[operator]))


def whole_schema(operator: str) -> dict[str, Any]:
    """An operator's schema, for the caller to change: it is made once for all tests."""
    made: dict[str, Any] = pickle.loads(_whole(operator))
    return made


def references(form: Any) -> Iterator[dict[str, Any]]:
    """The objects of a schema that have a `$ref`."""
    if isinstance(form, dict) and "$ref" in form:
        yield form
    for item in form.values() if isinstance(form, dict) else form if isinstance(form, list) else ():
        yield from references(item)


def example(operator: str) -> dict[str, Any]:
    """A valid desc of an operator as nested JSON, for the caller to change."""
    if OPERATORS[operator].is_extension:
        return own_desc(operator).to_dict()
    # The valid descs are read once for all tests.
    return relation_descs.data(operator, copy.deepcopy(relation_descs.valid_descs(operator)[0].members))


def test_files_are_fresh() -> None:
    assert schemas.stale(FOLDER) == [], f"run: {schemas.COMMAND}"


def test_writing_is_repeatable_and_staleness_is_seen(tmp_path: Path) -> None:
    written = schemas.write(tmp_path / "schemas")
    folder = tmp_path / "schemas"
    assert sorted(path.name for path in folder.iterdir()) == [path.name for path in written]
    assert len(written) == len(OPERATORS) + 3
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


def test_the_page_shows_how_to_validate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    code = re.search(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code
    scope: dict[str, Any] = {}
    exec(compile(code[1], "README.md", "exec"), scope)
    desc = example("DML_OPERATOR_GEMM")
    scope["check"].validate(desc)
    desc["Desc"]["ATensor"]["DataType"] = "FLOAT31"
    assert not scope["check"].is_valid(desc)


def test_a_bundle_has_no_file_of_definitions(tmp_path: Path) -> None:
    schemas.write(tmp_path)
    assert schemas.DEFINITIONS in schemas.stale(tmp_path, bundle=True)
    written = schemas.write(tmp_path, bundle=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in written]
    assert schemas.stale(tmp_path, bundle=True) == []
    assert len(schemas.stale(tmp_path)) == len(OPERATORS) + 2  # all but the support tables
    for operator, kind in OPERATORS.items():
        assert json.loads((tmp_path / f"{kind.c_name}.json").read_text(encoding="utf-8")) == whole_schema(operator), operator


@table("operator", OPERATORS)
def test_a_schema_and_the_shared_definitions_are_its_bundle(operator: str) -> None:
    kind, whole = OPERATORS[operator], whole_schema(operator)
    apart, shared = copy.deepcopy(stored(f"{kind.c_name}.json")), stored(schemas.DEFINITIONS)["$defs"]
    assert list(apart["$defs"]) == [kind.c_name]
    assert not {reference["$ref"] for reference in references(whole)} - {f"#/$defs/{name}" for name in whole["$defs"]}
    for reference in references(apart):
        reference["$ref"] = reference["$ref"].removeprefix(schemas.DEFINITIONS)
    apart["$defs"] |= {name: shared[name] for name in whole["$defs"] if name != kind.c_name}
    assert apart == whole


def test_definitions_refer_to_each_other_alone() -> None:
    shared = stored(schemas.DEFINITIONS)
    found = {reference["$ref"] for reference in references(shared)}
    assert found < {f"#/$defs/{name}" for name in shared["$defs"]}
    used = {reference["$ref"] for kind in OPERATORS.values() for reference in references(stored(f"{kind.c_name}.json"))} | found
    assert {name for name in shared["$defs"] if not used & {f"#/$defs/{name}", f"{schemas.DEFINITIONS}#/$defs/{name}"}} == set()


@table("operator", OPERATORS)
def test_nothing_next_to_a_reference_hides_what_it_refers_to(operator: str) -> None:
    """Editors merge both and keep the keyword next to the reference."""
    whole = whole_schema(operator)
    found = list(references(whole))
    assert found
    for reference in found:
        target = whole["$defs"][reference["$ref"].rpartition("/")[2]]
        assert not target.keys() & (reference.keys() - {"$ref", "description"}), reference


def test_a_definition_that_schemas_give_differently_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = schemas.schema

    def differing(kind: type[dml.OperatorDesc]) -> dict[str, Any]:
        found = whole(kind)
        if kind is dml.GEMMDesc:
            found["$defs"]["FLOAT"] = {"type": "number"}
        return found

    monkeypatch.setattr(schemas, "schema", differing)
    with pytest.raises(ValueError, match="FLOAT otherwise"):
        schemas.write(tmp_path)


@table("operator", OPERATORS)
def test_descs_validate_in_both_forms(operator: str) -> None:
    check = validator(operator)
    given = example(operator)
    check.validate(given)
    desc = dml.OperatorDesc.from_dict(given)
    assert dml.check(desc) == []
    for flat in (False, True):
        check.validate(json.loads(desc.to_json(flat=flat)))
    if "Type" not in given["Desc"]:
        check.validate({"Type": OPERATORS[operator].short_name(), **given["Desc"]})


@pytest.mark.parametrize(
    "operator", [pytest.param(name, marks=[pytest.mark.slow] * (number % 3 > 0)) for number, name in enumerate(OPERATORS)]
)
def test_wrong_forms_are_refused(operator: str) -> None:
    check = validator(operator)
    given = example(operator)
    kind = OPERATORS[operator]
    tensor = c_member(kind.tensor_fields()[0].name)
    wrong: list[dict[str, Any]] = [
        {"Desc": given["Desc"]},
        {"Type": "DML_OPERATOR_GEM", "Desc": given["Desc"]},
        {**given, "Name": "too much"},
        {"Type": operator, "Desc": {**given["Desc"], "Extent": 1}},
        {"Type": operator, **given["Desc"], "Extent": 1},
        {"Type": operator, "Desc": {**given["Desc"], tensor: {"DataType": "FLOAT32"}}},
        {"Type": operator, "Desc": {**given["Desc"], tensor: {"DataType": "FLOAT31", "Sizes": [1]}}},
        {"Type": operator, "Desc": {**given["Desc"], tensor: {"DataType": "FLOAT32", "Sizes": [1, 0]}}},
        {"Type": operator, "Desc": {**given["Desc"], tensor: {"DataType": "FLOAT32", "Sizes": [1], "Stride": [1]}}},
        {"Type": operator, "Desc": {**given["Desc"], tensor: 3}},
    ]
    optional = {field["name"] for field in facts.operators().get(operator, {"fields": []})["fields"] if field["optional"]}
    if operator == "DML_OPERATOR_RANDOM_GENERATOR":
        del wrong[4]  # next to its Type the flat form has no place for the operator's
    for attribute in map(c_member, kind.attribute_names()):
        if attribute not in optional:
            wrong.append({"Type": operator, "Desc": {key: value for key, value in given["Desc"].items() if key != attribute}})
        wrong.append({"Type": operator, "Desc": {**given["Desc"], attribute: "much"}})
    for data in wrong:
        assert not check.is_valid(data), data


@pytest.mark.parametrize("operator", first_few(STRUCTS, 2))
def test_schemas_and_from_dict_agree_on_wrong_descs(operator: str) -> None:
    """Whatever `from_dict` refuses for its form the schema refuses too, except what a schema cannot express: lengths given twice."""
    check = validator(operator)
    refused = []
    for mutant in mutants(operator):
        data = {"Type": operator, "Desc": mutant.members}
        try:
            dml.OperatorDesc.from_dict(data)
        except dml.DescError as error:
            if {problem.code for problem in error.problems} != {"count.length"}:
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


def test_annotations_match_the_classes() -> None:
    # The classes are held to the facts elsewhere.
    support = stored("support.json")
    for operator, kind in OPERATORS.items():
        told = stored(f"{kind.c_name}.json")["x-dml"]
        assert told["type"] == operator
        assert told["introduced"] == (None if kind.is_extension else str(kind.introduced()))
        assert told["in_place"] == kind.in_place
        assert told["owned_inputs"] == kind.accepts_owned
        assert told["formula"]
        assert set(told["rules"]) == set(kind.rules())
        assert list(told["tensors"]) == [c_member(field.name) for field in kind.tensor_fields()]
        assert [item["sizes"] for item in told["tensors"].values()] == [
            list(map(str, field.marker.terms)) for field in kind.tensor_fields()
        ]
        assert told["support"] == support[operator]
        rows = sorted(kind.support, key=lambda row: row.level)
        for row, ours in zip(rows, support[operator], strict=True):
            assert ours["feature_level"] == str(row.level)
            assert ours.get("when", {}) == {c_member(name): list(map(str, values)) for name, values in row.when.items()}
            for field in kind.tensor_fields():
                item = ours["tensors"][c_member(field.name)]
                assert tuple(item["dims"]) == row.dims_for(field.name)
                assert sorted(item["types"]) == sorted(map(str, kind.types_in(row, field)))
    assert "at least 1" in stored("DML_CONVOLUTION_OPERATOR_DESC.json")["x-dml"]["attributes"]["Strides"]


def test_every_member_is_described() -> None:
    for operator in OPERATORS:
        if OPERATORS[operator].family() == "activation":
            continue  # a formula describes them completely
        members = validator(operator).schema["$defs"][OPERATORS[operator].c_name]["properties"]
        assert [name for name, form in members.items() if not form.get("description")] == []
