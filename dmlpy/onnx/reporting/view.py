"""`ReportView`: what the texts and the page of a report read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import graphviz

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.messages.problems import Problem
    from dmlpy.messages.tables import Table
    from dmlpy.onnx.lowering.node_records import NodeRecord
    from dmlpy.onnx.reporting.causes import Cause
    from dmlpy.onnx.reporting.partitions import Partition
    from dmlpy.onnx.reporting.work import Border, Work


class ReportView(Protocol):
    """The part of `Report` that its texts and its page need."""

    @property
    def like(self) -> str: ...

    @property
    def feature_level(self) -> FeatureLevel: ...

    @property
    def nodes(self) -> Sequence[NodeRecord]: ...

    @property
    def tried(self) -> Mapping[str, int]: ...

    @property
    def lowest_level(self) -> FeatureLevel | None: ...

    @property
    def missing_level(self) -> Sequence[str]: ...

    @property
    def partitions(self) -> Sequence[Partition]: ...

    @property
    def weight_bytes(self) -> int: ...

    @property
    def memory_bytes(self) -> int | None: ...

    @property
    def work(self) -> Mapping[str, Work]: ...

    @property
    def borders(self) -> Sequence[Border]: ...

    @property
    def contradicted(self) -> Sequence[Problem]: ...

    @property
    def open_sizes(self) -> Sequence[str]: ...

    @property
    def sized(self) -> ReportView | None: ...

    def title(self) -> str: ...

    def summary(self) -> list[str]: ...

    def causes(self) -> Sequence[Cause]: ...

    def reasons(self) -> list[str]: ...

    def table(self) -> Table: ...

    def to_graphviz(self) -> graphviz.Digraph: ...
