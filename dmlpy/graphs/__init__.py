"""Graphs of operators: described, checked, drawn, and read from ONNX Runtime's dumps."""

from typing import TYPE_CHECKING, Any

from dmlpy.graphs.builder import GraphBuilder, Value
from dmlpy.graphs.checking import check_graph
from dmlpy.graphs.graph import Graph
from dmlpy.graphs.nodes import ConstantNode, InputEdge, IntermediateEdge, Node, OperatorNode, OutputEdge

if TYPE_CHECKING:
    from dmlpy.graphs.serialized import ConstantFile, SerializedGraph, load_serialized


def __getattr__(name: str) -> Any:
    # Only a dump needs the flatbuffers library.
    if name in ("ConstantFile", "SerializedGraph", "load_serialized"):
        from dmlpy.graphs import serialized

        return getattr(serialized, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ConstantFile",
    "ConstantNode",
    "Graph",
    "GraphBuilder",
    "InputEdge",
    "IntermediateEdge",
    "Node",
    "OperatorNode",
    "OutputEdge",
    "SerializedGraph",
    "Value",
    "check_graph",
    "load_serialized",
]
