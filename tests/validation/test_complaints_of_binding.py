"""A complaint about binding, as `test_complaints` has those about descriptors: a tensor is bound to a slot that the desc leaves null."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.dxdispatch.checker import check_file
from tests.support.descs.messages import gru, in_order
from tests.support.dxdispatch.models import put, rnn_model, write
from tests.support.tensors import tensor


def bind_in_python(tmp_path: Path) -> str:
    op = dml.compile(gru(tensor(1, 1, 15, 3), tensor(1, 1, 15, 5)), "numpy")
    given = {name: np.zeros(getattr(op.desc, name).sizes, np.float32) for name in ("input_tensor", "weight_tensor", "recurrence_tensor")}
    with pytest.raises(dml.BindError) as caught:
        op(**given, bias_tensor=np.zeros([1, 1, 1, 30], np.float32))
    return str(caught.value)


def bind_in_a_model(tmp_path: Path) -> str:
    return check_file(write(tmp_path, put(rnn_model(), "commands/0/bindings/BiasTensor", "w"))).text()


# https://github.com/microsoft/DirectML/issues/81: "nothing expected at index 2". Slots have names, and null ones are named.
@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (
            bind_in_python,
            ["bias_tensor is given, expected nothing: the desc leaves it null", "pass None, or compile a desc that describes"],
        ),
        (
            bind_in_a_model,
            ["BiasTensor is given, expected nothing: the desc leaves it null", "leave it out, or describe BiasTensor in the desc"],
        ),
    ],
)
def test_a_tensor_bound_to_a_null_slot_is_named(bind: Callable[[Path], str], message: list[str], tmp_path: Path) -> None:
    text = bind(tmp_path)
    assert in_order(message, text) is None, text
