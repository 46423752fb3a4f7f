"""`check_feature_support`, and what each feature level has: held to the header's facts."""

from __future__ import annotations

from typing import Any

import pytest

import dmlpy as dml
from tests.support.descs import facts_reader as facts

LEVELS = list(dml.FeatureLevel)


@pytest.mark.parametrize(("c_name", "introduced"), facts.enums()["enums"]["DML_TENSOR_DATA_TYPE"]["introduced"].items())
def test_a_type_is_supported_from_its_level_on(c_name: str, introduced: str) -> None:
    since = dml.FeatureLevel.parse(introduced)
    answers = {level: dml.check_feature_support("TENSOR_DATA_TYPE_SUPPORT", {"DataType": c_name}, level) for level in LEVELS}
    assert {level: answer.to_dict()["IsSupported"] for level, answer in answers.items()} == {level: level >= since for level in LEVELS}


def test_no_level_supports_a_type_that_is_unknown() -> None:
    answer = dml.check_feature_support(dml.Feature.TENSOR_DATA_TYPE_SUPPORT, dml.FeatureQueryTensorDataTypeSupport(data_type=0))
    assert answer == dml.FeatureDataTensorDataTypeSupport(is_supported=False)


@pytest.mark.parametrize(
    ("level", "requested", "expected"),
    [
        ("6_4", ["1_0", "5_0", "6_4"], "6_4"),
        ("5_1", ["1_0", "5_0", "6_4"], "5_0"),
        ("5_1", ["DML_FEATURE_LEVEL_5_1"], "5_1"),
        ("2_0", [0x1000, 0x2100], "1_0"),
    ],
)
def test_the_highest_of_the_requested_levels_is_returned(level: str, requested: list[Any], expected: str) -> None:
    query = dml.FeatureQueryFeatureLevels(requested_feature_levels=requested, RequestedFeatureLevelCount=len(requested))
    answer = dml.check_feature_support("FEATURE_LEVELS", query, level)
    assert answer == dml.FeatureDataFeatureLevels(max_supported_feature_level=expected)
    assert answer.to_dict() == {"MaxSupportedFeatureLevel": f"DML_FEATURE_LEVEL_{expected}"}


@pytest.mark.parametrize(
    ("feature", "query", "level", "error", "hresult", "text"),
    [
        ("FEATURES", {}, "6_4", dml.DmlError, "DXGI_ERROR_UNSUPPORTED", "feature is 'FEATURES', expected one of TENSOR_DATA"),
        (2, {}, "6_4", dml.DmlError, "DXGI_ERROR_UNSUPPORTED", "feature is 2"),
        ("FEATURE_LEVELS", {"RequestedFeatureLevels": ["1_0"]}, "1_0", dml.DmlError, "DXGI_ERROR_UNSUPPORTED", "2_0 brought"),
        ("FEATURE_LEVELS", {"RequestedFeatureLevels": []}, "6_4", dml.DescError, "E_INVALIDARG", "expected a level up to 6_4"),
        ("FEATURE_LEVELS", {"RequestedFeatureLevels": ["6_0"]}, "5_0", dml.DescError, "E_INVALIDARG", "is 6_0, expected a level up to 5_0"),
        ("FEATURE_LEVELS", {"RequestedFeatureLevels": ["7_0"]}, "5_0", dml.DescError, "E_INVALIDARG", "expected one of 1_0, 2_0"),
        ("FEATURE_LEVELS", {"RequestedFeatureLevels": "1_0"}, "5_0", dml.DescError, "E_INVALIDARG", "a sequence of feature levels"),
        ("FEATURE_LEVELS", {"DataType": "FLOAT32"}, "6_4", dml.DescError, "E_INVALIDARG", "field.unknown"),
        (
            "FEATURE_LEVELS",
            {"RequestedFeatureLevels": ["1_0"], "RequestedFeatureLevelCount": 2},
            "6_4",
            dml.DescError,
            "E_INVALIDARG",
            "count",
        ),
        ("TENSOR_DATA_TYPE_SUPPORT", 3, "6_4", dml.DescError, "E_INVALIDARG", "expected a FeatureQueryTensorDataTypeSupport"),
        ("TENSOR_DATA_TYPE_SUPPORT", {"DataType": "FLOAT32"}, "6_5", dml.DescError, "E_INVALIDARG", "feature_level is '6_5'"),
    ],
)
def test_wrong_questions(feature: Any, query: Any, level: str, error: type[dml.DmlError], hresult: str, text: str) -> None:
    with pytest.raises(error) as caught:
        dml.check_feature_support(feature, query, level)
    assert text in str(caught.value)
    assert caught.value.hresult.name == hresult


def test_the_lowest_level_that_takes_a_desc() -> None:
    def relu(*sizes: int, data_type: str = "FLOAT32") -> dml.ActivationReluDesc:
        tensor = dml.TensorDesc(data_type=data_type, sizes=sizes)
        return dml.ActivationReluDesc(input_tensor=tensor, output_tensor=tensor)

    found = [dml.lowest_level(desc) for desc in (relu(1, 1, 2, 3), relu(1, 1, 1, 2, 3), relu(2), relu(2, data_type="INT8"), relu(0))]
    assert [str(level) for level in found] == ["1_0", "2_0", "3_0", "5_1", "None"]
