"""Builds the site: writes its sources, and converts them to HTML with Sphinx."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dmlpy
from dmlpy.docs.sources import write_sources
from dmlpy.system.garbage import collections_paused

_STATIC = Path(__file__).with_name("static")
_DESCRIPTION = "dmlpy describes, checks and runs DirectML's operators on any machine: on any CPU, and on NVIDIA GPUs with CUDA."
NEEDED = {
    "dask": "dask",
    "furo": "furo",
    "matplotlib": "matplotlib",
    "ml_dtypes": "ml_dtypes",
    "myst_parser": "myst-parser",
    "onnx": "onnx",
    "safetensors": "safetensors",
    "sphinx": "sphinx",
    "sphinx_copybutton": "sphinx-copybutton",
}
"""The packages of the extra `docs`, by the modules that the site's code and examples import."""


@dataclass(frozen=True)
class Built:
    """A built site.

    Attributes:
        pages: its HTML pages.
        missing: pages of a checkout that are not in it, since dmlpy was installed without them.
        warnings: Sphinx's warnings, one line each.
    """

    pages: int
    missing: tuple[str, ...]
    warnings: tuple[str, ...]


def build(output: Path, *, sources: Path | None = None, jobs: int | None = None) -> Built:
    """Builds the site into a folder.

    Args:
        output: the folder, which need not exist.
        sources: the folder for the generated Markdown; None means a temporary one.
        jobs: processes that Sphinx uses; None, one for each core.

    Raises:
        ModuleNotFoundError: a package of the extra `docs` is not installed.
    """
    if absent := [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]:
        raise ModuleNotFoundError(f"dmlpy docs needs packages that are not installed, {', '.join(absent)}: pip install 'dmlpy[docs]'")
    # All trees of documents stay until the end: looking through them for garbage took a fifth of the time.
    with collections_paused(), tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "sources") if sources is None else sources
        missing = write_sources(folder)
        warnings = _run_sphinx(folder, output, Path(temporary, "doctrees"), jobs or os.cpu_count() or 1)
    return Built(sum(1 for _ in output.rglob("*.html")), tuple(missing), tuple(warnings))


def settings() -> dict[str, Any]:
    """The settings of Sphinx, as in a conf.py."""
    return {
        "project": "dmlpy",
        "author": "the dmlpy developers",
        "version": dmlpy.__version__,
        "release": dmlpy.__version__,
        "extensions": [
            "myst_parser",
            "sphinx.ext.autodoc",
            "sphinx.ext.mathjax",
            "sphinx.ext.napoleon",
            "sphinx_copybutton",
            "dmlpy.docs.extension",
        ],
        "source_suffix": {".md": "markdown"},
        "myst_enable_extensions": ["colon_fence"],
        "myst_html_meta": {"description lang=en": _DESCRIPTION},
        "myst_heading_anchors": 4,
        "html_theme": "furo",
        "html_title": f"dmlpy {dmlpy.__version__}",
        "html_static_path": [str(_STATIC)],
        "html_css_files": ["site.css"],
        "html_js_files": ["formulas.js"],
        "html_logo": str(_STATIC / "icon.svg"),
        "html_favicon": str(_STATIC / "icon.svg"),
        # Formulas begin at the left, and long ones continue on the next line.
        "mathjax4_config": {"output": {"displayAlign": "left", "displayOverflow": "linebreak"}},
        # Only what is typed is copied from a block with commands and their output.
        "copybutton_prompt_text": r"\$ |>>> ",
        "copybutton_prompt_is_regexp": True,
        "copybutton_selector": "div:not(.highlight-text) > div.highlight pre",
        "html_copy_source": False,
        "html_show_sourcelink": False,
        "html_show_sphinx": False,
        "html_show_copyright": False,
        "autodoc_typehints_format": "short",
        "autodoc_member_order": "bysource",
        "python_use_unqualified_type_names": True,
        "python_maximum_signature_line_length": 100,
        "napoleon_use_ivar": True,
        "napoleon_numpy_docstring": False,
        # Cells of the members' tables define targets in addition to the directives of their structs.
        "toc_object_entries": False,
    }


def _run_sphinx(sources: Path, output: Path, doctrees: Path, jobs: int) -> list[str]:
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    log = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            str(sources), None, str(output), str(doctrees), "html", settings(), status=None, warning=log, freshenv=True, parallel=jobs
        )
        app.build()
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.getvalue())
    return [line for line in text.splitlines() if line.strip()]
