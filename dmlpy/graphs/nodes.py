"""The nodes and edges of a graph."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import SerializeAsAny

from dmlpy.description.coercion import After, Uint, brief, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, GraphEdgeType, GraphNodeType
from dmlpy.description.json_objects import plain, unwrap
from dmlpy.description.markers import Out, Slot, TensorField
from dmlpy.description.sized_arrays import SizedBytes
from dmlpy.description.structs import Struct, c_value
from dmlpy.messages.naming import c_path
from dmlpy.messages.problems import DescError, Problem


class OperatorNode(Struct):
    """DML_OPERATOR_GRAPH_NODE_DESC: an operator in a graph."""

    c_name: ClassVar[str] = "DML_OPERATOR_GRAPH_NODE_DESC"

    operator: SerializeAsAny[OperatorDesc]
    """The operator's desc, where DirectML has the IDMLOperator made of it."""

    name: str | None = default(None)
    """The name of the node in messages and pictures. Edges in JSON may name it too."""

    def input_slots(self) -> tuple[Slot, ...]:
        """The places that edges may lead to, by ToNodeInputIndex; those that the desc leaves null are counted."""
        return self.operator.input_slots()

    def output_slots(self) -> tuple[Slot, ...]:
        """The places that edges may leave from, by FromNodeOutputIndex."""
        return self.operator.output_slots()

    def kind(self) -> str:
        """The operator's short name: `RNN`."""
        return self.operator.short_name()

    def to_dict(self) -> dict[str, Any]:
        return _typed(GraphNodeType.OPERATOR, {"Operator": self.operator.to_dict()} | _named(self.name))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        node = read_node(data)
        if not isinstance(node, cls):
            raise DescError(cls.c_name, [Problem("field.form", "type", "CONSTANT", "OPERATOR")])
        return node


class ConstantNode(Struct):
    """DML_CONSTANT_DATA_GRAPH_NODE_DESC: bytes that the graph holds, as the only output of a node."""

    c_name: ClassVar[str] = "DML_CONSTANT_DATA_GRAPH_NODE_DESC"
    c_counts: ClassVar[Mapping[str, str | tuple[str, ...]]] = {"DataSize": "data"}

    data: bytes
    """The bytes, or an array whose bytes they are. In JSON base64 text, a list of bytes, or a list of numbers with a `DataType`."""

    name: str | None = default(None)
    """The name of the node in messages and pictures."""

    @classmethod
    def _by_python_name(cls, members: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        values, problems = super()._by_python_name(members)
        if isinstance(data := values.get("data"), bytearray | memoryview | np.ndarray):
            data = values["data"] = data.tobytes() if not isinstance(data, bytearray) else bytes(data)
        given = members.get("DataSize")
        if isinstance(data, bytes) and given is not None and (isinstance(given, bool) or given != len(data)):
            problems.append(Problem("count.length", "DataSize", brief(given), f"{len(data)}, the length of data"))
        return values, problems

    @property
    def data_size(self) -> int:
        """DataSize: how many bytes the node holds."""
        return self.data.length if isinstance(self.data, SizedBytes) else len(self.data)

    def input_slots(self) -> tuple[Slot, ...]:
        """None: nothing feeds a constant."""
        return ()

    def output_slots(self) -> tuple[Slot, ...]:
        """The data. The nodes that read it describe its layout, so the slot has no tensor."""
        return (_DATA,)

    def kind(self) -> str:
        return "constant"

    def __repr__(self) -> str:
        return f"ConstantNode(data=<{self.data_size} bytes>, name={self.name!r})"

    def to_dict(self) -> dict[str, Any]:
        text = base64.b64encode(self.data).decode("ascii")
        return _typed(GraphNodeType.CONSTANT, {"Data": text, "DataSize": self.data_size} | _named(self.name))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        node = read_node(data)
        if not isinstance(node, cls):
            raise DescError(cls.c_name, [Problem("field.form", "type", "OPERATOR", "CONSTANT")])
        return node


Node = OperatorNode | ConstantNode

_DATA = Slot("data", TensorField("data", Out("*sizes"), optional=False), None)


class Edge(Struct):
    """The base of all edges. `kind` is the Type of the DML_GRAPH_EDGE_DESC that wraps the struct."""

    kind: ClassVar[GraphEdgeType] = GraphEdgeType.INVALID

    name: str | None = default(None)
    """The name of the edge, for messages only."""

    def to_dict(self) -> dict[str, Any]:
        members = {name: value for name, value in self._members().items() if value is not None}
        return _typed(self.kind, {c_path(name): c_value(value) for name, value in members.items()})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(**cls.members_of(data))

    @classmethod
    def members_of(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """The members in JSON data, nested or flat; Type, if given, is the edge's.

        Raises:
            DescError: the data are not an object, or of an edge of another type.
        """
        if not isinstance(data, Mapping):
            names = [name for name in cls.model_fields if name != "name"]
            listed = type(data) in (list, tuple) and len(data) == len(names)
            values = [brief(value) for value in data] if listed else ["..."] * len(names)
            remedy = f"{cls.__name__}({', '.join(f'{name}={value}' for name, value in zip(names, values, strict=True))})"
            raise DescError(cls.c_name, [Problem("field.form", "", brief(data), "an object with the edge's members", remedy=remedy)])
        members = unwrap(data)
        if "Type" in members:
            _read_type(members.pop("Type"), cls.kind, cls.c_name)
        return members


class InputEdge(Edge):
    """DML_INPUT_GRAPH_EDGE_DESC: a graph input feeds an input of a node."""

    c_name: ClassVar[str] = "DML_INPUT_GRAPH_EDGE_DESC"
    kind: ClassVar[GraphEdgeType] = GraphEdgeType.INPUT

    graph_input_index: Annotated[Uint, After()]
    """The graph input."""

    to_node_index: Uint
    """The node that reads."""

    to_node_input_index: Uint
    """The input of the node. Optional inputs that its desc leaves null are counted, as they are in bindings."""


class OutputEdge(Edge):
    """DML_OUTPUT_GRAPH_EDGE_DESC: an output of a node is an output of the graph."""

    c_name: ClassVar[str] = "DML_OUTPUT_GRAPH_EDGE_DESC"
    kind: ClassVar[GraphEdgeType] = GraphEdgeType.OUTPUT

    from_node_index: Annotated[Uint, After()]
    """The node that writes."""

    from_node_output_index: Uint
    """The output of the node. Optional outputs that its desc leaves null are counted."""

    graph_output_index: Uint
    """The graph output."""


class IntermediateEdge(Edge):
    """DML_INTERMEDIATE_GRAPH_EDGE_DESC: an output of a node feeds an input of another one."""

    c_name: ClassVar[str] = "DML_INTERMEDIATE_GRAPH_EDGE_DESC"
    kind: ClassVar[GraphEdgeType] = GraphEdgeType.INTERMEDIATE

    from_node_index: Annotated[Uint, After()]
    """The node that writes."""

    from_node_output_index: Uint
    """The output of the writing node. Optional outputs that its desc leaves null are counted."""

    to_node_index: Uint
    """The node that reads."""

    to_node_input_index: Uint
    """The input of the reading node, counted likewise."""


def node_label(index: int, node: Node) -> str:
    """The name of a node in messages: `node 7 'norm' (MEAN_VARIANCE_NORMALIZATION1)`."""
    return f"node {index}{' ' + brief(node.name) if node.name else ''} ({node.kind()})"


def read_node(data: Any) -> Node:
    """The node of JSON data, nested or flat.

    `Type` is OPERATOR, with `Operator`, or CONSTANT, with `Data`; or directly the operator's type, with its `Desc`. `Name` is optional.

    Raises:
        DescError: places are those of the node; members of its operator count as members of the node.
    """
    if isinstance(data, OperatorNode | ConstantNode):
        return data
    if isinstance(data, OperatorDesc):
        return OperatorNode(operator=data)
    if not isinstance(data, Mapping):
        raise DescError("DML_GRAPH_NODE_DESC", [Problem("field.form", "", brief(data), "an object with Type and Desc")])
    data = plain(data, "DML_GRAPH_NODE_DESC")
    given = next((value for key, value in data.items() if key.lower() == "type"), None)
    try:
        kind = None if given is None else GraphNodeType.parse(given)
    except ValueError:
        # The operator's type, next to the node's name: no operator has such a member.
        operator = {key: value for key, value in data.items() if key not in ("Name", "name")}
        return OperatorNode(operator=OperatorDesc.from_dict(operator), **_named(data.get("Name", data.get("name"))))
    members = unwrap(data)
    members.pop("Type", None)
    if kind is None:
        if not members.keys() & {"Data", "data", "Operator", "operator"}:
            expected = "OPERATOR, CONSTANT, or the operator's type, like GEMM"
            raise DescError("DML_GRAPH_NODE_DESC", [Problem("field.missing", "type", "missing", expected)])
        kind = GraphNodeType.CONSTANT if members.keys() & {"Data", "data"} else GraphNodeType.OPERATOR
    if kind is GraphNodeType.CONSTANT:
        return _read_constant(members)
    _read_type(kind, GraphNodeType.OPERATOR, "DML_GRAPH_NODE_DESC")
    for key in ("Operator", "operator"):
        if isinstance(members.get(key), Mapping):
            members[key] = _read_operator(members[key])
    return OperatorNode(**members)


def _read_operator(data: Mapping[str, Any]) -> OperatorDesc:
    """An operator in `Operator`. The node has a Type of its own; problems of the operator's Type are reported at the operator's."""
    try:
        return OperatorDesc.from_dict(data)
    except DescError as error:
        problems = [problem.under("operator") if problem.field == "type" else problem for problem in error.problems]
        raise DescError(error.subject, problems) from None


def _read_constant(members: dict[str, Any]) -> ConstantNode:
    key = "Data" if "Data" in members else "data"
    value, data_type = members.get(key), members.pop("DataType", None)
    try:
        if data_type is not None:
            members[key] = _numbers(value, DataType.parse(data_type).numpy)
        elif isinstance(value, str):
            members[key] = base64.b64decode(value, validate=True)
        elif isinstance(value, list):
            members[key] = bytes(value)
    except (TypeError, ValueError, OverflowError, binascii.Error) as error:
        expected = "base64 text, a list of bytes, or numbers of the DataType beside them"
        raise DescError(ConstantNode.c_name, [Problem("field.form", "data", brief(value), expected, (str(error),))]) from None
    return ConstantNode(**members)


def _numbers(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    try:
        numbers = np.asarray(value)
    except ValueError:
        raise ValueError("a list of numbers, or lists of equally many") from None
    if numbers.dtype.kind not in ("iu" if dtype.kind in "iu" else "iuf"):
        raise ValueError(f"numbers that are all of type {dtype}")
    with np.errstate(over="ignore"):
        return np.asarray(value, dtype)


def _read_type(given: Any, expected: GraphEdgeType | GraphNodeType, struct: str) -> None:
    try:
        found: Any = type(expected).parse(given)
    except ValueError:
        found = brief(given)
    if found is not expected:
        why = ("an edge's type is that of its list",) if isinstance(expected, GraphEdgeType) else ()
        raise DescError(struct, [Problem("graph.type", "type", str(found), str(expected), why)])


def _typed(kind: GraphNodeType | GraphEdgeType, members: dict[str, Any]) -> dict[str, Any]:
    return {"Type": kind.c_name, "Desc": members}


def _named(name: Any) -> dict[str, Any]:
    return {} if name is None else {"Name": name}
