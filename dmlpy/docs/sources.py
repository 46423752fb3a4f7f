"""Writes the site's sources: a folder of Markdown for Sphinx."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from dmlpy.docs.errors import errors_page
from dmlpy.docs.links import error_document, family_document, operator_document
from dmlpy.docs.markdown import page, toctree
from dmlpy.docs.mistakes import mistakes
from dmlpy.docs.operators import family_page, index_page, operator_page
from dmlpy.docs.pages import SECTIONS, Page, read_pages
from dmlpy.docs.reference import API, DIRECTML, MODULES, reference_pages
from dmlpy.inspection import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_INDEX = "operators/index"


def write_sources(folder: Path) -> list[str]:
    """Writes every document, below a folder.

    Returns:
        The paths of missing pages of a checkout: a wheel does not have all of them.
    """
    pages, missing = read_pages()
    for item in pages:
        for name, image in item.images.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(image, target)
    for document, text in documents(pages):
        path = folder / f"{document}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return missing


def documents(pages: list[Page]) -> Iterator[tuple[str, str]]:
    """Each document of the site with its text; `pages` are those that exist as files."""
    entries = catalog.operators()
    families = {family: [entry for entry in entries if entry.kind.family() == family] for family in catalog.families()}
    broken = {entry.kind.type_name: mistakes(entry.kind) for entry in entries}
    for item in pages:
        if item.document != "index":
            yield item.document, item.text
    yield _INDEX, index_page(entries, _INDEX)
    for family, members in families.items():
        yield family_document(family), family_page(family, members)
    for entry in entries:
        yield operator_document(entry.kind), operator_page(entry, broken[entry.kind.type_name])
    yield error_document(), errors_page(broken)
    yield from reference_pages()
    yield "index", _start(pages, list(families))


def _start(pages: list[Page], families: list[str]) -> str:
    """The first page: README, and the contents of all others."""
    text = next((item.text for item in pages if item.document == "index"), page("dmlpy", "DirectML's operators on any machine."))
    there = {item.document for item in pages}
    guide = {caption: [document for document in section.values() if document in there] for caption, section in SECTIONS.items()}
    guide[next(iter(guide))] = ["Overview <self>" if document == "index" else document for document in guide[next(iter(guide))]]
    reference = [
        "reference/layouts",
        error_document(),
        *(f"reference/api/{name}" for name in (*API, *MODULES)),
        DIRECTML,
        "reference/enumerations",
        "reference/levels",
    ]
    contents = {**guide, "Operators": [_INDEX, *map(family_document, families)], "Reference": reference}
    return "\n\n".join([text.rstrip(), *(toctree(entries, caption=caption, hidden=True) for caption, entries in contents.items())]) + "\n"
