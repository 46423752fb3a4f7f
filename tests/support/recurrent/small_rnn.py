"""A small RNN: its desc, its inputs, and its runs on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.tensors import tensor

T, B, I, H = 7, 3, 4, 5  # noqa: E741  (the field's letters)


Array = np.ndarray[Any, Any]

EACH_STRATEGY = pytest.mark.parametrize("device", ["persistent_block", "persistent_grid", "per_step"], indirect=True)
"""The strategies that can be selected for a CUDA device. It is here since GPU tests run without the packages that others need."""


def rnn(**members: Any) -> dml.RNNDesc:
    """A valid RNN with ragged lengths and both outputs."""
    base: dict[str, Any] = {
        "input_tensor": tensor(1, T, B, I),
        "weight_tensor": tensor(1, 1, H, I),
        "recurrence_tensor": tensor(1, 1, H, H),
        "sequence_lengths_tensor": tensor(1, 1, 1, B, data_type="UINT32"),
        "activation_descs": [dml.ActivationTanhDesc()],
        "direction": "FORWARD",
    }
    return dml.RNNDesc(**base | members).with_outputs()


def inputs(desc: dml.RecurrentDesc, seed: int = 0) -> dict[str, Array]:
    """Random inputs for a desc: lengths from 0 to T."""
    random = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for field in desc.inputs():
        item = getattr(desc, field.name)
        if item is not None and field.marker.at_most:
            arrays[field.name] = random.integers(0, T + 1, item.sizes).astype(np.uint32)
        elif item is not None:
            arrays[field.name] = random.standard_normal(item.sizes).astype(item.data_type.numpy)
    return arrays


def on(device: dml.Device, arrays: dict[str, Array]) -> dict[str, Any]:
    return {name: device.from_host(array) for name, array in arrays.items()}


def poisoned(device: dml.Device, desc: dml.TensorDesc) -> Any:
    return device.from_host(np.full(desc.sizes, np.nan, desc.data_type.numpy))


Bound = tuple[dml.Dispatch, dict[str, Array], dict[str, Any]]


def bind(device: dml.Device, desc: dml.RecurrentDesc, arrays: dict[str, Array], prepared: bool) -> Bound:
    """A dispatch of these inputs, its inputs, and its outputs filled with NaN."""
    op, given = dml.compile(desc, device), on(device, arrays)
    outputs = {field.name: poisoned(device, getattr(desc, field.name)) for field in desc.outputs()}
    constants = {name: given.pop(name) for name in op.prepared_inputs} if prepared else {}
    run = op.prepare(**constants) if prepared else op
    return run.bind(given, outputs), arrays, outputs


def codes(error: pytest.ExceptionInfo[dml.DmlError]) -> dict[str, str]:
    """The problems' codes by field."""
    return {problem.path: problem.code for problem in error.value.problems}
