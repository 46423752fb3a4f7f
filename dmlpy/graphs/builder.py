"""`GraphBuilder`: builds a graph in Python without counting indices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.member_forms import brief
from dmlpy.description.naming import plural
from dmlpy.description.tensors import TensorDesc
from dmlpy.graphs.graph import Graph
from dmlpy.graphs.nodes import ConstantNode, InputEdge, IntermediateEdge, Node, OperatorNode, OutputEdge
from dmlpy.validation.problems import DescError, Problem


@dataclass(frozen=True)
class Value:
    """The tensor of an edge in a graph under construction: an input of the graph, or an output of a node.

    Attributes:
        tensor: the tensor's desc.
        node: the node that writes it; None of a graph input.
        index: which output of the node, or which input of the graph.
    """

    tensor: TensorDesc
    node: int | None
    index: int
    builder: GraphBuilder = field(repr=False)

    def viewed(self, tensor: TensorDesc) -> Value:
        """Views the same bytes under another desc: a reshape or a transposition, for which DirectML has no operator."""
        return replace(self, tensor=_tensor("tensor", tensor))


class GraphBuilder:
    """Builds a `Graph` operator by operator.

    g = dml.GraphBuilder()
    x = g.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 3]))
    y = g.add(dml.ActivationEluDesc, "elu", input_tensor=x, alpha=0.5)
    g.output("y", g.add(dml.ActivationReluDesc, "relu", input_tensor=y))
    graph = g.build()
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._nodes: list[Node] = []
        self._inputs: list[str] = []
        self._outputs: list[str] = []
        self._input_edges: list[InputEdge] = []
        self._output_edges: list[OutputEdge] = []
        self._links: list[IntermediateEdge] = []

    def input(self, name: str, tensor: TensorDesc) -> Value:
        """Adds the next input of the graph. With the flag OWNED_BY_DML it is bound at initialisation."""
        described = _tensor(name, tensor)
        self._inputs.append(name)
        return Value(described, None, len(self._inputs) - 1, self)

    def constant(self, name: str, array: Any, tensor: TensorDesc | None = None) -> Value:
        """Adds a constant node of an array's bytes; `tensor` describes them if the array's type and sizes do not."""
        if not callable(getattr(array, "tobytes", None)):
            raise _refused("field.form", name, brief(array), "an array", "numpy.asarray makes one")
        described = TensorDesc.of(array) if tensor is None else _tensor(name, tensor)
        self._nodes.append(ConstantNode(data=_padded(array), name=name))
        return Value(described, len(self._nodes) - 1, 0, self)

    def add(
        self, operator: type[OperatorDesc] | OperatorDesc, name: str | None = None, /, *, outputs: Iterable[str] = (), **members: Any
    ) -> Any:
        """Adds an operator.

        Args:
            operator: the desc's class, or a desc that is whole but for the members that follow.
            name: the node's name.
            outputs: the outputs to infer, as `with_outputs` does: in a graph each one must be read. If none is named and no output's
                tensor is among the members, it is all of them.
            members: the desc's members. A `Value` stands for a tensor and is joined to it by an edge; so do those in a sequence, for an
                array of tensors.

        Returns:
            The output's `Value`, or a tuple of them, in the struct's order, where the operator has several.

        Raises:
            DescError: as the desc's constructor and `with_outputs`, or a value of another builder, or one where no input is.
        """
        kind = operator if isinstance(operator, type) else type(operator)
        if not issubclass(kind, OperatorDesc):
            raise _refused("field.form", "operator", brief(operator), "an operator's desc or its class, like RNNDesc")
        listed = {item.name: item.listed for item in kind.inputs()}
        sources: dict[str, Value] = {}
        tensors: dict[str, Any] = {}
        for spelling, given in members.items():
            member = kind.member_named(spelling) or spelling
            _check_values(spelling, given, listed.get(member), known=member in kind.model_fields)
            if isinstance(given, Value):
                sources[member] = self._own(given)
            elif isinstance(given, list | tuple) and any(isinstance(item, Value) for item in given):
                sources |= {f"{member}[{index}]": self._own(item) for index, item in enumerate(given) if isinstance(item, Value)}
                given = [item.tensor if isinstance(item, Value) else item for item in given]
            tensors[spelling] = given.tensor if isinstance(given, Value) else given
        desc = operator(**tensors) if isinstance(operator, type) else operator.replace(**tensors)
        if outputs or not any(slot.tensor is not None for slot in desc.output_slots()):
            desc = desc.with_outputs(*outputs)
        node = len(self._nodes)
        self._nodes.append(OperatorNode(operator=desc, name=name))
        for index, slot in enumerate(desc.input_slots()):
            if slot.place in sources:
                self._join(sources[slot.place], node, index)
        slots = enumerate(desc.output_slots())
        values = tuple(Value(slot.tensor, node, index, self) for index, slot in slots if slot.tensor is not None)
        return values[0] if len(values) == 1 else values

    def output(self, name: str, value: Value) -> None:
        """Makes a value the next output of the graph."""
        node = self._own(value).node
        if node is None:
            remedy = "ELEMENT_WISE_IDENTITY copies an input to an output"
            raise DescError("GraphBuilder.output", [Problem("graph.output", name, "a graph input", "an output of a node", remedy=remedy)])
        edge = OutputEdge(from_node_index=node, from_node_output_index=value.index, graph_output_index=len(self._outputs))
        self._output_edges.append(edge)
        self._outputs.append(name)

    def build(self) -> Graph:
        """Builds the graph from what was added so far, unchecked: its `check` finds broken rules."""
        return Graph(
            name=self._name,
            input_count=len(self._inputs),
            output_count=len(self._outputs),
            nodes=self._nodes,
            input_edges=self._input_edges,
            output_edges=self._output_edges,
            intermediate_edges=self._links,
            input_names=self._inputs,
            output_names=self._outputs,
        )

    def _own(self, value: Any) -> Value:
        if isinstance(value, Value) and value.builder is self:
            return value
        if _values(value):
            raise _several("value", value)
        found = "of another builder" if isinstance(value, Value) else brief(value)
        raise _refused("graph.value", "value", found, "a value of this builder")

    def _join(self, source: Value, node: int, index: int) -> None:
        if source.node is None:
            self._input_edges.append(InputEdge(graph_input_index=source.index, to_node_index=node, to_node_input_index=index))
        else:
            link = IntermediateEdge(
                from_node_index=source.node, from_node_output_index=source.index, to_node_index=node, to_node_input_index=index
            )
            self._links.append(link)


def _refused(code: str, path: str, found: str, expected: str, remedy: str | None = None) -> DescError:
    return DescError("GraphBuilder", [Problem(code, path, found, expected, remedy=remedy)])


def _several(path: str, given: Any) -> DescError:
    return _refused(
        "graph.value", path, plural(len(given), "value"), "one value", "an operator of several outputs gives a tuple: choose one"
    )


def _values(given: Any) -> bool:
    return isinstance(given, list | tuple) and any(isinstance(item, Value) for item in given)


def _check_values(spelling: str, given: Any, listed: bool | None, *, known: bool) -> None:
    """Raises if a member that takes no values holds some; `listed` is None for a member that is not an input."""
    if not known or not (isinstance(given, Value) or _values(given)):
        return
    if listed is None:
        raise _refused("graph.value", spelling, "a value of the graph", "what the desc's member holds: values are for inputs")
    if not listed and not isinstance(given, Value):
        raise _several(spelling, given)


def _tensor(path: str, given: Any) -> TensorDesc:
    if isinstance(given, TensorDesc):
        return given
    remedy = "describe the array with TensorDesc.of(array)" if hasattr(given, "shape") else None
    raise _refused("field.form", path, brief(given), "a TensorDesc", remedy)


def _padded(array: Any) -> bytes:
    """The bytes of an array, padded to the multiple of 4 that its tensor takes."""
    data: bytes = array.tobytes()
    return data + bytes(-len(data) % 4)
