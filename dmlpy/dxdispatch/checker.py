"""`check_file`: checks a file, which holds a model, one desc, or a graph in JSON or serialized."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from dmlpy.description.coercion import given_path
from dmlpy.description.flags import check_flags
from dmlpy.dxdispatch import text
from dmlpy.dxdispatch.desc_check import check_desc
from dmlpy.dxdispatch.files import Folders
from dmlpy.dxdispatch.model import from_document, is_model, root_remedy
from dmlpy.dxdispatch.report import Finding, ModelError, Place, graph_finding
from dmlpy.graphs import Graph
from dmlpy.messages.json_positions import parts
from dmlpy.messages.naming import plural, printable
from dmlpy.messages.problems import DescError, Problem, only_errors, only_undocumented
from dmlpy.system.other_formats import other_format
from dmlpy.validation.checking import LATEST, lowest_level, parse_level

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dmlpy.description.enums import FeatureLevel

Kind = Literal["model", "desc", "graph", "serialized graph", "ONNX model"]


@dataclass(frozen=True)
class Report:
    """The outcome of a check.

    Attributes:
        path: the file.
        kind: the kind of content; None if it is unknown.
        feature_level: the cap that it was checked against.
        lowest_feature_level: the lowest level that supports everything in it; None if it has problems.
        findings: problems by part of the file; empty when it is valid.
        warnings: the parts of the file that are ignored, and those that sources disagree about.
    """

    path: Path
    kind: Kind | None
    feature_level: FeatureLevel
    lowest_feature_level: FeatureLevel | None
    findings: tuple[Finding, ...]
    warnings: tuple[Finding, ...] = ()

    @property
    def problem_count(self) -> int:
        """The number of problems, without warnings."""
        return sum(len(finding.problems) for finding in self.findings)

    def text(self) -> str:
        """The problems as text, or one line if there are none."""
        if self.findings:
            return printable(str(ModelError(self.path, self.findings)), "\n\t")
        level = self.lowest_feature_level
        since = "" if level is None else f"; needs feature level {level} (DirectML {level.directml_version})"
        undocumented = sum(len(finding.problems) for finding in self.warnings if finding.severity == "undocumented")
        return printable(f"{self.path}: no problems{', ' + plural(undocumented, 'undocumented type') if undocumented else ''}{since}")

    def to_dict(self) -> dict[str, Any]:
        """The findings as a dict for JSON."""
        return {
            "file": str(self.path),
            "kind": self.kind,
            "feature_level": str(self.feature_level),
            "lowest_feature_level": None if self.lowest_feature_level is None else str(self.lowest_feature_level),
            "problems": [problem for finding in (*self.findings, *self.warnings) for problem in finding.to_dicts()],
        }


@check_flags
def check_file(
    path: Path | str,
    feature_level: FeatureLevel | str | int = LATEST,
    *,
    strict: bool = False,
    lenient: bool = False,
    input_path: Path | str | None = None,
    stream: BinaryIO | None = None,
) -> Report:
    """Checks a file; the file's syntax is part of the findings.

    Args:
        path: a DxDispatch model; a single desc, nested or flat; a `Graph` in JSON; or a graph that ONNX Runtime serialized.
        feature_level: a cap, as for `dmlpy.check`.
        strict: as for `dmlpy.check`; models are always checked so.
        lenient: as for `Graph.check`; files from ONNX Runtime are always checked leniently, since it reinterprets bytes on purpose.
        input_path: folder of the files that a model or a serialized graph names, instead of the file's folder.
        stream: what to read instead of a file; `path` is its name in the report.

    Raises:
        DescError: an argument of another type.
    """
    path = given_path("check_file", "path", path)
    folder = None if input_path is None else given_path("check_file", "input_path", input_path)
    feature_level = parse_level(feature_level)
    try:
        data = text.read_bytes(path) if stream is None else text.read_stream(stream, path)
        if not is_serialized(data):
            return _check_json(text.decode(data, path), feature_level, strict, lenient, folder)
    except ModelError as error:
        return Report(path, None, feature_level, None, tuple(error.findings))
    from dmlpy.graphs.serialized import load_serialized  # needs flatbuffers

    try:
        graph = load_serialized(data, folder or path.parent).graph
    except DescError as error:
        if (foreign := other_format(data, least=4)) is None:
            return _report(path, "serialized graph", feature_level, [Finding("", error.problems)], None)
        problem = Problem("file.format", "file", foreign[0], text.EXPECTED, (), foreign[1])
        return _report(path, None, feature_level, [Finding("", (problem,))], None)
    return _check_graph(path, "serialized graph", graph, feature_level, strict, lenient=True)


def is_serialized(data: bytes) -> bool:
    """Returns whether a file is binary, so that it can only be a graph: its first offset contains zero bytes, which text never does."""
    return b"\0" in data[:8] and not data.startswith((b"\xff\xfe", b"\xfe\xff"))


def _check_json(document: text.Document, level: FeatureLevel, strict: bool, lenient: bool, input_path: Path | None) -> Report:
    path, findings = document.path, document.findings()
    if is_model(document.data):
        try:
            model = from_document(document, Folders.of(path, input_path), level)
        except ModelError as error:
            return _report(path, "model", level, error.findings, None)
        lowest = [dispatchable.lowest_level() for dispatchable in model.dispatchables.values()]
        return replace(_report(path, "model", level, (), max(filter(None, lowest), default=None)), warnings=model.warnings)
    members = {key.lower() for key in document.data}
    nodes = [value for key, value in document.data.items() if key.lower() == "nodes"]
    if not nodes and "type" not in members:
        expected = "a model (resources, dispatchables, commands), a desc (Type, Desc) or a graph (Nodes)"
        remedy = root_remedy(document.data, "Type", "Desc", "Nodes")
        problem = Problem("json.root", "file", "neither a model nor a desc nor a graph", expected, remedy=remedy)
        findings.append(Finding("", (problem,)).located(document.positions))
        return _report(path, None, level, findings, None)
    edges = [value for key, value in document.data.items() if key.lower().endswith("edges")]
    if (too_many := text.too_many_parts(max(parts(nodes), parts(edges)) if nodes else parts(document.data))) is not None:
        findings.append(Finding("", (too_many,)).located(document.positions))
        return _report(path, "graph" if nodes else "desc", level, findings, None)
    if nodes:
        try:
            report = _check_graph(path, "graph", Graph.from_dict(document.data), level, strict, lenient)
        except DescError as error:
            report = _report(path, "graph", level, [graph_finding(Place(), error.problems)], None)
        located = [finding.located(document.positions) for finding in report.findings]
        undocumented = tuple(finding.located(document.positions) for finding in report.warnings)
        return replace(report, findings=(*findings, *located), warnings=undocumented)
    examined = check_desc(document.data, level, strict=strict)
    if examined.problems:
        findings.append(examined.finding("").located(document.positions))
    least = None if examined.desc is None or examined.problems else lowest_level(examined.desc)
    undocumented = tuple(finding.located(document.positions) for finding in examined.undocumented_findings(""))
    return replace(_report(path, "desc", level, findings, least), warnings=undocumented)


def _check_graph(path: Path, kind: Kind, graph: Graph, level: FeatureLevel, strict: bool, lenient: bool) -> Report:
    all_problems = graph.check(level, strict=strict, lenient=lenient)
    problems, undocumented = only_errors(all_problems), only_undocumented(all_problems)
    findings = [graph_finding(Place(), problems, graph)] if problems else []
    report = _report(path, kind, level, findings, None if problems else graph.lowest_level())
    return replace(report, warnings=(graph_finding(Place(), undocumented, graph),)) if undocumented else report


def _report(path: Path, kind: Kind | None, level: FeatureLevel, findings: Iterable[Finding], lowest: FeatureLevel | None) -> Report:
    reported = tuple(findings)
    return Report(path, kind, level, None if reported else lowest, reported)
