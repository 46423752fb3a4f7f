"""`Report`: where the nodes of a model run, why some do not run on DirectML, and remedies."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dmlpy.description.flags import check_flags
from dmlpy.messages.naming import plural, printable
from dmlpy.messages.tables import Table, paragraph_html
from dmlpy.onnx.reporting.causes import find_causes
from dmlpy.onnx.reporting.summary import summary_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import graphviz

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.messages.problems import Problem
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.node_records import NodeRecord, Placement
    from dmlpy.onnx.reporting.causes import Cause
    from dmlpy.onnx.reporting.partitions import Partition
    from dmlpy.onnx.reporting.work import Border, Work

Like: TypeAlias = Literal["dmlpy", "onnxruntime"]

_PLACES: Mapping[Placement, str] = {
    "directml": "DirectML",
    "deferred": "DirectML, late",
    "host": "host",
    "folded": "constant-folded",
    "nowhere": "nowhere",
    "invalid": "invalid",
    "refused": "refused by DirectML",
}
_FALLBACKS = ("deferred", "host", "nowhere", "invalid", "refused")
_MOST_LINES = 20
"""The most lines of causes in the text, which fits a screen with the summary; `causes` has all."""


@dataclass(frozen=True)
class Report:
    """The place where each node of a model runs. `str` formats it; a notebook shows it as a table.

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
        work: the arithmetic and the memory traffic of each node, by its name.
        borders: what is copied between DirectML and the host.
        contradicted: sizes that the file declares for outputs or other values, and that these do not have; the model runs with the latter.
        sized: the report with sizes chosen for open ones, for `onnxruntime`, which otherwise recompiles nodes; None if there are none.
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
    work: Mapping[str, Work]
    borders: tuple[Border, ...]
    contradicted: tuple[Problem, ...] = ()
    sized: Report | None = None

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
        names: dict[str, None] = {}
        for name, value in self._open_inputs().items():
            symbols = [size for size in value.sizes or (None,) if not isinstance(size, int)]
            names.update(dict.fromkeys(size or name for size in symbols))
        return tuple(names)

    def _open_inputs(self) -> dict[str, Value]:
        return {name: value for name, value in self.inputs.items() if value.kind == "tensor" and not value.is_static}

    def table(self) -> Table:
        """The nodes: operator, place, DirectML's operators, lowest level, reason. Those that do not run on DirectML are marked."""
        rows = tuple(
            (
                node.name,
                f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
                _PLACES[node.where] + (", not fused" if node.alone else ""),
                _operators(node),
                "" if node.level is None else str(node.level),
                _first((*node.problems, *node.alone, *node.older)),
            )
            for node in self.nodes
        )
        headings = ("node", "operator", "runs on", "DirectML operators", "level", "why")
        marked = frozenset(index for index, node in enumerate(self.nodes) if node.where in _FALLBACKS)
        return Table(self.title(), headings, rows, marked)

    def title(self) -> str:
        """The model, whose decisions these are, and the feature level."""
        whose = "" if self.like == "dmlpy" else ", as ONNX Runtime's DirectML provider is predicted to run it"
        return f"{self.model}{whose}, at feature level {self.feature_level}{self._with_tried()}"

    def _with_tried(self) -> str:
        return f", with {', '.join(f'{name}={size}' for name, size in self.tried.items())}" if self.tried else ""

    def summary(self) -> list[str]:
        """The model as a whole, one line per fact."""
        return summary_lines(self)

    def causes(self) -> tuple[Cause, ...]:
        """Why nodes do not run on DirectML, or not fused: each reason once, that of most nodes first."""
        sized = self.sized
        solved: frozenset[str] = frozenset()
        if sized is not None:
            solved = frozenset(node.name for node in sized.nodes if node.where in ("directml", "folded") and not node.alone)
        return find_causes(self.nodes, {} if self.tried else self._open_inputs(), solved)

    def reasons(self) -> list[str]:
        """The causes as texts, with remedies."""
        return [str(cause) for cause in self.causes()]

    def __str__(self) -> str:
        return self.text()

    @check_flags
    def text(self, *, all_causes: bool = False) -> str:
        """The summary, then the causes; `table` has the nodes.

        Args:
            all_causes: whether all causes are listed, not only as many as fit a screen.
        """
        lines = [line for cause in self.causes() for line in str(cause).splitlines()]
        left = 0 if all_causes else max(0, len(lines) - _MOST_LINES)
        if left:
            heads = sum(not line.startswith(" ") for line in lines[-left:])
            lines[-left:] = [f"... {plural(left, 'more line')} with {plural(heads, 'more cause')}: dmlpy onnx check --all shows them"]
        return "\n".join([printable(self.title()), "", *self.summary(), *([""] if lines else []), *lines])

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
            "contradicted": [problem.to_dict() for problem in self.contradicted],
            "borders": [asdict(border) for border in self.borders],
            "causes": [
                {
                    "text": str(cause),
                    "nodes": [node.name for node in cause.nodes],
                    "followers": [node.name for node in cause.followers],
                    "sizes": list(cause.sizes),
                }
                for cause in self.causes()
            ],
            "with_sizes": None if self.sized is None else self.sized.to_dict(),
            "nodes": [_to_dict(node) | asdict(self.work[node.name]) for node in self.nodes],
        }

    def to_graphviz(self) -> graphviz.Digraph:
        """The model as a picture: nodes in their partitions, sizes on the edges; those that do not run on DirectML are red."""
        from dmlpy.onnx.reporting.picture import draw

        return draw(self.model, self.nodes, self.partitions, self.inputs, self.outputs)

    def to_html(self) -> str:
        """The report as an HTML page that needs no other file: the summary, partitions, picture, causes and nodes.

        The picture needs Graphviz's program `dot`; without it the page says so.
        """
        from dmlpy.onnx.reporting.page import report_page

        return report_page(self)

    def _repr_html_(self) -> str:
        picture = ""
        if len(self.nodes) <= 100 and shutil.which("dot") is not None:
            try:
                picture = self.to_graphviz().pipe(format="svg", encoding="utf-8")
            except (subprocess.CalledProcessError, OSError):
                picture = ""  # the table says the same
        return paragraph_html(str(self)) + self.table().to_html() + picture


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
