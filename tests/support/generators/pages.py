"""The project's pages: Markdown files whose code, tables and links the tests check.

The Python blocks of a page are one program. Each prints the `text` block right below it, or nothing. A `console` block holds commands,
each after `$ `, with what they print; `sh` and `py` blocks are not run here. A table between `<!-- generated: NAME -->` and `<!-- end -->`
is made by `tests.support.generators.page_tables`.

`python -m tests.support.generators.pages [--check] [PAGE ...]` writes what code prints and what tables hold into the pages, all of them by
default. Read the difference before you commit it: the pages promise what they show. With `--check` nothing is written: the exit status
shows whether all are current. A page that needs a library that is not installed stays as it is.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.folders import EXAMPLES, ROOT
from tests.support.generators import page_tables
from tests.support.scripts import run
from tests.support.tools import missing

PAGES = sorted([ROOT / "README.md", *ROOT.glob(".github/*.md"), *ROOT.glob("dmlpy/**/*.md")])
"""The pages whose code runs."""

NEEDED = {"dmlpy/dask/README.md": "dask", "dmlpy/torch/README.md": "torch"}
"""The tools that a page's code needs."""

_BLOCK = re.compile(r"^```(?P<language>.*)\n(?P<text>(?:.*\n)*?)^```$(?:\n+```text\n(?P<shown>(?:.*\n)*?)^```$)?", re.MULTILINE)
_GENERATED = re.compile(r"^(?P<start><!-- generated: (?P<name>[a-z-]+) -->)\n(?P<text>.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Printed:
    """A piece of a page that shows output, and the output.

    Attributes:
        line: where the piece begins, from 1.
        span: the part of the page's text that shows the output.
        shown: that text.
        printed: what was printed.
    """

    line: int
    span: tuple[int, int]
    shown: str
    printed: str


def name_of(page: Path) -> str:
    """A page's path from the root, with slashes."""
    return page.relative_to(ROOT).as_posix()


def code(text: str, language: str) -> list[str]:
    """The blocks of a page in one language."""
    return [found["text"] for found in _BLOCK.finditer(text) if found["language"] == language]


def commands(block: str) -> list[str]:
    """The commands of a block that are joined by `&&`, without the folder of the environment's programs."""
    return [command.strip().replace(".venv/bin/", "") for command in block.split("&&")]


def comparable(text: str) -> list[str]:
    """The lines of an output without what differs between runs and machines: timings, last digits, blanks at the ends of lines."""
    text = re.sub(r"\d+\.\d+ ms", "_ ms", text)
    text = re.sub(r"-?\d+\.\d{4,}", lambda number: f"{float(number[0]):.4g}", text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def executed(text: str, name: str, folder: Path) -> Iterator[Printed]:
    """Runs a page's Python and console blocks in a folder and yields what they print, in the page's order.

    The working directory has to be `folder`; a copy of the examples is made there.

    Args:
        text: the page.
        name: the page's name, for tracebacks.
        folder: an empty folder, which the code may write to.
    """
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    names: dict[str, Any] = {}
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["language"] == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * line + found["text"], name, "exec"), names)
            yield Printed(line, found.span("shown"), found["shown"] or "", printed.getvalue())
        elif found["language"] == "console":
            yield from _sessions(found, line, folder)


def _sessions(block: re.Match[str], line: int, folder: Path) -> Iterator[Printed]:
    """The commands of a console block. Those on files named `wrong...` are expected to end with status 1."""
    for session in re.finditer(r"^\$ (?P<command>.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", block["text"], re.MULTILINE):
        if "pronounce.py" in session["command"] and missing("g2p-en"):
            continue  # the tests of pronounce.py check it
        printed = run(*shlex.split(session["command"]), folder=folder, status=int("wrong" in session["command"]))
        start = block.start("text")
        yield Printed(line, (start + session.start("shown"), start + session.end("shown")), session["shown"], printed)


def with_tables(text: str) -> str:
    """The page with its generated tables made anew.

    Raises:
        KeyError: A table's name is unknown.
    """
    return _GENERATED.sub(lambda found: f"{found['start']}\n{page_tables.TABLES[found['name']]()}<!-- end -->", text)


def rewritten(page: Path) -> str:
    """The page as its code and the code's tables have it.

    Raises:
        ValueError: Python code prints something, and no `text` block below it shows it.
    """
    text = page.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        outputs = list(executed(text, name_of(page), Path(folder)))
    for output in reversed(outputs):
        if comparable(output.printed) != comparable(output.shown):
            if output.span == (-1, -1):
                raise ValueError(f"{name_of(page)}, line {output.line}: the code prints, but there is no text block:\n{output.printed}")
            start, end = output.span
            text = text[:start] + "".join(f"{line.rstrip()}\n" for line in output.printed.strip("\n").splitlines()) + text[end:]
    return with_tables(text)


def main(arguments: list[str]) -> int:
    """Rewrites the pages that are named, or all of them, or with `--check` reports what is not current; returns the exit status."""
    check, stale = "--check" in arguments, False
    named = [Path(argument).resolve() for argument in arguments if argument != "--check"]
    for page in named or PAGES:
        tool = NEEDED.get(name_of(page))
        if tool and (reason := missing(tool)):
            print(f"{name_of(page)} stays as it is: {reason}")
            continue
        text = rewritten(page)
        if text != page.read_text("utf-8"):
            stale = True
            if not check:
                page.write_text(text, "utf-8", newline="\n")
            print(f"{name_of(page)} is {'not current: run python -m tests.support.generators.pages' if check else 'rewritten'}")
    return int(check and stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
