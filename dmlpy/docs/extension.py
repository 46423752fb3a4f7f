"""The site's additions to Sphinx and MyST: link targets for members, and Markdown in docstrings."""

from __future__ import annotations

import html
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.domains.python import PythonDomain
from sphinx.domains.std import StandardDomain
from sphinx.util.docutils import SphinxRole

from dmlpy.description.structs import Struct
from dmlpy.docs.links import error_document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.environment import BuildEnvironment

_CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


class MemberRole(SphinxRole):
    """A struct's member, `LSTMDesc.input_tensor`: shown as the member's name, and a target for links from here and other projects."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        name = f"dmlpy.{self.text}"
        shown = nodes.literal(self.text, self.text.rpartition(".")[2], ids=[name], classes=["dmlpy-member"])
        domain = self.env.get_domain("py")
        assert isinstance(domain, PythonDomain)
        domain.note_object(name, "attribute", name, location=shown)
        return [shown], []


def _as_rest(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Converts Markdown code spans in docstrings to reStructuredText, which uses two backticks and interprets single ones.

    For a struct, removes the members, which a table on the page shows.
    """
    if isinstance(obj, type) and issubclass(obj, Struct):
        lines[:] = obj.description().splitlines()
    for index, line in enumerate(lines):
        parts = _CODE_SPAN.split(line)
        lines[index] = "".join(
            f"``{part}``" if place % 2 else re.sub(r"(?<!\\)([*|])", r"\\\1", re.sub(r"(\w)_(?=\W|$)", r"\1\\_", part))
            for place, part in enumerate(parts)
        )


def _contents_of(env: BuildEnvironment, builder: Builder, document: str) -> str:
    """The sidebar of a page: every family, and the operators of the page's family only."""
    parts = []
    for caption, entries in _sections(env):
        parts.append(f'<p class="caption" role="heading"><span class="caption-text">{html.escape(caption)}</span></p>')
        parts.append(_listed(env, builder, document, entries, 1))
    return "\n".join(parts)


@cache
def _sections(env: BuildEnvironment) -> list[tuple[str, list[tuple[str | None, str]]]]:
    """The captions of the first page's contents with their entries. Sphinx reads the page from disk each time that it is asked for it."""
    return [(tree["caption"], tree["entries"]) for tree in env.get_doctree(env.config.root_doc).findall(addnodes.toctree)]


def _listed(env: BuildEnvironment, builder: Builder, document: str, entries: Iterable[tuple[str | None, str]], level: int) -> str:
    lines = []
    for label, name in entries:
        entry = env.config.root_doc if name == "self" else name
        # The parent of a page is the one that lists it; no page has two. The first page, which lists all others, is listed alone.
        below = () if entry == env.config.root_doc else env.toctree_includes.get(entry, ())
        current = " current" if document == entry or document in below else ""
        title, address = html.escape(label or env.titles[entry].astext()), builder.get_relative_uri(document, entry)
        nested = _listed(env, builder, document, ((None, child) for child in below), level + 1) if below and current else ""
        lines.append(
            f'<li class="toctree-l{level}{current}"><a class="reference internal{current}" href="{address or "#"}">{title}</a>{nested}</li>'
        )
    return f"<ul>{''.join(lines)}</ul>"


def _note_codes(app: Sphinx, doctree: nodes.document) -> None:
    """Makes each heading of the page of error codes an object, which a search for the code shows before all pages."""
    if app.env.docname != error_document():
        return
    domain = app.env.get_domain("std")
    assert isinstance(domain, StandardDomain)
    for section in doctree.findall(nodes.section):
        if isinstance(section[0], nodes.title) and isinstance(section[0][0], nodes.literal):
            domain.note_object("error-code", section[0].astext(), section["ids"][0], location=section)


def _give_contents(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Supplies the theme's sidebar. Sphinx's function copies every operator's entry for every page, which doubles the build time."""
    context["toctree"] = lambda **options: _contents_of(app.env, app.builder, pagename)


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the extension; Sphinx calls this."""
    app.add_role("dml-member", MemberRole())
    app.add_object_type("error-code", "error-code", objname="error code")
    app.connect("doctree-read", _note_codes)
    # Before napoleon, which parses the sections.
    app.connect("autodoc-process-docstring", _as_rest, priority=100)
    app.connect("html-page-context", _give_contents, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
