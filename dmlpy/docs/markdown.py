"""The Markdown that pages consist of, in MyST's dialect for Sphinx."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#$~^])")
_CODE_SPAN = re.compile(r"(`[^`\n]+`)")


def escape(text: str) -> str:
    """Escapes plain text as one line of Markdown."""
    return _escaped(" ".join(text.split()))


def code(text: str) -> str:
    """Formats a name or a value as code."""
    if not text:
        return ""
    fence = "``" if "`" in text else "`"
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{' '.join(text.split())}{padding}{fence}"


def prose(text: str, link: Callable[[str], str | None] = lambda name: None) -> str:
    """Formats a docstring's sentences: names in backticks become code, and links if they have a page.

    Args:
        text: the sentences; an empty line separates paragraphs.
        link: returns the address for a name in backticks.
    """
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        parts = _CODE_SPAN.split(" ".join(paragraph.split()))
        paragraphs.append(
            "".join(_linked(part[1:-1], link) if part.startswith("`") and len(part) > 2 else _escaped(part) for part in parts)
        )
    return "\n\n".join(paragraphs)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _linked(name: str, link: Callable[[str], str | None]) -> str:
    target = link(name)
    return code(name) if target is None else f"[{code(name)}]({target})"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Formats a table whose cells are Markdown; bars in them are escaped here. It scrolls if the screen is too narrow."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_in_cell(text) for text in line)} |" for line in lines)


def _in_cell(text: str) -> str:
    flat = "<br>".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    # GitHub's tables split at every bar without a backslash before it, those in code too.
    return re.sub(r"(?<!\\)\|", r"\\|", flat)


def fence(text: str, language: str = "text") -> str:
    """Formats a block of code or output."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def directive(name: str, argument: str = "", body: str = "", options: Mapping[str, str] | None = None, depth: int = 3) -> str:
    """Formats a directive of Sphinx.

    Args:
        name: `toctree`, `py:class`, ...
        argument: the text after the name.
        body: Markdown, or whatever the directive reads.
        options: its options.
        depth: colons of the fence; more than those of a directive in the body.
    """
    colons = ":" * depth
    lines = [f"{colons}{{{name}}} {argument}".rstrip(), *(f":{key}: {value}".rstrip() for key, value in (options or {}).items())]
    return "\n".join([*lines, *(["", body] if body else []), colons])


def toctree(entries: Iterable[str], *, caption: str = "", hidden: bool = False, depth: int = 1) -> str:
    """Formats the list of the pages below this one."""
    options = {"maxdepth": str(depth)} | ({"caption": caption} if caption else {}) | ({"hidden": ""} if hidden else {})
    return directive("toctree", "", "\n".join(entries), options)


def page(title: str, *parts: str) -> str:
    """Joins a whole page; empty parts are omitted."""
    return "\n\n".join([f"# {title}", *filter(None, parts)]) + "\n"
