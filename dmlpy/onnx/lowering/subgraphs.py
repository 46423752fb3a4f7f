"""The subgraphs of control-flow nodes: the values that they capture, and their names on the host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from dmlpy.onnx.loading.tensors import array_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path


def subgraphs_of(proto: NodeProto) -> Iterator[GraphProto]:
    """The graphs among the attributes of a node."""
    for attribute in proto.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def captured_names(proto: NodeProto) -> list[str]:
    """The names of the outer values that the subgraphs of a node read."""
    names: dict[str, None] = {}
    for body in subgraphs_of(proto):
        names.update(dict.fromkeys(_free_names(body)))
    return list(names)


def rename_captured(proto: NodeProto, names: Mapping[str, str], unique: Callable[[str], str], folder: Path | None) -> NodeProto:
    """Renames the captured values of a node's subgraphs, and makes the subgraphs' other names unique.

    Their external data is read, too.

    Args:
        proto: the node.
        names: the new names of captured values, by the names in the subgraphs.
        unique: makes a name that is not taken.
        folder: the folder of external data.
    """
    renamed = NodeProto()
    renamed.CopyFrom(proto)
    for body in subgraphs_of(renamed):
        # ONNX writes definitions of operators that have a body as text, in which only identifiers can be read.
        _rename(body, names, lambda name: unique(re.sub(r"\W", "_", f"{proto.name}/{name}")), folder)
    return renamed


def _rename(body: GraphProto, around: Mapping[str, str], unique: Callable[[str], str], folder: Path | None) -> None:
    names = dict(around)

    def rename(name: str) -> str:
        names[name] = unique(name)
        return names[name]

    del body.value_info[:]
    for item in body.input:
        item.name = rename(item.name)
    for tensor in body.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(array_of(tensor, folder), tensor.name))
        tensor.name = names[tensor.name] if tensor.name in names and tensor.name not in around else rename(tensor.name)
    for sparse in body.sparse_initializer:
        sparse.values.name = rename(sparse.values.name)
    for proto in body.node:
        proto.input[:] = [names.get(name, name) for name in proto.input]
        for inner in subgraphs_of(proto):
            _rename(inner, names, unique, folder)
        proto.output[:] = [rename(name) if name else "" for name in proto.output]
    for item in body.output:
        item.name = names.get(item.name, item.name)


def _free_names(graph: GraphProto) -> Iterator[str]:
    """The names that a body reads and does not define."""
    defined = {item.name for item in graph.input} | {tensor.name for tensor in graph.initializer}
    defined |= {sparse.values.name for sparse in graph.sparse_initializer}
    for proto in graph.node:
        yield from (name for name in proto.input if name and name not in defined)
        for body in subgraphs_of(proto):
            yield from (name for name in _free_names(body) if name not in defined)
        defined.update(proto.output)
    yield from (item.name for item in graph.output if item.name not in defined)
