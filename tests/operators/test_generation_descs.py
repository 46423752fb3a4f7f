"""The operators that make tensors, and the optimizer: rules, numbers of a type, the state of random bits, JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

Found = list[tuple[str, str]]


def diagonal(**members: Any) -> dml.DiagonalMatrix1Desc:
    given = {"output_tensor": tensor(3, 4), "value_data_type": "FLOAT32", "value": 7, "diagonal_fill_begin": -1, "diagonal_fill_end": 2}
    return dml.DiagonalMatrix1Desc(**given | members)


def constant(data_type: str, value: Any, of_tensor: str | None = None) -> dml.FillValueConstantDesc:
    output = tensor(2, 3, data_type=of_tensor or data_type)
    return dml.FillValueConstantDesc(output_tensor=output, value_data_type=data_type, value=value)


def sequence(data_type: str, start: Any, delta: Any) -> dml.FillValueSequenceDesc:
    members = {"value_data_type": data_type, "value_start": start, "value_delta": delta}
    return dml.FillValueSequenceDesc(output_tensor=tensor(2, 3, data_type=data_type), **members)


def random_bits(state: tuple[int, ...], after: tuple[int, ...] | None = None, data_type: str = "UINT32") -> dml.RandomGeneratorDesc:
    described = None if after is None else tensor(*after, data_type="UINT32")
    states = {"input_state_tensor": tensor(*state, data_type="UINT32"), "output_state_tensor": described}
    return dml.RandomGeneratorDesc(output_tensor=tensor(5, 7, data_type=data_type), **states)


def adam(**members: Any) -> dml.AdamOptimizerDesc:
    names = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")
    given: dict[str, Any] = {name: tensor(2, 3, 4, 5) for name in names}
    given |= {"training_step_tensor": tensor(1, 1, 1, 1, data_type="UINT32"), "learning_rate": 0.001}
    return dml.AdamOptimizerDesc(**given | members).with_outputs()


# A desc, and the codes and places of its problems.
CASES: list[tuple[Callable[[], OperatorDesc], Found]] = [
    (lambda: dml.DiagonalMatrixDesc(output_tensor=tensor(5, 2, 3, 4), offset=-2), []),
    (lambda: dml.DiagonalMatrixDesc(output_tensor=tensor(3)), [("dims.support", "output_tensor.sizes")]),
    (lambda: dml.DiagonalMatrixDesc(output_tensor=tensor(3, 3), offset=2**31), [("attribute.range", "offset")]),
    (lambda: diagonal(), []),
    (lambda: diagonal(input_tensor=tensor(3, 4)), []),
    (lambda: diagonal(input_tensor=tensor(3, 5)), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: diagonal(input_tensor=tensor(1, 3, 4)), [("dims.equal", "output_tensor.sizes")]),
    (lambda: diagonal(input_tensor=tensor(3, 4, data_type="INT8")), [("type.equal", "output_tensor.data_type")]),
    (lambda: diagonal(output_tensor=None), [("tensor.missing", "output_tensor")]),
    (lambda: diagonal(value_data_type="INT8"), [("attribute.type", "value_data_type")]),
    (lambda: constant("INT8", -128), []),
    (lambda: constant("INT8", 128), [("attribute.range", "value")]),
    (lambda: constant("INT32", 0.5), [("attribute.range", "value")]),
    (lambda: constant("FLOAT16", 65536), [("attribute.range", "value")]),
    (lambda: constant("INT8", 1, "UINT8"), [("attribute.type", "value_data_type")]),
    (lambda: sequence("INT64", -5, -(2**63)), []),
    (lambda: sequence("UINT8", 10, -128), []),
    (lambda: sequence("UINT8", 10, -129), [("attribute.range", "value_delta")]),
    (lambda: sequence("UINT8", -1, 1), [("attribute.range", "value_start")]),
    (lambda: sequence("FLOAT64", 0, 1), [("type.support", "output_tensor.data_type")]),
    (lambda: random_bits((1, 1, 6)), []),
    (lambda: random_bits((1, 1, 6), (1, 1, 6)), []),
    (lambda: random_bits((1, 5)), [("size.equal", "input_state_tensor.sizes[1]")]),
    (lambda: random_bits((2, 6)), [("size.equal", "input_state_tensor.sizes[0]")]),
    (lambda: random_bits((1, 6), (6,)), [("dims.equal", "output_state_tensor.sizes")]),
    (lambda: random_bits((1, 6), data_type="FLOAT32"), [("type.support", "output_tensor.data_type")]),
    (lambda: adam(), []),
    (lambda: adam(gradient_tensor=tensor(2, 3, 5, 4)), [("size.equal", f"gradient_tensor.sizes[{axis}]") for axis in (2, 3)]),
    (lambda: adam(training_step_tensor=tensor(1, 1, 1, 2, data_type="UINT32")), [("size.equal", "training_step_tensor.sizes[3]")]),
    (lambda: adam(training_step_tensor=tensor(1, 1, 1, 1)), [("type.support", "training_step_tensor.data_type")]),
    (lambda: adam(beta1=1.5, beta2=-0.5), [("attribute.range", "beta1"), ("attribute.range", "beta2")]),
]


def test_problems_are_reported_by_code_and_place() -> None:
    wrong = []
    for make, expected in CASES:
        desc = make()
        if [(problem.code, problem.path) for problem in dml.check(desc)] != expected:
            wrong.append(lay_out(f"{desc.to_dict()}\nexpected {expected}", dml.check(desc)))
    assert not wrong, "\n".join(wrong)


def test_messages_name_the_type_that_a_number_has_to_fit() -> None:
    (found,) = dml.check(constant("INT8", 128))
    assert (found.expected, found.why) == ("a number that INT8 holds", ("value_data_type is INT8",))
    (found,) = dml.check(random_bits((2, 6)))
    assert found.why == ("input_state_tensor is [*ones, 6]", "ones[0] = 1: leading dimensions are 1")


def test_outputs_that_inputs_determine_are_inferred() -> None:
    desc = diagonal(input_tensor=tensor(5, 3, 4), output_tensor=None).with_outputs()
    assert desc.output_tensor == desc.input_tensor
    state = random_bits((1, 1, 6)).with_outputs()
    assert state == random_bits((1, 1, 6), (1, 1, 6))
    with pytest.raises(dml.DescError, match="output_tensor is not determined"):
        diagonal(output_tensor=None).with_outputs()
    updated = adam()
    assert updated.output_second_moment_tensor == updated.output_parameters_tensor == tensor(2, 3, 4, 5)


def test_a_descending_sequence_of_an_unsigned_type_is_stored_as_what_it_wraps_to() -> None:
    for bits in (8, 16, 32, 64):
        desc = sequence(f"UINT{bits}", 10, -2)
        assert desc.value_delta == 2**bits - 2
        assert desc == sequence(f"UINT{bits}", 10, 2**bits - 2) == dml.OperatorDesc.from_dict(desc.to_dict())
        for same in (np.int64(-2), {"Int32": -2}):
            assert sequence(f"UINT{bits}", 10, same) == desc
    assert sequence("INT8", 10, -2).value_delta == sequence("FLOAT16", 10, -2).value_delta == -2


def test_the_member_type_of_the_random_generator_is_not_the_operators_type() -> None:
    desc = random_bits((1, 6), (1, 6))
    for data in (desc.to_dict(), desc.to_dict(flat=True)):
        assert (data["Type"], data["Desc"]["Type"]) == ("DML_OPERATOR_RANDOM_GENERATOR", "DML_RANDOM_GENERATOR_TYPE_PHILOX_4X32_10")
        assert dml.OperatorDesc.from_dict(data) == desc
    members = {name: value for name, value in desc.to_dict()["Desc"].items() if name != "Type"}
    with pytest.raises(dml.DescError, match="Type is missing"):
        dml.OperatorDesc.from_dict({"Type": "RANDOM_GENERATOR", "Desc": members})
