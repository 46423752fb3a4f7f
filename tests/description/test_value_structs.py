"""DML_SCALE_BIAS, DML_SIZE_2D and DML_SCALAR_UNION: their forms in Python and JSON, and what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import dmlpy as dml

X = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3])


def identity(scale_bias: Any) -> dml.ElementWiseIdentityDesc:
    return dml.ElementWiseIdentityDesc(input_tensor=X, scale_bias=scale_bias).with_outputs()


@pytest.mark.parametrize("given", [dml.ScaleBias(scale=2, bias=-1), {"Scale": 2, "Bias": -1.0}, {"scale": np.float32(2), "bias": -1}])
def test_scale_and_bias_in_every_form(given: Any) -> None:
    desc = identity(given)
    assert desc.scale_bias == dml.ScaleBias(scale=2.0, bias=-1.0)
    assert str(desc.scale_bias) == "scale=2, bias=-1"
    assert desc.to_dict()["Desc"]["ScaleBias"] == {"Scale": 2.0, "Bias": -1.0}
    assert dml.OperatorDesc.from_json(desc.to_json()) == desc == pickle.loads(pickle.dumps(desc))
    assert dml.check(desc) == []


@pytest.mark.parametrize(
    ("given", "path", "expected"),
    [
        ({"Scale": 2}, "scale_bias.bias", "a number: the member is required"),
        ({"Scale": 2, "Bias": 0, "Shift": 1}, "scale_bias.Shift", "one of Scale, Bias"),
        ({"Scale": "much", "Bias": 0}, "scale_bias.scale", "a number, or one of 'inf', '-inf', 'nan'"),
        (3, "scale_bias", "an object with Scale and Bias"),
        ([2, 0], "scale_bias", "an object with Scale and Bias"),
    ],
)
def test_wrong_scales_are_reported_where_they_are(given: Any, path: str, expected: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        identity(given)
    (problem,) = caught.value.problems
    assert (problem.path, problem.expected) == (path, expected)


def test_numbers_that_the_c_struct_cannot_hold() -> None:
    (problem,) = dml.check(identity({"Scale": 1e39, "Bias": 0}))
    assert (problem.code, problem.path) == ("attribute.range", "scale_bias.scale")
    image = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 2])
    size = {"Width": -1, "Height": 2**32}
    found = dml.check(dml.Upsample2DDesc(input_tensor=image, scale_size=size, interpolation_mode="LINEAR"))
    assert {"scale_size.width", "scale_size.height"} <= {problem.path for problem in found}


def clip(data_type: str, least: Any, most: Any) -> dml.ElementWiseClip1Desc:
    x = dml.TensorDesc(data_type=data_type, sizes=[2])
    return dml.ElementWiseClip1Desc(input_tensor=x, min_max_data_type=data_type, min=least, max=most).with_outputs()


@pytest.mark.parametrize(
    ("data_type", "given", "value"),
    [
        ("FLOAT32", 1.5, 1.5),
        ("FLOAT32", {"Float32": 1.5}, 1.5),
        ("FLOAT32", "-inf", -np.inf),
        ("FLOAT16", {"UInt16": 0x3E00}, 1.5),
        ("FLOAT16", 65504, 65504),
        ("INT8", {"Int8": -128}, -128),
        ("UINT64", 2**64 - 1, 2**64 - 1),
        ("INT64", np.int64(-3), -3),
        ("UINT16", {"UInt16": 0x3E00}, 0x3E00),
    ],
)
def test_scalars_in_every_form(data_type: str, given: Any, value: float) -> None:
    desc = clip(data_type, given, given)
    assert desc.min == value
    assert dml.check(desc) == []
    assert dml.OperatorDesc.from_json(desc.to_json()) == desc


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("INT8", 128),
        ("INT8", -129),
        ("UINT8", -1),
        ("UINT32", 2**32),
        ("INT32", 0.5),
        ("INT16", np.inf),
        ("FLOAT16", 65520),
        ("FLOAT32", 1e39),
    ],
)
def test_scalars_that_the_type_cannot_hold(data_type: str, value: float) -> None:
    (problem,) = dml.check(clip(data_type, 0, value))
    assert (problem.code, problem.path) == ("attribute.range", "max")
    assert problem.expected == f"a number that {data_type} holds"
    assert problem.why == (f"input_tensor has elements of type {data_type}",)


@pytest.mark.parametrize("value", [{"Int8": 1, "UInt8": 1}, {"Half": 1}, {}, "much", None, [1], {"Float32": "x"}])
def test_what_is_no_scalar_is_refused(value: Any) -> None:
    with pytest.raises(dml.DescError) as caught:
        clip("FLOAT32", 0, value)
    assert [problem.path for problem in caught.value.problems] == ["max"]
