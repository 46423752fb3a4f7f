"""Constructors: both spellings, what may stand for a member, and what is refused with the nearest name."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.coercion import brief
from dmlpy.description.registry import OPERATORS
from dmlpy.description.structs import Struct
from dmlpy.inspection.samples import sample
from dmlpy.messages.naming import c_member, c_path, nearest
from tests.fuzzing.hostile import Raises, RaisingMapping, RaisingText
from tests.support.descs import facts_reader as facts
from tests.support.descs.wrong_descs import STRUCTS, in_python, valid
from tests.support.tables import table
from tests.support.tensors import rnn


@pytest.mark.parametrize("operator", STRUCTS)
def test_members_in_either_spelling_and_mixed(operator: str) -> None:
    kind, members = OPERATORS[operator], valid(operator)
    expected = kind(**members)
    assert kind(**in_python(members)) == expected
    mixed = {name: value for index, (name, value) in enumerate(members.items()) if index % 2}
    mixed |= {name: value for name, value in in_python(members).items() if c_member(name) not in mixed}
    assert kind(**mixed) == expected
    assert expected.replace(Direction="BACKWARD").replace(direction="forward") == expected


def test_names_are_mechanical() -> None:
    names = {field["name"] for fact in facts.operators().values() for field in fact["fields"]}
    assert len(names) > 100
    assert {name: (c_member(facts.python_name(name)), c_member(name)) for name in names} == {name: (name, name) for name in names}


def test_irregular_names() -> None:
    assert c_member("roi_tensor") == "ROITensor"
    assert c_path("weight_tensor.sizes[1]") == "WeightTensor.Sizes[1]"
    assert c_path("activation_descs[2].alpha") == "ActivationDescs[2].Alpha"
    assert c_path("") == ""
    assert nearest("sizes", ["offsets", "slice_sizes", "strides"]) == "slice_sizes"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("wieght_tensor", "weight_tensor"), ("WeightTensors", "weight_tensor"), ("DIRECTION", "direction"), ("sizes", None), ("xyzzy", None)],
)
def test_nearest(written: str, meant: str | None) -> None:
    assert nearest(written, ["input_tensor", "weight_tensor", "direction"]) == meant


def tensor(**members: Any) -> dml.TensorDesc:
    return dml.TensorDesc(**({"data_type": "FLOAT32"} | members))


def in_c(**members: Any) -> dml.RNNDesc:
    """The desc of `rnn`, all its members spelled as in C."""
    return dml.RNNDesc(**{c_member(name): value for name, value in rnn()._members().items()}, **members)


REFUSED: list[tuple[str, Callable[[], Any], str, str, str | None]] = [
    # what is wrong, the call, code, place, remedy
    ("unknown member", lambda: rnn(wieght_tensor=None), "field.unknown", "wieght_tensor", "did you mean weight_tensor?"),
    (
        "another library's name of a member",
        lambda: dml.TensorDesc(data_type="INT8", sizes=[1], shape=[1]),
        "field.unknown",
        "shape",
        "did you mean sizes?",
    ),
    (
        "a count in Python",
        lambda: dml.JoinDesc(input_count=1, input_tensors=[tensor(sizes=[1])], output_tensor=tensor(sizes=[1]), axis=0),
        "field.unknown",
        "input_count",
        "leave it out: it is the length of input_tensors",
    ),
    ("unknown member in C beside Python's", lambda: rnn(WieghtTensor=None), "field.unknown", "WieghtTensor", "did you mean weight_tensor?"),
    (
        "unknown member in Python beside C's",
        lambda: in_c(weight_tenser=None),
        "field.unknown",
        "weight_tenser",
        "did you mean WeightTensor?",
    ),
    ("unknown member in C", lambda: rnn().replace(WieghtTensor=None), "field.unknown", "WieghtTensor", "did you mean WeightTensor?"),
    ("nothing like it", lambda: rnn(xyzzy=1), "field.unknown", "xyzzy", None),
    ("given twice", lambda: rnn(Direction="FORWARD"), "field.twice", "Direction", None),
    (
        "several given twice",
        lambda: rnn(Direction="FORWARD", InputTensor=tensor(sizes=[1])),
        "field.twice",
        "Direction",
        "both spellings are mixed: keep to one",
    ),
    (
        "a misspelt name with the header's prefix",
        lambda: rnn(direction="DML_RECURRENT_NETWORK_DIRECTION_FORWARDS"),
        "field.form",
        "direction",
        "did you mean DML_RECURRENT_NETWORK_DIRECTION_FORWARD?",
    ),
    ("the prefix of another enumeration", lambda: rnn(direction="DML_AXIS_DIRECTION_FORWARD"), "field.form", "direction", None),
    (
        "a member is changed",
        lambda: setattr(rnn(), "direction", "BACKWARD"),
        "struct.frozen",
        "direction",
        "make a changed copy: desc = desc.replace(direction='BACKWARD')",
    ),
    (
        "a member is deleted",
        lambda: delattr(rnn(), "direction"),
        "struct.frozen",
        "direction",
        "make a changed copy: desc = desc.replace(direction=...)",
    ),
    ("a misspelt member is changed", lambda: setattr(rnn(), "Directoin", 1), "struct.frozen", "Directoin", "did you mean Direction?"),
    ("no member is changed", lambda: setattr(tensor(sizes=[1]), "xyzzy", 1), "struct.frozen", "xyzzy", "it has no such member"),
    (
        "an array for a desc",
        lambda: rnn(bias_tensor=np.ones(3)),
        "field.form",
        "bias_tensor",
        "describe the array with TensorDesc.of(array)",
    ),
    ("a number for a desc", lambda: rnn(bias_tensor=3), "field.form", "bias_tensor", None),
    ("a class for an activation", lambda: rnn(activation_descs=[dml.ActivationTanhDesc]), "field.form", "activation_descs", None),
    ("an operator for an activation", lambda: rnn(activation_descs=[rnn()]), "field.form", "activation_descs", None),
    ("one activation", lambda: rnn(activation_descs=dml.ActivationTanhDesc()), "field.form", "activation_descs", None),
    ("no sequence", lambda: rnn(activation_descs=7), "field.form", "activation_descs", None),
    ("a misspelt name", lambda: rnn(direction="BACKWARDS"), "field.form", "direction", "did you mean BACKWARD?"),
    ("a number out of range", lambda: rnn(direction=3), "field.form", "direction", None),
    ("None where a value is required", lambda: rnn(direction=None), "field.form", "direction", None),
    ("a truth value for a number", lambda: tensor(sizes=[True]), "field.form", "sizes[0]", None),
    ("a fraction for a size", lambda: tensor(sizes=[2.0]), "field.form", "sizes[0]", "write 2"),
    ("a name for the second size", lambda: tensor(sizes=(2, "batch")), "field.form", "sizes[1]", None),
    ("a list of sizes as a text", lambda: tensor(sizes="(2, 3)"), "field.form", "sizes", "write [2, 3]"),
    ("sizes as an array of floats", lambda: tensor(sizes=np.array([2.0, 3.0])), "field.form", "sizes", "write [2, 3]"),
    ("sizes in two dimensions", lambda: tensor(sizes=np.array([[2, 3]])), "field.form", "sizes", "write [2, 3]"),
    ("NumPy's number for axes", lambda: dml.ActivationSoftmax1Desc(axes=np.int64(1)), "field.form", "axes", "write [1]"),
    ("a number in an array", lambda: dml.ActivationEluDesc(alpha=np.array([0.5])), "field.form", "alpha", "write 0.5"),
    ("half a float by another name", lambda: tensor(sizes=[1], data_type="fp16"), "field.form", "data_type", "did you mean FLOAT16?"),
    (
        "sizes for a tensor",
        lambda: dml.ActivationEluDesc(input_tensor=(2, 3)),
        "field.form",
        "input_tensor",
        "describe its elements, too: TensorDesc(data_type=..., sizes=[2, 3])",
    ),
    (
        "a tensor for tensors",
        lambda: dml.JoinDesc(input_tensors=tensor(sizes=[1]), axis=0),
        "field.form",
        "input_tensors",
        "put it into a list: [...]",
    ),
    ("a level as a float", lambda: dml.check(rnn(), 6.4), "field.form", "feature_level", "write '6_4'"),
    ("a desc's JSON", lambda: dml.check({"Type": "RNN"}), "field.form", "desc", "read it with OperatorDesc.from_dict"),
    ("an array without dimensions", lambda: tensor(sizes=np.array(4)), "field.form", "sizes", None),
    ("False for a total", lambda: tensor(sizes=[1], total_tensor_size_in_bytes=0.0), "field.form", "total_tensor_size_in_bytes", None),
    ("a text for sizes", lambda: tensor(sizes="12"), "field.form", "sizes", None),
    ("one size", lambda: tensor(sizes=4), "field.form", "sizes", None),
    ("a wrong count", lambda: tensor(sizes=[4], DimensionCount=2), "count.length", "DimensionCount", None),
    ("a text for a float", lambda: dml.ActivationEluDesc(alpha="1.0"), "field.form", "alpha", "write 1"),  # type: ignore[arg-type, unused-ignore]
    ("a truth value for a float", lambda: dml.ActivationEluDesc(alpha=True), "field.form", "alpha", None),
    ("a float of 400 digits", lambda: dml.ActivationEluDesc(alpha=10**400), "field.form", "alpha", None),
    ("fractional axes", lambda: dml.ActivationSoftmax1Desc(axes=[0.5]), "field.form", "axes[0]", None),
    (
        "a wrong count of axes",
        lambda: dml.ActivationSoftmax1Desc.from_dict({"AxisCount": 2, "Axes": [0]}),
        "count.length",
        "AxisCount",
        None,
    ),
    ("replacing an unknown member", lambda: rnn().replace(bias=None), "field.unknown", "bias", None),
    ("replacing a count alone", lambda: rnn().replace(ActivationDescCount=2), "count.length", "ActivationDescCount", None),
    ("replacing twice", lambda: rnn().replace(direction=0, Direction=0), "field.twice", "Direction", None),
    (
        "an unknown output",
        lambda: rnn().with_outputs("output_singel_tensor"),
        "field.unknown",
        "output_singel_tensor",
        "did you mean output_single_tensor?",
    ),
    (
        "an output of the training form",
        lambda: rnn().with_outputs("reserve_tensor"),
        "field.unknown",
        "reserve_tensor",
        "RNNTrainingDesc has it",
    ),
    ("an input as an output", lambda: rnn().with_outputs("input_tensor"), "field.unknown", "input_tensor", None),
    ("an output of no operator", lambda: rnn().with_outputs("xyzzy"), "field.unknown", "xyzzy", None),
    ("an integer that no message can show", lambda: tensor(sizes=[10**5000]), "field.form", "sizes", None),
    ("such an integer in place of a list", lambda: tensor(sizes=10**5000), "field.form", "sizes", None),
    ("a flag that no message can show", lambda: tensor(sizes=[1], flags=10**5000), "field.form", "flags", None),
    ("NumPy's class for a type that DirectML lacks", lambda: tensor(sizes=[1], data_type=np.complex64), "field.form", "data_type", None),
    ("another order of bytes", lambda: tensor(sizes=[1], data_type=np.dtype(">f4")), "field.form", "data_type", None),
    ("Python's class for a type", lambda: tensor(sizes=[1], data_type=float), "field.form", "data_type", None),
    ("an array for a type", lambda: tensor(sizes=[1], data_type=np.ones(2)), "field.form", "data_type", None),
    ("nothing for sizes, with a count", lambda: tensor(sizes=5, DimensionCount=1), "field.form", "sizes", None),
    ("keys that are not texts", lambda: dml.TensorDesc.from_dict({1: 2}), "field.form", "", None),
    ("nested keys that are not texts", lambda: dml.OperatorDesc.from_dict({"Type": "RNN", "Desc": {1: 2}}), "field.form", "", None),
    ("INVALID, which is a name but no kind", lambda: dml.TensorDesc.from_dict({"Type": "INVALID"}), "field.form", "type", None),
    ("no data", lambda: dml.RNNDesc.model_validate(7), "field.form", "", None),
    ("no JSON", lambda: dml.RNNDesc.model_validate_json("{"), "json.syntax", "", None),
    ("a base class", lambda: dml.RecurrentDesc(), "struct.abstract", "", "use a class that mirrors a struct, like RNNDesc"),
    ("the base of all", lambda: dml.OperatorDesc(), "struct.abstract", "", None),
    ("nothing to check", lambda: dml.check(None), "field.form", "desc", None),
    ("a class to check", lambda: dml.check(dml.RNNDesc), "field.form", "desc", None),
    ("data to compile", lambda: dml.compile({"Type": "RNN"}), "field.form", "desc", None),  # type: ignore[call-overload]
    ("an unknown level", lambda: dml.check(rnn(), "7_0"), "field.form", "feature_level", None),
]


@table(("call", "code", "path", "remedy"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refusals(call: Callable[[], Any], code: str, path: str, remedy: str | None) -> None:
    with pytest.raises(dml.DescError) as caught:
        call()
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == (code, path)
    if remedy is not None:
        assert problem.remedy == remedy
    assert str(problem).splitlines()[0] in str(caught.value)


def test_none_for_a_required_tensor() -> None:
    with pytest.raises(dml.DescError, match="input_tensor is None, expected a TensorDesc: the member is required"):
        rnn(input_tensor=None)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (dml.JoinDesc, {"input_tensors": "a sequence of TensorDescs", "axis": "an integer"}),
        (dml.PaddingDesc, {"input_tensor": "a TensorDesc"} | dict.fromkeys(("start_padding", "end_padding"), "a sequence of integers")),
        (dml.Size2D, {"width": "an integer", "height": "an integer"}),
        (dml.ScaleBias, {"scale": "a number", "bias": "a number"}),
        (dml.ConstantNode, {"data": "bytes"}),
        (dml.Graph, {"input_count": "an integer", "output_count": "an integer", "nodes": "a sequence"}),
    ],
)
def test_a_missing_member_is_told_with_its_kind_of_value(kind: type[Any], expected: dict[str, str]) -> None:
    with pytest.raises(dml.DescError) as caught:
        kind()
    assert {problem.path: problem.expected.removesuffix(": the member is required") for problem in caught.value.problems} == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"sizes": np.array([2, 3])}, {"sizes": (2, 3)}),
        ({"sizes": (size for size in (2, 3))}, {"sizes": (2, 3)}),
        ({"Sizes": (size for size in (2, 3)), "DimensionCount": 2}, {"sizes": (2, 3)}),
        ({"sizes": [np.uint8(2), np.int64(3)]}, {"sizes": (2, 3)}),
        ({"sizes": [2, 3], "strides": np.array([3, 1])}, {"strides": (3, 1)}),
        ({"sizes": [2, 3], "data_type": np.int64(2)}, {"data_type": dml.DataType.FLOAT16}),
        ({"sizes": [2, 3], "flags": 1}, {"flags": dml.TensorFlags.OWNED_BY_DML}),
        ({"sizes": [2, 3], "guaranteed_base_offset_alignment": np.int32(16)}, {"guaranteed_base_offset_alignment": 16}),
        ({"sizes": [2, 3], "total_tensor_size_in_bytes": np.uint64(24)}, {"total_tensor_size_in_bytes": 24}),
        ({"sizes": [2, 3], "total_tensor_size_in_bytes": 0}, {"total_tensor_size_in_bytes": None}),
    ],
)
def test_what_may_stand_for_a_member(given: dict[str, Any], expected: dict[str, Any]) -> None:
    found = tensor(**given)
    for name, value in expected.items():
        assert getattr(found, name) == value
        assert type(getattr(found, name)) is type(value)


@pytest.mark.parametrize("value", [True, 1, np.True_, np.int32(1)])
def test_truth_values_of_any_kind(value: Any) -> None:
    members = in_python(valid("DML_OPERATOR_GRU")) | {"linear_before_reset": value}
    assert dml.GRUDesc(**members).linear_before_reset is True


def test_activations_from_any_iterable() -> None:
    tanh = dml.ActivationTanhDesc()
    for given in ([tanh], (tanh,), iter([tanh]), [{"Type": "ACTIVATION_TANH"}]):
        assert rnn(activation_descs=given).activation_descs == (tanh,)


def test_outputs_by_either_name() -> None:
    bare = rnn(output_single_tensor=None)
    assert bare.with_outputs("OutputSingleTensor") == bare.with_outputs("output_single_tensor") == rnn()
    both = bare.with_outputs()
    assert both.output_sequence_tensor == tensor(sizes=[7, 1, 3, 5])
    assert both.with_outputs() == both


def test_outputs_have_the_type_of_most_inputs() -> None:
    half = tensor(data_type="FLOAT16", sizes=[1, 7, 3, 11])
    mixed = rnn(input_tensor=half, output_single_tensor=None).with_outputs()
    outputs = [mixed.tensors()[field.name] for field in mixed.outputs()]
    assert [output.data_type for output in outputs] == [dml.DataType.FLOAT32] * 2
    assert [problem.path for problem in dml.check(mixed)] == ["input_tensor.data_type"]


def test_outputs_have_the_type_of_outputs_where_no_input_is_described() -> None:
    half = tensor(data_type="FLOAT16", sizes=[1, 7, 3, 11])
    assert dml.ActivationTanhDesc(output_tensor=half).with_outputs().output_tensor == half


def test_outputs_that_the_inputs_do_not_determine() -> None:
    lost = rnn(input_tensor=tensor(sizes=[11]), output_single_tensor=None)
    with pytest.raises(dml.DescError) as caught:
        lost.with_outputs()
    assert {problem.code for problem in caught.value.problems} == {"size.unknown"}
    assert {problem.path for problem in caught.value.problems} == {"input_tensor.sizes"}
    assert {problem.why for problem in caught.value.problems} == {
        ("output_sequence_tensor needs seq_length",),
        ("output_sequence_tensor needs batch_size",),
        ("output_single_tensor needs batch_size",),
    }
    with pytest.raises(dml.DescError) as caught:
        dml.ActivationTanhDesc().with_outputs()
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [("size.unknown", "output_tensor")]


def test_structs_are_frozen_values() -> None:
    desc = rnn()
    with pytest.raises(Exception, match="frozen"):
        desc.direction = "BACKWARD"
    for other in (rnn(), copy.copy(desc), copy.deepcopy(desc), pickle.loads(pickle.dumps(desc)), desc.replace()):
        assert other == desc
        assert hash(other) == hash(desc)
    assert desc != rnn(direction="BACKWARD")
    assert len({dml.ActivationTanhDesc(), dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()}) == 2
    assert desc.input_tensor in desc.tensors().values()


def filled(value: Any) -> dml.FillValueConstantDesc:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[3])
    return dml.FillValueConstantDesc(output_tensor=tensor, value_data_type="FLOAT32", value=value)


def linear(alpha: Any) -> dml.RNNDesc:
    return rnn(activation_descs=[dml.ActivationLinearDesc(alpha=alpha, beta=1.0)])


def resampled(scale: Any) -> dml.Resample1Desc:
    desc = sample(dml.Resample1Desc)
    assert isinstance(desc, dml.Resample1Desc)
    return desc.replace(scales=[*desc.scales[:-1], scale])


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a member": filled,
    "a struct in a tuple": linear,
    "a tuple": resampled,
    "a struct of numbers": lambda value: dml.ScaleBias(scale=value, bias=0.0),
    "a node": lambda value: dml.OperatorNode(operator=filled(value)),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_equal_structs_hold_the_same_numbers(holder: str) -> None:
    make = HOLDERS[holder]
    for one, other in [(0.0, -0.0), (-0.0, 0), (1.0, math.nan), (math.inf, -math.inf)]:
        assert make(one) != make(other)
        assert len({make(one), make(other), make(one), make(other)}) == 2
    same: list[tuple[float, Any]] = [(math.nan, np.float32("nan")), (-0.0, np.float16(-0.0)), (0.0, 0), (1, 1.0), (math.nan, -math.nan)]
    for one, other in same:
        assert make(one) == make(other)
        assert hash(make(one)) == hash(make(other))
    for value in (math.nan, -0.0):
        desc = make(value)
        for copied in (copy.copy(desc), copy.deepcopy(desc), pickle.loads(pickle.dumps(desc)), type(desc).from_dict(desc.to_dict())):
            assert copied == desc
            assert hash(copied) == hash(desc)


def test_what_is_compiled_for_a_number_is_for_no_other() -> None:
    for value in (0.0, -0.0, 0.0):
        found = dml.compile(filled(value), "numpy")().output_tensor
        assert np.signbit(found).tolist() == [math.copysign(1, value) < 0] * 3
    assert dml.compile(filled(math.nan), "numpy") is dml.compile(filled(np.float32("nan")), "numpy")


def test_copies_with_other_members_are_read_as_by_the_constructor() -> None:
    desc = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3])
    assert (desc.element_strides, hash(desc)) == ((3, 1), hash(desc))
    copied = desc.model_copy(update={"sizes": [5, 7]})
    assert copied == dml.TensorDesc(data_type="FLOAT32", sizes=[5, 7])
    assert copied.element_strides == (7, 1)
    assert desc.model_copy(deep=True) == desc.model_copy() == desc
    with pytest.raises(dml.DescError):
        desc.model_copy(update={"sizes": "wide"})


@pytest.mark.parametrize("strides", [None, [], (), np.array([]), np.array([], np.int64), iter(())])
@pytest.mark.parametrize("size", [None, 0, np.int64(0), np.array(0)])
def test_what_is_left_to_compute_is_none(strides: Any, size: Any) -> None:
    desc = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3], strides=strides, total_tensor_size_in_bytes=size)
    assert (desc.strides, desc.total_tensor_size_in_bytes) == (None, None)
    assert desc == dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3])


@pytest.mark.parametrize("kind", STRUCTS)
def test_objects_that_cannot_be_read_are_refused_with_their_place(kind: str) -> None:
    desc = OPERATORS[kind](**valid(kind))
    members = {name: getattr(desc, name) for name in type(desc).model_fields}
    for value in (Raises(), [Raises()], RaisingText("x"), RaisingMapping(x=1), [RaisingMapping(x=1)]):
        for name in members:
            with pytest.raises(dml.DescError) as caught:
                type(desc)(**members | {name: value})
            assert {problem.field for problem in caught.value.problems} == {name}


@pytest.mark.parametrize("given", [np.array([2, 2]), [2], "2", 2.0, Raises(), True, 3, -1, 2**200])
def test_lengths_that_are_wrong(given: Any) -> None:
    with pytest.raises(dml.DescError) as caught:
        dml.TensorDesc(DataType="FLOAT32", DimensionCount=given, Sizes=[1, 2])
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [("count.length", "DimensionCount")]
    for right in (2, np.uint8(2), np.array(2)):
        assert dml.TensorDesc(DataType="FLOAT32", DimensionCount=right, Sizes=[1, 2]).sizes == (1, 2)


def test_an_endless_array_ends() -> None:
    with pytest.raises(dml.DescError, match="at most 1048576 of them"):
        dml.TensorDesc(data_type="FLOAT32", sizes=itertools.count(1))
    with pytest.raises(dml.DescError, match="at most 1048576 of them"):
        resampled(1.0).replace(scales=itertools.repeat(1.0))


def test_several_refusals_come_together() -> None:
    with pytest.raises(dml.DescError) as caught:
        rnn(direction="SIDEWAYS", activation_descs=3, wieght_tensor=1, bias_tensor={"Sizes": [1], "DataType": "FLOAT31"})
    assert {problem.path for problem in caught.value.problems} == {
        "direction",
        "activation_descs",
        "wieght_tensor",
        "bias_tensor.data_type",
    }


@pytest.mark.parametrize(("value", "text"), [("a\n  b", "'a\\n b'"), ("x" * 200, "'" + "x" * 76 + "..."), ([1, 2], "[1, 2]")])
def test_values_in_messages_are_brief(value: Any, text: str) -> None:
    assert brief(value) == text
    assert len(brief(value)) <= 80


def test_a_value_that_cannot_be_shown_is_named_by_its_type() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    assert brief(Odd()) == "Odd object"
    assert brief(10**5000) == "int object"


def test_pydantic_goes_through_no_class_variable_or_decorator_of_a_base_anew() -> None:
    """Three quarters of the time that a struct's class would take."""
    bases = {base for name in STRUCTS for base in OPERATORS[name].__mro__ if issubclass(base, Struct)}
    left = {f"{base.__name__}.{name}" for base in bases for name in base.__class_vars__ & base.__annotations__.keys()}
    left |= {base.__name__ for base in bases if base.__pydantic_decorators__ != type(base.__pydantic_decorators__)()}
    assert left == set()


def test_a_copy_is_checked_anew() -> None:
    """What a desc remembers of its checks and sizes is not what its copies remember."""
    desc: Any = sample(dml.ElementWiseAddDesc)
    assert dml.check(desc) == []
    assert desc.replace(a_tensor=desc.a_tensor) is desc
    wrong = desc.replace(a_tensor=desc.a_tensor.replace(sizes=[7] * len(desc.a_tensor.sizes)))
    assert [problem.path.partition(".")[0] for problem in dml.check(wrong)][:1] == ["a_tensor"]
    assert wrong.sizes() is not desc.sizes()
    assert dml.check(desc) == []


def test_members_are_read_by_their_c_names_too() -> None:
    """As structs are built: whoever carries C code over reads what they wrote."""
    tensor: Any = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 2, 3], total_tensor_size_in_bytes=24)  # type checkers know Python's names
    assert (tensor.Sizes, tensor.DimensionCount, tensor.TotalTensorSizeInBytes) == ((1, 2, 3), 3, 24)
    assert (tensor.Strides, tensor.DataType) == (None, dml.DataType.FLOAT32)
    desc: Any = dml.JoinDesc(input_tensors=[tensor, tensor], output_tensor=tensor, axis=2)
    assert (desc.InputTensors, desc.InputCount, desc.Axis) == (desc.input_tensors, 2, 2)
    for name in ("Size", "ATensor", "InputTensors_", "_Sizes", "X"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(tensor, name)
    with pytest.raises(dml.DescError, match="descs are immutable"):
        tensor.Sizes = [1]


def test_an_unknown_attribute_is_answered_with_the_meant_one() -> None:
    tensor: Any = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 2, 3])
    desc: Any = dml.JoinDesc(input_tensors=[tensor, tensor], output_tensor=tensor, axis=2)
    rows = ((tensor, "sises", "sizes"), (tensor, "Size", "Sizes"), (tensor, "shape", "sizes"), (tensor, "is_pakced", "is_packed"))
    for owner, name, meant in (*rows, (desc, "output", "output_tensor"), (desc, "dim", "axis")):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': did you mean {meant}\\?$"):
            getattr(owner, name)
    with pytest.raises(AttributeError, match=r"no attribute 'zz': it has \[input_tensors, output_tensor, axis\]") as caught:
        _ = desc.zz
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
