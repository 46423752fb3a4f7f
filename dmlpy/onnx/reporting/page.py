"""`report_page`: a report as one HTML file that needs no other."""

from __future__ import annotations

import shutil
import subprocess
from html import escape
from typing import TYPE_CHECKING

from dmlpy.messages.naming import plural, printable
from dmlpy.messages.quantities import show_bytes, show_flops
from dmlpy.messages.tables import paragraph_html
from dmlpy.onnx.reporting.work import total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.reporting.partitions import Partition
    from dmlpy.onnx.reporting.view import ReportView

_MOST_DRAWN = 1500
"""The most nodes of a picture: dot needs minutes for more."""
_SECONDS = 60
"""How long dot may draw."""
_MOST_BOXES = 100
"""The most partitions that are shown as boxes."""
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1b1b1b; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
pre { white-space: pre-wrap; background: #f6f8fa; padding: .8rem; border-radius: 6px; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: .85rem; } caption { display: none; }
th, td { text-align: left; vertical-align: top; padding: .25rem .7rem; border-bottom: 1px solid #ddd; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } .wide svg { max-width: none; height: auto; }
.parts { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; }
.parts div { border-radius: 6px; padding: .4rem .7rem; font-size: .85rem; }
.graph { background: #e8f0fe; } .late { background: #f1ecfb; } .host { background: #fdecea; } .alone { background: #fff4e0; }
.parts small { display: block; color: #555; }
"""
_PLACES = {"graph": "graph on DirectML", "late": "DirectML, compiled late", "host": "host", "alone": "not fused on DirectML"}


def report_page(report: ReportView) -> str:
    """The page: the summary, the partitions with what is copied between them, the picture, the causes and the nodes."""
    title = escape(printable(report.title()))
    causes = "\n".join(report.reasons())
    parts = [
        f"<h1>{title}</h1>",
        paragraph_html("\n".join(report.summary())),
        "<h2>Partitions</h2>",
        f'<div class="parts">{"".join(_boxes(report))}</div>',
        "<h2>Graph</h2>",
        f'<div class="wide">{_picture(report)}</div>',
        *(["<h2>Causes</h2>", paragraph_html(causes)] if causes else []),
        "<h2>Nodes</h2>",
        f'<div class="wide">{report.table().to_html()}</div>',
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _boxes(report: ReportView) -> Iterator[str]:
    """Each partition with its share of the work, and what it copies from others."""
    copied: dict[int, list[str]] = {}
    for border in report.borders:
        size = "unknown bytes" if border.size is None else show_bytes(border.size)
        copied.setdefault(border.target, []).append(f"{size} from {border.source + 1}")
    for index, partition in enumerate(report.partitions[:_MOST_BOXES]):
        yield f'<div class="{partition.place}"><b>{index + 1}</b> {_contents(report, partition)}{_small(copied.get(index, []))}</div>'
    if len(report.partitions) > _MOST_BOXES:
        yield f"<div>and {len(report.partitions) - _MOST_BOXES} more</div>"


def _contents(report: ReportView, partition: Partition) -> str:
    works = [report.work[name] for name in partition.nodes]
    whole = total(works)
    nodes = plural(len(works), "node") if len(works) > 1 else escape(printable(partition.nodes[0]))
    unknown = sum(work.bytes_moved is None for work in works)
    parts = [f"{show_flops(whole.flops or 0)}, {show_bytes(whole.bytes_moved or 0)}"] if unknown < len(works) else []
    parts += [f"{plural(unknown, 'node')} of unknown sizes"] if unknown else []
    return f"{_PLACES[partition.place]}: {nodes}" + _small(parts)


def _small(texts: list[str]) -> str:
    return "".join(f"<small>{escape(text)}</small>" for text in texts)


def _picture(report: ReportView) -> str:
    """The graph as SVG, or why there is none."""
    if len(report.nodes) > _MOST_DRAWN:
        return f"<p>Not drawn: {len(report.nodes)} nodes, more than {_MOST_DRAWN}.</p>"
    dot = shutil.which("dot")
    if dot is None:
        return "<p>Not drawn: Graphviz's program dot is not installed (https://graphviz.org/download).</p>"
    try:
        source = report.to_graphviz().source.encode()
        drawn: str = subprocess.run([dot, "-Tsvg"], input=source, capture_output=True, check=True, timeout=_SECONDS).stdout.decode()
    except (subprocess.SubprocessError, OSError) as error:
        return f"<p>Not drawn: {escape(type(error).__name__)} of Graphviz's program dot.</p>"
    return drawn[drawn.index("<svg") :]
