"""The numeric examples of the operators' reference pages: valid descs; their outputs are inferred, their printed values computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.descs import facts_reader as facts
from tests.support.descs.documented_examples import UNSAID, Example, examples
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]


# Operators with outputs of which several sizes are right: they have to be described, or other ones are inferred than the example's.
FREE_OUTPUTS = {
    "DML_OPERATOR_AVERAGE_POOLING_GRAD",  # several sizes give the same pooled one
    "DML_OPERATOR_DIAGONAL_MATRIX",
    "DML_OPERATOR_DIAGONAL_MATRIX1",
    "DML_OPERATOR_FILL_VALUE_CONSTANT",
    "DML_OPERATOR_FILL_VALUE_SEQUENCE",
    "DML_OPERATOR_FOLD",  # several sizes give the same number of blocks
    "DML_OPERATOR_NONZERO_COORDINATES",  # the coordinates of leading ones may be left off
    "DML_OPERATOR_ONE_HOT",
    "DML_OPERATOR_RESAMPLE_GRAD",  # what a scale rounds down to comes from several sizes
    "DML_OPERATOR_RESAMPLE_GRAD1",
    "DML_OPERATOR_ROI_ALIGN_GRAD",  # the input may be left out
    "DML_OPERATOR_SPLIT",
}


def values(item: dict[str, Any]) -> Array:
    """The numbers of an input."""
    return np.array(item["values"], item["type"].lower()).reshape(item["sizes"])


def compare(result: Any, item: dict[str, Any], what: str) -> None:
    """Fails where a result is not what the page prints; None stands for a value that may be anything."""
    told = np.array([value is not None for value in item["values"]])
    expected = np.array([0 if value is None else value for value in item["values"]])
    found = np.asarray(result)
    assert list(found.shape) == item["sizes"], f"{what} has the sizes {found.shape}"
    assert found.dtype == np.dtype(item["type"].lower()), f"{what} is {found.dtype}"
    if "FLOAT" in item["type"]:
        assert_close(found.reshape(-1)[told], expected[told], found.dtype, what=what)
    else:
        np.testing.assert_array_equal(found.reshape(-1)[told], expected[told], err_msg=what)


def parsed(example: Example) -> dml.OperatorDesc | None:
    """The example's desc; None where it has problems, which another test shows."""
    try:
        desc = dml.OperatorDesc.from_dict(example.data())
    except dml.DescError:
        return None
    return None if dml.check(desc) else desc


def failures(work: Any) -> list[str]:
    """What fails in any example."""
    found = []
    for example in examples():
        try:
            work(example)
        except (AssertionError, dml.DmlError) as error:
            found.append(f"{example.name}: {error}")
    return found


def test_there_are_examples_and_they_hold_as_many_values_as_their_sizes_say() -> None:
    tensors = [
        item
        for example in examples()
        for given in (*example.inputs.values(), *example.outputs.values())
        for item in (given if isinstance(given, list) else [given])
    ]
    assert len(tensors) >= 2 * len(examples()) - len(FREE_OUTPUTS) > 0
    assert not [item for item in tensors if math.prod(item["sizes"]) != len(item["values"])]
    assert not UNSAID.keys() - {example.operator for example in examples()}


def test_examples_describe_valid_operators() -> None:
    def work(example: Example) -> None:
        assert dml.check(dml.OperatorDesc.from_dict(example.data())) == []

    found = failures(work)
    assert not found, "\n".join(found)


def outputs_of(desc: dml.OperatorDesc) -> dict[str, Any]:
    return {field.name: getattr(desc, field.name) for field in desc.outputs() if getattr(desc, field.name) is not None}


def test_outputs_are_inferred_where_the_inputs_determine_them() -> None:
    def work(example: Example) -> None:
        desc = parsed(example)
        if desc is None:
            return
        expected = outputs_of(desc)
        members = {name: value for name, value in example.members.items() if name not in example.outputs}
        try:
            bare = dml.OperatorDesc.from_dict(example.data(members))
            complete = bare.with_outputs(*expected)
        except dml.DescError:
            assert example.operator in FREE_OUTPUTS, "its outputs are not inferred"
            return
        assert dml.check(complete) == []
        if example.operator in FREE_OUTPUTS:
            return
        inferred = outputs_of(complete)
        inputs = {item.data_type for item in bare.tensors().values()}
        for name, tensor in expected.items():
            assert inferred[name].sizes == tensor.sizes, f"{name} is {inferred[name].sizes}"
            # A type is determined only where it is an input's.
            assert tensor.data_type not in inputs or inferred[name].data_type in inputs, f"{name} is {inferred[name].data_type}"

    found = failures(work)
    assert not found, "\n".join(found)
    assert {example.operator for example in examples()} >= FREE_OUTPUTS


def arguments(example: Example, device: dml.Device) -> dict[str, Any]:
    """The example's inputs in the device's memory, by field."""
    given = {}
    for slot, item in example.inputs.items():
        arrays = [device.from_host(values(own)) for own in (item if isinstance(item, list) else [item])]
        given[facts.python_name(slot)] = arrays if isinstance(item, list) else arrays[0]
    return given


def test_printed_values_are_computed(any_device: dml.Device) -> None:
    ran = []

    def work(example: Example) -> None:
        desc = parsed(example)
        if desc is None or not any_device.runs(type(desc)):
            return
        results = dml.compile(desc, any_device)(**arguments(example, any_device))
        ran.append(example.name)
        for slot, item in example.outputs.items():
            result = getattr(results, facts.python_name(slot))
            pairs = zip(result, item, strict=True) if isinstance(item, list) else [(result, item)]
            for one, expected in pairs:
                compare(any_device.to_host(one), expected, slot)

    found = failures(work)
    assert not found, "\n".join(found)
    assert ran
