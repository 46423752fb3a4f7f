"""Output of the `dmlpy` commands, and shared options."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

import dmlpy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.messages.tables import Table

UNREADABLE = frozenset(("file.unreadable", "onnx.file"))
"""The codes of files that do not exist or that nobody may read."""
LevelOption = Annotated[
    str, typer.Option("--feature-level", metavar="LEVEL", help="Highest feature level that may be used, like 5_0 or 5.0.")
]


@contextmanager
def report_errors(status: int = 1) -> Iterator[None]:
    """Reports dmlpy's errors on stderr, without a traceback, and ends with an exit status: 2 if a file that is named cannot be read."""
    try:
        yield
    except dmlpy.DmlError as error:
        warn(str(error))
        unreadable = any(problem.code in UNREADABLE for problem in error.problems)
        raise typer.Exit(2 if unreadable else status) from None


def warn(text: str) -> None:
    """Prints a text on stderr; names from files cannot control the terminal."""
    tell(text, error=True)


def tell(text: str, *, error: bool = False) -> None:
    """Prints a text; names from files cannot control the terminal."""
    from dmlpy.messages.naming import printable

    typer.echo(printable(text, "\n\t"), err=error)


def show(table: Table) -> None:
    """Prints a table: in colour on a terminal, else as plain text of unlimited width."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        console.print(table)
    else:
        typer.echo(table.to_text())
        typer.echo()
