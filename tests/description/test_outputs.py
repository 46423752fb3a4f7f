"""`Outputs`: read by either name, listed, and printed with types, sizes and values."""

from __future__ import annotations

import numpy as np
import pytest

import dmlpy as dml

OUTPUTS = dml.Outputs({"output_sequence_tensor": np.arange(6, dtype=np.float32).reshape(1, 6), "output_tensors": (np.zeros(2), np.ones(3))})


def test_outputs_are_read_by_name() -> None:
    assert OUTPUTS["output_sequence_tensor"] is OUTPUTS["OutputSequenceTensor"] is OUTPUTS.output_sequence_tensor
    assert [*OUTPUTS.keys()] == ["output_sequence_tensor", "output_tensors"] == [*dict(OUTPUTS)]
    assert "output_sequence_tensor" in dir(OUTPUTS)


@pytest.mark.parametrize("name", ["output", 3])
def test_an_unknown_output_names_those_that_there_are(name: object) -> None:
    with pytest.raises(KeyError, match="the desc describes output_sequence_tensor, output_tensors"):
        OUTPUTS[name]  # type: ignore[index]


def test_methods_of_dicts_are_answered_with_the_dict() -> None:
    with pytest.raises(AttributeError, match=r"no output 'items': .*; as_dict\(\)\.items\(\.\.\.\) is a dict's"):
        OUTPUTS.items()


def test_outputs_print_types_sizes_and_values() -> None:
    assert [line.split("   ")[0].strip() for line in repr(OUTPUTS).splitlines()[4:]] == [
        "output_sequence_tensor", "output_tensors[0]", "output_tensors[1]",
    ]  # fmt: skip
    assert "float32   (1, 6)   0, 1, 2, 3, ..." in repr(OUTPUTS)


def test_arrays_without_their_names_are_refused_with_the_names() -> None:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[2])
    operator = dml.compile(dml.ActivationReluDesc(input_tensor=tensor, output_tensor=tensor), "numpy")
    with pytest.raises(TypeError, match=r"takes arrays by name, op\(input_tensor=\.\.\.\)"):
        operator(np.zeros(2, np.float32))
    assert "input_tensor FLOAT32 [2]" in repr(operator)
    with pytest.raises(TypeError, match=r"TensorDesc\(data_type=\.\.\., sizes=\.\.\.\); 2 values were given without a name"):
        dml.TensorDesc("FLOAT32", [1, 2])
