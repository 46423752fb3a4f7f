"""A record as an SVG picture: the time of each step against the cost model's roofline.

Both axes are logarithmic. Diagonal lines show the roofline and its multiples: the distance of a marker above the lowest line is the
possible gain. The file does not depend on when or where it was drawn; it contains the SHA-256 of its record.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy.bench import tables
from dmlpy.bench.records import floor_us
from dmlpy.bench.shapes import SHAPES, Recurrent

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dmlpy.bench.records import Record

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind people can distinguish; the markers differ too."""
MARKERS = "os^Dvp*"
MULTIPLES = (1, 2, 5, 10)
MOST_LABELS = 45
SIZE = (10.0, 8.0)
"""The size in inches of 72 points."""
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "svg.fonttype": "none",  # keep text as text
    "svg.hashsalt": "dmlpy",  # reproducible element ids
}


@dataclass(frozen=True)
class Point:
    """One run: its shape's key, type, pass and column, and its roofline and measured microseconds per step."""

    shape: str
    dtype: str
    which: str
    column: tables.Column
    floor_us: float
    measured_us: float


def points(record: Record) -> list[Point]:
    """The points of all recurrent runs that have both times, in the record's order."""
    found = []
    floors = {row.work: floor_us(row.runs.values()) for row in tables.rows(record)}
    for run in record.runs:
        shape, floor = SHAPES.get(run.shape), floors[run.shape, run.pass_, run.dtype]
        if isinstance(shape, Recurrent) and run.status == "ok" and floor and run.per_step_us:
            column = (run.subject, run.mode)
            found.append(Point(shape.key, run.dtype, run.pass_, column, floor / shape.steps, run.per_step_us))
    return found


def draw(record: Record, sha256: str) -> str:
    """Draws a record, whose file has this hash, as SVG.

    Raises:
        ModuleNotFoundError: matplotlib is missing.
        ValueError: No run has a time and a roofline.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError("the picture needs matplotlib: pip install 'dmlpy[bench]'", name="matplotlib") from None

    found = points(record)
    if not found:
        raise ValueError("the record has no recurrent run with both a time and a floor: there is nothing to draw")
    with matplotlib.rc_context(STYLE):
        figure = Figure(SIZE)
        _fill(figure, record, found)
        text = io.StringIO()
        metadata = {
            "Date": None,
            "Creator": "dmlpy bench",
            "Title": f"Time of a step against the model's floor: {record.device_name}",
            "Source": f"sha256:{sha256}",
        }
        figure.savefig(text, format="svg", bbox_inches="tight", metadata=metadata)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _fill(figure: Figure, record: Record, found: list[Point]) -> None:
    axes = figure.add_axes((0.08, 0.07, 0.9, 0.61))
    _lines(axes, found)
    _markers(axes, record, found)
    _labels(axes, found)
    figure.suptitle(f"Time of a step by dmlpy bench, {record.date[:10]}: {record.device_name}", x=0.08, y=0.99, ha="left", fontsize=11)
    axes.set(xlabel="floor of the model, µs a step (log)", ylabel="measured, µs a step (log)")


def _lines(axes: Axes, found: list[Point]) -> None:
    """Draws the roofline and its multiples, over a range that includes all points."""
    left, right = min(point.floor_us for point in found) / 1.6, max(point.floor_us for point in found) * 1.6
    top = max(max(point.measured_us for point in found) * 1.6, MULTIPLES[-1] * right * 1.6)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(min(left, min(point.measured_us for point in found) / 1.6), top))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}".replace(",", " "))
    axes.grid(which="major", color="#e0e0e0", linewidth=0.6)
    for multiple in MULTIPLES:
        axes.plot((left, right), (multiple * left, multiple * right), color="#777777", linewidth=1.4 if multiple == 1 else 0.8, zorder=1)
        text = "floor" if multiple == 1 else f"{multiple}×"
        place = (right / 1.05, multiple * right / 1.05)
        axes.annotate(
            text, place, ha="right", va="bottom", color="#555555", rotation=45, rotation_mode="anchor", transform_rotates_text=True
        )


def _markers(axes: Axes, record: Record, found: list[Point]) -> None:
    """Draws the points: a colour for each library, a marker for each of its modes; training is hollow."""
    names = dict(zip(tables.columns(record), tables.headings(record), strict=True))
    drawn = [column for column in names if any(point.column == column for point in found)]
    libraries = list(dict.fromkeys(subject for subject, _ in drawn))
    for index, column in enumerate(drawn):
        colour, marker = COLOURS[libraries.index(column[0]) % len(COLOURS)], MARKERS[index % len(MARKERS)]
        for which in ("forward", "training"):
            own = [point for point in found if (point.column, point.which) == (column, which)]
            axes.plot(
                [point.floor_us for point in own],
                [point.measured_us for point in own],
                linestyle="none",
                marker=marker,
                color=colour,
                markerfacecolor=colour if which == "forward" else "white",
                markersize=6,
                label=names[column] if which == "forward" else None,
                zorder=3,
            )
    title = "hollow: training" if any(point.which == "training" for point in found) else None
    axes.legend(loc="upper left", title=title, framealpha=0.95)


def _labels(axes: Axes, found: list[Point]) -> None:
    """Writes the shapes above the axes, each over its roofline, spaced as needed. If there are too many, training is not labelled."""
    places = {(point.shape, point.dtype, point.which): point.floor_us for point in found}
    if len(places) > MOST_LABELS:
        places = {name: floor for name, floor in places.items() if name[2] == "forward"}
    typed = len({dtype for _, dtype, _ in places}) > 1
    ordered = sorted(places.items(), key=lambda place: (place[1], place[0]))
    exact = [float(axes.transAxes.inverted().transform(axes.transData.transform((floor, 1.0)))[0]) for _, floor in ordered]
    for ((shape, dtype, which), _), x, label_x in zip(ordered, exact, _apart(exact, 1 / MOST_LABELS), strict=True):
        axes.annotate(
            ", ".join([shape, *([dtype] if typed else []), *([which] if which == "training" else [])]),
            (x, 1.0),
            (label_x, 1.04),
            xycoords="axes fraction",
            textcoords="axes fraction",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=7,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0, "relpos": (0.5, 0.0)},
        )


def _apart(places: list[float], gap: float) -> list[float]:
    """Moves ascending positions as little as possible until they have at least this gap; adjacent ones share the displacement."""
    groups: list[tuple[float, int]] = []  # the mean of place - index * gap, and how many share it
    for index, place in enumerate(places):
        mean, count = place - index * gap, 1
        while groups and groups[-1][0] > mean:
            other, others = groups.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        groups.append((mean, count))
    starts = [mean for mean, count in groups for _ in range(count)]
    return [start + index * gap for index, start in enumerate(starts)]


def record_hash(path: Path) -> str:
    """The SHA-256 of a record's file, independent of its line endings."""
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def hash_in(svg: str) -> str | None:
    """The hash of the record that a picture was drawn from; None if it has none."""
    found = re.search(r"<dc:source>\s*sha256:([0-9a-f]{64})\s*</dc:source>", svg)
    return found[1] if found else None
