"""The initializers of a graph that its nodes read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from dmlpy.onnx.loading.schemas import domain_of
from dmlpy.onnx.lowering import subgraphs

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from onnx import GraphProto

    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.loading.values import Array

_WEIGHTS = {"Conv": 1, "Gemm": 1, "MatMul": 1}
"""The input of a product that is its weights."""


def read_initializers(graph: GraphProto, model: LoadedModel, given: Container[str]) -> Iterator[tuple[str, Array]]:
    """The initializers of a graph, by name. Those in files apart from the model are read only where something uses them.

    Args:
        graph: the graph: the model's, or the body of a control-flow node.
        model: its model.
        given: the names that have other values.
    """
    named = [(tensor.name, tensor) for tensor in graph.initializer]
    sparse = [(tensor.values.name, tensor) for tensor in graph.sparse_initializer]
    used = None if all(tensor.data_location == TensorProto.DEFAULT for tensor in graph.initializer) else _names_read(graph)
    weights = _product_weights(graph) if graph is model.proto.graph else frozenset()
    for name, tensor in (*named, *sparse):
        if name not in given and (used is None or name in used):
            yield name, model.weight(tensor) if name in weights else model.array(tensor)


def _names_read(graph: GraphProto) -> frozenset[str]:
    """The names that the nodes of a graph and its outputs read."""
    captured = (name for proto in graph.node for name in subgraphs.captured_names(proto))
    return frozenset((*(name for proto in graph.node for name in proto.input), *captured, *(item.name for item in graph.output)))


def _product_weights(graph: GraphProto) -> frozenset[str]:
    """The names of initializers that products take as their weights and nothing else reads: devices pack them."""
    weights, others = set[str](), {item.name for item in (*graph.input, *graph.output)}
    others |= {tensor.values.name for tensor in graph.sparse_initializer}
    for proto in graph.node:
        place = None if domain_of(proto.domain) else _WEIGHTS.get(proto.op_type)
        for index, name in enumerate(proto.input):
            (weights if index == place else others).add(name)
        others.update(subgraphs.captured_names(proto))
    return frozenset(weights - others)
