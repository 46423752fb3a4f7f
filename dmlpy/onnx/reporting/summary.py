"""`summary_lines`: what a report says of a model as a whole."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dmlpy.messages.naming import plural, printable
from dmlpy.messages.quantities import show_bytes, show_flops
from dmlpy.onnx.loading.size_candidates import TRIED
from dmlpy.onnx.lowering.declared_values import tell_contradicted
from dmlpy.onnx.reporting.work import ON_DIRECTML, total

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dmlpy.onnx.lowering.node_records import Placement
    from dmlpy.onnx.reporting.view import ReportView

_COUNTED: Mapping[Placement, str] = {
    "directml": "on DirectML",
    "deferred": "compiled once sizes are known",
    "host": "on the host",
    "folded": "constant-folded",
    "nowhere": "that nothing runs",
    "invalid": "that ONNX does not allow",
    "refused": "that DirectML refuses",
}
_MOST_BORDERS = 3
"""The most borders that are listed."""


def summary_lines(report: ReportView) -> list[str]:
    """One line per fact: nodes, levels, work, partitions, borders, memory, and the likely cause of a slow run."""
    return [printable(line) for line in _lines(report)]


def _lines(report: ReportView) -> Iterator[str]:
    places = Counter(node.where for node in report.nodes)
    counts = [f"{places[where]} {text}" for where, text in _COUNTED.items() if places[where]]
    invalid = [node for node in report.nodes if node.where == "invalid"]
    tried = f", with {', '.join(f'{name}={size}' for name, size in report.tried.items())}" if report.tried else ""
    yield f"nodes        {len(report.nodes)}: {', '.join(counts)}{tried}" if report.nodes else "nodes        none"
    if invalid:
        yield f"likely cause the model is invalid: {invalid[0].problems[0].under(invalid[0].name).headline()}"
        return
    yield from _levels(report)
    yield from _work(report)
    yield _partitions(report)
    yield from _borders(report)
    yield f"weights      {show_bytes(report.weight_bytes)}"
    if report.memory_bytes is not None:
        yield f"memory       {show_bytes(report.memory_bytes)} between the nodes"
    if report.contradicted:
        yield f"declared     {tell_contradicted(report.contradicted)}"
    yield from _open_sizes(report)
    yield f"likely cause {_likely_cause(report)}"


def _work(report: ReportView) -> Iterator[str]:
    """The shares of operations and bytes on DirectML."""
    running = [node for node in report.nodes if node.where != "folded"]
    works = [report.work[node.name] for node in running]
    whole, on_directml = total(works), total(work for node, work in zip(running, works, strict=True) if node.where in ON_DIRECTML)
    if not running:
        return
    unknown = sum(work.flops is None or work.bytes_moved is None for work in works)
    if 2 * unknown > len(works):
        yield f"on DirectML  not known: {plural(unknown, 'node')} of {len(works)} have unknown sizes"
        return
    shares = [
        f"{part / of:.1%} of {text}"
        for part, of, text in (
            (on_directml.flops or 0, whole.flops or 0, show_flops(whole.flops or 0)),
            (on_directml.bytes_moved or 0, whole.bytes_moved or 0, f"{show_bytes(whole.bytes_moved or 0)} moved"),
        )
        if of
    ]
    left_out = f", without {plural(unknown, 'node')} of unknown sizes" if unknown else ""
    if shares:
        yield f"on DirectML  {', '.join(shares)}{left_out}"


def _partitions(report: ReportView) -> str:
    parts = Counter(partition.place for partition in report.partitions)
    listed = [plural(parts["graph"], "graph")] if parts["graph"] else []
    listed += [f"{plural(parts['alone'], 'operator')} not fused"] if parts["alone"] else []
    listed += [f"{parts['late']} compiled late"] if parts["late"] else []
    listed += [f"{parts['host']} on the host"] if parts["host"] else []
    return f"partitions   {len(report.partitions)}" + (f": {', '.join(listed)}" if listed else "")


def _borders(report: ReportView) -> Iterator[str]:
    """The values copied at each border, the largest first."""
    if not report.borders:
        yield "borders      none: nothing is copied between DirectML and the host inside of the model"
        return
    known = sum(border.size or 0 for border in report.borders)
    open_ones = sum(border.size is None for border in report.borders)
    sizes = [show_bytes(known)] if open_ones < len(report.borders) else []
    sizes += [f"unknown bytes at {open_ones} of them"] if open_ones else []
    yield f"borders      {len(report.borders)}: {' and '.join(sizes)} copied in a run"
    listed = sorted(report.borders, key=lambda border: (border.size is not None, -(border.size or 0)))
    for border in listed[:_MOST_BORDERS]:
        size = "unknown bytes" if border.size is None else show_bytes(border.size)
        more = f" and {len(border.values) - 1} more" if len(border.values) > 1 else ""
        way = "to the host" if border.to_host else "to DirectML"
        where = "" if border.source == border.target else f" (partition {border.source + 1} to {border.target + 1})"
        yield f"             {size} {way}: {border.values[0]!r}{more}{where}"
    if len(listed) > _MOST_BORDERS:
        yield f"             and {plural(len(listed) - _MOST_BORDERS, 'more border')}"


def _levels(report: ReportView) -> Iterator[str]:
    level = "no node runs on DirectML"
    if report.lowest_level is not None:
        level = f"{report.lowest_level} (DirectML {report.lowest_level.directml_version}) takes all that DirectML runs"
    uncapped = [node for node in report.nodes if node.where in ON_DIRECTML and any(desc.has_bfloat16 for desc in node.descs)]
    if uncapped:
        level = f"none has BFLOAT16: {plural(len(uncapped), 'node')} of it run on dmlpy's devices alone"
    yield f"level        {level}"
    if report.missing_level:
        yield f"             {plural(len(report.missing_level), 'node')} of them not at {report.feature_level}"


def _open_sizes(report: ReportView) -> Iterator[str]:
    if not report.open_sizes:
        return
    names, give = ", ".join(report.open_sizes), "pass them to dmlpy.onnx.load, or --size to dmlpy onnx check"
    if report.tried:
        yield f"open sizes   {names}: {give}; a call with other sizes compiles the model for them"
        return
    if report.sized is None:
        fits = f" (none of {', '.join(map(str, TRIED))} fits)" if report.like == "dmlpy" else ""
        yield f"open sizes   {names}{fits}: {give}"
        return
    sized = report.sized
    running = [node for node in sized.nodes if node.where != "folded"]
    on_directml = sum(node.where == "directml" for node in running)
    fused = sum(partition.place == "graph" for partition in sized.partitions)
    sizes = ", ".join(f"{name}={size}" for name, size in sized.tried.items())
    yield f"open sizes   {names}: {give}"
    yield f"             with {sizes}: {on_directml} of {plural(len(running), 'node')} on DirectML, in {plural(fused, 'graph')}"


def _likely_cause(report: ReportView) -> str:
    """Why the model may be slow."""
    causes = report.causes()
    if not causes:
        graphs = sum(partition.place == "graph" for partition in report.partitions)
        return f"none: all nodes run on DirectML, in {plural(graphs, 'graph')}" if graphs else "none: nothing is left to compute"
    cause = causes[0]
    if cause.sizes:
        return f"open sizes: {cause.headline()}"
    follow = f"; {plural(len(cause.followers), 'node')} after it" if cause.followers else ""
    return f"{cause.headline()}{follow}" + (f" (cause 1 of {len(causes)} below)" if len(causes) > 1 else "")
