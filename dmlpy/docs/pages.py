"""The project's pages on the site: README and those of its packages, with links adapted to the site's documents."""

from __future__ import annotations

import html
import posixpath
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TYPE_CHECKING

import dmlpy
from dmlpy.docs.markdown import code
from dmlpy.docs.notebook import executed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

PACKAGE = Path(dmlpy.__file__).parent
ROOT = PACKAGE.parent

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Start here": {
        "README.md": "index",
        "dmlpy/docs/guides/gallery.md": "guide/gallery",
        "dmlpy/eager/README.md": "guide/eager",
        "examples/tour.ipynb": "guide/tour",
        "dmlpy/devices/cuda/README.md": "guide/gpu",
        "dmlpy/docs/guides/from-directml.md": "guide/from-directml",
        "examples/README.md": "guide/examples",
    },
    "Operators and graphs": {
        "dmlpy/description/README.md": "guide/description",
        "dmlpy/validation/README.md": "guide/validation",
        "dmlpy/operators/README.md": "guide/operators",
        "dmlpy/operators/recurrent/README.md": "guide/recurrent",
        "dmlpy/operators/normalization/README.md": "guide/normalization",
        "dmlpy/devices/README.md": "guide/devices",
        "dmlpy/docs/guides/cpu.md": "guide/cpu",
        "dmlpy/docs/guides/cuda.md": "guide/cuda",
        "dmlpy/docs/guides/bfloat16.md": "guide/bfloat16",
        "dmlpy/docs/guides/accuracy.md": "guide/accuracy",
        "dmlpy/graphs/README.md": "guide/graphs",
        "dmlpy/x/README.md": "guide/x",
        "dmlpy/evidence/README.md": "guide/evidence",
    },
    "Models and libraries": {
        "dmlpy/onnx/README.md": "guide/onnx",
        "dmlpy/docs/guides/onnx-results.md": "guide/onnx-results",
        "dmlpy/docs/guides/onnx-compilation.md": "guide/onnx-compilation",
        "dmlpy/nn/README.md": "guide/nn",
        "dmlpy/keras/README.md": "guide/keras",
        "dmlpy/torch/README.md": "guide/torch",
        "dmlpy/thinc/README.md": "guide/thinc",
        "dmlpy/dask/README.md": "guide/dask",
        "dmlpy/pydirectml/README.md": "guide/pydirectml",
    },
    "Commands": {
        "dmlpy/cli/README.md": "guide/command-line",
        "dmlpy/docs/guides/debugging.md": "guide/debugging",
        "dmlpy/docs/guides/profiling.md": "guide/profiling",
        "dmlpy/bench/README.md": "guide/bench",
        "dmlpy/bench/records/README.md": "guide/records",
        "dmlpy/conformance/README.md": "guide/conformance",
    },
    "Project": {
        "dmlpy/README.md": "guide/architecture",
        "dmlpy/docs/guides/glossary.md": "guide/glossary",
        "dmlpy/docs/guides/promises.md": "guide/promises",
        "dmlpy/devices/cpu/README.md": "guide/cpu-kernels",
        "raw_kernels/README.md": "guide/raw-kernels",
        "schemas/README.md": "guide/schemas",
        ".github/CHANGELOG.md": "guide/changelog",
        ".github/CONTRIBUTING.md": "guide/contributing",
        ".github/SECURITY.md": "guide/security",
        ".github/CODE_OF_CONDUCT.md": "guide/conduct",
    },
}
"""The files that become documents, by the captions of the site's contents and in their order."""
PAGES: Mapping[str, str] = {path: document for pages in SECTIONS.values() for path, document in pages.items()}
"""The document of each file."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*$", re.MULTILINE | re.DOTALL)


_MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NODE = re.compile(r'^\s*(\w+)\["([^"]+)"\]$', re.MULTILINE)
_CHAIN = re.compile(r"^\s*\w+(?: --> \w+)+$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A file that becomes a document.

    Attributes:
        path: the file, relative to the checkout's root.
        document: the document's name on the site.
        text: its Markdown, with the site's links.
        images: the files that it shows, by their names in the sources' folder.
    """

    path: str
    document: str
    text: str
    images: Mapping[str, Path]


def read_pages(root: Path = ROOT) -> tuple[list[Page], list[str]]:
    """Reads the existing pages and lists the missing paths: an installed wheel has neither examples nor the pages on contributing.

    The README of a wheel is the text in its metadata.
    """
    texts = {path: _text(file) for path in PAGES if (file := _file(path, root)).is_file()}
    if "README.md" not in texts and (readme := _installed_readme()):
        texts["README.md"] = readme
    pages = [_page(path, texts[path], texts, root) for path in PAGES if path in texts]
    return pages, [path for path in PAGES if path not in texts]


def _file(path: str, root: Path) -> Path:
    """A file of the checkout. In a wheel, `raw_kernels` and `schemas` are folders of the package."""
    return next((file for file in (root / path, root / "dmlpy" / path) if file.is_file()), root / path)


def _text(path: Path) -> str:
    return executed(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")


def _installed_readme() -> str:
    try:
        return str(metadata("dmlpy").json.get("description", ""))
    except PackageNotFoundError:
        return ""


def _page(path: str, text: str, known: Iterable[str], root: Path) -> Page:
    document = PAGES[path]
    images: dict[str, Path] = {}

    def relinked(match: re.Match[str]) -> str:
        bang, label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        address, hash_, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), address))
        if file in known:
            there = posixpath.relpath(f"{PAGES[file]}.md", posixpath.dirname(document) or ".")
            return f"[{label}]({there}{hash_}{anchor})"
        if bang and (image := _file(file, root)).is_file():
            name = f"images/{file.replace('/', '-')}"
            images[name] = image
            return f"![{label}]({posixpath.relpath(name, posixpath.dirname(document) or '.')})"
        # A file of the checkout without a page on the site: show its name, which is often the label.
        return label if file in label else f"{label} ({code(file)})"

    return Page(path, document, _MERMAID.sub(_drawn, _outside_fences(text, relinked)), images)


def _drawn(diagram: re.Match[str]) -> str:
    """Draws a Mermaid diagram without scripts: boxes from top to bottom if it is one chain, else its text."""
    labels, chains = dict(_NODE.findall(diagram[1])), _CHAIN.findall(diagram[1])
    order = chains[0].split(" --> ") if len(chains) == 1 else []
    if sorted(name.strip() for name in order) != sorted(labels):
        return f"```text\n{diagram[1]}```"
    boxes = "".join(f"<li>{html.escape(labels[name.strip()])}</li>" for name in order)
    return f'<ol class="dmlpy-chain">{boxes}</ol>'


def _outside_fences(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    parts, end = [], 0
    for fenced in _FENCED.finditer(text):
        parts += [_LINK.sub(replace, text[end : fenced.start()]), fenced[0]]
        end = fenced.end()
    return "".join([*parts, _LINK.sub(replace, text[end:])])
