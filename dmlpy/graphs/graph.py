"""`Graph`: a graph of operators with its checks and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import FeatureLevel
from dmlpy.description.flags import check_flags
from dmlpy.graphs import checking
from dmlpy.graphs.desc import GraphDesc
from dmlpy.graphs.nodes import InputEdge, IntermediateEdge, Node, OutputEdge
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    import graphviz
    import numpy as np

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.messages.tables import Table

LATEST = max(FeatureLevel)
_MOST_DRAWN_IN_A_NOTEBOOK = 300


class Graph(GraphDesc):
    """DML_GRAPH_DESC: operators joined by edges; checked, drawn, compared, and sent through JSON as one.

    Wherever an edge holds an index a name may be given: of a node, of a graph input or output (`input_names`, `output_names`), or the
    field of a slot (`"WeightTensor"`, `"input_tensors[1]"`). The graph stores the index.
    """

    functions = ("compile", "reference")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            nodes: Sequence[Node],
            input_count: int | np.integer[Any] = ...,
            output_count: int | np.integer[Any] = ...,
            input_edges: Sequence[InputEdge | Mapping[str, Any]] = (),
            output_edges: Sequence[OutputEdge | Mapping[str, Any]] = (),
            intermediate_edges: Sequence[IntermediateEdge | Mapping[str, Any]] = (),
            input_names: Sequence[str] = (),
            output_names: Sequence[str] = (),
            input_tensors: Iterable[TensorDesc] = (),
            output_tensors: Iterable[TensorDesc] = (),
            name: str | None = None,
        ) -> None: ...

    @check_flags
    def check(
        self, feature_level: FeatureLevel | str | int | None = LATEST, *, strict: bool = False, lenient: bool = False
    ) -> list[Problem]:
        """All problems of the graph and of its nodes' descs; empty when it is valid.

        Args:
            feature_level: a cap, as for `dmlpy.check`.
            strict: also what DirectML demands of the buffers behind the tensors, as for `dmlpy.check`.
            lenient: not what DirectML takes though it is seldom meant: an edge between different data types, where the bytes are read as
                the reader's type (the ends must take equally many in any case), and a graph input that feeds no node.

        Returns:
            The problems in the order of the struct's members. Places are like `nodes[7].scale_tensor`, and the first reason says what
            the node is: `node 7 'norm' (MEAN_VARIANCE_NORMALIZATION1)`.
        """
        return checking.check_graph(self, feature_level, strict=strict, lenient=lenient)

    def lowest_level(self) -> FeatureLevel | None:
        """The lowest feature level that takes the graph and all its nodes, leniently; None if none does."""
        return checking.lowest_level(self)

    def to_graphviz(self, problems: Iterable[Problem] = ()) -> graphviz.Digraph:
        """The graph as a picture: operators as boxes, graph inputs and outputs as ellipses, constants as notes; sizes on the edges.

        Args:
            problems: what `check` returned; the nodes and edges concerned are drawn in red, with the problem as tooltip.
        """
        from dmlpy.graphs import picture

        return picture.draw(self, problems)

    def to_dot(self, problems: Iterable[Problem] = ()) -> str:
        """The picture as text in the DOT language; no other program is needed."""
        source: str = self.to_graphviz(problems).source
        return source

    def table(self, problems: Iterable[Problem] = ()) -> Table:
        """The nodes with their inputs and outputs; those that have problems are marked."""
        from dmlpy.graphs import picture

        return picture.tabulate(self, problems)

    def __str__(self) -> str:
        return self.table().to_text()

    def __rich__(self) -> Any:
        return self.table()

    def _repr_svg_(self) -> str | None:
        from dmlpy.graphs import picture

        return picture.svg(self) if len(self.nodes) <= _MOST_DRAWN_IN_A_NOTEBOOK else None

    def _repr_html_(self) -> str:
        return self._repr_svg_() or self.table().to_html()
