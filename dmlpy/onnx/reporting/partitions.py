"""`Partition`: nodes of a model that run together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from dmlpy.graphs.checking import GRAPHS_SINCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.onnx.lowering.node_records import NodeRecord

Place: TypeAlias = Literal["graph", "late", "host", "alone"]


@dataclass(frozen=True)
class Partition:
    """Nodes that run together.

    Attributes:
        place: `graph` for a graph of DirectML's operators; `late` for nodes that are compiled when their sizes are known; `host` for nodes
            of which some run there; `alone` for an unfused node: at a level without graphs, or by ONNX Runtime's choice.
        nodes: the names of the nodes.
    """

    place: Place
    nodes: tuple[str, ...]


def group_records(records: Iterable[NodeRecord], level: FeatureLevel) -> tuple[Partition, ...]:
    """The nodes that run together, in execution order.

    Args:
        records: the result of lowering each node.
        level: the highest feature level that may be used: below 2_1, operators run one by one.
    """
    names: dict[tuple[int, str], list[str]] = {}
    on_host: set[int] = set()
    for record in records:
        graph = record.where == "directml" and record.stage is not None and record.stage % 2 == 0
        view = graph and not record.operators
        if record.stage is None or (view and level < GRAPHS_SINCE):
            continue
        if graph and level >= GRAPHS_SINCE:
            names.setdefault((record.stage, "graph"), []).append(record.name)
        elif record.where in ("directml", "refused"):
            names[record.stage, f"alone {record.name}"] = [record.name]
        else:
            names.setdefault((record.stage, "host"), []).append(record.name)
            on_host |= {record.stage} if record.where != "deferred" else set()

    def place_of(stage: int, kind: str) -> Place:
        if kind != "host":
            return "graph" if kind == "graph" else "alone"
        return "host" if stage in on_host else "late"

    order = sorted(names, key=lambda key: key[0])
    return tuple(Partition(place_of(stage, kind), tuple(names[stage, kind])) for stage, kind in order)
