"""The programs, tests and threads that facts are read from, each at one version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Source:
    """One version of a program, or one collection of threads.

    Attributes:
        key: the name that facts refer to it by.
        name: the name with the version for people: `ONNX Runtime 1.25`.
        repository: `owner/name` on GitHub, or empty.
        commit: the commit that was read, or empty where files name their own.
        date: the date of that commit, or empty.
        about: describes the program and how it uses DirectML.
    """

    key: str
    name: str
    repository: str
    commit: str
    date: str
    about: str


def read(path: Path) -> dict[str, Any]:
    """The tables of a data file. The reader is imported here: most processes see no undocumented type, and read none."""
    import tomllib

    return tomllib.loads(path.read_text("utf-8"))


@cache
def sources() -> Mapping[str, Source]:
    """All sources by key."""
    data = read(Path(__file__).with_name("sources.toml"))
    return {
        key: Source(key, row["name"], row.get("repository", ""), row.get("commit", ""), row.get("date", ""), row["about"])
        for key, row in data.items()
    }
