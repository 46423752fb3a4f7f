"""Shared by the parts of lowering: scopes of values, and the interface of a model's lowering for control flow and functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dmlpy.onnx.loading.values import Value

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from dmlpy.onnx.loading.limits import Budget
    from dmlpy.onnx.lowering.node_records import NodeRecord

Scope: TypeAlias = MutableMapping[str, Value]
"""The values that nodes may read, by their names in the graph."""
Values: TypeAlias = list[Value | None]
"""The outputs of a node; None for unused ones."""


class GraphLowering(Protocol):
    """The lowering of a model, which lowers subgraphs and definitions in place of their node."""

    budget: Budget
    records: list[NodeRecord]

    def lower_graph(self, graph: GraphProto, scope: Scope, prefix: str, opsets: Mapping[str, int]) -> None:
        """Loads the initializers and lowers the nodes of a graph."""

    def load_initializers(self, graph: GraphProto, scope: Scope, prefix: str) -> None:
        """Loads the initializers of a graph."""

    def lower_nodes(self, nodes: Iterable[NodeProto], scope: Scope, prefix: str, opsets: Mapping[str, int]) -> None:
        """Lowers nodes in execution order."""

    def unique_name(self, name: str) -> str:
        """A name that no value and no node has."""
