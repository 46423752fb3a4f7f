"""The built site that tests look at: the one in the folder that DMLPY_TEST_SITE names, or one that is built once for all of them."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from tests.support.tools import require


@cache
def built_site() -> Path:
    """A folder with the HTML in `site` and its Markdown in `sources`; Sphinx had no warnings."""
    if place := os.environ.get("DMLPY_TEST_SITE"):
        return Path(place)
    require("sphinx")
    from dmlpy.docs import build

    folder = Path(tempfile.mkdtemp(prefix="dmlpy-site-"))
    built = build(folder / "site", sources=folder / "sources", jobs=2)
    assert built.warnings == ()
    return folder


def page(document: str) -> str:
    """A page's HTML."""
    return (built_site() / "site" / f"{document}.html").read_text(encoding="utf-8")
