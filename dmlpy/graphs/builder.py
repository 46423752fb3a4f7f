"""`GraphBuilder`: builds a graph in Python without counting indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType
from dmlpy.description.flags import check_flags
from dmlpy.description.int4 import int4_type, pack_int4
from dmlpy.description.registry import operator_class
from dmlpy.description.tensors import TensorDesc, covers
from dmlpy.graphs import views
from dmlpy.graphs.graph import Graph
from dmlpy.graphs.nodes import ConstantNode, InputEdge, IntermediateEdge, Node, OperatorNode, OutputEdge
from dmlpy.graphs.pruning import prune_nodes
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from dmlpy.description.enums import DataType


@dataclass(frozen=True)
class Value(views.TensorViews):
    """The tensor of an edge in a graph under construction: an input of the graph, or an output of a node.

    `reshape`, `transpose`, `broadcast`, `with_leading_ones` and `slice` view its memory with other sizes and strides.

    Attributes:
        tensor: the tensor's desc.
        node: the node that writes it; None for a graph input.
        index: which output of the node, or which input of the graph.
    """

    tensor: TensorDesc
    node: int | None
    index: int
    builder: GraphBuilder = field(repr=False)

    def viewed(self, tensor: TensorDesc) -> Value:
        """Views the same bytes under another desc, which may also have another data type."""
        return Value(_tensor("tensor", tensor), self.node, self.index, self.builder)

    def _copied_by(self, nodes: Iterable[views.CopyNode]) -> Value:
        """The output of the last of some nodes, of which each reads the one before."""
        value = self
        for node in nodes:
            scales = [self.builder.constant("one", array) for array in node.quantization_tensors]
            given = {**node.members, **({"quantization_tensors": scales} if scales else {})}
            outputs = {} if node.data_type is None else {"output_tensor": node.data_type}
            value = self.builder.add(operator_class(node.operator), outputs=outputs, input_tensor=value, **given)
        return value


@foreign_members
class GraphBuilder:
    """Builds a `Graph` operator by operator.

    g = dml.GraphBuilder()
    x = g.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 3]))
    y = g.add(dml.ActivationEluDesc, "elu", input_tensor=x, alpha=0.5)
    g.output("y", g.add(dml.ActivationReluDesc, "relu", input_tensor=y))
    graph = g.build()

    Attributes:
        origin: where the nodes that are added next come from, for messages: `"at net.py:12"`, or `"from ONNX node 'conv1'"`.
    """

    def __init__(self, name: str | None = None) -> None:
        self.origin = ""
        self._name = name
        self._nodes: list[Node] = []
        self._origins: list[str] = []
        self._inputs: list[tuple[str, TensorDesc]] = []
        self._outputs: list[tuple[str, TensorDesc]] = []
        self._input_edges: list[InputEdge] = []
        self._output_edges: list[OutputEdge] = []
        self._given: set[tuple[int, int]] = set()
        """The outputs of nodes that are outputs of the graph: node and index."""
        self._links: list[IntermediateEdge] = []

    def __repr__(self) -> str:
        counts = ((len(self._inputs), "input"), (len(self._nodes), "node"), (len(self._outputs), "output"))
        return f"<graph builder{f' {self._name!r}' if self._name else ''}: {', '.join(plural(count, what) for count, what in counts)}>"

    def input(self, name: str, tensor: TensorDesc) -> Value:
        """Adds the next input of the graph. With the flag OWNED_BY_DML it is bound at initialisation.

        The array that is bound has the sizes and strides given here, however the nodes view it.
        """
        described = _tensor(name, tensor)
        self._inputs.append((name, described))
        return Value(described, None, len(self._inputs) - 1, self)

    def constant(self, name: str, array: Any, tensor: TensorDesc | None = None) -> Value:
        """Adds a constant node of an array's bytes.

        Args:
            name: the node's name.
            array: its bytes are copied. Without `tensor`, bool becomes UINT8, and `int4` and `uint4` of `ml_dtypes` are packed.
            tensor: describes the bytes if the array's type and sizes do not.

        Raises:
            DescError: it is no array, DirectML has no type of its elements, or `tensor` is no desc.
        """
        if not callable(_attribute(array, "tobytes")):
            path = name if isinstance(name, str) else "array"
            raise _graph_error("field.form", path, brief(array), "an array", "numpy.asarray makes one")
        if tensor is None:
            array, described = constant_of(array)
        else:
            described = _tensor(name, tensor)
        return Value(described, self._append(ConstantNode(data=_pad(array), name=name)), 0, self)

    def add(
        self,
        operator: type[OperatorDesc] | OperatorDesc,
        name: str | None = None,
        /,
        *,
        outputs: Iterable[str] | Mapping[str, DataType | str | int | None] = (),
        **members: Any,
    ) -> Any:
        """Adds an operator.

        Args:
            operator: the desc's class, or a desc that is complete except for the members that follow.
            name: the node's name.
            outputs: the outputs to infer, as `with_outputs` does: in a graph at least one of them must be read. If none is named and no
                output's tensor is among the members, it is all of them. A mapping gives their data types too, where the operator has a
                choice; None stands for the type that is inferred.
            members: the desc's members. A `Value` stands for a tensor and is joined to it by an edge; so do those in a sequence, for an
                array of tensors.

        Returns:
            The output's `Value`; a tuple of them, in the struct's order, where the operator has several or its struct an array of them.

        Raises:
            DescError: as the desc's constructor and `with_outputs`, or a value of another builder, or one where no input is.
        """
        kind = operator if isinstance(operator, type) else type(operator)
        if not issubclass(kind, OperatorDesc):
            raise _graph_error("field.form", "operator", brief(operator), "an operator's desc or its class, like RNNDesc")
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
        desc = operator(**tensors) if isinstance(operator, type) else _with_members(operator, tensors)
        if outputs or not any(slot.tensor is not None for slot in desc.output_slots()):
            desc = desc.with_outputs(*outputs, data_types=outputs if isinstance(outputs, Mapping) else {})
        node = self._append(OperatorNode(operator=desc, name=name))
        for index, slot in enumerate(desc.input_slots()):
            if slot.place in sources:
                self._join(sources[slot.place], node, index)
        slots = enumerate(desc.output_slots())
        values = tuple(Value(slot.tensor, node, index, self) for index, slot in slots if slot.tensor is not None)
        return values[0] if len(values) == 1 and not any(item.listed for item in kind.outputs()) else values

    def output(self, name: str, value: Value) -> None:
        """Makes a value the next output of the graph.

        An ELEMENT_WISE_IDENTITY node, or of elements of 4 bits DEQUANTIZE and QUANTIZE, copies what DirectML gives no edge to: a graph
        input, a constant, a value that is an output already, and a view in which the elements are not packed.
        """
        source = self._own(value)
        if not self._is_output_of_its_own(source):
            source = self._name_value(source._copied_by(views.copying_nodes(source.tensor)), name)
        assert source.node is not None
        self._given.add((source.node, source.index))
        self._output_edges.append(
            OutputEdge(from_node_index=source.node, from_node_output_index=source.index, graph_output_index=len(self._outputs))
        )
        self._outputs.append((name, source.tensor))

    @check_flags
    def build(self, *, prune: bool = False) -> Graph:
        """Builds the graph from what was added so far, unchecked: its `check` finds broken rules.

        Args:
            prune: leaves out the nodes that no output needs and the optional outputs that nothing reads. The inputs stay.
        """
        graph = Graph(
            name=self._name,
            input_count=len(self._inputs),
            output_count=len(self._outputs),
            nodes=self._nodes,
            input_edges=self._input_edges,
            output_edges=self._output_edges,
            intermediate_edges=self._links,
            input_names=[name for name, _ in self._inputs],
            output_names=[name for name, _ in self._outputs],
        )
        if declared := self._declared_tensors(graph):
            graph = graph.replace(**declared)
        graph = graph.with_origins(self._origins) if any(self._origins) else graph
        return prune_nodes(graph) if prune else graph

    def _declared_tensors(self, graph: Graph) -> dict[str, list[TensorDesc]]:
        """The layouts of the graph's inputs and outputs, where the nodes' differ."""
        inputs, outputs = [tensor for _, tensor in self._inputs], [tensor for _, tensor in self._outputs]
        read: dict[int, list[TensorDesc | None]] = {}
        for edge in self._input_edges:
            slot = graph.nodes[edge.to_node_index].input_slots()[edge.to_node_input_index]
            read.setdefault(edge.graph_input_index, []).append(slot.tensor)
        same = all(tensor == inputs[index] for index, tensors in read.items() for tensor in tensors)
        ends = [(edge.from_node_index, edge.from_node_output_index) for edge in self._output_edges]
        written = [graph.nodes[node].output_slots()[index].tensor for node, index in ends]
        return ({} if same else {"input_tensors": inputs}) | ({} if outputs == written else {"output_tensors": outputs})

    def _append(self, node: Node) -> int:
        self._nodes.append(node)
        self._origins.append(self.origin)
        return len(self._nodes) - 1

    def _name_value(self, value: Value, name: str) -> Value:
        """The value, whose node gets a name."""
        assert value.node is not None
        node = self._nodes[value.node]
        assert isinstance(node, OperatorNode)
        self._nodes[value.node] = OperatorNode(operator=node.operator, name=name)
        return value

    def _is_output_of_its_own(self, value: Value) -> bool:
        """Whether an output edge may lead from the value's node, without another one there, and the caller can bind the view's layout."""
        if value.node is None or isinstance(self._nodes[value.node], ConstantNode):
            return False
        if (value.node, value.index) in self._given:
            return False
        written = self._nodes[value.node].output_slots()[value.index].tensor
        if written is None or value.tensor == written:
            return True
        same = value.tensor.extent_in_bytes == written.extent_in_bytes and value.tensor.data_type is written.data_type
        return same and value.tensor.is_packed and covers(written, value.tensor)

    def _own(self, value: Any) -> Value:
        if isinstance(value, Value) and value.builder is self:
            return value
        if _values(value):
            raise _several("value", value)
        found = "of another builder" if isinstance(value, Value) else brief(value)
        raise _graph_error("graph.value", "value", found, "a value of this builder")

    def _join(self, source: Value, node: int, index: int) -> None:
        if source.node is None:
            self._input_edges.append(InputEdge(graph_input_index=source.index, to_node_index=node, to_node_input_index=index))
        else:
            link = IntermediateEdge(
                from_node_index=source.node, from_node_output_index=source.index, to_node_index=node, to_node_input_index=index
            )
            self._links.append(link)


def _with_members(desc: OperatorDesc, members: Mapping[str, Any]) -> OperatorDesc:
    """The desc with some members changed; itself where it has them already, as that of an expression."""
    tensors = {field.name: getattr(desc, field.name) for field in desc.tensor_fields()}
    same = all(name in tensors and _is_tensor(given, tensors[name]) for name, given in members.items())
    return desc if same else desc.replace(**members)


def _is_tensor(given: Any, known: TensorDesc | tuple[TensorDesc, ...] | None) -> bool:
    """Whether a member is given unchanged."""
    if isinstance(known, tuple):
        return isinstance(given, list | tuple) and len(given) == len(known) and all(map(_is_tensor, given, known))
    return given is None if known is None else isinstance(given, TensorDesc) and given == known


def _graph_error(code: str, path: str, found: str, expected: str, remedy: str | None = None) -> DescError:
    return DescError("GraphBuilder", [Problem(code, path, found, expected, remedy=remedy)])


def _several(path: str, given: Any) -> DescError:
    return _graph_error(
        "graph.value", path, plural(len(given), "value"), "one value", "an operator of several outputs gives a tuple: choose one"
    )


def _values(given: Any) -> bool:
    return isinstance(given, list | tuple) and any(isinstance(item, Value) for item in given)


def _check_values(spelling: str, given: Any, listed: bool | None, *, known: bool) -> None:
    """Raises if a member that takes no values holds some; `listed` is None for a member that is not an input."""
    if known and listed is not None and _attribute(given, "shape") is not None:
        remedy = "builder.constant(name, array) makes a value of it, builder.input(name, TensorDesc.of(array)) one that is bound"
        raise _graph_error("field.form", spelling, brief(given), "a value of the graph", remedy)
    if not known or not (isinstance(given, Value) or _values(given)):
        return
    if listed is None:
        raise _graph_error("graph.value", spelling, "a value of the graph", "what the desc's member holds: values are for inputs")
    if not listed and not isinstance(given, Value):
        raise _several(spelling, given)


def _tensor(path: str, given: Any) -> TensorDesc:
    if isinstance(given, TensorDesc):
        return given
    remedy = "describe the array with TensorDesc.of(array)" if _attribute(given, "shape") is not None else None
    raise _graph_error("field.form", path if isinstance(path, str) else "tensor", brief(given), "a TensorDesc", remedy)


def _attribute(value: Any, name: str) -> Any:
    """An attribute of a caller's value; None if there is none, or if asking raises."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def constant_of(array: Any) -> tuple[Any, TensorDesc]:
    """An array with the bytes that a tensor has, and its desc: bool is UINT8, and elements of 4 bits are packed."""
    if isinstance(array, np.ndarray | np.generic):
        array = np.ascontiguousarray(array)  # of a scalar an array of one element
        if array.dtype == np.bool_:
            array = array.view(np.uint8)
        elif (data_type := int4_type(array.dtype)) is not None:
            return pack_int4(array), TensorDesc(data_type=data_type, sizes=array.shape)
        with suppress(TypeError):  # which `of` reports
            return array, TensorDesc(data_type=DataType.of(array.dtype), sizes=array.shape)
    return array, TensorDesc.of(array).replace(strides=None)


def _pad(array: Any) -> bytes:
    """The bytes of an array, padded to the multiple of 4 that its tensor takes: not copied where they are a whole object of bytes."""
    whole = isinstance(array, memoryview) and isinstance(array.obj, bytes) and array.nbytes == len(array.obj)
    data: bytes = array.obj if whole else array.tobytes()
    return data + bytes(-len(data) % 4) if len(data) % 4 else data
