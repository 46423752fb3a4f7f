"""A tensor's desc from its sizes alone, and that of a small RNN with any members."""

from __future__ import annotations

from typing import Any

import dmlpy as dml


def tensor(*sizes: int, data_type: str = "FLOAT32", **members: Any) -> dml.TensorDesc:
    """A desc of these sizes; `members` are further ones of the struct."""
    return dml.TensorDesc(data_type=data_type, sizes=sizes, **members)


def rnn(**changes: Any) -> dml.RNNDesc:
    members: dict[str, Any] = {
        "input_tensor": dml.TensorDesc(data_type="FLOAT32", sizes=[1, 7, 3, 11]),
        "weight_tensor": dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 5, 11]),
        "recurrence_tensor": dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 5, 5]),
        "output_single_tensor": dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 3, 5]),
        "activation_descs": [dml.ActivationTanhDesc()],
        "direction": "FORWARD",
    }
    return dml.RNNDesc(**(members | changes))
