"""Models for tests: a valid one as data, and its file."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

Data = dict[str, Any]

_RNN: Data = {
    "resources": {
        "x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4]},
        "w": {"initialValuesDataType": "FLOAT32", "initialValues": [0.5]},
        "r": {"initialValuesDataType": "FLOAT32", "initialValues": [2]},
        "y": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 4, "value": "nan"}},
    },
    "dispatchables": {
        "rnn": {
            "type": "RNN",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 4, 1, 1]},
                "WeightTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 1]},
                "RecurrenceTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 1]},
                "OutputSequenceTensor": {"DataType": "FLOAT32", "Sizes": [4, 1, 1, 1]},
                "ActivationDescs": [{"Type": "ACTIVATION_IDENTITY"}],
                "Direction": "FORWARD",
            },
        }
    },
    "commands": [
        {
            "type": "dispatch",
            "dispatchable": "rnn",
            "bindings": {"InputTensor": "x", "WeightTensor": "w", "RecurrenceTensor": "r", "OutputSequenceTensor": "y"},
        },
        {"type": "print", "resource": "y"},
    ],
}
RNN_LINE = "Resource 'y': 0.5, 2, 5.5, 13"
"""What the model prints: h = 0.5 x + 2 h of the step before."""


def rnn_model() -> Data:
    """A model of one RNN with one hidden unit: y = h over four steps. Free to be changed."""
    return copy.deepcopy(_RNN)


def resource_model(**resource: Any) -> Data:
    """A model that holds one resource, `x`, and prints it."""
    return {"resources": {"x": resource}, "dispatchables": {}, "commands": [{"type": "print", "resource": "x"}]}


def put(data: Data, path: str, value: Any) -> Data:
    """Sets a member by its path, `resources/x/sizeInBytes`; lists by index; None removes it."""
    *parents, last = path.split("/")
    part: Any = data
    for name in parents:
        part = part[int(name)] if isinstance(part, list) else part[name]
    if value is None:
        del part[last]
    elif isinstance(part, list):
        part[int(last)] = value
    else:
        part[last] = value
    return data


def write(folder: Path, data: Data | str, name: str = "model.json") -> Path:
    """The file of a model, or of text."""
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path
