"""Output of the `dmlpy` commands, and shared options."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

import dmlpy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dmlpy.devices.reporting.profile import Profile
    from dmlpy.messages.tables import Table


def flag(*names: str, help: str, **more: Any) -> Any:
    """An option without a value: help shows none."""
    return typer.Option(*names, metavar="", help=help, **more)


LevelOption = Annotated[
    str, typer.Option("--feature-level", metavar="LEVEL", help="Highest feature level that may be used, like 5_0 or 5.0.")
]

ProfileOption = Annotated[bool, flag("--profile", help="Also measure node by node, and show the times by node and by operator.")]
TraceOption = Annotated[
    Path | None,
    typer.Option("--trace", dir_okay=False, help="Write the profile to this file, for ui.perfetto.dev; implies --profile."),
]


def standard_input(path: Path) -> BinaryIO | None:
    """The stream that `-` stands for in place of a file's name; None for a file."""
    return sys.stdin.buffer if str(path) == "-" else None


def write_trace(path: Path, profiles: Iterable[Profile]) -> None:
    """Writes profiles to a trace file, and prints where it is.

    Raises:
        DeviceError: the file cannot be written.
    """
    from dmlpy.devices.reporting import profile

    try:
        profile.write_trace(path, profiles)
    except OSError as error:
        raise dmlpy.DeviceError(f"{path} cannot be written: {error.strerror or error}") from error
    tell(f"trace in {path}: https://ui.perfetto.dev opens it")


@contextmanager
def report_errors(status: int = 1) -> Iterator[None]:
    """Reports dmlpy's errors, and optional packages that are missing, on stderr without a traceback; ends with an exit status.

    Python's warnings are printed there as those of the command.

    The status is 2 if a file cannot be read, an option is wrong or a package is missing. Give 2 as the status where only the command can be
    wrong.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: warn(f"warning: {message}")
            yield
    except dmlpy.DmlError as error:
        from dmlpy.dxdispatch.report import status_of

        warn(str(error))
        raise typer.Exit(max(status_of(error.problems), status)) from None
    except ModuleNotFoundError as error:
        if "pip install" not in str(error):  # a mistake, not a package that the user can install
            raise
        warn(str(error))
        raise typer.Exit(2) from None


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
