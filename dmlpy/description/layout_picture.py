"""A picture of a tensor's layout in memory: SVG with a cell for each element, in index order and in memory order."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COLUMNS, _ROWS, _PANELS, _STRIP = 8, 5, 2, 24
"""Entries that are drawn along the last axis, along the one before it, along all others together, and elements of memory."""
_STRIP_ROW = 12
_CELL_HEIGHT, _LINE, _GAP, _MARGIN = 22, 16, 22, 4
_CHARACTER = 6.7
"""Width of a character of the font, in pixels."""

Index = tuple[int, ...]


def layout_svg(sizes: Sequence[int], strides: Sequence[int], *, axis_names: Sequence[str] = (), label: str = "") -> str:
    """The picture as an `<svg>` element, for a notebook or a page.

    Each cell holds the element's offset from the tensor's address, in elements. Where the tensor is not packed, a strip below shows the
    first elements of memory, each with the index of the entry that lies there. Colours follow the text colour, for light and dark pages.

    Args:
        sizes: entries along each axis, all at least 1; of long axes only the beginning is drawn.
        strides: elements from one entry to the next along each axis.
        axis_names: the name of each axis, like `batch_size`; numbers are not shown.
        label: the alternative text for those who cannot see the picture.
    """
    picture = _Picture(tuple(sizes), tuple(strides))
    for line in _legend(sizes, strides, axis_names):
        picture.text(_MARGIN, line, anchor="start")
        picture.y += _LINE
    picture.y += 8
    picture.panels()
    if not _is_packed(sizes, strides):
        picture.strip()
    return picture.svg(label)


def _is_packed(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    packed = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size > 1 and stride != packed:
            return False
        packed *= size
    return True


def _legend(sizes: Sequence[int], strides: Sequence[int], axis_names: Sequence[str]) -> Iterator[str]:
    """A line for each axis: its name, size and stride, in columns."""
    names = ["" if name.isdigit() else name for name in axis_names] or [""] * len(sizes)
    width, size_width = max(map(len, names)), max(len(str(size)) for size in sizes)
    for axis, (name, size, stride) in enumerate(zip(names, sizes, strides, strict=True)):
        named = f"{name:<{width}}  " if width else ""
        broadcast = "  (broadcast)" if size > 1 and stride == 0 else ""
        yield f"axis {axis}  {named}size {size:<{size_width}}  stride {stride}{broadcast}"


class _Picture:
    """The parts of a picture so far, and their height."""

    def __init__(self, sizes: Index, strides: Index) -> None:
        self.sizes, self.strides = sizes, strides
        self.span = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        self.parts: list[str] = []
        self.y = _MARGIN
        self.width = 0.0
        self.cell_width = max(30.0, _CHARACTER * len(str(self.span - 1)) + 12)

    def svg(self, label: str) -> str:
        """All parts as one element."""
        width, height = math.ceil(self.width + _MARGIN), math.ceil(self.y + _MARGIN)
        title = html.escape(label, quote=True)
        return (
            f'<svg class="dmlpy-layout" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" font-family="ui-monospace, monospace" font-size="11" '
            f'fill="currentColor">{"".join(self.parts)}</svg>'
        )

    def text(self, x: float, text: str, *, anchor: str = "middle", y: float | None = None) -> None:
        """Adds a line of text whose top is at `y`, by default below the previous parts."""
        start = x if anchor == "start" else x - _CHARACTER * len(text) / 2
        self.width = max(self.width, start + _CHARACTER * len(text))
        top = self.y if y is None else y
        spaced = ' xml:space="preserve"' if "  " in text else ""
        self.parts.append(f'<text x="{x:g}" y="{top + 12:g}" text-anchor="{anchor}"{spaced}>{html.escape(text)}</text>')

    def cell(self, x: float, y: float, offset: int | None, text: str, width: float) -> None:
        """Adds a box: darker the further its element is from the tensor's address, dashed where memory holds no element."""
        self.width = max(self.width, x + width)
        depth = 0.1 + 0.5 * (offset or 0) / max(1, self.span - 1)
        fill = (
            'fill="none" stroke-dasharray="2 2"' if offset is None else f'fill="var(--dmlpy-picture, #3a7bd5)" fill-opacity="{depth:.2f}"'
        )
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{_CELL_HEIGHT}" {fill} stroke="currentColor" stroke-opacity="0.45"/>'
        )
        self.text(x + width / 2, text, y=y + 4)

    def panels(self) -> None:
        """Adds the entries by index: a matrix of the last two axes for each index of the others."""
        sizes, strides = self.sizes, self.strides
        leading, (rows, columns) = sizes[:-2], (1, *sizes)[-2:]
        row_stride, column_stride = (0, *strides)[-2:]
        shown_rows, shown_columns = min(rows, _ROWS), min(columns, _COLUMNS)
        left, top, bottom = float(_MARGIN), self.y, float(self.y)
        for index in _first_indices(leading, _PANELS):
            base = sum(place * stride for place, stride in zip(index, strides, strict=False))
            y = top
            if leading:
                self.text(left, f"[{', '.join([*map(str, index), ':', ':'])}]", anchor="start", y=y)
                y += _LINE + 2
            for row in range(shown_rows):
                for column in range(shown_columns):
                    offset = base + row * row_stride + column * column_stride
                    self.cell(left + column * self.cell_width, y, offset, str(offset), self.cell_width)
                if columns > shown_columns:
                    self.text(left + shown_columns * self.cell_width + 10, "…", y=y + 4)
                y += _CELL_HEIGHT
            if rows > shown_rows:
                self.text(left + self.cell_width / 2, "⋮", y=y)
                y += _LINE
            taken = shown_columns * self.cell_width + (20 if columns > shown_columns else 0)
            left += max(taken, _CHARACTER * len(f"[{', '.join('0' for _ in sizes)}]")) + _GAP
            bottom = max(bottom, y)
        if math.prod(leading) > _PANELS:
            self.text(left, f"… {math.prod(leading)} in all", anchor="start", y=top)
        self.y = math.ceil(bottom) + 6

    def strip(self) -> None:
        """Adds memory from the tensor's address on, with the index of the first entry at each element."""
        shown = min(self.span, _STRIP)
        entries = _entries_at(self.sizes, self.strides, shown)
        texts = [
            "".join(str(place) for place in index) if max(self.sizes) <= 10 else ",".join(map(str, index)) for index in entries.values()
        ]
        width = max(self.cell_width, _CHARACTER * max(map(len, texts), default=1) + 8)
        self.text(_MARGIN, "memory: the offset of each element, and the index of the entry that lies there", anchor="start")
        self.y += _LINE + 2
        labels = dict(zip(entries, texts, strict=True))
        for start in range(0, shown, _STRIP_ROW):
            for place in range(start, min(start + _STRIP_ROW, shown)):
                x = _MARGIN + (place - start) * width
                self.text(x + width / 2, str(place), y=self.y)
                self.cell(x, self.y + _LINE, place if place in entries else None, labels.get(place, ""), width)
            self.y += _LINE + _CELL_HEIGHT + 6
        if self.span > shown:
            self.text(_MARGIN, f"… {self.span} elements in all", anchor="start")
            self.y += _LINE


def _entries_at(sizes: Index, strides: Index, end: int) -> dict[int, Index]:
    """The index of the first entry at each occupied offset below `end`, by offset."""
    # By offset, the first index of the axes from one on, last axis first: tensors that overlap themselves have very many entries there.
    indices: dict[int, Index] = {0: ()}
    for size, stride in reversed(list(zip(sizes, strides, strict=True))):
        longer: dict[int, Index] = {}
        for place in range(1 if stride == 0 else min(size, -(-end // stride))):
            for offset, index in indices.items():
                if offset + place * stride < end:
                    longer.setdefault(offset + place * stride, (place, *index))
        indices = longer
    return dict(sorted(indices.items()))


def _first_indices(sizes: Index, most: int) -> Iterator[Index]:
    """The first indices of an array of any sizes, in row-major order."""
    for number in range(min(math.prod(sizes), most)):
        index: Index = ()
        for size in reversed(sizes):
            number, place = divmod(number, size)
            index = (place, *index)
        yield index
