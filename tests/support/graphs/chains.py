"""Graphs of element-wise nodes: those that people write by hand, and random ones of every functor, in every layout."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import dmlpy as dml
from dmlpy import x
from dmlpy.devices.cuda.elementwise.chain import element_step
from dmlpy.devices.cuda.plans import Target, plan_of
from dmlpy.graphs import Graph, GraphBuilder
from tests.support.cuda.instances.elementwise import engine_operators
from tests.support.cuda.plan_kernels import H100, RecordingLibrary
from tests.support.operators.operator_types import of_all_types


def gelu() -> Graph:
    """GELU of a sum, by parts."""
    v = x.input("data", [2, 3, 64]) + x.input("bias", [64])
    return (v * 0.5 * (1.0 + x.erf(v / 2.0**0.5))).graph()


def tanh_gelu() -> Graph:
    """The usual approximation of GELU, of halves."""
    v = x.input("data", [2, 3, 64], "FLOAT16")
    return (v * 0.5 * (1.0 + x.tanh((v + v * v * v * 0.044715) * 0.7978845608))).graph()


def layer_norm() -> Graph:
    """Layer normalization by parts: two sums lie between the chains."""
    v = x.input("data", [4, 96])
    mean = x.reduce(v, function="AVERAGE", axes=[1])
    centred = v - mean
    variance = x.reduce(centred * centred, function="AVERAGE", axes=[1])
    return (centred / x.sqrt(variance + 1e-5) * x.input("scale", [96]) + x.input("bias", [96])).graph()


def lstm_cell() -> Graph:
    """The step of an LSTM behind its two products."""
    batch, hidden = 3, 32
    names = ("i", "f", "g", "o")
    inputs, states = x.input("inputs", [batch, 4 * hidden]), x.input("states", [batch, 4 * hidden])
    bias, cell = x.input("bias", [4 * hidden]), x.input("cell", [batch, hidden])
    gates = {}
    for at, name in enumerate(names):
        part = slice(at * hidden, (at + 1) * hidden)
        gates[name] = inputs[:, part] + states[:, part] + bias[part]
    cell = x.activation_sigmoid(gates["f"]) * cell + x.activation_sigmoid(gates["i"]) * x.activation_tanh(gates["g"])
    hidden_state = x.activation_sigmoid(gates["o"]) * x.activation_tanh(cell)
    return x.graph({"cell_out": cell, "hidden": hidden_state})


def choice() -> Graph:
    """A choice moves bits, between numbers of several types."""
    a, b = x.input("a", [3, 5, 40]), x.input("b", [3, 5, 40], "FLOAT16")
    chosen = x.if_(x.cast(a, output_data_type="FLOAT16") > b, b * 2.0, b)
    return (x.cast(chosen, output_data_type="FLOAT32") * a + 1.0).graph()


def across() -> Graph:
    """One input lies across the result."""
    return ((x.input("a", [2, 40, 24]).transpose(0, 2, 1) + x.input("b", [2, 24, 40])) * x.input("c", [24, 1])).graph()


TYPICAL: Mapping[str, Callable[[], Graph]] = {
    "lstm cell": lstm_cell,
    "choice": choice,
    "across": across,
    "gelu": gelu,
    "tanh gelu": tanh_gelu,
    "layer norm": layer_norm,
}


@cache
def element_wise() -> Mapping[str, tuple[dml.OperatorDesc, ...]]:
    """Descs of each operator that can be part of a chain, one for each of its types, by the operator's name."""
    target = Target(RecordingLibrary(H100))
    found = {}
    for kind in engine_operators():
        descs = tuple(desc for desc in of_all_types(kind) if element_step(desc, plan_of(desc, target)) is not None)
        if descs:
            found[kind.short_name()] = descs
    return found


class _Drawer:
    """Draws one graph: each node reads the last one's result if it takes its type."""

    def __init__(self, seed: int, names: tuple[str, ...], nodes: int) -> None:
        self.draw = random.Random(seed)
        self.g = GraphBuilder(f"chain {seed}")
        self.sizes = [self.draw.choice([1, 2]), self.draw.choice([1, 3]), self.draw.choice([2, 5, 16, 20]), self.draw.choice([4, 7, 32])]
        self.values: list[Any] = []
        self.inputs = 0
        descs = [desc for name in names for desc in element_wise()[name]]
        for number in range(nodes):
            last = self.values[-1].tensor.data_type if self.values else None
            fitting = [desc for desc in descs if last is None or last in _input_types(desc)]
            self.add(f"n{number}", self.draw.choice(fitting or descs))

    def add(self, name: str, desc: dml.OperatorDesc) -> None:
        members: dict[str, Any] = {}
        for slot in desc.slots():
            if slot.tensor is not None and slot.index is None:
                output = slot.field.marker.output
                members[slot.field.name] = self.tensor(slot.tensor.data_type) if output else self.read(slot.tensor.data_type)
        made = self.g.add(type(desc), name, **{name: getattr(desc, name) for name in desc.attribute_names()}, **members)
        self.values.append(made)

    def tensor(self, data_type: Any) -> dml.TensorDesc:
        """The desc of a result, now and then transposed or with gaps."""
        kind, (_, channels, rows, columns) = self.draw.random(), self.sizes
        if kind < 0.6:
            return dml.TensorDesc(data_type=data_type, sizes=self.sizes)
        if kind < 0.8:
            strides = [channels * rows * columns, 1, columns * channels, channels]
        else:
            pitch = columns + 3
            strides = [channels * rows * pitch, rows * pitch, pitch, 1]
        return dml.TensorDesc(data_type=data_type, sizes=self.sizes, strides=strides)

    def read(self, data_type: Any) -> Any:
        alike = [value for value in self.values if value.tensor.data_type is data_type]
        if alike and self.draw.random() < 0.75:
            return self.draw.choice(alike[-2:])
        kind, tensor = self.draw.random(), self.tensor(data_type)
        if kind < 0.3:  # some dimensions repeat
            repeated = [size > 1 and self.draw.random() < 0.5 for size in self.sizes]
            strides = [0 if axis else stride for axis, stride in zip(repeated, tensor.element_strides, strict=True)]
            tensor = dml.TensorDesc(data_type=data_type, sizes=self.sizes, strides=strides)
        self.inputs += 1
        return self.g.input(f"in{self.inputs}", tensor)

    def graph(self) -> Graph:
        """The graph, with what nobody reads as its outputs."""
        read = {(edge.from_node_index, edge.from_node_output_index) for edge in self.g.build().intermediate_edges}
        for number, value in enumerate(value for value in self.values if (value.node, value.index) not in read):
            self.g.output(f"out{number}", value)
        return self.g.build()


def _input_types(desc: dml.OperatorDesc) -> set[Any]:
    return {slot.tensor.data_type for slot in desc.input_slots() if slot.tensor is not None}


def chain_graph(seed: int, nodes: int, names: tuple[str, ...] | None = None) -> Graph:
    """A random graph of element-wise nodes of these operators, by default of all."""
    graph = _Drawer(seed, tuple(element_wise()) if names is None else names, nodes).graph()
    problems = graph.check(lenient=True)
    assert not problems, problems
    return graph


def chain_around(desc: dml.OperatorDesc) -> Graph:
    """An operator between two others: one that copies what it reads first, and one that converts its result."""
    g = GraphBuilder("around")
    members: dict[str, Any] = {}
    for slot in desc.slots():
        if slot.tensor is None or slot.field.marker.output:
            continue
        value = g.input(slot.place, dml.TensorDesc(data_type=slot.tensor.data_type, sizes=slot.tensor.sizes))
        members[slot.field.name] = g.add(dml.CastDesc, f"{slot.place} before", input_tensor=value, output_tensor=value.tensor)
    [output] = desc.output_slots()
    assert output.tensor is not None
    packed = dml.TensorDesc(data_type=output.tensor.data_type, sizes=output.tensor.sizes)
    attributes = {name: getattr(desc, name) for name in desc.attribute_names()}
    result = g.add(type(desc), "operator", **members, **{output.field.name: packed}, **attributes)
    floats = dml.TensorDesc(data_type="FLOAT32", sizes=packed.sizes)
    g.output("y", g.add(dml.CastDesc, "after", input_tensor=result, output_tensor=floats))
    return g.build()
