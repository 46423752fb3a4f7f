"""The progress bar of a training run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress_bar(total: int | None, *, shown: bool) -> Iterator[Callable[[str], None]]:
    """Shows a bar over `total` batches (None: unknown) in a terminal or a notebook, and removes it when the run ends; elsewhere nothing.

    Yields:
        a function that counts one batch as done and sets the text next to the bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console()
    if not shown or not (console.is_terminal or console.is_jupyter):
        yield lambda text: None
        return
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda text: bar.update(task, advance=1, description=text)
