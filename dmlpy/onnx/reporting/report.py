"""`Report`: where the nodes of a model run, why some do not run on DirectML, and remedies."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dmlpy.devices.device import show_bytes
from dmlpy.messages.naming import plural, printable
from dmlpy.messages.tables import Table, paragraph_html
from dmlpy.onnx.reporting.reasons import format_reasons

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import graphviz

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.messages.problems import Problem
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.node_records import NodeRecord, Placement
    from dmlpy.onnx.reporting.partitions import Partition

Like: TypeAlias = Literal["dmlpy", "onnxruntime"]

_PLACES: Mapping[Placement, str] = {
    "directml": "DirectML",
    "deferred": "DirectML, late",
    "host": "host",
    "folded": "known before",
    "nowhere": "nowhere",
    "invalid": "invalid",
    "refused": "refused by DirectML",
}
_FALLBACKS = ("deferred", "host", "nowhere", "invalid", "refused")
_MOST_TOLD = 50
"""The most reasons in the text; `to_dict` has all."""


@dataclass(frozen=True)
class Report:
    """Where the nodes of a model run. `str` formats it; a notebook shows it as a table.

    Attributes:
        model: the name of the model.
        like: whose decisions these are: those of `dmlpy`, or those that `onnxruntime`'s DirectML provider is predicted to make.
        feature_level: the highest feature level that may be used.
        nodes: the nodes in the order in which they run, after control flow was unrolled and functions were inlined.
        inputs: the inputs of the model, by name, with sizes as far as they are known.
        outputs: the outputs of the model, by name.
        tried: the sizes chosen for dynamic ones, by symbol or place (`x[0]`): nodes, outputs and bytes are those of a call with them.
            Empty if no size is dynamic, or the model allows no tried size, and for `onnxruntime`, which recompiles such nodes.
        lowest_level: the lowest feature level that supports all nodes that run on DirectML at the latest level; None if there are none.
        missing_level: the nodes that run on DirectML at the latest level, but not at this one.
        partitions: the nodes that run together, in order.
        weight_bytes: the bytes of all inputs that DirectML's operators copy once, when they are prepared.
        memory_bytes: the bytes of scratch that the graphs need, of which one runs at a time; None where no graph is planned.
    """

    model: str
    like: Like
    feature_level: FeatureLevel
    nodes: tuple[NodeRecord, ...]
    inputs: Mapping[str, Value]
    outputs: Mapping[str, Value]
    tried: Mapping[str, int]
    lowest_level: FeatureLevel | None
    missing_level: tuple[str, ...]
    partitions: tuple[Partition, ...]
    weight_bytes: int
    memory_bytes: int | None

    @property
    def fallbacks(self) -> tuple[NodeRecord, ...]:
        """The nodes that do not run on DirectML and are not known before the model runs."""
        return tuple(node for node in self.nodes if node.where in _FALLBACKS)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why nodes do not run on DirectML; the paths begin with the nodes' names."""
        return tuple(problem.under(node.name) for node in self.fallbacks for problem in node.problems)

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """The symbols for which no sizes are given, and the inputs with sizes that have no name."""
        found: dict[str, None] = {}
        for name, value in self._open_inputs().items():
            symbols = [size for size in value.sizes or (None,) if not isinstance(size, int)]
            found.update(dict.fromkeys(size or name for size in symbols))
        return tuple(found)

    def _open_inputs(self) -> dict[str, Value]:
        return {name: value for name, value in self.inputs.items() if value.kind == "tensor" and not value.is_static}

    def table(self) -> Table:
        """The nodes: operator, place, DirectML's operators, lowest level, reason. Those that do not run on DirectML are marked."""
        rows = tuple(
            (
                node.name,
                f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
                _PLACES[node.where] + (", alone" if node.alone else ""),
                _operators(node),
                "" if node.level is None else str(node.level),
                _first((*node.problems, *node.alone, *node.older)),
            )
            for node in self.nodes
        )
        headings = ("node", "operator", "runs on", "DirectML operators", "level", "why")
        marked = frozenset(index for index, node in enumerate(self.nodes) if node.where in _FALLBACKS)
        return Table(self._title(), headings, rows, marked)

    def _title(self) -> str:
        whose = "" if self.like == "dmlpy" else ", as ONNX Runtime's DirectML provider is predicted to run it"
        return f"{self.model}{whose}, at feature level {self.feature_level}{self._with_tried()}"

    def _with_tried(self) -> str:
        return f", with {', '.join(f'{name}={size}' for name, size in self.tried.items())}" if self.tried else ""

    def summary(self) -> list[str]:
        """The model as a whole, one line per fact."""
        places = Counter(node.where for node in self.nodes)
        counts = [f"{places[where]} {_COUNTED[where]}" for where in _PLACES if places[where]]
        parts = Counter(partition.place for partition in self.partitions)
        told = [plural(parts["graph"], "graph")] if parts["graph"] else []
        told += [f"{plural(parts['alone'], 'operator')} alone"] if parts["alone"] else []
        told += [f"{parts['host']} on the host"] if parts["host"] else []
        level = "no node runs on DirectML"
        if self.lowest_level is not None:
            level = f"{self.lowest_level} (DirectML {self.lowest_level.directml_version}) takes all that DirectML runs"
        lines = [
            f"nodes        {len(self.nodes)}: {', '.join(counts)}{self._with_tried()}" if self.nodes else "nodes        none",
            f"level        {level}",
            f"partitions   {len(self.partitions)}" + (f": {', '.join(told)}" if told else ""),
            f"weights      {show_bytes(self.weight_bytes)}",
        ]
        if self.missing_level:
            lines.insert(2, f"             {plural(len(self.missing_level), 'node')} of them not at {self.feature_level}")
        if self.open_sizes:
            other = "; a call with other sizes compiles the model for them" if self.tried else ""
            lines.append(f"open sizes   {', '.join(self.open_sizes)}: give them to dmlpy.onnx.load, or --size to dmlpy onnx check{other}")
        if self.memory_bytes is not None:
            lines.append(f"memory       {show_bytes(self.memory_bytes)} between the nodes")
        return [printable(line) for line in lines]

    def reasons(self) -> list[str]:
        """Why nodes do not run on DirectML, or by themselves, with remedies."""
        return format_reasons(self.nodes, {} if self.tried else self._open_inputs())

    def __str__(self) -> str:
        reasons = self.reasons()
        shown = reasons[:_MOST_TOLD]
        more = [f"and {len(reasons) - _MOST_TOLD} more"] if len(reasons) > _MOST_TOLD else []
        return "\n".join([self.table().to_text(), "", *self.summary(), *([""] if shown else []), *shown, *more])

    def to_dict(self) -> dict[str, Any]:
        """The report as a dict for JSON."""
        return {
            "model": self.model,
            "like": self.like,
            "feature_level": str(self.feature_level),
            "lowest_feature_level": None if self.lowest_level is None else str(self.lowest_level),
            "needs_higher_level": list(self.missing_level),
            "weight_bytes": self.weight_bytes,
            "memory_bytes": self.memory_bytes,
            "inputs": {name: value.summary() for name, value in self.inputs.items()},
            "outputs": {name: value.summary() for name, value in self.outputs.items()},
            "tried_sizes": dict(self.tried),
            "partitions": [{"place": part.place, "nodes": list(part.nodes)} for part in self.partitions],
            "nodes": [_to_dict(node) for node in self.nodes],
        }

    def to_graphviz(self) -> graphviz.Digraph:
        """The model as a picture: nodes in their partitions, sizes on the edges; those that do not run on DirectML are red."""
        from dmlpy.onnx.reporting.picture import draw

        return draw(self.model, self.nodes, self.partitions, self.inputs, self.outputs)

    def _repr_html_(self) -> str:
        picture = ""
        if len(self.nodes) <= 100 and shutil.which("dot") is not None:
            try:
                picture = self.to_graphviz().pipe(format="svg", encoding="utf-8")
            except (subprocess.CalledProcessError, OSError):
                picture = ""  # the table says the same
        return self.table().to_html() + paragraph_html("\n".join([*self.summary(), "", *self.reasons()[:_MOST_TOLD]])) + picture


_COUNTED = {
    "directml": "on DirectML",
    "deferred": "compiled when their sizes are known",
    "host": "on the host",
    "folded": "known before the model runs",
    "nowhere": "that nothing runs",
    "invalid": "that ONNX does not allow",
    "refused": "that DirectML refuses",
}


def _operators(node: NodeRecord) -> str:
    if node.operators:
        return ", ".join(name if count == 1 else f"{count} {name}" for name, count in Counter(node.operators).items())
    return "none, a view" if node.where == "directml" and node.stage is not None and node.stage % 2 == 0 else ""


def _first(problems: Sequence[Problem]) -> str:
    more = f"; {len(problems) - 1} more" if len(problems) > 1 else ""
    return problems[0].headline() + more if problems else ""


def _to_dict(node: NodeRecord) -> dict[str, Any]:
    return {
        "name": node.name,
        "op_type": node.op_type,
        "domain": node.domain,
        "where": node.where,
        "operators": list(node.operators),
        "lowest_feature_level": None if node.level is None else str(node.level),
        "stage": node.stage,
        "inputs": list(node.inputs),
        "outputs": {value.name: value.summary() for value in node.outputs},
        "problems": [problem.to_dict() for problem in node.problems],
        "alone": [problem.to_dict() for problem in node.alone],
        "older": [problem.to_dict() for problem in node.older],
    }
