"""A record as an SVG picture: the time of each library relative to dmlpy's, a line for each shape and pass.

The axis of times is logarithmic. A marker to the right of dmlpy's line is a slower library; the short bar to its left is the floor. The
file does not depend on when or where it was drawn; it contains the SHA-256 of its record.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy.bench import tables
from dmlpy.bench.shapes import SHAPES

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from dmlpy.bench.records import Record

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind people can distinguish; the markers differ too."""
MARKERS = "os^Dvp*"
WIDTH, MARGIN, LINE = 9.5, 1.3, 0.24
"""The width of the picture, the height around its lines and that of a line, in inches of 72 points."""
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "svg.fonttype": "none",  # keep text as text
    "svg.hashsalt": "dmlpy",  # reproducible element ids
}


@dataclass(frozen=True)
class Line:
    """One work: its label, dmlpy's time as text, the floor over dmlpy's time, and the ratios of the other columns."""

    label: str
    own_time: str
    floor: float | None
    ratios: dict[tables.Column, float]


def lines(record: Record) -> list[Line]:
    """The layers and normalizations that dmlpy and another library have a time for, in the record's order."""
    drawn_lines = []
    typed = len({row.work[2] for row in tables.rows(record)}) > 1
    for row in tables.rows(record):
        ratios = {column: ratio for column in row.runs if (ratio := row.ratio(column)) is not None}
        own_times = [run.median_us for (subject, _), run in row.runs.items() if subject == tables.OWN and run.median_us is not None]
        shape, which, dtype = row.work
        if ratios and shape in SHAPES:
            label = ", ".join([shape, *([which] if which != "forward" else []), *([dtype] if typed else [])])
            over = row.over_floor()
            drawn_lines.append(Line(label, tables.time_text(min(own_times)), 1 / over if over else None, ratios))
    return drawn_lines


def draw(record: Record, sha256: str) -> str:
    """Draws a record, whose file has this hash, as SVG.

    Raises:
        ModuleNotFoundError: matplotlib is missing.
        ValueError: No work has a time of dmlpy and one of another library.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError("the picture needs matplotlib: pip install 'dmlpy[bench]'", name="matplotlib") from None

    drawn_lines = lines(record)
    if not drawn_lines:
        raise ValueError("the record has no work that both dmlpy and another library were timed with: there is nothing to draw")
    title = f"Time relative to dmlpy's: {record.device_name}, {record.date[:10]}"
    with matplotlib.rc_context(STYLE):
        height = MARGIN + LINE * len(drawn_lines)
        figure = Figure((WIDTH, height))
        axes = figure.add_axes((0.3, 0.55 / height, 0.58, 1 - MARGIN / height))
        _lines(axes, drawn_lines)
        _markers(axes, record, drawn_lines)
        figure.suptitle(title, x=0.01, y=1 - 0.08 / height, ha="left", va="top", fontsize=11)
        text = io.StringIO()
        metadata = {"Date": None, "Creator": "dmlpy bench", "Title": title, "Source": f"sha256:{sha256}"}
        figure.savefig(text, format="svg", metadata=metadata)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _lines(axes: Axes, drawn_lines: list[Line]) -> None:
    """Labels the lines at the left and with dmlpy's times at the right, and draws dmlpy's own time and the floors."""
    ratios = [ratio for line in drawn_lines for ratio in (*line.ratios.values(), line.floor or 1.0, 1.0)]
    axes.set(xscale="log", xlim=(min(ratios) / 1.2, max(ratios) * 1.2), ylim=(len(drawn_lines) - 0.4, -0.6))
    axes.set_yticks(range(len(drawn_lines)), [line.label for line in drawn_lines])
    axes.tick_params(axis="y", length=0)
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.grid(axis="both", color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.axvline(1.0, color="#333333", linewidth=1.2)
    axes.set_xlabel("time relative to dmlpy's, logarithmic: to the right of the line dmlpy is faster")
    for place, line in enumerate(drawn_lines):
        axes.annotate(line.own_time, (1.02, place), xycoords=("axes fraction", "data"), va="center", annotation_clip=False)
        if line.floor is not None:
            axes.plot((line.floor,) * 2, (place - 0.3, place + 0.3), color="#777777", linewidth=1.6, solid_capstyle="butt")
    axes.annotate("dmlpy's time", (1.02, 0.0), (0, -12), xycoords="axes fraction", textcoords="offset points", annotation_clip=False)


def _markers(axes: Axes, record: Record, drawn_lines: list[Line]) -> None:
    """Draws the ratios: a colour for each library, a marker for each of its modes."""
    names = dict(zip(tables.columns(record), tables.headings(record), strict=True))
    drawn = [column for column in names if any(column in line.ratios for line in drawn_lines)]
    libraries = list(dict.fromkeys(subject for subject, _ in drawn))
    if any(line.floor is not None for line in drawn_lines):
        axes.plot([], [], linestyle="none", marker="|", markersize=9, markeredgewidth=1.6, color="#777777", label="floor")
    for index, column in enumerate(drawn):
        places = [(line.ratios[column], place) for place, line in enumerate(drawn_lines) if column in line.ratios]
        axes.plot(
            [ratio for ratio, _ in places],
            [place for _, place in places],
            linestyle="none",
            marker=MARKERS[index % len(MARKERS)],
            color=COLOURS[libraries.index(column[0]) % len(COLOURS)],
            markersize=6,
            label=names[column],
        )
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, frameon=False, columnspacing=1.2, handletextpad=0.3)


def record_hash(path: Path) -> str:
    """The SHA-256 of a record's file, independent of its line endings."""
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def hash_in(svg: str) -> str | None:
    """The hash of the record that a picture was drawn from; None if it has none."""
    match = re.search(r"<dc:source>\s*sha256:([0-9a-f]{64})\s*</dc:source>", svg)
    return match[1] if match else None
