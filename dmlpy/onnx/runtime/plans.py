"""Reports of a compiled model: `ModelPlan` and `ModelComparison`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmlpy.messages.quantities import show_bytes

if TYPE_CHECKING:
    from dmlpy.comparison import Comparison, NodeDifference
    from dmlpy.devices.graphs.report import GraphReport


@dataclass(frozen=True)
class ModelPlan:
    """The work and the memory of one run of a model. `str` formats it.

    Attributes:
        parts: in the order in which they run: the report of a graph, or the names of nodes that run on the host.
        weight_bytes: what the graphs hold from the time when they are prepared: weights, packed where the device has a layout for them.
        scratch_bytes: the temporary memory of a run, for the graph that needs most.
    """

    parts: tuple[GraphReport | tuple[str, ...], ...]
    weight_bytes: int
    scratch_bytes: int

    def __str__(self) -> str:
        lines = [f"weights {show_bytes(self.weight_bytes)}, scratch {show_bytes(self.scratch_bytes)}"]
        for part in self.parts:
            lines.append(f"on the host: {', '.join(part)}" if isinstance(part, tuple) else str(part))
        return "\n".join(lines)


@dataclass(frozen=True)
class ModelComparison:
    """The results of a model's graphs on two devices, node by node. `str` formats it.

    Attributes:
        graphs: the comparison of each graph, in the order in which they run.
    """

    graphs: tuple[Comparison, ...]

    @property
    def first(self) -> NodeDifference | None:
        """The first node where the results differ beyond tolerance; its name begins with that of the ONNX node. None if there is none."""
        return next((graph.first for graph in self.graphs if graph.first is not None), None)

    def __str__(self) -> str:
        return "\n".join(map(str, self.graphs)) or "no node runs on DirectML"
