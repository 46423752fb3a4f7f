"""Descs to JSON and back: nothing is lost, every form that DxDispatch models use is read, and what cannot be read is reported."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from tests.support.descs import facts_reader as facts
from tests.support.descs.random_descs import garbage_activations, garbage_descs, valid_members
from tests.support.descs.wrong_descs import STRUCTS, activation, valid
from tests.support.tensors import rnn

FLAT = pytest.mark.parametrize("flat", [False, True], ids=["nested", "flat"])


def trips(desc: Any) -> list[Any]:
    """A desc after every kind of round trip."""
    return [
        *(dml.OperatorDesc.from_json(desc.to_json(flat=flat, indent=indent)) for flat in (False, True) for indent in (None, 2)),
        type(desc).from_dict(desc.to_dict()),
        pickle.loads(pickle.dumps(desc)),
        copy.deepcopy(desc),
        copy.copy(desc),
        desc.replace(),
    ]


def assert_same(desc: Any, other: Any) -> None:
    assert other == desc
    assert type(other) is type(desc)
    assert hash(other) == hash(desc)
    assert other.to_json() == desc.to_json()


@settings(max_examples=40, deadline=None)
@given(valid_members().map(lambda case: OPERATORS[case[0]](**case[1])) | garbage_descs() | garbage_activations())
def test_round_trips_lose_nothing(desc: Any) -> None:
    for other in trips(desc):
        assert_same(desc, other)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 1e-45, 3.4028234663852886e38, 0.1, 1 / 3])
def test_every_float_survives(value: float) -> None:
    desc = rnn(activation_descs=[dml.ActivationEluDesc(alpha=value)])
    for other in trips(desc):
        assert_same(desc, other)
        alpha = other.activation_descs[0].alpha
        assert math.copysign(1, alpha) == math.copysign(1, value)
        assert alpha == value or math.isnan(value)


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "INF", "NaN", " -Inf "])
def test_infinities_and_nan_are_words_in_json(text: str) -> None:
    desc = dml.OperatorDesc.from_dict({"Type": "ACTIVATION_ELU", "Alpha": text})
    assert desc.to_dict()["Desc"]["Alpha"] == text.strip().lower()
    assert json.loads(desc.to_json(), parse_constant=pytest.fail) == desc.to_dict()


def test_layouts_and_flags_survive() -> None:
    tensor = dml.TensorDesc(
        data_type="FLOAT16",
        sizes=[1, 7, 3, 11],
        strides=[0, 40, 1, 3],
        flags="OWNED_BY_DML",
        total_tensor_size_in_bytes=1024,
        guaranteed_base_offset_alignment=32,
    )
    expected = {
        "DataType": "DML_TENSOR_DATA_TYPE_FLOAT16",
        "DimensionCount": 4,
        "Sizes": [1, 7, 3, 11],
        "Strides": [0, 40, 1, 3],
        "Flags": "DML_TENSOR_FLAG_OWNED_BY_DML",
        "TotalTensorSizeInBytes": 1024,
        "GuaranteedBaseOffsetAlignment": 32,
    }
    assert tensor.to_dict() == expected
    assert dml.TensorDesc.from_dict(expected) == tensor
    for other in trips(rnn(input_tensor=tensor)):
        assert other.input_tensor == tensor


def test_the_written_form() -> None:
    assert rnn().to_dict() == {
        "Type": "DML_OPERATOR_RNN",
        "Desc": {
            "InputTensor": {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "DimensionCount": 4, "Sizes": [1, 7, 3, 11]},
            "WeightTensor": {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "DimensionCount": 4, "Sizes": [1, 1, 5, 11]},
            "RecurrenceTensor": {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "DimensionCount": 4, "Sizes": [1, 1, 5, 5]},
            "OutputSingleTensor": {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "DimensionCount": 4, "Sizes": [1, 1, 3, 5]},
            "ActivationDescCount": 1,
            "ActivationDescs": [{"Type": "DML_OPERATOR_ACTIVATION_TANH"}],
            "Direction": "DML_RECURRENT_NETWORK_DIRECTION_FORWARD",
        },
    }
    flat = rnn().to_dict(flat=True)
    assert flat == {"Type": "DML_OPERATOR_RNN", **rnn().to_dict()["Desc"]}


@pytest.mark.parametrize("name", [name for name in OPERATORS if "_ACTIVATION_" in name])
@FLAT
def test_activations_keep_their_class(name: str, flat: bool) -> None:
    inner = activation(name)
    given_members = {key: value for key, value in inner.items() if key != "Type"}
    desc = rnn(activation_descs=[OPERATORS[name](**given_members), dml.ActivationTanhDesc()])
    back = dml.OperatorDesc.from_dict(desc.to_dict(flat=flat))
    assert isinstance(back, dml.RNNDesc)
    assert [type(item) for item in back.activation_descs] == [OPERATORS[name], dml.ActivationTanhDesc]
    assert back == desc
    written = desc.to_dict()["Desc"]["ActivationDescs"][0]
    assert written == inner
    nested = {"Type": name, "Desc": given_members}
    assert rnn(activation_descs=[nested, {"Type": "ACTIVATION_TANH"}]) == desc


@pytest.mark.parametrize("operator", STRUCTS)
def test_forms_that_mean_the_same(operator: str) -> None:
    members = valid(operator)
    desc = dml.OperatorDesc.from_dict({"Type": operator, "Desc": members})
    short = operator.removeprefix("DML_OPERATOR_")
    shortened = json.loads(
        json.dumps(members)
        .replace("DML_TENSOR_DATA_TYPE_", "")
        .replace("DML_RECURRENT_NETWORK_DIRECTION_", "")
        .replace("DML_OPERATOR_", "")
    )
    wrapped = {
        name: {"Type": kind, "Desc": value} if isinstance(value, dict) else value
        for (name, value), kind in zip(members.items(), ["BUFFER", "DML_TENSOR_TYPE_BUFFER"] * 20, strict=False)
    }
    uncounted = {name: value for name, value in members.items() if name != "ActivationDescCount"}
    for name in facts.tensors(facts.operators()[operator]):
        uncounted[name] = {
            **{key: value for key, value in members[name].items() if key != "DimensionCount"},
            "Strides": [],
            "Flags": [],
            "TotalTensorSizeInBytes": 0,
        }
    for form in (
        {"Type": short, "Desc": members},
        {"type": short, "desc": members},
        {"TYPE": operator, **members},
        {"Type": operator, **shortened},
        {"Type": operator, "Desc": wrapped},
        {"Type": operator, "Desc": uncounted},
        {"Type": operator, "Desc": dict(reversed(members.items()))},
    ):
        assert dml.OperatorDesc.from_dict(form) == desc
        assert dml.OperatorDesc.from_json(json.dumps(form)) == desc
    assert OPERATORS[operator].from_dict(members) == desc
    assert OPERATORS[operator].from_json(json.dumps({"Desc": members}).encode()) == desc


@pytest.mark.parametrize("flags", ["NONE", "DML_TENSOR_FLAG_NONE", ["NONE"], []])
def test_flags_in_any_form(flags: Any) -> None:
    assert dml.TensorDesc.from_dict({"DataType": "FLOAT32", "Sizes": [1], "Flags": flags}).flags is dml.TensorFlags.NONE
    owned = dml.TensorDesc.from_dict({"DataType": "FLOAT32", "Sizes": [1], "Flags": ["OWNED_BY_DML"]})
    assert owned.flags is dml.TensorFlags.OWNED_BY_DML


def lstm_json(**changes: Any) -> dict[str, Any]:
    members = valid("DML_OPERATOR_LSTM") | changes
    return {"Type": "LSTM", "Desc": {name: value for name, value in members.items() if value is not None}}


TENSOR = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 3]}
UNREADABLE: list[tuple[str, Any, str, str, str | None]] = [
    # what is wrong, JSON, code, place, remedy
    ("no object", [], "field.form", "", None),
    ("no type", {"Desc": valid("DML_OPERATOR_RNN")}, "field.missing", "type", None),
    ("unknown operator", {"Type": "DML_OPERATOR_LSTN"}, "operator.unknown", "type", "did you mean DML_OPERATOR_LSTM?"),
    ("type of a wrong form", {"Type": 77}, "operator.unknown", "type", None),
    ("missing BOOL", lstm_json(UseClipThreshold=None), "field.missing", "UseClipThreshold", None),
    ("missing FLOAT", lstm_json(ClipThreshold=None), "field.missing", "ClipThreshold", None),
    ("missing tensor", lstm_json(WeightTensor=None), "field.missing", "weight_tensor", None),
    ("missing direction", lstm_json(Direction=None), "field.missing", "direction", None),
    ("missing sizes", lstm_json(WeightTensor={"DataType": "FLOAT32"}), "field.missing", "weight_tensor.sizes", None),
    ("unknown member", lstm_json(PeepholesTensor=TENSOR), "field.unknown", "PeepholesTensor", "did you mean PeepholeTensor?"),
    (
        "unknown member of a tensor",
        lstm_json(BiasTensor=TENSOR | {"Stride": [1]}),
        "field.unknown",
        "bias_tensor.Stride",
        "did you mean Strides?",
    ),
    ("count of activations", lstm_json(ActivationDescCount=2), "count.length", "ActivationDescCount", None),
    ("count that is not a number", lstm_json(ActivationDescCount="3"), "count.length", "ActivationDescCount", None),
    ("count of dimensions", lstm_json(BiasTensor=TENSOR | {"DimensionCount": 3}), "count.length", "bias_tensor.DimensionCount", None),
    ("kind of tensor", lstm_json(BiasTensor={"Type": "IMAGE", "Desc": TENSOR}), "field.form", "bias_tensor.type", None),
    ("tensor as a number", lstm_json(BiasTensor=4), "field.form", "bias_tensor", None),
    ("sizes as a text", lstm_json(BiasTensor={"DataType": "FLOAT32", "Sizes": "1113"}), "field.form", "bias_tensor.sizes", None),
    ("sizes of fractions", lstm_json(BiasTensor={"DataType": "FLOAT32", "Sizes": [1.5]}), "field.form", "bias_tensor.sizes[0]", None),
    (
        "data type",
        lstm_json(BiasTensor={"DataType": "FLOAT23", "Sizes": [1]}),
        "field.form",
        "bias_tensor.data_type",
        "did you mean FLOAT32?",
    ),
    ("two flags", lstm_json(BiasTensor=TENSOR | {"Flags": ["NONE", "OWNED_BY_DML"]}), "field.form", "bias_tensor.flags", None),
    ("direction", lstm_json(Direction="BIDIRECTONAL"), "field.form", "direction", "did you mean BIDIRECTIONAL?"),
    ("BOOL as a text", lstm_json(CoupleInputForget="true"), "field.form", "couple_input_forget", None),
    ("FLOAT as a text", lstm_json(ClipThreshold="infinite"), "field.form", "clip_threshold", None),
    ("FLOAT as a BOOL", lstm_json(ClipThreshold=True), "field.form", "clip_threshold", None),
    ("activations as a text", lstm_json(ActivationDescs="TANH", ActivationDescCount=None), "field.form", "activation_descs", None),
    (
        "activations as an object",
        lstm_json(ActivationDescs={"Type": "ACTIVATION_TANH"}, ActivationDescCount=None),
        "field.form",
        "activation_descs",
        None,
    ),
    (
        "activation unknown",
        lstm_json(ActivationDescs=[{"Type": "ACTIVATION_TANHH"}] * 3),
        "operator.unknown",
        "activation_descs[0].type",
        "did you mean DML_OPERATOR_ACTIVATION_TANH?",
    ),
    (
        "activation without its FLOAT",
        lstm_json(ActivationDescs=[{"Type": "ACTIVATION_ELU"}] * 3),
        "field.missing",
        "activation_descs[0].Alpha",
        None,
    ),
    ("activation of another kind", lstm_json(ActivationDescs=[lstm_json()] * 3), "field.form", "activation_descs[0].type", None),
    ("activation without a type", lstm_json(ActivationDescs=[{}] * 3), "field.missing", "activation_descs[0].type", None),
]


@pytest.mark.parametrize(("data", "code", "path", "remedy"), [row[1:] for row in UNREADABLE], ids=[row[0] for row in UNREADABLE])
def test_what_cannot_be_read_is_reported(data: Any, code: str, path: str, remedy: str | None) -> None:
    with pytest.raises(dml.DescError) as caught:
        dml.OperatorDesc.from_dict(data)
    (problem,) = [problem for problem in caught.value.problems if problem.path == path]
    assert (problem.code, problem.remedy) == (code, remedy)
    assert len(caught.value.problems) == 1


def test_all_that_cannot_be_read_is_reported_at_once() -> None:
    data = lstm_json(Direction="SIDEWAYS", ClipThreshold=None, Weights=TENSOR, ActivationDescCount=1, BiasTensor={"Sizes": "x"})
    with pytest.raises(dml.DescError) as caught:
        dml.OperatorDesc.from_dict(data)
    assert {(problem.code, problem.path) for problem in caught.value.problems} == {
        ("field.form", "direction"),
        ("field.missing", "ClipThreshold"),
        ("field.unknown", "Weights"),
        ("count.length", "ActivationDescCount"),
        ("field.missing", "bias_tensor.data_type"),
        ("field.form", "bias_tensor.sizes"),
    }


@pytest.mark.parametrize("text", ["", "{", '{"Type": "RNN",,}', "nonsense", b"\xff\xfe"])
def test_text_that_is_no_json(text: str | bytes) -> None:
    with pytest.raises(dml.DescError, match="not JSON") as caught:
        dml.OperatorDesc.from_json(text)
    assert [problem.code for problem in caught.value.problems] == ["json.syntax"]


def test_another_operator_than_the_class_is_refused() -> None:
    with pytest.raises(dml.DescError, match="DML_OPERATOR_RNN") as caught:
        dml.LSTMDesc.from_dict(rnn().to_dict())
    assert caught.value.problems[0].expected == "DML_OPERATOR_LSTM"
    with pytest.raises(dml.DescError, match="kind of ActivationDesc"):
        dml.ActivationDesc.from_dict(rnn().to_dict())
    assert isinstance(dml.RecurrentDesc.from_dict(rnn().to_dict()), dml.RNNDesc)


def test_equal_descs_are_equal_whatever_spelled_them() -> None:
    members: dict[str, Any] = {
        "InputTensor": {"DataType": "float32", "Sizes": (1, 7, 3, 11), "Strides": None},
        "WeightTensor": {"DataType": 1, "Sizes": [1, 1, 5, 11]},
        "RecurrenceTensor": {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "Sizes": [1, 1, 5, 5], "TotalTensorSizeInBytes": 0},
        "OutputSingleTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 5], "Strides": []},
        "ActivationDescs": ({"Type": "ACTIVATION_TANH"},),
        "Direction": "forward",
    }
    in_c = dml.RNNDesc(**members)
    assert in_c == rnn()
    assert len({in_c, rnn(), rnn(direction="BACKWARD")}) == 2
    assert dml.compile(in_c, "numpy") is dml.compile(rnn(), "numpy")


@pytest.mark.parametrize("kind", ["desc", "graph"])
def test_json_may_have_the_comments_that_files_may(kind: str) -> None:
    desc = rnn()
    of_graph = {"InputCount": 0, "OutputCount": 0, "Nodes": [{"Type": "OPERATOR", "Operator": desc.to_dict(), "Name": "a // b /* c */"}]}
    data, read = (desc.to_dict(), dml.OperatorDesc.from_json) if kind == "desc" else (of_graph, dml.Graph.from_json)
    commented = "// a line\n" + json.dumps(data).replace("}", "/* before an end, */ , }")
    assert read(commented) == read(commented.encode()) == read("\ufeff".encode() + commented.encode()) == read(json.dumps(data))


def test_the_place_of_a_mistake_in_commented_json() -> None:
    text = '{"Type": /* of a layer */ "RNN" "Desc": 1}'
    column = text.index('"Desc"') + 1
    with pytest.raises(dml.DescError, match=rf"line 1 column {column} "):
        dml.OperatorDesc.from_json(text)
