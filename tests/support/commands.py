"""Commands of `dmlpy`, run in this process."""

from __future__ import annotations

from typing import Any

import typer.testing

from dmlpy.cli.main import app


def dmlpy(*arguments: Any, stdin: bytes | None = None) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command."""
    result = typer.testing.CliRunner().invoke(app, [str(argument) for argument in arguments], stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def on_numpy(*arguments: Any, stdin: bytes | None = None) -> tuple[int, str, str]:
    return dmlpy("run", "--device", "numpy", *arguments, stdin=stdin)
