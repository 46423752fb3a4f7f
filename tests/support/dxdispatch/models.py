"""Models for tests: a valid one as data, its file, its run, and what is wrong with others."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.dxdispatch import Folders, ModelError, RunOptions, load, run
from dmlpy.messages.problems import Problem

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


def lines_of(path: Path, device: dml.Device | str = "numpy", folders: Folders | None = None, **options: Any) -> list[str]:
    """The output of a model's run."""
    lines: list[str] = []
    run(load(path, folders), dml.device(device), RunOptions(**options), inform=lines.append, warn=lines.append)
    return lines


def printed(tmp_path: Path, **resource: Any) -> str:
    """What `print` shows of a resource."""
    line = lines_of(write(tmp_path, resource_model(**resource)))[-1]
    assert line.startswith("Resource 'x': ")
    return line.removeprefix("Resource 'x': ")


def problems_of(folder: Path, data: Data | str) -> dict[str, Problem]:
    """A wrong model's problems by their place and code."""
    with pytest.raises(ModelError) as caught:
        load(write(folder, data), Folders((folder, folder), folder))
    return {
        f"{finding.place}: {problem.path} [{problem.code}]": problem for finding in caught.value.findings for problem in finding.problems
    }
