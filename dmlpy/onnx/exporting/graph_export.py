"""`export`: writes a graph of DirectML's operators as an ONNX model, so that other programs can run it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from dmlpy.description.arrays import refuse_mask
from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.devices.graphs.compiled import CompiledGraph
from dmlpy.devices.graphs.ir import GraphIR
from dmlpy.graphs import Graph
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import CompileError, DescError, Problem, only_errors
from dmlpy.onnx.exporting.nodes import Node
from dmlpy.onnx.exporting.rules import BEYOND, UNSAID, rules
from dmlpy.onnx.exporting.rules.activations import export_activation
from dmlpy.onnx.exporting.values import OPSET, Refusal, Value, Writer
from dmlpy.onnx.exporting.views import apply_constant_view, apply_view, once
from dmlpy.onnx.loading.elements import dtype_of, element_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.graphs.ir import Source

_REMEDIES = {
    "Expression": "make a graph of it: expression.graph()",
    "Sequential": "make a graph of it: model.to_graph()",
    "Model": "it is an ONNX model already: the one that onnx.load read",
    "CompiledModel": "it is an ONNX model already: the one that onnx.load read",
    "CompiledOperator": "add its desc to a GraphBuilder",
}
"""The remedy for an object of another class."""


def export(graph: Graph | CompiledGraph, constants: Mapping[str, Any] | None = None) -> ModelProto:
    """Exports a graph as an ONNX model with the same inputs and outputs by name.

    The model computes what the graph computes. An operator without an equivalent in ONNX becomes several nodes; a fused activation becomes
    a node after its operator; strided views become Reshape, Slice, Transpose, Expand, or Gather.

    Args:
        graph: a valid graph; of a compiled one, the graph that was compiled.
        constants: the elements of inputs to store in the model, such as weights, by name: arrays of the described sizes and types,
            or the bytes of the buffers that they are bound to. The model does not have these inputs.

    Returns:
        ModelProto: of opset 21, with every output's sizes and type. Booleans are UINT8, as in the graph.

    Raises:
        DescError: `graph` is not a graph.
        CompileError: the graph breaks rules, a constant does not fit, or ONNX cannot express a node or a view; all problems at once.
    """
    graph = graph.graph if isinstance(graph, CompiledGraph) else graph
    if not isinstance(graph, Graph):
        remedy = "add it to a GraphBuilder" if isinstance(graph, OperatorDesc) else _REMEDIES.get(type(graph).__name__)
        raise DescError("onnx.export", [Problem("field.form", "graph", brief(graph), "a Graph or a CompiledGraph", remedy=remedy)])
    if problems := only_errors(graph.check(None, lenient=True)):
        raise CompileError("onnx.export", problems)
    return _Export(GraphIR.of(graph), constants or {}).model()


class _Export:
    def __init__(self, ir: GraphIR, constants: Mapping[str, Any]) -> None:
        self.ir = ir
        self.constants = constants
        self.writer = Writer([*ir.inputs, *ir.outputs])
        self.problems: list[Problem] = []
        self.values: dict[Source, Value] = {}
        self.written: dict[Source, TensorDesc] = {}

    def model(self) -> ModelProto:
        """The model."""
        inputs = []
        self._refuse_unknown()
        for name, (source, desc) in self.ir.inputs.items():
            element = element_of(desc.data_type)
            self.values[source], self.written[source] = Value(self.writer, name, element), desc
            if name not in self.constants:
                inputs.append(helper.make_tensor_value_info(name, element, desc.sizes))
            elif (array := self._store_constants(name, desc)) is not None:
                self.written[source] = desc.replace(sizes=array.shape)
                self.writer.constants[name] = array.astype(dtype_of(element), copy=False)
        for index in self.ir.order():
            self._say(index, self.ir.operators[index])
        named: dict[str, Value] = {}
        for name, source in self.ir.outputs.items():
            try:
                named[name] = self._seen(source, self.ir.bound_outputs[name])
            except Refusal as refusal:
                self.problems.append(replace(refusal.problem, path=f"output {name}"))
            except KeyError:
                continue  # its node was rejected
        if self.problems:
            raise CompileError("onnx.export", self.problems)
        bound = self.ir.bound_outputs
        outputs = [helper.make_tensor_value_info(name, element_of(bound[name].data_type), bound[name].sizes) for name in named]
        self._name_outputs(named)
        nodes = self.writer.prune([*named])
        initializers = [numpy_helper.from_array(array, name) for name, array in self.writer.constants.items()]
        graph = helper.make_graph(nodes, self.ir.graph.name or "graph", inputs, outputs, initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        model: ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))
        model.producer_name = "dmlpy"
        return model

    def _refuse_unknown(self) -> None:
        for name in self.constants:
            if name not in self.ir.inputs:
                inputs = [*self.ir.inputs]
                problem = Problem("onnx.export", f"constants[{name!r}]", "no input of the graph", f"one of {', '.join(inputs)}")
                self.problems.append(replace(problem, remedy=did_you_mean(name, inputs)))

    def _store_constants(self, name: str, desc: TensorDesc) -> np.ndarray[Any, Any] | None:
        """Stores an input's elements in the model, with size 1 along the dimensions that its strides repeat."""
        constant = self.constants[name]
        if isinstance(constant, bytes):
            if len(constant) >= desc.extent_in_bytes:
                return apply_constant_view(constant, desc)
            actual, expected = f"{len(constant)} bytes", f"at least {desc.extent_in_bytes}"
        else:
            try:
                refuse_mask(constant)
                array = np.asarray(constant)
            except Exception as error:  # other libraries' code
                why = (f"{type(error).__name__}: {error}",)
                expected = f"{desc.data_type} {list(desc.sizes)}"
                self.problems.append(Problem("onnx.export", f"constants[{name!r}]", brief(constant), expected, why))
                return None
            if array.shape == desc.sizes and array.dtype == dtype_of(element_of(desc.data_type)):
                return np.ascontiguousarray(array[tuple(slice(size) for size in once(desc))])
            actual, expected = f"{array.dtype} {list(array.shape)}", f"{desc.data_type} {list(desc.sizes)}"
        self.problems.append(Problem("onnx.export", f"constants[{name!r}]", actual, expected))
        return None

    def _name_outputs(self, named: Mapping[str, Value]) -> None:
        """Names the outputs; inputs, constants, and values that are several outputs are copied by Identity."""
        node_outputs = {output for node in self.writer.nodes for output in node.output}
        renamed: dict[str, str] = {}
        for name, value in named.items():
            if value.name in node_outputs and value.name not in renamed:
                renamed[value.name] = name
        for node in self.writer.nodes:
            for names in (node.input, node.output):
                names[:] = [renamed.get(name, name) for name in names]
        for name, value in named.items():
            if renamed.get(value.name) != name:
                self.writer.nodes.append(helper.make_node("Identity", [renamed.get(value.name, value.name)], [name], name=name))

    def _say(self, index: int, desc: OperatorDesc) -> None:
        place = f"nodes[{index}]"
        rule = rules().get(desc.short_name())
        if desc.is_extension or rule is None:
            why = BEYOND if desc.is_extension else UNSAID[desc.short_name()]
            masked = getattr(desc, "step_mask_tensor", None) is not None
            remedy = (
                "where masked steps end their sequences, lengths express them: Sequential.to_graph(right_padded=True)" if masked else None
            )
            self.problems.append(Problem("onnx.export", place, desc.short_name(), "an operator with an equivalent in ONNX", (why,), remedy))
            return
        slots = list(desc.input_slots())
        if any(slot.tensor is not None and not self._is_known(self.ir.reads[index, slot.place]) for slot in slots):
            return  # a node before it was rejected
        self.writer.label = self.ir.graph.nodes[index].name or f"{desc.short_name().lower()}_{index}"

        def read(use: str) -> Value:
            return self._once(self.ir.reads[index, use], node.tensor(use), use)

        def read_constant(use: str) -> np.ndarray[Any, Any] | None:
            constant = self.ir.constant(self.ir.reads[index, use])
            return None if constant is None else apply_constant_view(constant.data, node.tensor(use))

        node = Node(desc, self.writer, read, read_constant, wide=rule.wide)
        try:
            self._store(index, desc, node, rule.write(node))
        except Refusal as refusal:
            problem = refusal.problem
            where = f"{place}.{problem.path}" if problem.path else place
            self.problems.append(replace(problem, path=where, why=(f"of {desc.short_name()}", *problem.why)))

    def _store(self, index: int, desc: OperatorDesc, node: Node, results: Value | Mapping[str, Value]) -> None:
        """Stores a node's outputs in the described types."""
        described = [(at, slot.place, slot.tensor) for at, slot in enumerate(desc.output_slots()) if slot.tensor is not None]
        by_place = {described[0][1]: results} if isinstance(results, Value) else dict(results)
        if (fused := getattr(desc, "fused_activation", None)) is not None:
            by_place["output_tensor"] = export_activation(fused, by_place["output_tensor"], len(node.sizes("output_tensor")))
        for at, place, tensor in described:
            self.values[index, at], self.written[index, at] = by_place[place].cast(tensor.data_type), tensor

    def _is_known(self, source: Source) -> bool:
        return source in self.values or self.ir.constant(source) is not None

    def _once(self, source: Source, seen: TensorDesc, use: str) -> Value:
        if source not in self.values and (node := self.ir.constant(source)) is not None:
            array = apply_constant_view(node.data, seen)
            return self.writer.constant(array.astype(dtype_of(element_of(seen.data_type)), copy=False))
        try:
            return apply_view(self.values[source], self.written[source], seen)
        except Refusal as refusal:
            raise Refusal(replace(refusal.problem, path=use)) from None

    def _seen(self, source: Source, seen: TensorDesc) -> Value:
        """A value in the layout of a graph's output."""
        if not self._is_known(source):
            raise KeyError(source)
        value = self._once(source, seen, "")
        return value if tuple(once(seen)) == seen.sizes else value.expand(seen.sizes)
