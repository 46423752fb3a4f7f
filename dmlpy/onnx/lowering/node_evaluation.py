"""Computes a node whose inputs are known with DirectML's operators: on NumPy, or in FLOAT64 with their reference definitions."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from onnx import AttributeProto, TensorProto

from dmlpy.compiler import compile as compile_graph
from dmlpy.devices import device as find_device
from dmlpy.onnx.loading.elements import dtype_of, element_of_array
from dmlpy.onnx.loading.schemas import domain_of, schema_of
from dmlpy.onnx.loading.stored_weights import all_elements
from dmlpy.onnx.lowering.programs import GraphPart
from dmlpy.onnx.lowering.stages import to_elements, to_tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import NodeProto

    from dmlpy.devices import Device
    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.lowering.programs import Program

    _ComputedTensor: TypeAlias = "Array | tuple[Value, Array]"
    """An array with ONNX's type and sizes, or a tensor that a graph computed, with its value."""

_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})
_TYPES_IN = frozenset({"to", "dtype", "output_dtype", "stash_type"})
"""Attributes that are a type."""


def evaluate_program(program: Program, arrays: Mapping[str, Array]) -> dict[str, Array] | None:
    """The outputs of a program by name, computed on the NumPy device; None if a part is not DirectML's."""
    device = find_device("numpy")
    values: dict[str, _ComputedTensor] = dict(arrays)
    for part in program.parts:
        if not isinstance(part, GraphPart):
            return None
        values.update(_run_part(part, values, device))
    outputs = {name: values[value.name] if value.array is None else value.array for name, value in program.outputs.items()}
    return {name: to_elements(*output) if isinstance(output, tuple) else np.asarray(output) for name, output in outputs.items()}


def _run_part(part: GraphPart, values: Mapping[str, _ComputedTensor], device: Device) -> dict[str, tuple[Value, Array]]:
    """Runs a part and returns its tensors in the graph's layout, which later parts read directly."""
    prepared = compile_graph(part.graph, device).prepare(all_elements(part.owned), copy=True)
    inputs = {}
    for name, value in part.reads.items():
        tensor = values[name]
        inputs[name] = tensor[1] if isinstance(tensor, tuple) else to_tensor(value, tensor)
    stream = device.current_stream()
    outputs = {name: device.empty(prepared.outputs[name], stream) for name in part.writes}
    prepared.bind(inputs, outputs)(stream)
    return {name: (value, outputs[name]) for name, value in part.writes.items()}


class Float64Program:
    """A program that treats FLOAT64 tensors as FLOAT32, computed in FLOAT64, prepared for many runs. Thread-safe.

    Constants that rules write into FLOAT members are not rounded: those of ONNX's attributes are 32-bit floats anyway.

    Args:
        program: the program; all its parts are DirectML's.
    """

    def __init__(self, program: Program) -> None:
        from dmlpy.comparison import GraphDefinition

        self._outputs = program.outputs
        parts = [part for part in program.parts if isinstance(part, GraphPart)]
        assert len(parts) == len(program.parts)
        self._parts = [
            (
                [(name, value.tensor_sizes) for name, value in part.reads.items()],
                GraphDefinition(part.graph, wide_members=True),
                {name: _bits(array) for name, array in all_elements(part.owned).items()},
                [*part.writes.items()],
            )
            for part in parts
        ]

    @classmethod
    def of(cls, program: Program | None) -> Float64Program | None:
        """None if there is no program, or a part of it is not DirectML's."""
        is_whole = program is not None and all(isinstance(part, GraphPart) for part in program.parts)
        return cls(program) if program is not None and is_whole else None

    def __call__(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name."""
        values = dict(arrays)
        for reads, compute, owned, writes in self._parts:
            given = {name: _bits(values[name]).reshape(sizes) for name, sizes in reads}
            results = compute(given | owned)
            values.update({name: _widen(value, results[name]) for name, value in writes})
        return {name: values[value.name] if value.array is None else _as_float64(value.array) for name, value in self._outputs.items()}


def _as_float64(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def has_types(proto: NodeProto) -> bool:
    """Whether an attribute of a node is a type, or a tensor of one."""
    return any(item.name in _TYPES_IN or item.type == AttributeProto.TENSOR for item in proto.attribute)


def is_float64(proto: NodeProto, opsets: Mapping[str, int], arrays: Mapping[str, Array]) -> bool:
    """Whether a node with these inputs by name computes in FLOAT64: see `has_float64_results`."""
    return not has_types(proto) and has_float64_results(proto, opsets, {name: element_of_array(array) for name, array in arrays.items()})


def has_float64_results(proto: NodeProto, opsets: Mapping[str, int], elements: Mapping[str, int | None]) -> bool:
    """Whether a node computes in FLOAT64, by the types of its inputs by name.

    Some of its inputs are FLOAT64. Others may have fewer bits, such as the scales of Resize, if no result has their type.
    """
    floats = {name: element for name, element in elements.items() if element in _FLOATS}
    if TensorProto.DOUBLE not in floats.values() or set(floats.values()) == {TensorProto.DOUBLE}:
        return bool(floats) and TensorProto.DOUBLE in floats.values()
    domain = domain_of(proto.domain)
    schema = schema_of(proto.op_type, opsets.get(domain, 1), domain)
    if schema is None:
        return False
    narrow = {
        formal.type_str
        for formal, name in zip_longest(schema.inputs, proto.input, fillvalue=schema.inputs[-1])
        if isinstance(name, str) and floats.get(name, TensorProto.DOUBLE) != TensorProto.DOUBLE
    }
    return not any(formal.type_str in narrow for formal, name in zip(schema.outputs, proto.output, strict=False) if name)


def _bits(array: Array) -> Array:
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _widen(value: Value, array: Array) -> Array:
    """A graph's output for a value, with FLOAT32 as FLOAT64."""
    if value.element == TensorProto.FLOAT:
        return array.reshape(value.static_sizes)
    return to_elements(value, array.astype(dtype_of(value.element or 0), copy=False) if array.dtype.kind == "f" else array)
