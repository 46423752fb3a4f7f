"""The programs, tests and threads that facts are read from, each at one version."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

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
        about: what it is and how it uses DirectML.
    """

    key: str
    name: str
    repository: str
    commit: str
    date: str
    about: str


@cache
def sources() -> Mapping[str, Source]:
    """All sources by key."""
    data = tomllib.loads(resources.files("dmlpy.evidence").joinpath("sources.toml").read_text("utf-8"))
    return {
        key: Source(key, row["name"], row.get("repository", ""), row.get("commit", ""), row.get("date", ""), row["about"])
        for key, row in data.items()
    }
