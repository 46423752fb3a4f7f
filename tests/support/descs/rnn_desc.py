"""The desc of a small RNN with any members."""

from __future__ import annotations

from typing import Any

import dmlpy as dml


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
