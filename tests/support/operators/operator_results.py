"""The stored results of other systems' operators, as dmlpy's descs, inputs and outputs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from tests.support.folders import OPERATOR_RESULTS

SYSTEMS = {"onnx_runtime": "ONNX Runtime", "pytorch": "PyTorch"}
"""The files, each with the system's name in `verified.toml`."""

KINDS = {kind.short_name(): kind for kind in OPERATORS.values()}


@dataclass(frozen=True)
class Result:
    """What a system gave for an operator.

    Attributes:
        file: which file it is in.
        case: its name there.
        peer: the operator or function of the system.
        kind: dmlpy's class.
        attributes: the desc's members that are not tensors.
        inputs: arrays by field name, with the sizes of the tensors; a list for a field of several.
        outputs: the results likewise.
    """

    file: str
    case: str
    peer: str
    kind: type[dml.OperatorDesc]
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]

    def desc(self) -> dml.OperatorDesc:
        """The desc whose tensors have the arrays' types and layouts."""
        tensors = {
            field: [dml.TensorDesc.of(item) for item in value] if isinstance(value, list) else dml.TensorDesc.of(value)
            for field, value in {**self.inputs, **self.outputs}.items()
        }
        return self.kind(**tensors, **self.attributes)

    def __str__(self) -> str:
        return f"{self.file}-{self.case}"


def stored(file: str) -> Iterator[tuple[Mapping[str, Any], dict[str, Any], dict[str, Any]]]:
    """The cases of a file in order: the list's entry, the inputs and the outputs of each."""
    with np.load(OPERATOR_RESULTS / f"{file}.npz") as data:
        numbers = {name: data[name] for name in data.files}
    taken = dict.fromkeys(numbers, 0)

    def take(of: Any) -> Any:
        """The next array of a type."""
        if isinstance(of, list):
            return [take(item) for item in of]
        name, start = of["type"], taken[of["type"]]
        taken[name] += math.prod(of["sizes"])
        array = numbers[name][start : taken[name]].reshape(of["sizes"])
        if "texts" in of:
            texts = array.tobytes().decode().split("\0") if math.prod(of["texts"]) else []
            return np.array(texts, object).reshape(of["texts"])
        return np.broadcast_to(array, of["broadcast"]) if "broadcast" in of else array

    for entry in json.loads((OPERATOR_RESULTS / f"{file}.json").read_text())["cases"]:
        inputs, outputs = ({field: take(of) for field, of in entry[name].items()} for name in ("inputs", "outputs"))
        yield entry, inputs, outputs
    assert taken == {name: array.size for name, array in numbers.items()}, "numbers that belong to no case"


def _results(file: str) -> Iterator[Result]:
    for entry, inputs, outputs in stored(file):
        yield Result(file, entry["case"], entry["peer"], KINDS[entry["operator"]], entry["attributes"], inputs, outputs)


RESULTS = [result for file in SYSTEMS for result in _results(file)]
