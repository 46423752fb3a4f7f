"""The CUDA sources as the compiler gets them: one self-contained text for each file of `raw_kernels/`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from dmlpy.debugging import SOURCES
from dmlpy.devices.persistence.image_store import cache_directory
from dmlpy.system.files import write_text

MACHINE_HEADER = "common/machine.cuh"
MACHINE_BEGIN = "// begin common/machine.cuh\n"
"""The line before the expanded machine header, in every text; to run the kernels elsewhere, replace the text up to `MACHINE_END`."""
MACHINE_END = "// end common/machine.cuh\n"

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]+"([^"]+)"[ \t]*\n?')


@cache
def directory() -> Path:
    """The folder of the sources: inside the installed package, or next to it in a source tree.

    Raises:
        FileNotFoundError: neither place exists, so the installation is broken.
    """
    package = Path(__file__).resolve().parents[2]
    for place in (package / "raw_kernels", package.parent / "raw_kernels"):
        if (place / MACHINE_HEADER).is_file():
            return place
    raise FileNotFoundError(f"raw_kernels/ is neither in {package} nor beside it")


@cache
def read(file: str) -> str:
    """The text of a source with its includes expanded, each only at its first occurrence.

    `#line` directives keep file names and line numbers in the compiler's messages. The machine header is between
    `MACHINE_BEGIN` and `MACHINE_END`.
    """
    return _expand(file, set())


def save_expanded(file: str) -> None:
    """Writes the text that the compiler gets to the folder of compiled kernels, and logs where: for `DMLPY_DEBUG=sources`."""
    folder = cache_directory()
    if folder is None:
        SOURCES.debug("%s: not written, there is no folder of compiled kernels: set DMLPY_CACHE_DIR", file)
        return
    path = folder / "sources" / file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, read(file))
    except OSError as error:
        SOURCES.debug("%s: not written: %s", file, error)
    else:
        SOURCES.debug("%s: written to %s", file, path)


def _expand(file: str, seen: set[str]) -> str:
    seen.add(file)
    parts = [f'#line 1 "{file}"\n']
    for number, line in enumerate((directory() / file).read_text(encoding="utf-8").splitlines(keepends=True), 1):
        include = _INCLUDE.fullmatch(line)
        if line.strip() == "#pragma once":
            parts.append("\n")
        elif include is None:
            parts.append(line)
        elif include[1] in seen:
            parts.append("\n")
        else:
            text = _expand(include[1], seen)
            if include[1] == MACHINE_HEADER:
                text = MACHINE_BEGIN + text + MACHINE_END
            parts += [text, f'#line {number + 1} "{file}"\n']
    return "".join(parts)
