"""`bind` with lists in the struct's order, as DirectML binds, and what `prepare` takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.tensors import tensor

Array = np.ndarray[Any, np.dtype[Any]]
T, B, F, H = 3, 2, 4, 5
LSTM_INPUTS = {
    "input_tensor": (1, T, B, F),
    "weight_tensor": (1, 1, 4 * H, F),
    "recurrence_tensor": (1, 1, 4 * H, H),
    "bias_tensor": (1, 1, 1, 8 * H),
    "hidden_init_tensor": None,
    "cell_mem_init_tensor": (1, 1, B, H),
    "sequence_lengths_tensor": None,
    "peephole_tensor": None,
}


def lstm() -> dml.LSTMDesc:
    given = {name: None if sizes is None else tensor(*sizes) for name, sizes in LSTM_INPUTS.items()}
    activations = [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()]
    return dml.LSTMDesc(**given, activation_descs=activations, direction="FORWARD").with_outputs(
        "output_sequence_tensor", "output_single_tensor"
    )


def arrays() -> dict[str, Array | None]:
    rng = np.random.default_rng(1)
    return {name: None if sizes is None else rng.standard_normal(sizes, np.float32) for name, sizes in LSTM_INPUTS.items()}


def outputs_of(desc: dml.OperatorDesc) -> list[Any]:
    return [None if slot.tensor is None else np.full(slot.tensor.sizes, np.nan, np.float32) for slot in desc.output_slots()]


def test_lists_bind_as_names_do() -> None:
    desc = lstm()
    op = dml.compile(desc, "numpy")
    given, outputs = arrays(), outputs_of(desc)
    assert [slot.place for slot in desc.input_slots()] == list(LSTM_INPUTS)
    expected = op(**given)
    op.bind(list(given.values()), tuple(outputs))()
    np.testing.assert_array_equal(outputs[0], expected.output_sequence_tensor)
    np.testing.assert_array_equal(outputs[1], expected.output_single_tensor)
    assert outputs[2] is None


def test_prepared_inputs_are_none_in_a_list() -> None:
    desc = lstm()
    op = dml.compile(desc, "numpy")
    given, outputs = arrays(), outputs_of(desc)
    assert op.prepared_inputs == ("weight_tensor", "recurrence_tensor", "bias_tensor")
    prepared = op.prepare(**{name: given[name] for name in op.prepared_inputs})
    unpacked = {name: None if name in op.prepared_inputs else array for name, array in given.items()}
    prepared.bind(list(unpacked.values()), outputs)()
    np.testing.assert_array_equal(outputs[0], op(**given).output_sequence_tensor)
    with pytest.raises(dml.BindError) as caught:
        prepared.bind(list(given.values()), outputs)
    assert {problem.path: problem.code for problem in caught.value.problems} == dict.fromkeys(op.prepared_inputs, "bind.packed")


def test_arrays_of_tensors_are_bound_one_after_the_other() -> None:
    part = tensor(1, 1, 1, 2)
    op = dml.compile(dml.JoinDesc(input_tensors=[part, part], output_tensor=tensor(1, 1, 1, 4), axis=3), "numpy")
    first, second, output = np.ones((1, 1, 1, 2), np.float32), np.zeros((1, 1, 1, 2), np.float32), np.zeros((1, 1, 1, 4), np.float32)
    op.bind([first, second], [output])()
    assert output.reshape(-1).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(("count", "words"), [(1, "a list of 1"), (0, "an empty list"), (3, "a list of 3")])
def test_too_few_and_too_many_are_reported_with_the_order(count: int, words: str) -> None:
    part = tensor(1, 1, 1, 2)
    op = dml.compile(dml.ElementWiseAddDesc(a_tensor=part, b_tensor=part, output_tensor=part), "numpy")
    array, output = np.ones((1, 1, 1, 2), np.float32), np.zeros((1, 1, 1, 2), np.float32)
    with pytest.raises(dml.BindError) as caught:
        op.bind([array] * count, [output])
    problem = caught.value.problems[0]
    assert (problem.code, problem.path, problem.found) == ("bind.count", "inputs", words)
    assert problem.expected == "2, with None for each that is absent: [a_tensor, b_tensor]"
    assert {item.path for item in caught.value.problems[1:]} == {"a_tensor", "b_tensor"} - {*["a_tensor", "b_tensor"][:count]}
    with pytest.raises(dml.BindError, match="outputs is a list of 2, expected 1"):
        op.bind([array, array], [output, output])


def test_what_a_list_may_not_hold_is_reported_by_name() -> None:
    desc = lstm()
    op = dml.compile(desc, "numpy")
    given = arrays() | {"peephole_tensor": np.zeros(3), "input_tensor": None}
    with pytest.raises(dml.BindError) as caught:
        op.bind(list(given.values()), outputs_of(desc))
    assert {problem.path: problem.code for problem in caught.value.problems} == {
        "peephole_tensor": "bind.unexpected",
        "input_tensor": "bind.missing",
    }


def owned() -> dml.ElementWiseAddDesc:
    return dml.ElementWiseAddDesc(
        a_tensor=tensor(1, 1, 1, 2), b_tensor=tensor(1, 1, 1, 2, flags="OWNED_BY_DML"), output_tensor=tensor(1, 1, 1, 2)
    )


def test_an_owned_input_that_is_not_bound_is_for_prepare() -> None:
    op = dml.compile(owned(), "numpy")
    assert op.prepared_inputs == ("b_tensor",)
    array, output = np.ones((1, 1, 1, 2), np.float32), np.zeros((1, 1, 1, 2), np.float32)
    with pytest.raises(dml.BindError) as caught:
        op.bind({"a_tensor": array}, {"output_tensor": output})
    assert [problem.remedy for problem in caught.value.problems] == [
        "pass it, or pack it once with prepare(b_tensor=...) and bind what that returns"
    ]
    prepared = op.prepare(b_tensor=array)
    prepared.bind([array, None], [output])()
    assert output.reshape(-1).tolist() == [2, 2]
    with pytest.raises(dml.BindError) as caught:
        prepared.bind([array, array], [output])
    assert [problem.code for problem in caught.value.problems] == ["bind.packed"]


def test_an_absent_input_is_no_affair_of_prepare() -> None:
    op = dml.compile(lstm(), "numpy")
    given = arrays()
    with pytest.raises(dml.BindError) as caught:
        op.prepare(**{name: given[name] for name in op.prepared_inputs}, peephole_tensor=np.zeros(3), input_tensor=given["input_tensor"])
    assert {problem.path: problem.code for problem in caught.value.problems} == {
        "peephole_tensor": "bind.unexpected",
        "input_tensor": "bind.misplaced",
    }


def test_a_graph_binds_in_its_own_order() -> None:
    g = dml.GraphBuilder("sums")
    first, second = g.input("first", tensor(1, 1, 1, 2)), g.input("second", tensor(1, 1, 1, 2))
    g.output("difference", g.add(dml.ElementWiseSubtractDesc, a_tensor=second, b_tensor=first))
    op = dml.compile(g.build(), "numpy")
    one, five, output = (np.full((1, 1, 1, 2), value, np.float32) for value in (1, 5, 0))
    op.bind([one, five], [output])()
    assert output.reshape(-1).tolist() == [4, 4]
    with pytest.raises(dml.BindError) as caught:
        op.bind([one], [output])
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [("bind.count", "inputs"), ("bind.missing", "second")]
