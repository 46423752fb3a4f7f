"""A notebook as a page: its cells are executed when the page is written, and shown with what they print and return."""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
from typing import TYPE_CHECKING, Any

from dmlpy.docs.markdown import directive, fence

if TYPE_CHECKING:
    from pathlib import Path

_FIGURES: Any = {"backend": "agg", "svg.hashsalt": "dmlpy"}
"""Matplotlib's settings: without a window, and a figure of the same numbers is the same file, however often it is drawn."""


def executed(notebook: Path) -> str:
    """The notebook's cells as Markdown, each cell of code with its outputs.

    Raises:
        ModuleNotFoundError: a package that the notebook imports is not installed.
    """
    import matplotlib as mpl

    variables: dict[str, Any] = {"__name__": "__main__"}
    parts = []
    with mpl.rc_context(_FIGURES):
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            parts += [source] if cell["cell_type"] == "markdown" else _cell(cell["id"], source, variables)
    return "\n\n".join(parts) + "\n"


def run_cell(name: str, source: str, variables: dict[str, Any]) -> Any:
    """Runs a cell as Jupyter does; the value of its last expression, or None."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), variables)
    return eval(compile(ast.Expression(last.value), name, "eval"), variables) if isinstance(last, ast.Expr) else None


def _cell(name: str, source: str, variables: dict[str, Any]) -> list[str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = run_cell(name, source, variables)
    parts = [fence(source, "python")]
    if text := printed.getvalue():
        parts.append(fence(text))
    if value is not None:
        parts.append(directive("raw", "html", f'<div class="dmlpy-output">{_shown(value)}</div>'))
    return parts


def _shown(value: Any) -> str:
    """A value as Jupyter shows it: as HTML or a picture if its class has one, else as text."""
    for method in ("_repr_html_", "_repr_svg_"):
        if shown := getattr(value, method, lambda: None)():
            return str(shown)
    if hasattr(value, "savefig"):
        return figure_svg(value)
    return f"<pre>{html.escape(repr(value))}</pre>"


def figure_svg(figure: Any) -> str:
    """A figure of Matplotlib as an SVG element."""
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
