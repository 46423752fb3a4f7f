"""The size of a model: its nodes and the bytes of its tensors, counted without reading the tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from dmlpy.onnx.loading import tensors
from dmlpy.onnx.loading.limits import Limits, ModelSize, limit_problem, most_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from onnx import GraphProto, ModelProto, NodeProto, SparseTensorProto

    from dmlpy.messages.problems import Problem


def count_model_nodes(model: ModelProto) -> int:
    """The nodes of a model's graph, of its subgraphs and of its functions, each once."""
    return count_nodes(model.graph.node) + sum(count_nodes(function.node) for function in model.functions)


def count_nodes(nodes: Iterable[NodeProto]) -> int:
    """The number of nodes, including those of their subgraphs."""
    count = 0
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            count += 1
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    waiting.append(attribute.g.node)
                waiting += [body.node for body in attribute.graphs]
    return count


def measure_model(model: ModelProto, nodes: int, folder: Path | None) -> ModelSize:
    """The size of a valid model.

    Args:
        model: the model as its file has it.
        nodes: the number of its nodes.
        folder: the folder of external data.
    """
    size_in_bytes = sum(function.ByteSize() for function in model.functions)
    paths: set[Path] = set()
    for tensor in _tensors(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            paths.add(tensors.locate(tensor, folder).path)
        else:
            size_in_bytes += tensors.bytes_of(tensor)
    return ModelSize(nodes, size_in_bytes + sum(map(tensors.stored_bytes, paths)))


def memory_problem(model: ModelProto, folder: Path | None, limits: Limits, size: ModelSize) -> Problem | None:
    """The problem of tensors that take far more memory than their file: sparse ones, and holes in files of external data.

    Args:
        model: the model with its functions inlined.
        folder: the folder of external data.
        limits: the limits of the model.
        size: the size of its file.
    """
    allowed = most_bytes(limits, size)
    dense = sum(tensors.dense_bytes_of(sparse) for graph in _graphs(model.graph) for sparse in _sparse(graph))
    if dense > allowed:
        return limit_problem("bytes", "sparse_initializer", f"{dense} bytes with their zeros", allowed, "bytes of sparse tensors")
    places = {tensors.locate(item, folder) for item in _tensors(model.graph) if item.data_location == TensorProto.EXTERNAL}
    wanted = sum(place.size for place in places)
    stored = sum(map(tensors.stored_bytes, {place.path for place in places}))
    if wanted <= stored + allowed:
        return None
    found = f"{wanted} bytes of external data, of which the files hold {stored}"
    return limit_problem("bytes", "initializer", found, stored + allowed, "bytes of external data")


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and its subgraphs."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graphs(body)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """The tensors of a graph, of its nodes and of its subgraphs."""
    for inner in _graphs(graph):
        yield from inner.initializer
        for node in inner.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def _sparse(graph: GraphProto) -> Iterator[SparseTensorProto]:
    """The sparse tensors of a graph and of its nodes."""
    yield from graph.sparse_initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("sparse_tensor"):
                yield attribute.sparse_tensor
            yield from attribute.sparse_tensors
