"""The site's pages by the names that they document."""

from __future__ import annotations

import posixpath
import re
from functools import cache
from typing import TYPE_CHECKING

from dmlpy.description.registry import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc

_VERSION_OR_PASS = re.compile(r"_(TRAINING|GRAD|BACKPROP|V\d+)(?=_|\d*$)|\d+$")


def operator_document(kind: type[OperatorDesc]) -> str:
    """The document of an operator's page."""
    return f"operators/{kind.short_name().lower()}"


def family_document(family: str) -> str:
    """The document of the page that lists a family's operators."""
    return f"operators/families/{family}"


def between(document: str, other: str) -> str:
    """The address of a document relative to another one's page."""
    return posixpath.relpath(f"{other}.md", posixpath.dirname(document) or ".")


def links_from(document: str) -> Callable[[str], str | None]:
    """Makes a function that returns the relative address of a name's page; None if it has no page, or is on this document."""

    def link(name: str) -> str | None:
        kind = _named().get(name)
        target = None if kind is None else operator_document(kind)
        return None if target is None or target == document else between(document, target)

    return link


@cache
def _named() -> dict[str, type[OperatorDesc]]:
    """The operators by each of their names."""
    return {name: kind for kind in OPERATORS.values() for name in (kind.short_name(), kind.type_name, kind.c_name, kind.__name__)}


def relatives(kind: type[OperatorDesc]) -> list[type[OperatorDesc]]:
    """The other operators of the same stem: versions, training forms and gradients."""
    stem = _stem(kind)
    return [other for other in OPERATORS.values() if other is not kind and _stem(other) == stem]


def _stem(kind: type[OperatorDesc]) -> str:
    return _VERSION_OR_PASS.sub("", kind.short_name())


def error_document() -> str:
    """The document of the page of error codes."""
    return "reference/errors"


def error_anchor(code: str) -> str:
    """The anchor of a code on that page: GitHub's slug of the heading, which every MyST resolves."""
    return re.sub(r"[^\w-]", "", code)
