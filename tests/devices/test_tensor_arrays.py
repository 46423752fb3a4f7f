"""Operators with an array of tensors, bound as lists or one by one: JOIN's inputs, SPLIT's outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml

PARTS = [np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(10, 12, dtype=np.float32).reshape(2, 1)]
WHOLE = np.concatenate(PARTS, axis=1)


def tensors(arrays: list[np.ndarray[Any, Any]]) -> list[dml.TensorDesc]:
    return [dml.TensorDesc.of(array) for array in arrays]


def join(**members: Any) -> dml.CompiledOperator:
    return dml.compile(dml.JoinDesc(**{"input_tensors": tensors(PARTS), "axis": 1} | members).with_outputs(), "numpy")


def split() -> dml.CompiledOperator:
    desc = dml.SplitDesc(input_tensor=dml.TensorDesc.of(WHOLE), output_tensors=tensors(PARTS), axis=1)
    return dml.compile(desc, "numpy")


@pytest.mark.parametrize(
    "given",
    [
        {"input_tensors": PARTS},
        {"InputTensors": tuple(PARTS)},
        {"input_tensors[0]": PARTS[0], "input_tensors[1]": PARTS[1]},
        {"InputTensors[0]": PARTS[0], "input_tensors[1]": PARTS[1]},
    ],
    ids=str,
)
def test_inputs_in_every_form(given: dict[str, Any]) -> None:
    assert np.array_equal(join()(**given).output_tensor, WHOLE)


def test_outputs_come_as_a_tuple() -> None:
    outputs = split()(input_tensor=WHOLE)
    assert isinstance(outputs.output_tensors, tuple)
    assert all(np.array_equal(given, wanted) for given, wanted in zip(outputs.OutputTensors, PARTS, strict=True))
    assert len(outputs) == 1


def test_outputs_are_filled_where_they_are_given() -> None:
    filled = [np.full_like(part, np.nan) for part in PARTS]
    outputs = split()(input_tensor=WHOLE, output_tensors=filled)
    assert all(given is own for given, own in zip(outputs.output_tensors, filled, strict=True))
    assert all(np.array_equal(given, wanted) for given, wanted in zip(filled, PARTS, strict=True))
    only_one = np.full_like(PARTS[1], np.nan)
    outputs = split()(**{"input_tensor": WHOLE, "output_tensors[1]": only_one})
    assert np.array_equal(outputs.output_tensors[0], PARTS[0])
    assert np.array_equal(only_one, PARTS[1])


def test_a_dispatch_binds_them_too() -> None:
    filled = [np.full_like(part, np.nan) for part in PARTS]
    split().bind({"input_tensor": WHOLE}, {"output_tensors": filled})()
    assert all(np.array_equal(given, wanted) for given, wanted in zip(filled, PARTS, strict=True))


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ({"input_tensors": PARTS[:1]}, [("bind.missing", "input_tensors[1]")]),
        ({"input_tensors": [*PARTS, PARTS[0]]}, [("bind.count", "input_tensors")]),
        ({"input_tensors": PARTS[0]}, [("bind.count", "input_tensors")]),
        ({"input_tensors": [PARTS[1], PARTS[0]]}, [("array.shape", "input_tensors[0]"), ("array.shape", "input_tensors[1]")]),
        ({"input_tensors": PARTS, "input_tensors[0]": PARTS[0]}, [("bind.twice", "input_tensors[0]")]),
        ({"input_tensors": PARTS, "input_tensors[2]": PARTS[0]}, [("bind.unknown", "input_tensors[2]")]),
        ({"input_tensors": [PARTS[0], None]}, [("bind.missing", "input_tensors[1]")]),
    ],
    ids=str,
)
def test_what_does_not_fit_is_reported_by_its_place(given: dict[str, Any], problems: list[tuple[str, str]]) -> None:
    output = np.full_like(WHOLE, np.nan)
    with pytest.raises(dml.BindError) as caught:
        join()(**given, output_tensor=output)
    assert [(problem.code, problem.path) for problem in caught.value.problems][: len(problems)] == problems
    assert np.isnan(output).all()


def test_an_output_may_not_share_memory_with_an_element() -> None:
    memory = np.zeros(8, np.float32)
    whole, first = memory.reshape(2, 4), memory[:6].reshape(2, 3)
    with pytest.raises(dml.BindError) as caught:
        join()(input_tensors=[first, PARTS[1]], output_tensor=whole)
    assert [problem.code for problem in caught.value.problems] == ["hazard.in_place"]


def test_owned_elements_are_taken_over() -> None:
    owned = [tensors(PARTS)[0], tensors(PARTS)[1].replace(flags="OWNED_BY_DML")]
    operator = join(input_tensors=owned)
    kept = PARTS[1].copy()
    prepared = operator.prepare(**{"input_tensors[1]": kept})
    kept[...] = np.nan
    assert np.array_equal(prepared(**{"input_tensors[0]": PARTS[0]}).output_tensor, WHOLE)
