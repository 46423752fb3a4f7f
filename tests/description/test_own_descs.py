"""dmlpy's own operators as descs: sizes, rules, the way from a forward operator to its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS
from dmlpy.description.tensors import MAX_DIMENSION_COUNT
from dmlpy.inspection.explain import explain
from tests.support.descs.own_descs import (
    BATCH,
    HIDDEN,
    INPUTS,
    OWN,
    PROJECTED,
    STEPS,
    batch_norm,
    block_cell,
    network,
    own_desc,
    training,
)
from tests.support.tables import table
from tests.support.tensors import tensor

LONGER = {name: tuple(desc.tensors()) for name in OWN for desc in [own_desc(name)]}
FIELDS = [(name, field) for name, fields in LONGER.items() for field in fields]
ALONE = {"CUDNN_RNN_V3": {"dropout_offset", "host_reserved"}}
"""Tensors whose sizes nothing else knows, but for the pattern itself."""


@pytest.mark.parametrize("name", OWN)
def test_valid_descs_are_valid_at_every_level_and_survive_json(name: str) -> None:
    desc = own_desc(name)
    for level in dml.FeatureLevel:
        assert dml.check(desc, level) == []
    assert dml.check(desc, strict=True) == []
    assert OperatorDesc.from_json(desc.to_json()) == desc
    assert OperatorDesc.from_json(desc.to_json(flat=True)) == desc
    assert OperatorDesc.from_dict({**desc.to_dict(), "Type": desc.short_name()}) == desc


@table(("name", "field"), FIELDS)
def test_a_wrong_size_is_blamed(name: str, field: str) -> None:
    """One axis longer by one: a problem is there, or names this tensor as the reason."""
    desc = own_desc(name)
    given = getattr(desc, field)
    for axis in range(len(given.sizes)):
        sizes = tuple(size + (index == axis) for index, size in enumerate(given.sizes))
        problems = dml.check(desc.replace(**{field: given.replace(sizes=sizes)}))
        assert any(f"{field}.sizes[{axis}]" in str(problem) for problem in problems), (axis, [str(problem) for problem in problems])


@pytest.mark.parametrize("name", OWN)
def test_wrong_ranks_and_types_are_blamed(name: str) -> None:
    desc = own_desc(name)
    for field, given in desc.tensors().items():
        deeper = dml.check(desc.replace(**{field: given.replace(sizes=(1, *given.sizes))}))
        # Of an operator that takes as many dimensions as a tensor can have, one more is refused as of any operator.
        code = "dims.support" if len(given.sizes) < MAX_DIMENSION_COUNT else "dims.range"
        assert (f"{field}.sizes", code) in {(problem.path, problem.code) for problem in deeper}
        for wrong in ("FLOAT64", "INT16"):
            found = {(problem.path, problem.code) for problem in dml.check(desc.replace(**{field: given.replace(data_type=wrong)}))}
            assert (f"{field}.data_type", "type.support") in found


@pytest.mark.parametrize("name", OWN)
def test_mixed_element_types_are_blamed(name: str) -> None:
    desc = own_desc(name)
    described = desc.tensors()
    floats = {field.name: described[field.name] for field in desc.tensor_fields() if field.marker.types == "T" and field.name in described}
    halves = desc.replace(**{field: item.replace(data_type="FLOAT16") for field, item in floats.items()})
    assert dml.check(halves) == []
    field, item = next(iter(floats.items()))
    found = {(problem.path, problem.code) for problem in dml.check(halves.replace(**{field: item}))}
    # Of two that differ the later one is blamed, of more the one that is alone.
    blamed = field if len(floats) > 2 else list(floats)[-1]
    assert (f"{blamed}.data_type", "type.equal") in found


@pytest.mark.parametrize(
    ("desc", "size"),
    [
        (training("RNN"), 2 * 3 * (7 * 5 + 8 * 5)),
        (training("RNN", "BACKWARD"), 3 * (7 * 5 + 8 * 5)),
        (training("GRU"), 2 * 3 * (7 * 3 * 5 + 8 * 5)),
        (training("GRU", linear_before_reset=True), 2 * 3 * (7 * 4 * 5 + 8 * 5)),
        (training("LSTM"), 2 * 3 * (7 * 4 * 5 + 8 * 10)),
        (training("LSTM", projected=True), 2 * 3 * (7 * 4 * 5 + 8 * (5 + 2))),
    ],
    ids=lambda item: item.c_name if isinstance(item, OperatorDesc) else str(item),
)
def test_the_reserve_has_the_documented_size(desc: Any, size: int) -> None:
    assert desc.reserve_tensor == tensor(1, 1, 1, size)
    assert desc.gradient().reserve_tensor == desc.reserve_tensor


def rounded(elements: int) -> int:
    return (elements + 63) // 64 * 64


@pytest.mark.parametrize(
    ("members", "layer", "width", "layers"),
    [
        ({}, 2 * 3 * (7 * 4 * 5 + 8 * 7), 2 * 2, 2),
        ({"num_proj": 0, "input_h": tensor(4, 3, 5)}, 2 * 3 * (7 * 4 * 5 + 8 * 10), 2 * 5, 2),
        ({"rnn_mode": "gru", "num_proj": 0, "input_h": tensor(4, 3, 5), "input_c": None}, 2 * 3 * (7 * 4 * 5 + 8 * 5), 2 * 5, 2),
        (
            {"rnn_mode": "rnn_relu", "num_proj": 0, "input_h": tensor(3, 3, 5), "input_c": None, "direction": "unidirectional"},
            3 * (7 * 5 + 8 * 5),
            5,
            3,
        ),
    ],
)
def test_the_reserve_of_a_network_has_the_documented_size(members: dict[str, Any], layer: int, width: int, layers: int) -> None:
    expected = 64 + layers * rounded(layer) + (layers - 1) * rounded(7 * 3 * width)
    assert network(**members).reserve_space == tensor(expected)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_a_gradient_has_the_sizes_of_what_it_is_the_gradient_of(cell: str, data_type: str) -> None:
    desc = training(cell, projected=cell == "LSTM", data_type=data_type)
    gradient = desc.gradient()
    for field, given in gradient.tensors().items():
        of = field.replace("_gradient_tensor", "_tensor")
        assert given == getattr(desc, of), field
    assert gradient.reserve_configuration() == desc.reserve_configuration()
    absent = desc.replace(bias_tensor=None, hidden_init_tensor=None, output_sequence_tensor=None).gradient()
    assert absent.bias_gradient_tensor is absent.hidden_init_gradient_tensor is absent.output_sequence_gradient_tensor is None
    assert dml.check(absent) == []
    some = desc.gradient("WeightGradientTensor", "bias_gradient_tensor")
    assert [field.name for field in some.outputs() if field.name in some.tensors()] == ["weight_gradient_tensor", "bias_gradient_tensor"]
    with pytest.raises(dml.DescError, match=r"weight_gradients_tensor.*\n.*did you mean weight_gradient_tensor\?"):
        desc.gradient("weight_gradients_tensor")


def test_upstream_gradients_are_packed_whatever_the_output_is() -> None:
    desc = training("GRU")
    strided = desc.output_sequence_tensor.replace(strides=(100, 50, 10, 2))
    assert desc.replace(output_sequence_tensor=strided).gradient().output_sequence_gradient_tensor == desc.output_sequence_tensor


def test_a_network_describes_its_layout() -> None:
    desc = network()
    layout = desc.params_layout()
    assert (layout.num_layers, layout.num_units, layout.input_size, layout.num_proj, layout.bidirectional) == (2, 5, 11, 2, True)
    assert desc.params == tensor(layout.size)
    gradient = desc.gradient()
    assert gradient.params_layout() == layout
    assert gradient.params_backprop == desc.params
    assert gradient.output_h_backprop == desc.output_h
    assert gradient.output is gradient.host_reserved is None, "what is not read need not be given"
    assert desc.replace(is_training=False, reserve_space=None).gradient() == gradient


@pytest.mark.parametrize(("mode", "skips"), [("linear_input", False), ("skip_input", True), ("auto_select", True)])
def test_input_modes_of_equal_sizes(mode: str, skips: bool) -> None:
    desc = network(input=tensor(STEPS, BATCH, HIDDEN), input_mode=mode)
    assert dml.check(desc) == []
    assert desc.skips_input == desc.params_layout().skip_input == skips
    assert not network(input_mode="auto_select").skips_input


def test_batch_major_networks_swap_time_and_batch() -> None:
    desc = network(
        time_major=False,
        input=tensor(BATCH, STEPS, INPUTS),
        input_h=tensor(BATCH, 4, PROJECTED),
        input_c=tensor(BATCH, 4, HIDDEN),
    )
    assert dml.check(desc) == []
    assert desc.output == tensor(BATCH, STEPS, 2 * PROJECTED)
    assert desc.output_c == tensor(BATCH, 4, HIDDEN)
    assert desc.reserve_space == network().reserve_space


def test_outputs_that_a_desc_cannot_have_are_not_described() -> None:
    gru = network(rnn_mode="gru", num_proj=0, input_h=tensor(4, 3, 5), input_c=None, is_training=False)
    assert gru.output_c is gru.reserve_space is None
    assert dml.check(gru) == []
    plain = training("LSTM").replace(peephole_tensor=None).gradient().with_outputs()
    assert plain.peephole_gradient_tensor is plain.projection_gradient_tensor is None


H5 = {"num_proj": 0, "input_h": tensor(4, BATCH, HIDDEN)}


@pytest.mark.parametrize(
    ("desc", "code", "path"),
    [
        (network(dropout=1.0), "dropout_range", "dropout"),
        (network(dropout=-0.1), "dropout_range", "dropout"),
        (network(dropout="nan"), "dropout_range", "dropout"),
        (network(dropout="inf"), "dropout_range", "dropout"),
        (network(input_mode="skip_input"), "skip_input_sizes", "input_mode"),
        (network(num_proj=HIDDEN, input_h=tensor(4, BATCH, HIDDEN)), "num_proj_range", "num_proj"),
        (network(num_proj=-1), "num_proj_range", "num_proj"),
        (network(is_training=False).replace(num_proj=-1, input_c=None, output_c=None), "num_proj_range", "num_proj"),
        (network(rnn_mode="gru", input_c=None, num_proj=2, input_h=tensor(4, BATCH, HIDDEN)), "num_proj_range", "num_proj"),
        (network(rnn_mode="gru", **H5), "cell_states", "input_c"),
        (network(input_c=None, **H5), "cell_states", "input_c"),
        (network(params=tensor(1392)), "size.equal", "params.sizes[0]"),
        (network(input_h=tensor(3, BATCH, PROJECTED), input_c=tensor(3, BATCH, HIDDEN)), "whole_layers", "input_h.sizes[0]"),
        (network(input_c=tensor(4, BATCH, HIDDEN + 1), **H5), "size.equal", "input_c.sizes[2]"),
        (network(sequence_lengths=tensor(BATCH, data_type="UINT32")), "type.support", "sequence_lengths.data_type"),
        (network().gradient().replace(reserve_space=tensor(64)), "size.equal", "reserve_space.sizes[0]"),
        (training("LSTM", clip_threshold="nan"), "finite_attributes", "clip_threshold"),
        (training("LSTM", use_clip_threshold=True, clip_threshold=-1.0), "clip_threshold_positive", "clip_threshold"),
        (
            training("GRU", activation_descs=[dml.ActivationLeakyReluDesc(alpha="nan")] * 4),
            "finite_attributes",
            "activation_descs[0].alpha",
        ),
        (training("RNN", activation_descs=[dml.ActivationTanhDesc()]), "activation_count", "activation_descs"),
        (
            training("RNN", reserve_tensor=tensor(1, 1, 1, 2)).replace(reserve_tensor=tensor(1, 1, 1, 2)),
            "size.equal",
            "reserve_tensor.sizes[3]",
        ),
        (training("RNN", step_mask_tensor=tensor(1, 1, STEPS, BATCH)), "type.support", "step_mask_tensor.data_type"),
        (block_cell(w_c=tensor(INPUTS, HIDDEN)), "size.equal", "w_c.sizes[0]"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_rules(desc: OperatorDesc, code: str, path: str) -> None:
    found = dml.check(desc)
    assert (code, path) in {(problem.code, problem.path) for problem in found}, [str(problem) for problem in found]
    with pytest.raises(dml.CompileError):
        dml.compile(desc, "numpy")


def test_a_reserve_that_no_tensor_can_hold() -> None:
    desc = training("LSTM", "FORWARD", step_mask_tensor=None)
    long = desc.replace(input_tensor=tensor(1, 2**29, BATCH, 1), weight_tensor=tensor(1, 1, 4 * HIDDEN, 1))
    long = long.replace(input_dropout_tensor=None).with_outputs("reserve_tensor")
    (problem,) = (problem for problem in dml.check(long) if problem.code == "size.range")
    assert problem.headline().startswith(
        f"reserve_tensor.sizes[3] is {BATCH * (2**29 * 4 * HIDDEN + (2**29 + 1) * 2 * HIDDEN)}, expected 1 to"
    )
    assert problem.why[0].endswith(
        "for seq_length = 536870912 (input_tensor.sizes[1]), hidden_size = 5, num_directions = 1, batch_size = 3"
    )


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("steps", [7, 8])
def test_what_lies_between_layers_is_numbered_by_32_bits(steps: int, layers: int) -> None:
    state, sizes = tensor(layers, 2**19, 1024), {"input": tensor(steps, 2**19, 1)}
    desc = network(**sizes, input_h=state, input_c=state, sequence_lengths=None, num_proj=0, direction="unidirectional", is_training=False)
    found = [problem.found for problem in dml.check(desc.replace(output=None))]
    assert found == (["4294967296 elements between two layers"] if steps == 8 and layers == 2 else [])


def test_own_operators_say_that_they_are() -> None:
    for name in OWN:
        kind = OPERATORS[name]
        assert kind.is_extension
        assert name.startswith("DMLPY_OPERATOR_")
        assert kind.c_name.startswith("DMLPY_")
        assert kind.c_name.endswith("_OPERATOR_DESC")


@pytest.mark.parametrize("name", OWN)
def test_explanations_show_sizes_and_no_levels(name: str) -> None:
    found = explain(name, "1_0")
    assert found.sizes == OPERATORS[name].derived_sizes()
    assert found.levels().headings == ("dimensions", "types")
    assert "no feature level limits it" in found.facts()[0]
    assert all(field.text for field in found.fields if field.name), "every member is explained"


UNUSED = [
    (training("LSTM").gradient(), "bias_tensor", "leave it out: the reserve holds all that its gradient needs"),
    (training("GRU").gradient(), "HiddenInitTensor", "leave it out: the reserve holds all that its gradient needs"),
    (network().gradient(), "dropout_offset", "leave it out: the reserve holds it"),
    (network().gradient(), "is_training", "leave it out: only training has a gradient"),
    (batch_norm(), "reserve_space_3", "leave it out: TensorFlow's is an empty placeholder, and nothing is kept there"),
    (batch_norm().gradient(), "reserve_space_5", "leave it out: TensorFlow's is an empty placeholder, and nothing is kept there"),
]


@pytest.mark.parametrize(("desc", "name", "remedy"), UNUSED, ids=lambda item: item if isinstance(item, str) else "")
def test_what_a_gradient_does_not_need_is_reported(desc: Any, name: str, remedy: str) -> None:
    """The nearest name would be an output, which would be overwritten."""
    with pytest.raises(dml.DescError) as refused:
        desc.replace(**{name: tensor(1)})
    assert [problem.remedy for problem in refused.value.problems] == [remedy]
    with pytest.raises(dml.BindError) as unbound:
        dml.compile(desc, "numpy")(**{name: 1})
    assert [problem.remedy for problem in unbound.value.problems if problem.code == "bind.unknown"] == [remedy]


def test_an_upstream_gradient_that_is_not_given_may_be_left_out_of_the_desc() -> None:
    desc = training("RNN").gradient()
    with pytest.raises(dml.BindError) as caught:
        dml.compile(desc, "numpy")()
    remedies = {problem.path: problem.remedy for problem in caught.value.problems}
    expected = "pass it, or compile a desc that leaves it null: replace(output_single_gradient_tensor=None)"
    assert remedies["output_single_gradient_tensor"] == expected
    assert remedies["weight_tensor"] is None


def test_messages_explain_how_to_describe_boolean_masks() -> None:
    mask = np.ones((1, 1, STEPS, BATCH), bool)
    with pytest.raises(dml.DescError, match=r"remedy: describe and pass array\.view\(numpy\.uint8\)"):
        dml.TensorDesc.of(mask)
    assert dml.TensorDesc.of(mask.view(np.uint8)) == training("RNN").step_mask_tensor
