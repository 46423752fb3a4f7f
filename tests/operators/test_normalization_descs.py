"""Batch normalization as descs: sizes, levels, rules and their messages, JSON, the way from a forward operator to its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.explain import explain
from dmlpy.operators.activation import ActivationDesc
from tests.support.descs import facts_reader as facts
from tests.support.operators.normalization_cases import FUSED, IMAGE_SIZED, MODES, case
from tests.support.tables import table
from tests.support.tensors import tensor

SIZES, CHANNELS = (2, 3, 4, 5), (1,)
MODE = pytest.mark.parametrize("mode", MODES)
OWN_SIZES = "BATCH_NORMALIZATION"
"""The operator whose statistics may differ in size."""
DIRECTML = [mode for mode, (kind, _) in MODES.items() if kind not in FUSED]
SHARED = [mode for mode in DIRECTML if mode != OWN_SIZES]
FORWARD = ["BATCH_NORMALIZATION", "BATCH_NORMALIZATION_TRAINING"]


def valid(mode: str, **members: Any) -> Any:
    """A desc over [2, 3, 4, 5] whose groups are channels; members replace the desc's."""
    desc, _ = case(mode, np.random.default_rng(1), SIZES, CHANNELS)
    return desc.replace(**members)


def problems(desc: OperatorDesc, level: str = "6_4") -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in dml.check(desc, level)]


def only(desc: OperatorDesc, level: str = "6_4") -> dml.Problem:
    """The one problem of a desc."""
    (found,) = dml.check(desc, level)
    return found


def statistics(desc: OperatorDesc) -> list[str]:
    return [name for name in desc.tensors() if name not in IMAGE_SIZED]


@MODE
def test_valid_descs(mode: str) -> None:
    desc = valid(mode)
    for level in dml.FeatureLevel:
        told = {problem.code for problem in dml.check(desc, level)}
        assert told == (set() if desc.is_extension or level >= desc.introduced() else {"level.operator"})
    assert dml.check(desc, strict=True) == []
    assert dml.compile(desc, "numpy").desc == desc


# sizes of the statistics


@table("axis", range(4))
@table(("mode", "field"), [(mode, field) for mode in DIRECTML for field in statistics(valid(mode))])
def test_a_wrong_size_of_one_statistic_is_located(mode: str, field: str, axis: int) -> None:
    desc = valid(mode)
    sizes = [7 if index == axis else size for index, size in enumerate(getattr(desc, field).sizes)]
    problem = only(desc.replace(**{field: tensor(*sizes)}))
    assert (problem.code, problem.path, problem.found) == (
        "statistics_sizes" if mode == OWN_SIZES else "size.equal",
        f"{field}.sizes[{axis}]",
        "7",
    )
    if mode == OWN_SIZES:
        assert problem.expected == f"1 or sizes[{axis}] = {SIZES[axis]}"
        assert f"input_tensor.sizes[{axis}]" in problem.why[0]


@table("axis", range(4))
@table("mode", SHARED)
def test_a_wrong_size_of_all_statistics_is_reported_once(mode: str, axis: int) -> None:
    desc = valid(mode)
    sizes = [7 if index == axis else size for index, size in enumerate((1, 3, 1, 1))]
    problem = only(desc.replace(**dict.fromkeys(statistics(desc), tensor(*sizes))))
    assert (problem.code, problem.path) == ("statistics_sizes", f"{statistics(desc)[0]}.sizes[{axis}]")
    assert (problem.found, problem.expected) == ("7", f"1 or sizes[{axis}] = {SIZES[axis]}")


@pytest.mark.parametrize("sizes", [(3,), (3, 1, 1), (1, 1, 3, 1, 1)])
@pytest.mark.parametrize("mode", DIRECTML)
def test_statistics_of_other_dimensions(mode: str, sizes: tuple[int, ...]) -> None:
    desc = valid(mode)
    for changed in statistics(desc) if mode == OWN_SIZES else [statistics(desc)]:
        names = [changed] if isinstance(changed, str) else changed
        problem = only(desc.replace(**dict.fromkeys(names, tensor(*sizes))))
        assert (problem.code, problem.path, problem.found) == ("statistics_sizes", f"{names[0]}.sizes", str(list(sizes)))
        assert problem.expected.startswith("4 dimensions")
    if mode != OWN_SIZES:
        assert ("dims.equal", f"{statistics(desc)[-1]}.sizes") in problems(desc.replace(**{statistics(desc)[-1]: tensor(*sizes)}))


@pytest.mark.parametrize("mode", DIRECTML)
def test_sizes_in_another_order_are_recognized(mode: str) -> None:
    """The classic mistake: statistics of a tensor in NHWC with the sizes' last place for the channels."""
    desc = valid(mode)
    names = statistics(desc)[:1] if mode == OWN_SIZES else statistics(desc)
    for sizes, place in (((1, 1, 1, 3), "sizes[3]"), ((3,), "sizes")):
        problem = only(desc.replace(**dict.fromkeys(names, tensor(*sizes))))
        assert problem.path == f"{names[0]}.{place}"
        assert problem.remedy is not None
        assert "[1, 3, 1, 1]" in problem.remedy
        assert "strides alone define a layout" in problem.remedy


@pytest.mark.parametrize("mode", SHARED)
def test_a_statistic_is_blamed_for_a_size_of_its_own(mode: str) -> None:
    """Where the others outvote the one that is right, both hear of it."""
    first, *others = statistics(valid(mode))
    desc = valid(mode, **dict.fromkeys(others, tensor(1, 7, 1, 1)))
    found = [(problem.code, problem.path, problem.found) for problem in dml.check(desc)]
    assert found == [("size.equal", f"{first}.sizes[1]", "3"), ("statistics_sizes", f"{others[0]}.sizes[1]", "7")]


@pytest.mark.parametrize(
    ("sizes", "own"),
    [
        ((2, 3, 4, 5), (1, 1, 7, 1)),
        ((2, 3, 4, 5), (1, 3, 1, 4)),
        ((2, 3, 4, 4), (1, 4, 1, 1)),
        ((2, 3, 4, 5), (1, 2, 1, 1)),
        ((2, 3), (2,)),
    ],
    ids=[
        "a size that the input has not",
        "two long sizes",
        "a size that the input has twice",
        "the batch's size",
        "the batch's size alone",
    ],
)
def test_no_remedy_where_none_is_certain(sizes: tuple[int, ...], own: tuple[int, ...]) -> None:
    desc, _ = case(OWN_SIZES, np.random.default_rng(1), sizes, CHANNELS)
    assert only(desc.replace(mean_tensor=tensor(*own))).remedy is None


@st.composite
def statistics_sizes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    return tuple(sizes), tuple(draw(st.one_of(st.just(1), st.just(size), st.integers(1, 6))) for size in sizes)


@settings(max_examples=150, deadline=None)
@given(statistics_sizes(), st.sampled_from(DIRECTML))
def test_statistics_are_one_or_the_inputs_size(drawn: tuple[tuple[int, ...], tuple[int, ...]], mode: str) -> None:
    """For any sizes: the axes that are neither are blamed, each once, and no others."""
    sizes, own = drawn
    kind, _ = MODES[mode]
    names = {field.name for field in kind.inputs()}
    tensors = {name: tensor(*(sizes if name in IMAGE_SIZED else own)) for name in names}
    desc = kind(**tensors).with_outputs()
    wrong = [axis for axis, (size, of_input) in enumerate(zip(own, sizes, strict=True)) if size not in (1, of_input)]
    fields = [name for name in desc.tensors() if name not in IMAGE_SIZED]
    blamed = fields if mode == OWN_SIZES else fields[:1]
    assert sorted(problems(desc)) == sorted(("statistics_sizes", f"{name}.sizes[{axis}]") for name in blamed for axis in wrong)


# TensorFlow's sizes


@pytest.mark.parametrize("mode", [mode for mode, (kind, _) in MODES.items() if kind in FUSED])
def test_the_format_determines_which_size_is_the_channels(mode: str) -> None:
    desc = valid(mode)
    assert desc.data_format is dml.DataFormat.NCHW
    found = dml.check(desc.replace(data_format="NHWC"))
    images = [name for name in desc.tensors() if name in IMAGE_SIZED]
    assert [(problem.code, problem.path) for problem in found] == [("size.equal", f"{name}.sizes[3]") for name in images]
    assert all("NCHW" in (problem.remedy or "") for problem in found)
    deeper = dml.check(desc.replace(data_format="NCDHW"))
    assert {(problem.code, problem.path) for problem in deeper} == {("dims.support", f"{name}.sizes") for name in images}
    assert all("NCHW" in (problem.remedy or "") for problem in deeper)
    for name in images:
        (problem,) = dml.check(desc.replace(**{name: tensor(2, 3, 4, 9)}))
        assert problem.path.endswith(".sizes[3]")
        assert problem.remedy is None, "no other format would mend that"
    for name in statistics(desc):
        assert problems(desc.replace(**{name: tensor(4)})) == [("size.equal", f"{name}.sizes[0]")]
        assert problems(desc.replace(**{name: tensor(1, 3, 1, 1)})) == [("dims.support", f"{name}.sizes")]
        half = problems(desc.replace(**{name: tensor(3, data_type="FLOAT16")}))
        assert half == [("type.support", f"{name}.data_type")], "statistics are FLOAT32 for any x"


@pytest.mark.parametrize(
    ("members", "missing"),
    [
        ({"is_training": False, "mean": None}, ["mean"]),
        ({"is_training": False, "mean": None, "variance": None}, ["mean", "variance"]),
        ({"exponential_avg_factor": 0.5, "mean": tensor(3)}, ["variance"]),
        ({"exponential_avg_factor": 0.5}, ["mean", "variance"]),
        ({}, []),
        ({"mean": tensor(3), "variance": tensor(3)}, []),
    ],
)
def test_statistics_are_described_where_they_are_read(members: dict[str, Any], missing: list[str]) -> None:
    mode = "FUSED_BATCH_NORM_V3 inference" if "is_training" in members else "FUSED_BATCH_NORM_V3 training"
    found = dml.check(valid(mode, **members))
    assert [(problem.code, problem.path) for problem in found] == [("given_statistics", name) for name in missing]
    assert all(("is_training" if "is_training" in members else "exponential_avg_factor is 0.5") in problem.why[0] for problem in found)


@pytest.mark.parametrize(("kind", "numbers"), [(FUSED[0], [3]), (FUSED[1], [3, 4, 5])])
def test_placeholders_are_explained(kind: Any, numbers: list[int]) -> None:
    for number in numbers:
        with pytest.raises(dml.DescError, match=f"reserve_space_{number}") as caught:
            valid(next(mode for mode, (own, _) in MODES.items() if own is kind), **{f"reserve_space_{number}": tensor(3)})
        (problem,) = caught.value.problems
        assert "placeholder" in (problem.remedy or "")


@pytest.mark.parametrize("mode", [mode for mode, (kind, _) in MODES.items() if kind in FUSED])
def test_some_output_is_wanted(mode: str) -> None:
    desc = valid(mode)
    names = [field.name for field in desc.outputs()]
    assert problems(desc.replace(**dict.fromkeys(names))) == [("some_output", names[0])]
    for name in names:
        assert problems(desc.replace(**dict.fromkeys(set(names) - {name}))) == []


# levels


def of_sizes(mode: str, sizes: tuple[int, ...], **members: Any) -> Any:
    return case(mode, np.random.default_rng(1), sizes, (0,), **members)[0]


DIMENSIONS = [("1_0", "BATCH_NORMALIZATION", (4, 4)), ("3_0", "BATCH_NORMALIZATION", (4, 4)), ("3_1", "BATCH_NORMALIZATION", (1, 8))]
DIMENSIONS += [("3_1", "BATCH_NORMALIZATION_GRAD", (1, 8))]
DIMENSIONS += [("4_1", mode, (1, 8)) for mode in ("BATCH_NORMALIZATION_TRAINING", "BATCH_NORMALIZATION_TRAINING_GRAD")]


@pytest.mark.parametrize(("level", "mode", "dims"), DIMENSIONS)
def test_dimensions_of_each_level(level: str, mode: str, dims: tuple[int, int]) -> None:
    for count in range(1, 9):
        desc = of_sizes(mode, (3, *[2] * (count - 1)))
        found = dml.check(desc, level)
        if dims[0] <= count <= dims[1]:
            assert found == []
        else:
            assert [(problem.code, problem.field) for problem in found] == [("dims.support", name) for name in desc.tensors()]
            assert all("feature level 3_1" in (problem.remedy or "") for problem in found)


@pytest.mark.parametrize(
    ("mode", "level", "before"),
    [
        ("BATCH_NORMALIZATION_GRAD", "3_1", "3_0"),
        ("BATCH_NORMALIZATION_TRAINING", "4_1", "4_0"),
        ("BATCH_NORMALIZATION_TRAINING_GRAD", "4_1", "4_0"),
    ],
)
def test_the_level_of_each_operator(mode: str, level: str, before: str) -> None:
    assert problems(valid(mode), level) == []
    assert ("level.operator", "") in problems(valid(mode), before)
    assert level in next(problem.expected for problem in dml.check(valid(mode), before) if problem.code == "level.operator")


@pytest.mark.parametrize("level", ["1_0", "3_1", "4_0", "6_4"])
@pytest.mark.parametrize("spatial", [True, False])
def test_spatial(spatial: bool, level: str) -> None:
    """Before 4_0 False asks for a mean and a variance of each place; scale and bias may repeat."""
    desc = valid("BATCH_NORMALIZATION", spatial=spatial)
    found = dml.check(desc, level)
    if spatial or level in ("4_0", "6_4"):
        assert found == []
        return
    places = [f"{name}.sizes[{axis}]" for name in ("mean_tensor", "variance_tensor") for axis in (2, 3)]
    assert [(problem.code, problem.path) for problem in found] == [("spatial_statistics", place) for place in places]
    assert all("spatial=True" in (problem.remedy or "") for problem in found)
    for fitting in ((1, 3, 4, 5), (1, 1, 4, 5), (2, 3, 4, 5)):
        assert problems(desc.replace(mean_tensor=tensor(*fitting), variance_tensor=tensor(*fitting)), level) == []
    mixed = problems(desc.replace(mean_tensor=tensor(1, 3, 4, 5), variance_tensor=tensor(1, 3, 4, 1)), level)
    assert mixed == [("spatial_statistics", "variance_tensor.sizes[3]")]


def test_spatial_of_a_single_dimension() -> None:
    desc, _ = case(OWN_SIZES, np.random.default_rng(1), (4,), (), spatial=False)
    assert problems(desc, "3_1") == [("spatial_statistics", f"{name}.sizes[0]") for name in ("mean_tensor", "variance_tensor")]


# fused activations

ACTIVATIONS: list[type[Any]] = [kind for kind in OPERATORS.values() if issubclass(kind, ActivationDesc)]
FUSABLE = [
    *("LINEAR", "SIGMOID", "HARD_SIGMOID", "TANH", "SCALED_TANH", "RELU", "LEAKY_RELU", "THRESHOLDED_RELU", "ELU", "CELU", "SCALED_ELU"),
    *("SOFTPLUS", "PARAMETRIC_SOFTPLUS", "SOFTSIGN", "IDENTITY", "SHRINK", "GELU"),
]
FUSABLE_SINCE = {"SHRINK": "2_0", "CELU": "3_0", "GELU": "5_1"}
BEFORE = {"2_0": "1_0", "3_0": "2_1", "5_1": "5_0"}


def activation(kind: type[Any]) -> Any:
    """With axes where it has some."""
    return kind(axes=(1,)) if "axes" in kind.model_fields else kind()


@table("mode", FORWARD)
@table("kind", ACTIVATIONS, ids=lambda kind: kind.short_name())
def test_which_activations_are_fused(mode: str, kind: type[Any]) -> None:
    desc = valid(mode, fused_activation=activation(kind))
    if kind.short_name().removeprefix("ACTIVATION_") in FUSABLE:
        assert dml.check(desc) == []
    else:
        problem = only(desc)
        assert (problem.code, problem.path) == ("fused_activation_kind", "fused_activation")
        assert problem.found == kind.type_name


def test_all_fusable_activations_are_described() -> None:
    found = {kind.type_name for kind in ACTIVATIONS if not kind.is_extension}
    assert found == {name for name in facts.operators() if name.startswith("DML_OPERATOR_ACTIVATION_")}
    assert {name.removeprefix("DML_OPERATOR_ACTIVATION_") for name in found} >= set(FUSABLE)


@pytest.mark.parametrize("name", FUSABLE)
def test_the_level_of_a_fused_activation(name: str) -> None:
    desc = valid("BATCH_NORMALIZATION", fused_activation=OPERATORS[f"DML_OPERATOR_ACTIVATION_{name}"]())
    since = FUSABLE_SINCE.get(name, "1_0")
    assert problems(desc, since) == []
    if since != "1_0":
        assert problems(desc, BEFORE[since]) == [("level.operator", "fused_activation")]
        assert since in only(desc, BEFORE[since]).expected


@pytest.mark.parametrize("mode", FORWARD)
def test_a_fused_activation_has_no_tensors_and_obeys_its_own_rules(mode: str) -> None:
    alone = dml.ActivationReluDesc(input_tensor=tensor(2, 3, 4, 5), output_tensor=tensor(2, 3, 4, 5))
    found = problems(valid(mode, fused_activation=alone))
    assert found == [("tensor.fused", f"fused_activation.{name}") for name in ("input_tensor", "output_tensor")]
    assert problems(valid(mode, fused_activation=dml.ActivationCeluDesc(alpha=0))) == [("celu_alpha", "fused_activation.alpha")]


def test_an_activation_alone_has_tensors() -> None:
    wanted = [("input_tensor", None), ("output_tensor", "with_outputs() describes it")]
    found = dml.check(dml.ActivationReluDesc())
    assert [(problem.path, problem.remedy) for problem in found] == wanted
    assert all("only inside another struct" in problem.expected for problem in found)


@pytest.mark.parametrize("mode", FORWARD)
def test_a_fused_activation_has_two_forms_in_json(mode: str) -> None:
    desc = valid(mode, fused_activation=dml.ActivationScaledTanhDesc(alpha=1.5, beta=0.25))
    flat = desc.to_dict()
    assert flat["Desc"]["FusedActivation"] == {"Type": "DML_OPERATOR_ACTIVATION_SCALED_TANH", "Alpha": 1.5, "Beta": 0.25}
    nested = {**flat, "Desc": flat["Desc"] | {"FusedActivation": {"Type": "ACTIVATION_SCALED_TANH", "Desc": {"Alpha": 1.5, "Beta": 0.25}}}}
    assert OperatorDesc.from_dict(flat) == desc
    assert OperatorDesc.from_dict(nested) == desc
    absent = {**flat, "Desc": flat["Desc"] | {"FusedActivation": None}}
    assert OperatorDesc.from_dict(absent) == valid(mode)


@MODE
def test_json_and_copies(mode: str) -> None:
    desc = valid(mode, epsilon=0.25)
    assert OperatorDesc.from_json(desc.to_json()) == desc
    assert OperatorDesc.from_json(desc.to_json(flat=True)) == desc
    assert hash(OperatorDesc.from_json(desc.to_json())) == hash(desc)
    without = desc.to_dict()
    del without["Desc"]["Epsilon"]
    with pytest.raises(dml.DescError, match="Epsilon"):
        OperatorDesc.from_dict(without)


@pytest.mark.parametrize(
    ("given", "path", "found"),
    [
        (dml.ActivationReluDesc, "fused_activation", "call the class, ActivationReluDesc()"),
        ("RELU", "fused_activation", '{"Type": "DML_OPERATOR_ACTIVATION_RELU"}'),
        ([dml.ActivationReluDesc()], "fused_activation", "like ActivationReluDesc()"),
        ({"Type": "GRU"}, "fused_activation.type", "a kind of ActivationDesc"),
        ({"Type": "ACTIVATION_ELU", "Alfa": 1}, "fused_activation.Alfa", "Alpha"),
    ],
    ids=["class", "text", "list", "another operator", "a member misspelt"],
)
@pytest.mark.parametrize("mode", FORWARD)
def test_what_is_no_activation(mode: str, given: Any, path: str, found: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        valid(mode, fused_activation=given)
    problem = caught.value.problems[0]
    assert problem.path == path
    assert found in problem.expected


@pytest.mark.parametrize("mode", FORWARD)
def test_an_activation_is_explained_as_optional(mode: str) -> None:
    fields = {field.name: field for field in explain(mode).fields}
    fused, epsilon = fields["fused_activation"], fields["epsilon"]
    assert (fused.kind, fused.required, fused.form) == ("attribute", False, "an activation")
    assert (epsilon.kind, epsilon.required) == ("attribute", True)


def test_a_fused_function_of_groups_is_refused_whatever_its_axes() -> None:
    assert only(valid(OWN_SIZES, fused_activation=dml.ActivationSoftmax1Desc(axes=(9,)))).path == "fused_activation"


# tensors


@pytest.mark.parametrize("mode", DIRECTML)
def test_mixed_types_are_blamed(mode: str) -> None:
    desc = valid(mode)
    for name, given_desc in desc.tensors().items():
        mixed = desc.replace(**{name: given_desc.replace(data_type="FLOAT16")})
        assert problems(mixed) == [("type.equal", f"{name}.data_type")]
        wide = desc.replace(**{name: given_desc.replace(data_type="FLOAT64")})
        assert problems(wide) == [("type.support", f"{name}.data_type")]


@pytest.mark.parametrize("mode", [mode for mode, (kind, _) in MODES.items() if kind in FUSED])
def test_the_type_of_the_input_is_one(mode: str) -> None:
    desc = valid(mode)
    images = [name for name in desc.tensors() if name in IMAGE_SIZED]
    halves = desc.replace(**{name: getattr(desc, name).replace(data_type="FLOAT16") for name in images})
    assert dml.check(halves) == []
    assert problems(halves.replace(**{images[-1]: getattr(desc, images[-1])})) == [("type.equal", f"{images[-1]}.data_type")]


@pytest.mark.parametrize("mode", DIRECTML)
def test_directml_needs_all_outputs(mode: str) -> None:
    desc = valid(mode)
    for field in desc.outputs():
        problem = only(desc.replace(**{field.name: None}))
        assert (problem.code, problem.path, problem.expected) == ("tensor.missing", field.name, "a tensor")
        assert "with_outputs()" in (problem.remedy or "")
    assert desc.replace(**dict.fromkeys(field.name for field in desc.outputs())).with_outputs() == desc


@MODE
def test_a_broadcast_output_is_refused_and_a_broadcast_input_is_not(mode: str) -> None:
    desc = valid(mode)
    outputs = {field.name for field in desc.outputs()}
    for name, given_desc in desc.tensors().items():
        axis = next(axis for axis, size in enumerate(given_desc.sizes) if size > 1)
        strides = [0 if index == axis else stride for index, stride in enumerate(given_desc.element_strides)]
        found = problems(desc.replace(**{name: given_desc.replace(strides=strides)}))
        assert found == ([("stride.broadcast", f"{name}.strides[{axis}]")] if name in outputs else [])


@MODE
def test_never_in_place(any_device: dml.Device, mode: str) -> None:
    desc, arrays = case(mode, np.random.default_rng(2), SIZES, CHANNELS)
    operator = dml.compile(desc, device=any_device)
    memory = {name: any_device.from_host(array) for name, array in arrays.items()}
    first = next(field.name for field in desc.outputs())
    sources = [name for name in arrays if name in IMAGE_SIZED]
    for source in sources:
        with pytest.raises(dml.BindError) as caught:
            operator(**memory, **{first: memory[source]})
        (problem,) = caught.value.problems
        assert (problem.code, problem.path) == ("hazard.in_place", first)
        assert "never runs in place" in problem.why[0]
        np.testing.assert_array_equal(any_device.to_host(memory[source]), arrays[source], err_msg=f"{source} was written to")


# gradients


GRADIENTS = [(mode, mode.replace("V3", "GRAD_V3") if "V3" in mode else f"{mode}_GRAD") for mode in MODES if "GRAD" not in mode]


@pytest.mark.parametrize(("mode", "gradient"), GRADIENTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
def test_the_gradient_of_a_desc(mode: str, gradient: str, dtype: Any) -> None:
    """The inputs as they were, the statistics of training as the operator wrote them, packed outputs."""
    forward, _ = case(mode, np.random.default_rng(3), (2, 3, 4, 5), (1,), dtype, epsilon=0.125)
    expected, _ = case(gradient, np.random.default_rng(3), (2, 3, 4, 5), (1,), dtype, epsilon=0.125)
    assert forward.gradient() == expected
    image = next(name for name in forward.tensors() if name in IMAGE_SIZED)
    strided = tensor(*SIZES, data_type=forward.tensors()[image].data_type.name, strides=(60, 1, 15, 3))
    assert getattr(forward.replace(**{image: strided}).gradient(), image) == strided


def test_the_gradient_of_some_outputs() -> None:
    forward = valid("FUSED_BATCH_NORM_V3 training")
    desc = forward.gradient("x_backprop")
    assert [field.name for field in desc.outputs() if getattr(desc, field.name) is not None] == ["x_backprop"]
    assert dml.check(desc) == []
    assert forward.replace(reserve_space_1=None, reserve_space_2=None).gradient() == forward.gradient()


@pytest.mark.parametrize("mode", FORWARD)
def test_there_is_no_gradient_of_a_fused_activation(mode: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        valid(mode, fused_activation=dml.ActivationReluDesc()).gradient()
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == ("gradient.activation", "fused_activation")
