"""Computes a node whose inputs are known by DirectML's operators: on NumPy, or in FLOAT64 by their definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import AttributeProto, TensorProto

from dmlpy.comparison import defined
from dmlpy.compiler import compile as compile_graph
from dmlpy.devices import device as find_device
from dmlpy.onnx.loading.elements import dtype_of
from dmlpy.onnx.lowering.stages import as_elements
from dmlpy.onnx.runtime.graph_runs import GraphRun, OnDevice
from dmlpy.onnx.runtime.programs import GraphPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import NodeProto

    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.runtime.programs import Program

_TYPES_IN = frozenset({"to", "dtype", "output_dtype", "stash_type"})
"""Attributes that name a type."""


def computed(program: Program, arrays: Mapping[str, Array]) -> dict[str, Array] | None:
    """The outputs of a program by name, as NumPy's device gives them; None if something of it is not DirectML's."""
    device = find_device("numpy")
    values: dict[str, object] = dict(arrays)
    for part in program.parts:
        if not isinstance(part, GraphPart):
            return None
        GraphRun(part, compile_graph(part.graph, device), device)(values)
    found = {name: values[value.name] if value.array is None else value.array for name, value in program.outputs.items()}
    return {name: held.on_host(device) if isinstance(held, OnDevice) else np.asarray(held) for name, held in found.items()}


def computed_wide(program: Program, arrays: Mapping[str, Array]) -> dict[str, Array] | None:
    """The outputs of a program that takes FLOAT64 tensors for FLOAT32 ones, computed in FLOAT64; None if something is not DirectML's."""
    values = dict(arrays)
    for part in program.parts:
        if not isinstance(part, GraphPart):
            return None
        given = {name: _bits(values[name]).reshape(value.tensor_sizes) for name, value in part.reads.items()}
        found = defined(part.graph, given | {name: _bits(array) for name, array in part.owned.items()})
        values.update({name: _wide(value, found[name]) for name, value in part.writes.items()})
    return {name: values[value.name] if value.array is None else value.array for name, value in program.outputs.items()}


def is_wide(proto: NodeProto, arrays: Mapping[str, Array]) -> bool:
    """Whether all floating-point tensors of a node are FLOAT64, and its attributes name no other type."""
    floats = {array.dtype for array in arrays.values() if array.dtype.kind == "f"}
    named = any(item.name in _TYPES_IN or item.type == AttributeProto.TENSOR for item in proto.attribute)
    return floats == {np.dtype(np.float64)} and not named


def _bits(array: Array) -> Array:
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _wide(value: Value, array: Array) -> Array:
    """What a graph gave for a value: FLOAT32 ones are FLOAT64."""
    if value.element == TensorProto.FLOAT:
        return array.reshape(value.static_sizes)
    return as_elements(value, array.astype(dtype_of(value.element or 0), copy=False) if array.dtype.kind == "f" else array)
