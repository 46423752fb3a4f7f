"""Tables of descs for a terminal, plain text and a notebook."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dmlpy.messages.naming import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import rich.console
    import rich.table

MAX_ROWS = 200
"""Rows of a table that are shown."""
_MAX_CELL = 1000
"""Characters of a cell that are shown."""


@dataclass(frozen=True)
class Table:
    """Rows of text under headings. Rows whose index is in `marked` are highlighted as broken.

    The forms for people are shortened: rows after `MAX_ROWS`, except broken ones as far as there is room, and the ends of
    very long cells. `rows` has all.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: frozenset[int] = field(default_factory=frozenset)

    def __rich_console__(
        self, console: rich.console.Console, options: rich.console.ConsoleOptions
    ) -> Iterator[rich.console.RenderableType]:
        """Renders the table as rows, or as stacked rows if the terminal is too narrow for the words in its columns."""
        table = self.to_rich()
        needed = table.__rich_measure__(console, options.update_width(10_000)).minimum
        yield table if needed <= options.max_width else self._stack_rows()

    def _visible_rows(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The rows for people, with their indices."""
        rows: Iterable[int] = range(len(self.rows))
        if len(self.rows) > MAX_ROWS:
            broken = sorted(self.marked)[: MAX_ROWS // 2]
            rows = sorted({*range(MAX_ROWS - len(broken)), *broken})
        count = 0
        for index in rows:
            count += 1
            yield index, tuple(map(_shown, self.rows[index]))
        if count < len(self.rows):
            yield len(self.rows), (f"... {len(self.rows) - count} more", *[""] * (len(self.headings) - 1))

    def _stack_rows(self) -> rich.console.Group:
        """Renders each row as its name with the cells below, each on a line behind its heading."""
        from rich.console import Group
        from rich.padding import Padding
        from rich.table import Table as Grid
        from rich.text import Text

        lines: list[rich.console.RenderableType] = [Text(printable(self.title), style="italic")]
        width = max(map(len, self.headings[1:]), default=0)
        for index, row in self._visible_rows():
            cells = [(heading, cell) for heading, cell in zip(self.headings, row, strict=True) if cell] or [("", "")]
            style = "red" if index in self.marked else ""
            lines.append(Text(("✗ " if index in self.marked else "") + cells[0][1], style=style or "bold"))
            grid = Grid.grid(padding=(0, 2))
            grid.add_column(width=width, no_wrap=True)
            grid.add_column(overflow="fold")
            for heading, cell in cells[1:]:
                grid.add_row(Text(heading, style=style or "dim"), Text(cell, style=style))
            lines.append(Padding(grid, (0, 0, 0, 4)))
        return Group(*lines, "")

    def to_rich(self) -> rich.table.Table:
        """Renders the table as rows, whatever the width; broken ones are red and begin with a cross."""
        import rich.box
        import rich.table
        import rich.text

        shown = list(self._visible_rows())
        title = rich.text.Text(printable(self.title), "table.title")
        table = rich.table.Table(title=title, title_justify="left", box=rich.box.SIMPLE_HEAD, pad_edge=False)
        for column, heading in enumerate(self.headings):
            # Names are not broken; a list of dimension counts by tensor is, as it would leave no room for the rest.
            short = all(len(row[column]) <= 60 for _, row in shown)
            table.add_column(heading, overflow="fold", no_wrap=column < 3 and short)
        for index, row in shown:
            broken = index in self.marked
            cells = [("✗ " if broken and column == 0 else "") + cell for column, cell in enumerate(row)]
            table.add_row(*(rich.text.Text(cell) for cell in cells), style="red" if broken else None)
        return table

    def to_text(self) -> str:
        """Renders the table without colours, as wide as needed, in ASCII as far as its cells allow: `print` must work in every encoding."""
        import rich.console

        console = rich.console.Console(width=200, color_system=None, legacy_windows=False)
        with console.capture() as capture:
            console.print(self.to_rich())
        text = capture.get().translate({ord("─"): "-", ord("✗"): "x"})
        return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")

    def to_html(self) -> str:
        """Renders the table for a notebook; broken rows are red and begin with a cross."""
        head = "".join(f"<th>{html.escape(heading)}</th>" for heading in self.headings)
        body = []
        for index, row in self._visible_rows():
            broken = index in self.marked
            cells = "".join(f"<td>{'✗ ' if broken and column == 0 else ''}{html.escape(cell)}</td>" for column, cell in enumerate(row))
            style = ' style="color: #b00020"' if broken else ""
            body.append(f"<tr{style}>{cells}</tr>")
        return f"<table><caption>{html.escape(printable(self.title))}</caption><tr>{head}</tr>{''.join(body)}</table>"


def _shown(cell: str) -> str:
    return printable(cell if len(cell) <= _MAX_CELL else f"{cell[:_MAX_CELL]}...", "\n")


def paragraph_html(text: str) -> str:
    """Formats preformatted text for a notebook."""
    return f"<pre>{html.escape(text)}</pre>"
