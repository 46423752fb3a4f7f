"""Nodes of ONNX models with what ONNX Runtime gave for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from dmlpy import onnx
from tests.support.onnx.models import Array, model
from tests.support.operators.operator_results import stored


@dataclass(frozen=True)
class StoredNode:
    """A node, its inputs and its outputs.

    Attributes:
        name: of the case.
        operator: ONNX's operator.
        domain: the operator's domain.
        opset: the version of ONNX's own operators.
        known: which inputs are initializers.
        attributes: the node's.
        inputs: arrays by position.
        outputs: the results likewise.
    """

    name: str
    operator: str
    domain: str
    opset: int
    known: tuple[int, ...]
    attributes: Mapping[str, Any]
    inputs: Mapping[int, Array]
    outputs: Mapping[int, Array]

    def __str__(self) -> str:
        return self.name

    def model(self) -> onnx.Model:
        """A model of the node alone."""
        given = [f"x{index}" if index in self.inputs else "" for index in range(max(self.inputs) + 1)]
        results = [f"y{index}" if index in self.outputs else "" for index in range(max(self.outputs) + 1)]
        node = helper.make_node(self.operator, given, results, name="node", domain=self.domain, **self.attributes)
        arrays = {f"x{index}": array for index, array in self.inputs.items()}
        types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()}
        # Of ONNX's own operators the types follow from the node: the results have numbers for truth values.
        types |= {f"y{index}": helper.np_dtype_to_tensor_dtype(array.dtype) for index, array in self.outputs.items() if self.domain}
        inputs = {name: array.shape for name, array in arrays.items() if int(name[1:]) not in self.known}
        constants = {name: arrays[name] for name in arrays if name not in inputs}
        domains = {"com.microsoft": 1, "ai.onnx.ml": 1}
        built = model([node], inputs, list(filter(None, results)), opset=self.opset, types=types, constants=constants, domains=domains)
        return onnx.load(built)

    def given(self) -> dict[str, Array]:
        """What the model is called with."""
        return {f"x{index}": np.array(array) for index, array in self.inputs.items() if index not in self.known}


def stored_nodes(file: str) -> list[StoredNode]:
    """The nodes of a file in order."""
    return [
        StoredNode(
            entry["case"],
            entry["operator"],
            entry["attributes"]["domain"],
            entry["attributes"]["opset"],
            tuple(entry["attributes"]["known"]),
            entry["attributes"]["attributes"],
            {int(index): array.astype(bool) if int(index) in booleans else array for index, array in inputs.items()},
            {int(index): array for index, array in outputs.items()},
        )
        for entry, inputs, outputs in stored(file)
        for booleans in [entry["attributes"].get("booleans", ())]
    ]


NODES = stored_nodes("onnx_nodes")
